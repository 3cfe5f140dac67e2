"""What trusted labels buy on real data: the tables in docs/trusted-labels.md.

    python benchmarks/trust.py --data-dir DIR [--only NAME]    # certify, and write benchmarks/results/trust/NAME.json
    python benchmarks/trust.py --tables                        # print the tables from the committed results
    python benchmarks/trust.py --data-dir DIR --draws 5        # Spambase, 5 % trusted, drawn several times

A share of the training labels is trusted, drawn at random. Settings are round numbers, and none is chosen with labels.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from flipproof import CertifiedForestClassifier, CertifiedRidgeClassifier, certified_accuracy
from flipproof.datasets import load_adult, load_phishing, load_spambase

RESULTS = Path(__file__).parent / "results" / "trust"

#: Shares of the training labels that are trusted.
SHARES = (0.02, 0.05, 0.10)

#: Columns of the tables.
FLIPS = (0, 10, 35, 100, 170, 500, 1000)

#: Training and test rows of Adult, drawn at random.
ADULT_ROWS = (8000, 2000)

PRIOR = RandomForestClassifier(200, random_state=0)
FOREST = CertifiedForestClassifier(100, min_samples_leaf=0.02, random_state=0)

#: Learners by name; those that read no trusted labels have them as trusted votes.
LEARNERS: dict[str, Any] = {
    "ridge": CertifiedRidgeClassifier(),
    "forest": FOREST,
    "forest, prior of weight 1": clone(FOREST).set_params(prior=PRIOR, prior_weight=1.0),
    "forest, prior of weight 2": clone(FOREST).set_params(prior=PRIOR, prior_weight=2.0),
    "supervised forest": clone(FOREST).set_params(grow="supervised"),
    "supervised forest, prior of weight 1": clone(FOREST).set_params(grow="supervised", prior=PRIOR, prior_weight=1.0),
}

#: What several draws compare: leaves of 2 % of the rows, and larger ones.
DRAWN: dict[str, dict[str, Any]] = {
    "forest, prior of weight 2": {},
    "forest with leaves of 20 %, prior of weight 2": {"min_samples_leaf": 0.2},
}


@dataclass(frozen=True)
class Case:
    """A data set: its title, and a function of a folder that returns training and test rows with labels."""

    title: str
    read: Callable[[Path], tuple[Any, Any, Any, Any]]


def scaled(load):
    def read(data_dir):
        data = load(data_home=data_dir)
        scaler = StandardScaler().fit(data.X_train)
        return scaler.transform(data.X_train), data.y_train, scaler.transform(data.X_test), data.y_test

    return read


def adult(data_dir):
    import pandas as pd

    data, rng = load_adult(data_home=data_dir), np.random.default_rng(0)
    some, others = (rng.permutation(n)[:m] for n, m in zip((32561, 16281), ADULT_ROWS, strict=True))
    X, Z = (pd.DataFrame(rows).infer_objects() for rows in (data.X_train[some], data.X_test[others]))
    encoder = make_column_transformer(
        (StandardScaler(), make_column_selector(dtype_include="number")),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), make_column_selector(dtype_exclude="number")),
    ).fit(X)
    return encoder.transform(X), data.y_train[some], encoder.transform(Z), data.y_test[others]


CASES = {
    "spambase": Case("Spambase, 3,451 training rows", scaled(load_spambase)),
    "phishing": Case("Phishing Websites, 8,291 training rows", scaled(load_phishing)),
    "adult": Case("Adult, 8,000 training rows", adult),
}


def measured(name: str, data_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield a line for each share of trusted labels and each learner: certified accuracy by number of flips."""
    X, y, Z, truth = CASES[name].read(data_dir)
    order = np.random.default_rng(0).permutation(len(y))
    for share in SHARES:
        n_trusted = round(share * len(y))
        trusted = np.isin(np.arange(len(y)), order[:n_trusted])
        common = {"share": share, "n_trusted": n_trusted}
        alone = {"random forest": clone(PRIOR), "forest": clone(FOREST), "ridge": CertifiedRidgeClassifier()}
        for who, model in alone.items():
            accuracy = float(model.fit(X[trusted], y[trusted]).score(Z, truth))
            yield {**common, "learner": f"trusted labels only: {who}", "accuracy": [accuracy] * len(FLIPS)}
        for who, learner in LEARNERS.items():
            found = clone(learner).set_params(classes=np.unique(y)).fit(X, y, trusted=trusted).certify(Z)
            yield {**common, "learner": who, "accuracy": certified_accuracy(truth, found, FLIPS).tolist()}
            print(name, n_trusted, who, np.round(certified_accuracy(truth, found, FLIPS), 3), flush=True)


def drawn(data_dir: Path, n_draws: int) -> dict[str, Any]:
    """Return mean, least and largest certified accuracy over draws of 5 % of the labels of Spambase."""
    X, y, Z, truth = CASES["spambase"].read(data_dir)
    alone: list[list[float]] = []
    certified: dict[str, list[list[float]]] = {name: [] for name in DRAWN}
    for seed in range(n_draws):
        order = np.random.default_rng(seed).permutation(len(y))
        trusted = np.isin(np.arange(len(y)), order[: round(0.05 * len(y))])
        for name, parameters in DRAWN.items():
            model = clone(LEARNERS["forest, prior of weight 2"]).set_params(classes=np.unique(y), **parameters)
            found = model.fit(X, y, trusted=trusted).certify(Z)
            certified[name].append(certified_accuracy(truth, found, FLIPS).tolist())
        alone.append([float(model.prior_.score(Z, truth))] * len(FLIPS))
    named = {"trusted labels only: random forest": alone, **certified}
    return {
        name: {
            "mean": np.mean(each, axis=0).tolist(),
            "range": [np.min(each, axis=0).tolist(), np.max(each, axis=0).tolist()],
        }
        for name, each in named.items()
    }


def draws_table() -> str:
    """Return the table of several draws: the mean, and the range."""
    rows = ["| learner | " + " | ".join(f"{flips:,}" for flips in FLIPS) + " |", "|---|" + "---|" * len(FLIPS)]
    for name, found in json.loads((RESULTS / "draws" / "spambase.json").read_text()).items():
        low, high = found["range"]
        cells = [f"{a:.3f} ({b:.3f} to {c:.3f})" for a, b, c in zip(found["mean"], low, high, strict=True)]
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def committed(name: str) -> list[dict[str, Any]]:
    """Return the lines of a data set."""
    return list(json.loads((RESULTS / f"{name}.json").read_text()))


def table(name: str) -> str:
    """Return the table of a data set; the best at each number of flips is bold."""
    rows = ["| trusted | learner | " + " | ".join(f"{flips:,}" for flips in FLIPS) + " |"]
    rows.append("|---|---|" + "---|" * len(FLIPS))
    lines = committed(name)
    for share in SHARES:
        of_share = [line for line in lines if line["share"] == share]
        best = np.max([line["accuracy"] for line in of_share], axis=0)
        for line in of_share:
            cells = [
                f"**{value:.3f}**" if value == most else f"{value:.3f}"
                for value, most in zip(line["accuracy"], best, strict=True)
            ]
            rows.append(f"| {line['n_trusted']:,} | {line['learner']} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--tables", action="store_true")
    parser.add_argument("--draws", type=int)
    options = parser.parse_args()
    if options.draws:
        (RESULTS / "draws").mkdir(parents=True, exist_ok=True)
        lines = json.dumps(drawn(options.data_dir, options.draws), indent=1)
        (RESULTS / "draws" / "spambase.json").write_text(f"{lines}\n")
        print(draws_table())
        return
    for name in [options.only] if options.only else CASES:
        if options.tables:
            print(f"**{CASES[name].title}**\n\n{table(name)}\n")
            continue
        lines = list(measured(name, options.data_dir))
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
