"""Certified regression on real data: intervals, radii, time per prediction, and an independent solver.

    OMP_NUM_THREADS=1 FLIPPROOF_DATA=folder python benchmarks/regression.py

writes `benchmarks/results/regression.json` and `docs/images/regression.png`, and prints the tables of
`docs/regression.md`. The folder needs `adult` and `german_credit`; diabetes comes with scikit-learn.

The independent solver follows the definition of dataset multiplicity for linear regression (Meyer et al. 2023, arXiv
2304.10655): the least-squares model of ``y'``, where at most k targets differ from ``y``, each by at most delta. With
``c = x' (X'X)^-1 X'``, the range of ``c y'`` is ``c y`` plus or minus delta times the k largest ``|c_j|``: plain NumPy
and a sort, written from the paper, without code of this package or theirs.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from flipproof import (
    Adversary,
    CertifiedForestClassifier,
    CertifiedForestRegressor,
    CertifiedIntervalDisplay,
    CertifiedKernelClassifier,
    CertifiedKernelRegressor,
    CertifiedNeighborsClassifier,
    CertifiedNeighborsRegressor,
    CertifiedRidgeClassifier,
    CertifiedRidgeRegressor,
)

FLIPS = [1, 5, 10, 50, 100]
N_TEST = 300
N_COMPARED = 60
FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results" / "regression.json"
PICTURE = FOLDER.parent / "docs" / "images" / "regression.png"


def table(name: str, file: str) -> list[list[str]]:
    """Return the lines of a file of the data folder."""
    with gzip.open(Path(os.environ["FLIPPROOF_DATA"]) / name / file, "rt", encoding="utf-8") as lines:
        return [line.replace(",", " ").split() for line in lines if line.strip()]


def problems() -> dict[str, tuple[Any, Any, tuple[float, float], float, str]]:
    """Return features, targets, target range, tolerance and what the target is, by data set."""
    found: dict[str, tuple[Any, Any, tuple[float, float], float, str]] = {}
    X, y = load_diabetes(return_X_y=True)
    found["diabetes"] = X, y, (25.0, 350.0), 20.0, "disease progression, 25 to 350"
    german = [row for row in table("german_credit", "german.data.gz") if row[1].isdigit()]
    numbers = np.array([[float(row[place]) for place in (1, 7, 10, 12, 15, 17)] for row in german])
    amount = np.array([float(row[4]) for row in german])
    found["German credit"] = numbers, amount, (0.0, 20_000.0), 500.0, "credit amount, 0 to 20,000"
    adult = [row for row in table("adult", "adult.data.gz") if row[0].isdigit()]
    columns = np.array([[float(row[place]) for place in (0, 4, 10, 11)] for row in adult])
    columns[:, 2:] = np.log1p(columns[:, 2:])
    hours = np.array([float(row[12]) for row in adult])
    found["Adult"] = columns, hours, (1.0, 99.0), 1.0, "hours per week, 1 to 99"
    return found


def learners(target_range: tuple[float, float], n_train: int) -> dict[str, Any]:
    """Return the regressors to compare."""
    common = {"target_range": target_range, "features": StandardScaler()}
    neighbors = min(500, n_train // 10)
    found = {
        "ridge": CertifiedRidgeRegressor(**common),
        "kernel": CertifiedKernelRegressor(n_components=None if n_train < 5000 else 300, **common),
        "neighbours, mean": CertifiedNeighborsRegressor(neighbors, **common),
        "neighbours, median": CertifiedNeighborsRegressor(neighbors, average="median", **common),
        "forest": CertifiedForestRegressor(**common),
    }
    return found


def split(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return training and test rows, drawn at random."""
    order = np.random.default_rng(0).permutation(n)
    n_test = min(N_TEST, n // 4)
    return order[n_test:], order[:n_test]


def measure(X: Any, y: Any, target_range: tuple[float, float], tolerance: float) -> dict[str, Any]:
    """Certify all learners on one data set."""
    train, test = split(len(y))
    found = {}
    for name, model in learners(target_range, len(train)).items():
        began = time.perf_counter()
        model.fit(X[train], y[train])
        fit_seconds = time.perf_counter() - began
        fitted = time.process_time()
        flips = [one for one in FLIPS if one <= len(train)]
        certified = model.certify(X[test], flips, tolerance=tolerance)
        done = time.process_time()
        left = ((y[test] - certified.prediction) ** 2).sum() / ((y[test] - y[test].mean()) ** 2).sum()
        found[name] = {
            "mean_absolute_error": float(np.abs(y[test] - certified.prediction).mean()),
            "r2": float(1 - left),
            "median_width": dict(zip(map(str, flips), np.median(certified.width, axis=0).tolist(), strict=True)),
            "certified": {str(one): float((certified.radius >= one).mean()) for one in flips},
            "median_radius": float(np.median(certified.radius)),
            "fit_seconds": fit_seconds,
            "ms_per_row": 1000 * (done - fitted) / len(test),
        }
    classes, common = (y > np.median(y)).astype(int), {"features": StandardScaler(), "classes": [0, 1]}
    landmarks = None if len(train) < 5000 else 300
    for name, classifier, regressors in (
        ("ridge classifier", CertifiedRidgeClassifier(**common), ["ridge"]),
        ("kernel classifier", CertifiedKernelClassifier(n_components=landmarks, **common), ["kernel"]),
        (
            "neighbours classifier",
            CertifiedNeighborsClassifier(min(500, len(train) // 10), **common),
            ["neighbours, mean", "neighbours, median"],
        ),
        ("forest classifier", CertifiedForestClassifier(**common), ["forest"]),
    ):
        classifier.fit(X[train], classes[train])
        began = time.process_time()
        classifier.certify(X[test])
        found[name] = {"ms_per_row": 1000 * (time.process_time() - began) / len(test)}
        for regressor in regressors:
            found[regressor]["times_classifier"] = found[regressor]["ms_per_row"] / found[name]["ms_per_row"]
    return {"n_train": len(train), "n_test": len(test), "tolerance": tolerance, "learners": found}


def plain_solver(X: Any, y: Any, z: Any, delta: float, k: int, eps: float) -> tuple[float, float, int]:
    """Return both ends after k changes of at most delta, and how many changes move the prediction by more than eps."""
    A, row = np.c_[X, np.ones(len(X))], np.append(z, 1.0)
    c = row @ np.linalg.solve(A.T @ A, A.T)
    largest = np.cumsum(np.sort(np.abs(c))[::-1]) * delta
    reach = largest[min(k, len(c)) - 1]
    enough = np.flatnonzero(largest > eps)
    return c @ y - reach, c @ y + reach, int(enough[0]) + 1 if len(enough) else len(c) + 1


def compare(X: Any, y: Any, delta: float, k: int, eps: float) -> dict[str, Any]:
    """Compare ridge without regularisation with the plain solver."""
    train, test = split(len(y))
    test = test[:N_COMPARED]
    X = StandardScaler().fit(X[train]).transform(X)
    spread = float(np.ptp(y[train]))
    wide = (float(y.min() - delta - spread), float(y.max() + delta + spread))  # a range that never binds
    model = CertifiedRidgeRegressor(regularization=0, precision=24, target_range=wide).fit(X[train], y[train])
    adversary = Adversary(max_change=delta)
    certified = model.certify(X[test], k, tolerance=eps, adversary=adversary)
    plain = [plain_solver(X[train], y[train], z, delta, k, eps) for z in X[test]]
    low, high, fewest = (np.array(one) for one in zip(*plain, strict=True))
    radius = np.where(fewest > len(train), len(train), fewest - 1)
    farthest = np.maximum(np.abs(certified.low - low), np.abs(certified.high - high)).max()
    return {
        "delta": delta,
        "changes": k,
        "eps": eps,
        "points": len(test),
        "same_radius": int((certified.radius == radius).sum()),
        "largest_difference_of_an_end": float(farthest),
        "median_radius": float(np.median(radius)),
        "median_width": float(np.median(high - low)),
    }


def draw() -> None:
    """Draw intervals and coefficients of diabetes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = CertifiedRidgeRegressor(target_range=(25, 350)).fit(X[:300], y[:300])
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    CertifiedIntervalDisplay.from_estimator(model, X[300:], [1, 5, 20], y[300:], ax=axes[0])
    CertifiedIntervalDisplay.from_certificates(model.certify_coefficients([1, 5, 20]), ax=axes[1])
    figure.savefig(PICTURE, dpi=110)


def short(value: float) -> str:
    """Return a number with four digits."""
    return f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


def committed() -> dict[str, Any]:
    """Return the committed results."""
    found: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    return found


def report(found: dict[str, Any]) -> str:
    """Return the tables in Markdown."""
    lines = []
    for name, one in found["data"].items():
        lines += [f"**{name}** ({one['target']}; {one['n_train']:,} training rows, {one['n_test']} test rows)", ""]
        tolerance = one["tolerance"]
        widths = "median width at 1 | at 10 | at 100"
        lines += [f"| learner | R² | {widths} | within {tolerance:g} at 10 | median radius | ms | classifier ms |"]
        lines += ["|---|---|---|---|---|---|---|---|---|"]
        for learner, row in one["learners"].items():
            if "r2" not in row:
                continue
            widths = " | ".join(short(row["median_width"][str(flips)]) for flips in (1, 10, 100))
            share = f"{100 * row['certified']['10']:.1f} %"
            own = row["ms_per_row"]
            numbers = f"{row['median_radius']:.0f} | {own:.2f} | {own / row['times_classifier']:.2f}"
            lines.append(f"| {learner} | {row['r2']:.3f} | {widths} | {share} | {numbers} |")
        lines.append("")
    lines += ["| data | delta | eps | same radius | largest difference of an end |", "|---|---|---|---|---|"]
    for name, one in found["solver"].items():
        same = f"{one['same_radius']} of {one['points']}"
        farthest = one["largest_difference_of_an_end"]
        lines.append(f"| {name} | {one['delta']:g} | {one['eps']:g} | {same} | {farthest:.1e} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, write the results, and print the tables."""
    given = problems()
    found: dict[str, Any] = {"data": {}, "solver": {}}
    for name, (X, y, target_range, tolerance, target) in given.items():
        found["data"][name] = {"target": target, **measure(X, y, target_range, tolerance)}
        delta = float(np.ptp(y)) / 10
        found["solver"][name] = compare(X, y, delta, 10, tolerance)
    draw()
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(report(found))


if __name__ == "__main__":
    main()
