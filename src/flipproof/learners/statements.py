"""What learners in memory and in blocks have in common: noise, limits of votes, random errors, certificates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption
from flipproof.certificates import METHODS, NOISY_METHODS, Certificates
from flipproof.core.engine import (
    CertifiedBlock,
    winners,
)
from flipproof.core.histograms import VoteHistogram
from flipproof.core.noise import LabelFlip, check_flip_probability
from flipproof.core.powers import Scope
from flipproof.core.random_errors import DIRECTIONS, change_probability_upper
from flipproof.core.rounding import Floats, Integers, scale
from flipproof.core.votes import (
    VoteSource,
    has_votes,
)
from flipproof.learners.in_memory import assumptions_about_rows
from flipproof.origins import Origin
from flipproof.parameters import NONE, check_parameter, integer, one_of, parameter_error

#: Noises that ``noise="auto"`` tries, as fractions of the largest valid q, (K - 1) / K. The smallest is usually best.
AUTO_NOISES = (1e-100, 1e-30, 1e-9, 1e-4, 0.01, 0.1, 0.35, 0.65, 0.9)


def checked_rates(owner: str, rate: object, direction: str) -> Floats:
    """Return rates of errors as an array of shape (r,); refuse other than one or several numbers from 0 to 1."""
    check_parameter(f"{owner}.random_error_bound", "direction", direction, one_of(*DIRECTIONS))
    rates = np.asarray(rate)
    if rates.dtype.kind not in "iuf" or rates.ndim > 1 or rates.size == 0 or not np.all((rates >= 0) & (rates <= 1)):
        wanted = "a probability from 0 to 1, or several"
        raise parameter_error(f"{owner}.random_error_bound", "rate", wanted, rate, "5 % is 0.05.")
    return np.atleast_1d(rates).astype(np.float64)


def random_error_bounds(free: VoteHistogram, offsets: Integers, rates: Floats, direction: str) -> Floats:
    """Bound the probability that random errors change each prediction of a block, shape (rows, rates) (M17).

    `free` counts the votes of labels that may have errors; the votes of all others are part of `offsets`.
    """
    winner = winners(free.scores + offsets)
    each = [change_probability_upper(free, offsets, winner, float(rate), direction) for rate in rates]
    return np.stack(each, axis=1)


def vote_limits(
    clip: str | float | None, n_rows: int, largest: Integers | None, levels: Callable[[float], Integers]
) -> Integers | None:
    """Return the largest vote of any possible row on each of `n_rows` test rows; None if there is no limit.

    Parameters
    ----------
    clip : "sign", float or None
        The parameter of the learner.
    n_rows : int
        Number of test rows.
    largest : integers of shape (n_rows,), optional
        The largest vote that a frozen geometry allows (M12).
    levels : callable
        Returns the size of vote on each test row that a share of the votes do not exceed (M14).
    """
    if clip is None:
        return largest
    limit = np.ones(n_rows, dtype=np.int64) if isinstance(clip, str) else levels(float(clip))
    return limit if largest is None else np.minimum(limit, largest)


def attained_by_reference(
    clip: str | float | None, limit: Integers, votes_of_reference: Callable[[Integers], VoteSource]
) -> NDArray[np.bool_]:
    """Tell on which test rows some row of the reference is known to have a clipped vote of the size `limit`.

    A `clip` that is a share is the size of a vote of some row of the reference, unless they are all 0; "sign" needs
    a row whose vote is not 0. `votes_of_reference` returns the votes of all these rows on some of the test rows.
    """
    attained = np.full(len(limit), clip is not None)
    unclear = np.flatnonzero(attained & (limit == 1))
    if len(unclear):
        attained[unclear] = has_votes(votes_of_reference(unclear))
    return attained


def refuse_noise_against_rows(method: str) -> None:
    """Refuse certificates by noise on labels where rows can be changed."""
    if method != "exact":
        raise ValueError(
            f"The method {method!r} puts noise on labels, which says nothing about added, removed or replaced "
            "rows: use method='exact'."
        )


def assumptions_against(
    scope: Scope, of_fit: tuple[Assumption, ...], blocks: Sequence[CertifiedBlock]
) -> tuple[Assumption, ...]:
    """Return the assumptions of certificates against these changes, given those of the fit, which are about labels."""
    if scope.changes == "labels":
        is_bound = not all(block.is_attained for block in blocks)
        return (*of_fit, Assumption("majority-lower-bound")) if is_bound else of_fit
    bound = () if all(block.is_attained for block in blocks) else (Assumption("rows-lower-bound"),)
    return *assumptions_about_rows(of_fit, scope), *bound


def resolve_noise(noise: Any, n_classes: int, rule_depends_on_noise: bool, owner: str) -> LabelFlip | None:
    """Return the noise that the `noise` parameter of a learner of the class `owner` means; None for ``"auto"``."""
    if isinstance(noise, str):  # "auto"
        if rule_depends_on_noise:
            raise ValueError(
                "noise='auto' needs a prediction that does not depend on the noise, but with two classes and no "
                "intercept it does. Set fit_intercept=True, or give q as a number."
            )
        return None
    if isinstance(noise, LabelFlip) and noise.n_classes not in (None, n_classes):
        remedy = "give q as a number"
        raise parameter_error(owner, "noise", f"for {n_classes} classes", noise, remedy)
    q = noise.q if isinstance(noise, LabelFlip) else noise
    check_flip_probability(owner, "noise", q, n_classes)
    return LabelFlip(q, n_classes)


def noises_to_try(noise: LabelFlip | None, n_classes: int) -> list[LabelFlip]:
    """Return the noises to try; each test row keeps the best one. For None, these are a grid."""
    if noise is not None:
        return [noise]
    return [LabelFlip(part * (n_classes - 1) / n_classes, n_classes) for part in AUTO_NOISES]


def class_values(scores: Integers, exponent: Integers) -> Floats:
    """Return integer scores in units of weights, shape (m, K); with two classes their difference, shape (m,)."""
    values = scale(scores.astype(np.float64), -exponent[:, None])
    return values[:, 1] - values[:, 0] if scores.shape[1] == 2 else values


@dataclass(frozen=True)
class Statement:
    """What the certificates of all test rows have in common.

    Attributes
    ----------
    method : {"exact", "tight", "kl"}
        How the radii were found.
    noise : LabelFlip or None
        The noise of the learner; None if each test row has its own.
    classes : array of shape (K,)
        The classes.
    n_labels : int
        Number of training labels.
    assumptions : tuple of Assumption
        What the certificates assume.
    adversary : Adversary or None
        The adversary that the certificates hold against.
    scope : Scope
        What this adversary can change in these labels.
    """

    method: str
    noise: LabelFlip | None
    classes: NDArray[Any]
    n_labels: int
    assumptions: tuple[Assumption, ...]
    adversary: Adversary | None
    scope: Scope

    def certificates(
        self, blocks: Sequence[CertifiedBlock], origin: Origin, like: Integers | slice = slice(None)
    ) -> Certificates:
        """Join the certificates of blocks; `like` gives, for each test row, the index of one with the same votes."""

        def joined(name: str) -> NDArray[Any]:
            return np.asarray(np.concatenate([getattr(block.found, name) for block in blocks])[like])

        exponent = np.concatenate([block.exponent for block in blocks])[like]
        winner = joined("winner")
        return Certificates(
            prediction=self.classes[winner],
            radius=joined("radius"),
            rival=self.classes[joined("rival")],
            margin=scale(joined("margin").astype(np.float64), -exponent),
            log_failure=joined("log_failure"),
            abstained=np.zeros(len(winner), dtype=bool),
            witness=scale(joined("witness"), exponent[:, None]),
            method=self.method,
            noise=joined("noise") if self.noise is None else self.noise.q,
            n_train=self.n_labels,
            classes=self.classes.copy(),
            assumptions=self.assumptions,
            unit=self.scope.unit,
            n_touchable=self.scope.n_touchable,
            unlimited=joined("unlimited") if self.scope.changes != "labels" else None,
            adversary=self.adversary,
            origin=origin,
        )


def check_limit(owner: str, at_least: int | None, method: str) -> None:
    """Refuse limits of radii that are not numbers of changes, and methods that do not know a limit."""
    check_parameter(owner, "at_least", at_least, NONE | integer(0))
    if at_least is not None and method in NOISY_METHODS:
        raise ValueError(f"The method {method!r} computes all radii in full: at_least=... needs method='exact'.")


def up_to(certificates: Certificates, limit: int) -> Certificates:
    """Return certificates whose radii are cut at a limit.

    Where a radius reaches the limit, or nothing can change the prediction, the rival is the prediction itself and the
    margin is NaN: these may be unknown, and results must not depend on how the radius was proved.
    """
    is_unlimited = np.asarray(certificates.unlimited)
    is_reached = (certificates.radius >= limit) | is_unlimited
    return replace(
        certificates,
        radius=np.minimum(certificates.radius, min(limit, np.iinfo(np.int64).max)),
        rival=np.where(is_reached, certificates.prediction, certificates.rival),
        margin=np.where(is_reached, np.nan, certificates.margin),
        unlimited=is_unlimited & (certificates.radius <= limit),
        assumptions=(*certificates.assumptions, Assumption("radii-limited", {"limit": int(limit)})),
    )


def check_method(method: str, owner: str) -> str:
    """Return `method` if it is known; otherwise raise an error that lists the methods."""
    check_parameter(owner, "method", method, one_of(*METHODS))
    return method
