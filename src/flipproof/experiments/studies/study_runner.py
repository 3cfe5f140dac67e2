"""Run a study: read its data, certify each run on all test rows, write rows, records and tables."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flipproof.experiments.feature_store import MissingDataError, Say
from flipproof.experiments.manifest import Manifest
from flipproof.experiments.row_files import REMEDY, RowFile, RunRows
from flipproof.experiments.studies.study import Case, Problem, Study, StudyRun, settings_of
from flipproof.runtime.files import digest_of, write_whole

#: Name of the page of tables, in the folder of the study.
TABLES = "tables.md"


def reproduce_study(
    study: Study,
    out: Path,
    data_dir: Path | None = None,
    seed: int = 0,
    quick: bool = False,
    say: Say = lambda text: None,
) -> None:
    """Compute the rows of a study and its tables, and write them to ``out``.

    Existing rows of the same run on the same data are kept: an interrupted study is resumed after its last complete
    run, and a complete one is not repeated.

    Parameters
    ----------
    study : Study
        See :func:`flipproof.experiments.read_study`.
    out : path
        Folder for the tables, with a folder for each data set: ``rows.csv.xz`` and ``manifest.json``.
    data_dir : path, optional
        Folder of the data sets; see :func:`flipproof.datasets.get_data_home`.
    seed : int
        Seed of everything random.
    quick : bool
        Use only a few rows.
    say : callable
        Called with progress messages.

    See Also
    --------
    flipproof.experiments.read_study : Return a study by its name.
    flipproof.experiments.reproduce : Run an experiment on one data set.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from flipproof.experiments import read_study, reproduce_study
    >>> out = Path(tempfile.mkdtemp())
    >>> reproduce_study(read_study("graphs"), out, quick=True, say=lambda message: None)
    >>> sorted(path.name for path in out.iterdir())
    ['citeseer', 'citeseer-all', 'cora', 'cora-all', 'tables.md']
    """
    say(f"{study.title}: loading")
    for work in prepare_study(study, out, data_dir, seed, quick):
        work.finish(say)
    present_study(study, out)


def prepare_study(study: Study, out: Path, data_dir: Path | None, seed: int, quick: bool) -> list[CaseWork]:
    """Read the data of all cases, or raise one error that names everything that is missing.

    Nothing is written. For the parameters see :func:`reproduce_study`.
    """
    found, missing = [], []
    for case in study.cases:
        try:
            problem = case.read(data_dir, quick, seed)
        except FileNotFoundError as error:
            missing.append(str(error))
            continue
        work = CaseWork(case, problem, out / case.name, seed, quick)
        work.unchanged()  # damaged rows are refused before anything is computed
        found.append(work)
    if missing:
        raise MissingDataError(missing)
    return found


@dataclass(frozen=True)
class CaseWork:
    """A case with its data and the folder of its rows."""

    case: Case
    problem: Problem
    folder: Path
    seed: int
    quick: bool

    def fingerprint(self, run: StudyRun) -> str:
        """Return a digest that identifies the rows of a run: the model, the data, its numbers of rows, the seed."""
        problem = self.problem
        data = [dict(problem.checksums), problem.n_train, problem.index.tolist(), self.seed]
        return digest_of(settings_of(run) + json.dumps(data, sort_keys=True))

    def unchanged(self) -> dict[str, RunRows]:
        """Return the rows of the runs whose settings and data have not changed."""
        file, manifest = rows_of_case(self.case, self.folder), Manifest(self.folder)
        done = file.runs()
        if done and not manifest.path.exists():
            raise OSError(f"{file.path} has rows, but their record {manifest.path} is missing. Delete the rows.")
        known = {run.name: self.fingerprint(run) for run in self.case.runs}
        same = {
            name: rows
            for name, rows in done.items()
            if name in known and manifest.runs.get(name, {}).get("fingerprint") == known[name]
        }
        for name, rows in same.items():
            mine = RunRows(self.problem.index, self.problem.label, {})
            if not rows.is_of_the_same_test_rows(mine) or not rows.has(self.case.columns[0]):
                raise OSError(f"{file.path} is damaged: its rows of {name!r} do not match the data. {REMEDY}")
        return same

    def finish(self, say: Say) -> None:
        """Compute the runs that have no rows, and write rows and record."""
        same = self.unchanged()
        self.folder.mkdir(parents=True, exist_ok=True)
        file, manifest = rows_of_case(self.case, self.folder), Manifest(self.folder)
        if changed := [repr(name) for name in file.runs() if name not in same]:
            say(f"{self.case.title}: removed the rows of {', '.join(changed)}: the study, data or seed has changed")
        file.keep_only(same)
        manifest.keep_runs(same)
        problem = self.problem
        sizes, data = (problem.n_train, len(problem.index)), {"provenance": problem.provenance}
        described = {**data, "checksums": dict(problem.checksums)}
        manifest.describe(self.case.name, self.case.fingerprint, sizes, self.seed, self.quick, described)
        for run in self.case.runs:
            if run.name in same:
                continue
            say(f"{self.case.title}: {run.name}")
            began = time.perf_counter()
            measured = self.case.measure(run, problem, self.seed)
            manifest.start(run.name, settings_of(run), self.fingerprint(run), "")
            manifest.runs[run.name] |= measured.facts
            # recorded first, so that every row has a record of how it was computed
            manifest.note_rows(run.name, time.perf_counter() - began)
            file.append(run.name, problem.index, problem.label, measured.columns)
        file.finish([run.name for run in self.case.runs])
        manifest.save()


def rows_of_case(case: Case, folder: Path) -> RowFile:
    """Return the file of rows of a case."""
    return RowFile(folder, case.columns, case.decimals)


def study_results(study: Study, out: Path) -> tuple[dict[str, dict[str, RunRows]], dict[str, Mapping[str, Any]]]:
    """Return rows and records by case; raise an error if a case is incomplete or of another study."""
    rows: dict[str, dict[str, RunRows]] = {}
    records: dict[str, Mapping[str, Any]] = {}
    for case in study.cases:
        manifest, file = Manifest(out / case.name), rows_of_case(case, out / case.name)
        found = file.runs()
        wanted = {run.name: settings_of(run) for run in case.runs}
        complete = [
            name
            for name, of_run in found.items()
            if manifest.runs.get(name, {}).get("settings") == wanted.get(name)
            and len(of_run.index) == manifest.content["n_test"]
        ]
        if not file.is_finished or sorted(complete) != sorted(wanted):
            raise OSError(
                f"The results in {out / case.name} are incomplete or of another study: {len(complete)} of "
                f"{len(wanted)} runs are complete. Run 'flipproof reproduce {study.name}' with the same options again."
            )
        rows[case.name], records[case.name] = found, manifest.content
    return rows, records


def present_study(study: Study, out: Path) -> None:
    """Make the page of tables from the rows in a folder."""
    write_whole(out / TABLES, study.page(*study_results(study, out)).encode())
