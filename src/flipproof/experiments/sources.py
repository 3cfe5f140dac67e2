"""The data of an experiment and its label-free features, kept as 16-bit numbers so that anyone can start from them."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from threadpoolctl import threadpool_limits

from flipproof import datasets
from flipproof.datasets import Dataset
from flipproof.experiments.spec import Experiment, FeatureSpec
from flipproof.features.training import torch_for
from flipproof.files import write_whole

Say = Callable[[str], None]

#: Rows before and after a feature map.
Rows = tuple[NDArray[Any], NDArray[Any]]


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
    ) -> None:
        self.experiment, self.data, self.part, self.folder = experiment, data, part, folder
        self.data_dir, self.seed, self.say = data_dir, seed, say
        self._known: dict[str, Rows] = {}
        self._missing: dict[str, str] = {}

    def __getitem__(self, name: str) -> Rows:
        """Return training and test rows under a feature map."""
        if name not in self._known:
            spec = self._for_this_run(self.experiment.features[name])
            self._known[name] = self._stored(spec) if spec.keep else self._computed(spec)
        return self._known[name]

    def _for_this_run(self, spec: FeatureSpec) -> FeatureSpec:
        changed = self.experiment.quick.get("features", {}).get(spec.name, {}) if self.part.is_quick else {}
        return FeatureSpec(spec.name, spec.kind, spec.of, {**spec.parameters, **changed}, spec.keep)

    def _stored(self, spec: FeatureSpec) -> Rows:
        rows = self._read(spec)
        if rows is None:
            X, Z = self._computed(spec)
            rows = X.astype(np.float16), Z.astype(np.float16)
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(self._file(spec), packed_features(rows, self.recipe(spec.name)))
            self.checkpoint(spec.kind).unlink(missing_ok=True)
        return rows[0].astype(np.float32), rows[1].astype(np.float32)

    def _read(self, spec: FeatureSpec) -> Rows | None:
        path = self._file(spec)
        return read_features(path, self.recipe(spec.name)) if path.exists() else None

    def missing(self, name: str) -> str:
        """Return which file to put where before features can be had; empty if nothing is missing.

        The other form of the data that they start from, if any, is loaded, and with that fetched, if it can be: once.
        """
        below: str | None = name
        while below:
            spec = self.experiment.features[below]
            if spec.keep and self._read(spec) is not None:
                return ""
            below = spec.of
        kind = self.experiment.other_form(name)
        if kind is None:
            return ""
        if kind not in self._missing:
            try:
                load(self.experiment, self.data_dir, kind=kind)
                self._missing[kind] = ""
            except FileNotFoundError as error:  # a file that is there but damaged is an error like any other
                self._missing[kind] = str(error)
        return self._missing[kind]

    def checkpoint(self, kind: str) -> Path:
        """Return where a network that is being trained is kept, so that a run that was stopped goes on with it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{kind}.pt".replace(" ", "-")

    def checksums(self) -> dict[str, str]:
        """Return the SHA-256 of every file of features."""
        kept = (spec for spec in self.experiment.features.values() if spec.keep and self._file(spec).exists())
        return {spec.name: hashlib.sha256(self._file(spec).read_bytes()).hexdigest() for spec in kept}

    def _file(self, spec: FeatureSpec) -> Path:
        return self.folder / f"{spec.name}.npz"

    def recipe(self, name: str) -> str:
        """Return what determines the features, as text: the maps, the data, the rows of it, the seed."""
        maps, below = [], name
        while below:
            spec = self._for_this_run(self.experiment.features[below])
            maps.append([spec.kind, dict(spec.parameters), "16 bits" if spec.keep else "as they are"])
            below = spec.of or ""
        sizes = [len(self.part.train), len(self.part.test)]
        made_from = {"maps": maps, "data": dict(self.data.checksums), "rows": sizes, "seed": self.seed}
        return json.dumps(made_from, sort_keys=True)

    def _computed(self, spec: FeatureSpec) -> Rows:
        parameters = dict(spec.parameters)
        X, Z = self[spec.of] if spec.of is not None else self._given(parameters.pop("kind_of_data", None))
        self.say(f"Features {spec.name}: {spec.kind} on {len(X):,} rows")
        build = BUILDERS.get(spec.kind)
        if build is None:
            raise ValueError(f"There are no features of the kind {spec.kind!r}. Known: {', '.join(sorted(BUILDERS))}.")
        n_fitted = parameters.pop("fit_rows", len(X))
        transformer = build(self, parameters)
        if transformer is None:
            return X, Z
        with _one_thread(spec.kind):
            transformer.fit(X[:n_fitted])  # labels are not even in reach
            return tuple(np.asarray(transformer.transform(rows)) for rows in (X, Z))  # type: ignore[return-value]

    def _given(self, kind: str | None) -> Rows:
        """Return the rows of the data set, or of another form of it, such as the images behind features."""
        data = self.data if kind is None else load(self.experiment, self.data_dir, kind=kind)
        return data.X_train[self.part.train], data.X_test[self.part.test]


@contextmanager
def _one_thread(kind: str) -> Iterator[None]:
    """Compute features on one thread: sums over several have other last bits, and training makes much of these."""
    if kind in NETWORKS:
        torch_for(f"The feature map {kind!r}")  # threads of what is imported later are not limited
    with threadpool_limits(limits=1):
        yield


def packed_features(rows: Rows, recipe: str) -> bytes:
    """Return the content of a file of features."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, train=rows[0], test=rows[1], recipe=np.frombuffer(recipe.encode(), dtype=np.uint8))
    return buffer.getvalue()


def read_features(path: Path, recipe: str | None = None) -> Rows | None:
    """Return the features in a file; None if they were made by another recipe than the one that is asked for."""
    with np.load(path, allow_pickle=False) as arrays:
        if recipe is not None and arrays["recipe"].tobytes().decode() != recipe:
            return None
        return arrays["train"], arrays["test"]


def _pixels(store: FeatureStore, parameters: Mapping[str, Any]) -> Any:
    from sklearn.preprocessing import FunctionTransformer

    return FunctionTransformer(_to_unit_range)


def _to_unit_range(pixels: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(pixels, dtype=np.float32) / np.float32(255)


def _pca(store: FeatureStore, parameters: dict[str, Any]) -> Any:
    from flipproof.features import pca_features

    return pca_features(random_state=store.seed, **parameters)


def _svd(store: FeatureStore, parameters: dict[str, Any]) -> Any:
    return TruncatedSVD(random_state=store.seed, **parameters)


def _ica(store: FeatureStore, parameters: dict[str, Any]) -> Any:
    from flipproof.features import ica_features

    return ica_features(random_state=store.seed, **parameters)


def _umap(store: FeatureStore, parameters: dict[str, Any]) -> Any:
    from flipproof.features import UMAPFeatures

    return UMAPFeatures(random_state=store.seed, **parameters)


def _tfidf_svd(store: FeatureStore, parameters: dict[str, Any]) -> Any:
    """TF-IDF with damped counts, then a singular value decomposition, rows of length 1."""
    n_components = parameters.pop("n_components")
    words = TfidfVectorizer(sublinear_tf=True, **parameters)
    return make_pipeline(words, TruncatedSVD(n_components, random_state=store.seed), Normalizer())


def _words(store: FeatureStore, parameters: dict[str, Any]) -> Any:
    from flipproof.features import WordVectors

    file = datasets.get_data_home(store.data_dir) / parameters.pop("file")
    return WordVectors(file, **parameters)


def _cnn_of_other_digits(store: FeatureStore, parameters: dict[str, Any]) -> Any:
    from flipproof.features import CNNFeatures

    others = tuple(set(range(10)) - set(store.data.classes))
    rest = datasets.load_mnist(digits=others, data_home=store.data_dir)
    few = parameters.pop("rows", len(rest.y_train))
    parameters |= {"random_state": store.seed, "checkpoint": store.checkpoint("cnn of other digits"), "verbose": 1}
    return CNNFeatures(rest.X_train[:few], rest.y_train[:few], **parameters)


def _rica(store: FeatureStore, parameters: dict[str, Any]) -> Any:
    from flipproof.features import RICA

    return RICA(random_state=store.seed, image_shape=tuple(parameters.pop("image_shape")), **parameters)


def _simclr(store: FeatureStore, parameters: dict[str, Any]) -> Any:
    from flipproof.features import SimCLRFeatures

    shape = tuple(parameters.pop("image_shape"))
    return SimCLRFeatures(
        random_state=store.seed, image_shape=shape, checkpoint=store.checkpoint("simclr"), verbose=1, **parameters
    )


#: Kinds that are trained by PyTorch.
NETWORKS = ("cnn of other digits", "simclr")

#: From a kind in a spec to a transformer that has not been fitted yet; None for rows that are features already.
BUILDERS: dict[str, Callable[[FeatureStore, dict[str, Any]], Any]] = {
    "given": lambda store, parameters: None,
    "pixels": _pixels,
    "pca": _pca,
    "svd": _svd,
    "ica": _ica,
    "umap": _umap,
    "tfidf-svd": _tfidf_svd,
    "words": _words,
    "cnn of other digits": _cnn_of_other_digits,
    "rica": _rica,
    "simclr": _simclr,
}
