"""One row per run and test row: appended as they come, so that a run that was stopped goes on where it was."""

from __future__ import annotations

import csv
import io
import lzma
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flipproof.experiments.classifiers import COLUMNS, NOTHING
from flipproof.files import write_whole
from flipproof.rounding import Integers

HEADER = ("run", "index", "label", *COLUMNS)
GROWING, FINISHED = "rows.csv", "rows.csv.xz"


@dataclass(frozen=True)
class RunRows:
    """The rows of one run, sorted by test row.

    Attributes
    ----------
    index, label : integers of shape (m,)
        The test row's number in the data set, and its true label.
    columns : mapping of str to integers of shape (m,)
        See :data:`flipproof.experiments.classifiers.COLUMNS`.
    """

    index: Integers
    label: Integers
    columns: Mapping[str, Integers]

    def __getitem__(self, name: str) -> Integers:
        return self.columns[name]

    def has(self, name: str) -> bool:
        """Whether a column was recorded."""
        return bool((self.columns[name] != NOTHING).any())


class RowFile:
    """The rows of an experiment in a folder: a text file that only grows, compressed when it is complete."""

    def __init__(self, folder: Path) -> None:
        self._growing, self._finished = folder / GROWING, folder / FINISHED

    def runs(self) -> dict[str, RunRows]:
        """Return what is there, by run."""
        return parsed(self._text())

    def append(self, run: str, index: Integers, label: Integers, columns: Mapping[str, Integers]) -> None:
        """Add the rows of some test rows, all or none."""
        self._reopen()
        with self._growing.open("a", encoding="utf-8") as file:
            file.write(_as_text(_lines(run, RunRows(index, label, columns))))
            file.flush()
            os.fsync(file.fileno())

    def finish(self, order: list[str]) -> None:
        """Sort the rows by run and test row, and compress them."""
        runs = self.runs()
        lines = [line for name in order for line in _lines(name, runs[name])]
        write_whole(self._finished, lzma.compress(_as_text([HEADER, *lines]).encode(), preset=9))
        self._growing.unlink(missing_ok=True)

    def keep_only(self, names: set[str]) -> None:
        """Forget the rows of all other runs."""
        lines = list(csv.reader(io.StringIO(self._text())))
        kept = [line for line in lines[1:] if line[0] in names]
        if len(kept) < len(lines) - 1:
            self._finished.unlink(missing_ok=True)
            write_whole(self._growing, _as_text([HEADER, *kept]).encode())

    def _text(self) -> str:
        if self._growing.exists():
            text = self._growing.read_text(encoding="utf-8")
            return text[: text.rfind("\n") + 1]  # a line that was cut off does not count
        return lzma.decompress(self._finished.read_bytes()).decode() if self._finished.exists() else ""

    def _reopen(self) -> None:
        """Make the growing file hold all that is known, and end with a whole line."""
        text = self._text()
        if not self._growing.exists() or self._growing.stat().st_size != len(text.encode()):
            write_whole(self._growing, (text or ",".join(HEADER) + "\n").encode())


def parsed(text: str) -> dict[str, RunRows]:
    """Return rows by run; of a test row that is there twice, the first."""
    tables: dict[str, list[list[int]]] = {}
    lines = csv.reader(io.StringIO(text))
    next(lines, None)
    for name, *values in lines:
        tables.setdefault(name, []).append([NOTHING if value == "" else int(value) for value in values])
    return {name: _run_rows(table) for name, table in tables.items()}


def _lines(name: str, rows: RunRows) -> list[list[Any]]:
    table = zip(rows.index, rows.label, *(rows[column] for column in COLUMNS), strict=True)
    return [[name, *("" if value == NOTHING else int(value) for value in row)] for row in table]


def _as_text(lines: Iterable[Iterable[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(lines)
    return buffer.getvalue()


def _run_rows(table: list[list[int]]) -> RunRows:
    array: Any = np.array(table, dtype=np.int64)
    _, first = np.unique(array[:, 0], return_index=True)
    array = array[first]
    return RunRows(array[:, 0], array[:, 1], dict(zip(COLUMNS, array[:, 2:].T, strict=True)))
