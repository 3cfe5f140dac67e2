"""Cost of rows that do not fit in memory, and of several processes. One command runs everything:

    python benchmarks/scale.py [--json results.json] [--only constants|ratios|large] [--folder DIR] [--rows N]

constants: seconds per training row of each pass, per vote, per byte added up, per task: the input of
`scale_simulation.py`. ratios: certificates with two workers of one thread compared with one worker, and with the
learner in memory with two threads, in the same run. large: rows in files, with two workers of 2 GiB each and with one
process of 1 GiB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import flipproof
from flipproof.core.engine import certify_counted
from flipproof.core.histograms import VoteCount
from flipproof.core.linalg import ColumnMoments, GramSums, _largest_coordinates
from flipproof.core.powers import Rights
from flipproof.streaming import Block, RowBlocks, StreamingRidgeClassifier
from flipproof.streaming.passes import Visit, labelled_sums, survey
from flipproof.streaming.voting import BlockRights, Tally, Voters

COLUMNS = 64
CLASSES = 2

#: Sizes of the comparison.
ROWS, TEST_ROWS, PARTS = 2_000_000, 500, 32

#: Sizes of the rows in files.
LARGE_ROWS, LARGE_TEST_ROWS, LARGE_FILES = 10_000_000, 50, 20
WORKER_MEMORY, PROCESS_MEMORY = 2 * 2**30, 2**30

REPEATS = 5

#: Rows of a part whose visits are timed, and number of repetitions.
PART_ROWS, SAMPLES = 125_000, 12


def say(text):
    print(text, file=sys.stderr, flush=True)


def make_rows(n, seed):
    """Return features and labels of two overlapping classes, with features of unequal variance."""
    rng = np.random.default_rng(seed)
    y = rng.integers(CLASSES, size=n)
    X = rng.standard_normal((n, COLUMNS), dtype=np.float32)
    X[:, :8] += 0.5 * y[:, None]
    X *= np.linspace(1, 4, COLUMNS, dtype=np.float32)
    return X, y


def test_rows(m):
    return make_rows(m, seed=10**6)[0]


def timed(task):
    start = time.perf_counter()
    result = task()
    return time.perf_counter() - start, result


def sampled(task, per, samples=SAMPLES):
    """Return several samples of the seconds of a task, divided by the amount of work."""
    task()
    return [timed(task)[0] / per for _ in range(samples)]


# --- constants ---------------------------------------------------------------------------------------------------


def constants(folder):
    """Measure the cost of each pass per row, on one thread."""
    X, y = make_rows(PART_ROWS, seed=0)
    block = Block("block 0", X, y)
    path = folder / "part.npy"
    np.save(path, X)
    model = StreamingRidgeClassifier(classes=range(CLASSES)).fit(RowBlocks.from_arrays(X, y))
    whitening, grid = model._whitening, model._whitening.grid
    found = {}
    with threadpool_limits(limits=1, user_api="blas"):
        stored = RowBlocks.from_npy(str(path), y)
        found["c_read"] = sampled(lambda: [Visit(_nothing)(part) for part in stored.parts], PART_ROWS)
        found["c_survey"] = sampled(lambda: survey(block), PART_ROWS)
        moments = partial(ColumnMoments.of, midpoint=grid.midpoint, exponent=grid.exponent)
        found["c_moments"] = sampled(lambda: moments(X), PART_ROWS)
        found["c_gram"] = sampled(lambda: GramSums.of(X, grid), PART_ROWS)
        found["c_rotate"] = sampled(lambda: whitening.basis(X), PART_ROWS)
        rotated = np.median(found["c_rotate"])
        largest = sampled(lambda: _largest_coordinates(X, grid, whitening.rotation), PART_ROWS)
        found["c_largest"] = [max(one - rotated, 0.0) for one in largest]
        sums = sampled(lambda: labelled_sums(block, whitening, model.classes_), PART_ROWS)
        found["c_leverage"] = [max(one - rotated, 0.0) for one in sums]
        products = model._rule.products(test_rows(TEST_ROWS))
        count = VoteCount(CLASSES, model.precision_, 10**8)
        anything = BlockRights(Rights(~np.eye(CLASSES, dtype=bool)), by_trust=False)
        tally = Tally(Voters(whitening, products, model.classes_), count, anything)
        votes = sampled(lambda: tally(block), PART_ROWS, samples=6)
        found["c_vote"] = [max(one - rotated, 0.0) / TEST_ROWS for one in votes]
        counted = tally(block).counted
        found["c_add"] = sampled(lambda: counted + counted, counted.counts.nbytes)
        found["c_eigen"] = sampled(lambda: np.linalg.eigh(np.cov(X[:1000].T)), 1)
        known = model._rows_against(None)[1]
        found["c_engine"] = sampled(lambda: _engine(counted, known.scope), TEST_ROWS)
    found |= _task_costs()
    say(f"histogram: {counted.counts.nbytes / TEST_ROWS:.0f} bytes per test row, of {count.bytes_per_row} at most")
    medians = {name: {"median": float(np.median(samples)), "samples": samples} for name, samples in found.items()}
    return {
        "constants": medians,
        "histogram bytes per test row": counted.counts.nbytes / TEST_ROWS,
        "at most": count.bytes_per_row,
    }


def _engine(counted, scope):
    histogram = counted.histogram(0, TEST_ROWS)
    certify_counted(histogram, np.zeros((TEST_ROWS, CLASSES), dtype=np.int64), "exact", [], scope)


def _nothing(visited):
    return 0


def _task_costs(n_tasks=2_000):
    """Return the seconds per task of the scheduler, and of the client that makes and sends the graph."""
    from flipproof.streaming.dask_cluster import Held, OnCluster, graph

    rows = RowBlocks.from_blocks([(np.zeros((1, 1)), np.zeros(1))] * n_tasks)
    submit, whole = [], []
    with cluster(2) as client:
        engine = OnCluster(client)
        engine.total(_nothing, rows, "nothing")
        for _ in range(5):
            seconds, _ = timed(lambda: engine.total(_nothing, rows, "nothing"))
            built, _ = timed(lambda: graph(_nothing, rows, "nothing", Held(client)))
            submit.append(built / (n_tasks * 4 / 3))
            whole.append(max(seconds - built, 0.0) / (n_tasks * 4 / 3))
    return {"c_submit": submit, "c_schedule": whole}


# --- ratios ------------------------------------------------------------------------------------------------------


@contextmanager
def cluster(n_workers, memory_limit="auto"):
    from distributed import Client, LocalCluster

    local = LocalCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=memory_limit,
    )
    with local, Client(local) as client:
        yield client


def dask_rows(n, parts):
    """Return rows that the workers generate, from the same seeds as those in memory."""
    import dask
    import dask.array as da

    size = n // parts
    made = [dask.delayed(make_rows, pure=True)(size, seed) for seed in range(parts)]
    X = da.concatenate([da.from_delayed(one[0], (size, COLUMNS), np.float32) for one in made])
    y = da.concatenate([da.from_delayed(one[1], (size,), np.int64) for one in made])
    return X, y


def ratios(n, m, parts):
    """Certify the same test rows with one worker, two workers, and in memory with two threads."""
    from distributed import wait

    Z, seconds, certificates, fits = test_rows(m), {}, {}, {}
    pieces = [make_rows(n // parts, seed) for seed in range(parts)]
    arrays = [np.concatenate(one) for one in zip(*pieces, strict=True)]
    memory = flipproof.CertifiedRidgeClassifier(classes=range(CLASSES), n_jobs=2)
    fits["in memory, two threads"], _ = timed(partial(memory.fit, *arrays))
    del pieces, arrays
    models = {"in memory, two threads": memory}
    with cluster(1) as one, cluster(2) as two:
        for name, client in (("one worker", one), ("two workers", two)):
            rows = client.persist(dask_rows(n, parts))
            wait(rows)
            models[name] = model = StreamingRidgeClassifier(classes=range(CLASSES))
            fits[name], _ = timed(partial(model.fit, *rows, client=client))
        for repeat in range(REPEATS + 1):
            for name, model in models.items():
                took, certificates[name] = timed(partial(model.certify, Z))
                say(f"{name}: {took:.2f} s")
                if repeat:  # the first time warms up
                    seconds.setdefault(name, []).append(took)
    same = all(
        np.array_equal(getattr(one, field), getattr(certificates["one worker"], field))
        for one in certificates.values()
        for field in ("prediction", "radius", "rival", "margin")
    )
    return {
        "rows": n,
        "test rows": m,
        "parts": parts,
        "seconds of fit": fits,
        "seconds of certify": seconds,
        "two workers to one, throughput": median_ratio(seconds["one worker"], seconds["two workers"]),
        "two workers to memory, time": median_ratio(seconds["two workers"], seconds["in memory, two threads"]),
        "all certificates are the same": bool(same),
    }


def median_ratio(some, others):
    """Return the median ratio of times that were measured one right after the other, since a machine's speed drifts."""
    return float(np.median(np.divide(some, others)))


# --- large -------------------------------------------------------------------------------------------------------


def write_files(folder, n, files):
    """Write the rows of each file as NPY, unless the files exist."""
    for seed in range(files):
        path = folder / f"X-{seed:02d}.npy"
        if not path.exists():
            X, y = make_rows(n // files, seed)
            np.save(folder / f"y-{seed:02d}.npy", y.astype(np.int8))
            np.save(path, X)


def large(folder, n, files):
    write_files(folder, n, files)
    n_bytes = sum(path.stat().st_size for path in folder.glob("X-*.npy"))
    found = {"rows": n, "test rows": LARGE_TEST_ROWS, "files": files, "bytes": n_bytes}
    radii = {}
    for name in ("two workers", "one process"):
        command = [sys.executable, __file__, "--measure", name, "--folder", str(folder)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found[name] = json.loads(done.stdout)
        radii[name] = found[name].pop("radius")
        say(f"{name}: {found[name]}")
    found["certificates are the same"] = radii["two workers"] == radii["one process"]
    return found


def fit_and_certify(folder, client=None):
    X, y = str(folder / "X-*.npy"), str(folder / "y-*.npy")
    model = StreamingRidgeClassifier(classes=range(CLASSES), n_jobs=2, verbose=1)  # threads without a client
    fit, _ = timed(lambda: model.fit(X, y, client=client))
    certify, certificates = timed(lambda: model.certify(test_rows(LARGE_TEST_ROWS)))
    return {
        "fit seconds": fit,
        "certify seconds": certify,
        "median radius": float(np.median(certificates.radius)),
        "radius": certificates.radius.tolist(),
    }


def peak_memory():
    """Return the peak memory of this process; `getrusage` would include that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def measure(name, folder):
    """Run in a separate process, whose memory is measured."""
    if name == "one process":
        resource.setrlimit(resource.RLIMIT_DATA, (PROCESS_MEMORY, PROCESS_MEMORY))
        found = fit_and_certify(folder)
        return {**found, "limit": PROCESS_MEMORY, "peak bytes": peak_memory()}
    with cluster(2, WORKER_MEMORY) as client:
        found = fit_and_certify(folder, client)
        peaks = list(client.run(peak_memory).values())
        restarts = len(set(client.run(os.getpid).values())) - 2
    return {**found, "limit of each": WORKER_MEMORY, "peak bytes of each": peaks, "workers lost": restarts}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the results; parts that do not run are kept")
    parser.add_argument("--only", choices=("constants", "ratios", "large"))
    parser.add_argument("--folder", type=Path, help="folder of the rows in files; they are written there if missing")
    parser.add_argument("--rows", type=int, default=ROWS, help="training rows of the comparison")
    parser.add_argument("--large-rows", type=int, default=LARGE_ROWS, help="training rows in files")
    parser.add_argument("--measure", choices=("two workers", "one process"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if options.measure:
            print(json.dumps(measure(options.measure, folder)))
            return
        results = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
        if options.only in (None, "constants"):
            results |= constants(Path(scratch))
        if options.only in (None, "ratios"):
            results["ratios"] = ratios(options.rows, TEST_ROWS, PARTS)
        if options.only in (None, "large"):
            results["large"] = large(folder, options.large_rows, LARGE_FILES)
    text = json.dumps(results, indent=1)
    if options.json:
        options.json.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
