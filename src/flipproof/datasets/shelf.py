"""Find, check and, where they are missing, download the files of a data set."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray

from flipproof.files import digest_of, write_whole

#: Seconds without an answer after which a server is given up.
TIMEOUT = 30.0


def fetch(url: str, member: str | None = None) -> bytes:
    """Return what is at a URL, or one file of the zip archive that is there; OSError where that fails."""
    request = Request(url, headers={"User-Agent": "flipproof"})
    try:
        with urlopen(request, timeout=TIMEOUT) as answer:
            content: bytes = answer.read()
    except HTTPError as error:
        error.close()
        raise
    if member is None:
        return content
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            return archive.read(member)
    except (zipfile.BadZipFile, KeyError) as error:
        raise OSError(f"no {member} in the archive: {error}") from error


def wrong_checksum(where: str, expected: Iterable[str], actual: str) -> OSError:
    """Return the error that says that a file is not what it should be."""
    wanted = " or ".join(expected)
    return OSError(f"{where} is damaged or another file: its content has the SHA-256 {actual}, expected {wanted}.")


#: The variable that says where the data is.
DATA_VARIABLE = "FLIPPROOF_DATA"

#: Ends of names of compressed files, and how to unpack them.
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "": lambda content: content,
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
}

ORIGINAL = "the original"


def get_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder that holds the data sets, one folder each.

    It is `data_home`, or what the environment variable FLIPPROOF_DATA says, or ``~/flipproof_data``. It is made when
    something is downloaded into it.

    Examples
    --------
    >>> from flipproof.datasets import get_data_home
    >>> get_data_home("data").name
    'data'
    """
    chosen = data_home or os.environ.get(DATA_VARIABLE) or Path("~") / "flipproof_data"
    return Path(chosen).expanduser()


@dataclass(frozen=True)
class PublicFile:
    """A file as its publisher gives it out; ``.gz`` or ``.xz`` may follow its name."""

    name: str
    #: SHA-256 of the content, unpacked, and what a file with it is; none where no checksum was ever published.
    known: Mapping[str, str] = field(default_factory=dict)
    #: Where a copy is that anyone can fetch, and the name that it is kept under.
    url: str | None = None
    #: The file's name inside the zip archive at the URL, if that is one.
    member: str | None = None
    #: Another way to fetch the content, into a folder for its cache.
    fetch: Callable[[Path], bytes] | None = None

    @property
    def source(self) -> str | None:
        """Where the file can be had, in words."""
        return "OpenML" if self.fetch is not None else self.url

    @property
    def saved_name(self) -> str:
        """The name that a downloaded copy is kept under."""
        return f"{self.name}.gz" if self.url and self.url.endswith(".gz") and self.name[-3:] != ".gz" else self.name


class Shelf:
    """The folder of one data set: reads its files, checks each, and remembers what was read.

    Parameters
    ----------
    title : str
        The data set, for messages.
    subfolder : str
        Where it is in the data home.
    folder : path, optional
        The folder itself, in place of the data home. Nothing is ever downloaded into it.
    data_home, download_if_missing, check
        As all loaders have them.
    """

    def __init__(
        self,
        title: str,
        subfolder: str,
        data_home: str | os.PathLike[str] | None,
        folder: str | os.PathLike[str] | None,
        download_if_missing: bool,
        check: bool,
    ) -> None:
        self.title = title
        self.is_own = folder is not None
        self.folder = get_data_home(data_home) / subfolder if folder is None else Path(folder).expanduser()
        self.download_if_missing = download_if_missing and not self.is_own
        self.check = check
        self.checksums: dict[str, str] = {}
        self._origins: dict[str, str] = {}

    def find(self, file: PublicFile) -> Path | None:
        """Return where the file is, compressed or not; None if it is not there."""
        for suffix in UNPACK:
            path = self.folder / f"{file.name}{suffix}"
            if path.is_file():
                return path
        return None

    def read(self, file: PublicFile) -> bytes:
        """Return the content of a file, unpacked and checked; fetch it first if it is not there."""
        path = self.find(file)
        if path is None:
            path = self._download(file)
        return self.note(file, str(path), _unpacked(path, path.name.removeprefix(file.name)))

    def note(self, file: PublicFile, where: str, content: bytes) -> bytes:
        """Check content that was read for a file, wherever it came from, and remember its checksum."""
        actual = digest_of(content)
        if self.check and file.known and actual not in file.known:
            raise OSError(f"{wrong_checksum(where, file.known, actual)} To read it anyway, give check=False.")
        unknown = "not checked: another content" if file.known else "not checked: no checksum of it was published"
        self.checksums[file.name] = actual
        self._origins[file.name] = file.known.get(actual, unknown)
        return content

    def missing(self, names: str, source: str | None, why: str = "") -> FileNotFoundError:
        """Return the error that says which file to put where."""
        where = f"Put {names} into {self.folder}"
        if not self.is_own:
            where += f", or set {DATA_VARIABLE} (or data_home=...) to a folder that has it in {self.folder.name}/"
        public = f"; it is public at {source}" if source else ""
        return FileNotFoundError(f"{self.title} is not here. {where}{public}.{why}")

    def origins(self) -> str:
        """Say what each file that was read is."""
        return "; ".join(f"{name}: {what}" for name, what in self._origins.items())

    def _download(self, file: PublicFile) -> Path:
        if not self.download_if_missing or file.source is None:
            raise self.missing(file.saved_name, file.source)
        path = self.folder / file.saved_name
        sys.stderr.write(f"Downloading {file.name} ({self.title}) from {file.source} ...\n")
        try:
            content = self._fetch(file)
            unpacked = UNPACK[file.saved_name.removeprefix(file.name)](content)
        except (OSError, ValueError, EOFError, zlib.error) as error:
            raise self.missing(file.saved_name, file.source, f" Downloading it failed: {error}") from error
        actual = digest_of(unpacked)
        if actual not in file.known:
            raise wrong_checksum(f"What {file.source} gives for {file.name}", file.known, actual)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
        except OSError as error:
            raise OSError(f"Cannot keep {path}: {error}. Choose another folder with data_home=...") from error
        return path

    def _fetch(self, file: PublicFile) -> bytes:
        if file.fetch is not None:
            return file.fetch(self.folder)
        assert file.url is not None
        return fetch(file.url, file.member)


def _unpacked(path: Path, suffix: str) -> bytes:
    try:
        return UNPACK[suffix](path.read_bytes())
    except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
        raise OSError(f"{path} is damaged: it cannot be unpacked ({error}). Fetch it again.") from error


def arrays(shelf: Shelf, file: PublicFile, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return named arrays of an npz file; nothing in it is ever run."""
    content, where = shelf.read(file), shelf.folder / file.name
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as data:
            return {name: data[name] for name in names}
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise OSError(f"{where} is damaged or another file: it must hold {', '.join(names)} ({error}).") from error


def split_rows(
    X: NDArray[Any], y: NDArray[Any], test_size: float, random_state: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return X_train, y_train, X_test, y_test; rows keep their order.

    The rows are drawn without a look at the labels: a stratified draw would depend on those that certificates protect.
    """
    if not 0 <= test_size < 1:
        raise ValueError(f"The 'test_size' parameter must be a share of the rows in [0, 1). Got {test_size!r} instead.")
    order = np.random.default_rng(random_state).permutation(len(y))
    n_test = round(test_size * len(y))
    test, train = np.sort(order[:n_test]), np.sort(order[n_test:])
    return X[train], y[train], X[test], y[test]


@dataclass(frozen=True, repr=False, eq=False)
class Dataset:
    """Training and test rows of a public data set, and where they come from.

    Attributes
    ----------
    name : str
        The data set.
    X_train, X_test : array of shape (n, ...)
        One row each: numbers, pixels (flattened, see `image_shape`), texts, or columns of both kinds (`categorical`).
    y_train, y_test : array of shape (n,)
        Labels as whole numbers.
    classes : tuple of int
        The class set, sorted. It is known beforehand: give it to a learner as ``classes=``, and certificates need not
        assume that it was not read from labels.
    class_names : tuple of str
        What each of `classes` means.
    provenance : str
        Which files were read, whether they are the original or a stand-in, and how that was checked.
    checksums : mapping of str to str
        SHA-256 of each file's content, unpacked where it was compressed.
    feature_names : tuple of str
        Names of the columns, empty where they have none.
    categorical : tuple of int
        Numbers of the columns that hold words instead of numbers.
    image_shape : tuple of int, optional
        Height, width and (for colour) channels of an image that was flattened into a row.
    """

    name: str
    X_train: NDArray[Any]
    y_train: NDArray[Any]
    X_test: NDArray[Any]
    y_test: NDArray[Any]
    classes: tuple[int, ...]
    class_names: tuple[str, ...]
    provenance: str
    checksums: Mapping[str, str]
    feature_names: tuple[str, ...] = ()
    categorical: tuple[int, ...] = ()
    image_shape: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        return f"<Dataset: {self.name}, {len(self.y_train)} training rows, {len(self.y_test)} test rows>"
