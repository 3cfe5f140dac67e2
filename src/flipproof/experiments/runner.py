"""Run an experiment: features, classifiers, certificates and attacks, one row per test row, tables and figures."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression

from flipproof.adversary import Adversary
from flipproof.attacks import smoothed_attack, undefended_attack
from flipproof.core.rounding import Integers, Values
from flipproof.datasets import Dataset
from flipproof.experiments.claims import claims_table
from flipproof.experiments.feature_store import (
    FeatureStore,
    MissingDataError,
    Say,
    Slice,
    check_installed,
    load,
    not_installed,
    packages_not_installed,
    slice_of,
)
from flipproof.experiments.manifest import Manifest, settings_of
from flipproof.experiments.row_files import COLUMNS, NOTHING, REMEDY, RowFile, RunRows
from flipproof.experiments.spec import Experiment, Run
from flipproof.experiments.tables_and_figures import draw, duality_gap, tables
from flipproof.learners.cluster import CertifiedClusterClassifier
from flipproof.learners.neighbors import CertifiedNeighborsClassifier
from flipproof.learners.ridge import CertifiedRidgeClassifier, LabelDependenceWarning
from flipproof.runtime.files import digest_of, write_whole
from flipproof.runtime.progress import StopSign, set_by_interrupt


def _clusters(n_clusters: int, seed: int, **parameters: Any) -> CertifiedClusterClassifier:
    return CertifiedClusterClassifier(KMeans(n_clusters, n_init=10, random_state=seed), **parameters)


def _neighbors(seed: int, percent: float | None = None, n_rows: int = 0, **parameters: Any) -> Any:
    """Return neighbours; `percent` of the voting rows, rounded to an odd number, if it is given."""
    if percent is not None:
        parameters["n_neighbors"] = 2 * int(percent * n_rows // 200) + 1
    return CertifiedNeighborsClassifier(**parameters)


def _without_seed(kind: Callable[..., Any]) -> Callable[..., Any]:
    return lambda seed, **parameters: kind(**parameters)


#: From a name in a spec to a learner.
LEARNERS: Mapping[str, Callable[..., Any]] = {
    "ridge": _without_seed(CertifiedRidgeClassifier),
    "neighbors": _neighbors,
    "clusters": _clusters,
    "logistic": _without_seed(LogisticRegression),
}


def fitted(run: Run, X: Values, y: Integers, classes: tuple[int, ...], seed: int) -> Any:
    """Return the classifier of a run, fitted."""
    if run.learner not in LEARNERS:
        raise ValueError(f"Unknown learner {run.learner!r}. Known: {', '.join(LEARNERS)}.")
    parameters = dict(run.parameters)
    if not run.is_undefended:
        parameters["classes"] = list(classes)
    with warnings.catch_warnings():
        # the paper's lambda reads the labels; the tables say so
        warnings.simplefilter("ignore", LabelDependenceWarning)
        if not run.reference_rows and not run.one_in:
            return LEARNERS[run.learner](seed=seed, **parameters).fit(X, y)
        in_reference = np.zeros(len(y), dtype=bool)
        if run.one_in:
            in_reference[: len(y) // run.one_in] = True
        else:
            in_reference[np.linspace(0, len(y) - 1, run.reference_rows).astype(np.int64)] = True
        if "percent" in parameters:
            parameters["n_rows"] = int(np.sum(~in_reference))
        reference, X, y = X[in_reference], X[~in_reference], y[~in_reference]
        return LEARNERS[run.learner](seed=seed, **parameters).fit(X, y, reference=reference)


def facts(model: object) -> dict[str, float]:
    """Return parameters that were determined by the fit, for the record."""
    return {name: float(getattr(model, name)) for name in ("regularization_",) if hasattr(model, name)}


def measure(run: Run, model: Any, X: Values, y: Integers, Z: Values) -> dict[str, Integers]:
    """Certify some test rows, and attack them if the run says so; return one array per column."""
    columns = {name: np.full(len(Z), NOTHING, dtype=np.int64) for name in COLUMNS}
    if run.is_undefended:
        with _all_or_nothing():
            attack = undefended_attack(model, X, y, Z)
        return columns | {"prediction": attack.prediction.astype(np.int64), "flips_needed": attack.flips_needed}
    for method in run.methods:
        certificates = model.certify(Z, method, adversary=Adversary(changes=run.changes))
        columns[method] = certificates.radius.astype(np.int64)
        columns["prediction"] = certificates.prediction.astype(np.int64)
    if run.attacked:
        with _all_or_nothing():
            smoothed = smoothed_attack(model, Z)
        columns |= {"flips_needed": smoothed.flips_needed, "flips_to_half": smoothed.flips_to_half}
    return columns


@contextmanager
def _all_or_nothing() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end if interrupted: attacks would return partial results."""
    stopped = StopSign()
    with set_by_interrupt(stopped):
        yield
    if stopped.is_set():
        raise KeyboardInterrupt


#: Test rows per append to the file of rows; attacks on undefended models take much longer per row.
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
    verbose: int = 0,
) -> None:
    """Compute the rows of an experiment, its tables and its figures, and write them to ``out``.

    Existing rows of the same run on the same features are kept: an interrupted run is resumed, and a complete one is
    not repeated. A run that needs more than the data of the experiment is skipped if that is missing; a later call adds
    it once it is available.

    Parameters
    ----------
    experiment : Experiment
        See :func:`flipproof.experiments.read_experiment`.
    out : path
        Folder for ``rows.csv.xz``, ``manifest.json``, ``features/``, the tables and the figures.
    data_dir : path, optional
        Folder of the data sets; see :func:`flipproof.datasets.get_data_home`.
    seed : int
        Seed of everything random.
    quick : bool
        Use only a few rows.
    say : callable
        Called with progress messages.
    verbose : int
        1: networks print a line to stderr after every epoch.

    See Also
    --------
    flipproof.experiments.read_experiment : Read an experiment.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from flipproof.experiments import read_experiment, reproduce
    >>> out = Path(tempfile.mkdtemp())
    >>> reproduce(read_experiment("sms"), out, quick=True, say=lambda message: None)
    >>> sorted(path.name for path in out.iterdir())
    ['certified.png', 'manifest.json', 'rows.csv.xz', 'tables.md']
    """
    say(f"{experiment.title}: loading")
    work = prepare(experiment, out, data_dir, seed, quick, say, verbose)
    out.mkdir(parents=True, exist_ok=True)
    rows, manifest = RowFile(out), Manifest(out)
    work.forget_what_changed(rows, manifest)
    left_out = work.left_out(rows.runs())
    runs = [run for run in experiment.runs if run.name not in left_out]
    manifest.describe(experiment.name, experiment.fingerprint, work.sizes, seed, quick, work.described())
    manifest.leave_out(left_out)
    for _ in range(2):  # twice, because a run may recompute features that earlier runs used, too
        done = rows.runs()
        for run in runs:
            work.finish_run(run, done, rows, manifest)
    for name, recipe in work.recipes.items():
        if (kept := work.features.kept(name)) is not None:
            manifest.note_features(name, recipe, work.features.checksum(name), kept.made_with)
    rows.finish([run.name for run in runs])
    manifest.save()
    present(experiment, out)


def prepare(
    experiment: Experiment,
    out: Path,
    data_dir: Path | None,
    seed: int,
    quick: bool,
    say: Say = lambda text: None,
    verbose: int = 0,
) -> Work:
    """Load the data of an experiment, or raise an error that says what is missing, before any long computation.

    Nothing is written. For the parameters see :func:`reproduce`.
    """
    try:
        data = load(experiment, data_dir)
        part = slice_of(experiment, data, quick, seed)
        features = FeatureStore(experiment, data, part, out / "features", data_dir, seed, say, verbose)
        recipes = {name: features.recipe(name) for name in experiment.features}
    except FileNotFoundError as missing:
        raise MissingDataError([str(missing)], packages_not_installed(experiment)) from missing
    work = Work(experiment, data, part, features, recipes, seed, say)
    done = work.unchanged(RowFile(out), Manifest(out))
    wanted = [run.features for run in experiment.runs if not run.only_with and len(work.still_to_do(run, done))]
    # figures come last, and must not fail then
    packages = {"matplotlib"}.union(*map(features.packages, wanted))
    if messages := features.missing(wanted):
        raise MissingDataError(messages, not_installed(packages))
    check_installed(packages)
    return work


@dataclass(frozen=True)
class Work:
    """An experiment with its data: which runs remain, and how to compute them."""

    experiment: Experiment
    data: Dataset
    part: Slice
    features: FeatureStore
    recipes: Mapping[str, str]
    seed: int
    say: Say

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of training and test rows."""
        return len(self.part.train), len(self.part.test)

    def described(self) -> dict[str, Any]:
        """Return the provenance of the data and the checksums of all its files."""
        words = [self.features.word_vectors(name) for name in self.experiment.features]
        checksums = {name: value for known in (self.data.checksums, *words) for name, value in known.items()}
        return {"provenance": self.data.provenance, "checksums": checksums}

    def fingerprint(self, run: Run) -> str:
        """Return a digest that identifies the rows of a run: the classifier, and how its features were computed."""
        return digest_of(settings_of(self.experiment, run) + self.recipes[run.features])

    def unchanged(self, rows: RowFile, manifest: Manifest) -> dict[str, RunRows]:
        """Return the rows of the runs whose settings and features have not changed."""
        done = rows.runs()
        if done and not manifest.path.exists():
            raise OSError(f"{rows.path} has rows, but their record {manifest.path} is missing. Delete the rows.")
        prints = {name: record["fingerprint"] for name, record in manifest.runs.items()}
        runs = {run.name: run for run in self.experiment.runs}
        same = {name: of_run for name, of_run in done.items() if name in runs}
        same = {name: of_run for name, of_run in same.items() if self.fingerprint(runs[name]) == prints.get(name)}
        for name, of_run in same.items():
            if not self._are_whole(runs[name], of_run):
                raise OSError(f"{rows.path} is damaged: its rows of {name!r} do not match the data. {REMEDY}")
        return same

    def _are_whole(self, run: Run, rows: RunRows) -> bool:
        """Whether each row belongs to a test row, has its label, and is complete."""
        of_the_data = np.isin(rows.index, self.part.test).all() and (self.data.y_test[rows.index] == rows.label).all()
        return bool(of_the_data) and all(map(rows.has, run.recorded))

    def forget_what_changed(self, rows: RowFile, manifest: Manifest) -> None:
        """Remove the rows of runs that have changed, and report it."""
        same = self.unchanged(rows, manifest)
        changed = [repr(name) for name in rows.runs() if name not in same]
        if changed:
            self.say(f"Removed the rows of {', '.join(changed)}: the spec, the data or the seed has changed")
        rows.keep_only(same)
        manifest.keep_runs(same)
        manifest.keep_features(self.recipes)

    def left_out(self, done: Mapping[str, RunRows]) -> list[str]:
        """Return the runs that are skipped, and say why."""
        reasons: dict[str, list[str]] = {}
        for run in self.experiment.runs:
            if not run.only_with:
                continue
            if self.part.is_quick and not run.in_quick:
                reasons.setdefault("not part of a quick run.", []).append(run.name)
            elif len(self.still_to_do(run, done)):
                try:
                    self.features.check(run.features)
                except FileNotFoundError as missing:  # a damaged file is not skipped but raises an error
                    reasons.setdefault(f"needs {run.only_with}. {missing}", []).append(run.name)
        for reason, names in reasons.items():
            self.say(f"Skipped {' and '.join(map(repr, names))}: {reason}")
        return [name for names in reasons.values() for name in names]

    def still_to_do(self, run: Run, done: Mapping[str, RunRows]) -> Integers:
        """Return the test rows of a run that have no row yet."""
        return np.setdiff1d(self.part.test, done[run.name].index) if run.name in done else self.part.test

    def finish_run(self, run: Run, done: Mapping[str, RunRows], rows: RowFile, manifest: Manifest) -> None:
        """Compute the missing rows of a run, or all of them if its features have changed."""
        left = self.still_to_do(run, done)
        computed_from = manifest.runs[run.name]["features"] if run.name in manifest.runs else None
        if len(left) == 0 and self.features.checksum(run.features) in ("", computed_from):
            return
        X, Z = self.features[run.features]
        checksum = self.features.checksum(run.features)
        if computed_from != checksum:
            if computed_from is not None:
                self.say(f"{run.name}: recomputing all rows, because its features have changed")
                rows.keep_only([name for name in rows.runs() if name != run.name])
            manifest.start(run.name, settings_of(self.experiment, run), self.fingerprint(run), checksum)
            left = self.part.test
        y = self.data.y_train[self.part.train]
        began = time.perf_counter()
        model = fitted(run, X, y, self.data.classes, self.seed)
        manifest.runs[run.name] |= facts(model)
        at_a_time = ATTACKS_AT_A_TIME if run.is_undefended else AT_A_TIME
        for start in range(0, len(left), at_a_time):
            self.say(f"{run.name}: {len(self.part.test) - len(left) + start:,} of {len(self.part.test):,} test rows")
            index = left[start : start + at_a_time]
            columns = measure(run, model, X, y, Z[np.searchsorted(self.part.test, index)])
            # recorded first, so that every row has a record of how it was computed
            manifest.note_rows(run.name, time.perf_counter() - began)
            began = time.perf_counter()
            rows.append(run.name, index, self.data.y_test[index], columns)


def results(experiment: Experiment, out: Path) -> tuple[dict[str, RunRows], dict[str, Any]]:
    """Return the rows and the manifest in a folder; raise an error if a run is incomplete or of another spec."""
    manifest, file = Manifest(out), RowFile(out)
    rows = file.runs()
    left_out = manifest.content["left_out"]
    asked_for = [run for run in experiment.runs if not (run.only_with and run.name in left_out)]
    complete = {
        run.name: rows[run.name]
        for run in asked_for
        if run.name in rows
        and run.name in manifest.runs
        and manifest.runs[run.name]["settings"] == settings_of(experiment, run)
        and len(rows[run.name].index) == manifest.content["n_test"]
        and all(map(rows[run.name].has, run.recorded))
    }
    if any(not of_run.is_of_the_same_test_rows(other) for of_run, other in pairwise(complete.values())):
        raise OSError(f"{file.path} is damaged: its runs have different test rows. {REMEDY}")
    if not file.is_finished or not complete or len(complete) < len(asked_for):
        raise OSError(
            f"The results in {out} are incomplete or of another spec: {len(complete)} of {len(asked_for)} runs are "
            f"complete. Run 'flipproof reproduce {experiment.name}' with the same options again."
        )
    return complete, manifest.content


def present(experiment: Experiment, out: Path) -> None:
    """Make tables and figures from the rows in a folder."""
    rows, manifest = results(experiment, out)
    write_whole(out / TABLES, tables(experiment, rows, manifest).encode())
    for figure in experiment.figures:
        write_whole(out / f"{figure.file}.png", draw(figure, experiment, rows, manifest["n_train"]))


def present_together(experiments: Sequence[Experiment], out: Path) -> dict[str, Path]:
    """Write the results that concern several experiments, and return their paths."""
    rows = {experiment.name: results(experiment, out / experiment.name)[0] for experiment in experiments}
    files = {"The numbers in the text": out / CLAIMS_FILE, "Generic and tight bound": out / GAP_FILE}
    write_whole(out / CLAIMS_FILE, claims_table(rows).encode())
    write_whole(out / GAP_FILE, duality_gap())
    return files
