"""Texts as averages of word vectors, and readers for the usual file formats of word vectors."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils.validation import check_is_fitted

from flipproof.parameters import BOOLEAN, NONE, Constraints, check_parameters, integer, one_of, parameter_error

Vectors = NDArray[np.float32]


def read_word_vectors(path: str | os.PathLike[str], limit: int | None = None) -> tuple[list[str], Vectors]:
    """Return words and their vectors; if a word occurs twice, its first vector.

    Parameters
    ----------
    path : path
        A GloVe or word2vec text file (``word number number ...``, with or without a first line of two sizes), a
        word2vec binary file (``.bin``), either of them optionally compressed (``.gz``), or an ``.npz`` file with
        `vectors` and `words`: strings, or the bytes of a UTF-8 text with one word per line.
    limit : int, optional
        Read only the first words: files are sorted by frequency.

    Returns
    -------
    words : list of str
        The words, in the order of the file.
    vectors : array of shape (n_words, n_dimensions)
        The vector of each word.

    See Also
    --------
    flipproof.features.WordVectors : Mean word vectors.

    Examples
    --------
    >>> import os, tempfile
    >>> from flipproof.features import read_word_vectors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "vectors.txt")
    ...     with open(path, "w") as file:
    ...         print("good 1 0", file=file)
    ...         print("bad 0 1", file=file)
    ...     words, vectors = read_word_vectors(path)
    >>> words, vectors.shape
    (['good', 'bad'], (2, 2))
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
        raise OSError(f"{path} is not a file of word vectors: {error}") from error
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
            raise ValueError(f"the vector of {word!r} has {len(row)} numbers, but {words[0]!r} has {len(rows[0])}")
    if not words:
        raise ValueError("it is empty")
    return words, np.stack(rows)


def _from_text(path: Path, limit: int | None) -> Iterator[tuple[str, Vectors]]:
    with _opened(path) as file:
        for number, line in enumerate(file):
            word, *numbers = line.decode("utf-8", errors="replace").rstrip().split(" ")
            if number == 0 and len(numbers) == 1:  # word2vec's first line: number of words and of dimensions
                limit = None if limit is None else limit + 1
                continue
            if limit is not None and number >= limit:
                return
            yield word, np.array(numbers, dtype=np.float32)


def _from_binary(path: Path, limit: int | None) -> Iterator[tuple[str, Vectors]]:
    """Yield the entries of word2vec's binary format: a line of sizes, then word, space, numbers of four bytes."""
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
            # some writers end a vector with a line break, which then precedes the next word
            yield word.lstrip(b"\n").decode("utf-8", errors="replace"), np.frombuffer(content, dtype="<f4")


def _from_npz(path: Path) -> tuple[list[str], Vectors]:
    with np.load(path, allow_pickle=False) as data:
        words, vectors = data["words"], data["vectors"].astype(np.float32)
    listed = words.tobytes().decode("utf-8").split("\n") if words.dtype == np.uint8 else words.tolist()
    if vectors.ndim != 2 or len(listed) != len(vectors):
        raise ValueError(f"it has {len(listed)} words and vectors of shape {vectors.shape}")
    return listed, vectors


#: A word: letters and digits, with apostrophes inside ("don't").
TOKEN = r"(?u)\b\w+(?:'\w+)*\b"
WEIGHTINGS = ("mean", "idf")


class WordVectors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Average the vectors of the words of each text, from any GloVe or word2vec file.

    Labels are never read. The vectors come from the file; from the training texts, only ``weighting="idf"`` learns in
    how many of them each word occurs.

    Parameters
    ----------
    vectors : path, or pair of words and array
        A file (see :func:`read_word_vectors`), or the words and an array of shape (n_words, n_dimensions).
    weighting : {"mean", "idf"}, default="mean"
        ``"mean"``: every occurrence of a word counts the same, as in the paper. ``"idf"``: rare words count more.
    lowercase : bool, default=True
        Whether to convert texts to lower case, like GloVe; Google's vectors are case-sensitive.
    limit : int, optional
        Use only the first words of the file.

    Attributes
    ----------
    words_ : list of str
        The words.
    vectors_ : array of shape (n_words, n_dimensions)
        Their vectors.
    weights_ : array of shape (n_words,)
        The weight of each word.

    See Also
    --------
    flipproof.features.read_word_vectors : Read a file of word vectors.
    flipproof.tables.TableEncoder : Encode columns without labels.

    Examples
    --------
    >>> from flipproof.features import WordVectors
    >>> embed = WordVectors((["good", "bad"], [[1.0, 0.0], [0.0, 1.0]]))
    >>> embed.fit_transform(["Good, good, good... or bad?", "unknown"])
    array([[0.75, 0.25],
           [0.  , 0.  ]], dtype=float32)
    """

    parameter_constraints: ClassVar[Constraints] = {
        "weighting": one_of(*WEIGHTINGS),
        "lowercase": BOOLEAN,
        "limit": NONE | integer(1),
    }

    def __init__(
        self,
        vectors: str | os.PathLike[str] | tuple[Any, Any],
        *,
        weighting: str = "mean",
        lowercase: bool = True,
        limit: int | None = None,
    ) -> None:
        self.vectors = vectors
        self.weighting = weighting
        self.lowercase = lowercase
        self.limit = limit

    def fit(self, X: object, y: object = None) -> WordVectors:
        """Read the vectors and, for "idf", count the texts that contain each word; labels are ignored.

        Parameters
        ----------
        X : sequence of str
            Texts.
        y : ignored
            Labels are never read.

        Returns
        -------
        self
            The fitted map.

        Examples
        --------
        >>> from flipproof.features import WordVectors
        >>> embed = WordVectors((["good", "bad"], [[1.0, 0.0], [0.0, 1.0]]))
        >>> embed.fit(["good or bad"]).transform(["good, good"])
        array([[1., 0.]], dtype=float32)
        """
        check_parameters(self)
        self.words_, self.vectors_ = self._read()
        self._n_features_out = self.vectors_.shape[1]
        self.weights_ = np.ones(len(self.words_), dtype=np.float32)
        if self.weighting == "idf":
            counts = self._counts(X)
            in_texts = np.bincount(counts.indices, minlength=len(self.words_))
            self.weights_ = np.log((1 + counts.shape[0]) / (1 + in_texts)).astype(np.float32) + 1
        return self

    def transform(self, X: object) -> NDArray[np.float32]:
        """Return the average vectors; zeros for a text without known words.

        Parameters
        ----------
        X : sequence of str
            Texts.

        Returns
        -------
        floats
            A line per text.

        Examples
        --------
        >>> from flipproof.features import WordVectors
        >>> embed = WordVectors((["good", "bad"], [[1.0, 0.0], [0.0, 1.0]]))
        >>> embed.fit(["good or bad"]).transform(["good or bad", "unknown"])
        array([[0.5, 0.5],
               [0. , 0. ]], dtype=float32)
        """
        check_is_fitted(self)
        counts = self._counts(X) @ sparse.diags_array(self.weights_)
        totals = np.maximum(counts.sum(axis=1), np.finfo(np.float32).tiny)
        return np.asarray(counts @ self.vectors_ / totals.reshape(-1, 1), dtype=np.float32)

    def _read(self) -> tuple[list[str], NDArray[np.float32]]:
        if isinstance(self.vectors, (str, os.PathLike)):
            return read_word_vectors(self.vectors, self.limit)
        words, vectors = self.vectors
        listed, array = list(words)[: self.limit], np.asarray(vectors, dtype=np.float32)[: self.limit]
        if array.ndim != 2 or len(listed) != len(array) or len(set(listed)) < len(listed):
            wanted = "a file, or a pair of distinct words and an array with one row per word"
            found = f"these are {len(listed)} words and an array of shape {array.shape}."
            raise parameter_error("WordVectors", "vectors", wanted, type(self.vectors).__name__, found)
        return listed, array

    def _counts(self, X: Any) -> sparse.csr_array:
        """Return how often each word is in each text."""
        if isinstance(X, str) or not all(isinstance(text, str) for text in X):
            raise ValueError("The texts given to WordVectors must be a list or an array of strings.")
        counter = CountVectorizer(
            vocabulary=self.words_, lowercase=self.lowercase, token_pattern=TOKEN, dtype=np.float32
        )
        return sparse.csr_array(counter.transform(X))
