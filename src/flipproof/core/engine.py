"""From a histogram of votes to certificates: the steps shared by all label-linear learners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.exact import (
    UNREACHABLE,
    flips_to_overturn,
    groups_to_overturn,
    leads,
    radius_from_flips,
    windows_to_overturn,
)
from flipproof.core.guarantees import kl_radius, mean_rule_radius, tight_radius
from flipproof.core.histograms import VoteHistogram
from flipproof.core.invariants import check_certificates, check_counts, check_winners, require
from flipproof.core.majority import MajorityPowers
from flipproof.core.majority_radii import annotations_to_overturn, annotators_to_overturn
from flipproof.core.many_bits import LeadingBits, flips_by_leading_bits
from flipproof.core.noise import LabelFlip
from flipproof.core.partitions import (
    PartitionVotes,
    SourceVotes,
    partition_changes_to_overturn,
    partition_sources_to_overturn,
)
from flipproof.core.powers import Scope
from flipproof.core.rounding import Floats, Integers, Values
from flipproof.core.rows import row_changes_to_overturn, sources_to_overturn
from flipproof.core.tails import find_witness, log_failures_upper, mean_offset_lower
from flipproof.core.votes import EstimatedScores, GroupVotes

#: Number of test rows whose scores are estimated at a time.
ESTIMATED_ROWS = 4096


@dataclass(frozen=True)
class BlockCertificates:
    """Certificates of a block of test rows, in class codes and grid units.

    `unlimited` is True where it is known that nothing the adversary can do overturns the prediction.
    """

    winner: Integers
    rival: Integers
    radius: Integers
    unlimited: NDArray[np.bool_]
    margin: Integers
    log_failure: Floats
    witness: Floats
    noise: Floats

    def check(self, scope: Scope) -> None:
        """Check that these certificates are consistent."""
        most = None if scope.can_add_rows else scope.n_touchable
        check_certificates(self.winner, self.rival, self.radius, self.margin, self.log_failure, most)


@dataclass(frozen=True)
class CertifiedBlock:
    """Certificates of a block of test rows, and the grid of each row.

    `is_attained` is False if it is not known whether an attack with one more change exists.
    """

    found: BlockCertificates
    exponent: Integers
    is_attained: bool = True


def unvisited(winner: Integers, exponent: Integers, n_classes: int, radius: int, scope: Scope) -> CertifiedBlock:
    """Return the certificates of test rows that were decided without votes: `radius` is proved, and no more is known.

    Margin and rival are placeholders, see ``flipproof.learners.statements.up_to``.
    """
    missing = np.full(len(winner), np.nan)
    found = BlockCertificates(
        winner=winner,
        rival=np.where(winner == 0, 1, 0),
        radius=np.full(len(winner), radius, dtype=np.int64),
        unlimited=np.full(len(winner), radius >= scope.n_touchable),
        margin=np.zeros(len(winner), dtype=np.int64),
        log_failure=missing,
        witness=np.full((len(winner), n_classes), np.nan),
        noise=missing,
    )
    return CertifiedBlock(found, exponent)


def check_blocks(
    blocks: Sequence[CertifiedBlock], scope: Scope, predicted: Integers, is_decided: NDArray[np.bool_]
) -> None:
    """Check that certificates are consistent, and agree with the predictions where the estimate decides them."""
    for block in blocks:
        block.found.check(scope)
    certified = np.concatenate([block.found.winner for block in blocks])
    require(np.all((certified == predicted) | ~is_decided), "certify and predict name different classes")


def estimated_winners(
    Z: Values, estimate: Callable[[Values], EstimatedScores | None]
) -> tuple[Integers, NDArray[np.bool_]]:
    """Return each row's class by the estimated scores, and whether the votes provably name the same class."""
    winner, is_decided = np.zeros(len(Z), dtype=np.int64), np.zeros(len(Z), dtype=bool)
    for start in range(0, len(Z), ESTIMATED_ROWS):
        rows = np.arange(start, min(start + ESTIMATED_ROWS, len(Z)))
        estimated = estimate(Z[rows])
        if estimated is not None:
            winner[rows], is_decided[rows] = estimated.decided()
    return winner, is_decided


def predicted_codes(
    Z: Values,
    estimate: Callable[[Values], EstimatedScores | None],
    count: Callable[[Values], tuple[Integers, Integers]],
) -> Integers:
    """Return the predicted class codes: by the estimate where it is decisive, otherwise by the scores from `count`."""
    winner, is_decided = estimated_winners(Z, estimate)
    open_rows = np.flatnonzero(~is_decided)
    if open_rows.size:
        winner[open_rows] = winners(count(Z[open_rows])[0])
    return winner


def grid_offsets(offsets: Floats | None, shape: tuple[int, int], n_train: int, precision: int) -> Integers:
    """Return the offsets of the deployed rule, given in grid units, as integers of shape (rows, classes).

    The highest becomes 0. The offset of a class that could never tie with it is clipped, so that nothing overflows.
    """
    if offsets is None:
        return np.zeros(shape, dtype=np.int64)
    hopeless = float(n_train * 2**precision)
    behind = np.minimum(offsets, np.finfo(np.float64).max)
    behind = behind - behind.max(axis=1, keepdims=True)
    return np.asarray(np.maximum(np.rint(behind), -hopeless), dtype=np.int64)


def winners(scores: Integers) -> Integers:
    """Return the class with the highest score; ties go to the lowest class."""
    return np.asarray(np.argmax(scores, axis=1), dtype=np.int64)


def certify_counted(
    free: VoteHistogram, offsets: Integers, method: str, noises: Sequence[LabelFlip], scope: Scope
) -> BlockCertificates:
    """Certify a block by any method from the counted votes of changeable labels; `offsets` contain the other votes."""
    check_counts(free.counts.sum(axis=2), scope.n_changeable)
    return (
        certify_exact(free, offsets, scope)
        if method == "exact"
        else certify_smoothed(free, offsets, method, noises, scope)
    )


def certify_exact(histogram: VoteHistogram, offsets: Integers, scope: Scope) -> BlockCertificates:
    """Certify a block by the exact radius of the deployed rule (M6, M10).

    `histogram` holds the votes of the changeable labels; the votes of all other labels are part of `offsets`.
    """
    transitions = None if scope.can_change_to_anything else scope.transitions
    return exact_certificates(
        histogram.scores + offsets,
        lambda winner, lead: flips_to_overturn(histogram, winner, lead, transitions),
        scope,
    )


def certify_many_bits(
    counted: LeadingBits, offsets: Callable[[Integers], Integers], n_classes: int, scope: Scope
) -> BlockCertificates:
    """Certify a block by the exact radius, from votes that were counted by their leading bits; like `certify_exact`.

    Labels that cannot be changed were counted as additional classes. `offsets` returns those of the deployed rule,
    given the sum of all votes.
    """
    by_class = counted.scores
    check_counts(counted.counts[:, :n_classes].sum(axis=2), scope.n_changeable)
    scores = by_class[:, :n_classes] + offsets(by_class.sum(axis=1))
    if by_class.shape[1] > n_classes:
        scores = scores + by_class[:, n_classes:]
    return exact_certificates(scores, lambda winner, lead: flips_by_leading_bits(counted, winner, lead), scope)


def certify_groups_exactly(votes: GroupVotes, scores: Integers, scope: Scope) -> BlockCertificates:
    """Certify a block against whole groups of labels by the exact radius (M10); `scores` include all labels."""
    return exact_certificates(
        scores,
        lambda winner, lead: groups_to_overturn(votes, winner, lead, scope.transitions),
        scope,
    )


def certify_windows(votes: GroupVotes, ends: Integers, scores: Integers, scope: Scope) -> BlockCertificates:
    """Certify a block against all labels of windows of time by the exact radius (M15); `scores` include all labels.

    The groups of `votes` are timestamps; `ends` are those of their windows.
    """
    return exact_certificates(
        scores,
        lambda winner, lead: windows_to_overturn(votes, ends, winner, lead, scope.transitions),
        scope,
    )


def certify_majorities(votes: Integers, scores: Integers, powers: MajorityPowers) -> tuple[BlockCertificates, bool]:
    """Certify a block if the majorities of items vote, against annotations or annotators (M15).

    `votes` are those of all items, with or without a majority; `scores` include those with one. The second result is
    False if some radius may be too small.
    """
    exact = []

    def to_overturn(winner: Integers, lead: Integers) -> Integers:
        if powers.groups is None:
            needed, is_exact = annotations_to_overturn(votes, winner, lead, powers.kinds)
        else:
            needed, is_exact = annotators_to_overturn(votes, winner, lead, powers)
        exact.append(is_exact)
        return needed

    found = exact_certificates(scores, to_overturn, powers.scope)
    return found, all(exact)


def certify_rows(histogram: VoteHistogram, offsets: Integers, limit: Integers, scope: Scope) -> BlockCertificates:
    """Certify a block against added, removed or replaced training rows by the exact radius (M12).

    `histogram` holds the votes of the rows that can be removed; the votes of all others are part of `offsets`. `limit`
    is the largest vote of any row on each test row.
    """
    check_counts(histogram.counts.sum(axis=2), scope.n_changeable)
    return exact_certificates(
        histogram.scores + offsets,
        lambda winner, lead: row_changes_to_overturn(histogram, winner, lead, limit, scope.changes),
        scope,
    )


def certify_sources(
    votes: GroupVotes, cell_rows: Integers, scores: Integers, limit: Integers, scope: Scope
) -> BlockCertificates:
    """Certify a block against sources that replace or remove all of their rows (M12); `scores` include all rows.

    `cell_rows` is the number of rows in each cell of `votes`.
    """
    return exact_certificates(
        scores,
        lambda winner, lead: sources_to_overturn(votes, cell_rows, winner, lead, limit, scope.changes),
        scope,
    )


def certify_partitions(votes: PartitionVotes, scope: Scope) -> BlockCertificates:
    """Certify a block against added, removed or replaced training rows, by the votes of partitions (M13)."""
    return exact_certificates(
        votes.scores,
        lambda winner, lead: partition_changes_to_overturn(votes, winner, lead, scope.changes),
        scope,
    )


def certify_partition_sources(votes: SourceVotes, scope: Scope) -> BlockCertificates:
    """Certify a block against sources that replace or remove all of their rows, by the votes of partitions (M13)."""
    return exact_certificates(
        votes.scores,
        lambda winner, lead: partition_sources_to_overturn(votes, winner, lead, scope.changes),
        scope,
    )


def exact_certificates(
    scores: Integers, to_overturn: Callable[[Integers, Integers], Integers], scope: Scope
) -> BlockCertificates:
    """Certify a block, given the scores and a function that returns how many changes let each class win, or a bound.

    The function gets the winner of each row and the leads, :func:`flipproof.core.exact.leads`; UNREACHABLE means that
    no number of changes suffices.
    """
    winner = winners(scores)
    rows, lead = np.arange(len(winner)), leads(scores, winner)
    check_winners(lead, winner)
    needed = to_overturn(winner, lead)
    rival = _most_dangerous(-needed.astype(np.float64), winner)
    return BlockCertificates(
        winner=winner,
        rival=rival,
        radius=radius_from_flips(needed[rows, rival], scope.unlimited_radius),
        unlimited=needed[rows, rival] == UNREACHABLE,
        margin=scores[rows, winner] - scores[rows, rival],
        log_failure=np.full(len(winner), np.nan),
        witness=np.full(scores.shape, np.nan),
        noise=np.full(len(winner), np.nan),
    )


def certify_smoothed(
    histogram: VoteHistogram, offsets: Integers, method: str, noises: Sequence[LabelFlip], scope: Scope
) -> BlockCertificates:
    """Certify a block by noise on the changeable labels; with several noises, each row uses its best one.

    Soundness: with more than one noise the deployed rule must not depend on the noise, so that each noise gives a proof
    about the same prediction. Labels that cannot be changed get no noise: they are part of the `offsets` of the
    deployed rule, so they enter the noisy margin multiplied by `signal`, as all offsets do (M10). A guarantee against
    any R labels is a guarantee against any number of groups that cannot have more than R labels in total.
    """
    best = _certify_with_noise(histogram, offsets, method, noises[0])
    for noise in noises[1:]:
        best = _larger_radius(best, _certify_with_noise(histogram, offsets, method, noise))
    return replace(best, radius=scope.groups_within(best.radius))


def deployed_radius(log_failure: Floats, method: str, noise: LabelFlip, n_train: int) -> Integers:
    """Return the number of flips that leave the *deployed* prediction unchanged.

    Soundness: M7. The KL radius covers the deployed rule directly. The tight radius covers the majority vote, so it is
    capped by the radius of the deployed rule.
    """
    if method == "kl":
        return kl_radius(log_failure, noise, n_train)
    cap = mean_rule_radius(log_failure, noise, n_train)
    return np.minimum(tight_radius(log_failure, noise, int(cap.max(initial=0))), cap)


def _certify_with_noise(
    histogram: VoteHistogram, offsets: Integers, method: str, noise: LabelFlip
) -> BlockCertificates:
    scores = histogram.scores + offsets
    winner = winners(scores)
    check_winners(leads(scores, winner), winner)
    bounds, witness = log_failures(histogram, offsets, winner, noise)
    rival = _most_dangerous(bounds, winner)
    at_rival = np.arange(len(winner)), rival
    return BlockCertificates(
        winner=winner,
        rival=rival,
        radius=deployed_radius(bounds[at_rival], method, noise, histogram.n_labels),
        unlimited=np.zeros(len(winner), dtype=bool),
        margin=scores[np.arange(len(winner)), winner] - scores[at_rival],
        log_failure=bounds[at_rival],
        witness=witness,
        noise=np.full(len(winner), noise.q),
    )


def log_failures(
    histogram: VoteHistogram, offsets: Integers, winner: Integers, noise: LabelFlip
) -> tuple[Floats, Floats]:
    """Bound log P(the noise lets a rival class tie) for every rival class; return the bounds and the t of each.

    The search finds a witness t for the closest rival and evaluates it for all others. If another rival then has the
    largest bound, its witness is searched too, until the rival with the largest bound has a witness found for it. The
    remaining rivals have smaller bounds even at a t that was not optimised for them.
    """
    n_rows, n_classes = offsets.shape
    rows = np.arange(n_rows)
    offset_margins = mean_offset_lower(offsets[rows, winner][:, None] - offsets, noise)
    bounds, witness = np.zeros(offsets.shape), np.full(offsets.shape, np.nan)
    bounds[rows, winner] = -np.inf
    searched = np.zeros(offsets.shape, dtype=bool)
    rival = _most_dangerous((histogram.scores + offsets).astype(np.float64), winner)
    while len(rows):
        part = histogram.rows(rows)
        t = find_witness(part, winner[rows], rival, offset_margins[rows, rival], noise)
        found = log_failures_upper(part, winner[rows], offset_margins[rows], t, noise)
        better = (found < bounds[rows]) | (np.isnan(witness[rows]) & (np.arange(n_classes) != winner[rows, None]))
        bounds[rows] = np.where(better, found, bounds[rows])
        witness[rows] = np.where(better, t[:, None], witness[rows])
        searched[rows, rival] = True
        rival = np.argmax(bounds[rows], axis=1)
        unsearched = ~searched[rows, rival] & (bounds[rows, rival] > -np.inf)
        rows, rival = rows[unsearched], rival[unsearched]
    return bounds, witness


def _most_dangerous(danger: Floats, winner: Integers) -> Integers:
    """Return the class with the largest danger other than the winner, even if no rival class is dangerous."""
    is_winner = np.arange(danger.shape[1]) == winner[:, None]
    bounded = np.maximum(danger, np.finfo(np.float64).min)
    return np.asarray(np.argmax(np.where(is_winner, -np.inf, bounded), axis=1), dtype=np.int64)


def _larger_radius(one: BlockCertificates, two: BlockCertificates) -> BlockCertificates:
    better = two.radius > one.radius

    def pick(a: Values, b: Values) -> NDArray[Any]:
        return np.where(better if a.ndim == 1 else better[:, None], b, a)

    return BlockCertificates(**{name: pick(value, getattr(two, name)) for name, value in vars(one).items()})
