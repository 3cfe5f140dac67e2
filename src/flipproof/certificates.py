"""What a certificate says, and against whom: frozen results and descriptions."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption, check_assumptions
from flipproof.core.rounding import Floats, Integers
from flipproof.parameters import check_parameter, one_of
from flipproof.readable import percent, significant
from flipproof.values import column_of

METHODS = ("exact", "tight", "kl")

#: Units of which there is a number; radii in all others are measured.
COUNTED_UNITS = ("labels", "annotators")


#: Rows of the table that a notebook shows.
ROWS_IN_NOTEBOOK = 5


@dataclass(frozen=True, repr=False, eq=False)
class Certificates:
    """One certificate per test row: `prediction` stays the same under any `radius` changed training labels.

    Attributes
    ----------
    prediction : array of shape (m,)
        What `predict` returns.
    radius : integers of shape (m,), or floats where `unit` does not count
        How many training labels may be changed, to any classes and by somebody who aims at this very row, without
        changing the prediction.
    rival : array of shape (m,)
        The class that limits the radius.
    margin : floats of shape (m,)
        Lead of the predicted class over `rival` in the learner's scores.
    log_failure : floats of shape (m,)
        Upper bound on log P(the noise takes the prediction away); NaN for the exact method, which needs none.
    abstained : booleans of shape (m,)
        True where no prediction is certified at all; counts as wrong in :func:`flipproof.certified_accuracy`.
    witness : floats of shape (m, K)
        The Chernoff parameter t against each class, which proves `log_failure`; NaN where there is none.
    method : {"exact", "tight", "kl", "gap", "gaussian"}
        How the radius was found; "gap": by counting votes of partitions; "gaussian": by noise on the features.
    noise : float or floats of shape (m,)
        The noise q of the measure, or sigma of noise on features; one per row with ``noise="auto"``; NaN where the
        exact method needs none.
    n_train : int
        Number of training labels: the denominator of "share of labels poisoned".
    classes : array of shape (K,)
        The classes, in the order of `witness`.
    assumptions : tuple of Assumption
        What the certificate rests on; ``str`` words each.
    unit : {"labels", "annotators", "l2", "divergence"}
        What the radius counts. "l2": it is the norm of a change of all training features together; "divergence": of the
        noise, in nats, for a measure of one's own.
    n_touchable : int
        How many labels (or annotators) the adversary can touch. The radius is that number where no changes at all can
        overturn the prediction.
    adversary : Adversary or None
        Who is certified against, as given to `certify`; None: somebody who may change any label to anything, but for
        what a fit to rows in blocks was told of trusted labels and annotators, which `assumptions` say.
    """

    prediction: NDArray[Any]
    radius: Integers
    rival: NDArray[Any]
    margin: Floats
    log_failure: Floats
    abstained: NDArray[np.bool_]
    witness: Floats
    method: str
    noise: float | Floats
    n_train: int
    classes: NDArray[Any]
    assumptions: tuple[Assumption, ...]
    unit: str = "labels"
    n_touchable: int = -1
    adversary: Adversary | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "assumptions", check_assumptions(self.assumptions, type(self).__name__))
        if self.n_touchable < 0:  # not given: whoever it is can touch every label
            object.__setattr__(self, "n_touchable", self.n_train)
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> Certificates:
        """Return the certificates of some test rows: a slice, a mask, or their numbers."""
        chosen = np.arange(len(self))[rows]
        if chosen.ndim != 1:
            raise IndexError(f"Certificates[...] must name rows by a slice, a mask or a list. Got {rows!r} instead.")
        arrays = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        taken = {name: value[chosen] for name, value in arrays.items() if name != "classes"}
        return replace(self, **taken)

    @property
    def n_units(self) -> int:
        """What a radius is a share of: all training labels, or all annotators who can change some."""
        return self.n_train if self.unit == "labels" else self.n_touchable

    def __repr__(self) -> str:
        median = np.median(self.radius) if len(self) else 0
        if self.unit in COUNTED_UNITS:
            middle = f", median radius {int(median)}" if len(self) else ""
            middle += f" of {self.n_touchable} {self.unit}"
        else:
            middle = f", median radius {significant(median)} ({self.unit})" if len(self) else f" ({self.unit})"
        abstained = f", {np.count_nonzero(self.abstained)} abstained" if self.abstained.any() else ""
        return f"<Certificates: {len(self)} predictions, method {self.method!r}{middle}{abstained}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the most fragile predictions, and what all certificates rest on."""
        order = np.lexsort((self.margin, self.radius, ~self.abstained))[:ROWS_IN_NOTEBOOK]
        lines = [(row, self.prediction[row], self._radius_words(row), self.rival[row]) for row in order]
        head = _html_cells(("test row", "prediction", f"radius ({self.unit})", "class to watch"), "th")
        body = "".join(f"<tr>{_html_cells(line, 'td')}</tr>" for line in lines)
        rests = "".join(f"<li>{html.escape(str(one))}</li>" for one in self.assumptions)
        return (
            f"<p>{html.escape(repr(self))}</p>"
            f"<table><caption>The most fragile</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<details><summary>What they rest on</summary><ul>{rests}</ul></details>"
        )

    def _radius_words(self, row: int) -> str:
        if self.abstained[row]:
            return "abstained"
        return str(self.radius[row]) if self.unit in COUNTED_UNITS else significant(self.radius[row])

    def to_arrow(
        self, *, ids: Sequence[Any] | None = None, y_true: ArrayLike | None = None, details: bool = True
    ) -> Any:
        """Return a pyarrow table, one line per test row; what belongs to all rows is in the schema's metadata.

        Parameters
        ----------
        ids : sequence of m names, optional
            What the test rows are called, for a column ``id``.
        y_true : array of shape (m,), optional
            The true classes, for the columns ``label`` and ``correct``.
        details : bool, default=True
            Whether there are columns for what proves the radius: ``log_failure``, ``abstained``, ``noise`` and a
            ``witness_`` for each class. Without them it is the table that ``flipproof certify -o`` writes.

        Returns
        -------
        pyarrow.Table
        """
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError("to_arrow needs pyarrow: pip install 'flipproof[cli]'") from error
        columns: dict[str, Any] = {} if ids is None else {"id": column_of(ids)}
        columns |= {"prediction": self.prediction, "radius": self.radius, "rival": self.rival, "margin": self.margin}
        if y_true is not None:
            columns |= {"label": y_true, "correct": self.prediction == np.asarray(y_true)}
        columns |= {"method": pa.repeat(self.method, len(self)), "unit": pa.repeat(self.unit, len(self))}
        if details:
            columns |= self._details()
        about = {
            "method": self.method,
            "n_train": str(self.n_train),
            "unit": self.unit,
            "n_touchable": str(self.n_touchable),
            "classes": json.dumps(self.classes.tolist()),
            "assumptions": json.dumps([one.to_dict() for one in self.assumptions]),
        }
        return pa.table(columns, metadata=about)

    def _details(self) -> dict[str, Any]:
        """Return the columns of a table that prove the radius."""
        return {
            "log_failure": self.log_failure,
            "abstained": self.abstained,
            "noise": np.broadcast_to(np.asarray(self.noise, dtype=np.float64), len(self)),
            **{f"witness_{name}": self.witness[:, k] for k, name in enumerate(self.classes)},
        }


def check_method(method: str, owner: str) -> str:
    """Return `method` if it is one, else say which there are."""
    check_parameter(owner, "method", method, one_of(*METHODS))
    return method


def certificate_sentence(certificates: Certificates, row: int, names: Sequence[str] | None = None) -> str:
    """Read one certificate aloud in plain words; `names` are words for the classes."""

    def spoken(label: Any) -> str:
        code = int(np.flatnonzero(certificates.classes == label)[0])
        return f"{names[code] if names else label}"

    prediction, rival = certificates.prediction[row], certificates.rival[row]
    if certificates.abstained[row]:
        return f"Test row {row} is abstained on: {spoken(prediction)} leads, but {spoken(rival)} may be ahead of it."
    if certificates.unit not in COUNTED_UNITS:
        measured = "the l2 norm over all training features" if certificates.unit == "l2" else "divergence of the noise"
        return (
            f"Test row {row} is predicted as {spoken(prediction)}, and would be even if someone who aims at this very "
            f"row had changed the training data by up to {significant(certificates.radius[row])} in {measured}; "
            f"beyond that, {spoken(rival)} is the class to watch."
        )
    radius, n = int(certificates.radius[row]), certificates.n_touchable
    who = "training labels" if certificates.unit == "labels" else "annotators"
    if radius >= n:
        return f"Test row {row} is predicted as {spoken(prediction)}, whatever the {n} {who} say."
    restricted = certificates.adversary is not None and certificates.adversary.allowed is not None
    how = "in any way that is possible" if restricted else "to whatever they liked"
    if certificates.unit == "labels":
        share = percent(radius / n)
        attack = f"someone who aims at this very row had changed any {radius} of the {n} {who} ({share}) {how}"
    else:
        attack = f"any {radius} of the {n} {who} had aimed at this very row and changed all of their labels {how}"
    return (
        f"Test row {row} is predicted as {spoken(prediction)}, and would be even if {attack}; "
        f"beyond that, {spoken(rival)} is the class to watch."
    )


def _html_cells(texts: Iterable[Any], tag: str) -> str:
    return "".join(f"<{tag}>{html.escape(str(text))}</{tag}>" for text in texts)


def method_name(certificates: Certificates) -> str:
    """Name the method, with its noise q or sigma if it has one."""
    if certificates.method in ("exact", "gap"):
        return certificates.method
    if np.ndim(certificates.noise):
        return f"{certificates.method} (best q per row)"
    if certificates.unit not in COUNTED_UNITS:
        return f"{certificates.method} (sigma = {certificates.noise:g})" if certificates.unit == "l2" else "kl"
    return f"{certificates.method} (q = {certificates.noise:g})"


#: What the radius is counted in, in a table's head or under a slider.
FLIPS_NAMES = {
    "labels": "changed labels",
    "annotators": "malicious annotators",
    "l2": "change of the training features (l2 norm)",
    "divergence": "divergence of the noise (nats)",
}
