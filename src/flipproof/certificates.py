"""What a certificate says: frozen results."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.rounding import Floats, Integers

METHODS = ("exact", "tight", "kl")


@dataclass(frozen=True, repr=False, eq=False)
class Certificates:
    """One certificate per test row: `prediction` stays the same under any `radius` changed training labels.

    Attributes
    ----------
    prediction : array of shape (m,)
        What `predict` returns.
    radius : integers of shape (m,)
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
    method : {"exact", "tight", "kl"}
        How the radius was found.
    noise : float or floats of shape (m,)
        The noise q of the measure; one per row with ``noise="auto"``; NaN where the exact method needs none.
    n_train : int
        Number of training labels: the denominator of "share of labels poisoned".
    classes : array of shape (K,)
        The classes, in the order of `witness`.
    assumptions : tuple of str
        What the certificate rests on, in words.
    unit : str
        What the radius counts: "labels".
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
    assumptions: tuple[str, ...]
    unit: str = "labels"

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def __len__(self) -> int:
        return len(self.prediction)

    def __repr__(self) -> str:
        middle = f", median radius {int(np.median(self.radius))}" if len(self) else ""
        return f"<Certificates: {len(self)} predictions, method {self.method!r}{middle} of {self.n_train} {self.unit}>"

    def to_arrow(self) -> Any:
        """Return a pyarrow table, one line per test row; what belongs to all rows is in the schema's metadata."""
        try:
            import pyarrow as pa
        except ImportError as error:
            raise ImportError("to_arrow needs pyarrow: pip install 'flipproof[cli]'") from error
        columns = {
            "prediction": self.prediction,
            "radius": self.radius,
            "rival": self.rival,
            "margin": self.margin,
            "log_failure": self.log_failure,
            "abstained": self.abstained,
            "noise": np.broadcast_to(np.asarray(self.noise, dtype=np.float64), len(self)),
            **{f"witness_{name}": self.witness[:, k] for k, name in enumerate(self.classes)},
        }
        about = {
            "method": self.method,
            "n_train": str(self.n_train),
            "unit": self.unit,
            "classes": json.dumps(self.classes.tolist()),
            "assumptions": json.dumps(self.assumptions),
        }
        return pa.table(columns, metadata=about)


def check_method(method: str, owner: str) -> str:
    """Return `method` if it is one, else say which there are."""
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(
            f"The 'method' parameter of {owner} must be one of {', '.join(map(repr, METHODS))}. Got {method!r} instead."
        )
    return method


def certificate_sentence(certificates: Certificates, row: int, names: Sequence[str] | None = None) -> str:
    """Read one certificate aloud in plain words; `names` are words for the classes."""

    def spoken(label: Any) -> str:
        code = int(np.flatnonzero(certificates.classes == label)[0])
        return f"{names[code] if names else label}"

    prediction, rival = certificates.prediction[row], certificates.rival[row]
    radius, n = int(certificates.radius[row]), certificates.n_train
    if radius >= n:
        return f"Test row {row} is predicted as {spoken(prediction)}, whatever the {n} training labels say."
    return (
        f"Test row {row} is predicted as {spoken(prediction)}, and would be even if someone who aims at this very row "
        f"had changed any {radius} of the {n} training labels ({radius / n:.1%}) to whatever they liked; "
        f"beyond that, {spoken(rival)} is the class to watch."
    )
