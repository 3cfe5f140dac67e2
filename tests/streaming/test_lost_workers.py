"""Workers are killed by their process id, and nannies start others: certificates as in memory, or a clear line."""

import gc
import os
import signal
import threading

import dask.array as da
import numpy as np
import pytest
from dask.delayed import delayed
from distributed import Client, wait
from patience import SECONDS, until
from same_certificates import assert_same, cut, some_problem
from slow_rows import CopiedOnce, HeldBack, deadly, slowly
from tiers import mostly_slow
from two_workers import watching

import flipproof
from flipproof import Adversary
from flipproof.streaming import RowBlocks, StreamingRidgeClassifier
from flipproof.streaming import dask_cluster as on_dask

N, K = 240, 5
X, y, Z = some_problem(N, K, 3)
WHO = np.arange(N) % 7


class WithLock:
    """Cannot be pickled at all."""

    def __init__(self):
        self.lock = threading.Lock()

    def __call__(self, X):
        return X


# connections to a worker that was killed are closed by nobody but the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in.*socket:pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def no_open_connections():
    yield
    gc.collect()


@pytest.fixture(scope="module")
def memory():
    return flipproof.CertifiedRidgeClassifier().fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize(("step", "kept_share"), mostly_slow([("fit", 0.3), ("certify", 0.0)], fast=(1,)))
def test_a_worker_killed_in_mid_run(client, cluster, memory, monkeypatch, capsys, step, kept_share):
    monkeypatch.setattr(on_dask, "KEPT_SHARE", kept_share)
    rows = RowBlocks.from_blocks(cut([12] * (N // 12 - 1), X, y)).map(slowly)
    model = StreamingRidgeClassifier(verbose=1)
    process, killed = next(iter(client.run(os.getpid).values())), []

    def kill(event):
        if not killed:
            killed.append(process)
            os.kill(process, signal.SIGKILL)

    if step == "certify":
        model.fit(rows, client=client)
    with watching(cluster, kill):
        if step == "fit":
            model.fit(rows, client=client)
        found = model.certify(Z, adversary=Adversary(groups=WHO))
    assert killed
    assert_same(found, memory.certify(Z, adversary=Adversary(groups=WHO)), same_adversary=False)
    # what the lost worker had visited is visited again, and counted once
    counts = [int(line.split("] ")[1].split(" of ")[0]) for line in capsys.readouterr().err.splitlines()]
    assert counts[-1] == max(counts) == len(rows.parts)


@pytest.mark.slow
def test_a_worker_killed_that_holds_rows(client, memory):
    rows, labels = da.from_array(X, chunks=(30, K)).persist(), da.from_array(y, chunks=30).persist()
    wait([rows, labels])
    model = StreamingRidgeClassifier().fit(rows, labels)
    lost, process = next(iter(client.run(os.getpid).items()))
    os.kill(process, signal.SIGKILL)
    # at once, while it is still believed to be there
    assert_same(model.certify(Z), memory.certify(Z))
    until(lambda: lost not in client.nthreads())


@pytest.mark.slow
@pytest.mark.parametrize("lost", mostly_slow(["the one that has it", "all"], fast=(0,)))
def test_workers_killed_while_they_copy_what_all_need(client, memory, monkeypatch, lost):
    processes, replicate = client.run(os.getpid), Client.replicate

    def kill_and_replicate(self, futures, **options):
        monkeypatch.undo()
        [holders] = self.who_has(futures).values()
        for worker in holders if lost == "the one that has it" else processes:
            os.kill(processes[worker], signal.SIGKILL)
        return replicate(self, futures, **options)

    monkeypatch.setattr(Client, "replicate", kill_and_replicate)
    rows = RowBlocks.from_blocks(cut([60] * 3, X, y))
    assert_same(StreamingRidgeClassifier().fit(rows, client=client).certify(Z), memory.certify(Z))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "reason"),
    [(CopiedOnce(), "cannot pickle a session"), (WithLock(), "cannot pickle '_thread.lock' object")],
)
def test_objects_that_cannot_be_pickled_are_named(client, function, reason):
    rows = RowBlocks.from_blocks(cut([60] * 3, X, y)).map(function)
    name = type(function).__name__
    message = rf"^Copies of <.*{name} object at .*> must be picklable: .*{reason}.*$"
    with pytest.raises(ValueError, match=message):
        StreamingRidgeClassifier().fit(rows, client=client)
    assert len(client.nthreads()) == 2


@pytest.mark.slow
def test_a_client_that_is_closed_in_mid_run(cluster, tmp_path):
    closed, begun, function = Client(cluster, set_as_default=False), threading.Event(), HeldBack(tmp_path)
    rows = RowBlocks.from_blocks(cut([5] * (N // 5 - 1), X, y)).map(function)
    closing = threading.Thread(target=lambda: begun.wait(SECONDS) and closed.close())
    closing.start()
    with (
        watching(cluster, lambda event: begun.set()),
        pytest.raises(ConnectionError, match=r"^The scheduler at .* was lost, or the client was closed: connect"),
    ):
        StreamingRidgeClassifier().fit(rows, client=closed)
    function.let_go()
    closing.join()


@pytest.mark.slow
def test_a_worker_that_dies_of_the_rows(client, cluster, monkeypatch):
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)
    rows = RowBlocks.from_blocks([(X, y)])
    message = r"^A worker died at one task, most likely out of memory: .*\.$"
    with pytest.raises(ConnectionError, match=message):
        StreamingRidgeClassifier().fit(rows.map(deadly), client=client)
    StreamingRidgeClassifier().fit(rows, client=client)


@pytest.mark.slow
def test_scattered_rows_lost_with_their_worker(client, monkeypatch):
    """Scattered rows are lost with the worker that has them; persisted ones would be made again."""
    monkeypatch.setattr(on_dask, "KEPT_SHARE", 0.0)
    [held] = client.scatter([X])
    model = StreamingRidgeClassifier().fit(da.from_delayed(delayed(held), shape=X.shape, dtype=X.dtype), y)
    [[holder]] = client.who_has([held]).values()
    os.kill(client.run(os.getpid)[holder], signal.SIGKILL)
    until(lambda: holder not in client.nthreads())
    with pytest.raises(
        ConnectionError, match=r"^The work on the cluster at tcp://127.0.0.1:\d+ was cancelled there: .*$"
    ):
        model.certify(Z)
