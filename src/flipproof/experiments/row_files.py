"""Result rows, one per run and test row, appended as they are computed; and the scores computed from them."""

from __future__ import annotations

import csv
import io
import lzma
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flipproof.attacks.result import NO_ATTACK, unbroken_share
from flipproof.core.rounding import Floats, Integers, Values
from flipproof.runtime.files import write_whole

#: Means a missing number: no certificate by that method, or no attack.
NOTHING = -2

#: Columns of numbers of an experiment with a spec, one row for each test row of a run.
COLUMNS = ("prediction", "kl", "tight", "exact", "flips_needed", "flips_to_half")

#: Columns that rows begin with: the run, the test row and its label.
FIRST = ("run", "index", "label")
GROWING, FINISHED = "rows.csv", "rows.csv.xz"

#: Number of columns that are never empty: the run, the test row, its label, the prediction.
NEEDED = 4
NUMBER = re.compile(r"(-?[0-9]{1,18})?", re.ASCII)
DECIMAL = re.compile(r"(-?[0-9]{1,18}(\.[0-9]{1,20})?(e[+-][0-9]{1,3})?)?", re.ASCII)
REMEDY = "Delete it to compute its rows again."


@dataclass(frozen=True)
class RunRows:
    """The rows of one run, sorted by test row.

    Attributes
    ----------
    index, label : integers of shape (m,)
        The test row's position in the data set, and its true label.
    columns : mapping of str to numbers of shape (m,)
        Integers; columns of decimals are floats, NaN where a number is missing. See :data:`COLUMNS`.
    """

    index: Integers
    label: Integers
    columns: Mapping[str, NDArray[Any]]

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def is_of_the_same_test_rows(self, other: RunRows) -> bool:
        """Whether both have the same test rows, with the same labels."""
        return np.array_equal(self.index, other.index) and np.array_equal(self.label, other.label)

    def has(self, name: str) -> bool:
        """Whether a column was recorded, for all rows."""
        return not is_missing(self.columns[name]).any()


def is_missing(column: Values) -> NDArray[np.bool_]:
    """Tell which numbers of a column are missing."""
    return np.asarray(np.isnan(column) if column.dtype.kind == "f" else column == NOTHING)


class RowFile:
    """The rows of an experiment in a folder: an append-only text file, compressed when it is complete.

    Parameters
    ----------
    folder : path
        Where the file is.
    columns : sequence of str
        Names of the columns of numbers; the first is in every row.
    decimals : collection of str
        Those of them that are not integers. They are written so that they are read back to the last bit.
    """

    def __init__(self, folder: Path, columns: Sequence[str] = COLUMNS, decimals: Collection[str] = ()) -> None:
        self._growing, self._finished = folder / GROWING, folder / FINISHED
        self._columns, self._header = tuple(columns), (*FIRST, *columns)
        self._decimals = [name in decimals for name in self._header[1:]]

    @property
    def is_finished(self) -> bool:
        """Whether the rows are complete."""
        return self._finished.exists() and not self._growing.exists()

    def runs(self) -> dict[str, RunRows]:
        """Return the rows by run; if a test row occurs twice, its first row."""
        tables: dict[str, list[list[str]]] = {}
        for name, *values in self._lines():
            tables.setdefault(name, []).append(values)
        return {name: self._run_rows(table) for name, table in tables.items()}

    def append(self, run: str, index: Integers, label: Integers, columns: Mapping[str, Values]) -> None:
        """Append the rows of some test rows; after an interruption, missing rows are computed again."""
        self._reopen()
        with self._growing.open("a", encoding="utf-8") as file:
            file.write(_as_text(self._as_lines(run, RunRows(index, label, columns))))
            file.flush()
            os.fsync(file.fileno())

    def finish(self, order: Sequence[str]) -> None:
        """Sort the rows by run and test row, and compress them; runs that are not in `order` come last."""
        runs = self.runs()
        others = [name for name in runs if name not in order]
        lines = [line for name in (*order, *others) for line in self._as_lines(name, runs[name])]
        write_whole(self._finished, lzma.compress(_as_text([self._header, *lines]).encode(), preset=9))
        self._growing.unlink(missing_ok=True)

    def keep_only(self, names: Collection[str]) -> None:
        """Remove the rows of all other runs."""
        lines = self._lines()
        kept = [line for line in lines if line[0] in names]
        if len(kept) < len(lines):
            write_whole(self._growing, _as_text([self._header, *kept]).encode())
        if self._growing.exists():  # else removed rows would reappear if the growing file is deleted
            self._finished.unlink(missing_ok=True)

    @property
    def path(self) -> Path:
        """The current file: the growing one if it exists, because it started as a copy of the other."""
        return self._growing if self._growing.exists() else self._finished

    def _lines(self) -> list[list[str]]:
        """Return the lines of the file, checked."""
        try:
            lines = list(csv.reader(io.StringIO(self._text())))[1:]
        except csv.Error as error:
            raise OSError(f"{self.path} is damaged: it is not a table ({error}). {REMEDY}") from error
        for number, line in enumerate(lines, start=2):
            if not self._is_a_row(line):
                raise OSError(f"{self.path} is damaged: line {number} is not a row of results. {REMEDY}")
        return lines

    def _is_a_row(self, line: Sequence[str]) -> bool:
        if len(line) != len(self._header) or "" in line[1:NEEDED]:
            return False
        forms = (DECIMAL if decimal else NUMBER for decimal in self._decimals)
        return all(form.fullmatch(value) for form, value in zip(forms, line[1:], strict=True))

    def _text(self) -> str:
        if not self.path.exists():
            return ""
        try:
            content = self.path.read_bytes()
            text = (lzma.decompress(content) if self.path == self._finished else content).decode()
        except (lzma.LZMAError, EOFError, UnicodeDecodeError) as error:
            raise OSError(f"{self.path} is damaged: it cannot be read ({error}). {REMEDY}") from error
        if not text.startswith(_as_text([self._header])):
            raise OSError(f"{self.path} is damaged: its first line does not name the columns. {REMEDY}")
        return text[: text.rfind("\n") + 1]  # an incomplete last line is ignored

    def _reopen(self) -> None:
        """Make sure that the growing file contains all rows and ends with a complete line."""
        text = self._text() or _as_text([self._header])
        if not self._growing.exists() or self._growing.stat().st_size != len(text.encode()):
            write_whole(self._growing, text.encode())

    def _as_lines(self, name: str, rows: RunRows) -> list[list[Any]]:
        columns = [rows.index, rows.label, *(rows[column] for column in self._columns)]
        return [[name, *line] for line in zip(*map(_as_words, columns), strict=True)]

    def _run_rows(self, table: Sequence[Sequence[str]]) -> RunRows:
        columns = [
            np.array([np.nan if value == "" else float(value) for value in column])
            if decimal
            else np.array([NOTHING if value == "" else int(value) for value in column], dtype=np.int64)
            for decimal, column in zip(self._decimals, zip(*table, strict=True), strict=True)
        ]
        first = np.unique(columns[0], return_index=True)[1]
        index, label, *others = (column[first] for column in columns)
        return RunRows(index, label, dict(zip(self._columns, others, strict=True)))


def _as_words(column: Values) -> list[str]:
    """Return numbers as text, the shortest that is read back as the same number; missing ones are empty."""
    return ["" if missing else repr(value) for value, missing in zip(column.tolist(), is_missing(column), strict=True)]


def _as_text(lines: Iterable[Iterable[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()


def clean_accuracy(rows: RunRows) -> float:
    """Share of test rows that are predicted correctly."""
    return float(np.mean(rows["prediction"] == rows.label))


def worst_recall(rows: RunRows) -> float:
    """The lowest recall of all classes."""
    return min(float(np.mean(rows["prediction"][rows.label == c] == c)) for c in np.unique(rows.label))


def only_class(rows: RunRows, label: int) -> RunRows:
    """Return the rows whose true label is this one: shares of them are recalls."""
    mine = rows.label == label
    return RunRows(rows.index[mine], rows.label[mine], {name: column[mine] for name, column in rows.columns.items()})


def certified(rows: RunRows, method: str, flips: ArrayLike) -> Floats:
    """Share of test rows that are correct and certified at each number of flips."""
    # a row with radius r needs more than r flips to be lost
    return unbroken_share(rows.label, rows["prediction"], rows[method].astype(np.float64) + 1, flips)


def attacked(rows: RunRows, column: str, flips: ArrayLike) -> Floats:
    """Share of test rows that are still predicted correctly after an attack with each number of flips."""
    needed = np.where(rows[column] == NO_ATTACK, np.inf, rows[column])
    return unbroken_share(rows.label, rows["prediction"], needed, flips)


def median_radius(rows: RunRows, method: str) -> int:
    """Return the largest number of flips at which half of the test rows are correct and certified; -1 if none."""
    radius = np.where(rows["prediction"] == rows.label, rows[method], -1)
    return int(np.sort(radius)[len(radius) // 2])
