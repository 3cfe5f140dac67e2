"""Certificates from random samples: sample sizes, confidence, assumptions, and reasons for abstentions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.adversary import Adversary, adversary_assumptions
from flipproof.assumptions import Assumption
from flipproof.certificates import Certificates
from flipproof.core.guarantees import budget_over_rivals
from flipproof.core.noise import JointNoise, LabelFlip, Measure, divergence_upper
from flipproof.core.powers import Powers
from flipproof.core.rounding import Floats, Integers, Values, above, below
from flipproof.readable import percent, percent_above, significant
from flipproof.smoothing.bounds import VoteBounds, feature_radius, largest_certifiable, radius_unit

#: What may be changed, by the unit of the radius.
WHAT_CHANGES = {"labels": "labels-only", "l2": "features-only", "divergence": "divergence-only"}
REACHED = {"labels": "changed labels", "l2": "in the l2 norm over the training features", "divergence": "nats"}


def assumptions(
    measure: Measure, base: str, confidence: float, scope: str, n_classes_read: int | None
) -> list[Assumption]:
    """Return the assumptions of the certificates; `n_classes_read`: number of classes if read from the labels."""
    found = [
        Assumption(WHAT_CHANGES[radius_unit(measure)]),
        Assumption("smoothed-decision"),
        Assumption("confidence", {"confidence": float(confidence), "over": scope}),
        Assumption("base-learner-chosen", {"step": base}),
    ]
    if isinstance(measure, JointNoise):
        found.append(Assumption("labels-or-features"))
    if n_classes_read is not None:
        found.append(Assumption("classes-read", {"n_classes": n_classes_read}))
    return found


def limits_under_noise(adversary: Adversary | None, powers: Powers) -> list[Assumption]:
    """Return the limits that an adversary is assumed to have, and how they are used."""
    found = adversary_assumptions(adversary, powers.scope, "smoothed")
    return [*found, Assumption("noise-on-all-labels")] if found else []


def reach(n_samples: int, confidence: float, measure: Measure, guarantee: str, n_train: int, n_predictions: int) -> str:
    """Describe the largest radius that a sample can certify; refuse a sample that can certify nothing."""
    largest = largest_certifiable(
        n_samples, confidence, measure, guarantee, n_train=n_train, n_predictions=n_predictions
    )
    scope = "each prediction" if n_predictions == 1 else f"{n_predictions} predictions at once"
    if largest < 0:
        raise ValueError(
            f"n_samples={n_samples} can certify nothing at confidence={confidence} for {scope}: even if all models "
            "agree, every row is abstained. Increase n_samples or lower confidence."
        )
    counted = REACHED[radius_unit(measure)]
    return (
        f"If all models agree, they certify {significant(largest, 6)} {counted} (confidence {confidence} for {scope})."
    )


def abstention_reasons(found: VoteBounds, decided: NDArray[np.bool_], classes: Values) -> NDArray[Any]:
    """Return the reason for each abstention; an empty text for other rows."""
    reasons = np.full(len(decided), "", dtype=object)
    for row in np.flatnonzero(~decided):
        least, most = float(-np.expm1(found.log_failure[row])), float(np.exp(found.log_rival[row]))
        reasons[row] = (
            f"the vote for {classes[found.winner[row]]} is only known to be at least {percent(least)}, "
            f"and the vote for another class to be at most {percent_above(Fraction(most))}"
        )
    return reasons.astype(str)


@dataclass(frozen=True, repr=False, eq=False)
class SmoothedCertificates(Certificates):
    """Certificates about the smoothed decision g, each true with the stated confidence.

    Attributes
    ----------
    prediction : array of shape (m,)
        What `predict` returns: the class with the most votes in the selection sample, even where `abstained`.
    radius : numbers of shape (m,)
        How much of the training data may be changed without changing g: a number of labels, an l2 norm over the
        features, or the divergence of a custom measure; see `unit`. 0 where abstained.
    abstained : booleans of shape (m,)
        True where the bounds do not prove that the prediction is g; `abstention_reason` explains why.
    log_failure : floats of shape (m,)
        Log of an upper bound on the probability, under the noise, of any class other than the prediction.
    log_rival : floats of shape (m,)
        Log of an upper bound on the probability, under the noise, of any single other class.
    margin : floats of shape (m,)
        Lead of the prediction over `rival` in the estimation sample, as a share of the sample.
    confidence : float
        Probability over the draws that a certificate is true; `confidence_over`: of each one, or of a whole batch.
    n_select, n_samples : int
        Sizes of the selection sample and of the estimation sample.
    measure : Measure
        The noise.
    selection, estimation : integers of shape (m, K)
        Votes of the models of both samples for each class.
    alpha : float
        The probability of error that is allowed for each statement.
    split : booleans of shape (m,)
        Whether half of `alpha` was spent on bounds for single rivals.

    See Also
    --------
    flipproof.SmoothedClassifier : Certifies any classifier, by votes of noisy copies.
    flipproof.Certificates : One certificate per test row.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from flipproof import SmoothedClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SmoothedClassifier(DecisionTreeClassifier(max_depth=1), noise=0.2, n_select=20, n_samples=100)
    >>> certificates = model.fit(X[:400], y[:400]).certify(X[400:420])
    >>> certificates.confidence, certificates.n_samples
    (0.999, 100)
    """

    log_rival: Floats = field(default_factory=lambda: np.zeros(0))
    abstention_reason: NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=str))
    confidence: float = np.nan
    confidence_over: str = "prediction"
    n_select: int = 0
    n_samples: int = 0
    measure: Measure | None = None
    selection: Integers = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    estimation: Integers = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    alpha: float = np.nan
    split: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))

    can_abstain: ClassVar[bool] = True

    @property
    def divergence_budget(self) -> Floats:
        """The divergence of the noise up to which g is unchanged; 0 where abstained.

        For any change of the training data, g is unchanged while
        ``measure.divergence(data, other_data) <= divergence_budget`` (Example 3 of the paper).
        """
        return budget_over_rivals(self.log_failure, self.log_rival)

    def feature_radius(self, flips: ArrayLike) -> Floats:
        """Return how far the features may move while labels are also changed, under noise on both.

        Parameters
        ----------
        flips : integers of shape (f,)
            Numbers of changed labels.

        Returns
        -------
        floats of shape (f, m)
            The largest certified l2 norm, over the whole training matrix; NaN where the flips alone are not certified.

        Notes
        -----
        ``flips * KL1 + ||delta||^2 / (2 sigma^2)`` must stay within the divergence budget.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from flipproof import FeatureNoise, JointNoise, LabelFlip, SmoothedClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> tree = DecisionTreeClassifier(max_leaf_nodes=2)
        >>> noise = JointNoise(LabelFlip(0.2), FeatureNoise(1.0))
        >>> model = SmoothedClassifier(tree, noise, n_select=10, n_samples=50, classes=["ham", "spam"], random_state=0)
        >>> certificates = model.fit(X, y).certify([[5.0], [30.0]])
        >>> certificates.feature_radius([0, 1]).round(2)
        array([[0.89, 0.89],
               [ nan,  nan]])
        """
        if not isinstance(self.measure, JointNoise):
            raise ValueError(f"feature_radius needs noise on labels and features, JointNoise. Got {self.measure!r}.")
        wanted = np.atleast_1d(np.asarray(flips))
        if wanted.ndim != 1 or wanted.dtype.kind not in "iu" or not (wanted >= 0).all():
            raise ValueError(f"flips must be integers of at least 0. Got {flips!r} instead.")
        labels: LabelFlip = self.measure.labels
        spent = above(wanted * divergence_upper(labels))
        left = below(self.divergence_budget - np.where(wanted > 0, spent, 0.0)[:, None])
        certified = ~self.abstained & (left >= 0)
        # with 0 flips, rounding leaves slightly less than the budget, which is 0 for a row that is just decided
        certified |= ~self.abstained & (wanted == 0)[:, None]
        return np.where(certified, feature_radius(left, self.measure.features.sigma), np.nan)

    def to_arrow(
        self, *, ids: Sequence[object] | None = None, y_true: ArrayLike | None = None, details: bool = True
    ) -> Any:
        """Return a pyarrow table as :meth:`flipproof.Certificates.to_arrow` does, with the confidence in its metadata.

        The details also include ``log_rival`` and ``abstention_reason``.

        Parameters
        ----------
        ids, y_true, details : optional
            As for :meth:`flipproof.Certificates.to_arrow`.

        Returns
        -------
        pyarrow.Table
            One row per test row.

        Examples
        --------
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from flipproof import SmoothedClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> tree = DecisionTreeClassifier(max_leaf_nodes=2)
        >>> model = SmoothedClassifier(tree, 0.3, n_select=10, n_samples=20, classes=["ham", "spam"], random_state=0)
        >>> model.fit(X, y).certify([[5.0], [30.0]]).to_arrow().column_names[-3:]
        ['log_rival', 'noise', 'abstention_reason']
        """
        table = super().to_arrow(ids=ids, y_true=y_true, details=details)
        about = {
            "confidence": repr(self.confidence),
            "confidence_over": self.confidence_over,
            "n_select": str(self.n_select),
            "n_samples": str(self.n_samples),
            "measure": repr(self.measure),
        }
        return table.replace_schema_metadata({**(table.schema.metadata or {}), **about})

    def proof_columns(self) -> dict[str, Any]:
        """Return the columns that prove the radius, and why predictions are abstained."""
        bounds = {"log_failure": self.log_failure, "log_rival": self.log_rival}
        return {**bounds, "noise": self.noise_of_rows, "abstention_reason": self.abstention_reason.tolist()}
