"""Upper bounds on what label changes can gain, without visiting the training rows: for radii up to a limit (M6, M9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import UNIT_ROUNDOFF, Floats, Integers, above
from flipproof.core.votes import EstimatedScores, ProductVotes, tiles

#: Training rows whose basis is converted to float64 at a time.
ROWS_AT_A_TIME = 2**13

#: The sums of squares are kept for each class if there are at least this many training rows per number in a line of
#: them: computing them for a test row then costs little beside its votes.
ROWS_PER_NUMBER = 8


@dataclass(frozen=True)
class GainBounds:
    """What is known about the training rows before a test row is: how much their votes can be changed for.

    A vote is the integer next to the product p_j = w'b_j of a test row's coefficients w and the basis row b_j. With
    positive numbers s_l, one for each column, ``|p_j| <= |w s| |b_j / s|`` (Cauchy and Schwarz).

    Attributes
    ----------
    scale : floats of shape (columns,)
        The numbers s; any positive numbers give bounds, the length of each column good ones.
    lengths : tuple of float arrays, one for each class
        Upper bounds on ``|b_j / s|`` of the rows labelled with the class, in descending order.
    squares : floats of shape (classes, columns, columns), or (1, columns, columns)
        The sums of ``(b_j / s)(b_j / s)'`` over each class, or over all rows.
    n_rows : int
        Number of training rows.
    """

    scale: Floats
    lengths: tuple[Floats, ...]
    squares: Floats
    n_rows: int

    @classmethod
    def of(cls, basis: NDArray[np.float32], codes: Integers, n_classes: int) -> GainBounds:
        """Visit training rows in memory, labelled `codes`, once."""
        n_rows, width = basis.shape
        each = n_classes if n_classes * width * ROWS_PER_NUMBER <= n_rows else 1
        total = np.zeros(width)
        for start, stop in tiles(n_rows, ROWS_AT_A_TIME):
            total += np.einsum("ij,ij->j", basis[start:stop], basis[start:stop], dtype=np.float64)
        scale = np.where(total > 0, np.sqrt(total), 1.0)
        squares, lengths = np.zeros((each, width, width)), np.empty(n_rows)
        for start, stop in tiles(n_rows, ROWS_AT_A_TIME):
            scaled = basis[start:stop] / scale
            lengths[start:stop] = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
            for code in range(each):
                some = scaled if each == 1 else scaled[codes[start:stop] == code]
                squares[code] += some.T @ some
        lengths = above(lengths, _relative_error(width))
        by_class = tuple(np.sort(lengths[codes == code])[::-1] for code in range(n_classes))
        return cls(scale, by_class, squares, n_rows)

    def gains_upper(self, coefficients: Floats, winner: Integers, flips: int) -> Floats:
        """Bound the gain of any `flips` label changes against each rival, in grid units, shape (rows, classes).

        Soundness: changing label j lowers the margin of the winner c over d by at most f_j |k_j|, with f_j = 2 if the
        label is c or d and 1 otherwise (M6); it is 2 if there are two classes. Limits of the adversary only lower gains
        (M10). The vote k_j is within 1/2 of p_j, so any `flips` changes gain at most `flips` more than the sum of their
        f_j |p_j|. That sum is at most

        - ``|w s|`` times the sum of the `flips` largest f_j |b_j / s|, by ``lengths``; and
        - the square root of `flips` times the sum of all f_j^2 p_j^2, which is the quadratic form of w in
          ``squares``: 4 for c and d, 1 for all others.

        Both are rounded up. An entry of the sums of squares has an error of at most n u times the lengths of its two
        columns, u = 2^-53, as those lengths bound the sum of absolute products; the form adds 2 k roundings.
        """
        scaled = coefficients * self.scale
        n_classes, width = len(self.lengths), len(self.scale)
        length = above(np.sqrt(np.einsum("ij,ij->i", scaled, scaled)), _relative_error(width))
        by_length = length[:, None] * self._largest_lengths(flips)[winner]
        sizes = np.sqrt(np.einsum("cll->cl", self.squares))
        forms = np.stack([np.einsum("ij,ij->i", scaled @ one, scaled) for one in self.squares], axis=1)
        error = 2 * (self.n_rows + 4 * width + 16) * UNIT_ROUNDOFF
        forms = np.maximum(forms, 0.0) + error * (np.abs(scaled) @ sizes.T) ** 2
        total = forms.sum(axis=1, keepdims=True)
        if len(self.squares) == n_classes and n_classes > 2:
            total = total + 3 * (forms + forms[np.arange(len(winner)), winner][:, None])
        else:
            total = np.broadcast_to(4 * total, (len(winner), n_classes))
        by_square = np.sqrt(flips * total)
        relative = 4 * (flips + n_classes + 16) * UNIT_ROUNDOFF
        return above(np.minimum(by_length, by_square), relative) + flips

    def _largest_lengths(self, flips: int) -> Floats:
        """Bound the sum of the `flips` largest f_j |b_j / s| for each pair of winner and rival."""
        n_classes = len(self.lengths)
        own = [2 * lengths[:flips] for lengths in self.lengths]
        # with more classes the rows of the pair are among `others` too, which can only make the sum larger
        others = np.concatenate(own) / 2 if n_classes > 2 else np.zeros(0)
        others = np.sort(others)[::-1][:flips]
        sums = np.zeros((n_classes, n_classes))
        for one in range(n_classes):
            for other in range(one + 1, n_classes):
                pool = np.sort(np.concatenate([own[one], own[other], others]))[::-1]
                sums[one, other] = sums[other, one] = pool[:flips].sum()
        return sums


def _relative_error(width: int) -> float:
    """Bound the relative error of the length of a scaled row, and of a product of two lengths."""
    return 4 * (width + 16) * UNIT_ROUNDOFF


def withstands(
    estimated: EstimatedScores, source: ProductVotes, bounds: GainBounds, flips: int
) -> tuple[Integers, NDArray[np.bool_]]:
    """Return each row's class by the estimate, and whether no `flips` label changes can provably change it.

    Soundness: the lead over a rival is at least the estimated lead minus both errors. If the gain of any `flips`
    changes is less than that, no rival can draw level (M6), so ties do not matter. The 1 covers the rounding of the
    differences here: all numbers are below 2**50.
    """
    winner, is_decided = estimated.decided()
    rows = np.arange(len(winner))
    with np.errstate(invalid="ignore"):  # an infinite offset decides nothing
        lead = estimated.scores[rows, winner][:, None] - estimated.scores
    lead = lead - (estimated.error + estimated.error[rows, winner][:, None])
    is_safe = lead > bounds.gains_upper(source.coefficients, winner, flips) + 1
    is_safe[rows, winner] = True
    return winner, is_decided & is_safe.all(axis=1)
