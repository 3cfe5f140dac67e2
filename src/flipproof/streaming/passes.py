"""One pass over the training rows: what a visit to a block finds, and how findings add up.

The sum of the findings of all blocks, ``+``, is the finding for all rows. Only integers, maxima and sets are combined,
so the sum does not depend on how the rows are split into blocks, nor on the order of the visits.

Checksums detect rows that have changed since the last pass. They guard against accidents, for example a file that is
written while it is read; they are not signatures.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from flipproof.core.contents import row_hashes, rows_found
from flipproof.core.linalg import ColumnRanges, Whitening
from flipproof.core.rounding import Floats, Integers, Values
from flipproof.core.votes import class_sums, tiles
from flipproof.learners.certified import TrustedPart
from flipproof.runtime.determinism import single_threaded
from flipproof.runtime.progress import ProgressLine
from flipproof.streaming.blocks import Block, Part
from flipproof.streaming.row_blocks import RowBlocks
from flipproof.values import are_whole, as_names, distinct, encode_labels, joined, kind_of, label_values, union

#: Numbers that are processed together: 512 KiB, which fits into a cache.
NUMBERS_AT_A_TIME = 2**16


def scattered(first: int, count: int) -> NDArray[np.uint64]:
    """Return a 64-bit hash (splitmix64) of each of the `count` integers from `first`."""
    bits = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    bits *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))


def features_checksum(X: Floats, first_row: int) -> int:
    """Return the checksum of the features of some rows; `first_row` is the number of the first one."""
    n_rows, n_columns = X.shape
    of_row, of_column = scattered(first_row, n_rows), scattered(0, n_columns)
    total = 0
    for start, stop in tiles(n_rows, max(1, NUMBERS_AT_A_TIME // max(n_columns, 1))):
        bits = _bits(X[start:stop])
        rows = np.einsum("ij,j->i", _folded(bits), of_column[: bits.shape[1]])
        rows += np.uint64(n_columns + 1)  # so that rows and columns of zeros count, too
        total += int((_folded(rows) * of_row[start:stop]).sum())
    return total % 2**64


def _bits(X: Floats) -> NDArray[np.uint64]:
    """Return the bits of each row, 64 at a time: pairs of 32-bit numbers if their number is even."""
    rows = np.ascontiguousarray(X)
    return rows.view(np.uint64) if rows.shape[1] * rows.itemsize % 8 == 0 else rows.view(np.uint32).astype(np.uint64)


def _folded(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Mix the high bits into the low ones: a product keeps only one bit of the highest, the sign."""
    return bits ^ (bits >> np.uint64(32))


@dataclass(frozen=True)
class SurveyedRows:
    """Number and range of the columns, and the labels that occur; `name` is the first block.

    `n_in_reference` is the number of rows with the features of a row of the reference.
    """

    name: str
    ranges: ColumnRanges
    labels: NDArray[Any]
    n_in_reference: int = 0

    def __add__(self, other: SurveyedRows) -> SurveyedRows:
        mine, others = len(self.ranges.low), len(other.ranges.low)
        if mine != others:
            raise ValueError(f"{other.name} has {others} columns, but {self.name} has {mine}.")
        kinds = kind_of(self.labels), kind_of(other.labels)
        if kinds[0] != kinds[1]:
            raise ValueError(f"The labels of {other.name} are {kinds[1]}, but those of {self.name} are {kinds[0]}.")
        n_in_reference = self.n_in_reference + other.n_in_reference
        return SurveyedRows(self.name, self.ranges + other.ranges, union(self.labels, other.labels), n_in_reference)


def survey(block: Block, reference_hashes: NDArray[np.uint64] | None = None) -> SurveyedRows:
    """Survey the rows of a block in the first pass, and refuse invalid ones; rows of the reference are counted."""
    X = block.X
    if X.shape[1] == 0:
        raise ValueError(f"{block.name} has no columns of features.")
    with np.errstate(over="ignore", invalid="ignore"):
        total = X.sum(dtype=np.float64)  # faster than checking each number, which is needed only if this is not finite
    if not np.isfinite(total) and not np.isfinite(X).all():
        row, column = np.argwhere(~np.isfinite(X))[0]
        what = "NaN" if np.isnan(X[row, column]) else "infinity"
        raise ValueError(
            f"{block.name} has {what} in its row {row}, column {column}: omit these rows, or fill in a number."
        )
    if block.groups is not None:
        as_names(block.groups, f"The annotators of {block.name}")
    n_in_reference = 0 if reference_hashes is None else len(rows_found(row_hashes(X), reference_hashes))
    return SurveyedRows(block.name, ColumnRanges.of(X), _labels_of(block), n_in_reference)


def features_of(block: Block) -> Floats:
    """Return a block's features as 32-bit or 64-bit floats."""
    X = np.asarray(block.X)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(f"{block.name} must have rows and columns of numbers. Got {X.dtype} of shape {X.shape}.")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def _labels_of(block: Block) -> NDArray[Any]:
    """Return the labels that occur in a block."""
    labels = label_values(block.labels, f"The labels of {block.name}")
    if labels.dtype.kind == "S":
        raise ValueError(f"The labels of {block.name} must be numbers, strings or booleans. Got bytes: decode them.")
    is_whole = are_whole(labels)
    if not is_whole.all():
        strange = labels[~is_whole][0]
        raise ValueError(
            f"The labels of {block.name} must be classes: words or whole numbers. Got {strange} among them."
        )
    return distinct(labels)[0]


def codes_of(block: Block, classes: Values) -> Integers:
    """Return a block's labels as positions in the classes."""
    try:
        return encode_labels(block.labels, classes)[1]
    except ValueError as error:
        raise ValueError(f"{block.name}: {error}") from error


@dataclass(frozen=True)
class LabelledSums:
    """The sums that fitting needs once the coordinates of rows are known, and counts of labels.

    Attributes
    ----------
    leverage : float
        The largest leverage of a row.
    class_sums : floats of shape (columns, classes)
        Sums of the basis over each class: exact integers.
    census : Census
        Labels by class, trust and annotator.
    """

    leverage: float
    class_sums: Floats
    census: Census

    def __add__(self, other: LabelledSums) -> LabelledSums:
        return LabelledSums(
            max(self.leverage, other.leverage),
            self.class_sums + other.class_sums,
            self.census + other.census,
        )

    def without(self, old: LabelledSums, new: LabelledSums | None) -> LabelledSums:
        """Return the sums after those of some rows have changed from old to new, or to none.

        The leverage is that of all rows until now: a bound. Sums are integers, so that no bit depends on rows that
        left.
        """
        sums, counted = self.class_sums - old.class_sums, self.census.minus(old.census)
        if new is None:
            return LabelledSums(self.leverage, sums, counted)
        return LabelledSums(self.leverage, sums + new.class_sums, counted + new.census)

    def is_of_the_rows_of(self, other: LabelledSums) -> bool:
        """Tell whether this was found in the same rows: for other rows, sums or marks would differ."""
        return np.array_equal(self.class_sums, other.class_sums) and self.census.equals(other.census)


@dataclass(frozen=True)
class Census:
    """Labels counted by class: all labels, the trusted ones, and those of each annotator that are not trusted.

    `names` are the annotators with labels that are not trusted, in ascending order, one for each line of `of_group`; or
    None. `marks` is a checksum over the label, the trust and the annotator of each row, by its number.
    """

    counts: Integers
    trusted: Integers | None
    names: NDArray[Any] | None
    of_group: Integers | None
    marks: int

    def __add__(self, other: Census) -> Census:
        marks = (self.marks + other.marks) % 2**64
        trusted = _sum_of_counts(self.trusted, other.trusted)
        if self.names is None or other.names is None or self.of_group is None or other.of_group is None:
            return Census(self.counts + other.counts, trusted, None, None, marks)
        kinds = [kind_of(names) for names in (self.names, other.names)]
        if kinds[0] != kinds[1]:
            raise ValueError(
                f"Annotators must be all numbers or all words. Got {kinds[0]} in some blocks, {kinds[1]} in others."
            )
        names, position = distinct(joined([self.names, other.names]))
        of_group = np.zeros((len(names), len(self.counts)), dtype=np.int64)
        np.add.at(of_group, position, np.concatenate([self.of_group, other.of_group]))
        return Census(self.counts + other.counts, trusted, names, of_group, marks)

    def minus(self, other: Census) -> Census:
        """Return the census without rows that were counted in it."""
        less = Census(
            -other.counts,
            None if other.trusted is None else -other.trusted,
            other.names,
            None if other.of_group is None else -other.of_group,
            -other.marks,
        )
        found = self + less
        if found.names is None or found.of_group is None:
            return found
        has_some = found.of_group.any(axis=1)
        return replace(found, names=found.names[has_some], of_group=found.of_group[has_some])

    def equals(self, other: Census) -> bool:
        """Tell whether all counts are the same; no trusted rows are the same as none that could be trusted."""
        mine, others = ({**vars(one), "trusted": _sum_of_counts(one.trusted, 0 * one.counts)} for one in (self, other))
        return all(
            np.array_equal(mine[name], others[name])
            if mine[name] is not None and others[name] is not None
            else mine[name] is others[name]
            for name in mine
        )


def _sum_of_counts(one: Integers | None, other: Integers | None) -> Integers | None:
    """Return the sum of counts; None if nothing was counted on either side."""
    return other if one is None else one if other is None else one + other


def labelled_sums(block: Block, whitening: Whitening, classes: Values) -> LabelledSums:
    """Sum the basis of a block by class."""
    return basis_and_sums(block, codes_of(block, classes), whitening, classes)[1]


def basis_and_sums(
    block: Block, codes: Integers, whitening: Whitening, classes: Values
) -> tuple[NDArray[np.float32], LabelledSums]:
    """Return the basis of a block, and its sums by class."""
    counted = census(block, classes, codes)
    if isinstance(block, KeptBlock):
        return block.X, LabelledSums(block.leverage, block.class_sums, counted)
    basis = whitening.basis(block.X)
    leverage = whitening.leverage(basis)
    if not np.isfinite(leverage):
        raise ValueError(f"{block.name} has NaN or infinity, which it did not have in the first pass.")
    return basis, LabelledSums(leverage, class_sums(basis, codes, len(classes)), counted)


def census(block: Block, classes: Values, codes: Integers | None = None) -> Census:
    """Count the labels of a block."""
    n_classes = len(classes)
    codes = codes_of(block, classes) if codes is None else codes
    counts, trusted = np.bincount(codes, minlength=n_classes), None
    can_change = np.ones(len(codes), dtype=bool)
    said = 2 * codes.astype(np.uint64) + np.uint64(1)  # of each row: its label, its trust, its annotator
    if block.trusted is not None:
        can_change = ~block.trusted
        trusted = np.bincount(codes[block.trusted], minlength=n_classes)
        said += block.trusted.astype(np.uint64) << np.uint64(32)
    names, of_group = None, None
    if block.groups is not None:
        names, group = distinct(as_names(block.groups, f"The annotators of {block.name}"))
        hashes = np.array([zlib.crc32(repr(name).encode()) for name in names.tolist()], dtype=np.uint64)
        said += hashes[group] << np.uint64(33)
        cells = np.bincount((group * n_classes + codes)[can_change], minlength=len(names) * n_classes)
        of_group = cells.reshape(len(names), n_classes)
        has_some = of_group.any(axis=1)
        names, of_group = names[has_some], of_group[has_some]
    marks = int((said * scattered(block.first_row, len(block))).sum(dtype=np.uint64))
    return Census(counts, trusted, names, of_group, marks)


@dataclass(frozen=True)
class Seen:
    """The rows of a part at one visit: their number, and the checksum of their features."""

    n_rows: int
    checksum: int


@dataclass(frozen=True)
class Visited:
    """The findings of some parts, None if they have no rows, and the `Seen` of each part."""

    found: Any
    seen: tuple[Seen, ...]

    def __add__(self, other: Visited) -> Visited:
        found = self.found if other.found is None else other.found if self.found is None else self.found + other.found
        return Visited(found, self.seen + other.seen)


@dataclass(frozen=True)
class Visit:
    """Visit the rows of a part, and add up the findings of its blocks.

    Attributes
    ----------
    summary : callable
        Returns the finding of a block of rows.
    mapping : callable, optional
        Maps rows of features to `width` other features before `summary` sees them.
    """

    summary: Any
    mapping: Any = None

    def __call__(self, part: Part) -> Visited:
        """Return the sum over the blocks of a part."""
        found, n_rows, total = None, 0, 0
        for block, checksum in _pieces(part, self.mapping):
            one = self.summary(block)
            found = one if found is None else found + one
            n_rows, total = n_rows + len(block), total + checksum
        return Visited(found, (Seen(n_rows, total % 2**64),))


def _pieces(part: Part, mapping: Any) -> Iterator[tuple[Block, int]]:
    """Yield the rows of a part with mapped features, and the checksum of the features before the mapping."""
    n_rows = 0
    for block in part.blocks():
        if isinstance(block, KeptBlock):  # kept rows are already mapped
            yield block, block.checksum
        elif len(block):
            block = replace(block, X=features_of(block))
            for rows in (slice(None),) if mapping is None else mapping.pieces(len(block)):
                piece = block.rows(rows)
                checksum = features_checksum(piece.X, n_rows)
                n_rows += len(piece)
                yield piece if mapping is None else replace(piece, X=mapping(piece.X)), checksum


@dataclass(frozen=True)
class VisitEach:
    """Visit the rows of a part, and yield the finding of each of its blocks."""

    summary: Any
    mapping: Any = None

    def __call__(self, part: Part) -> Iterator[Any]:
        """Yield the findings, block after block."""
        for block, _ in _pieces(part, self.mapping):
            yield self.summary(block)


@dataclass(frozen=True)
class Keep:
    """Visit the rows of a part, and return a part of the same rows that contains their basis."""

    whitening: Whitening
    classes: NDArray[Any]
    mapping: Any = None

    def __call__(self, part: Part) -> KeptPart:
        """Return the rows, block after block, with the basis as their features."""
        return KeptPart(part.name, tuple(self._with_basis(*piece) for piece in _pieces(part, self.mapping)))

    def _with_basis(self, block: Block, checksum: int) -> KeptBlock:
        basis, sums = basis_and_sums(block, codes_of(block, self.classes), self.whitening, self.classes)
        # copies: labels that are mapped from a file would change or be lost with it
        trusted, groups = (None if one is None else np.array(one) for one in (block.trusted, block.groups))
        labels = np.array(block.labels)
        kept = block.name, basis, labels, trusted, groups, block.first_row
        return KeptBlock(*kept, checksum, sums.leverage, sums.class_sums)


@dataclass(frozen=True)
class KeptBlock(Block):
    """A block whose features are its basis, with the checksum of the original features, its leverage and its sums."""

    checksum: int = 0
    leverage: float = 0.0
    class_sums: Floats = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(frozen=True)
class KeptPart:
    """Rows in the memory of the process that visits them."""

    name: str
    kept: tuple[KeptBlock, ...]

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, block after block."""
        yield from self.kept


@dataclass(frozen=True)
class GatherTrusted:
    """Visit the rows of a part, and return the trusted ones of each block, as they were given."""

    classes: NDArray[Any]

    def __call__(self, part: Part) -> Visited:
        """Return a list of trusted rows and labels."""
        found, n_rows, total = [], 0, 0
        for block in part.blocks():
            if len(block):
                total += features_checksum(features_of(block), n_rows)
                n_rows += len(block)
                found += self._among(block)
        return Visited(found, (Seen(n_rows, total % 2**64),))

    def _among(self, block: Block) -> list[TrustedPart]:
        if block.trusted is None or not block.trusted.any():
            return []
        which = np.flatnonzero(block.trusted)
        labels = self.classes[codes_of(block, self.classes)[which]]
        return [TrustedPart(np.asarray(block.X)[which], labels, block.first_row + which)]


class FirstRow:
    """Visit a part, and return its first row, as it was given; None if it has no rows."""

    def __call__(self, part: Part) -> NDArray[Any] | None:
        """Return the row, shape (1, columns)."""
        return next((np.array(block.X[:1]) for block in part.blocks() if len(block)), None)


@dataclass(frozen=True)
class OfFeatures:
    """A summary of a block that reads only its features."""

    summary: Any

    def __call__(self, block: Block) -> Any:
        """Return the summary of the block's features."""
        return self.summary(block.X)


@dataclass(frozen=True)
class InThisProcess:
    """Visits parts one after the other, or several at a time in threads."""

    n_jobs: int | None = None
    verbose: int = 0

    def total(self, visit: Callable[[Part], Any], rows: RowBlocks, says: str) -> Any:
        """Return the sum of the findings of all parts; None if there are no rows."""
        line, total = ProgressLine(len(rows.parts), self.verbose, says), None
        findings = self._findings(visit, rows.parts)
        try:
            for done, found in enumerate(findings, start=1):
                if found is not None:
                    total = found if total is None else total + found
                line.show(done, "parts", is_last=done == len(rows.parts))
        finally:
            with warnings.catch_warnings():  # joblib warns about unused findings after an error
                warnings.simplefilter("ignore", UserWarning)
                findings.close()
            line.close()
        return total

    def each(self, visit: Callable[[Part], Iterator[Any]], rows: RowBlocks, says: str) -> Iterator[Any]:
        """Yield the findings of all blocks, in order; only one is held at a time."""
        line = ProgressLine(len(rows.parts), self.verbose, says)
        try:
            for done, part in enumerate(rows.parts, start=1):
                yield from visit(part)
                line.show(done, "parts", is_last=done == len(rows.parts))
        finally:
            line.close()

    def kept(self, visit: Callable[[Part], Part], rows: RowBlocks, n_bytes: int, says: str) -> RowBlocks | None:
        """Return None: rows are not kept in memory here."""
        return None

    def keeps(self, rows: RowBlocks) -> bool:
        """Return False: nothing is kept here."""
        return False

    def _findings(self, visit: Callable[[Part], Any], parts: tuple[Part, ...]) -> Generator[Any, None, None]:
        if effective_n_jobs(self.n_jobs) == 1:
            yield from map(visit, parts)
            return
        with single_threaded("blas"):
            work = Parallel(n_jobs=self.n_jobs, require="sharedmem", return_as="generator")
            yield from work(delayed(visit)(part) for part in parts)
