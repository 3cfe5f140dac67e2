"""Schedulers without workers, with the wrong ones, or gone: one line, and soon."""

import os
import signal
import subprocess
import sys
import sysconfig
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path

import dask
import dask.array as da
import pytest
from distributed import Client
from patience import SECONDS, until
from same_certificates import assert_same, cut, some_problem
from slow_rows import slowly
from two_workers import local_cluster

import flipproof
from flipproof.streaming import RowBlocks, StreamingRidgeClassifier
from flipproof.streaming import dask_cluster as on_dask

N = 120
X, y, Z = some_problem(N, 4, 3)


@contextmanager
def process(*command):
    """Run a Dask program as long as needed, and end it by its own id."""
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield running
    finally:
        running.kill()
        running.wait(SECONDS)


@contextmanager
def worker(address, folder, *python):
    options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder))
    program = python or (sys.executable, "-m", "distributed.cli.dask_worker")
    with process(*program, address, "--host", "127.0.0.1", *options) as running:
        yield running


@pytest.mark.slow
def test_no_workers():
    with local_cluster(0) as cluster, Client(cluster) as client:
        message = (
            r"^The scheduler at tcp://127.0.0.1:\d+ has no workers: start some with 'dask worker tcp://.*', or wait"
        )
        with pytest.raises(ValueError, match=message):
            StreamingRidgeClassifier().fit([(X, y)], client=client)
        with pytest.raises(ValueError, match=message):
            StreamingRidgeClassifier().fit(da.from_array(X, chunks=50), y)


@pytest.mark.slow
def test_a_worker_without_the_package(tmp_path):
    """Another interpreter, which finds all that is installed here but this package."""
    bare = tmp_path / "packages"
    bare.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "flipproof" not in entry.name:
            (bare / entry.name).symlink_to(entry)
    program = f"import sys; sys.path.append({str(bare)!r}); from distributed.cli.dask_worker import main; main()"
    with (
        local_cluster(0) as cluster,
        worker(cluster.scheduler_address, tmp_path, sys.executable, "-I", "-S", "-c", program),
        Client(cluster) as client,
    ):
        client.wait_for_workers(1, timeout=SECONDS)
        [address] = client.nthreads()
        with pytest.raises(ImportError) as caught:
            StreamingRidgeClassifier().fit([(X, y)], client=client)
        assert (
            str(caught.value) == f"The worker {address} does not have flipproof: pip install 'flipproof[dask]' there."
        )


@pytest.mark.slow
def test_rows_kept_by_a_lost_cluster():
    with local_cluster(1) as cluster, Client(cluster) as client:
        rows = client.persist(da.from_array(X, chunks=50))
        model = StreamingRidgeClassifier().fit(rows, y)
    for ask in (lambda: model.certify(Z), lambda: StreamingRidgeClassifier().fit(rows, y)):
        with pytest.raises(ConnectionError, match=r"^The rows were kept by a cluster that is no longer connected"):
            ask()


class TestLostScheduler:
    """A real scheduler in a process of its own, which is ended by its id."""

    @pytest.fixture
    def scheduler(self, tmp_path):
        """Yield the process, and a client of it."""
        place = tmp_path / "scheduler.json"
        options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(place))
        with ExitStack() as stack:
            stack.enter_context(dask.config.set({"distributed.comm.timeouts.connect": "30s"}))  # restored in the end
            program = (sys.executable, "-m", "distributed.cli.dask_scheduler")
            running = stack.enter_context(process(*program, *options))
            until(lambda: place.exists() and place.stat().st_size)
            client = stack.enter_context(Client(scheduler_file=str(place)))
            stack.enter_context(worker(client.scheduler.address, tmp_path))
            client.wait_for_workers(1, timeout=SECONDS)
            yield running, client

    def lose(self, running, client, how):
        """End the scheduler. Who looks for it gives up soon from now on, but not on one that is merely slow."""
        dask.config.set({"distributed.comm.timeouts.connect": "3s"})
        client.rpc.timeout = client._timeout = 3  # it has read the setting when it was made
        os.kill(running.pid, how)

    def assert_lost(self, address, ask):
        """Check that there is an error, and no endless wait for one."""
        caught = []

        def asking():
            try:
                ask()
            except BaseException as error:
                caught.append(error)

        thread = threading.Thread(target=asking, daemon=True)
        thread.start()
        thread.join(SECONDS)
        assert not thread.is_alive()
        [error] = caught
        assert type(error) is ConnectionError
        assert str(error) in (
            f"The scheduler at {address} was lost, or the client was closed: connect again and retry.",
            # if it had given up before it was asked
            "The client that the model was fitted with is closed: fit it again with an open one.",
        )
        return str(error)

    @pytest.mark.slow
    def test_before_certify(self, scheduler):
        running, client = scheduler
        model = StreamingRidgeClassifier().fit(cut([50], X, y), client=client)
        wanted, address = flipproof.CertifiedRidgeClassifier().fit(X, y).certify(Z), client.scheduler.address
        assert_same(model.certify(Z), wanted)
        self.lose(running, client, signal.SIGTERM)
        running.wait(SECONDS)
        self.assert_lost(address, lambda: model.certify(Z))
        self.assert_lost(address, lambda: model.certify(da.from_array(Z, chunks=5)))
        model._client = None  # rows that are not in Dask can be visited by this process
        assert_same(model.certify(Z), wanted)

    @pytest.mark.slow
    def test_in_mid_run(self, scheduler):
        running, client = scheduler
        rows = RowBlocks.from_blocks(cut([2] * (N // 2 - 1), X, y))
        with pytest.raises(ImportError, match=r"^The scheduler at .* cannot read the tasks: install flipproof"):
            StreamingRidgeClassifier().fit(rows.map(slowly), client=client)  # of a module that it does not find
        rows = rows.map(lambda X: __import__("time").sleep(0.03) or X)
        client.subscribe_topic(on_dask.TOPIC, lambda event: self.lose(running, client, signal.SIGKILL))
        said = self.assert_lost(client.scheduler.address, lambda: StreamingRidgeClassifier().fit(rows, client=client))
        assert "was lost" in said
        assert running.wait(SECONDS) == -signal.SIGKILL
