"""Bytes of files, pipes and standard input: decompressed, recognised by content, and decoded to UTF-8."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Hashable
from pathlib import Path

import pyarrow as pa

from flipproof.errors import InputError, Parameter
from flipproof.runtime.files import digest_of, digest_of_file

#: Path that means standard input.
STANDARD_INPUT = "-"

#: First bytes of compressed files, and how to decompress them.
COMPRESSED: dict[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": gzip.decompress,
    b"\xfd7zXZ\x00": lzma.decompress,
    **{b"BZh%d1AY&SY" % level: bz2.decompress for level in range(1, 10)},
    b"\x28\xb5\x2f\xfd": lambda content: bytes(pa.CompressedInputStream(pa.BufferReader(content), "zstd").read()),
}

#: Endings of compressed files; another ending before them names the format.
COMPRESSED_ENDINGS = (".gz", ".xz", ".bz2", ".zst")

ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
    ".npy": "npy",
}
KINDS = tuple(dict.fromkeys(ENDINGS.values()))

#: Kinds whose content is text.
TEXT_KINDS = ("csv", "tsv", "jsonl")

#: Number of first bytes that tell a format.
BEGINNING = 1024

_EXPORT = "export the table as CSV or Parquet"
_EXCEL = "in Excel, save the sheet as 'CSV UTF-8', and give that file"
_IMAGE = "images need features first, for example as an array in an NPZ file"
_PICKLE = "loading it could run code, so it is never read. Write Parquet or NPZ instead"
_UNPACK = "unpack it, and give the file inside"

#: First bytes of formats that are not read: their name, and what to do.
FOREIGN: tuple[tuple[bytes, str, str], ...] = (
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel workbook (.xls) or another old Office document", _EXCEL),
    (b"\x89PNG\r\n\x1a\n", "a PNG image", _IMAGE),
    (b"\xff\xd8\xff", "a JPEG image", _IMAGE),
    (b"GIF87a", "a GIF image", _IMAGE),
    (b"GIF89a", "a GIF image", _IMAGE),
    (b"II*\x00", "a TIFF image", _IMAGE),
    (b"MM\x00*", "a TIFF image", _IMAGE),
    (b"%PDF-", "a PDF document", _EXPORT),
    (b"SQLite format 3\x00", "an SQLite database", "export a table: sqlite3 -header -csv FILE 'select * from TABLE'"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", _EXPORT),
    (b"MATLAB 5.0 MAT-file", "a MATLAB file", _EXPORT),
    (b"<stata_dta>", "a Stata file", _EXPORT),
    (b"$FL2", "an SPSS file", _EXPORT),
    (b"RDX2\n", "an R data file", _EXPORT),
    (b"RDX3\n", "an R data file", _EXPORT),
    (b"Obj\x01", "an Avro file", _EXPORT),
    (b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (b"\x1f\x9d", "a file compressed by compress (.Z)", _UNPACK),
    (b"\x04\x22\x4d\x18", "a file compressed by LZ4", _UNPACK),
    (b"version https://git-lfs", "a Git LFS pointer, not the data", "run git lfs pull"),
    *((bytes([0x80, protocol]), "a Python pickle", _PICKLE) for protocol in range(2, 6)),
)

#: First characters of markup, in lower case, after blanks.
MARKUP: tuple[tuple[bytes, str, str], ...] = (
    (b"<!doctype html", "an HTML page", "download the file itself, not the page that shows it"),
    (b"<html", "an HTML page", "download the file itself, not the page that shows it"),
    (b"<?xml", "an XML file", _EXPORT),
)

#: Members that tell what a ZIP archive is.
ARCHIVES = (
    ("xl/", "an Excel workbook", _EXCEL),
    ("word/", "a Word document", _EXPORT),
    ("ppt/", "a PowerPoint document", _EXPORT),
    ("content.xml", "an OpenDocument file", _EXPORT),
    ("data.pkl", "a PyTorch file, which contains a pickle", _PICKLE),
)

#: Byte order marks, the longest first.
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

#: What pipes contained: they can be read only once.
_pipes: dict[Hashable, bytes] = {}


def is_standard_input(path: str | os.PathLike[str]) -> bool:
    """Whether a path means standard input."""
    return os.fspath(path) == STANDARD_INPUT


def read_content(path: Path) -> bytes:
    """Return the bytes of a file, of a pipe, or of standard input (``-``), decompressed if they are compressed.

    Raises
    ------
    OSError
        If there is no such file, or it is damaged; the message is one line.
    """
    content = _raw_content(path)
    for beginning, decompress in COMPRESSED.items():
        if content.startswith(beginning):
            try:
                return decompress(content)
            except (EOFError, zlib.error, lzma.LZMAError, OSError, ValueError) as error:
                raise OSError(f"cannot read {str(path)!r}: it is compressed, but damaged or incomplete.") from error
    if path.suffix.lower() in COMPRESSED_ENDINGS and content:
        raise OSError(f"cannot read {str(path)!r}: it is damaged or not compressed as its ending says.")
    return content


def is_compressed(path: Path) -> bool:
    """Whether the content of a file is compressed."""
    content = _raw_content(path)
    return any(content.startswith(beginning) for beginning in COMPRESSED)


def digest_of_source(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, of a pipe that was read, or of standard input."""
    given = Path(path)
    is_file = not is_standard_input(given) and stat.S_ISREG(given.stat().st_mode)
    return digest_of_file(given) if is_file else digest_of(_raw_content(given))


def _raw_content(path: Path) -> bytes:
    if is_standard_input(path):
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None:
            raise OSError("cannot read '-': there is no standard input.")
        return _read_once(stream, stream.read)
    if not path.exists():
        if path.is_symlink():
            raise OSError(f"cannot read {str(path)!r}: it is a link to {os.readlink(path)!r}, which does not exist.")
        raise OSError(f"cannot read {str(path)!r}: there is no such file.")
    if path.is_dir():
        raise OSError(f"cannot read {str(path)!r}: it is a folder.")
    try:
        about = path.stat()
        if stat.S_ISREG(about.st_mode):
            return path.read_bytes()
        if stat.S_ISFIFO(about.st_mode):
            return _read_once((about.st_dev, about.st_ino), path.read_bytes)
    except OSError as error:
        raise OSError(f"cannot read {str(path)!r}: {error.strerror or error}.") from error
    raise OSError(f"cannot read {str(path)!r}: it is neither a file nor a pipe.")


def _read_once(key: Hashable, read: Callable[[], bytes]) -> bytes:
    if key not in _pipes:
        _pipes.clear()  # only one can be an input; memory is not kept for others
        _pipes[key] = read()
    return _pipes[key]


def kind_of_file(path: Path, content: bytes) -> str:
    """Return the kind of a table by its first bytes if they are those of a binary format, or else by its ending.

    Text with neither is JSON lines if it begins with a brace, TSV if its first line has tabs, or else CSV.

    Raises
    ------
    ValueError
        If the content is of a format that is not read; the message names the format and says what to do.
    """
    by_content = _binary_kind(path, content)
    if by_content is not None:
        return by_content
    inner = Path(path.stem) if path.suffix.lower() in COMPRESSED_ENDINGS else path
    by_ending = ENDINGS.get(inner.suffix.lower())
    if by_ending is not None:
        return by_ending
    line = first_line(content).removeprefix(codecs.BOM_UTF8)
    if line.lstrip().startswith((b"{", b"[{")):
        return "jsonl"
    return "tsv" if b"\t" in line else "csv"


def _binary_kind(path: Path, content: bytes) -> str | None:
    """Return the kind of a table in a binary format; None for text; raise for formats that are not read."""
    if content.startswith(b"PAR1") and content.endswith(b"PAR1"):
        return "parquet"
    if content.startswith(b"ARROW1\x00\x00"):
        return "arrow"
    if content.startswith(b"\x93NUMPY"):
        return "npy"
    if content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _kind_of_archive(path, content)
    beginning = content[:BEGINNING]
    markup = beginning.removeprefix(codecs.BOM_UTF8).lstrip().lower()
    for start, name, remedy in FOREIGN:
        if beginning.startswith(start):
            raise _not_a_table(path, name, remedy)
    for start, name, remedy in MARKUP:
        if markup.startswith(start):
            raise _not_a_table(path, name, remedy)
    if beginning[257:262] == b"ustar":
        raise _not_a_table(path, "a TAR archive", _UNPACK)
    if beginning.startswith(b"RIFF") and beginning[8:12] == b"WEBP":
        raise _not_a_table(path, "a WebP image", _IMAGE)
    if beginning.startswith(b"BM") and b"\x00" in beginning[:BEGINNING]:
        raise _not_a_table(path, "a BMP image", _IMAGE)
    return None


def _kind_of_archive(path: Path, content: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        members = [] if path.suffix.lower() != ".npz" else [".npy"]  # its reader says what is damaged
    if members and all(name.endswith(".npy") for name in members):
        return "npz"
    for start, name, remedy in ARCHIVES:
        if any(start in f"/{member}" for member in members):
            raise _not_a_table(path, name, remedy)
    inside = f" ({members[0]!r})" if len(members) == 1 else ""
    raise _not_a_table(path, "a ZIP archive", f"unpack it, and give the file inside{inside}")


def _not_a_table(path: Path, name: str, remedy: str) -> ValueError:
    return InputError(f"cannot read {str(path)!r}: it is {name}, not a table. To use it, {remedy}.")


def first_line(content: bytes) -> bytes:
    """Return the first line of a text, without line breaks."""
    ends = [place for place in (content.find(b"\n"), content.find(b"\r")) if place >= 0]
    return content[: min(ends)] if ends else content


def line_number(content: bytes, place: int) -> int:
    """Return the number of the line, from 1 on, that contains a byte."""
    before = content[:place]
    return 1 + (before.count(b"\n") or before.count(b"\r"))


def as_utf8(content: bytes, encoding: str | None) -> bytes:
    """Return a text in UTF-8 without a byte order mark.

    Parameters
    ----------
    content : bytes
        The text.
    encoding : str, optional
        Its encoding, by a name that Python knows. By default, that of its byte order mark, or else UTF-8.

    Raises
    ------
    ValueError
        If it is not a text in this encoding; the message names the line.
    """
    option = Parameter("encoding", of_layout=True)
    marked = next((name for mark, name in MARKS if content.startswith(mark)), None)
    if encoding is None:
        name = marked or "utf-8"
    else:
        name = _codec_name(encoding)
        if marked is not None and not name.startswith(marked):
            raise InputError(f"it begins with the byte order mark of {marked.upper()}: omit ", option, ".")
    if name in ("utf-8", "utf-8-sig"):
        text = content.removeprefix(codecs.BOM_UTF8)
        _check_utf8(text)
    else:
        try:
            text = content.decode(name).removeprefix("\ufeff").encode()
        except UnicodeError as error:
            raise InputError(option, f": it is not a text in {name}: {error}.") from error
    inside = text.find(codecs.BOM_UTF8)
    if inside >= 0:
        raise InputError(
            f"line {line_number(text, inside)} has a byte order mark, as if two files were joined there: remove it."
        )
    return text


def _codec_name(encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
        io.TextIOWrapper(io.BytesIO(), encoding=name)  # refuses codecs that are not of texts
    except (LookupError, ValueError):
        raise InputError(
            Parameter("encoding", of_layout=True),
            f": {encoding!r} is not a known encoding. Examples: utf-8, utf-16, latin-1, cp1252.",
        ) from None
    return name


def _check_utf8(text: bytes) -> None:
    zero = text.find(b"\x00")
    if zero >= 0:
        raise InputError(
            f"line {line_number(text, zero)} has a NUL byte, so it is not a text in UTF-8. If it is in UTF-16, give ",
            Parameter("encoding", "utf-16-le", of_layout=True),
            ".",
        )
    whole = pa.py_buffer(text)
    array = pa.LargeStringArray.from_buffers(1, pa.py_buffer(_offsets(len(text))), whole)
    try:
        array.validate(full=True)  # without a copy
    except pa.ArrowInvalid:
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"line {line_number(text, error.start)} is not UTF-8. Give its encoding, for example ",
                Parameter("encoding", "cp1252", of_layout=True),
                ".",
            ) from None


def _offsets(length: int) -> bytes:
    return (0).to_bytes(8, sys.byteorder) + length.to_bytes(8, sys.byteorder)
