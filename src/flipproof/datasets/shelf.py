"""Find, check and, if they are missing, download the files of a data set."""

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
from typing import Any, TypeAlias
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Values
from flipproof.parameters import check_parameter, number
from flipproof.runtime.files import digest_of, write_whole

#: Training rows and labels, test rows and labels.
Parts: TypeAlias = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]

#: Timeout of a server, in seconds.
TIMEOUT = 30.0


def fetch(url: str, member: str | None = None) -> bytes:
    """Return the content of a URL, or of one file of the zip archive there; raise OSError if that fails."""
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
    """Return the error for a file with the wrong checksum."""
    wanted = " or ".join(expected)
    return OSError(f"{where} is damaged or another file: its content has the SHA-256 {actual}, expected {wanted}.")


#: Environment variable with the folder of the data sets.
DATA_VARIABLE = "FLIPPROOF_DATA"

#: Suffixes of compressed files, and functions to unpack them.
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "": lambda content: content,
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
}

ORIGINAL = "the original"


def get_data_home(data_home: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of the data sets, with one subfolder each.

    It is `data_home`, or the environment variable FLIPPROOF_DATA, or ``~/flipproof_data``. It is created by the first
    download.

    Parameters
    ----------
    data_home : path, optional
        The folder, if it is known already.

    Returns
    -------
    pathlib.Path
        The folder; it is not created.

    See Also
    --------
    flipproof.datasets.Dataset : Rows, labels and their origin.

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
    """A published file; the local copy may be compressed, with ``.gz`` or ``.xz`` appended to its name."""

    name: str
    #: SHA-256 of the unpacked content, and a description of it; empty if no checksum was published.
    known: Mapping[str, str] = field(default_factory=dict)
    #: URL of a public copy.
    url: str | None = None
    #: The file's name inside the zip archive at the URL, if it is an archive.
    member: str | None = None
    #: Another way to get the content; the argument is a folder for its cache.
    fetch: Callable[[Path], bytes] | None = None

    @property
    def source(self) -> str | None:
        """Where the file can be downloaded, for messages."""
        return "OpenML" if self.fetch is not None else self.url

    @property
    def saved_name(self) -> str:
        """The file name of a downloaded copy."""
        return f"{self.name}.gz" if self.url and self.url.endswith(".gz") and self.name[-3:] != ".gz" else self.name


class Shelf:
    """The folder of one data set: reads its files, checks each, and remembers what was read.

    Parameters
    ----------
    title : str
        The data set, for messages.
    subfolder : str
        Its subfolder in the data home.
    folder : path, optional
        The folder of the files themselves, instead of the data home. Nothing is ever downloaded into it.
    data_home, download_if_missing, check
        The parameters of all loaders.
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
        """Return the path of the file, compressed or not; None if there is no such file."""
        for suffix in UNPACK:
            path = self.folder / f"{file.name}{suffix}"
            if path.is_file():
                return path
        return None

    def read(self, file: PublicFile) -> bytes:
        """Return the content of a file, unpacked and checked; download it if it is missing."""
        path = self.find(file)
        if path is None:
            path = self._download(file)
        return self.note(file, str(path), _unpacked(path, path.name.removeprefix(file.name)))

    def note(self, file: PublicFile, where: str, content: bytes) -> bytes:
        """Check the content of a file and remember its checksum; `where` says where the content was found."""
        actual = digest_of(content)
        if self.check and file.known and actual not in file.known:
            raise OSError(f"{wrong_checksum(where, file.known, actual)} To read it anyway, use check=False.")
        unknown = "not checked: another content" if file.known else "not checked: no checksum of it was published"
        self.checksums[file.name] = actual
        self._origins[file.name] = file.known.get(actual, unknown)
        return content

    def missing(self, names: str, source: str | None, why: str = "") -> FileNotFoundError:
        """Return the error that says which file is missing and where to put it."""
        where = f"Put {names} into {self.folder}"
        if not self.is_own:
            where += f", or set {DATA_VARIABLE} (or data_home=...) to a folder that has it in {self.folder.name}/"
        public = f"; it is public at {source}" if source else ""
        return FileNotFoundError(f"{self.title} is missing. {where}{public}.{why}")

    def origins(self) -> str:
        """Describe the origin of each file that was read."""
        return "; ".join(f"{name}: {what}" for name, what in self._origins.items())

    def dataset(
        self,
        name: str,
        parts: Parts,
        *,
        classes: tuple[int, ...],
        class_names: tuple[str, ...],
        cited: str,
        **more: Any,
    ) -> Dataset:
        """Return a data set of files that were read; `parts` are X_train, y_train, X_test and y_test."""
        origin = f"{cited}. {self.origins()}."
        return Dataset(name, *parts, classes, class_names, origin, self.checksums, **more)

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
            raise OSError(f"Cannot write {path}: {error}. Choose another folder with data_home=...") from error
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
        raise OSError(f"{path} is damaged: it cannot be unpacked ({error}). Download it again.") from error


def arrays(shelf: Shelf, file: PublicFile, names: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Return named arrays of an npz file; no code in it is ever run."""
    content, where = shelf.read(file), shelf.folder / file.name
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as data:
            return {name: data[name] for name in names}
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise OSError(f"{where} is damaged or another file: it must contain {', '.join(names)} ({error}).") from error


def split_rows(X: Values, y: Values, test_size: float, random_state: int) -> Parts:
    """Return X_train, y_train, X_test, y_test; rows keep their order.

    The rows are drawn without using the labels: a stratified split would depend on labels that certificates protect.
    """
    check_parameter("the data set", "test_size", test_size, number(0, 1, closed="low", noun="share of the rows"))
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
        One row each: numbers, pixels (flattened, see `image_shape`), texts, or numbers and words (see `categorical`).
    y_train, y_test : array of shape (n,)
        Labels as integers.
    classes : tuple of int
        The class set, sorted. It is known in advance: pass it to a learner as ``classes=``, so that certificates need
        not assume that the class set was not read from the labels.
    class_names : tuple of str
        The name of each class.
    provenance : str
        Which files were read, whether they are the original or a stand-in, and how that was checked.
    checksums : mapping of str to str
        SHA-256 of each file's unpacked content.
    feature_names : tuple of str
        Names of the columns; empty if they have none.
    categorical : tuple of int
        Positions of the columns that contain words instead of numbers.
    image_shape : tuple of int, optional
        Height, width and (for colour) channels of the images that were flattened into rows.

    See Also
    --------
    flipproof.datasets.get_data_home : Folder of the data sets.
    flipproof.datasets.load_spambase : Emails as frequencies.

    Examples
    --------
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from flipproof.datasets import load_spambase
    >>> data = load_spambase()
    >>> model = CertifiedRidgeClassifier(classes=data.classes).fit(data.X_train, data.y_train)
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
