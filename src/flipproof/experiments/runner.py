"""Run an experiment: features, classifiers, certificates and attacks, one row per test row, tables and figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flipproof.datasets import Dataset
from flipproof.experiments.claims import claims_table
from flipproof.experiments.classifiers import facts, fitted, measure
from flipproof.experiments.figures import draw, duality_gap
from flipproof.experiments.manifest import MANIFEST, Manifest, fingerprint
from flipproof.experiments.rows import RowFile
from flipproof.experiments.sources import FeatureStore, Say, Slice, load, slice_of
from flipproof.experiments.spec import Experiment, Run
from flipproof.experiments.tables import tables
from flipproof.files import write_whole
from flipproof.rounding import Integers

#: Test rows between two additions to the file of rows; attacks on undefended models take far longer for each.
AT_A_TIME, ATTACKS_AT_A_TIME = 1000, 50

TABLES = "tables.md"
CLAIMS_FILE, GAP_FILE = "claims.md", "duality-gap.png"


def reproduce(
    experiment: Experiment,
    out: Path,
    data_dir: Path | None = None,
    seed: int = 0,
    quick: bool = False,
    say: Say = lambda text: None,
) -> None:
    """Fill ``out`` with the rows of an experiment, and what is made from them.

    Rows that are there already, of the same run on the same features, are kept: a run that was interrupted goes on
    where it was, and one that is complete is not repeated. A run that the spec says needs more than the data of the
    experiment is left out where that is not there; the next call adds it when it is.

    Parameters
    ----------
    experiment : Experiment
        See :func:`flipproof.experiments.read_experiment`.
    out : path
        Folder for ``rows.csv.xz``, ``manifest.json``, ``features/``, the tables and the figures.
    data_dir : path, optional
        Folder of the data sets; see :func:`flipproof.datasets.get_data_home`.
    seed : int
        Of everything random.
    quick : bool
        A few rows only.
    say : callable
        Told what is going on.
    """
    out.mkdir(parents=True, exist_ok=True)
    say(f"{experiment.title}: loading")
    data = load(experiment, data_dir)
    part = slice_of(experiment, data, quick, seed)
    features = FeatureStore(experiment, data, part, out / "features", data_dir, seed, say)
    rows, manifest = RowFile(out), Manifest(out)
    prints = {run.name: fingerprint(run, features.recipe(run.features)) for run in experiment.runs}
    same = {name for name, known in manifest.runs.items() if known["fingerprint"] == prints.get(name)}
    rows.keep_only(same)
    left_out = _left_out(experiment, part, features, rows, say)
    runs = [run for run in experiment.runs if run.name not in left_out]
    for run in runs:
        known = manifest.runs.get(run.name) if run.name in same else None
        manifest.runs[run.name] = known or {"fingerprint": prints[run.name], "seconds": 0.0}
        manifest.save()
        _finish_run(run, data, part, features, rows, manifest, seed, say)
    for name in set(manifest.runs) - {run.name for run in runs}:
        del manifest.runs[name]
    manifest.describe(experiment, data, len(part.train), seed, quick, features.checksums())
    rows.finish([run.name for run in runs])
    manifest.save()
    present(experiment, out)


def present(experiment: Experiment, out: Path) -> None:
    """Make tables and figures from the rows in a folder."""
    rows, manifest = RowFile(out).runs(), Manifest(out).content
    write_whole(out / TABLES, tables(experiment, rows, manifest).encode())
    for figure in experiment.figures:
        write_whole(out / f"{figure.file}.png", draw(figure, experiment, rows, manifest["n_train"]))


def present_together(out: Path, names: Sequence[str]) -> dict[str, Path]:
    """Make what concerns all experiments at once, from the results in a folder; return where it is."""
    there = {name: RowFile(out / name).runs() for name in names if (out / name / MANIFEST).exists()}
    files = {"The numbers in the text": out / CLAIMS_FILE, "Generic and tight bound": out / GAP_FILE}
    write_whole(out / CLAIMS_FILE, claims_table(there).encode())
    write_whole(out / GAP_FILE, duality_gap())
    return files


def _left_out(experiment: Experiment, part: Slice, features: FeatureStore, rows: RowFile, say: Say) -> set[str]:
    """Return the runs that are not to be completed here, and say why, before anything takes long."""
    reasons: dict[str, list[str]] = {}
    for run in experiment.runs:
        if not run.only_with:
            continue
        if part.is_quick:
            reasons.setdefault("as in every quick run.", []).append(run.name)
        elif len(_still_to_do(run, part, rows)) and (missing := features.missing(run.features)):
            reasons.setdefault(f"for want of {run.only_with}. {missing}", []).append(run.name)
    for reason, names in reasons.items():
        say(f"Left out: {' and '.join(map(repr, names))}, {reason}")
    return {name for names in reasons.values() for name in names}


def _still_to_do(run: Run, part: Slice, rows: RowFile) -> Integers:
    done = rows.runs().get(run.name)
    return np.setdiff1d(part.test, done.index) if done is not None else part.test


def _finish_run(
    run: Run,
    data: Dataset,
    part: Slice,
    features: FeatureStore,
    rows: RowFile,
    manifest: Manifest,
    seed: int,
    say: Say,
) -> None:
    """Compute the rows of a run that are not there yet."""
    left = _still_to_do(run, part, rows)
    if len(left) == 0:
        return
    X, Z = features[run.features]
    y = data.y_train[part.train]
    began = time.perf_counter()
    model = fitted(run, X, y, data.classes, seed)
    record = manifest.runs[run.name]
    record |= facts(model)
    at_a_time = ATTACKS_AT_A_TIME if run.is_undefended else AT_A_TIME
    for start in range(0, len(left), at_a_time):
        say(f"{run.name}: {len(part.test) - len(left) + start:,} of {len(part.test):,} test rows")
        index = left[start : start + at_a_time]
        columns = measure(run, model, X, y, Z[_places(part, index)])
        record["seconds"] = round(record["seconds"] + time.perf_counter() - began, 1)
        began = time.perf_counter()
        rows.append(run.name, index, data.y_test[index], columns)
        manifest.save()


def _places(part: Slice, index: Integers) -> Any:
    return np.searchsorted(part.test, index)
