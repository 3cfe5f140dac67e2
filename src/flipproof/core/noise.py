"""Smoothing measures: the hypothetical noise on the training data that certificates use.

A measure is any object with the two methods of :class:`Measure`. This module has three: :class:`LabelFlip`,
:class:`FeatureNoise`, and both at once, :class:`JointNoise`.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.core import rounding
from flipproof.core.rounding import Values
from flipproof.parameters import (
    NONE,
    Constraints,
    check_parameter,
    check_parameters,
    integer,
    number,
    parameter_error,
)

#: Less noise than this would leave the range of normal floating-point numbers.
SMALLEST_NOISE = 1e-200

#: More labellings than this are not enumerated.
LARGEST_SUPPORT = 2**20


@runtime_checkable
class Measure(Protocol):
    """Noise around given data; for a custom noise measure, write a class with these two methods.

    `data` is the data that gets the noise. With :class:`flipproof.SmoothedClassifier` it is the pair
    ``(X, codes)`` of the training features and the labels, coded as 0, ..., K - 1; or only the labels if the class has
    an attribute ``part = "labels"``, or only the features with ``part = "features"``. Two more methods are optional:
    ``with_classes(n_classes)`` returns the same noise over K classes, and ``support(data)`` returns all possible draws
    with their probabilities.
    """

    def sample(self, data: Any, rng: np.random.Generator) -> Any:
        """Return one noisy copy of the data."""

    def divergence(self, data: Any, other: Any) -> float:
        """Return KL(noise around `other` || noise around `data`), or an upper bound on it."""


@dataclass(frozen=True)
class FlipProbabilities:
    """Probabilities of a noisy label relative to a pair of classes, each correctly rounded.

    `keep`: the label is unchanged. `other`: it becomes one given other class. `third`: a label of the pair leaves the
    pair. `bystander`: a label outside the pair stays outside.
    """

    keep: float
    other: float
    third: float
    bystander: float


def check_flip_probability(owner: str, name: str, q: Any, n_classes: int | None) -> None:
    """Refuse a q with which a label of K classes, or of an unknown number, cannot be changed.

    Raises
    ------
    InputError
        Names the parameter `name` of `owner`.
    """
    check_parameter(owner, name, q, number(closed="both"))
    largest = Fraction(1) if n_classes is None else Fraction(n_classes - 1, n_classes)
    if not math.isfinite(q) or not SMALLEST_NOISE <= Fraction(float(q)) < largest:
        wanted = "in (0, 1)" if n_classes is None else f"in (0, {float(largest):.6g}) for {n_classes} classes"
        if 0 < q < SMALLEST_NOISE:
            wanted += f", and at least {SMALLEST_NOISE:g}"
        remedy = "at 0 there is no noise, and from (K - 1) / K a label is no likelier than any other class."
        raise parameter_error(owner, name, wanted, q, remedy)


@dataclass(frozen=True)
class LabelFlip:
    """Each label is changed with probability q, to one of the other K - 1 classes uniformly at random.

    Parameters
    ----------
    q : float
        Probability of a change; 0 < q < (K - 1) / K, because above that any other class is likelier than the label.
    n_classes : int, optional
        K. If omitted, `fit` fills it in; until then the measure has no divergence.

    See Also
    --------
    flipproof.FeatureNoise : Gaussian noise on features.
    flipproof.JointNoise : Noise on labels and features.
    flipproof.SmoothedClassifier : Certifies any classifier, by votes of noisy copies.

    Notes
    -----
    All constants are derived from q in rational arithmetic and rounded once, so they are correct to the last bit even
    where 1 - K q / (K - 1) nearly vanishes.

    Examples
    --------
    >>> from flipproof import LabelFlip
    >>> round(LabelFlip(0.1, n_classes=2).kl_per_flip, 3)
    1.758
    """

    q: float
    n_classes: int | None = None

    part: ClassVar[str] = "labels"
    parameter_constraints: ClassVar[Constraints] = {"q": number(closed="both"), "n_classes": NONE | integer(2)}

    def __post_init__(self) -> None:
        check_parameters(self)
        object.__setattr__(self, "q", float(self.q))
        if self.n_classes is not None:
            object.__setattr__(self, "n_classes", int(self.n_classes))
        check_flip_probability("LabelFlip", "q", self.q, self.n_classes)

    def with_classes(self, n_classes: int) -> LabelFlip:
        """Return the same noise over `n_classes` classes.

        Parameters
        ----------
        n_classes : int
            Number of classes K.

        Returns
        -------
        LabelFlip
            With the same q.

        Examples
        --------
        >>> from flipproof import LabelFlip
        >>> LabelFlip(0.1).with_classes(3)
        LabelFlip(q=0.1, n_classes=3)
        """
        return replace(self, n_classes=n_classes)

    def known_classes(self) -> int:
        """Return the number of classes, which must be known."""
        if self.n_classes is None:
            raise ValueError(f"{self!r} has no divergence without a number of classes. Use LabelFlip(q, n_classes=K).")
        return self.n_classes

    def _codes(self, labels: ArrayLike) -> NDArray[np.int64]:
        """Check that labels are coded as 0, ..., K - 1, and return them as integers."""
        given, K = np.asarray(labels), self.known_classes()
        codes = given.astype(np.int64)
        if not np.array_equal(codes, given) or (codes.size and (codes.min() < 0 or codes.max() >= K)):
            ends = f"{given.min()} to {given.max()}" if given.size else "something else"
            raise ValueError(f"The labels must be integer codes from 0 to {K - 1}. Got {ends} instead.")
        return codes

    def _exact_signal(self) -> Fraction:
        K = self.known_classes()
        return 1 - Fraction(K, K - 1) * Fraction(self.q)

    @property
    def signal(self) -> float:
        """The share of every margin that remains under the noise on average, 1 - K q / (K - 1)."""
        return float(self._exact_signal())

    @property
    def probabilities(self) -> FlipProbabilities:
        """The probabilities of a noisy label relative to a pair of classes."""
        K = self.known_classes()
        q = Fraction(self.q)
        other = q / (K - 1)
        return FlipProbabilities(
            keep=float(1 - q), other=float(other), third=float(q - other), bystander=float(1 - 2 * other)
        )

    @property
    def log_odds(self) -> float:
        """log((1 - q)(K - 1) / q), the log odds of the label against any one other class."""
        K = self.known_classes()
        return math.log1p(float(self._exact_signal() * (K - 1) / Fraction(self.q)))

    @property
    def kl_per_flip(self) -> float:
        """Kullback-Leibler divergence per changed label (M3; the paper's Appendix B.3)."""
        return self.signal * self.log_odds

    def sample(self, labels: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw noisy copies of labels that are coded as 0, ..., K - 1.

        Parameters
        ----------
        labels : integers of any shape
            The labels.
        rng : numpy.random.Generator
            Where the random numbers come from.

        Returns
        -------
        integers
            Labels with noise, in the same shape.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof import LabelFlip
        >>> LabelFlip(0.5, n_classes=3).sample([0, 0, 0, 0, 0, 0], np.random.default_rng(0))
        array([0, 2, 2, 2, 0, 0])
        """
        K, codes = self.known_classes(), self._codes(labels)
        # a shift by 1 ... K - 1 reaches every other class with the same probability
        shift = np.where(rng.random(codes.shape) < self.q, rng.integers(1, K, size=codes.shape), 0)
        return np.asarray((codes + shift) % K, dtype=np.int64)

    def divergence(self, labels: ArrayLike, others: ArrayLike) -> float:
        """Return the Kullback-Leibler divergence between the noises around two labellings, rounded up.

        Parameters
        ----------
        labels, others : integers of shape (n,)
            Two versions of the labels.

        Returns
        -------
        float
            An upper bound, in nats.

        Examples
        --------
        >>> from flipproof import LabelFlip
        >>> noise = LabelFlip(0.1, n_classes=2)
        >>> round(noise.divergence([0, 0, 1], [1, 0, 0]), 3)
        3.516
        """
        first, second = _alike(np.asarray(labels), np.asarray(others))
        return float(rounding.above(np.count_nonzero(first != second) * divergence_upper(self)))

    def support(self, labels: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return all noisy labellings, one per line, and their probabilities.

        Probabilities are correctly rounded, or rounded up to the smallest normal number, so they are never 0.

        Parameters
        ----------
        labels : integers of shape (n,)
            The labels; K**n must not be large.

        Returns
        -------
        pair of arrays
            Labellings of shape (K**n, n), and their probabilities of shape (K**n,).

        Examples
        --------
        >>> from flipproof import LabelFlip
        >>> noisy, probability = LabelFlip(0.25, n_classes=2).support([0, 1])
        >>> noisy.tolist(), probability.tolist()
        ([[0, 0], [0, 1], [1, 0], [1, 1]], [0.1875, 0.5625, 0.0625, 0.1875])
        """
        K, codes = self.known_classes(), self._codes(labels)
        if K ** len(codes) > LARGEST_SUPPORT:
            raise ValueError(
                f"{len(codes)} labels of {K} classes have {K}^{len(codes)} noisy copies; at most {LARGEST_SUPPORT} "
                "can be enumerated. Draw samples instead."
            )
        noisy = np.array(list(itertools.product(range(K), repeat=len(codes))), dtype=np.int64)
        keep, other = 1 - Fraction(self.q), Fraction(self.q) / (K - 1)
        by_distance = [float(keep ** (len(codes) - r) * other**r) for r in range(len(codes) + 1)]
        possible = np.maximum(by_distance, np.finfo(np.float64).tiny)
        return noisy, possible[np.count_nonzero(noisy != codes, axis=1)]


@dataclass(frozen=True)
class FeatureNoise:
    """Every number of the training features gets independent Gaussian noise with standard deviation sigma.

    Parameters
    ----------
    sigma : float
        Standard deviation, in the units of the features: all columns should be on the same scale.

    See Also
    --------
    flipproof.LabelFlip : Noise on labels.
    flipproof.JointNoise : Noise on labels and features.
    flipproof.SmoothedClassifier : Certifies any classifier, by votes of noisy copies.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from flipproof import FeatureNoise, SmoothedClassifier
    >>> model = SmoothedClassifier(DecisionTreeClassifier(), noise=FeatureNoise(sigma=0.5))
    """

    sigma: float

    part: ClassVar[str] = "features"
    parameter_constraints: ClassVar[Constraints] = {"sigma": number(0)}

    def __post_init__(self) -> None:
        check_parameters(self)
        object.__setattr__(self, "sigma", float(self.sigma))

    def sample(self, features: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw a noisy copy of the features.

        Parameters
        ----------
        features : array of shape (n, k)
            The features.
        rng : numpy.random.Generator
            Where the random numbers come from.

        Returns
        -------
        floats of shape (n, k)
            The features with noise.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof import FeatureNoise
        >>> FeatureNoise(sigma=0.5).sample([[0.0, 1.0], [2.0, 3.0]], np.random.default_rng(0)).shape
        (2, 2)
        """
        X = np.asarray(features, dtype=np.float64)
        return X + self.sigma * rng.standard_normal(X.shape)

    def divergence(self, features: ArrayLike, others: ArrayLike) -> float:
        """Return ``||X - X'||^2 / (2 sigma^2)`` over the whole matrices, rounded up.

        Parameters
        ----------
        features, others : arrays of shape (n, k)
            Two versions of the features.

        Returns
        -------
        float
            An upper bound, in nats.

        Examples
        --------
        >>> from flipproof import FeatureNoise
        >>> round(FeatureNoise(sigma=0.5).divergence([[0.0, 1.0]], [[1.0, 1.0]]), 6)
        2.0
        """
        first, second = _alike(np.asarray(features, dtype=np.float64), np.asarray(others, dtype=np.float64))
        divergence = np.sum(np.square((first - second) / self.sigma)) / 2
        return float(rounding.above(divergence, (first.size + 8) * 2 * rounding.UNIT_ROUNDOFF))


@dataclass(frozen=True)
class JointNoise:
    """Noise on the labels and, independently, on the features: certifies against changes of both at once.

    Divergences of independent noises add up: r changed labels and features moved by delta cost
    ``r KL1 + ||delta||^2 / (2 sigma^2)``.

    Parameters
    ----------
    labels : LabelFlip
        Noise on the labels.
    features : FeatureNoise
        Noise on the features.

    See Also
    --------
    flipproof.LabelFlip : Noise on labels.
    flipproof.FeatureNoise : Gaussian noise on features.
    flipproof.SmoothedClassifier : Certifies any classifier, by votes of noisy copies.

    Examples
    --------
    >>> from flipproof import FeatureNoise, JointNoise, LabelFlip
    >>> JointNoise(LabelFlip(0.1), FeatureNoise(0.5))
    JointNoise(labels=LabelFlip(q=0.1, n_classes=None), features=FeatureNoise(sigma=0.5))
    """

    labels: LabelFlip
    features: FeatureNoise

    part: ClassVar[str] = "both"

    def __post_init__(self) -> None:
        if not isinstance(self.labels, LabelFlip) or not isinstance(self.features, FeatureNoise):
            raise ValueError(
                "The parameters of JointNoise must be a LabelFlip and a FeatureNoise, in this order. "
                f"Got {self.labels!r} and {self.features!r} instead."
            )

    def with_classes(self, n_classes: int) -> JointNoise:
        """Return the same noise over `n_classes` classes.

        Parameters
        ----------
        n_classes : int
            Number of classes K.

        Returns
        -------
        JointNoise
            With the noise of labels over these classes.

        Examples
        --------
        >>> from flipproof import FeatureNoise, JointNoise, LabelFlip
        >>> JointNoise(LabelFlip(0.1), FeatureNoise(0.5)).with_classes(3).labels
        LabelFlip(q=0.1, n_classes=3)
        """
        return replace(self, labels=self.labels.with_classes(n_classes))

    def sample(self, data: Any, rng: np.random.Generator) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Draw a noisy copy of ``(X, codes)``.

        Parameters
        ----------
        data : pair (X, codes)
            Features, and labels coded as 0, ..., K - 1.
        rng : numpy.random.Generator
            Where the random numbers come from.

        Returns
        -------
        pair (X, codes)
            Features and labels with noise.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof import FeatureNoise, JointNoise, LabelFlip
        >>> noise = JointNoise(LabelFlip(0.1, n_classes=2), FeatureNoise(0.5))
        >>> X, codes = noise.sample(([[0.0], [1.0]], [0, 1]), np.random.default_rng(0))
        >>> X.shape, codes.shape
        ((2, 1), (2,))
        """
        X, codes = data
        return self.features.sample(X, rng), self.labels.sample(codes, rng)

    def divergence(self, data: Any, other: Any) -> float:
        """Return the divergence between the noises around two pairs ``(X, codes)``, rounded up.

        Parameters
        ----------
        data, other : pairs (X, codes)
            Two versions of the training data.

        Returns
        -------
        float
            An upper bound, in nats.

        Examples
        --------
        >>> from flipproof import FeatureNoise, JointNoise, LabelFlip
        >>> noise = JointNoise(LabelFlip(0.1, n_classes=2), FeatureNoise(0.5))
        >>> round(noise.divergence(([[0.0]], [0]), ([[1.0]], [1])), 3)
        3.758
        """
        (X, codes), (other_X, other_codes) = data, other
        return float(rounding.above(self.features.divergence(X, other_X) + self.labels.divergence(codes, other_codes)))


def _alike(first: Values, second: Values) -> tuple[NDArray[Any], NDArray[Any]]:
    if first.shape != second.shape:
        raise ValueError(
            f"Both data sets must have the same shape. Got {first.shape} and {second.shape} instead: added or removed "
            "rows are not covered."
        )
    return first, second


def divergence_upper(noise: LabelFlip) -> float:
    """Return an upper bound on the divergence of one flip.

    Soundness: rounded up, because radii are a budget divided by it.
    """
    return float(rounding.above(noise.kl_per_flip))
