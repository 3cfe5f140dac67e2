"""Certified accuracy and recall."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.certificates import Certificates
from flipproof.rounding import Floats


def certified_accuracy(y_true: ArrayLike, certificates: Certificates, flips: ArrayLike) -> Floats:
    """Share of test rows that are predicted correctly *and* stay so under any `flips` changed training labels.

    Parameters
    ----------
    y_true : array of shape (m,)
        The true classes of the test rows.
    certificates : Certificates
        What `certify` returned for them.
    flips : array of shape (f,)
        Numbers of changed labels. At 0 this is plain accuracy.

    Returns
    -------
    array of shape (f,)
        An abstention counts as wrong.
    """
    _, safe = _correct_and_certified(y_true, certificates, flips)
    return np.asarray(safe.mean(axis=1), dtype=np.float64)


def certified_recall(y_true: ArrayLike, certificates: Certificates, flips: ArrayLike) -> Floats:
    """Certified accuracy per true class: a constant classifier certifies everything, but recalls one class only.

    Returns
    -------
    array of shape (f, K)
        In the order of `certificates.classes`; NaN for a class that `y_true` does not hold.
    """
    truth, safe = _correct_and_certified(y_true, certificates, flips)
    of_class = truth[:, None] == certificates.classes[None, :]
    with np.errstate(invalid="ignore"):
        return np.asarray((safe.astype(np.float64) @ of_class) / of_class.sum(axis=0))


def _correct_and_certified(
    y_true: ArrayLike, certificates: Certificates, flips: ArrayLike
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    truth = np.asarray(y_true)
    if truth.shape != certificates.prediction.shape:
        raise ValueError(
            f"y_true must have one label per certificate, shape {certificates.prediction.shape}. "
            f"Got shape {truth.shape} instead."
        )
    if truth.size == 0:
        raise ValueError("y_true is empty: there is no accuracy of no predictions.")
    wanted = np.atleast_1d(np.asarray(flips))
    if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.number) or (wanted < 0).any():
        raise ValueError(f"flips must be numbers of at least 0. Got {flips!r} instead.")
    correct = (truth == certificates.prediction) & ~certificates.abstained
    return truth, correct[None, :] & (certificates.radius[None, :] >= wanted[:, None])
