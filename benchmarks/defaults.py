"""Comparison behind two defaults, the number of neighbours and the scale of numbers: the tables in docs/defaults.md.

    python benchmarks/defaults.py --data-dir DIR    # measures again, and writes benchmarks/results/defaults.json
    python benchmarks/defaults.py                   # prints the tables from that file

Exact certified accuracy without changes, and at 10, 20 and 1 % changed labels. A quarter of the rows is held out; at
most 2,000 of them are certified.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flipproof import (
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedRidgeClassifier,
    certified_accuracy,
)
from flipproof.metrics import constant_accuracy
from flipproof.readable import percent
from flipproof.tables import TableEncoder, TextLayout, read_table
from flipproof.tables.roles import held_out

RESULTS = Path(__file__).parent / "results" / "defaults.json"
MOST_TEST_ROWS = 2000

#: Numbers of neighbours to compare: integers, or shares of the training rows. None is the default.
NEIGHBORS = (15, 0.01, 0.02, 0.05, 0.1, None)
SCALES = ("standard", "rank", "auto")
LEARNERS = {
    "ridge": CertifiedRidgeClassifier(),
    "kernel, 1,000 landmarks": CertifiedKernelClassifier(n_components=1000),
    "neighbours": CertifiedNeighborsClassifier(),
    "forest": CertifiedForestClassifier(),
}


@dataclass(frozen=True)
class File:
    """A public file, its label column, its columns of text, the columns to use (all if empty) and its layout."""

    path: str
    label: str
    text: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    layout: TextLayout | None = None


FILES = {
    "German credit": File("german_credit/german.data.gz", "CLASSIFICATION", layout=TextLayout(separator=" ")),
    "Deceptive opinion": File("deceptive_opinion/deceptive-opinion.csv.gz", "label", ("review",)),
    "Spambase": File("spambase/spambase.data.gz", "f57", layout=TextLayout(header=False)),
    "Enron": File("enron_spam/enron_farmer_gp.jsonl.xz", "label", ("text",), ("text",)),
    "SMS spam": File(
        "sms_spam/SMSSpamCollection.gz", "kind", ("text",), layout=TextLayout(names=("kind", "text"), quotes=False)
    ),
    "Phishing": File("phishing_websites/phishing_website.csv.gz", "Result"),
    "Adult": File("adult/adult.data.gz", "classification"),
}


@dataclass(frozen=True)
class Problem:
    """Training and test rows of a file, encoded without labels."""

    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    truth: np.ndarray

    @property
    def flips(self) -> list[int]:
        """Numbers of flips: 0, 10, 20 and 1 % of the training labels."""
        return [0, 10, 20, -(-len(self.y) // 100)]

    def accuracy(self, learner: Any) -> list[float]:
        """Return certified accuracy at these numbers of flips."""
        found = learner.fit(self.X, self.y).certify(self.Z)
        return certified_accuracy(self.truth, found, self.flips).tolist()


def problem(file: File, data_dir: Path, scale: str) -> Problem:
    table = read_table(data_dir / file.path, file.layout)
    label = file.label if file.label in table.column_names else table.column_names[-1]
    rows, others = held_out(table.num_rows, 0.25, 0)
    others = np.random.default_rng(0).permutation(others)[:MOST_TEST_ROWS]
    features = table.select(file.columns or [name for name in table.column_names if name != label])
    encoder = TableEncoder(file.text, scale=scale)
    labels = np.array(table[label].to_pylist())
    X = encoder.fit_transform(features.take(rows))
    return Problem(X, labels[rows], encoder.transform(features.take(others)), labels[others])


def measured(data_dir: Path) -> Iterator[dict[str, Any]]:
    """Yield one line for each table, learner and setting."""
    for name, file in FILES.items():
        for scale in SCALES[:1] if file.text else SCALES:
            found = problem(file, data_dir, scale)
            about = {
                "table": name,
                "n_train": len(found.y),
                "n_test": len(found.truth),
                "constant": constant_accuracy(found.truth),
                "scale": scale,
            }
            if scale == SCALES[0]:
                for number in NEIGHBORS:
                    share = found.accuracy(CertifiedNeighborsClassifier(number))
                    yield {**about, "learner": "neighbours", "n_neighbors": number, "accuracy": share}
            if not file.text:
                for learner, model in LEARNERS.items():
                    yield {**about, "learner": learner, "accuracy": found.accuracy(model)}


def committed() -> list[dict[str, Any]]:
    return json.loads(RESULTS.read_text())


def neighbors_table() -> str:
    lines = [one for one in committed() if "n_neighbors" in one]
    heads = ["default" if one is None else str(one) if isinstance(one, int) else f"{one:.0%}" for one in NEIGHBORS]
    return _table(
        ["table", "rows", "constant", *heads], [_of_table(name, lines, "n_neighbors", NEIGHBORS) for name in FILES]
    )


def scale_table() -> str:
    lines = [one for one in committed() if "n_neighbors" not in one]
    rows = []
    for name, file in FILES.items():
        if not file.text:
            for learner in LEARNERS:
                own = [one for one in lines if one["learner"] == learner]
                table, *_, standard, rank, auto = _of_table(name, own, "scale", SCALES)
                rows.append([table, learner, standard, rank, auto])
    return _table(["table", "learner", *SCALES], rows)


def _of_table(name: str, lines: list[dict[str, Any]], setting: str, values: tuple[Any, ...]) -> list[str]:
    own = {one[setting]: one for one in lines if one["table"] == name}
    one = own[values[0]]
    shares = [" / ".join(percent(share)[:-1] for share in own[value]["accuracy"]) for value in values]
    return [name, f"{one['n_train']:,}", percent(one["constant"])[:-1], *shares]


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with german_credit/, spambase/, ...")
    arguments = parser.parse_args()
    if arguments.data_dir:
        lines = [json.dumps(line) for line in measured(arguments.data_dir)]
        RESULTS.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(neighbors_table(), scale_table(), sep="\n\n")


if __name__ == "__main__":
    main()
