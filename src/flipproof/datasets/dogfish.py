"""Dogfish: dogs against fish from ImageNet, as published or as a stand-in of other images."""

from __future__ import annotations

import io
import os
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.datasets.archives import arrays
from flipproof.datasets.files import PublicFile, Shelf
from flipproof.datasets.result import Dataset

ORIGINAL_IMAGES = PublicFile("dataset_dog-fish_train-900_test-300.npz")
ORIGINAL_FEATURES = tuple(PublicFile(f"dogfish_900_300_inception_features_{part}.npz") for part in ("train", "test"))

_STAND_IN = "a stand-in for Dogfish: English springers against tenches of Imagenette, {}"
STAND_INS = {
    "tinynet": PublicFile(
        "dogfish_imagenette_tinynet.npz",
        {
            "43a3d8a252503a573cbcffa80f83b34916d1e658585812448b68521e108a0a5f": _STAND_IN.format(
                "256 features of a small ResNet that never saw a label of a dog or a fish"
            )
        },
    ),
    "lite0": PublicFile(
        "dogfish_imagenette_lite0.npz",
        {
            "8529454162a7b7603aceb2a56aa77c1349af99d232aaab061f513be23fe94e41": _STAND_IN.format(
                "1280 features of an EfficientNet-lite0 that was trained on ImageNet with labels of both"
            )
        },
    ),
    "images": PublicFile(
        "dogfish_imagenette_64px_jpeg.npz",
        {"4bcca1a950c84c2f8c0fc4163a1d3925f85a4784b730bb09cf51b7c88ce41556": _STAND_IN.format("64 by 64 pixels")},
    ),
}
STAND_IN_CLASSES = ("fish", "dog")
ORIGINAL_CLASSES = ("dog", "fish")
KINDS = ("original-images", "original-features", *STAND_INS)


def load_dogfish(
    *,
    kind: str = "tinynet",
    data_home: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    check: bool = True,
) -> Dataset:
    """Load 1,800 training and 600 test images of dogs and fish, or features of them.

    There is no public copy with a published checksum: nothing is downloaded.

    Parameters
    ----------
    kind : {"original-images", "original-features", "tinynet", "lite0", "images"}
        ``"original-images"``: ``dataset_dog-fish_train-900_test-300.npz`` of Koh and Liang (2017), which holds X_train,
        Y_train, X_test, Y_test. ``"original-features"``: their Inception features,
        ``dogfish_900_300_inception_features_train.npz`` and ``..._test.npz``. The others are a stand-in, and
        `provenance` says so: features of a small ResNet that never saw dogs or fish (``"tinynet"``), of a network that
        was trained on both (``"lite0"``), and 64 by 64 pixels (``"images"``, needs Pillow).
    data_home : path, optional
        Folder of all data sets, this one in ``dogfish/``; see :func:`get_data_home`.
    folder : path, optional
        Folder of the file itself.
    check : bool
        Refuse a stand-in whose content is not the known one.

    Returns
    -------
    Dataset
    """
    shelf = Shelf("Dogfish", "dogfish", data_home, folder, False, check)
    if kind not in KINDS:
        raise ValueError(f"The 'kind' parameter of load_dogfish must be one of {KINDS}. Got {kind!r} instead.")
    if kind.startswith("original"):
        X_train, y_train, X_test, y_test = _original(shelf, kind)
        names, said = ORIGINAL_CLASSES, "Dogfish (Koh and Liang 2017), by the names of its files the original"
    else:
        X_train, y_train, X_test, y_test = _stand_in(shelf, kind)
        names, said = STAND_IN_CLASSES, "Not Dogfish itself"
    shape = X_train.shape[1:] if X_train.ndim > 2 else None
    return Dataset(
        name="Dogfish, original" if kind.startswith("original") else f"Dogfish stand-in, {kind}",
        X_train=X_train.reshape(len(X_train), -1),
        y_train=y_train.astype(np.int64).ravel(),
        X_test=X_test.reshape(len(X_test), -1),
        y_test=y_test.astype(np.int64).ravel(),
        classes=(0, 1),
        class_names=names,
        provenance=f"{said}. {shelf.origins()}.",
        checksums=shelf.checksums,
        image_shape=shape,
    )


def _original(shelf: Shelf, kind: str) -> list[NDArray[Any]]:
    if kind == "original-images":
        names = ("X_train", "Y_train", "X_test", "Y_test")
        return list(arrays(shelf, ORIGINAL_IMAGES, names).values())
    parts = [arrays(shelf, file, ("inception_features_val", "labels")) for file in ORIGINAL_FEATURES]
    return [array for part in parts for array in part.values()]


def _stand_in(shelf: Shelf, kind: str) -> list[NDArray[Any]]:
    if kind != "images":
        X, y, Z, truth = arrays(shelf, STAND_INS[kind], ("X_train", "y_train", "X_test", "y_test")).values()
        return [X.astype(np.float32), y, Z.astype(np.float32), truth]
    names = ("train_bytes", "train_offsets", "test_bytes", "test_offsets", "y_train", "y_test")
    data = arrays(shelf, STAND_INS[kind], names)
    X, Z = (_decoded(data[f"{part}_bytes"], data[f"{part}_offsets"]) for part in ("train", "test"))
    return [X, data["y_train"], Z, data["y_test"]]


def _decoded(content: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return JPEG images, one after the other in `content`, as pixels."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Images of the Dogfish stand-in are JPEG: pip install 'flipproof[images]'.") from error
    return np.stack(
        [np.asarray(Image.open(io.BytesIO(content[start:end].tobytes()))) for start, end in pairwise(offsets)]
    )
