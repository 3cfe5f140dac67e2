"""Attack any classifier, nearest training rows first, within a budget of refits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_array

from flipproof.adversary import Adversary
from flipproof.attacks.result import AttackResult
from flipproof.attacks.undefended.search import fewest, narrowed
from flipproof.attacks.undefended.strategies import METRIC, by_distance, distances_to
from flipproof.attacks.undefended.victim import NO_FLIPS, Flips, Outcome, Victim, features_of, quiet_refits, victim_of
from flipproof.attacks.worst import MAX_FLIPS
from flipproof.core.rounding import Floats
from flipproof.parameters import BOOLEAN, VERBOSE, Constraints, check_parameters, integer
from flipproof.runtime.progress import AttackProgress, StopSign, set_by_interrupt

NAME = "any-classifier attack"


@dataclass(frozen=True)
class AnyClassifierAttack:
    """Change the labels of the nearest training rows until the classifier, of any kind, predicts another class.

    The model is refitted after 1, 2, 4, 8, ... flips, and bisection finds how many are needed: about 2 log2(flips)
    refits of the model per test row. Every refit is evaluated on all test rows, so an attack on one may also overturn
    others. For logistic regression, :class:`InfluenceAttack` needs fewer flips and far less time.

    Parameters
    ----------
    max_refits : int
        Budget for all test rows together. When it is spent, the remaining rows are not attempted.
    max_flips : int, optional
        Give up on predictions that need more. Default: the number of changeable labels.
    reverse : bool
        Also try the farthest rows first; one refit shows whether that needs fewer flips.
    metric : str or callable
        Distance, as in :func:`sklearn.metrics.pairwise_distances`; for a Pipeline, between the inputs of its last
        step.
    verbose : int
        1: report progress on stderr.

    See Also
    --------
    flipproof.attacks.undefended_attack : Attack on a logistic regression.
    flipproof.SmoothedClassifier : Certifies any classifier, by votes of noisy copies.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from flipproof.attacks import AnyClassifierAttack
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KNeighborsClassifier(5).fit(X[::2], y[::2])
    >>> result = AnyClassifierAttack(max_refits=100).attack(model, X[::2], y[::2], X[1::30])
    >>> result.flips_needed.tolist()
    [3, 3, 3, 2, 2]
    """

    parameter_constraints: ClassVar[Constraints] = {
        "max_refits": integer(1),
        "max_flips": MAX_FLIPS,
        "reverse": BOOLEAN,
        "metric": METRIC,
        "verbose": VERBOSE,
    }

    max_refits: int = 1000
    max_flips: int | None = None
    reverse: bool = True
    metric: str | Callable[..., float] = "euclidean"
    verbose: int = 0

    def attack(
        self, model: object, X: object, y: object, X_test: object, adversary: Adversary | None = None
    ) -> AttackResult:
        """Search for a small set of label changes that overturns each prediction.

        Parameters
        ----------
        model : classifier
            Fitted on X and y. Random states of None become 0 in the refits.
        X, y : arrays
            The training rows, in any form that the model accepts and distances are defined for, and their labels.
        X_test : array
            The test rows whose predictions are attacked.
        adversary : Adversary, optional
            Which labels can be changed, and to what. Default: any label to any class.

        Returns
        -------
        AttackResult
            A prediction that changes when the model is refitted to the same labels, as a randomized model's may, needs
            0 flips. Ctrl-C ends the attack after the current refit, a second Ctrl-C at once. The attacks found so far
            are returned, and `attempted` is False for the other rows.
        """
        check_parameters(self)
        victim = victim_of(model, X, y, X_test, adversary)
        m = len(victim.prediction)
        if victim.is_untouchable:
            return victim.result([Outcome(None, attempted=True)] * m, NAME, n_refits=0)
        hunt = Hunt(victim, self.max_refits, AttackProgress(NAME, m, self.verbose))
        try:
            with set_by_interrupt(hunt.stopped), quiet_refits():
                hunt.start()
                self._attack_rows(hunt, _measurable(model, X), _measurable(model, X_test))
        except (NoMoreRefits, KeyboardInterrupt):
            pass
        hunt.show(is_last=True)
        return victim.result(hunt.outcomes(), NAME, hunt.n_refits)

    def _attack_rows(self, hunt: Hunt, rows: Any, Z: Any) -> None:
        scores = _scores(hunt.victim)
        for row in range(len(hunt.best)):
            distances = distances_to(rows, Z[[row]], self.metric)
            ranked = _rivals(hunt.victim, row, scores, distances)
            order = by_distance(hunt.victim, distances, int(hunt.victim.prediction[row]), ranked)
            hunt.try_order(row, order, self.max_flips)
            if self.reverse:
                hunt.try_order(row, order.backwards(), self.max_flips)
            hunt.attempted[row] = True
            hunt.show()


class NoMoreRefits(Exception):  # noqa: N818 - not an error
    """Raised when the budget is spent or the user interrupts."""


class Hunt:
    """The best attack found so far against every test row, and the number of refits."""

    def __init__(self, victim: Victim, max_refits: int, line: AttackProgress) -> None:
        self.victim, self.max_refits, self.line = victim, max_refits, line
        self.best: list[Flips | None] = [None] * len(victim.prediction)
        self.attempted = np.zeros(len(self.best), dtype=bool)
        self.n_refits = 0
        self.stopped = StopSign()

    def start(self) -> None:
        """Refit to the unchanged labels."""
        self._pay()
        changed = self.victim.overturned_by_a_refit()
        for row in np.flatnonzero(changed):
            self.best[row] = NO_FLIPS

    def try_order(self, row: int, order: Flips, max_flips: int | None) -> None:
        """Search for the shortest prefix of a sequence of changes that overturns the prediction of a row."""
        best = self.best[row]
        most = len(order) if max_flips is None else min(max_flips, len(order))
        most = most if best is None else min(most, len(best) - 1)
        if most < 1:
            return

        def margin(count: int) -> float:
            return self._refit(order.first(count), row)

        if best is None:
            fewest(margin, most, at_none=1.0)
        elif margin(most) <= 0:  # one refit decides
            narrowed(margin, 0, most, 1.0, -1.0)

    def outcomes(self) -> list[Outcome]:
        """Return the outcome for every test row."""
        return [
            Outcome(best, attempted=bool(done) or best is not None)
            for best, done in zip(self.best, self.attempted, strict=True)
        ]

    def show(self, is_last: bool = False) -> None:
        """Update the progress line."""
        overturned = sum(best is not None for best in self.best)
        self.line.show(int(self.attempted.sum()), overturned, self.n_refits, is_last)

    def _refit(self, flips: Flips, row: int) -> float:
        """Refit, keep the flips for every test row where they beat the best so far, and return -1 or 1."""
        self._pay()
        after = self.victim.predictions_after(flips)
        self.show()
        if after is None:
            return 1.0
        overturned = after != self.victim.prediction
        for other in np.flatnonzero(overturned):
            known = self.best[other]
            if known is None or len(flips) < len(known):
                self.best[other] = flips
        return -1.0 if overturned[row] else 1.0

    def _pay(self) -> None:
        if self.n_refits >= self.max_refits or self.stopped.is_set():
            raise NoMoreRefits
        self.n_refits += 1


def _measurable(model: object, X: object) -> Any:
    """Return rows that distances can be measured between."""
    try:
        return check_array(features_of(model, X), accept_sparse="csr", ensure_all_finite=True)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "AnyClassifierAttack measures distances between rows, which must be finite numbers, if need be after the "
            f"steps of a Pipeline before the last: {error}"
        ) from error


def _scores(victim: Victim) -> Floats | None:
    """Return the model's scores of all classes at all test rows, if it has any."""
    if len(victim.classes) == 2:
        return None
    for name in ("predict_proba", "decision_function"):
        if hasattr(victim.model, name):
            scores = np.asarray(getattr(victim.model, name)(victim.X_test))
            if scores.shape == (len(victim.prediction), len(victim.classes)):
                return scores
    return None


def _rivals(victim: Victim, row: int, scores: Floats | None, distances: Floats) -> list[int]:
    """Return the rival classes at a test row, the highest score first; without scores, the nearest row first."""
    if scores is not None:
        ranked = np.argsort(-scores[row], kind="stable")
    else:
        nearest = np.full(len(victim.classes), np.inf)
        np.minimum.at(nearest, victim.codes, distances)
        ranked = np.argsort(nearest, kind="stable")
    return [int(d) for d in ranked if d != victim.prediction[row]]
