"""Time to certify regressors, beside that of the classifiers on the same votes; and the picture of docs/regression.md.

    OMP_NUM_THREADS=1 FLIPPROOF_DATA=folder python benchmarks/regression.py

writes `benchmarks/results/regression.json` and `docs/images/regression.png`, and prints the table of times of
`docs/regression.md`. Data and regressors are those of `flipproof reproduce regression`, which has their intervals.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from flipproof import (
    CertifiedForestClassifier,
    CertifiedIntervalDisplay,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedRidgeClassifier,
    CertifiedRidgeRegressor,
)
from flipproof.experiments import read_study
from flipproof.experiments.studies.regression_study import LEARNERS, Targets, regressor
from flipproof.experiments.studies.study import Case

FLIPS = [1, 5, 10, 50, 100]
FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results" / "regression.json"
PICTURE = FOLDER.parent / "docs" / "images" / "regression.png"


def classifier(settings: dict[str, Any], n_train: int) -> Any:
    """Return the classifier with the votes of a regressor."""
    common = {"features": StandardScaler(), "classes": [0, 1]}
    if settings["learner"] == "neighbors":
        return CertifiedNeighborsClassifier(min(500, n_train // 10), **common)
    if settings["learner"] == "kernel":
        return CertifiedKernelClassifier(n_components=None if n_train < 5000 else 300, **common)
    return {"ridge": CertifiedRidgeClassifier, "forest": CertifiedForestClassifier}[settings["learner"]](**common)


def measure(case: Case) -> dict[str, Any]:
    """Return CPU milliseconds per test row by learner, of intervals and radii, and of radii of the classifier."""
    data: Targets = case.read(None, False, 0).content
    y, found = (data.y > np.median(data.y)).astype(int), {}
    for name, settings in LEARNERS.items():
        model = regressor(settings, data).fit(data.X, data.y)
        began = time.process_time()
        model.certify(data.Z, FLIPS, tolerance=data.tolerance)
        own = time.process_time() - began
        of_classes = classifier(dict(settings), len(y)).fit(data.X, y)
        began = time.process_time()
        of_classes.certify(data.Z)
        seconds = {"ms": own, "classifier_ms": time.process_time() - began}
        found[name] = {key: 1000 * value / len(data.Z) for key, value in seconds.items()}
    return found


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


def committed() -> dict[str, Any]:
    """Return the committed results."""
    found: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    return found


def table(found: dict[str, Any]) -> str:
    """Return the table in Markdown: milliseconds of the regressor, and of the classifier in brackets."""
    lines = [f"| learner | {' | '.join(found)} |", "|---" * (len(found) + 1) + "|"]
    for name in LEARNERS:
        cells = [f"{one[name]['ms']:.2f} ({one[name]['classifier_ms']:.2f})" for one in found.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, write the results, and print the table."""
    found = {case.title: measure(case) for case in read_study("regression").cases}
    draw()
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    main()
