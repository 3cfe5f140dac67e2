"""Softmax regression by Newton's method: many fits on the same rows, each close to a known one.

The objective is scikit-learn's: the sum of the logistic losses plus ``||W||^2 / (2 C)``, the intercepts not penalised.
Adding the same vector to the weights of all classes changes no probability, and at the optimum the weights add up to
zero, so they are written as ``W = Q V`` with K - 1 orthonormal columns Q that are orthogonal to the constant vector.
This makes V unique. scikit-learn fits two classes with a single vector w, that is W = (-w / 2, w / 2), whose penalty is
twice as large.

The Hessian in V is ``sum over a < b of (q_a - q_b)(q_a - q_b)' x X' diag(p_a p_b) X``: K (K - 1) / 2 Gram matrices, one
for two classes. It is the costly part, so a Hessian of a nearby fit is reused as long as its steps shorten the
gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from flipproof.core.rounding import Floats, Integers

#: Newton stops when the objective is about this far from its minimum, in units of one row's loss.
CONVERGED = 1e-16

#: A Hessian of another fit is reused while its steps reduce the squared length of the gradient at least 16-fold.
FAST_ENOUGH = 1 / 16

#: Only separable data with almost no penalty need this many steps: their minimum is at infinity.
MOST_STEPS = 100

#: A fit for one test row stops when a step changes that row's margin by less than this share of it ...
SETTLED_MARGIN = 0.02
#: ... and the objective is this close to its minimum.
SETTLED_OBJECTIVE = 0.1

#: Upper bound on the relative rounding error of the objective.
ROUNDING = 1e-12

#: Newton steps are halved until they lower the objective. If a label changes that the previous fit was certain of, its
#: Hessian is no guide to the new minimum. If steps from there would have to be shorter than this share, the fit starts
#: again from zero, where the Hessian is largest.
SHORTEST = 2.0**-3
#: The shortest share of a step in a fit that started from zero.
SHORTEST_COLD = 2.0**-20

#: Added to the Hessian, relative to its mean eigenvalue, if it is not positive definite.
JITTER = 1e-13
#: The jitter grows a hundredfold each time, so by then it dominates the Hessian.
MOST_JITTERS = 12


@dataclass(frozen=True)
class SoftmaxFit:
    """Weights of the classes that have rows, and the Hessian of a nearby fit.

    Attributes
    ----------
    weights : floats of shape (K' - 1, k)
        V: one row per contrast of the K' classes that occur.
    present : integers of shape (K',)
        The codes of these classes.
    factor : tuple
        Cholesky factor of the Hessian.
    """

    weights: Floats
    present: Integers
    factor: Any

    def logits(self, Z: Floats, n_classes: int) -> Floats:
        """Return the scores of all classes at test rows; minus infinity for classes that have no rows."""
        scores = np.full((len(Z), n_classes), -np.inf)
        scores[:, self.present] = Z @ self.weights.T @ contrasts(len(self.present)).T
        return scores

    def pulls(self, z: Floats, winner: int, rival: int, n_classes: int) -> Floats:
        """Return s of shape (K, k): a label changed from a to e moves winner minus rival at z by ``(s_e - s_a) x``.

        This holds to first order: the optimum moves at the rate of the inverse Hessian times the gradient of the
        margin. Zero for classes without rows, which the fit does not cover.
        """
        Q = contrasts(len(self.present))
        c, d = np.searchsorted(self.present, (winner, rival))
        moved = cho_solve(self.factor, np.outer(Q[c] - Q[d], z).ravel(), check_finite=False)
        by_class = np.zeros((n_classes, len(z)))
        by_class[self.present] = Q @ moved.reshape(len(Q) - 1, -1)
        return by_class


@dataclass(frozen=True)
class _Labels:
    """Labels as positions among the classes that occur, and the penalty for that number of classes."""

    present: Integers
    places: Integers
    penalty: Floats


@dataclass(frozen=True)
class _Point:
    """Weights, and the objective's value and gradient there; probabilities of shape (K', n)."""

    weights: Floats
    probabilities: Floats
    objective: float
    gradient: Floats


@dataclass(frozen=True)
class SoftmaxRegression:
    """Training rows and penalty, to be fitted to many sets of labels.

    Attributes
    ----------
    rows : floats of shape (n, k)
        Features; the last column is constant if there is an intercept.
    penalty : floats of shape (k,)
        1 / C for every feature, 0 for the intercept.
    """

    rows: Floats
    penalty: Floats

    def fit(
        self, codes: Integers, start: SoftmaxFit | None = None, watched: tuple[Floats, int] | None = None
    ) -> SoftmaxFit:
        """Return the minimum for labels of at least two classes.

        Parameters
        ----------
        codes : integers of shape (n,)
            Labels.
        start : SoftmaxFit, optional
            A fit to similar labels.
        watched : (floats of shape (k,), int), optional
            A test row and a class: stop as soon as the margin of that class over the others at that row is accurate
            enough. Default: fit to full precision.
        """
        present = np.flatnonzero(np.bincount(codes))
        labels = _Labels(present, np.searchsorted(present, codes), self._penalty_for(len(present)))
        at_zero = np.zeros((len(present) - 1, self.rows.shape[1]))
        if start is None or not np.array_equal(start.present, present):
            point, factor, stale, cold = self._at(at_zero, labels), None, True, True
        else:
            point, factor, stale, cold = self._at(start.weights, labels), start.factor, True, False
        for _ in range(MOST_STEPS):
            if factor is None:
                factor, stale = self._factor(point.probabilities), False
            step = _solve(factor, point.gradient)
            decrement = float(np.vdot(step, point.gradient))
            if decrement <= CONVERGED:
                break
            if watched is not None and decrement <= SETTLED_OBJECTIVE and _is_settled(point, step, present, *watched):
                point = replace(point, weights=point.weights - step)
                break
            ahead = self._down(
                point, step, decrement, labels, shortest=1 if stale else SHORTEST_COLD if cold else SHORTEST
            )
            if ahead is not None:
                left = float(np.vdot(_solve(factor, ahead.gradient), ahead.gradient))
                point, stale = ahead, True
                factor = factor if left <= FAST_ENOUGH * decrement else None
            elif stale:
                factor = None
            elif not cold:
                point, factor, cold = self._at(at_zero, labels), None, True
            else:
                break
        if factor is None:
            factor = self._factor(point.probabilities)
        return SoftmaxFit(point.weights, present, factor)

    def with_own_hessian(self, fit: SoftmaxFit) -> SoftmaxFit:
        """Return the fit with the Hessian at its weights, instead of that of a nearby fit."""
        probabilities = _softmax(contrasts(len(fit.present)) @ (fit.weights @ self.rows.T))[0]
        return replace(fit, factor=self._factor(probabilities))

    def _penalty_for(self, n_classes: int) -> Floats:
        return self.penalty * (2 if n_classes == 2 else 1)

    def _at(self, weights: Floats, labels: _Labels) -> _Point:
        Q, everyone = contrasts(len(labels.present)), np.arange(len(self.rows))
        probabilities, losses = _softmax(Q @ (weights @ self.rows.T), labels.places)
        residuals = probabilities.copy()
        residuals[labels.places, everyone] -= 1
        gradient = (Q.T @ residuals) @ self.rows + labels.penalty * weights
        objective = float(losses.sum() + (labels.penalty * weights**2).sum() / 2)
        return _Point(weights, probabilities, objective, gradient)

    def _factor(self, probabilities: Floats) -> Any:
        """Return the Cholesky factor of the Hessian."""
        Q, n_features = contrasts(len(probabilities)), self.rows.shape[1]
        n_contrasts = len(Q) - 1
        hessian = np.zeros((n_contrasts, n_features, n_contrasts, n_features))
        for a in range(len(Q)):
            for b in range(a + 1, len(Q)):
                scaled = self.rows * np.sqrt(probabilities[a] * probabilities[b])[:, None]
                between = Q[a] - Q[b]
                hessian += np.multiply.outer(np.outer(between, between), scaled.T @ scaled).transpose(0, 2, 1, 3)
        square = hessian.reshape(n_contrasts * n_features, -1)
        diagonal = np.diag_indices(len(square))
        square[diagonal] += np.tile(self._penalty_for(len(Q)), n_contrasts)
        return _positive_factor(square, diagonal)

    def _down(self, point: _Point, step: Floats, decrement: float, labels: _Labels, shortest: float) -> _Point | None:
        """Return the point after the longest of the step and its halves that lowers the objective enough, or None."""
        share, ceiling = 1.0, point.objective + ROUNDING * abs(point.objective)
        while share >= shortest:
            ahead = self._at(point.weights - share * step, labels)
            if ahead.objective <= ceiling - share * decrement / 4:
                return ahead
            share /= 2
        return None


@lru_cache(maxsize=64)
def contrasts(n_classes: int) -> Floats:
    """Return Q of shape (K, K - 1): orthonormal columns that add up to zero."""
    Q = np.zeros((n_classes, n_classes - 1))
    for j in range(1, n_classes):
        Q[:j, j - 1] = -1 / np.sqrt(j * (j + 1))
        Q[j, j - 1] = j / np.sqrt(j * (j + 1))
    Q.setflags(write=False)
    return Q


def margin_of(logits: Floats, winner: int) -> float:
    """Return the lead of a class over the best of the others."""
    others = np.delete(logits, winner)
    return float(logits[winner] - others.max())


def _softmax(logits: Floats, places: Integers | None = None) -> tuple[Floats, Floats]:
    """Return the probabilities of the classes, along the first axis, and the loss of every row at its label.

    The logits are overwritten.
    """
    logits -= logits.max(axis=0)
    at_label = 0.0 if places is None else logits[places, np.arange(logits.shape[1])]
    np.exp(logits, out=logits)
    total = logits.sum(axis=0)
    logits /= total
    return logits, np.log(total) - at_label


def _solve(factor: object, gradient: Floats) -> Floats:
    return np.asarray(cho_solve(factor, gradient.ravel(), check_finite=False)).reshape(gradient.shape)


def _positive_factor(square: Floats, diagonal: Any) -> Any:
    """Factorise a matrix that may be singular because of rounding or of separable data without a penalty."""
    jitter = JITTER * max(float(square[diagonal].mean()), JITTER)
    for _ in range(MOST_JITTERS):
        try:
            return cho_factor(square, check_finite=False)
        except np.linalg.LinAlgError:
            square[diagonal] += jitter
            jitter *= 100
    raise FloatingPointError("The features are too large or too small: scale them, for example by StandardScaler.")


def _is_settled(point: _Point, step: Floats, present: Integers, z: Floats, winner: int) -> bool:
    """Whether the next step hardly moves the margin of the winner at a test row."""
    Q = contrasts(len(present))
    place = int(np.searchsorted(present, winner))
    if place == len(present) or present[place] != winner:
        return True  # a class without rows cannot win
    now, then = (margin_of(Q @ (weights @ z), place) for weights in (point.weights, point.weights - step))
    return abs(then - now) <= SETTLED_MARGIN * abs(then)
