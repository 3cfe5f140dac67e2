"""Certified accuracy and recall."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.certificates import Certificates
from flipproof.rounding import Floats
from flipproof.values import check_nothing_masked


def certified_accuracy(y_true: ArrayLike, certificates: Certificates, flips: ArrayLike) -> Floats:
    """Share of test rows that are predicted correctly *and* stay so under any `flips` changed training labels.

    Parameters
    ----------
    y_true : array of shape (m,)
        The true classes of the test rows.
    certificates : Certificates
        What `certify` returned for them.
    flips : array of shape (f,)
        Numbers of changed labels, or radii in whatever unit the certificates are. At 0 this is plain accuracy, but for
        abstentions.

    Returns
    -------
    array of shape (f,)
        An abstention counts as wrong.
    """
    truth, wanted = _checked(y_true, certificates, flips)
    return _share_safe(truth == certificates.prediction, certificates, wanted, truth.size)


def certified_recall(y_true: ArrayLike, certificates: Certificates, flips: ArrayLike) -> Floats:
    """Certified accuracy per true class: a constant classifier certifies everything, but recalls one class only.

    Returns
    -------
    array of shape (f, K)
        In the order of `certificates.classes`; NaN for a class that `y_true` does not hold.
    """
    truth, wanted = _checked(y_true, certificates, flips)
    recalls = []
    for label in certificates.classes:
        of_class = truth == label
        recalls.append(_share_safe(of_class & (certificates.prediction == label), certificates, wanted, of_class.sum()))
    return np.stack(recalls, axis=1)


def _share_safe(correct: NDArray[np.bool_], certificates: Certificates, flips: Floats, total: int) -> Floats:
    """Return the share of `total` rows that are correct and certified; NaN of no rows."""
    radii = np.sort(certificates.radius[correct & ~certificates.abstained])
    safe = len(radii) - np.searchsorted(radii, flips, side="left")
    return safe / total if total else np.full(len(flips), np.nan)


def _checked(y_true: ArrayLike, certificates: Certificates, flips: ArrayLike) -> tuple[NDArray[Any], Floats]:
    check_nothing_masked(y_true, "y_true")
    truth = np.asarray(y_true)
    if truth.shape != certificates.prediction.shape:
        raise ValueError(
            f"y_true must have one label per certificate, shape {certificates.prediction.shape}. "
            f"Got shape {truth.shape} instead."
        )
    if truth.size == 0:
        raise ValueError("y_true is empty: there is no accuracy of no predictions.")
    if not np.isin(truth, certificates.classes).any():
        raise ValueError(
            f"y_true holds none of the classes {certificates.classes.tolist()}: is it of another type than the "
            f"training labels? Got {np.unique(truth)[:3].tolist()} instead."
        )
    wanted = np.atleast_1d(np.asarray(flips))
    if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.number) or not (wanted >= 0).all():
        raise ValueError(f"flips must be numbers of at least 0. Got {flips!r} instead.")
    return truth, wanted.astype(np.float64)
