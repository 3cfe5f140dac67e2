"""From counted votes to what is known, with a stated confidence, about the smoothed decision.

The smoothed decision g is the class with the most of the vote G under the noise, the plurality of the paper's
Appendix B.1. One sample of models *selects* the class that will be spoken of; another, independent one *estimates* its
vote. Selecting and estimating by the same votes would favour whatever class was lucky in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flipproof.guarantees import budget_over_rivals, wins_over_rivals
from flipproof.rounding import Floats, Integers, below
from flipproof.smoothing.intervals import log_share_upper


@dataclass(frozen=True)
class VoteBounds:
    """What the votes on m test rows say.

    Attributes
    ----------
    winner : integers of shape (m,)
        The selected class.
    rival : integers of shape (m,)
        The other class with the most votes in the estimation sample.
    log_failure : floats of shape (m,)
        Log of an upper bound on the vote that does not go to the winner.
    log_rival : floats of shape (m,)
        Log of an upper bound on the vote for any one other class.
    margin : floats of shape (m,)
        The winner's lead over the rival in the estimation sample, as a share of it; negative if it trails there.
    """

    winner: Integers
    rival: Integers
    log_failure: Floats
    log_rival: Floats
    margin: Floats

    @property
    def decided(self) -> np.ndarray:
        """True where the winner is surely the smoothed decision."""
        return wins_over_rivals(self.log_failure, self.log_rival)


def selected_classes(selection: Integers) -> Integers:
    """Return the classes with the most votes; ties go to the class that sorts lowest."""
    return np.asarray(selection.argmax(axis=1), dtype=np.int64)


def bound_votes(selection: Integers, estimation: Integers, alpha: float) -> VoteBounds:
    """Bound the vote of the selected class, and that of all others, given the votes of both samples, shape (m, K).

    Soundness: given the selection sample, class c is fixed, and so is how alpha is spent; the estimation sample is
    independent of it, so its count for any fixed class is binomial. Either all of alpha is spent on G_c, and then a
    rival has at most what c has not. Or half of it is spent on G_c, and the other half, in equal parts, on *each* of
    the K - 1 rivals; by the union bound all K bounds hold at once, with probability 1 - alpha, and the largest of them,
    which is that of the rival with the most votes, holds for every rival, whichever the selection sample saw second.
    With two classes G_d = 1 - G_c, so the first way is always the better. Nothing is asked of any other test row:
    each has its own statement, although all share the same models.
    """
    winner = selected_classes(selection)
    rows = np.arange(len(winner))
    others = estimation.copy()
    others[rows, winner] = -1
    rival = others.argmax(axis=1)
    n_samples = int(estimation[0].sum()) if len(estimation) else 1
    split = _split_pays(selection, winner, n_samples, alpha)
    bounds = [_bounds(estimation, winner, n_samples, alpha, with_rivals) for with_rivals in (False, True)]
    log_failure, log_rival = (np.where(split, two, one) for one, two in zip(*bounds, strict=True))
    return VoteBounds(
        winner=winner,
        rival=rival,
        log_failure=log_failure,
        log_rival=np.minimum(log_failure, log_rival),
        margin=(estimation[rows, winner] - estimation[rows, rival]) / n_samples,
    )


def _bounds(
    votes: Integers, winner: Integers, n_samples: int, alpha: float, with_rivals: bool
) -> tuple[Floats, Floats]:
    """Return log upper bounds on the vote that the winner has not, and on that of any one rival."""
    rows, n_rivals = np.arange(len(votes)), votes.shape[1] - 1
    for_winner = votes[rows, winner]
    if not with_rivals or n_rivals == 1:
        log_failure = log_share_upper(n_samples - for_winner, n_samples, alpha)
        return log_failure, log_failure
    others = votes.copy()
    others[rows, winner] = -1
    return (
        log_share_upper(n_samples - for_winner, n_samples, alpha / 2),
        log_share_upper(others.max(axis=1), n_samples, float(below(alpha / 2 / n_rivals))),
    )


def _split_pays(selection: Integers, winner: Integers, n_samples: int, alpha: float) -> np.ndarray:
    """Guess from the selection sample where bounds on the rivals will certify more than they cost.

    Soundness: any guess will do, as long as it does not look at the estimation sample.
    """
    shares = selection / np.maximum(selection.sum(axis=1, keepdims=True), 1)
    expected = np.rint(shares * n_samples).astype(np.int64)
    one, two = (
        budget_over_rivals(*_bounds(expected, winner, n_samples, alpha, with_rivals)) for with_rivals in (False, True)
    )
    return np.asarray(two > one)
