"""The numbers in the paper's text, compared with ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Floats
from flipproof.experiments.row_files import RunRows, attacked, certified, clean_accuracy
from flipproof.experiments.tables_and_figures import markdown_table

#: Methods with which the claims about certificates are computed.
METHODS = ("tight", "exact")

#: Last number of flips in the figure with attacks on MNIST 1/7.
FIGURE_FLIPS = 2500
LARGEST_GAP = "largest gap between certified and attacked accuracy"
GAP_IN_FIGURE = f"{LARGEST_GAP}, up to {FIGURE_FLIPS:,} flips"


@dataclass(frozen=True)
class Claim:
    """A number in the text: its run, its meaning, the paper's value, and how to compute ours from rows."""

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


def _flips_while(holds: Callable[[Floats], NDArray[np.bool_]]) -> Callable[[RunRows], list[str]]:
    """Return the largest number of flips at which the condition holds for the certified share."""

    def found(rows: RunRows) -> list[str]:
        curves = (certified(rows, method, np.arange(int(rows[method].max()) + 2)) for method in METHODS)
        return [str(int(np.flatnonzero(holds(curve)).max(initial=0))) for curve in curves]

    return found


def _half(share: Floats) -> NDArray[np.bool_]:
    return share >= 0.5


def _more_than_chance(share: Floats) -> NDArray[np.bool_]:
    """Whether the share is larger than that of a guess among ten classes."""
    return share > 0.1


def _gap_up_to(most_flips: int | None) -> Callable[[RunRows], list[str]]:
    """Return the largest difference between attacked and certified accuracy, up to `most_flips` or without limit."""

    def found(rows: RunRows) -> list[str]:
        answers = []
        for method in METHODS:
            # with more flips nothing is certified and no other row is overturned; unreachable rows have a radius of n
            nothing_left = min(rows[method].max() + 1, rows["exact"].max())
            last = most_flips or int(max(rows["flips_needed"].max(), nothing_left))
            flips = np.arange(1, last + 1)
            answers.append(f"{(attacked(rows, 'flips_needed', flips) - certified(rows, method, flips)).max():.4f}")
        return answers

    return found


CLAIMS = (
    Claim("mnist17", "q = 0.3, lambda by rule", "clean accuracy of the certified classifier", ".945", _clean),
    Claim("mnist17", "q = 0.3, lambda = 25,000", "clean accuracy of the certified classifier", ".945", _clean),
    Claim("mnist17", "undefended", "clean accuracy of the undefended classifier", ".991", _clean),
    Claim(
        "cifar10", "q = 0.012", "most flips at which half of the predictions are certified", "175", _flips_while(_half)
    ),
    Claim(
        "cifar10",
        "q = 0.012",
        "most flips at which certified accuracy is above chance",
        "427",
        _flips_while(_more_than_chance),
    ),
    Claim("dogfish", "q = 0.0001", "certified at 23 flips", ".813", _certified_at(23)),
    Claim("dogfish", "undefended", "correct after an attack with 23 flips", "below .01", _attacked_at(23)),
    Claim(
        "dogfish",
        "q = 0.0001",
        "most flips at which half of the predictions are certified",
        "more than 92",
        _flips_while(_half),
    ),
    Claim("mnist17", "q = 0.3, lambda = 25,000", GAP_IN_FIGURE, "below .10", _gap_up_to(FIGURE_FLIPS)),
    Claim("mnist17", "q = 0.4, lambda = 25,000", GAP_IN_FIGURE, "below .10, larger", _gap_up_to(FIGURE_FLIPS)),
    Claim("mnist17", "q = 0.45, lambda = 25,000", GAP_IN_FIGURE, "below .10, larger still", _gap_up_to(FIGURE_FLIPS)),
    Claim("mnist17", "q = 0.3, lambda = 25,000", LARGEST_GAP, "below .10", _gap_up_to(None)),
    Claim("mnist17", "q = 0.4, lambda = 25,000", LARGEST_GAP, "below .10, larger", _gap_up_to(None)),
    Claim("mnist17", "q = 0.45, lambda = 25,000", LARGEST_GAP, "below .10, larger still", _gap_up_to(None)),
    Claim("dogfish", "q = 0.0001", LARGEST_GAP, "small", _gap_up_to(None)),
    Claim("dogfish", "q = 0.05", LARGEST_GAP, "larger", _gap_up_to(None)),
    Claim("imdb", "q = 0.01", "clean accuracy", ".7911", _clean),
    Claim("imdb", "q = 0.1", "clean accuracy", ".7896", _clean),
)


def claims_table(rows: Mapping[str, Mapping[str, RunRows]]) -> str:
    """Return the numbers of the text as a table, for the experiments in `rows`."""
    lines = []
    for claim in CLAIMS:
        if claim.experiment in rows:
            answers = claim.ours(rows[claim.experiment][claim.run])
            lines.append([claim.experiment, claim.run, claim.says, claim.paper, *answers])
    head = ["data", "run", "what", "the paper", "ours (tight)", "ours, exact"]
    return f"# The numbers in the paper's text\n\n{markdown_table(head, lines)}"
