"""The label-free feature maps of the experiments, by the names that they have in a spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer

from flipproof import datasets
from flipproof.datasets import Dataset
from flipproof.datasets.files import Shelf

#: Where the word vectors can be had that the spec of a run names by their usual name.
GLOVE = "https://nlp.stanford.edu/data/glove.6B.zip"


@dataclass(frozen=True)
class Setting:
    """What a feature map may be made with, besides its rows and its parameters.

    Attributes
    ----------
    data : Dataset
        Of the experiment.
    data_dir : path or None
        Folder of all data sets.
    folder : path
        Where networks are kept while they are trained.
    seed : int
        Of everything random.
    verbose : int
        1: networks say a line for every epoch.
    """

    data: Dataset
    data_dir: Path | None
    folder: Path
    seed: int
    verbose: int

    def checkpoint(self, kind: str) -> Path:
        """Return where a network that is being trained is kept, so that a run that was stopped goes on with it."""
        return self.folder / f"{kind}.pt".replace(" ", "-")

    def training(self, kind: str) -> dict[str, Any]:
        """Return the parameters that all networks are trained with."""
        return {"random_state": self.seed, "checkpoint": self.checkpoint(kind), "verbose": self.verbose}


def check_installed(kind: str) -> None:
    """Raise the error that says what to install, if a feature map needs a package that is not there."""
    module, extra = PACKAGES.get(kind, ("", ""))
    if module and find_spec(module) is None:
        raise ImportError(f"Features of the kind {kind!r} need {module}: pip install 'flipproof[{extra}]'.")


def word_vectors(data_dir: Path | None, names: Sequence[str]) -> Path:
    """Return the first file of word vectors that is in the folder of the data sets."""
    shelf = Shelf("GloVe", "glove", data_dir, None, download_if_missing=False, check=False)
    for name in names:
        if (shelf.folder / name).is_file():
            return shelf.folder / name
    raise shelf.missing(" or ".join(names), GLOVE)


def _pixels(setting: Setting, parameters: dict[str, Any]) -> Any:
    return FunctionTransformer(_to_unit_range)


def _to_unit_range(pixels: NDArray[Any]) -> NDArray[np.float32]:
    return np.asarray(pixels, dtype=np.float32) / np.float32(255)


def _pca(setting: Setting, parameters: dict[str, Any]) -> Any:
    from flipproof.features import pca_features

    return pca_features(random_state=setting.seed, **parameters)


def _svd(setting: Setting, parameters: dict[str, Any]) -> Any:
    return TruncatedSVD(random_state=setting.seed, **parameters)


def _ica(setting: Setting, parameters: dict[str, Any]) -> Any:
    from flipproof.features import ica_features

    return ica_features(random_state=setting.seed, **parameters)


def _umap(setting: Setting, parameters: dict[str, Any]) -> Any:
    from flipproof.features import UMAPFeatures

    return UMAPFeatures(random_state=setting.seed, **parameters)


def _tfidf_svd(setting: Setting, parameters: dict[str, Any]) -> Any:
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


#: Kinds that are trained by PyTorch.
NETWORKS = ("cnn of other digits", "simclr")

#: Kinds that need a package of an extra: its module, and the extra.
PACKAGES = {**dict.fromkeys(NETWORKS, ("torch", "deep")), "umap": ("umap", "umap")}

#: From a kind in a spec to a transformer that has not been fitted yet; None for rows that are features already.
BUILDERS: Mapping[str, Callable[[Setting, dict[str, Any]], Any]] = {
    "given": lambda setting, parameters: None,
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
