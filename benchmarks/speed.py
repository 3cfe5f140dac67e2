"""Cost of a certificate, relative to the cost of its weights. One command runs everything:

    python benchmarks/speed.py [--json results.json] [--plot growth.png] [--only PART]
    python benchmarks/speed.py --check    # fail if a ratio exceeds the committed one by more than a quarter

Unit S: the time of one float32 product of the same shape by BLAS, 100 test rows at a time. Unit U: the time to compute
alpha for the same test rows by BLAS in float64, plus one np.exp over it, in the same row blocks. Every ratio is taken
in one process, best of interleaved repeats. Ratios to S and U are of processor seconds on one thread, so that other
work on the machine disturbs them less.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from problems import SIZES, Size, at_precision, make
from threadpoolctl import threadpool_limits

METHODS = ("exact", "tight", "kl")
TARGETS = {"exact": 2, "tight": 3, "kl": 3}  # in S, at the default precision

#: Committed results, and by how much a ratio may exceed the committed one.
COMMITTED = Path(__file__).parent / "results" / "speed.json"
TOLERANCE = 0.25
PRECISIONS = (10, 6, 8, 12, 16)
REPEATS = 3

#: Largest precision at which all test rows share the levels of their histograms.
SHARED_BITS = 12
SORTED_ROWS = 20

#: Test rows of problem A on which the slow peers run.
PEER_ROWS = 50
MPMATH_ROWS = 1


def say(text):
    print(text, file=sys.stderr, flush=True)


def best_times(tasks, repeats, clock=time.perf_counter):
    """Run all tasks in turn, several times over, and return the shortest time of each by a clock."""
    best = dict.fromkeys(tasks, np.inf)
    for _ in range(repeats):
        for name, task in tasks.items():
            start = clock()
            task()
            best[name] = min(best[name], clock() - start)
    return best


def measure(problem, methods=METHODS, repeats=REPEATS):
    """Return processor seconds of S, of U, of predict, and of certify by each method, on one thread."""
    tasks = {"S": problem.single, "U": problem.unit, "predict": lambda: problem.model.predict(problem.Z)}
    tasks |= {method: lambda method=method: problem.model.certify(problem.Z, method) for method in methods}
    with threadpool_limits(1):
        for task in tasks.values():
            task()  # warm-up: caches tables
        return best_times(tasks, repeats, time.process_time)


def ratios():
    """Targets, and other precisions."""
    rows = []
    for name, size in SIZES.items():
        say(f"problem {name}: {size}")
        problem = make(size)
        for precision in PRECISIONS:
            m = size.m if precision == PRECISIONS[0] else SORTED_ROWS if precision > SHARED_BITS else size.m // 4
            cut = replace(problem, size=replace(size, m=m), Z=problem.Z[:m])
            seconds = measure(at_precision(cut, precision))
            row = {"problem": name, "bits": precision, "S seconds": seconds["S"], "U / S": seconds["U"] / seconds["S"]}
            row |= {f"{what} / S": seconds[what] / seconds["S"] for what in ("predict", *METHODS)}
            row |= {f"{method} / U": seconds[method] / seconds["U"] for method in METHODS}
            if precision == PRECISIONS[0]:
                row["reached"] = all(row[f"{m} / S"] <= TARGETS[m] for m in METHODS)
            rows.append(row)
            say(str(row))
    return rows


def plain_newton(alpha, y, q, winner):
    """Minimise the Chernoff exponent of one test row over all n votes: a straightforward implementation."""
    D = np.where(y == winner, 1.0, -1.0)
    t = 1e-3
    for _ in range(100):
        up, down = (1 - q) * np.exp(-t * alpha * D), q * np.exp(t * alpha * D)
        total = up + down
        slope = (alpha * D * (down - up) / total).sum()
        curvature = (alpha**2 * (1 - ((down - up) / total) ** 2)).sum()
        step = slope / curvature
        t = max(t - step, t / 4)
        if abs(step) < 1e-6 * t:
            break
    return np.log(total).sum()


def mpmath_newton(alpha, y, q, winner):
    """The same with high precision, as in the paper."""
    import mpmath

    mpmath.mp.dps = 50
    D = np.where(y == winner, 1.0, -1.0)
    votes = [mpmath.mpf(float(v)) for v in alpha * D]
    q, t = mpmath.mpf(q), mpmath.mpf("1e-3")
    for _ in range(100):
        total, slope, curvature = mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(0)
        for v in votes:
            e = mpmath.exp(t * v)
            up, down = (1 - q) / e, q * e
            mass = up + down
            drift = (down - up) / mass
            total += mpmath.log(mass)
            slope += v * drift
            curvature += v * v * (1 - drift * drift)
        step = slope / curvature
        t = max(t - step, t / 4)
        if abs(step) < t * mpmath.mpf("1e-6"):
            break
    return total


def peers():
    """Problem A cut to a few rows: direct methods, and prediction without a certificate."""
    from sklearn.linear_model import RidgeClassifier

    size = Size(SIZES["A"].n, SIZES["A"].k, PEER_ROWS, 2)
    problem = make(size)
    alpha, _ = problem.model.vote_weights(problem.Z)
    predicted = problem.model.predict(problem.Z)
    ridge = RidgeClassifier(alpha=problem.model.regularization_).fit(problem.X, problem.y)

    def newton():
        for row in range(PEER_ROWS):
            plain_newton(alpha[row], problem.y, 0.1, predicted[row])

    tasks = {
        "U": problem.unit,
        "exact": lambda: problem.model.certify(problem.Z, "exact"),
        "kl": lambda: problem.model.certify(problem.Z, "kl"),
        "NumPy Newton over all votes, weights given": newton,
        "predict": lambda: problem.model.predict(problem.Z),
        "RidgeClassifier.predict, no certificate": lambda: ridge.predict(problem.Z),
    }
    seconds = best_times(tasks, REPEATS)
    start = time.perf_counter()
    for row in range(MPMATH_ROWS):
        mpmath_newton(alpha[row], problem.y, 0.1, predicted[row])
    seconds[f"mpmath, 50 digits ({MPMATH_ROWS} row, scaled up)"] = (
        (time.perf_counter() - start) * PEER_ROWS / MPMATH_ROWS
    )
    return [
        {"on problem A, 50 rows": name, "seconds": value, "/ kl": value / seconds["kl"]}
        for name, value in seconds.items()
    ]


def growth():
    """How the cost grows: n, m, k, K doubled one at a time."""
    base = Size(20_000, 32, 400, 4)
    rows = []
    for name in ("", "n", "m", "k", "K"):
        size = base.doubled(name) if name else base
        seconds = measure(make(size))
        rows.append({"doubled": name or "(none)"} | {what: seconds[what] for what in ("U", "predict", *METHODS)})
        say(str(rows[-1]))
    for row in rows[1:]:
        row |= {f"{what} grows": row[what] / rows[0][what] for what in ("U", "predict", *METHODS)}
    return rows


def start():
    """Import and first call in a new process."""
    code = """
import time
start = time.perf_counter(); import sklearn.linear_model, sklearn.pipeline; theirs = time.perf_counter() - start
start = time.perf_counter(); import flipproof; flipproof.CertifiedRidgeClassifier; ours = time.perf_counter() - start
import numpy as np
rng = np.random.default_rng(0); X = rng.normal(size=(5000, 20)); y = rng.integers(2, size=5000)
model = flipproof.CertifiedRidgeClassifier(classes=[0, 1]).fit(X, y)
start = time.perf_counter(); model.certify(X[:100], "tight"); first = time.perf_counter() - start
start = time.perf_counter(); model.certify(X[:100], "tight"); second = time.perf_counter() - start
print(theirs, ours, first, second)
"""
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    best = np.min([[float(x) for x in run.stdout.split()] for run in runs], axis=0)
    names = ("importing scikit-learn", "importing flipproof after it", "first certify", "second certify")
    return [{"in a new process": name, "seconds": float(value)} for name, value in zip(names, best, strict=True)]


def memory():
    """Peak memory of certify on problem C, in a separate process."""
    code = """
import sys; sys.path.insert(0, sys.argv[1])
from problems import SIZES, make
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) * 1024
def resident():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS")) * 1024
import numpy, sklearn, flipproof, flipproof.learners.ridge
empty = resident()
problem = make(SIZES["C"])
fitted = resident()
data = problem.X.nbytes + problem.y.nbytes + problem.Z.nbytes
for method in ("exact", "tight"):
    open("/proc/self/clear_refs", "w").write("5")
    problem.model.certify(problem.Z, method)
    print(method, data, fitted - empty - data, peak() - empty - data)
"""
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = []
    for line in output.splitlines():
        method, data, model, peak = line.split()
        sizes = {"data": data, "model, above data": model, "peak of certify, above data": peak}
        rows.append({"problem C": method} | {f"{what} (MiB)": int(size) / 2**20 for what, size in sizes.items()})
    return rows


def jobs():
    """Two threads against one: n_jobs=2 and n_jobs=1, wall-clock seconds."""
    rows = []
    for name, size in SIZES.items():
        problem = make(size)

        def certify(n_jobs, problem=problem):
            problem.model.n_jobs = n_jobs
            with threadpool_limits(1):
                problem.model.certify(problem.Z, "exact")

        seconds = best_times({n: lambda n=n: certify(n) for n in (1, 2)}, REPEATS)
        rows.append(
            {"problem": name, "n_jobs=1": seconds[1], "n_jobs=2": seconds[2], "speedup": seconds[1] / seconds[2]}
        )
        say(str(rows[-1]))
    return rows


#: Numbers that are copied to measure the bandwidth of memory, and the shape of a product that stays in caches.
COPIED = 2**24
SQUARE = 768


def roofline():
    """Bytes and flops per vote, and what this machine can do, on one thread."""
    from flipproof.core.histograms import count_levels

    rng = np.random.default_rng(0)
    source, target = np.ones(COPIED), np.empty(COPIED)
    in_cache, cached = np.ones(2**14), np.empty(2**14)
    squares = {kind: rng.normal(size=(SQUARE, SQUARE)).astype(kind) for kind in (np.float32, np.float64)}
    tasks = {
        "copy": lambda: np.copyto(target, source),
        "add in cache": lambda: [np.add(in_cache, 1.0, out=cached) for _ in range(1000)],
        "float32": lambda: squares[np.float32] @ squares[np.float32],
        "float64": lambda: squares[np.float64] @ squares[np.float64],
    }
    with threadpool_limits(1):
        best = best_times(tasks, 10, time.process_time)
        flops = {kind: 2 * SQUARE**3 / best[kind] for kind in ("float32", "float64")}
        pass_ns = 1e9 * best["add in cache"] / (1000 * 2**14)
        rows = []
        for name, size in SIZES.items():
            problem = make(size)
            problem = replace(problem, Z=problem.Z[: max(30, 4_000_000 // size.n)])
            votes, model = problem.model.votes_on(problem.model.test_rows(problem.Z)), problem.model
            cells = lambda v=votes, m=model, K=size.K: count_levels(v, m.label_codes_, K, 2048)  # noqa: E731
            timed = {
                "S": problem.single,
                "product": lambda v=votes: [None for _ in v.in_tiles(2**14, 128)],
                "counted": cells,
                "exact": lambda p=problem: p.model.certify(p.Z, "exact"),
            }
            seconds = best_times(timed, 5, time.process_time)
            ns = {what: 1e9 * value / (len(problem.Z) * size.n) for what, value in seconds.items()}
            rows.append(
                {
                    "problem": name,
                    "flops per vote": 2 * size.k,
                    "float32 at peak (ns)": 1e9 * 2 * size.k / flops["float32"],
                    "S (ns)": ns["S"],
                    "float64 at peak (ns)": 1e9 * 2 * size.k / flops["float64"],
                    "float64 product (ns)": ns["product"],
                    "counting, one pass and bincount (ns)": ns["counted"] - ns["product"],
                    "exact (ns)": ns["exact"],
                    "2 S (ns)": 2 * ns["S"],
                    "product and counting / S": ns["counted"] / ns["S"],
                }
            )
    about = f"{2 * COPIED * 8 / best['copy'] / 1e9:.1f} GB/s of memory, one pass in a cache {pass_ns:.2f} ns a number"
    say(f"{about}, float32 {flops['float32'] / 1e9:.0f} Gflop/s, float64 {flops['float64'] / 1e9:.0f} Gflop/s")
    return rows


def limits():
    """Radii up to a limit, `at_least=r`, in processor seconds relative to exact radii and to predict."""
    rows = []
    for name in ("A", "B"):
        problem = make(SIZES[name])
        model, Z = problem.model, problem.Z
        tasks = {"exact": lambda m=model, Z=Z: m.certify(Z, "exact"), "predict": lambda m=model, Z=Z: m.predict(Z)}
        tasks |= {r: lambda m=model, Z=Z, r=r: m.certify(Z, "exact", at_least=r) for r in (10, 50)}
        with threadpool_limits(1):
            for task in tasks.values():
                task()
            best = best_times(tasks, REPEATS, time.process_time)
        rows += [
            {"problem": name, "r": r, "/ exact": best[r] / best["exact"], "/ predict": best[r] / best["predict"]}
            for r in (10, 50)
        ]
    return rows


PARTS = {one.__name__: one for one in (roofline, limits, ratios, peers, growth, start, memory, jobs)}


def slower(rows, committed):
    """Return a line for each ratio to S that exceeds the committed one by more than the tolerance."""
    before = {(row["problem"], row["bits"]): row for row in committed}
    return [
        f"problem {row['problem']}, {row['bits']} bits: {what} was {known[what]:.2f}, is {row[what]:.2f}"
        for row in rows
        if (known := before.get((row["problem"], row["bits"]))) is not None
        for what in (f"{method} / S" for method in METHODS)
        if row[what] > (1 + TOLERANCE) * known[what]
    ]


def table(rows):
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [columns, ["---"] * len(columns)]
    cells += [
        [f"{v:.3g}" if isinstance(v, float) else str(v) for v in (row.get(c, "") for c in columns)] for row in rows
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def plot(rows, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
    bars = ("U", *METHODS)
    for i, what in enumerate(bars):
        ax.bar(np.arange(4) + (i - 1.5) * 0.2, [row[f"{what} grows"] for row in rows[1:]], 0.18, label=what)
    ax.axhline(2, color="black", linestyle=":", linewidth=1)
    ax.axhline(1, color="black", linewidth=0.5)
    ax.set_xticks(range(4), ["n", "m", "k", "K"])
    ax.set(xlabel="doubled", ylabel="times the cost", title="How the cost of certificates grows")
    figure.legend(loc="outside lower center", frameon=False, ncols=4)
    figure.savefig(path, dpi=140)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", help="file for all results")
    parser.add_argument("--plot", help="file for a plot of how the cost grows")
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--check", action="store_true", help="compare ratios with the committed ones; 1 if one grew")
    arguments = parser.parse_args()
    if arguments.check:
        found = slower(ratios(), json.loads(COMMITTED.read_text())["ratios"])
        print("\n".join(found) or "no ratio exceeds the committed one by more than a quarter")
        sys.exit(bool(found))
    results = {}
    for name in arguments.only or PARTS:
        say(f"-- {name}")
        results[name] = PARTS[name]()
        print(f"\n{PARTS[name].__doc__}\n\n{table(results[name])}", flush=True)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)
    if arguments.plot and "growth" in results:
        plot(results["growth"], arguments.plot)


if __name__ == "__main__":
    main()
