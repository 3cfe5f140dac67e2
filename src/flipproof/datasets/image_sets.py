"""MNIST and its pair 1/7, CIFAR10, and Dogfish, as images or as features."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.datasets.shelf import ORIGINAL, Dataset, PublicFile, Shelf, arrays
from flipproof.parameters import check_parameter, one_of

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
        Keep only these digits.
    data_home : path, optional
        Folder of all data sets, this one in ``mnist/``; see :func:`get_data_home`.
    folder : path, optional
        Folder of the four IDX files themselves, compressed or not. Nothing is downloaded into it.
    download_if_missing : bool
        Download files that are not in the data home.
    check : bool
        Refuse files whose content differs from the published files.

    Returns
    -------
    Dataset
        Its rows, labels and classes, and where they come from.

    See Also
    --------
    flipproof.datasets.Dataset : Rows, labels and their origin.
    flipproof.datasets.load_mnist17 : The digits 1 and 7.

    Examples
    --------
    >>> from flipproof.datasets import load_mnist
    >>> data = load_mnist()
    >>> data.X_train.shape, data.class_names
    ((60000, 784), ('0', '1', '2', '3', '4', '5', '6', '7', '8', '9'))
    """
    shelf = Shelf("MNIST", "mnist", data_home, folder, download_if_missing, check)
    images = [_images(shelf, file) for file in (TRAIN_IMAGES, TEST_IMAGES)]
    labels = [_labels(shelf, file) for file in (TRAIN_LABELS, TEST_LABELS)]
    kept = [np.isin(part, digits) for part in labels]
    classes = tuple(sorted(digits))
    which = "" if len(classes) == 10 else f", digits {', '.join(map(str, classes))}"
    return shelf.dataset(
        f"MNIST{which}",
        (images[0][kept[0]], labels[0][kept[0]], images[1][kept[1]], labels[1][kept[1]]),
        classes=classes,
        class_names=tuple(map(str, classes)),
        cited="MNIST (LeCun, Cortes, Burges)",
        image_shape=(SIDE, SIDE),
    )


def load_mnist17(**where: Any) -> Dataset:
    """Load the digits 1 and 7 of MNIST: 13,007 training and 2,163 test images. Same parameters as `load_mnist`.

    Parameters
    ----------
    **where
        As in :func:`load_mnist`.

    Returns
    -------
    Dataset
        Its rows, labels and classes, and where they come from.

    See Also
    --------
    flipproof.datasets.Dataset : Rows, labels and their origin.
    flipproof.datasets.load_mnist : All ten digits.

    Examples
    --------
    >>> from flipproof.datasets import load_mnist17
    >>> data = load_mnist17()
    >>> data.X_train.shape, data.class_names
    ((13007, 784), ('1', '7'))
    """
    return load_mnist(digits=(1, 7), **where)


def _images(shelf: Shelf, file: PublicFile) -> NDArray[np.uint8]:
    pixels = _idx(shelf, file, IMAGES_MAGIC, 16)
    return pixels.reshape(-1, SIDE * SIDE)


def _labels(shelf: Shelf, file: PublicFile) -> NDArray[np.int64]:
    return _idx(shelf, file, LABELS_MAGIC, 8).astype(np.int64)


def _idx(shelf: Shelf, file: PublicFile, magic: int, header: int) -> NDArray[np.uint8]:
    """Return the values in an IDX file; its header gives its type and its sizes, as big-endian 4-byte integers."""
    content = shelf.read(file)
    head = np.frombuffer(content[:header], dtype=">u4").astype(np.int64)
    if len(content) < header or head[0] != magic or head[1:].prod() != len(content) - header:
        raise OSError(f"{shelf.folder / file.name} is not a valid IDX file: its header does not match its content.")
    return np.frombuffer(content, dtype=np.uint8, offset=header)


NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR_SIDE, CHANNELS = 32, 3
PIXELS = CIFAR_SIDE * CIFAR_SIDE * CHANNELS

BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")
#: SHA-256 of the batches of the binary version: for each image a byte for the label and 3,072 bytes of pixels. Batches
#: of the Python version are converted to this form before they are checked.
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
STRONGER_FEATURES = PublicFile(
    "cifar10_lite2_lite0_pca192.npz",
    {
        "351f10603328305475fc04549e84fbc68ed038ba594297f38f7b6261af642d43": (
            "a stand-in for features learnt on CIFAR10: 192 principal components of an EfficientNet-lite2 and an "
            "EfficientNet-lite0 that were trained on ImageNet with labels"
        )
    },
)
#: Files of features, by kind.
CIFAR_FEATURES = {"lite0": TRANSFER_FEATURES, "lite2": STRONGER_FEATURES}


def load_cifar10(
    *,
    kind: str = "images",
    data_home: str | os.PathLike[str] | None = None,
    folder: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    check: bool = True,
) -> Dataset:
    """Load CIFAR10: 50,000 training and 10,000 test photographs of ten classes.

    Parameters
    ----------
    kind : {"images", "lite0", "lite2"}
        ``"images"``: 32 by 32 pixels in three colours from 0 to 255; row, column, colour. ``"lite0"``: the file
        ``cifar10_lite0_pca128.npz`` of 128 features from a network that saw labels of ImageNet, never those of CIFAR10.
        ``"lite2"``: the file ``cifar10_lite2_lite0_pca192.npz`` of 192 features from that and a larger network.
    data_home : path, optional
        Folder of all data sets, this one in ``cifar10/``; see :func:`get_data_home`.
    folder : path, optional
        Folder with one of the public forms: ``cifar-10-binary.tar.gz``, ``cifar-10-python.tar.gz``, or their contents,
        ``cifar-10-batches-bin/`` or ``cifar-10-batches-py/``. Nothing is downloaded into it.
    download_if_missing : bool
        Download the images (binary version, 170 MB) if they are not in the data home.
    check : bool
        Refuse files whose content differs from the published files.

    Returns
    -------
    Dataset
        Its rows, labels and classes, and where they come from.

    See Also
    --------
    flipproof.datasets.Dataset : Rows, labels and their origin.
    flipproof.datasets.load_mnist : All ten digits.

    Examples
    --------
    >>> from flipproof.datasets import load_cifar10
    >>> data = load_cifar10()  # doctest: +SKIP
    >>> data.X_train.shape, data.class_names  # doctest: +SKIP
    """
    check_parameter("load_cifar10", "kind", kind, one_of("images", *CIFAR_FEATURES))
    shelf = Shelf("CIFAR10", "cifar10", data_home, folder, download_if_missing, check)
    image_shape: tuple[int, ...] | None = None
    if kind in CIFAR_FEATURES:
        data = arrays(shelf, CIFAR_FEATURES[kind], ("X_train", "y_train", "X_test", "y_test"))
        parts = [(data["X_train"], data["y_train"]), (data["X_test"], data["y_test"])]
        parts = [(X.astype(np.float32), y) for X, y in parts]
    else:
        batches = list(_batches(shelf))
        parts = [_joined(batches[:-1]), _joined(batches[-1:])]
        image_shape = (CIFAR_SIDE, CIFAR_SIDE, CHANNELS)
    (X_train, y_train), (X_test, y_test) = parts
    return shelf.dataset(
        f"CIFAR10, {kind}",
        (X_train, y_train.astype(np.int64), X_test, y_test.astype(np.int64)),
        classes=tuple(range(10)),
        class_names=NAMES,
        cited="CIFAR10 (Krizhevsky)",
        image_shape=image_shape,
    )


def _batches(shelf: Shelf) -> Iterator[NDArray[np.uint8]]:
    """Yield the six batches as records of the binary version, each checked."""
    for name, digest, (where, records) in zip(BATCHES, RECORD_DIGESTS, _read_batches(shelf), strict=True):
        batch = PublicFile(name, {digest: ORIGINAL})
        content = shelf.note(batch, where, records)
        if len(content) % (1 + PIXELS):
            raise OSError(f"{where} is not a batch of CIFAR10: its length is not a multiple of {1 + PIXELS}.")
        yield np.frombuffer(content, dtype=np.uint8).reshape(-1, 1 + PIXELS)


def _read_batches(shelf: Shelf) -> Iterator[tuple[str, bytes]]:
    """Yield the location and the records of each batch, from the first form that exists."""
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
        raise OSError(f"{where} is not an archive of CIFAR10: {error}") from error


def _joined(batches: list[NDArray[np.uint8]]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the images, colours last, and the labels."""
    records = np.concatenate(batches)
    images = records[:, 1:].reshape(-1, CHANNELS, CIFAR_SIDE * CIFAR_SIDE).transpose(0, 2, 1)
    return np.ascontiguousarray(images).reshape(-1, PIXELS), records[:, 0]


class _ArraysOnly(pickle.Unpickler):
    """Reads the pickled Python version, restricted to plain values and arrays: no code is ever run."""

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
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed in a batch of images") from None


def records_of_python_batch(content: bytes) -> bytes:
    """Return a batch of the Python version in the form of the binary version."""
    try:
        batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        labels = np.array(batch[b"labels"], dtype=np.uint8)
        return np.column_stack([labels, batch[b"data"].reshape(len(labels), PIXELS)]).tobytes()
    except Exception as error:  # damaged pickles fail in many ways
        raise OSError(f"A batch of the Python version of CIFAR10 is damaged or another file: {error}") from error


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

    Nothing is downloaded: there is no public copy with a published checksum.

    Parameters
    ----------
    kind : {"original-images", "original-features", "tinynet", "lite0", "images"}
        ``"original-images"``: ``dataset_dog-fish_train-900_test-300.npz`` of Koh and Liang (2017), with X_train,
        Y_train, X_test, Y_test. ``"original-features"``: their Inception features,
        ``dogfish_900_300_inception_features_train.npz`` and ``..._test.npz``. The others are a stand-in, and
        `provenance` says so: features of a small ResNet that never saw dogs or fish (``"tinynet"``), of a network that
        was trained on both (``"lite0"``), and 64 by 64 pixels (``"images"``, needs Pillow).
    data_home : path, optional
        Folder of all data sets, this one in ``dogfish/``; see :func:`get_data_home`.
    folder : path, optional
        Folder of the file itself.
    check : bool
        Refuse a stand-in whose content differs from the known file.

    Returns
    -------
    Dataset
        Its rows, labels and classes, and where they come from.

    See Also
    --------
    flipproof.datasets.Dataset : Rows, labels and their origin.
    flipproof.datasets.load_cifar10 : Photographs of ten classes.

    Examples
    --------
    >>> from flipproof.datasets import load_dogfish
    >>> data = load_dogfish()
    >>> data.X_train.shape, data.class_names
    ((1800, 256), ('fish', 'dog'))
    """
    check_parameter("load_dogfish", "kind", kind, one_of(*KINDS))
    shelf = Shelf("Dogfish", "dogfish", data_home, folder, False, check)
    if kind.startswith("original"):
        X_train, y_train, X_test, y_test = _original(shelf, kind)
        names, said = ORIGINAL_CLASSES, "Dogfish (Koh and Liang 2017), by the names of its files the original"
    else:
        X_train, y_train, X_test, y_test = _stand_in(shelf, kind)
        names, said = STAND_IN_CLASSES, "Not Dogfish itself"
    shape = X_train.shape[1:] if X_train.ndim > 2 else None
    return shelf.dataset(
        "Dogfish, original" if kind.startswith("original") else f"Dogfish stand-in, {kind}",
        (
            X_train.reshape(len(X_train), -1),
            y_train.astype(np.int64).ravel(),
            X_test.reshape(len(X_test), -1),
            y_test.astype(np.int64).ravel(),
        ),
        classes=(0, 1),
        class_names=names,
        cited=said,
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
    """Return the JPEG images in `content` as pixels."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("Images of the Dogfish stand-in are JPEG: pip install 'flipproof[images]'.") from error
    return np.stack(
        [np.asarray(Image.open(io.BytesIO(content[start:end].tobytes()))) for start, end in pairwise(offsets)]
    )
