"""Certified accuracy and recall: the one place that counts correct and certified predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.certificate_words import COUNTED_UNITS
from flipproof.certificates import Certificates
from flipproof.core.rounding import Floats, Integers, Values, above


def certified_accuracy(y_true: ArrayLike, certificates: Certificates, flips: ArrayLike) -> Floats:
    """Share of test rows predicted correctly *and* certified against any `flips` changed training labels.

    Parameters
    ----------
    y_true : array or Series of shape (m,)
        The true classes of the test rows. If these were a pandas frame, a Series is read by its index.
    certificates : Certificates
        What `certify` returned for them.
    flips : array of shape (f,)
        Numbers of changed labels, or radii in the unit of the certificates. At 0 this is plain accuracy, except that
        abstentions count as wrong.

    Returns
    -------
    array of shape (f,)
        Certified accuracy at each number of flips.

    See Also
    --------
    flipproof.certified_recall : Certified accuracy per class.
    flipproof.CertifiedAccuracyDisplay : Plot of certified accuracy.

    Examples
    --------
    >>> from flipproof import certified_accuracy, CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> certified_accuracy(y[400:], model.certify(X[400:]), flips=[0, 10]).round(3)
    array([0.935, 0.917])
    """
    return np.asarray(n_correct(y_true, certificates, flips) / len(certificates))


def certified_recall(y_true: ArrayLike, certificates: Certificates, flips: ArrayLike) -> Floats:
    """Certified accuracy per true class; a constant classifier certifies everything but recalls only one class.

    Parameters
    ----------
    y_true : array or Series of shape (m,)
        The true classes of the test rows. If these were a pandas frame, a Series is read by its index.
    certificates : Certificates
        What `certify` returned for them.
    flips : array of shape (f,)
        Numbers of changed labels, or radii in the unit of the certificates.

    Returns
    -------
    array of shape (f, K)
        In the order of `certificates.classes`; NaN for a class that does not occur in `y_true`.

    See Also
    --------
    flipproof.certified_accuracy : Share of rows that are correct and certified.

    Examples
    --------
    >>> from flipproof import certified_recall, CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> certified_recall(y[400:], model.certify(X[400:]), flips=[0, 10]).round(3)
    array([[0.744, 0.992],
           [0.718, 0.977]])
    """
    truth, wanted = _checked(y_true, certificates, flips)
    recalls = []
    for label in certificates.classes:
        of_class = truth == label
        safe = np.array(n_certified(certificates, wanted, of_class & (certificates.prediction == label)))
        recalls.append(safe / of_class.sum() if of_class.any() else np.full(len(wanted), np.nan))
    return np.stack(recalls, axis=1)


@dataclass(frozen=True)
class ClassRecall:
    """Certified recall of one class.

    Attributes
    ----------
    label
        The class.
    n : int
        Number of test rows of this class.
    n_certified : int
        How many of them are predicted correctly and certified.
    """

    label: Any
    n: int
    n_certified: int

    @property
    def recall(self) -> float:
        """Certified recall."""
        return self.n_certified / self.n


def worst_class(y_true: ArrayLike, certificates: Certificates, flips: float) -> ClassRecall:
    """Return the class with the lowest certified recall among those that occur in `y_true`.

    A class that the classifier does not know has recall 0. If several classes have the lowest certified recall, the one
    with the lowest recall at 0 flips is returned, and then the first in order.
    """
    truth, wanted = _checked(y_true, certificates, [0, flips])
    known = [label for label in certificates.classes if (truth == label).any()]
    unknown = np.unique(truth[~np.isin(truth, certificates.classes)])
    recalls = []
    for label in (*known, *unknown):
        of_class = truth == label
        clean, certified = n_certified(certificates, wanted, of_class & (certificates.prediction == label))
        found = ClassRecall(label, int(np.count_nonzero(of_class)), certified)
        recalls.append((found.recall, clean / found.n, found))
    return min(recalls, key=lambda one: one[:2])[2]


def n_correct(y_true: ArrayLike, certificates: Certificates, flips: ArrayLike) -> Integers:
    """Count the test rows that are predicted correctly and certified against each number of flips."""
    truth, wanted = _checked(y_true, certificates, flips)
    return np.array(n_certified(certificates, wanted, truth == certificates.prediction), dtype=np.int64)


def _checked(y_true: ArrayLike, certificates: Certificates, flips: ArrayLike) -> tuple[NDArray[Any], Floats]:
    if isinstance(y_true, Certificates) or not isinstance(certificates, Certificates):
        raise ValueError(
            "The true labels come first, and then the certificates, for example certified_accuracy(y_true, "
            f"certificates, flips). Got {type(y_true).__name__} and {type(certificates).__name__} instead."
        )
    truth = certificates.true_classes(y_true)
    if truth.size == 0:
        raise ValueError("y_true is empty: accuracy needs at least one prediction.")
    if not np.isin(truth, certificates.classes).any():
        raise ValueError(
            f"y_true contains none of the classes {certificates.classes.tolist()}: does its type differ from that of "
            f"the training labels? Got {np.unique(truth)[:3].tolist()} instead."
        )
    wanted = np.atleast_1d(np.asarray(flips))
    if wanted.ndim != 1 or not np.issubdtype(wanted.dtype, np.number) or not (wanted >= 0).all():
        raise ValueError(f"flips must be numbers of at least 0. Got {flips!r} instead.")
    return truth, wanted.astype(np.float64)


#: Points per curve, as many as a screen can show. Every point is exact; between two points the curve shows the lower.
CURVE_POINTS = 400


#: Columns of a table of flips, apart from the column for 0.
TABLE_COLUMNS = 8


HISTOGRAM_BINS = 24


Booleans = NDArray[np.bool_]


def is_unlimited(certificates: Certificates) -> Booleans:
    """Return which predictions no attack can change."""
    return np.asarray(certificates.unlimited)


def reach(certificates: Certificates) -> NDArray[Any]:
    """Return the radii; infinity where no attack can change the prediction and there is no limit to added rows."""
    if not certificates.rows_can_be_added:
        return np.asarray(certificates.radius)
    return np.where(is_unlimited(certificates), np.inf, certificates.radius)


def n_certified(certificates: Certificates, flips: Any, among: Booleans | None = None) -> list[int]:
    """Count the predictions certified against each number of flips; abstentions never count."""
    limit = certificates.radius_limit
    if limit is not None and np.any(np.asarray(flips) > limit):
        raise ValueError(
            f"These radii were computed only up to {limit}: they do not tell how many predictions are certified at "
            f"{np.max(flips):.15g} flips. Certify without at_least=..., or with a larger one."
        )
    rows = ~certificates.abstained if among is None else among & ~certificates.abstained
    return [int(count) for count in n_reaching(reach(certificates)[rows], flips)]


def n_reaching(radii: Values, flips: ArrayLike) -> Integers:
    """Count the radii that are at least each number of flips."""
    return np.asarray(len(radii) - np.searchsorted(np.sort(radii), np.asarray(flips), side="left"))


def least_change(certificates: Certificates) -> float:
    """Return the smallest possible change: one label or annotator, or the smallest positive float."""
    if certificates.unit in COUNTED_UNITS:
        # if nothing can be changed, no prediction is fragile
        return 1 if certificates.rows_can_be_added else min(1, certificates.n_touchable)
    return float(np.nextafter(0.0, 1.0))


def largest_radius(certificates: list[Certificates]) -> float:
    """Return the largest radius of a prediction that an attack can change; 0 if there is no such prediction."""
    return float(max(one.radius[~is_unlimited(one)].max(initial=0) for one in certificates))


def curve_flips(certificates: list[Certificates]) -> list[Any]:
    """Return the numbers of flips for curves: all, or evenly spaced ones, up to where the curves are constant."""
    main, largest = certificates[0], largest_radius(certificates)
    if main.unit not in COUNTED_UNITS:
        beyond = 1.02 * largest or 1.0
        return [float(radius) for radius in np.linspace(0.0, beyond, CURVE_POINTS)]
    last = int(largest) + 1 if main.rows_can_be_added else min(int(largest) + 1, main.n_units)
    last = min([last, *_limits(certificates)])
    return [int(flips) for flips in np.unique(np.linspace(0, last, CURVE_POINTS).round().astype(np.int64))]


def _limits(certificates: list[Certificates]) -> list[int]:
    """Return the limits up to which radii were computed; nothing is known beyond them."""
    return [one.radius_limit for one in certificates if one.radius_limit is not None]


def table_flips(certificates: list[Certificates]) -> list[Any]:
    """Return 0, 1 and a few round numbers up to the largest radius."""
    main, largest = certificates[0], largest_radius(certificates)
    if main.unit not in COUNTED_UNITS:
        step = round_number(largest / TABLE_COLUMNS) if largest > 0 else 1.0
        return [float(f"{step * k:.6g}") for k in range(int(largest / step) + 1)]
    last = max(largest, 1) if main.rows_can_be_added else min(max(largest, 1), main.n_units)
    last = min([last, *_limits(certificates)])
    for digits in ((1, 2, 5), (1, 5), (1,)):
        columns = [digit * 10**power for power in range(10) for digit in digits if digit * 10**power <= last]
        if len(columns) <= TABLE_COLUMNS:
            break
    return sorted({0, *columns, *(limit for limit in _limits(certificates) if limit == last)})


def histogram(certificates: Certificates, correct: Booleans | None) -> dict[str, Any]:
    """Count predictions by radius, separately for right and wrong ones, and those that no attack can change."""
    unlimited = is_unlimited(certificates)
    radii = certificates.radius[~unlimited]
    edges = _edges(certificates, radii)
    parts: dict[str, Any] = {"edges": edges.tolist()}
    of_kind = {"all": np.ones(len(certificates), bool)} if correct is None else {"right": correct, "wrong": ~correct}
    for kind, rows in of_kind.items():
        counted, _ = np.histogram(certificates.radius[rows & ~unlimited], bins=edges)
        parts[kind] = {"counts": counted.tolist(), "unlimited": int(np.count_nonzero(rows & unlimited))}
    return parts


def _edges(certificates: Certificates, radii: Any) -> Integers | Floats:
    """Return the edges of bins with a round width; a bin includes its left edge and excludes its right one."""
    largest = float(radii.max(initial=0))
    if certificates.unit in COUNTED_UNITS:
        width = int(max(round_number((largest + 1) / HISTOGRAM_BINS), 1))
        return np.arange(0, int(largest) + width + 1, width)
    step = round_number(largest / HISTOGRAM_BINS) if largest > 0 else 1.0
    n_bins = int(largest // step) + 1
    return np.asarray(step * np.arange(n_bins + 1), dtype=np.float64)


def round_number(least: float) -> float:
    """Return the smallest number of at least `least` that is 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least * (1 - 1e-12)))


def constant_class(y_true: ArrayLike) -> ClassRecall:
    """Return the most frequent true class: to predict always this class is the best constant classifier.

    No change of training data affects it: all of these test rows are certified.
    """
    labels, counts = np.unique(np.asarray(y_true), return_counts=True)
    most = int(counts.argmax())
    return ClassRecall(labels[most], int(counts[most]), int(counts[most]))


def constant_accuracy(y_true: ArrayLike) -> float:
    """Return the accuracy of the best constant classifier."""
    return constant_class(y_true).n / np.asarray(y_true).size


def last_above(certificates: Certificates, among: Booleans, count: int) -> float | None:
    """Return the largest number of flips at which more than `count` predictions of `among` are certified.

    It is infinite if no number of flips leaves fewer, and None if not even at 0 flips there are more.
    """
    radii = np.where(is_unlimited(certificates), np.inf, certificates.radius)[among & ~certificates.abstained]
    return None if len(radii) <= count else float(np.sort(radii)[::-1][count])


def is_cut(certificates: Certificates, flips: float) -> bool:
    """Tell whether a number of flips that follows from radii may be larger, since these were computed up to a limit."""
    limit = certificates.radius_limit
    return limit is not None and limit <= flips < np.inf


@dataclass(frozen=True)
class TrustedOnly:
    """Accuracy that depends on trusted labels only, so that it holds at any number of other changes (M15).

    Attributes
    ----------
    n_trusted : int
        Number of trusted labels.
    names : tuple of str
        What was fitted to them.
    accuracy : tuple of float
        The accuracy of each.
    better_from : int or None
        The least number of changes at which the best of these exceeds the certified accuracy; None if at no number, or
        if it is beyond the limit up to which radii were computed.
    required : tuple of (str, float)
        Requirements on accuracy that the best of these exceeds by more than the certified accuracy does, as written,
        and the certified accuracy that was found.
    """

    n_trusted: int
    names: tuple[str, ...]
    accuracy: tuple[float, ...]
    better_from: int | None
    required: tuple[tuple[str, float], ...] = ()

    @property
    def best(self) -> float:
        """The highest accuracy."""
        return max(self.accuracy)


def trusted_only(
    n_trusted: int,
    predictions: dict[str, Values],
    y_true: ArrayLike,
    certificates: Certificates,
    found: list[tuple[str, float]],
) -> TrustedOnly | None:
    """Compare predictions from trusted labels alone with certificates; None if there are no such predictions.

    `found` are the requirements on certified accuracy, as written, and what was found for each.
    """
    if not predictions:
        return None
    truth = np.asarray(y_true)
    accuracy = tuple(float(np.mean(one == truth)) for one in predictions.values())
    best, correct = max(accuracy), np.sort(reach(certificates)[truth == certificates.prediction])
    # the share of rows that are correct with a radius of at least r falls with r
    n_best = int(np.rint(best * len(truth)))
    better_from = None
    if certificates.unit in COUNTED_UNITS:
        if n_best > len(correct):
            better_from = 0
        elif n_best > 0 and np.isfinite(correct[len(correct) - n_best]):
            last = correct[len(correct) - n_best]
            better_from = None if is_cut(certificates, last) else int(last) + 1
    required = tuple((text, share) for text, share in found if best > share)
    return TrustedOnly(n_trusted, tuple(predictions), accuracy, better_from, required)


@dataclass(frozen=True)
class RandomErrors:
    """How likely random errors in the labels are to change predictions (M17): upper bounds, over some test rows.

    Attributes
    ----------
    rate : float
        Probability of an error per label.
    n_labels : int
        Number of labels that may have errors: those that are not trusted.
    some_trusted : bool
        Whether there are trusted labels, too.
    n_test : int
        Number of test rows with a bound.
    uniform_mean, uniform_median : float
        Mean and median of the bounds for errors to a uniformly random other class. The mean bounds the expected share
        of predictions that change.
    worst_mean, worst_median : float
        The same for errors of any direction, each with a probability of at most `rate`.
    by_rate : tuple of (float, float, float)
        If several rates were given: each rate with its `uniform_mean` and `worst_mean`.
    is_sample : bool
        Whether these are only some of the test rows, evenly spaced.
    """

    rate: float
    n_labels: int
    some_trusted: bool
    n_test: int
    uniform_mean: float
    uniform_median: float
    worst_mean: float
    worst_median: float
    by_rate: tuple[tuple[float, float, float], ...] = ()
    is_sample: bool = False


def random_errors(
    rate: float | Sequence[float],
    n_labels: int,
    some_trusted: bool,
    uniform: Floats,
    worst: Floats,
    n_all: int | None = None,
) -> RandomErrors:
    """Summarize bounds of `random_error_bound` on the same test rows; means and medians are rounded up.

    With several rates, bounds have a column for each; most figures are those of the first. `n_all` is the number of all
    test rows, if these are only some of them.
    """
    n_test = len(uniform)
    by_rate: tuple[tuple[float, float, float], ...] = ()
    if np.ndim(rate):
        each = zip(np.asarray(rate).tolist(), uniform.T, worst.T, strict=True)
        by_rate = tuple(
            (float(one), _mean_above(of_uniform), _mean_above(of_worst)) for one, of_uniform, of_worst in each
        )
        rate, uniform, worst = by_rate[0][0], uniform[:, 0], worst[:, 0]
        by_rate = by_rate if len(by_rate) > 1 else ()
    return RandomErrors(
        rate=float(np.asarray(rate)),
        n_labels=n_labels,
        some_trusted=some_trusted,
        n_test=n_test,
        uniform_mean=_mean_above(uniform),
        uniform_median=float(np.sort(uniform)[n_test // 2]),
        worst_mean=_mean_above(worst),
        worst_median=float(np.sort(worst)[n_test // 2]),
        by_rate=by_rate,
        is_sample=n_all is not None and n_all > n_test,
    )


def _mean_above(bounds: Floats) -> float:
    return min(float(above(bounds.mean(), 4 * len(bounds) * np.finfo(np.float64).eps)), 1.0)
