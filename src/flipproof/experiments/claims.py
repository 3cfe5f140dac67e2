"""The numbers in the paper's text, beside ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from flipproof.experiments.rows import RunRows
from flipproof.experiments.scores import attacked, certified, clean_accuracy
from flipproof.experiments.tables import markdown_table

#: Methods that the claims about certificates are looked at by.
METHODS = ("tight", "exact")

GAP = "largest gap between certified and attacked accuracy"


@dataclass(frozen=True)
class Claim:
    """A number in the text: of which run, what it is, what the paper says, and how it comes out of rows."""

    experiment: str
    run: str
    says: str
    paper: str
    ours: Callable[[RunRows], list[str]]


def _clean(rows: RunRows) -> list[str]:
    return [f"{clean_accuracy(rows):.4f}", ""]


def _certified_at(flips: int) -> Callable[[RunRows], list[str]]:
    return lambda rows: [f"{certified(rows, method, flips)[0]:.4f}" for method in METHODS]


def _attacked_at(flips: int) -> Callable[[RunRows], list[str]]:
    return lambda rows: [f"{attacked(rows, 'flips_needed', flips)[0]:.4f}", ""]


def _flips_above(share: float) -> Callable[[RunRows], list[str]]:
    """Return the largest number of flips at which more than that share is certified."""

    def found(rows: RunRows) -> list[str]:
        answers = []
        for method in METHODS:
            curve = certified(rows, method, np.arange(int(rows[method].max()) + 2))
            answers.append(str(int(np.flatnonzero(curve > share).max(initial=0))))
        return answers

    return found


def _largest_gap(rows: RunRows) -> list[str]:
    """Return the largest difference between the attacked accuracy and the certified one, at any number of flips."""
    answers = []
    for method in METHODS:
        flips = np.arange(1, int(rows["flips_needed"].max()) + 1)
        answers.append(f"{(attacked(rows, 'flips_needed', flips) - certified(rows, method, flips)).max():.4f}")
    return answers


CLAIMS = (
    Claim("mnist17", "q = 0.3, lambda by rule", "clean accuracy of the certified classifier", ".945", _clean),
    Claim("mnist17", "q = 0.3, lambda = 25,000", "clean accuracy of the certified classifier", ".945", _clean),
    Claim("mnist17", "undefended", "clean accuracy of the undefended classifier", ".991", _clean),
    Claim(
        "cifar10", "q = 0.012", "half of the predictions are certified up to so many flips", "175", _flips_above(0.5)
    ),
    Claim("cifar10", "q = 0.012", "more than chance is certified up to so many flips", "427", _flips_above(0.1)),
    Claim("dogfish", "q = 0.0001", "certified at 23 flips", ".813", _certified_at(23)),
    Claim("dogfish", "undefended", "correct after an attack with 23 flips", "below .01", _attacked_at(23)),
    Claim("dogfish", "q = 0.0001", "half are certified up to so many flips", "more than 92", _flips_above(0.5)),
    Claim("mnist17", "q = 0.3, lambda = 25,000", GAP, "below .10", _largest_gap),
    Claim("mnist17", "q = 0.4, lambda = 25,000", GAP, "below .10, larger", _largest_gap),
    Claim("mnist17", "q = 0.45, lambda = 25,000", GAP, "below .10, larger still", _largest_gap),
    Claim("dogfish", "q = 0.0001", GAP, "small", _largest_gap),
    Claim("dogfish", "q = 0.05", GAP, "larger", _largest_gap),
    Claim("imdb", "q = 0.01", "clean accuracy", ".7911", _clean),
    Claim("imdb", "q = 0.1", "clean accuracy", ".7896", _clean),
)


def claims_table(rows: Mapping[str, Mapping[str, RunRows]]) -> str:
    """Return the numbers of the text as a table, for the experiments that there are rows of."""
    lines = []
    for claim in CLAIMS:
        if claim.experiment in rows:
            answers = claim.ours(rows[claim.experiment][claim.run])
            lines.append([claim.experiment, claim.run, claim.says, claim.paper, *answers])
    head = ["data", "run", "what", "the paper", "ours (tight)", "ours, exact"]
    return f"# The numbers in the paper's text\n\n{markdown_table(head, lines)}"
