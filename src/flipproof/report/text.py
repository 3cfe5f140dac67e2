"""Certificates in figures: plain summaries, and tables of text that somebody else prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from flipproof.certificates import COUNTED_UNITS, Certificates, method_name
from flipproof.core.rounding import Floats
from flipproof.metrics import certified_accuracy, certified_recall, constant_accuracy
from flipproof.readable import percent


@dataclass(frozen=True)
class MethodAccuracy:
    """How accurate the predictions are under attack, by one method of certification.

    Attributes
    ----------
    name : str
        The method, with its noise if it has one.
    method : str
        "exact", "tight", "kl", "gap" or "gaussian".
    clean_accuracy : float
        Share of test rows predicted correctly, nobody having changed a label.
    certified : tuple of float
        Certified accuracy at each number of flips.
    worst_recall : tuple of float
        Certified recall of the class that has the lowest, at each number of flips.
    """

    name: str
    method: str
    clean_accuracy: float
    certified: tuple[float, ...]
    worst_recall: tuple[float, ...]


@dataclass(frozen=True)
class AccuracySummary:
    """What the certificates of one test set come to.

    Attributes
    ----------
    n_train, n_test, n_classes : int
        Sizes of the problem.
    unit : {"labels", "annotators", "l2", "divergence"}
        What `flips` counts or measures.
    n_units : int
        How many labels, or annotators, there are.
    constant_accuracy : float
        Accuracy of the best constant classifier, which no changed label can move.
    flips : tuple of int, or of float
        The numbers of changed labels, or the radii, that `methods` speak of.
    methods : tuple of MethodAccuracy
        One per method.
    """

    n_train: int
    n_test: int
    n_classes: int
    unit: str
    n_units: int
    constant_accuracy: float
    flips: tuple[float, ...]
    methods: tuple[MethodAccuracy, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """The numbers of flips as shares of the training labels, or of the annotators."""
        return tuple(flips / self.n_units for flips in self.flips)


@dataclass(frozen=True)
class TextTable:
    """Cells of text; those of the header may have two lines."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def summarize(y_true: ArrayLike, certificates: Sequence[Certificates], flips: Sequence[float]) -> AccuracySummary:
    """Summarize certificates of the same test rows by several methods.

    Parameters
    ----------
    y_true : array of shape (m,)
        The true classes of the test rows.
    certificates : sequence of Certificates
        One per method, all against the same training labels.
    flips : sequence of int, or of float
        Numbers of changed labels to report, or radii if they are not counted in labels.

    Returns
    -------
    AccuracySummary
    """
    if not certificates:
        raise ValueError("There are no certificates to summarize.")
    sizes = {(one.n_train, len(one.classes), one.n_units, one.unit) for one in certificates}
    if len(sizes) > 1:
        raise ValueError(
            "Certificates can only be compared on the same training labels and in the same unit. "
            f"Got (labels, classes, number of units, unit) = {sorted(sizes)}."
        )
    n_train, n_classes, n_units, unit = sizes.pop()
    return AccuracySummary(
        unit=unit,
        n_units=n_units,
        n_train=n_train,
        n_test=len(certificates[0]),
        n_classes=n_classes,
        constant_accuracy=constant_accuracy(y_true),
        flips=tuple(int(number) if unit in COUNTED_UNITS else float(number) for number in flips),
        methods=tuple(_method_accuracy(y_true, one, flips) for one in certificates),
    )


def accuracy_table(summary: AccuracySummary) -> TextTable:
    """Return certified accuracy as a table: a column per number of flips, a row per method.

    Methods without noise have a second row, for the class that fares worst: accuracy can hide that a class is lost.
    """
    if summary.unit in COUNTED_UNITS:
        counted = "labels changed" if summary.unit == "labels" else f"malicious {summary.unit}"
        header = [f"{counted}\nof {summary.n_units}"]
        header += [f"{flips}\n= {percent(share)}" for flips, share in zip(summary.flips, summary.shares, strict=True)]
    else:
        header = ["features moved\n(l2 norm)" if summary.unit == "l2" else "noise moved\n(divergence)"]
        header += [f"{radius:g}" for radius in summary.flips]
    rows = []
    for method in summary.methods:
        rows.append((method.name, *map(percent, method.certified)))
        if method.method in ("exact", "gap"):
            rows.append(("  its worst class", *map(percent, method.worst_recall)))
    return TextTable(tuple(header), tuple(rows))


def _method_accuracy(y_true: ArrayLike, certificates: Certificates, flips: Sequence[float]) -> MethodAccuracy:
    return MethodAccuracy(
        name=method_name(certificates),
        method=certificates.method,
        clean_accuracy=float(certified_accuracy(y_true, certificates, [0])[0]),
        certified=tuple(certified_accuracy(y_true, certificates, list(flips)).tolist()),
        worst_recall=tuple(_worst_recall(y_true, certificates, flips).tolist()),
    )


def _worst_recall(y_true: ArrayLike, certificates: Certificates, flips: Sequence[float]) -> Floats:
    """Return the lowest certified recall over the true classes; a class that the learner does not know has none."""
    if not np.isin(np.asarray(y_true), certificates.classes).all():
        return np.zeros(len(flips))
    recall = certified_recall(y_true, certificates, list(flips))
    present = np.isin(certificates.classes, np.asarray(y_true))
    return np.asarray(recall[:, present].min(axis=1))
