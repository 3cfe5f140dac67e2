"""Ballots: votes of labels with weights, and of several labels per row.

A label-linear learner gives each training row j a vote k_j on a test row. With ballots, label i belongs to row r(i),
and its vote is ``rint(w_i k_r(i))`` with a weight w_i from 0 to 1: rows are items, labels are annotations, and the
geometry is that of the items. The grid becomes finer where votes are small integers, so that fractions of
them are votes, too.

Soundness: r and w never read a label, so the result is label-linear in the labels i, on the grid of M9, and everything
that holds for votes holds for these: changing label i alone moves ``rint(w_i k_r(i))``. A vote is computed from one
product and its rounding, element by element, so it is bit-identical in any block. Limits (M14) are applied to the
result, or with a reference, whose votes they are made of, before: they never read a label either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array

from flipproof.core.rounding import Floats, Integers, exponent_above, scale
from flipproof.core.votes import DenseVotes, ProductVotes, SparseVotes, VoteSource


@dataclass(frozen=True)
class Ballots:
    """The row of each label, and its weight.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    row : integers of shape (n,) or None
        The row of each label; None: label i is that of row i.
    weight : floats of shape (n,) or None
        Weights from 0 to 1; None: all are 1.
    """

    n_rows: int
    row: Integers | None = None
    weight: Floats | None = None

    def __len__(self) -> int:
        return self.n_rows if self.row is None else len(self.row)

    def most_votes(self, most_rows: int) -> int:
        """Return the largest number of labels of `most_rows` rows."""
        if self.row is None:
            return most_rows
        each = np.sort(np.bincount(self.row, minlength=self.n_rows))[::-1]
        return int(each[:most_rows].sum())


def relative(weights: Floats) -> Floats | None:
    """Return weights divided by the largest; None if all are equal, as no weights are then needed."""
    largest = weights.max(initial=0.0)
    if largest == 0 or np.all(weights == largest):
        return None
    return np.asarray(weights / largest)


def cast(source: VoteSource, ballots: Ballots, precision: int) -> VoteSource:
    """Return the votes of all labels, given the votes of the rows."""
    if isinstance(source, ProductVotes):
        return replace(source, members=ballots.row, weights=ballots.weight)
    if isinstance(source, SparseVotes):
        return _cast_sparse(source, ballots, precision)
    assert isinstance(source, DenseVotes)
    votes = source.votes if ballots.row is None else source.votes[:, ballots.row]
    if ballots.weight is None:
        return replace(source, votes=votes)
    finer = _finer(np.abs(source.votes).max(axis=1, initial=0.0), precision)
    weighted = np.rint(scale(votes * ballots.weight, finer[:, None]))
    offsets = None if source.offsets is None else scale(source.offsets, finer[:, None])
    return replace(source, votes=weighted, exponent=source.exponent + finer, offsets=offsets, limit=None)


def _cast_sparse(source: SparseVotes, ballots: Ballots, precision: int) -> SparseVotes:
    n, most = len(ballots), ballots.most_votes(source.most_per_row)
    row = np.arange(n) if ballots.row is None else ballots.row
    weight = np.ones(n) if ballots.weight is None else ballots.weight
    belongs = csr_array((weight, (row, np.arange(n))), shape=(ballots.n_rows, n))
    votes = csr_array(source.votes @ belongs)  # each label has one row: each number is one product
    votes.sort_indices()
    if ballots.weight is None:
        return replace(source, votes=votes, most_per_row=most)
    largest = np.zeros(len(source.exponent))
    np.maximum.at(largest, np.repeat(np.arange(len(largest)), np.diff(source.votes.indptr)), np.abs(source.votes.data))
    finer = _finer(largest, precision)
    votes.data = np.rint(scale(votes.data, np.repeat(finer, np.diff(votes.indptr))))
    offsets, exponent = (
        None if source.offsets is None else scale(source.offsets, finer[:, None]),
        source.exponent + finer,
    )
    return replace(source, votes=votes, most_per_row=most, exponent=exponent, offsets=offsets, limit=None)


def _finer(largest: Floats, precision: int) -> Integers:
    """Return by which power of two the grid of each test row becomes finer: its largest vote then uses all bits."""
    return np.where(largest > 0, np.maximum(precision - exponent_above(largest), 0), 0)
