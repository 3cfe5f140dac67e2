"""What trusted labels buy: Spambase, Phishing Websites and Adult, with 2, 5 and 10 % of the training labels trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from flipproof.core.rounding import Floats, Integers, Values
from flipproof.datasets import Dataset, load_adult, load_phishing, load_spambase
from flipproof.experiments.row_files import NOTHING, RunRows, certified, clean_accuracy
from flipproof.experiments.studies.study import Case, CaseRows, Measured, Problem, Study, StudyRun
from flipproof.experiments.tables_and_figures import markdown_table
from flipproof.learners.forest import CertifiedForestClassifier
from flipproof.learners.ridge import CertifiedRidgeClassifier

CAPTION = """
A share of the training labels is trusted, drawn at random; any others may be changed. "Trusted labels only" is fitted
to these labels and reads no others; "forest" and "ridge" read no labels but have trusted votes; a prior is a random
forest of 200 trees on the trusted labels. Settings are round numbers, none chosen with labels. Columns: certified
accuracy by number of changed labels, exact; the best value of each group is bold.
"""

#: Shares of the training labels that are trusted; several draws are compared for one of them.
SHARES = (0.02, 0.05, 0.10)
DRAWN_SHARE = 0.05
N_DRAWS = 5

#: Numbers of changed labels in the tables.
FLIPS = (0, 10, 35, 100, 170, 500, 1000)

COLUMNS = ("prediction", "exact")

#: Training and test rows of Adult, and of quick runs, drawn at random.
ADULT_ROWS = (8000, 2000)
QUICK_ROWS = (600, 60)

LEAVES = {"n_estimators": 100, "min_samples_leaf": 0.02}

#: Settings by name; those that read no trusted labels have them as trusted votes.
LEARNERS: Mapping[str, Mapping[str, Any]] = {
    "trusted labels only: random forest": {"alone": True, "learner": "random forest"},
    "trusted labels only: forest": {"alone": True, "learner": "forest", "parameters": LEAVES},
    "trusted labels only: ridge": {"alone": True, "learner": "ridge"},
    "ridge": {"learner": "ridge"},
    "forest": {"learner": "forest", "parameters": LEAVES},
    "forest, prior of weight 1": {"learner": "forest", "parameters": LEAVES, "prior_weight": 1.0},
    "forest, prior of weight 2": {"learner": "forest", "parameters": LEAVES, "prior_weight": 2.0},
    "supervised forest": {"learner": "forest", "parameters": {**LEAVES, "grow": "supervised"}},
    "supervised forest, prior of weight 1": {
        "learner": "forest",
        "parameters": {**LEAVES, "grow": "supervised"},
        "prior_weight": 1.0,
    },
}

#: What several draws compare: leaves of 2 % of the rows, and larger ones.
DRAWN: Mapping[str, Mapping[str, Any]] = {
    "trusted labels only: random forest": LEARNERS["trusted labels only: random forest"],
    "forest, prior of weight 2": LEARNERS["forest, prior of weight 2"],
    "forest with leaves of 20 %, prior of weight 2": {
        "learner": "forest",
        "parameters": {**LEAVES, "min_samples_leaf": 0.2},
        "prior_weight": 2.0,
    },
}


@dataclass(frozen=True)
class LabeledRows:
    """Training rows with labels, and test rows, as numbers."""

    X: Floats
    y: Integers
    Z: Floats


def read(load: Callable[..., Dataset], data_dir: Path | None, quick: bool, seed: int) -> Problem:
    """Return a data set of numbers, scaled, or of numbers and words, scaled and one-hot encoded; some rows of Adult."""
    data = load(data_home=data_dir)
    sizes = QUICK_ROWS if quick else ADULT_ROWS if data.name == "Adult" else None
    train, test = np.arange(len(data.y_train)), np.arange(len(data.y_test))
    if sizes is not None:
        rng = np.random.default_rng(seed)
        train, test = (rng.permutation(len(rows))[:size] for rows, size in zip((train, test), sizes, strict=True))
        test = np.sort(test)
    numbers = [place for place in range(data.X_train.shape[1]) if place not in data.categorical]
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    both = make_column_transformer((StandardScaler(), numbers), (words, list(data.categorical)))
    encoder = both if data.categorical else StandardScaler()
    X, Z = encoder.fit_transform(data.X_train[train]), encoder.transform(data.X_test[test])
    content = LabeledRows(X, data.y_train[train], Z)
    return Problem(content, test, data.y_test[test], len(train), data.provenance, data.checksums)


def measure(run: StudyRun, problem: Problem, seed: int) -> Measured:
    """Certify the test rows, with the labels of a draw trusted; what was fitted to these alone has no radius."""
    data, settings = problem.content, run.settings
    order = np.random.default_rng(seed + settings["draw"]).permutation(len(data.y))
    trusted = np.isin(np.arange(len(data.y)), order[: round(settings["share"] * len(data.y))])
    facts = {"n_trusted": float(trusted.sum())}
    model = _learner(settings, np.unique(data.y), seed)
    if settings.get("alone"):
        prediction = model.fit(data.X[trusted], data.y[trusted]).predict(data.Z)
        return Measured({"prediction": prediction.astype(np.int64), "exact": _unlimited(prediction)}, facts)
    found = model.fit(data.X, data.y, trusted=trusted).certify(data.Z)
    columns = {"prediction": found.prediction.astype(np.int64), "exact": found.radius.astype(np.int64)}
    return Measured(columns, facts)


def _learner(settings: Mapping[str, Any], classes: Integers, seed: int) -> Any:
    parameters = dict(settings.get("parameters", {}))
    if settings["learner"] == "random forest":
        return RandomForestClassifier(200, random_state=seed)
    if settings["learner"] == "ridge":
        return CertifiedRidgeClassifier(classes=None if settings.get("alone") else classes)
    if "prior_weight" in settings:
        parameters |= {
            "prior": RandomForestClassifier(200, random_state=seed),
            "prior_weight": settings["prior_weight"],
        }
    return CertifiedForestClassifier(**parameters, random_state=seed, classes=classes)


def _unlimited(prediction: Values) -> Integers:
    """Return a missing radius for each row: no number of other labels can change what never reads them."""
    return np.full(len(prediction), NOTHING, dtype=np.int64)


def certified_shares(rows: RunRows) -> list[float]:
    """Return certified accuracy at each number of flips."""
    if not rows.has("exact"):
        return [clean_accuracy(rows)] * len(FLIPS)
    return [float(share) for share in certified(rows, "exact", FLIPS)]


def tables(rows: CaseRows, records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the table of several draws, then one for each data set."""
    found = []
    for case in STUDY.cases:
        runs = {run.name: run.settings for run in case.runs}
        if case.name == DRAWS:
            found.append(_draws_table(rows[case.name], runs))
            continue
        of_case, record = rows[case.name], records[case.name]
        lines = []
        for share in SHARES:
            shares = {name: certified_shares(of_case[name]) for name in runs if runs[name]["share"] == share}
            best = np.max(list(shares.values()), axis=0)
            for name, values in shares.items():
                cells = [f"**{a:.3f}**" if a == b else f"{a:.3f}" for a, b in zip(values, best, strict=True)]
                n_trusted = f"{record['runs'][name]['n_trusted']:,.0f}"
                lines.append([n_trusted, runs[name]["shown"], *cells])
        head = ["trusted", "learner", *(f"{flips:,}" for flips in FLIPS)]
        title = f"**{case.title}, {record['n_train']:,} training rows**"
        found += [title, markdown_table(head, lines).rstrip()]
    return found


def _draws_table(rows: Mapping[str, RunRows], runs: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the mean over draws, with the range in brackets."""
    lines = []
    for shown in DRAWN:
        each = np.array([certified_shares(rows[name]) for name in rows if runs[name]["shown"] == shown])
        parts = zip(each.mean(axis=0), each.min(axis=0), each.max(axis=0), strict=True)
        lines.append([shown, *(f"{mean:.3f} ({low:.3f} to {high:.3f})" for mean, low, high in parts)])
    return markdown_table(["learner", *(f"{flips:,}" for flips in FLIPS)], lines).rstrip()


def _runs(learners: Mapping[str, Mapping[str, Any]], share: float, draw: int, first: str) -> list[StudyRun]:
    return [
        StudyRun(f"{first}, {name}", {**settings, "share": share, "draw": draw, "shown": name})
        for name, settings in learners.items()
    ]


DRAWS = "spambase-draws"


def _cases() -> tuple[Case, ...]:
    shares = tuple(run for share in SHARES for run in _runs(LEARNERS, share, 0, f"{100 * share:.0f} % trusted"))
    draws = tuple(run for draw in range(N_DRAWS) for run in _runs(DRAWN, DRAWN_SHARE, draw, f"draw {draw + 1}"))
    kinds = [
        (DRAWS, "Spambase, several draws", draws, load_spambase),
        ("spambase", "Spambase", shares, load_spambase),
        ("phishing", "Phishing Websites", shares, load_phishing),
        ("adult", "Adult", shares, load_adult),
    ]
    return tuple(Case(name, title, runs, COLUMNS, partial(read, load), measure) for name, title, runs, load in kinds)


STUDY = Study("trust", "What trusted labels buy", CAPTION, _cases(), tables)
