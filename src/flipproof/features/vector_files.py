"""Read word vectors from the files that they are published in."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]


def read_word_vectors(path: str | os.PathLike[str], limit: int | None = None) -> tuple[list[str], Vectors]:
    """Return words and their vectors; of a word that comes twice, the first.

    Parameters
    ----------
    path : path
        A text file of GloVe or word2vec (``word number number ...``, with or without a first line of two sizes), a
        binary file of word2vec (``.bin``), either of them compressed (``.gz``), or an ``.npz`` file that holds
        `vectors` and `words`: strings, or the bytes of a UTF-8 text with a word a line.
    limit : int, optional
        Read the first words only: files are sorted by frequency.

    Returns
    -------
    words : list of str
    vectors : array of shape (n_words, n_dimensions)
    """
    path = Path(path)
    try:
        if path.suffix == ".npz":
            words, vectors = _from_npz(path)
        elif ".bin" in path.suffixes:
            words, vectors = _gathered(_from_binary(path, limit))
        else:
            words, vectors = _gathered(_from_text(path, limit))
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise OSError(f"{path} is no file of word vectors: {error}") from error
    first = {word: i for i, word in reversed(list(enumerate(words[:limit])))}
    kept = sorted(first.values())
    return [words[i] for i in kept], vectors[kept]


def _opened(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else open(path, "rb")


def _gathered(entries: Iterator[tuple[str, Vectors]]) -> tuple[list[str], Vectors]:
    words, rows = [], []
    for word, row in entries:
        words.append(word)
        rows.append(row)
        if len(row) != len(rows[0]):
            raise ValueError(f"the vector of {word!r} has {len(row)} numbers, that of {words[0]!r} has {len(rows[0])}")
    if not words:
        raise ValueError("it is empty")
    return words, np.stack(rows)


def _from_text(path: Path, limit: int | None) -> Iterator[tuple[str, Vectors]]:
    with _opened(path) as file:
        for number, line in enumerate(file):
            word, *numbers = line.decode("utf-8", errors="replace").rstrip().split(" ")
            if number == 0 and len(numbers) == 1:  # word2vec's first line: how many words, how many numbers
                limit = None if limit is None else limit + 1
                continue
            if limit is not None and number >= limit:
                return
            yield word, np.array(numbers, dtype=np.float32)


def _from_binary(path: Path, limit: int | None) -> Iterator[tuple[str, Vectors]]:
    """Yield the entries of word2vec's binary format: a line of sizes, then word, blank, numbers of four bytes."""
    with _opened(path) as file:
        n_words, n_numbers = map(int, file.readline().split())
        for _ in range(n_words if limit is None else min(limit, n_words)):
            word = bytearray()
            while (byte := file.read(1)) != b" ":
                if not byte:
                    raise EOFError(f"it ends before its {n_words} words")
                word += byte
            content = file.read(4 * n_numbers)
            if len(content) < 4 * n_numbers:
                raise EOFError(f"it ends before its {n_words} words")
            # some writers end a vector with a line break, which then stands before the next word
            yield word.lstrip(b"\n").decode("utf-8", errors="replace"), np.frombuffer(content, dtype="<f4")


def _from_npz(path: Path) -> tuple[list[str], Vectors]:
    with np.load(path, allow_pickle=False) as data:
        words, vectors = data["words"], data["vectors"].astype(np.float32)
    listed = words.tobytes().decode("utf-8").split("\n") if words.dtype == np.uint8 else words.tolist()
    if vectors.ndim != 2 or len(listed) != len(vectors):
        raise ValueError(f"it has {len(listed)} words and vectors of shape {vectors.shape}")
    return listed, vectors
