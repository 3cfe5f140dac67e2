"""The paper's attack on its own classifier (Appendix C.2), for any label-linear learner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from flipproof.adversary import Adversary, refuse_windows
from flipproof.attacks.result import NO_ATTACK, AttackResult, unbroken_share
from flipproof.attacks.worst import (
    MAX_FLIPS,
    AttackedLearner,
    flips_needed,
    in_slices,
    label_linear_part,
    refuse_rows,
    useful_changes,
)
from flipproof.core.engine import log_failures
from flipproof.core.exact import LabelChanges
from flipproof.core.histograms import VoteHistogram, changeable_histogram
from flipproof.core.noise import LabelFlip, check_flip_probability
from flipproof.core.rounding import Floats, Integers
from flipproof.parameters import check_parameter

LOG_HALF = float(np.log(0.5))


@dataclass(frozen=True, repr=False, eq=False)
class SmoothedAttackResult(AttackResult):
    """An attack on a smoothed classifier: where the prediction changes, and where its Chernoff bound reaches 1/2.

    Attributes
    ----------
    flips_to_half : integers of shape (m,)
        Number of changed labels (or annotators) at which nothing is certified any more: the bound on the probability
        that the noise changes the prediction reaches 1/2. -1 where this attack does not get there.
    q : float
        The noise.

    See Also
    --------
    flipproof.attacks.smoothed_attack : Attack on the smoothed classifier.

    Examples
    --------
    >>> from flipproof.attacks import smoothed_attack
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> attack = smoothed_attack(model, X[400:405])
    >>> attack.flips_to_half, attack.q
    (array([21, 61, 60, 64, 68]), 0.1)
    """

    flips_to_half: Integers = None  # type: ignore[assignment]
    q: float = np.nan

    def accuracy_of_bound(self, y_true: ArrayLike, flips: ArrayLike) -> Floats:
        """Share of test rows that are predicted correctly and whose bound stays below 1/2 for `flips` changes.

        Parameters
        ----------
        y_true : array of shape (m,)
            The true classes.
        flips : int, or several
            Numbers of changes.

        Returns
        -------
        floats of shape (r,)
            A share for each number.

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> from flipproof.attacks import smoothed_attack
        >>> attack = smoothed_attack(model, [[5.0], [17.4]])
        >>> attack.accuracy_of_bound(["ham", "ham"], flips=[0, 1, 2])
        array([1. , 0.5, 0.5])
        """
        needed = np.where(self.flips_to_half == NO_ATTACK, np.inf, self.flips_to_half)
        return unbroken_share(y_true, self.prediction, needed, flips)


def smoothed_attack(
    model: object,
    X_test: object,
    adversary: Adversary | None = None,
    max_flips: int | None = None,
    noise: float | None = None,
) -> SmoothedAttackResult:
    """Change labels in the order of their effect on the scores, and evaluate the smoothed classifier on the way.

    The labels that lower the margin over the rival class most are changed first. The deployed prediction is the class
    with the highest mean noisy score (M5), so it changes exactly where the attack of :func:`worst_flips` succeeds; the
    Chernoff bound B on the probability of failure reaches 1/2 earlier. Every change raises every factor of B(t), so B
    only grows during the attack, and bisection finds the point.

    Parameters
    ----------
    model : learner, or Pipeline that ends in one
        Label-linear and fitted.
    X_test : array or data frame of shape (m, k)
        Test rows.
    adversary : Adversary, optional
        Which labels can be changed, and to what.
    max_flips : int, optional
        Give up on test rows that need more.
    noise : float, optional
        The noise q; by default that of the learner. If the prediction depends on the noise (the paper's rule without
        an intercept), it must be the learner's.

    Returns
    -------
    SmoothedAttackResult
        Ctrl-C ends the attack after the current 128 test rows, a second Ctrl-C at once. The attacks found so far are
        returned, and `attempted` is False for the other rows.

    See Also
    --------
    flipproof.attacks.worst_flips : Smallest attack by labels.
    flipproof.attacks.SmoothedAttackResult : Attack on a smoothed classifier.

    Examples
    --------
    >>> from flipproof.attacks import smoothed_attack
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> attack = smoothed_attack(model, X[400:405])
    >>> attack.flips_to_half <= attack.flips_needed
    array([ True,  True,  True,  True,  True])
    """
    check_parameter("smoothed_attack", "max_flips", max_flips, MAX_FLIPS)
    refuse_rows("smoothed_attack", adversary)
    learner, X_test = label_linear_part(model, X_test)
    measure = _noise_of(learner, noise)
    return in_slices(
        lambda X, _rows: _smoothed_attack(learner, X, adversary, max_flips, measure), learner.predict, X_test
    )


def _smoothed_attack(
    learner: AttackedLearner, X: object, adversary: Adversary | None, max_flips: int | None, measure: LabelFlip
) -> SmoothedAttackResult:
    certificates = learner.certify(X, "exact", adversary)
    needed = flips_needed(certificates)
    limit = certificates.n_touchable if max_flips is None else min(max_flips, certificates.n_touchable)
    longest = np.minimum(np.where(needed == NO_ATTACK, limit, needed), limit)
    changes = list(useful_changes(learner, X, certificates, longest))
    overturned = np.where(needed > limit, NO_ATTACK, needed)
    return SmoothedAttackResult(
        flips_needed=overturned,
        rows=tuple(one.rows if ok else one.rows[:0] for one, ok in zip(changes, overturned >= 0, strict=True)),
        new_labels=tuple(
            learner.classes_[one.labels if ok else one.labels[:0]]
            for one, ok in zip(changes, overturned >= 0, strict=True)
        ),
        success=overturned != NO_ATTACK,
        prediction=certificates.prediction.copy(),
        unit=certificates.unit,
        attack=f"smoothed attack (q = {measure.q:g})",
        flips_to_half=_flips_to_half(learner, X, adversary, measure, changes, longest),
        q=measure.q,
    )


def _noise_of(learner: AttackedLearner, q: float | None) -> LabelFlip:
    if q is None:
        if learner.noise_ is None:
            raise ValueError("The learner has noise='auto': pass the noise q to attack as noise=...")
        return learner.noise_
    if learner.noise_ is not None and learner.rule_depends_on_noise() and q != learner.noise_.q:
        raise ValueError(
            f"The prediction depends on the learner's noise, q = {learner.noise_.q:g}, and can be attacked only at "
            f"that noise. Got noise={q!r} instead: fit another learner with it."
        )
    check_flip_probability("smoothed_attack", "noise", q, len(learner.classes_))
    return LabelFlip(q, len(learner.classes_))


def _flips_to_half(
    learner: AttackedLearner,
    X: object,
    adversary: Adversary | None,
    noise: LabelFlip,
    changes: list[LabelChanges],
    longest: Integers,
) -> Integers:
    """Find by bisection, for a block of test rows at once, the number of units at which the bound reaches 1/2."""
    refuse_windows(adversary, "smoothed_attack")
    Z, powers = learner.test_rows(X), learner.powers(adversary)
    codes, n_classes = learner.label_codes_, len(learner.classes_)
    found = np.full(len(Z), NO_ATTACK)
    for block in learner.blocks(len(Z), powers=powers):
        source = learner.votes_on(Z[block])
        free, fixed = changeable_histogram(source, codes, n_classes, learner.precision_, powers.changeable)
        offsets = fixed + learner.offsets_on(source, (free.scores + fixed).sum(axis=1))
        winner = np.argmax(free.scores + offsets, axis=1)
        moves = _Moves(codes, changes[block])

        def bound_after(units: Integers, free=free, offsets=offsets, winner=winner, moves=moves) -> Floats:  # type: ignore[no-untyped-def]
            bounds, _ = log_failures(moves.applied(free, units), offsets, winner, noise)
            return np.asarray(bounds.max(axis=1))

        low, high = np.full(len(winner), -1), longest[block].copy()  # below half at `low`, perhaps at half at `high`
        reaches = bound_after(high) >= LOG_HALF
        while np.any(high - low > 1):
            middle = np.where(high - low > 1, (low + high) // 2, high)
            half = bound_after(middle) >= LOG_HALF
            high, low = np.where(half, middle, high), np.where(half | (middle == high), low, middle)
        found[block] = np.where(reaches, high, NO_ATTACK)
    return found


class _Moves:
    """The label changes against all rows of a block of test rows."""

    def __init__(self, codes: Integers, changes: list[LabelChanges]):
        sizes = [len(one.rows) for one in changes]
        rows = np.concatenate([one.rows for one in changes])
        self._row = np.repeat(np.arange(len(changes)), sizes)
        self._old, self._new = codes[rows], np.concatenate([one.labels for one in changes])
        self._unit = np.concatenate([one.units for one in changes])
        self._votes = np.concatenate([one.votes for one in changes])

    def applied(self, histogram: VoteHistogram, units: Integers) -> VoteHistogram:
        """Return the histogram after the first `units` units of each test row's attack."""
        done = self._unit < units[self._row]
        return histogram.with_changed_labels(self._row[done], self._votes[done], self._old[done], self._new[done])
