"""CIFAR10: images from any of its public forms, or features of a network that was trained on ImageNet."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.datasets.archives import arrays
from flipproof.datasets.files import ORIGINAL, PublicFile, Shelf
from flipproof.datasets.result import Dataset

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE, CHANNELS = 32, 3
PIXELS = SIDE * SIDE * CHANNELS

BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
#: SHA-256 of the batches of the binary version: a byte for the label, 3,072 for the image, and so on. Batches of the
#: Python version are brought into this form before they are checked.
RECORD_DIGESTS = (
    "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
)
BINARY_ARCHIVE = PublicFile(
    "cifar-10-binary.tar.gz",
    {"c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd": ORIGINAL},
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
)
PYTHON_ARCHIVE = PublicFile(
    "cifar-10-python.tar.gz", {"6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce": ORIGINAL}
)
BINARY_FOLDER, PYTHON_FOLDER = "cifar-10-batches-bin", "cifar-10-batches-py"

TRANSFER_FEATURES = PublicFile(
    "cifar10_lite0_pca128.npz",
    {
        "1f4c0bf97fcd12caa96f3fa5afb4c815d1ec092adc1923ac247317667a79951b": (
            "a stand-in for features learnt on CIFAR10: 128 principal components of an EfficientNet-lite0 that was "
            "trained on ImageNet with labels"
        )
    },
)


def load_cifar10(
    *,
    kind: str = "images",
    data_home: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    check: bool = True,
) -> Dataset:
    """Load CIFAR10: 50,000 training and 10,000 test photographs of ten kinds of things.

    Parameters
    ----------
    kind : {"images", "lite0"}
        ``"images"``: 32 by 32 pixels in three colours from 0 to 255; row, column, colour. ``"lite0"``: the file
        ``cifar10_lite0_pca128.npz`` of 128 features from a network that saw labels of ImageNet, never those of CIFAR10.
    data_home : path, optional
        Folder of all data sets, this one in ``cifar10/``; see :func:`get_data_home`.
    folder : path, optional
        Folder that holds one of the public forms: ``cifar-10-binary.tar.gz``, ``cifar-10-python.tar.gz``, or what is in
        them, ``cifar-10-batches-bin/`` or ``cifar-10-batches-py/``. Nothing is downloaded into it.
    download_if_missing : bool
        Fetch the images (binary version, 170 MB) if they are not in the data home.
    check : bool
        Refuse files whose content is not that of the published ones.

    Returns
    -------
    Dataset
    """
    shelf = Shelf("CIFAR10", "cifar10", data_home, folder, download_if_missing, check)
    image_shape: tuple[int, ...] | None = None
    if kind == "lite0":
        data = arrays(shelf, TRANSFER_FEATURES, ("X_train", "y_train", "X_test", "y_test"))
        parts = [(data["X_train"], data["y_train"]), (data["X_test"], data["y_test"])]
        parts = [(X.astype(np.float32), y) for X, y in parts]
    elif kind == "images":
        batches = list(_batches(shelf))
        parts = [_joined(batches[:-1]), _joined(batches[-1:])]
        image_shape = (SIDE, SIDE, CHANNELS)
    else:
        raise ValueError(f"The 'kind' parameter of load_cifar10 must be 'images' or 'lite0'. Got {kind!r} instead.")
    (X_train, y_train), (X_test, y_test) = parts
    return Dataset(
        name=f"CIFAR10, {kind}",
        X_train=X_train,
        y_train=y_train.astype(np.int64),
        X_test=X_test,
        y_test=y_test.astype(np.int64),
        classes=tuple(range(10)),
        class_names=NAMES,
        provenance=f"CIFAR10 (Krizhevsky). {shelf.origins()}.",
        checksums=shelf.checksums,
        image_shape=image_shape,
    )


def _batches(shelf: Shelf) -> Iterator[NDArray[np.uint8]]:
    """Yield the six batches as records of the binary version, each checked."""
    for name, digest, (where, records) in zip(BATCHES, RECORD_DIGESTS, _read_batches(shelf), strict=True):
        batch = PublicFile(name, {digest: ORIGINAL})
        content = shelf.note(batch, where, records)
        if len(content) % (1 + PIXELS):
            raise OSError(f"{where} is no batch of CIFAR10: its length is no multiple of {1 + PIXELS}.")
        yield np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + PIXELS)


def _read_batches(shelf: Shelf) -> Iterator[tuple[str, bytes]]:
    """Yield where each batch is and its records, from the first form that is there."""
    for name in (BINARY_FOLDER, PYTHON_FOLDER):
        folder = shelf.folder / name
        if folder.is_dir():
            suffix, in_records = (".bin", bytes) if name == BINARY_FOLDER else ("", records_of_python_batch)
            for batch in BATCHES:
                path = folder / f"{batch}{suffix}"
                if not path.is_file():
                    raise shelf.missing(f"{name}/{path.name}", BINARY_ARCHIVE.url)
                yield str(path), in_records(path.read_bytes())
            return
    if shelf.find(PYTHON_ARCHIVE):
        yield from _members(shelf, PYTHON_ARCHIVE, PYTHON_FOLDER)
    else:
        yield from _members(shelf, BINARY_ARCHIVE, BINARY_FOLDER)


def _members(shelf: Shelf, file: PublicFile, inner: str) -> Iterator[tuple[str, bytes]]:
    content, where = shelf.read(file), shelf.folder / file.name
    suffix, in_records = (".bin", bytes) if inner == BINARY_FOLDER else ("", records_of_python_batch)
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for batch in BATCHES:
                member = archive.extractfile(f"{inner}/{batch}{suffix}")
                assert member is not None
                yield f"{where}, {batch}", in_records(member.read())
    except (tarfile.TarError, KeyError, EOFError) as error:
        raise OSError(f"{where} is no archive of CIFAR10: {error}") from error


def _joined(batches: list[NDArray[np.uint8]]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the images, colours last, and the labels."""
    records = np.concatenate(batches)
    images = records[:, 1:].reshape(-1, CHANNELS, SIDE * SIDE).transpose(0, 2, 1)
    return np.ascontiguousarray(images).reshape(-1, PIXELS), records[:, 0]


class _ArraysOnly(pickle.Unpickler):
    """Reads the Python version, which is pickled, but nothing except plain values and arrays: no code is ever run."""

    allowed = {  # noqa: RUF012
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self.allowed[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a batch of images") from None


def records_of_python_batch(content: bytes) -> bytes:
    """Return a batch of the Python version in the form of the binary version."""
    try:
        batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        labels = np.array(batch[b"labels"], dtype=np.uint8)
        return np.column_stack([labels, batch[b"data"].reshape(len(labels), PIXELS)]).tobytes()
    except Exception as error:  # damaged pickles fail in many ways
        raise OSError(f"A batch of the Python version of CIFAR10 is damaged or another file: {error}") from error
