"""A study: experiments on several data sets that one table each is computed from, such as what trusted labels buy.

The experiments on the paper's data sets are described by specs, :mod:`flipproof.experiments.spec`: a learner on one set
of features, and a radius for each method. Studies need more than that: trusted labels, several labels per row, numbers
instead of classes, graphs. They are described in Python, one module each, but their results have the same form: one
row for each run and test row, a record of how it was computed, and tables that follow from the rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from flipproof.core.rounding import Integers
from flipproof.experiments.manifest import RADII
from flipproof.experiments.row_files import RunRows
from flipproof.runtime.files import digest_of

#: Rows by name of the case, then by name of the run.
CaseRows = Mapping[str, Mapping[str, RunRows]]


@dataclass(frozen=True)
class Problem:
    """The data of a case.

    Attributes
    ----------
    content : any
        Training and test rows in the form that :attr:`Case.measure` expects.
    index, label : integers of shape (m,)
        Number of each test row in its data set, and its true class or number.
    n_train : int
        Number of training rows.
    provenance : str
        Where the data comes from.
    checksums : mapping of str to str
        SHA-256 of each file.
    """

    content: Any
    index: Integers
    label: Integers
    n_train: int
    provenance: str
    checksums: Mapping[str, str]


@dataclass(frozen=True)
class StudyRun:
    """A model that is certified on every test row: its name, and plain values that determine it."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Measured:
    """The columns of a run that were computed, and numbers about the whole run for its record."""

    columns: Mapping[str, NDArray[Any]]
    facts: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A data set of a study.

    Attributes
    ----------
    name, title : str
        Name of its folder, and title of its table.
    runs : tuple of StudyRun
        The models to certify.
    columns, decimals : tuple of str
        Columns of the rows, the first of which is the prediction, and which of them are not integers.
    read : callable
        Returns the problem, given the folder of the data sets, whether it is a quick run, and the seed. Raises
        FileNotFoundError that says which file to put where.
    measure : callable
        Certifies all test rows, given a run, the problem, and the seed.
    """

    name: str
    title: str
    runs: tuple[StudyRun, ...]
    columns: tuple[str, ...]
    read: Callable[[Path | None, bool, int], Problem]
    measure: Callable[[StudyRun, Problem, int], Measured]
    decimals: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """A digest of what is computed."""
        return digest_of(json.dumps([self.title, self.columns, [settings_of(run) for run in self.runs]]))


@dataclass(frozen=True)
class Study:
    """A study.

    Attributes
    ----------
    name, title : str
        Name in commands and folders, and title of the page of tables.
    caption : str
        What is computed, and how settings were chosen.
    cases : tuple of Case
        The data sets.
    tables : callable
        Returns the tables in Markdown, in the order of the page, given rows and records by case.

    See Also
    --------
    flipproof.experiments.read_study : Return a study by its name.

    Examples
    --------
    >>> from flipproof.experiments import read_study
    >>> [case.name for case in read_study("graphs").cases]
    ['cora', 'cora-all', 'citeseer', 'citeseer-all']
    """

    name: str
    title: str
    caption: str
    cases: tuple[Case, ...]
    tables: Callable[[CaseRows, Mapping[str, Mapping[str, Any]]], list[str]]

    @property
    def runs(self) -> tuple[StudyRun, ...]:
        """The runs of all cases."""
        return tuple(run for case in self.cases for run in case.runs)

    def page(self, rows: CaseRows, records: Mapping[str, Mapping[str, Any]]) -> str:
        """Return all tables as one page."""
        parts = [f"# {self.title}"]
        if any(record["quick"] for record in records.values()):
            parts.append("**A quick run on a few rows: not a result.**")
        parts += [self.caption.strip(), *self.tables(rows, records)]
        origins = dict.fromkeys(records[case.name]["data"]["provenance"] for case in self.cases)
        parts.append("\n".join(f"- {origin}" for origin in origins))
        return "\n\n".join(parts) + "\n"


def settings_of(run: StudyRun) -> str:
    """Return a digest of what determines a run, besides its data."""
    return digest_of(json.dumps([dict(run.settings), RADII], sort_keys=True))
