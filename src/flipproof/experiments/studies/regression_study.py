"""Certified regression on real data: intervals and radii, and an independent solver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from flipproof.adversary import Adversary
from flipproof.core.rounding import Floats
from flipproof.datasets import load_adult, load_german_credit
from flipproof.experiments.row_files import RunRows
from flipproof.experiments.studies.study import Case, CaseRows, Measured, Problem, Study, StudyRun
from flipproof.experiments.tables_and_figures import markdown_table
from flipproof.learners.neighbors_regressor import CertifiedNeighborsRegressor
from flipproof.learners.regressors import CertifiedForestRegressor, CertifiedKernelRegressor, CertifiedRidgeRegressor

CAPTION = """
Test rows are drawn at random, a quarter of all or 300; all others are training rows, whose targets may be changed to
any number of the range. Settings are defaults, neighbours a tenth of the training rows or 500, and 300 landmarks of
the kernel on 5,000 training rows or more. Widths are medians over the test rows, after 1, 10 and 100 changes;
"within" is the share of predictions that 10 changes cannot move farther than that; the radius is the number of
changes that cannot do so.

The solver follows the definition of dataset multiplicity for linear regression (Meyer et al. 2023, arXiv 2304.10655):
the least-squares model of y', where at most k targets differ from y, each by at most delta, here a tenth of the range
of all targets. With c = x' (X'X)^-1 X', the range of c y' is c y plus or minus delta times the k largest |c_j|: plain
NumPy and a sort, without code of this package or theirs. It is compared with ridge regression without regularisation,
at 24 bits.
"""

#: Numbers of changed targets at which intervals are recorded; the middle one is that of shares and of the solver.
CHANGES = (1, 10, 100)
AT = 10

N_TEST, QUICK_TEST, QUICK_TRAIN = 300, 30, 400

ENDS = tuple(f"{end}_{count}" for count in CHANGES for end in ("low", "high"))
COLUMNS = ("prediction", *ENDS, "radius")
DECIMALS = ("prediction", *ENDS)

#: Settings by name.
LEARNERS: Mapping[str, Mapping[str, Any]] = {
    "ridge": {"learner": "ridge"},
    "kernel": {"learner": "kernel"},
    "neighbours, mean": {"learner": "neighbors"},
    "neighbours, median": {"learner": "neighbors", "parameters": {"average": "median"}},
    "forest": {"learner": "forest"},
}
OURS, SOLVER = "least squares, certified", "least squares, solver"
LEAST_SQUARES: Mapping[str, Mapping[str, Any]] = {OURS: {"learner": "least squares"}, SOLVER: {"learner": "solver"}}


@dataclass(frozen=True)
class Targets:
    """Training rows with numbers as targets, test rows, and what is known about the targets.

    Attributes
    ----------
    X, Z : floats
        Training and test rows.
    y : floats
        Targets of the training rows.
    everything : pair of float
        The least and the largest target of all rows.
    target_range : pair of float
        Where targets are known to lie.
    tolerance : float
        By how much a prediction may move.
    """

    X: Floats
    y: Floats
    Z: Floats
    everything: tuple[float, float]
    target_range: tuple[float, float]
    tolerance: float


@dataclass(frozen=True)
class Given:
    """Rows and targets of a data set, and where they come from."""

    X: Floats
    y: Floats
    provenance: str
    checksums: Mapping[str, str]


def diabetes(data_dir: Path | None) -> Given:
    """Return disease progression after a year, by ten measurements."""
    X, y = load_diabetes(return_X_y=True)
    return Given(X, y, "Diabetes (Efron et al.), from scikit-learn.", {})


def german_credit(data_dir: Path | None) -> Given:
    """Return the amount of a loan, by six other numbers."""
    data = load_german_credit(kind="words", test_size=0, data_home=data_dir)
    numbers = data.X_train[:, [1, 7, 10, 12, 15, 17]].astype(np.float64)
    return Given(numbers, data.X_train[:, 4].astype(np.float64), data.provenance, data.checksums)


def adult(data_dir: Path | None) -> Given:
    """Return working hours per week, by age, years of education, and the logarithms of capital gain and loss."""
    data = load_adult(data_home=data_dir)
    numbers = data.X_train[:, [0, 4, 10, 11]].astype(np.float64)
    numbers[:, 2:] = np.log1p(numbers[:, 2:])
    return Given(numbers, data.X_train[:, 12].astype(np.float64), data.provenance, data.checksums)


@dataclass(frozen=True)
class Table:
    """A data set of the study: title, what the target is, its range, the tolerance, and its reader."""

    title: str
    target: str
    target_range: tuple[float, float]
    tolerance: float
    given: Callable[[Path | None], Given]


TABLES = {
    "diabetes": Table("diabetes", "disease progression, 25 to 350", (25.0, 350.0), 20.0, diabetes),
    "german-credit": Table("German credit", "credit amount, 0 to 20,000", (0.0, 20_000.0), 500.0, german_credit),
    "adult": Table("Adult", "hours per week, 1 to 99", (1.0, 99.0), 1.0, adult),
}


def read(name: str, data_dir: Path | None, quick: bool, seed: int) -> Problem:
    """Return a data set, split at random."""
    about, given = TABLES[name], TABLES[name].given(data_dir)
    order = np.random.default_rng(seed).permutation(len(given.y))
    n_test = min(N_TEST, len(given.y) // 4)
    train, test = order[n_test:], order[:n_test]
    if quick:
        train, test = train[:QUICK_TRAIN], test[:QUICK_TEST]
    test = np.sort(test)
    everything = float(given.y.min()), float(given.y.max())
    known = everything, about.target_range, about.tolerance
    content = Targets(given.X[train], given.y[train], given.X[test], *known)
    return Problem(content, test, given.y[test].astype(np.int64), len(train), given.provenance, given.checksums)


def regressor(settings: Mapping[str, Any], data: Targets) -> Any:
    """Return the regressor of a run, not fitted."""
    common = {"target_range": data.target_range, "features": StandardScaler(), **settings.get("parameters", {})}
    n = len(data.y)
    if settings["learner"] == "neighbors":
        return CertifiedNeighborsRegressor(min(500, n // 10), **common)
    if settings["learner"] == "kernel":
        return CertifiedKernelRegressor(n_components=None if n < 5000 else 300, **common)
    kinds = {"ridge": CertifiedRidgeRegressor, "forest": CertifiedForestRegressor}
    return kinds[settings["learner"]](**common)


def measure(run: StudyRun, problem: Problem, seed: int) -> Measured:
    """Certify all test rows, or solve them by the definition of dataset multiplicity."""
    data: Targets = problem.content
    facts = {"delta": delta_of(data)}
    if run.settings["learner"] == "solver":
        return Measured(_solved(data), facts)
    if run.settings["learner"] == "least squares":
        scaler = StandardScaler().fit(data.X)
        spread, (least, largest) = float(np.ptp(data.y)), data.everything
        wide = (least - delta_of(data) - spread, largest + delta_of(data) + spread)  # a range that never binds
        model: Any = CertifiedRidgeRegressor(regularization=0, precision=24, target_range=wide)
        model.fit(scaler.transform(data.X), data.y)
        adversary, rows = Adversary(max_change=delta_of(data)), scaler.transform(data.Z)
        found = model.certify(rows, [AT], tolerance=data.tolerance, adversary=adversary)
        return Measured(_columns(found, (AT,)), facts)
    model = regressor(run.settings, data).fit(data.X, data.y)
    return Measured(_columns(model.certify(data.Z, list(CHANGES), tolerance=data.tolerance), CHANGES), facts)


def delta_of(data: Targets) -> float:
    """Return by how much a target may change in the comparison with the solver."""
    return (data.everything[1] - data.everything[0]) / 10


def _columns(found: Any, changes: tuple[int, ...]) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {name: np.full(len(found.prediction), np.nan) for name in DECIMALS}
    columns |= {"prediction": np.asarray(found.prediction, dtype=np.float64), "radius": found.radius.astype(np.int64)}
    for place, count in enumerate(changes):
        columns |= {f"low_{count}": found.low[:, place], f"high_{count}": found.high[:, place]}
    return columns


def _solved(data: Targets) -> dict[str, NDArray[Any]]:
    """Return prediction, both ends after some changes, and the radius, by the definition."""
    scaler, delta, n = StandardScaler().fit(data.X), delta_of(data), len(data.y)
    A, rows = (np.c_[scaler.transform(X), np.ones(len(X))] for X in (data.X, data.Z))
    hat = np.linalg.solve(A.T @ A, A.T)
    columns: dict[str, NDArray[Any]] = {name: np.full(len(rows), np.nan) for name in DECIMALS}
    radius = np.zeros(len(rows), dtype=np.int64)
    for place, row in enumerate(rows):
        c = row @ hat
        moved = np.cumsum(np.sort(np.abs(c))[::-1]) * delta
        reach, enough = moved[min(AT, n) - 1], np.flatnonzero(moved > data.tolerance)
        columns["prediction"][place] = c @ data.y
        columns[f"low_{AT}"][place], columns[f"high_{AT}"][place] = c @ data.y - reach, c @ data.y + reach
        radius[place] = enough[0] if len(enough) else n
    return columns | {"radius": radius}


def r2(rows: RunRows) -> float:
    """Return the coefficient of determination."""
    left = ((rows.label - rows["prediction"]) ** 2).sum()
    return float(1 - left / ((rows.label - rows.label.mean()) ** 2).sum())


def median_width(rows: RunRows, count: int) -> float:
    """Return the median width of the intervals after some changes."""
    return float(np.median(rows[f"high_{count}"] - rows[f"low_{count}"]))


def same_radius(rows: Mapping[str, RunRows]) -> tuple[int, int]:
    """Return on how many test rows the solver finds the certified radius, and the number of test rows."""
    return int((rows[OURS]["radius"] == rows[SOLVER]["radius"]).sum()), len(rows[OURS].index)


def short(value: float) -> str:
    """Return a number with four digits."""
    return f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


def tables(rows: CaseRows, records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a table for each data set, and the comparison with the solver."""
    found, compared = [], []
    for case in STUDY.cases:
        of_case, record, about = rows[case.name], records[case.name], TABLES[case.name]
        sizes = f"{record['n_train']:,} training rows, {record['n_test']} test rows"
        lines = []
        for name in LEARNERS:
            of_run = of_case[name]
            widths = [short(median_width(of_run, count)) for count in CHANGES]
            within = f"{100 * np.mean(of_run['radius'] >= AT):.1f} %"
            lines.append([name, f"{r2(of_run):.3f}", *widths, within, f"{np.median(of_run['radius']):.0f}"])
        head = ["learner", "R²", "median width at 1", "at 10", "at 100", f"within {about.tolerance:g} at 10"]
        table = markdown_table([*head, "median radius"], lines).rstrip()
        found += [f"**{case.title}** ({about.target}; {sizes})", table]
        same, n_compared = same_radius(of_case)
        ends = [np.abs(of_case[OURS][end] - of_case[SOLVER][end]) for end in (f"low_{AT}", f"high_{AT}")]
        delta = f"{record['runs'][OURS]['delta']:g}"
        farthest = f"{np.max(ends):.1e}"
        compared.append([case.title, delta, f"{about.tolerance:g}", f"{same} of {n_compared}", farthest])
    head = ["data", "delta", "eps", "same radius", "largest difference of an end"]
    return [*found, markdown_table(head, compared).rstrip()]


def _cases() -> tuple[Case, ...]:
    runs = tuple(StudyRun(name, settings) for name, settings in {**LEARNERS, **LEAST_SQUARES}.items())
    return tuple(
        Case(name, about.title, runs, COLUMNS, partial(read, name), measure, DECIMALS) for name, about in TABLES.items()
    )


STUDY = Study("regression", "Certified regression", CAPTION, _cases(), tables)
