"""MNIST, and its pair 1 and 7."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.datasets.files import ORIGINAL, PublicFile, Shelf
from flipproof.datasets.result import Dataset

SIDE = 28
#: First bytes of an IDX file: unsigned bytes in one (labels) or three (images) dimensions.
LABELS_MAGIC, IMAGES_MAGIC = 2049, 2051
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist"


def _file(name: str, digest: str) -> PublicFile:
    return PublicFile(name, {digest: ORIGINAL}, f"{MIRROR}/{name}.gz")


TRAIN_IMAGES = _file("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db")
TRAIN_LABELS = _file("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5")
TEST_IMAGES = _file("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7")
TEST_LABELS = _file("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2")


def load_mnist(
    *,
    digits: tuple[int, ...] = tuple(range(10)),
    data_home: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    check: bool = True,
) -> Dataset:
    """Load MNIST: 60,000 training and 10,000 test images of handwritten digits, 28 by 28 pixels from 0 to 255.

    Parameters
    ----------
    digits : tuple of int
        Keep these digits only.
    data_home : path, optional
        Folder of all data sets, this one in ``mnist/``; see :func:`get_data_home`.
    folder : path, optional
        Folder of the four IDX files themselves, compressed or not. Nothing is downloaded into it.
    download_if_missing : bool
        Fetch files that are not in the data home.
    check : bool
        Refuse files whose content is not that of the published ones.

    Returns
    -------
    Dataset
    """
    shelf = Shelf("MNIST", "mnist", data_home, folder, download_if_missing, check)
    images = [_images(shelf, file) for file in (TRAIN_IMAGES, TEST_IMAGES)]
    labels = [_labels(shelf, file) for file in (TRAIN_LABELS, TEST_LABELS)]
    kept = [np.isin(part, digits) for part in labels]
    classes = tuple(sorted(digits))
    which = "" if len(classes) == 10 else f", digits {', '.join(map(str, classes))}"
    return Dataset(
        name=f"MNIST{which}",
        X_train=images[0][kept[0]],
        y_train=labels[0][kept[0]],
        X_test=images[1][kept[1]],
        y_test=labels[1][kept[1]],
        classes=classes,
        class_names=tuple(map(str, classes)),
        provenance=f"MNIST (LeCun, Cortes, Burges). {shelf.origins()}.",
        checksums=shelf.checksums,
        image_shape=(SIDE, SIDE),
    )


def load_mnist17(**where: Any) -> Dataset:
    """Load the digits 1 and 7 of MNIST: 13,007 training and 2,163 test images. Parameters as of :func:`load_mnist`."""
    return load_mnist(digits=(1, 7), **where)


def _images(shelf: Shelf, file: PublicFile) -> NDArray[np.uint8]:
    pixels = _idx(shelf, file, IMAGES_MAGIC, 16)
    return pixels.reshape(-1, SIDE * SIDE)


def _labels(shelf: Shelf, file: PublicFile) -> NDArray[np.int64]:
    return _idx(shelf, file, LABELS_MAGIC, 8).astype(np.int64)


def _idx(shelf: Shelf, file: PublicFile, magic: int, header: int) -> NDArray[np.uint8]:
    """Return the values in an IDX file; its header names its kind and its sizes, as big-endian numbers of 4 bytes."""
    content = shelf.read(file)
    head = np.frombuffer(content[:header], dtype=">u4").astype(np.int64)
    if len(content) < header or head[0] != magic or head[1:].prod() != len(content) - header:
        raise OSError(f"{shelf.folder / file.name} is no IDX file of its kind: its header does not fit its content.")
    return np.frombuffer(content, dtype=np.uint8, offset=header)
