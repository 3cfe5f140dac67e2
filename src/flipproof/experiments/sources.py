"""The data of an experiment and its label-free features, kept as 16-bit numbers so that anyone can start from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from flipproof import datasets
from flipproof.datasets import Dataset
from flipproof.experiments.feature_files import FeatureFile, Rows, digest, read_features, write_features
from flipproof.experiments.manifest import environment
from flipproof.experiments.maps import BUILDERS, NETWORKS, Setting, check_installed, word_vectors
from flipproof.experiments.spec import Experiment, FeatureSpec
from flipproof.features.training import TRAINER, torch_for

Say = Callable[[str], None]


@dataclass(frozen=True)
class Slice:
    """The part of a data set that a run is about: everything, or a few rows of a quick run."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    is_quick: bool


def load(experiment: Experiment, data_dir: Path | None, **other: Any) -> Dataset:
    """Load the data of an experiment, or with other parameters another form of it."""
    parameters = {**experiment.data, **other}
    loader = getattr(datasets, f"load_{parameters.pop('loader')}")
    data: Dataset = loader(data_home=data_dir, **parameters)
    return data


def slice_of(experiment: Experiment, data: Dataset, quick: bool, seed: int) -> Slice:
    """Return all rows, or for a quick run as many as the spec says, drawn without looking at labels."""
    n, m = len(data.y_train), len(data.y_test)
    if not quick:
        return Slice(np.arange(n), np.arange(m), is_quick=False)
    rng = np.random.default_rng(seed)
    few = (min(experiment.quick.get(name, 500), size) for name, size in (("train_rows", n), ("test_rows", m)))
    train, test = (np.sort(rng.choice(size, kept, replace=False)) for size, kept in zip((n, m), few, strict=True))
    return Slice(train, test, is_quick=True)


class FeatureStore:
    """The features of an experiment: taken from a folder where they are complete, else computed and put there.

    What is computed is rounded to 16 bits *before* anything is fitted to it, so a run from the stored file and a run
    from scratch are the same run.
    """

    def __init__(
        self,
        experiment: Experiment,
        data: Dataset,
        part: Slice,
        folder: Path,
        data_dir: Path | None,
        seed: int,
        say: Say,
        verbose: int = 0,
    ) -> None:
        self.experiment, self.part, self.say = experiment, part, say
        self._setting = Setting(data, data_dir, folder, seed, verbose)
        self._forms: dict[str, Dataset | FileNotFoundError] = {}
        self._known: dict[str, Rows] = {}

    def __getitem__(self, name: str) -> Rows:
        """Return training and test rows under a feature map."""
        if name not in self._known:
            spec = self._for_this_run(self.experiment.features[name])
            self._known[name] = self._stored(spec) if spec.keep else self._computed(spec)
        return self._known[name]

    def recipe(self, name: str) -> str:
        """Return what determines the features, as text: the maps, how networks are trained, the data, rows, the seed.

        Other forms of the data, such as images, are not named: their loaders take nothing but the published files.
        """
        chain = map(self._for_this_run, self.experiment.chain(name))
        maps = [
            [_with_trainer(spec.kind), dict(spec.parameters), "16 bits" if spec.keep else "as they are"]
            for spec in chain
        ]
        sizes = [len(self.part.train), len(self.part.test)]
        data = {**self._setting.data.checksums, **self.word_vectors(name)}
        return json.dumps({"maps": maps, "data": data, "rows": sizes, "seed": self._setting.seed}, sort_keys=True)

    def word_vectors(self, name: str) -> dict[str, str]:
        """Return the checksum of the file of word vectors that features come from, if any."""
        files = [spec.parameters["files"] for spec in self.experiment.chain(name) if spec.kind == "words"]
        paths = (word_vectors(self._setting.data_dir, names) for names in files)
        return {path.name: digest(path) for path in paths}

    def kept(self, name: str) -> FeatureFile | None:
        """Return the features in the file; None if there is none, or one that was made by another recipe."""
        path = self.path(name)
        if not self.experiment.features[name].keep or not path.exists():
            return None
        file = read_features(path)
        if file.recipe != self.recipe(name):
            return None
        if tuple(map(len, file.rows)) != (len(self.part.train), len(self.part.test)):
            raise OSError(f"{path} is damaged. Delete it, and the features are computed again. (It lacks rows.)")
        return file

    def check(self, name: str) -> None:
        """Raise the error that says what to put where, or to install, if that is missing before features can be had.

        The other form of the data that they start from, if any, is loaded, and with that fetched, if it can be: once.
        """
        chain = self.experiment.chain(name)
        to_compute = list(takewhile(lambda spec: self.kept(spec.name) is None, chain))
        kind = self.experiment.other_form(name)
        if kind is not None and to_compute == chain:
            self._form(kind)
        for spec in to_compute:
            check_installed(spec.kind)

    def path(self, name: str) -> Path:
        """Return where features are kept."""
        return self._setting.folder / f"{name}.npz"

    def checksum(self, name: str) -> str:
        """Return the checksum of the file of features; empty if they are not kept, or not there."""
        is_there = self.experiment.features[name].keep and self.path(name).exists()
        return digest(self.path(name)) if is_there else ""

    def _for_this_run(self, spec: FeatureSpec) -> FeatureSpec:
        changed = self.experiment.quick.get("features", {}).get(spec.name, {}) if self.part.is_quick else {}
        return FeatureSpec(spec.name, spec.kind, spec.of, {**spec.parameters, **changed}, spec.keep)

    def _stored(self, spec: FeatureSpec) -> Rows:
        kept = self.kept(spec.name)
        if kept is None:
            self._setting.folder.mkdir(parents=True, exist_ok=True)
            train, test = self._computed(spec)
            made_with = {"environment": environment(), "data": self._checksums(spec.name)}
            rows = train.astype(np.float16), test.astype(np.float16)
            kept = FeatureFile(rows, self.recipe(spec.name), made_with)
            write_features(self.path(spec.name), kept)
            self._setting.checkpoint(spec.kind).unlink(missing_ok=True)
        train, test = kept.rows
        return train.astype(np.float32), test.astype(np.float32)

    def _checksums(self, name: str) -> dict[str, str]:
        """Return the checksums of the data that features were made from, or that those were that they build on."""
        for below in self.experiment.chain(name)[1:]:
            if (kept := self.kept(below.name)) is not None:
                return dict(kept.made_with["data"])
        kind = self.experiment.other_form(name)
        data = self._setting.data if kind is None else self._form(kind)
        return {**data.checksums, **self.word_vectors(name)}

    def _computed(self, spec: FeatureSpec) -> Rows:
        parameters = dict(spec.parameters)
        X, Z = self[spec.of] if spec.of is not None else self._given(parameters.pop("kind_of_data", None))
        self.say(f"Features {spec.name}: {spec.kind} on {len(X):,} rows")
        build = BUILDERS.get(spec.kind)
        if build is None:
            raise ValueError(f"There are no features of the kind {spec.kind!r}. Known: {', '.join(sorted(BUILDERS))}.")
        n_fitted = parameters.pop("fit_rows", len(X))
        transformer = build(self._setting, parameters)
        if transformer is None:
            return X, Z
        with _one_thread(spec.kind):
            transformer.fit(X[:n_fitted])  # labels are not even in reach
            return tuple(np.asarray(transformer.transform(rows)) for rows in (X, Z))  # type: ignore[return-value]

    def _given(self, kind: str | None) -> Rows:
        """Return the rows of the data set, or of another form of it, such as the images behind features."""
        data = self._setting.data if kind is None else self._form(kind)
        return data.X_train[self.part.train], data.X_test[self.part.test]

    def _form(self, kind: str) -> Dataset:
        """Return another form of the data, which is looked for only once."""
        if kind not in self._forms:
            try:
                self._forms[kind] = load(self.experiment, self._setting.data_dir, kind=kind)
            except FileNotFoundError as error:
                self._forms[kind] = error
        form = self._forms[kind]
        if isinstance(form, FileNotFoundError):
            raise form
        return form


def _with_trainer(kind: str) -> str:
    return f"{kind}, trainer {TRAINER}" if kind in NETWORKS else kind


@contextmanager
def _one_thread(kind: str) -> Iterator[None]:
    """Compute features on one thread: sums over several have other last bits, and training makes much of these."""
    if kind in NETWORKS:
        torch_for(f"The feature map {kind!r}")  # threads of what is imported later are not limited
    with threadpool_limits(limits=1):
        yield
