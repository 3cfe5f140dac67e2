"""Two worker processes visit the rows: certificates as in memory, and errors that say where."""

import importlib
import os
import threading
import uuid
from collections import Counter
from functools import partial

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dask.sizeof import sizeof
from distributed import Client, Future, futures_of, get_task_stream
from patience import SECONDS, until
from same_certificates import assert_same, cut, some_problem
from sklearn.tree import DecisionTreeClassifier
from slow_rows import HeldBack, slowly
from tiers import mostly_slow
from two_workers import watching

import flipproof
from flipproof import Adversary
from flipproof.core.powers import Rights
from flipproof.runtime.progress import ProgressLine
from flipproof.streaming import RowBlocks, StreamingKernelClassifier, StreamingRidgeClassifier
from flipproof.streaming import dask_cluster as on_dask
from flipproof.streaming.passes import Visit
from flipproof.streaming.voting import BlockRights, Tally

N, K = 240, 5
X, y, Z = some_problem(N, K, 3)
TRUSTED = np.arange(N) % 4 == 0
WHO = np.array(["ann", "bob", "christine"])[np.arange(N) % 7 % 3]
NAMES = [f"x{number}" for number in range(K)]


@pytest.fixture(scope="module")
def memory():
    return flipproof.CertifiedRidgeClassifier().fit(X, y)


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param((N, K), marks=pytest.mark.slow),
        pytest.param((50, 2), marks=pytest.mark.slow),
        ((0, 100, 0, 1, 139, 0), K),
    ],
)
def test_arrays(client, memory, chunks):
    rows = da.from_array(X, chunks=chunks)
    model = StreamingRidgeClassifier().fit(rows, da.from_array(y, chunks=70), trusted=TRUSTED, groups=WHO)
    for method in ("exact", "tight"):
        wanted = memory.certify(Z, method, Adversary(trusted=TRUSTED, groups=WHO))
        assert_same(model.certify(da.from_array(Z, chunks=5), method), wanted, same_adversary=False)
    one_way = Adversary(trusted=~TRUSTED, groups=np.arange(N) % 9, allowed=[(0, 1)])
    assert_same(model.certify(Z, adversary=one_way), memory.certify(Z, adversary=one_way))
    np.testing.assert_array_equal(model.predict(Z), memory.predict(Z))
    np.testing.assert_array_equal(model.decision_function(Z), memory.decision_function(Z))


@pytest.mark.slow
def test_chunks_of_unknown_size(client, memory):
    rows = da.from_array(X, chunks=(90, 3))
    rows, labels = (one[rows[:, 0] < np.inf] for one in (rows, da.from_array(y, chunks=90)))
    assert_same(StreamingRidgeClassifier().fit(rows, labels).certify(Z, "kl"), memory.certify(Z, "kl"))


@pytest.mark.slow
def test_data_frames(client):
    words = np.array(["no", "perhaps", "yes"])[y]
    table = pd.DataFrame(X, columns=NAMES).assign(label=words, checked=TRUSTED, who=WHO)
    rows = dd.from_pandas(table, npartitions=5)
    model = StreamingRidgeClassifier().fit(rows, "label", trusted="checked", groups="who")
    memory = flipproof.CertifiedRidgeClassifier().fit(X, words)
    wanted = memory.certify(Z, adversary=Adversary(trusted=TRUSTED, groups=WHO))
    in_dask = dd.from_pandas(pd.DataFrame(Z, columns=NAMES), npartitions=2)
    assert_same(model.certify(in_dask), wanted, same_adversary=False)


def test_files(client, memory, tmp_path):
    for number, (rows, labels, trusted) in enumerate(cut([70, 0, 1, 100], X, y, TRUSTED)):
        columns = {name: rows[:, i] for i, name in enumerate(NAMES)}
        pq.write_table(pa.table({**columns, "label": labels, "checked": trusted}), tmp_path / f"{number}.parquet")
        for kind, column in (("X", rows), ("y", labels)):
            (tmp_path / kind).mkdir(exist_ok=True)
            np.save(tmp_path / kind / f"{number}.npy", column)
    npy = StreamingRidgeClassifier().fit(tmp_path / "X", tmp_path / "y", client=client)
    assert_same(npy.certify(Z), memory.certify(Z))
    parquet = StreamingRidgeClassifier().fit(tmp_path, "label", trusted="checked", client=client)
    wanted = memory.certify(Z, adversary=Adversary(trusted=TRUSTED))
    assert_same(parquet.certify(pd.DataFrame(Z, columns=NAMES)), wanted, same_adversary=False)
    mapped = np.load(tmp_path / "X" / "0.npy", mmap_mode="r")
    found = StreamingRidgeClassifier().fit(mapped, y[:70], client=client).certify(Z)
    assert_same(found, flipproof.CertifiedRidgeClassifier().fit(X[:70], y[:70]).certify(Z))


@pytest.mark.slow
def test_kernel(client):
    wanted = flipproof.CertifiedKernelClassifier(n_components=20).fit(X, y).certify(Z)
    for given in [(da.from_array(X, chunks=(100, 2)), y), (cut([9, 0, 100], X, y),)]:
        assert_same(StreamingKernelClassifier(n_components=20).fit(*given, client=client).certify(Z), wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("blocks", "in_memory", "kept_share"),
    mostly_slow(
        [
            (StreamingRidgeClassifier, flipproof.CertifiedRidgeClassifier, 0.3),
            (StreamingKernelClassifier, flipproof.CertifiedKernelClassifier, 0.0),
            (StreamingRidgeClassifier, flipproof.CertifiedRidgeClassifier, 0.0),
            (StreamingKernelClassifier, flipproof.CertifiedKernelClassifier, 0.3),
        ],
        fast=(0,),
    ),
)
def test_reference_and_clip(client, monkeypatch, blocks, in_memory, kept_share):
    """Rows in Dask and in blocks, of any size, which the workers keep or not; added, removed and replaced."""
    monkeypatch.setattr(on_dask, "KEPT_SHARE", kept_share)
    rows, reference = X.copy(), some_problem(60, K, 3, seed=7)[0]
    rows[100:103], reference[5:8] = 1e308, rows[:3]
    adversaries = [
        Adversary(changes="rows"),
        Adversary(changes="insertions", trusted=TRUSTED),
        Adversary(changes="rows", trusted=TRUSTED, groups=WHO),
        Adversary(changes="removals", groups=WHO),
    ]
    for clip in (None, 0.6):
        memory = in_memory(clip=clip, n_jobs=1).fit(rows, y, reference=reference)
        for given in [(da.from_array(rows, chunks=(100, 2)), y), (cut([9, 0, 100], rows, y),)]:
            model = blocks(clip=clip).fit(*given, reference=reference, client=client)
            assert model.assumptions_ == memory.assumptions_
            np.testing.assert_array_equal(model.decision_function(Z), memory.decision_function(Z), strict=True)
            for adversary in adversaries:
                assert_same(model.certify(Z, adversary=adversary), memory.certify(Z, adversary=adversary))


@pytest.mark.slow
@pytest.mark.parametrize("kept_share", mostly_slow([0.3, 0.0], fast=(0,)))
def test_rows_join_and_leave(client, monkeypatch, kept_share):
    """Workers that keep rows keep those that join, and no longer those that leave."""
    monkeypatch.setattr(on_dask, "KEPT_SHARE", kept_share)
    reference, gone = some_problem(60, K, 3, seed=7)[0], np.arange(N)[3::8]
    kept = np.delete(np.arange(N), gone)
    memory = flipproof.CertifiedRidgeClassifier(n_jobs=1).fit(X[kept], y[kept], reference=reference)
    in_dask = da.from_array(X, chunks=(100, 2))
    for first, more in [
        ((in_dask[:150], y[:150]), (in_dask[150:], y[150:])),
        ((cut([9, 0, 100], X[:150], y[:150]),), (in_dask[150:], y[150:])),
        ((in_dask[:150], y[:150]), (cut([9, 0], X[150:], y[150:]),)),
    ]:
        model = StreamingRidgeClassifier().fit(*first, reference=reference, client=client)
        model.partial_fit(*more).forget(gone)
        assert (model._kept is None) == (kept_share == 0)
        for changes in ("labels", "rows"):
            adversary = Adversary(changes, groups=WHO[kept])
            assert_same(model.certify(Z, adversary=adversary), memory.certify(Z, adversary=adversary))
        assert_same(model.certify(Z), memory.certify(Z))


@pytest.mark.slow
def test_priors(client, monkeypatch):
    """Workers send trusted rows to the client, or keep them with their trust."""
    prior, others = DecisionTreeClassifier(max_depth=3, random_state=0), np.arange(N) % 7 == 0
    adversaries = [None, Adversary(trusted=others), Adversary(groups=WHO)]
    for kept_share in (0.3, 0.0):
        monkeypatch.setattr(on_dask, "KEPT_SHARE", kept_share)
        for reference in ({}, {"reference": some_problem(60, K, 3, seed=7)[0]}):
            memory = flipproof.CertifiedRidgeClassifier(prior=prior).fit(X, y, trusted=TRUSTED, **reference)
            marked = [(*one, None) for one in cut([9, 0, 100], X, y, TRUSTED)]
            for given, named in [((da.from_array(X, chunks=(100, 2)), y), {"trusted": TRUSTED}), ((marked,), {})]:
                model = StreamingRidgeClassifier(prior=prior).fit(*given, **named, client=client, **reference)
                assert model.assumptions_ == memory.assumptions_
                for adversary in adversaries:
                    assert_same(model.certify(Z, adversary=adversary), memory.certify(Z, adversary=adversary))
                np.testing.assert_array_equal(model.predict(da.from_array(Z, chunks=5)), memory.predict(Z))


@pytest.mark.few(1)
@pytest.mark.parametrize("adversary", [None, Adversary(groups=WHO)])
def test_clip_without_a_reference(client, adversary):
    memory = flipproof.CertifiedRidgeClassifier(clip=0.6).fit(X, y)
    model = StreamingRidgeClassifier(clip=0.6).fit(da.from_array(X, chunks=(70, K)), y)
    for method in ("exact", "tight"):
        assert_same(model.certify(Z, method, adversary), memory.certify(Z, method, adversary))
    np.testing.assert_array_equal(model.predict(Z), memory.predict(Z))


def test_a_reference_in_dask(client):
    with pytest.raises(ValueError, match=r"needs the reference in memory. Got Array instead: load it"):
        StreamingRidgeClassifier().fit([(X, y)], reference=da.from_array(X))


class TestErrorsOfTasks:
    def test_nan_in_block_17(self, client):
        rows = X.copy()
        rows[17 * 10 + 2, 3] = np.nan
        message = "^block 17, rows 0 to 9 has NaN in its row 2, column 3: omit these rows, or fill in a number"
        with pytest.raises(ValueError, match=message):
            StreamingRidgeClassifier().fit(da.from_array(rows, chunks=(10, K)), y)

    def test_files_that_change(self, client, tmp_path, monkeypatch):
        monkeypatch.setattr(on_dask, "KEPT_SHARE", 0.0)
        folders = tmp_path / "X", tmp_path / "y"
        for folder, column in zip(folders, (X, y), strict=True):
            folder.mkdir()
            np.save(folder / "0.npy", column[:100])
            np.save(folder / "1.npy", column[100:])
        model = StreamingRidgeClassifier().fit(*folders, client=client)
        np.save(tmp_path / "X" / "1.npy", 0.9 * X[100:])
        with pytest.raises(ValueError, match=r"1.npy', rows 0 to 139: the rows have changed since"):
            model.certify(Z)
        np.save(tmp_path / "X" / "1.npy", 9 * X[100:])
        with pytest.raises(ValueError, match=r"1.npy', rows 0 to 139 has changed since the model was fitted: fit it"):
            model.certify(Z)
        (tmp_path / "X" / "1.npy").unlink()
        with pytest.raises(OSError, match=r"^cannot read '.*1.npy': No such file or directory"):
            model.certify(Z)

    def test_files_that_change_while_workers_keep_what_they_need(self, client, memory, tmp_path):
        """The certificates are those of the rows that the model was fitted to."""
        folders = tmp_path / "X", tmp_path / "y"
        for folder, column in zip(folders, (X, y), strict=True):
            folder.mkdir()
            np.save(folder / "0.npy", column)
        model = StreamingRidgeClassifier().fit(*folders, client=client)
        np.save(folders[1] / "0.npy", (y + 1) % 3)
        assert_same(model.certify(Z), memory.certify(Z))
        np.save(folders[1] / "0.npy", y[:1])
        assert_same(model.certify(Z), memory.certify(Z))

    def test_a_module_that_workers_do_not_have(self, client):
        rows = RowBlocks.from_blocks([(X, y)]).map(partial(importlib.import_module, "no_such_module"))
        with pytest.raises(ImportError, match=r"^A worker does not have no_such_module: pip install"):
            StreamingRidgeClassifier().fit(rows, client=client)


@pytest.mark.slow
@pytest.mark.parametrize("kept_share", mostly_slow([0.3, 0.0], fast=(0,)))
def test_work_is_spread_over_all_workers(client, monkeypatch, kept_share):
    """Rows that lie on no worker are for all: none gets more because it was the first to have what all tasks need."""
    monkeypatch.setattr(on_dask, "KEPT_SHARE", kept_share)
    holders, share = [], on_dask._on_all_workers

    def share_and_look(client, task):
        task = share(client, task)
        holders.extend(client.who_has(futures_of(task)).values())
        return task

    monkeypatch.setattr(on_dask, "_on_all_workers", share_and_look)
    rows = RowBlocks.from_blocks(cut([24] * 9, X, y)).map(slowly)
    client.amm.stop()  # every two seconds, it removes copies that no task needs at that very moment
    try:
        with get_task_stream(client) as stream:
            StreamingRidgeClassifier().fit(rows, client=client).certify(Z)
    finally:
        client.amm.start()
    assert len(holders) > 5
    assert all(set(workers) == set(client.nthreads()) for workers in holders)
    visits = Counter((one["key"].rpartition("-")[0], one["worker"]) for one in stream.data)
    passes = {"surveying-the-rows": 1, "fitting": 3, "summing-the-labels": 1, "counting-votes": 1}
    for name, times in passes.items():
        done = [visits[name, worker] for worker in client.nthreads()]
        assert sum(done) == times * len(rows.parts)
        assert min(done) >= 1  # how many more depends on how much else the processor has to do


def test_dask_knows_how_large_kept_rows_and_findings_are(client):
    """It moves what is small, and keeps the rest where it is."""
    model = StreamingRidgeClassifier().fit(cut([100], X, y), client=client)
    sizes = client.run_on_scheduler(lambda dask_scheduler: {key: t.nbytes for key, t in dask_scheduler.tasks.items()})
    kept = [sizes[future.key] for future in futures_of(list(model._kept.parts))]
    assert all(size >= n_rows * K * 4 for size, n_rows in zip(kept, [100, 140], strict=True))
    voters = model._voters(model._rule.products(Z))
    tally = Tally(
        voters, model._count(model._rows_against(None)[1]), BlockRights(Rights(np.zeros((3, 3), bool)), False)
    )
    visit = Visit(tally)
    found = visit(RowBlocks.from_arrays(X, y).parts[0])
    counted = found.found.counted
    assert sizeof(found) > counted.counts.nbytes + counted.cells.nbytes
    assert sizeof(visit) > voters.votes.coefficients.nbytes


class TestNothingIsLeftOnTheCluster:
    """Not even while somebody keeps the traceback, as an interactive session does, or has yet to collect garbage."""

    @pytest.fixture
    def own_client(self, cluster):
        """A client that nothing else has been done with."""
        with Client(cluster, set_as_default=False) as client:
            yield client

    def assert_nothing_left(self, cluster, client):
        until(lambda: not cluster.scheduler.clients[client.id].wants_what)

    def test_after_an_interrupt(self, own_client, cluster, monkeypatch, tmp_path):
        function = HeldBack(tmp_path)
        rows = RowBlocks.from_blocks(cut([5] * (N // 5 - 1), X, y)).map(function)
        begun, before, keys = threading.Event(), set(cluster.scheduler.tasks), []

        def interrupted(future, timeout=None):
            assert begun.wait(SECONDS)
            keys.extend(key for key in list(cluster.scheduler.tasks) if key not in before)
            raise KeyboardInterrupt

        with watching(cluster, lambda event: begun.set()):
            monkeypatch.setattr(Future, "result", interrupted)
            with pytest.raises(KeyboardInterrupt) as caught:
                StreamingRidgeClassifier().fit(rows, client=own_client)
            monkeypatch.undo()
        assert caught.tb is not None
        self.assert_nothing_left(cluster, own_client)
        assert len(keys) > len(rows.parts)
        until(lambda: not set(keys) & set(cluster.scheduler.tasks))
        function.let_go()

    def test_after_an_interrupt_while_the_workers_copy_what_all_need(self, own_client, cluster, monkeypatch):
        def interrupted(self, futures, **options):
            assert cluster.scheduler.clients[own_client.id].wants_what
            raise KeyboardInterrupt

        monkeypatch.setattr(Client, "replicate", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            StreamingRidgeClassifier().fit([(X, y)], client=own_client)
        assert caught.tb is not None
        self.assert_nothing_left(cluster, own_client)

    def test_after_an_error_in_a_task(self, own_client, cluster):
        # of a single part, so that the task which fails is the one that needs what all workers hold
        rows = RowBlocks.from_blocks([(X, y)]).map(partial(importlib.import_module, "no_such_module"))
        with pytest.raises(ImportError) as caught:
            StreamingRidgeClassifier().fit(rows, client=own_client)
        assert caught.tb is not None
        self.assert_nothing_left(cluster, own_client)


def test_progress_counts_the_parts_of_all_workers(client, capsys):
    model = StreamingRidgeClassifier(verbose=1).fit(da.from_array(X, chunks=(50, K)), y)
    model.certify(Z)
    said = capsys.readouterr()
    assert said.out == ""
    passes = ["Surveying the rows", *["Fitting"] * 3, "Rotating the rows", "Summing the labels", "Counting votes"]
    assert said.err.splitlines() == [f"{one} [{'#' * 20}] 5 of 5 parts" for one in passes]


def test_parts_that_are_visited_twice_are_counted_once(capsys):
    class Scheduler:
        status = "running"

        def subscribe_topic(self, topic, handler):
            self.handler = handler

        def unsubscribe_topic(self, topic):
            self.handler = None

    said, run = Scheduler(), uuid.uuid4().hex
    with on_dask._events(said, run, ProgressLine(2, 1, "Visiting")):
        for number, of_run in [(0, run), (0, run), (1, "another run"), (0, run)]:
            said.handler((0.0, {"run": of_run, "part": number}))
        assert capsys.readouterr().err == ""
        said.handler((0.0, {"run": run, "part": 1}))
        assert capsys.readouterr().err == f"Visiting [{'#' * 20}] 2 of 2 parts\n"
    assert said.handler is None


def test_a_worker_of_another_version(client, monkeypatch):
    here = os.getpid()
    monkeypatch.setattr(on_dask.importlib.metadata, "version", lambda name: "9" if os.getpid() == here else "8")
    with pytest.raises(ImportError, match=r"^The worker tcp://127.0.0.1:\d+ has flipproof 8, but this process has 9"):
        StreamingRidgeClassifier().fit([(X, y)], client=client)


@pytest.mark.slow
def test_a_closed_client(cluster):
    with Client(cluster, set_as_default=False) as client:
        model = StreamingRidgeClassifier().fit([(X, y)], client=client)
    with pytest.raises(ConnectionError, match=r"^The client that the model was fitted with is closed: fit it again"):
        model.certify(Z)
