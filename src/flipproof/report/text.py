"""Certified accuracy of several methods as a short summary and as a text table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from flipproof.certificate_words import COUNTED_UNITS, FLIPS_NAMES, method_name
from flipproof.certificates import Certificates
from flipproof.metrics import certified_accuracy, constant_accuracy, worst_class
from flipproof.readable import percent


@dataclass(frozen=True)
class MethodAccuracy:
    """Certified accuracy by one method.

    Attributes
    ----------
    name : str
        The method, with its noise if it has one.
    method : str
        "exact", "tight", "kl", "gap" or "gaussian".
    clean_accuracy : float
        Share of test rows predicted correctly if no label is changed.
    certified : tuple of float
        Certified accuracy at each number of flips.
    worst_recall : tuple of float
        Lowest certified recall of any class, at each number of flips.
    """

    name: str
    method: str
    clean_accuracy: float
    certified: tuple[float, ...]
    worst_recall: tuple[float, ...]


@dataclass(frozen=True)
class AccuracySummary:
    """Certified accuracy on one test set, by several methods.

    Attributes
    ----------
    n_train, n_test, n_classes : int
        Sizes of the problem.
    unit : {"labels", "annotators", "windows", "rows", "sources", "l2", "divergence"}
        Unit of `flips`.
    n_units : int
        Number of labels, annotators, rows or sources.
    constant_accuracy : float
        Accuracy of the best constant classifier, which does not depend on labels.
    flips : tuple of int, or of float
        Numbers of changed labels, or radii, that the tuples in `methods` refer to.
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
        """The numbers of flips as shares of the training labels or rows, or of the annotators or sources."""
        return tuple(flips / self.n_units for flips in self.flips)


@dataclass(frozen=True)
class TextTable:
    """A table of text; header cells may have two lines."""

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
            "Certificates in one table must be for the same training labels, in the same unit. "
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

    Methods without noise have a second row for the worst class: accuracy can hide the loss of one class.
    """
    if summary.unit in COUNTED_UNITS:
        header = [f"{FLIPS_NAMES[summary.unit]}\nof {summary.n_units}"]
        header += [f"{flips}\n= {percent(share)}" for flips, share in zip(summary.flips, summary.shares, strict=True)]
    else:
        header = ["features changed\n(l2 norm)" if summary.unit == "l2" else "noise changed\n(divergence)"]
        header += [f"{radius:g}" for radius in summary.flips]
    rows = []
    for method in summary.methods:
        rows.append((method.name, *map(percent, method.certified)))
        if method.method in ("exact", "gap"):
            rows.append(("  worst class", *map(percent, method.worst_recall)))
    return TextTable(tuple(header), tuple(rows))


def _method_accuracy(y_true: ArrayLike, certificates: Certificates, flips: Sequence[float]) -> MethodAccuracy:
    return MethodAccuracy(
        name=method_name(certificates),
        method=certificates.method,
        clean_accuracy=float(certified_accuracy(y_true, certificates, [0])[0]),
        certified=tuple(certified_accuracy(y_true, certificates, list(flips)).tolist()),
        worst_recall=tuple(worst_class(y_true, certificates, number).recall for number in flips),
    )
