"""Data of an experiment and its label-free features, stored as 16-bit numbers so that runs can start from them."""

from __future__ import annotations

import io
import json
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, QuantileTransformer

from flipproof import datasets
from flipproof.core.rounding import Values
from flipproof.datasets import Dataset
from flipproof.datasets.shelf import Shelf
from flipproof.experiments.manifest import MADE_WITH, environment, misfit
from flipproof.experiments.spec import Experiment, FeatureSpec
from flipproof.features.training import TRAINER, torch_for
from flipproof.runtime.determinism import single_threaded
from flipproof.runtime.files import digest_of_file, write_whole

#: Errors that reading a damaged archive may raise.
UNREADABLE = (
    *(OSError, EOFError, ValueError, LookupError, AttributeError, TypeError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, MemoryError),
)

#: Training and test rows.
Rows = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class FeatureFile:
    """The content of a file of features.

    Attributes
    ----------
    rows : pair of 16-bit arrays
        Training and test rows.
    recipe : str
        Everything that determines them except libraries and processors.
    made_with : mapping
        Libraries and kernels, and the checksums of the data.
    """

    rows: Rows
    recipe: str
    made_with: Mapping[str, Any]


def write_features(path: Path, features: FeatureFile) -> None:
    """Write a file of features."""
    texts = {"recipe": features.recipe, "made_with": json.dumps(features.made_with, sort_keys=True)}
    train, test = features.rows
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {name: np.frombuffer(text.encode(), dtype=np.uint8) for name, text in texts.items()}
    np.savez_compressed(buffer, train=train, test=test, **arrays)
    write_whole(path, buffer.getvalue())


def read_features(path: Path) -> FeatureFile:
    """Return the content of a file of features."""
    content = io.BytesIO(path.read_bytes())
    try:
        with np.load(content, allow_pickle=False) as arrays:
            recipe, made_with = (arrays[name].tobytes().decode() for name in ("recipe", "made_with"))
            file = FeatureFile((arrays["train"], arrays["test"]), recipe, json.loads(made_with))
        _check(file)
    except UNREADABLE as error:
        raise OSError(f"{path} is damaged. Delete it to compute the features again. ({error})") from error
    return file


def _check(file: FeatureFile) -> None:
    for rows in file.rows:
        if rows.dtype != np.float16 or rows.ndim != 2 or not np.isfinite(rows).all():
            raise ValueError("it must contain two tables of 16-bit numbers")
    if file.rows[0].shape[1] != file.rows[1].shape[1]:
        raise ValueError("training and test rows have different numbers of columns")
    if wrong := misfit(file.made_with, MADE_WITH, "its record"):
        raise ValueError(wrong)


#: Where the word vectors that specs name can be downloaded.
GLOVE = "https://nlp.stanford.edu/data/glove.6B.zip"


@dataclass(frozen=True)
class Setting:
    """What the builders of feature maps need, in addition to rows and parameters.

    Attributes
    ----------
    data : Dataset
        Data of the experiment.
    data_dir : path or None
        Folder of all data sets.
    folder : path
        Folder of the checkpoints of networks.
    seed : int
        Seed of everything random.
    verbose : int
        1: networks print a line after every epoch.
    """

    data: Dataset
    data_dir: Path | None
    folder: Path
    seed: int
    verbose: int

    def checkpoint(self, kind: str) -> Path:
        """Return the path of the checkpoint of a network, from which an interrupted run resumes."""
        return self.folder / f"{kind}.pt".replace(" ", "-")

    def training(self, kind: str) -> dict[str, Any]:
        """Return the training parameters that all networks share."""
        return {"random_state": self.seed, "checkpoint": self.checkpoint(kind), "verbose": self.verbose}


#: Import names and usual names of the packages that experiments need, in addition to those of the command.
PACKAGE_NAMES = {"matplotlib": "matplotlib", "PIL": "pillow", "torch": "PyTorch", "umap": "umap-learn"}


class MissingPackagesError(ImportError):
    """Some packages that experiments need are not installed; the message names all of them.

    Attributes
    ----------
    packages : frozenset of str
        Import names of the missing packages.
    """

    def __init__(self, packages: Iterable[str]) -> None:
        self.packages = frozenset(packages)
        names = ", ".join(sorted((PACKAGE_NAMES[package] for package in self.packages), key=str.lower))
        super().__init__(f"Missing packages: {names}. Install all: pip install 'flipproof[reproduce]'.")


class MissingDataError(FileNotFoundError):
    """Files that experiments need are missing, and perhaps packages; the message names all of them.

    Attributes
    ----------
    messages : tuple of str
        What to put where, once for each file.
    packages : frozenset of str
        Import names of the missing packages.
    """

    def __init__(self, messages: Iterable[str], packages: Iterable[str] = ()) -> None:
        self.messages = tuple(dict.fromkeys(messages))
        self.packages = frozenset(packages)
        not_installed = [str(MissingPackagesError(self.packages))] if self.packages else []
        super().__init__(" ".join([*self.messages, *not_installed]))


def packages_not_installed(experiment: Experiment) -> set[str]:
    """Return the packages that an experiment needs if nothing of it is stored, and that are not installed."""
    needed = [run.features for run in experiment.runs if not run.only_with]
    kinds = {spec.kind for name in needed for spec in experiment.chain(name)}
    readers = {READERS.get((experiment.data["loader"], experiment.other_form(name))) for name in needed}
    packages = {"matplotlib", *(PACKAGES[kind] for kind in kinds if kind in PACKAGES), *filter(None, readers)}
    return not_installed(packages)


def not_installed(packages: Iterable[str]) -> set[str]:
    """Return those of the packages that are not installed."""
    return {package for package in packages if find_spec(package) is None}


def check_installed(packages: Iterable[str]) -> None:
    """Raise one error that names all of these packages that are not installed."""
    if missing := not_installed(packages):
        raise MissingPackagesError(missing)


def word_vectors(data_dir: Path | None, names: Sequence[str]) -> Path:
    """Return the first of these files of word vectors that is in the folder of the data sets."""
    shelf = Shelf("GloVe", "glove", data_dir, None, download_if_missing=False, check=False)
    for name in names:
        if (shelf.folder / name).is_file():
            return shelf.folder / name
    raise shelf.missing(" or ".join(names), GLOVE)


def _pixels(setting: Setting, parameters: dict[str, object]) -> Any:
    return FunctionTransformer(_to_unit_range)


def _to_unit_range(pixels: Values) -> NDArray[np.float32]:
    return np.asarray(pixels, dtype=np.float32) / np.float32(255)


def _pca(setting: Setting, parameters: dict[str, Any]) -> Any:
    from flipproof.features import pca_features

    return pca_features(random_state=setting.seed, **parameters)


def _svd(setting: Setting, parameters: dict[str, object]) -> Any:
    return TruncatedSVD(random_state=setting.seed, **parameters)


def _ica(setting: Setting, parameters: dict[str, Any]) -> Any:
    from flipproof.features import ica_features

    return ica_features(random_state=setting.seed, **parameters)


def _umap(setting: Setting, parameters: dict[str, Any]) -> Any:
    from flipproof.features import UMAPFeatures

    return UMAPFeatures(random_state=setting.seed, **parameters)


def _frozen_umap(setting: Setting, parameters: dict[str, Any]) -> Any:
    """UMAP of the rows that it is fitted to; others by their nearest ones among these, with the same metric."""
    from flipproof.features import FrozenMap, UMAPFeatures

    umap = UMAPFeatures(random_state=setting.seed, **parameters)
    return FrozenMap(umap, metric=umap.metric)


def _straightened(setting: Setting, parameters: dict[str, Any]) -> Any:
    from flipproof.features import StraightenedImages

    return make_pipeline(StraightenedImages(**parameters), FunctionTransformer(_to_unit_range))


def _written_ratings(setting: Setting, parameters: dict[str, Any]) -> Any:
    """Weak supervision by ratings in reviews: the scores of three classifiers, and what the ratings say."""
    from flipproof.features import NaiveBayesWeights, WeakSupervision, rating_rules

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=parameters.pop("min_df"))
    vectors = TruncatedSVD(parameters.pop("n_components"), random_state=setting.seed)
    plain, weighted, reduced = (LogisticRegression(C=C, max_iter=1000) for C in (10.0, 3.0, 10.0))
    return WeakSupervision(
        rating_rules(*setting.data.classes),
        estimator=[plain, make_pipeline(NaiveBayesWeights(), weighted), reduced],
        features=[words, words, make_pipeline(words, vectors)],
        classes=setting.data.classes,
        squash=True,
        **parameters,
    )


def _ranks(setting: Setting, parameters: dict[str, object]) -> Any:
    """The share of training rows with a smaller value, for each column."""
    return QuantileTransformer(subsample=None, random_state=setting.seed, **parameters)


def _tfidf_svd(setting: Setting, parameters: dict[str, object]) -> Any:
    """TF-IDF with damped counts, then a singular value decomposition, rows of length 1."""
    n_components = parameters.pop("n_components")
    words = TfidfVectorizer(sublinear_tf=True, **parameters)
    return make_pipeline(words, TruncatedSVD(n_components, random_state=setting.seed), Normalizer())


def _words(setting: Setting, parameters: dict[str, Any]) -> Any:
    from flipproof.features import WordVectors

    return WordVectors(word_vectors(setting.data_dir, parameters.pop("files")), **parameters)


def _cnn_of_other_digits(setting: Setting, parameters: dict[str, Any]) -> Any:
    from flipproof.features import CNNFeatures

    others = tuple(set(range(10)) - set(setting.data.classes))
    rest = datasets.load_mnist(digits=others, data_home=setting.data_dir)
    few = parameters.pop("rows", len(rest.y_train))
    return CNNFeatures(rest.X_train[:few], rest.y_train[:few], **setting.training("cnn of other digits"), **parameters)


def _rica(setting: Setting, parameters: dict[str, Any]) -> Any:
    from flipproof.features import RICA

    return RICA(random_state=setting.seed, image_shape=tuple(parameters.pop("image_shape")), **parameters)


def _simclr(setting: Setting, parameters: dict[str, Any]) -> Any:
    from flipproof.features import SimCLRFeatures

    shape = tuple(parameters.pop("image_shape"))
    return SimCLRFeatures(image_shape=shape, **setting.training("simclr"), **parameters)


#: Kinds that are trained with PyTorch.
NETWORKS = ("cnn of other digits", "simclr")

#: Kinds that need an optional package, by its import name.
PACKAGES = {**dict.fromkeys(NETWORKS, "torch"), "umap": "umap", "frozen umap": "umap"}

#: The package that reads another form of a data set (loader and form).
READERS: Mapping[tuple[str, str | None], str] = {("dogfish", "images"): "PIL"}

#: From a kind in a spec to an unfitted transformer; None for rows that are features already.
BUILDERS: Mapping[str, Callable[[Setting, dict[str, Any]], Any]] = {
    "given": lambda setting, parameters: None,
    "pixels": _pixels,
    "straightened": _straightened,
    "pca": _pca,
    "svd": _svd,
    "ica": _ica,
    "umap": _umap,
    "frozen umap": _frozen_umap,
    "tfidf-svd": _tfidf_svd,
    "words": _words,
    "ranks": _ranks,
    "written ratings": _written_ratings,
    "cnn of other digits": _cnn_of_other_digits,
    "rica": _rica,
    "simclr": _simclr,
}


Say = Callable[[str], None]


@dataclass(frozen=True)
class Slice:
    """The rows of a data set that a run uses: all, or a few for a quick run."""

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    is_quick: bool


def load(experiment: Experiment, data_dir: Path | None, **other: object) -> Dataset:
    """Load the data of an experiment; other parameters load another form of it."""
    parameters = {**experiment.data, **other}
    loader = getattr(datasets, f"load_{parameters.pop('loader')}")
    data: Dataset = loader(data_home=data_dir, **parameters)
    return data


def slice_of(experiment: Experiment, data: Dataset, quick: bool, seed: int) -> Slice:
    """Return all rows, or for a quick run as many as the spec says, drawn without using labels."""
    n, m = len(data.y_train), len(data.y_test)
    if not quick:
        return Slice(np.arange(n), np.arange(m), is_quick=False)
    rng = np.random.default_rng(seed)
    few = (min(experiment.quick.get(name, 500), size) for name, size in (("train_rows", n), ("test_rows", m)))
    train, test = (np.sort(rng.choice(size, kept, replace=False)) for size, kept in zip((n, m), few, strict=True))
    return Slice(train, test, is_quick=True)


class FeatureStore:
    """The features of an experiment: read from a folder if they are complete, else computed and stored there.

    Computed features are rounded to 16 bits *before* anything is fitted to them, so a run from the stored file and a
    run from scratch are identical.
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

        Other forms of the data, like images, are not included: their loaders accept only the published files.
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
        """Return the checksum of the file of word vectors that the features use, if any."""
        files = [spec.parameters["files"] for spec in self.experiment.chain(name) if spec.kind == "words"]
        paths = (word_vectors(self._setting.data_dir, names) for names in files)
        return {path.name: digest_of_file(path) for path in paths}

    def kept(self, name: str) -> FeatureFile | None:
        """Return the stored features; None if there are none, or if they have another recipe."""
        path = self.path(name)
        if not self.experiment.features[name].keep or not path.exists():
            return None
        file = read_features(path)
        if file.recipe != self.recipe(name):
            return None
        if tuple(map(len, file.rows)) != (len(self.part.train), len(self.part.test)):
            raise OSError(f"{path} is damaged. Delete it to compute the features again. (It lacks rows.)")
        return file

    def check(self, name: str) -> None:
        """Raise an error that says which file to provide or what to install, if features cannot be computed.

        If they start from another form of the data, it is loaded once, and downloaded if necessary and possible.
        """
        self._check_form(name)
        check_installed(self.packages(name))

    def missing(self, names: Iterable[str]) -> list[str]:
        """Return which files are missing to compute features, one message for each."""
        messages: dict[str, None] = {}
        for name in names:
            try:
                self._check_form(name)
            except FileNotFoundError as error:
                messages[str(error)] = None
            except ImportError:  # the files are there; `packages` names what reads them
                continue
        return list(messages)

    def _check_form(self, name: str) -> None:
        kind = self.experiment.other_form(name)
        if kind is not None and self._to_compute(name) == self.experiment.chain(name):
            self._form(kind)

    def packages(self, name: str) -> set[str]:
        """Return the packages that are needed to compute features."""
        to_compute = self._to_compute(name)
        needed = {PACKAGES[spec.kind] for spec in to_compute if spec.kind in PACKAGES}
        reader = READERS.get((self.experiment.data["loader"], self.experiment.other_form(name)))
        return needed | ({reader} if reader and to_compute == self.experiment.chain(name) else set())

    def _to_compute(self, name: str) -> list[FeatureSpec]:
        """Return the feature maps that must be computed because they are not stored, the last one first."""
        return list(takewhile(lambda spec: self.kept(spec.name) is None, self.experiment.chain(name)))

    def path(self, name: str) -> Path:
        """Return the path of the stored features."""
        return self._setting.folder / f"{name}.npz"

    def checksum(self, name: str) -> str:
        """Return the checksum of the file of features; empty if they are not stored."""
        is_there = self.experiment.features[name].keep and self.path(name).exists()
        return digest_of_file(self.path(name)) if is_there else ""

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
        """Return the checksums of the data that features, or stored features that they build on, were computed from."""
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
            raise ValueError(f"Unknown kind of features {spec.kind!r}. Known: {', '.join(sorted(BUILDERS))}.")
        n_fitted = parameters.pop("fit_rows", len(X) // parameters.pop("fit_one_in", 1))
        transformer = build(self._setting, parameters)
        if transformer is None:
            return X, Z
        with _one_thread(spec.kind):
            transformer.fit(X[:n_fitted])  # without labels
            return tuple(np.asarray(transformer.transform(rows)) for rows in (X, Z))  # type: ignore[return-value]

    def _given(self, kind: str | None) -> Rows:
        """Return the rows of the data set, or of another form of it, for example images instead of features."""
        data = self._setting.data if kind is None else self._form(kind)
        return data.X_train[self.part.train], data.X_test[self.part.test]

    def _form(self, kind: str) -> Dataset:
        """Return another form of the data; it is searched for only once."""
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
    """Compute features on one thread: with several, the last bits of sums differ, and training amplifies this."""
    if kind in NETWORKS:
        torch_for(f"The feature map {kind!r}")  # imported first: the limit does not apply to later imports
    with single_threaded():
        yield
