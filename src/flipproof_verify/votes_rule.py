"""Exact certificates for sums of integer votes: integers only, gains by selection of the largest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flipproof_verify.claimed import Claims, read_exponents, read_offsets
from flipproof_verify.container import ProofFile, UnreadableFileError
from flipproof_verify.verdicts import Findings

#: The largest vote.
LARGEST_VOTE = 2**24 - 1

#: Sums of absolute products below this are exact in float64, in any order.
EXACT_BOUND = 2.0**53

#: Coefficients are smaller: no product, nor a sum of products, is beyond the range of float64.
LARGEST_COEFFICIENT = 2.0**900

#: More than the exponent of any float.
NO_EXPONENT = 10**6

#: More than any lead.
ANY_LEAD = 2**62

#: Assumptions that say how many labels or rows cannot be changed because they are trusted.
FIXED = ("trusted-labels", "trusted-rows", "trusted-at-fit")

#: Votes that are held at a time.
VOTES_AT_A_TIME = 2**22

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Training:
    """The training labels, and what the adversary can do to them."""

    label: Integers
    changeable: NDArray[np.bool_]
    group: Integers | None
    transitions: NDArray[np.bool_]
    changes: str
    window_end: Integers | None = None

    @classmethod
    def of(cls, file: ProofFile) -> Training:
        """Read and check the tensors about training rows."""
        n, n_classes = file.document["n_rows"], len(file.document["classes"])
        group = file.codes("train.group", (n,), max(n, 1)) if "train.group" in file.tensors else None
        transitions = file.flags("transitions", (n_classes, n_classes))
        if transitions.diagonal().any():
            raise UnreadableFileError("transitions", "A label cannot be changed to its own class.")
        window_end = None
        if "window.end" in file.tensors:
            stamps = file.tensor("window.end", "i", (None,))
            window_end = file.codes("window.end", (None,), len(stamps) + 1)
            later = (window_end > np.arange(len(stamps))).all() and (np.diff(window_end) >= 0).all()
            if group is None or not later or (len(group) and int(group.max()) >= len(stamps)):
                raise UnreadableFileError("windows", "Windows must end after they begin, and later ones not before.")
        return cls(
            label=file.codes("train.label", (n,), n_classes),
            changeable=file.flags("train.changeable", (n,)),
            group=group,
            transitions=transitions,
            changes=file.document["changes"],
            window_end=window_end,
        )

    @property
    def can_add(self) -> bool:
        """Whether the number of changes is not limited by the number of rows."""
        return self.changes in ("rows", "insertions") and self.group is None

    @property
    def by_sources(self) -> bool:
        """Whether sources may replace their rows."""
        return self.changes == "rows" and self.group is not None

    @property
    def n_touchable(self) -> int:
        """How many labels, annotators, rows or sources can be changed or removed."""
        if self.changes == "insertions":
            return 0
        free = self.changeable
        if self.window_end is not None:
            return self._windows_for_all()
        return int(free.sum()) if self.group is None else len(np.unique(self.group[free]))

    def _windows_for_all(self) -> int:
        """Return how many windows cover all labels that can be changed: each begins at the first that is left."""
        assert self.group is not None
        assert self.window_end is not None
        n_windows, covered = 0, 0
        for stamp in np.unique(self.group[self.changeable]):
            if stamp >= covered:
                n_windows, covered = n_windows + 1, int(self.window_end[stamp])
        return n_windows

    def most_in_groups(self, n_groups: int) -> int:
        """Return how many changeable rows any `n_groups` groups have at most; without groups, each row is one."""
        if self.group is None:
            return n_groups
        sizes = np.sort(np.bincount(self.group[self.changeable]))[::-1]
        return int(sizes[:n_groups].sum())


def refuse_fixed_votes(file: ProofFile, training: Training, votes: NDArray[np.bool_] | None = None) -> None:
    """Refuse fixed labels or rows that no assumption states; rows without a label are fixed, but must not vote.

    `votes` says which rows vote. Default: all of them.
    """
    can_leave = np.asarray(training.transitions.any(axis=1))
    fixed = ~training.changeable & can_leave[training.label]
    n_fixed = int((fixed if votes is None else fixed & votes).sum())
    listed = file.document["assumptions"]
    n_stated = sum(one["values"]["n_trusted"] for one in listed if one["code"] in FIXED)
    if n_fixed > n_stated:
        raise UnreadableFileError("fixed", f"{n_fixed} labels or rows are fixed, but {n_stated} are said to be.")


def n_voters(file: ProofFile) -> int:
    """Return how many rows vote: all training rows, or the items whose annotations they are."""
    return int(file.document["n_items" if file.document["rule"] == "majority" else "n_rows"])


def read_limits(file: ProofFile) -> Integers:
    """Return the largest possible vote for each test row."""
    return file.integers("test.limit", (file.document["n_test"],), 0, LARGEST_VOTE, "limit")


def vote_blocks(file: ProofFile, wanted: Integers) -> Iterator[tuple[Integers, Floats]]:
    """Yield runs of the wanted test rows with the votes on them, integers in float64."""
    n = n_voters(file)
    limit = read_limits(file) if "test.limit" in file.tensors else None
    at_a_time = max(1, VOTES_AT_A_TIME // max(n, 1))
    read = {"product": _Product, "dense": _Dense, "sparse": _Sparse}.get(str(file.document.get("votes")))
    if read is None:
        raise UnreadableFileError("votes", "The votes must be 'product', 'dense' or 'sparse'.")
    source = read(file)
    for start in range(0, len(wanted), at_a_time):
        rows = wanted[start : start + at_a_time]
        votes = source.on(rows)
        largest = np.full(len(rows), LARGEST_VOTE) if limit is None else limit[rows]
        if read is _Product and limit is not None:
            np.clip(votes, -largest[:, None], largest[:, None], out=votes)
        sizes = np.abs(votes).max(axis=1, initial=0.0)
        if (sizes > largest).any():
            raise UnreadableFileError("limit", "A vote exceeds the largest possible one.")
        if limit is not None:
            sizes = sizes + largest  # sources replace votes by ones of that size
        if (2 * n * sizes >= EXACT_BOUND).any():
            raise UnreadableFileError("sums", "Sums of votes are not exact in float64.")
        yield rows, votes


def class_sums(votes: Floats, label: Integers, n_classes: int) -> Integers:
    """Return the sum of the votes for each class, some training rows at a time; labels from n_classes on are left out.

    All sums are exact: see `vote_blocks`.
    """
    sums = np.zeros((len(votes), n_classes))
    for part in row_tiles(len(label), n_classes):
        sums += votes[:, part] @ (label[part, None] == np.arange(n_classes)).astype(np.float64)
    return sums.astype(np.int64)


def row_tiles(n: int, width: int) -> Iterator[slice]:
    """Yield runs of training rows, so few that a table of this width fits into a block."""
    size = max(1, VOTES_AT_A_TIME // max(width, 1))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _check_exact(coefficients: Floats, sizes: Floats) -> None:
    """Refuse coefficients for which a product with the basis might round: see the specification."""
    if not (np.abs(coefficients) < LARGEST_COEFFICIENT).all():
        raise UnreadableFileError("coefficients", "A coefficient is not a number, or is 2**900 or more.")
    mantissa, exponent = np.frexp(coefficients)
    integers = np.ldexp(np.abs(mantissa), 53).astype(np.int64)
    lowest = np.bitwise_and(integers, -integers)  # the lowest bit that is set
    lowest_exponent = exponent - 53 + np.frexp(lowest.astype(np.float64))[1] - 1
    unit = np.where(coefficients != 0, lowest_exponent, NO_EXPONENT).min(axis=1, initial=NO_EXPONENT)
    with np.errstate(over="ignore"):
        in_units = np.ldexp(np.abs(coefficients), -np.where(unit < NO_EXPONENT, unit, 0)[:, None].astype(np.int32))
        sums = in_units @ sizes
    if not (sums < EXACT_BOUND).all():  # rounding is monotone: a sum that reaches the bound is not computed below it
        raise UnreadableFileError("coefficients", "The products of the votes are not exact in float64.")


class _InBlocks:
    """Votes in blocks of test rows."""

    def __init__(self, file: ProofFile):
        self._file, self._n = file, n_voters(file)
        self._ends = np.array(file.document["blocks"], dtype=np.int64)

    def on(self, rows: Integers) -> Floats:
        votes = np.zeros((len(rows), self._n))
        block = np.searchsorted(self._ends, rows, side="right")
        for number in np.unique(block):
            places = np.flatnonzero(block == number)
            begin = 0 if number == 0 else int(self._ends[number - 1])
            self._fill(int(number), int(self._ends[number]) - begin, rows[places] - begin, votes, places)
        return votes

    def _fill(self, number: int, n_rows: int, rows: Integers, votes: Floats, places: Integers) -> None:
        raise NotImplementedError


class _Product(_InBlocks):
    def __init__(self, file: ProofFile):
        super().__init__(file)
        has_rows = "train.row" in file.tensors
        self._basis = file.tensor("votes.basis", "i", (None if has_rows else self._n, None))
        self._row = file.codes("train.row", (self._n,), len(self._basis)) if has_rows else None
        self._weight = None
        if "train.weight" in file.tensors:
            self._weight = np.asarray(file.tensor("train.weight", "f", (self._n,)))
            if not ((self._weight >= 0) & (self._weight <= 1)).all():
                raise UnreadableFileError("tensor-values", "The weights of labels must be from 0 to 1.")
        self._sizes = np.zeros(self._basis.shape[1])
        for part in row_tiles(len(self._basis), len(self._sizes)):
            tile = np.abs(self._basis[part].astype(np.float64))
            self._sizes = np.maximum(self._sizes, tile.max(axis=0, initial=0.0))

    def _fill(self, number: int, n_rows: int, rows: Integers, votes: Floats, places: Integers) -> None:
        stored = self._file.tensor(f"votes.coefficients.{number}", "f", (n_rows, self._basis.shape[1]))
        coefficients = np.asarray(stored[rows])
        _check_exact(coefficients, self._sizes)
        for part in row_tiles(self._n, self._basis.shape[1]):
            lines = self._basis[part] if self._row is None else self._basis[self._row[part]]
            products = coefficients @ lines.astype(np.float64).T
            if self._weight is not None:
                products *= self._weight[part]
            votes[places, part] = np.rint(products)


class _Dense(_InBlocks):
    def _fill(self, number: int, n_rows: int, rows: Integers, votes: Floats, places: Integers) -> None:
        votes[places] = self._file.tensor(f"votes.dense.{number}", "i", (n_rows, self._n))[rows]


class _Sparse(_InBlocks):
    def _fill(self, number: int, n_rows: int, rows: Integers, votes: Floats, places: Integers) -> None:
        starts = self._file.tensor(f"votes.start.{number}", "i", (n_rows + 1,)).astype(np.int64)
        columns = self._file.tensor(f"votes.row.{number}", "i", (None,))
        values = self._file.tensor(f"votes.value.{number}", "i", (len(columns),))
        if starts[0] != 0 or starts[-1] != len(columns) or (starts[1:] < starts[:-1]).any():
            raise UnreadableFileError("sparse", "The starts of sparse votes must ascend from 0 to their number.")
        for row, place in zip(rows, places, strict=True):
            own = slice(starts[row], starts[row + 1])
            at = np.asarray(columns[own], dtype=np.int64)
            if at.size and (at[0] < 0 or at[-1] >= self._n or (at[1:] <= at[:-1]).any()):
                raise UnreadableFileError("sparse", "The training rows of sparse votes must ascend, each once.")
            votes[place, at] = values[own]


def check_exact(file: ProofFile, claims: Claims, found: Findings) -> Iterator[int]:
    """Check exact certificates; yield the number of rows done."""
    training, m, n_classes = Training.of(file), file.document["n_test"], len(file.document["classes"])
    offsets = read_offsets(file, n_classes)
    exponents = read_exponents(file)
    limits = read_limits(file) if training.changes != "labels" else np.zeros(m, dtype=np.int64)
    voting = VotingRows(file)
    for rows, votes in vote_blocks(file, found.rows):
        voting.note(votes)
        scores = class_sums(votes, training.label, n_classes) + offsets[rows]
        leads = claims.check_scores(rows, scores, found, exponents[rows])
        for row, of_row, lead in zip(rows, votes, leads, strict=True):
            winner = int(claims.prediction[row])
            claims.check_exact_row(int(row), _Attack(of_row, winner, lead, training, int(limits[row])), found)
        yield len(rows)
    voting.refuse_fixed(file, training)


class VotingRows:
    """Which training rows vote on some test row; noted only if some rows have no label."""

    def __init__(self, file: ProofFile):
        n, n_labels = file.document["n_rows"], file.document["n_train"]
        self.vote: NDArray[np.bool_] | None = None if n == n_labels else np.zeros(n, dtype=bool)

    def note(self, votes: Floats) -> None:
        """Note the rows that vote on these test rows."""
        if self.vote is not None:
            self.vote |= (votes != 0).any(axis=0)

    def refuse_fixed(self, file: ProofFile, training: Training) -> None:
        """Refuse rows that vote and are fixed, if no assumption says so: rows without a label must not vote."""
        if self.vote is not None:
            refuse_fixed_votes(file, training, self.vote)
            n_missing = file.document["n_rows"] - file.document["n_train"]
            if int((~training.changeable & ~self.vote).sum()) < n_missing:
                raise UnreadableFileError("fixed", "Rows that are said to have no label vote, or can be changed.")


class _Attack:
    """What changes of labels or rows do to the margins of one test row."""

    undecided = ""  # never

    def __init__(self, votes: Floats, winner: int, lead: Integers, training: Training, limit: int):
        self._votes, self._winner, self._lead = votes, winner, lead
        self._training, self._limit = training, limit
        self._by_adding = limit if training.can_add else 0
        self._gains: dict[int, Floats] = {}
        self._bounds: dict[int | None, int] = {}

    def wins(self, rival: int, n_changes: int | None) -> bool:
        """Tell whether the rival wins after some attack with `n_changes` changes; None: any number of them."""
        if n_changes not in self._bounds:  # for all rivals at once, often enough
            self._bounds[n_changes] = self._reach(self._largest_gains(), n_changes)
        if self._bounds[n_changes] < self._lead[rival]:
            return False
        if rival not in self._gains:
            self._gains[rival] = self._gains_against(rival)
        return self._reach(self._gains[rival], n_changes) >= int(self._lead[rival])

    def _reach(self, gains: Floats, n_changes: int | None) -> int:
        """Return by how much the changes lower the margin at most."""
        if n_changes is None:
            return ANY_LEAD if self._by_adding else int(gains.sum())
        if self._training.window_end is not None:
            return _best_windows(gains, self._training.window_end, n_changes)
        return _sum_of_largest(gains, n_changes) + n_changes * self._by_adding

    def _largest_gains(self) -> Floats:
        """Return bounds on the gains against any rival."""
        sizes = np.abs(self._votes) * (2.0 if self._training.changes == "labels" else 1.0)
        if self._training.by_sources:
            sizes = sizes + self._limit
        return self._per_unit(sizes)

    def _gains_against(self, rival: int) -> Floats:
        training, votes = self._training, self._votes
        codes = np.arange(len(training.transitions))
        worth = (codes == self._winner).astype(np.int64) - (codes == rival)
        if training.changes == "labels":
            lowers = worth[:, None] - worth[None, :]  # from the class of the line to the class of the column
            positive = np.where(training.transitions, lowers, 0).max(axis=1).clip(0)[training.label]
            negative = np.where(training.transitions, -lowers, 0).max(axis=1).clip(0)[training.label]
            return self._per_unit(np.where(votes > 0, positive * votes, -negative * votes))
        losses = votes * worth[training.label]
        return self._per_unit(losses + self._limit if training.by_sources else np.maximum(losses, 0.0))

    def _per_unit(self, gains: Floats) -> Floats:
        """Return the gains of the labels or rows that can be changed, added up over groups if there are any."""
        training = self._training
        if training.changes == "insertions":
            return np.zeros(0)
        gains = np.where(training.changeable, gains, 0.0)
        return gains if training.group is None else np.asarray(np.bincount(training.group, gains), dtype=np.float64)


def _best_windows(gains: Floats, ends: Integers, n_windows: int) -> int:
    """Return the largest sum of gains of timestamps that are covered by `n_windows` windows."""
    upto = np.concatenate([[0.0], np.cumsum(gains)])
    upto = np.pad(upto, (0, len(ends) + 1 - len(upto)), mode="edge")  # the last timestamps may have no labels
    covered = upto[ends] - upto[:-1]
    best = np.zeros(len(ends) + 1)  # by the windows so far, among the timestamps from each one on
    for _ in range(min(n_windows, len(ends))):
        best = np.append(np.maximum.accumulate((covered + best[ends])[::-1])[::-1], 0.0)
    return int(best[0])


def _sum_of_largest(values: Floats, count: int) -> int:
    """Return the sum of the largest values, which are integers."""
    if count >= len(values):
        return int(values.sum())
    return int(np.partition(values, len(values) - count)[len(values) - count :].sum()) if count else 0
