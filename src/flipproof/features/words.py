"""Texts as the average of their words' vectors."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.utils.validation import check_is_fitted

from flipproof.features.vector_files import read_word_vectors

#: A word: letters and digits, with apostrophes inside ("don't").
TOKEN = r"(?u)\b\w+(?:'\w+)*\b"
WEIGHTINGS = ("mean", "idf")


class WordVectors(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Average the vectors of the words of each text, from any file of GloVe or word2vec.

    Labels are never read: the vectors come from the file, and the only thing that is learnt from the training texts is,
    with ``weighting="idf"``, in how many of them each word is.

    Parameters
    ----------
    vectors : path, or pair of words and array
        A file (see :func:`read_word_vectors`), or the words and an array of shape (n_words, n_dimensions).
    weighting : {"mean", "idf"}, default="mean"
        ``"mean"``: every word counts as often as it stands there, as in the paper. ``"idf"``: rare words count more.
    lowercase : bool, default=True
        Whether texts are turned into small letters, as GloVe was; Google's vectors know capitals.
    limit : int, optional
        Use the first words of the file only.

    Attributes
    ----------
    words_ : list of str
        The words.
    vectors_ : array of shape (n_words, n_dimensions)
        Their vectors.
    weights_ : array of shape (n_words,)
        How much each counts.

    Examples
    --------
    >>> from flipproof.features import WordVectors
    >>> embed = WordVectors((["good", "bad"], [[1.0, 0.0], [0.0, 1.0]]))
    >>> embed.fit_transform(["Good, good, good... or bad?", "unknown"])
    array([[0.75, 0.25],
           [0.  , 0.  ]], dtype=float32)
    """

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

    def fit(self, X: Any, y: Any = None) -> WordVectors:
        """Read the vectors and, for "idf", count the texts that each word is in; labels are ignored."""
        if self.weighting not in WEIGHTINGS:
            raise ValueError(
                f"The 'weighting' parameter of WordVectors must be one of {WEIGHTINGS}. Got {self.weighting!r} instead."
            )
        self.words_, self.vectors_ = self._read()
        self._n_features_out = self.vectors_.shape[1]
        self.weights_ = np.ones(len(self.words_), dtype=np.float32)
        if self.weighting == "idf":
            counts = self._counts(X)
            in_texts = np.bincount(counts.indices, minlength=len(self.words_))
            self.weights_ = np.log((1 + counts.shape[0]) / (1 + in_texts)).astype(np.float32) + 1
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """Return the average vectors; a text without a known word becomes zeros."""
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
            raise ValueError(
                "The 'vectors' parameter of WordVectors must be a file, or a pair of different words and an array with "
                f"a row for each. Got {len(listed)} words and an array of shape {array.shape} instead."
            )
        return listed, array

    def _counts(self, X: Any) -> sparse.csr_array:
        """Return how often each word is in each text."""
        if isinstance(X, str) or not all(isinstance(text, str) for text in X):
            raise ValueError("WordVectors takes a list or an array of texts, each of them a string.")
        counter = CountVectorizer(
            vocabulary=self.words_, lowercase=self.lowercase, token_pattern=TOKEN, dtype=np.float32
        )
        return sparse.csr_array(counter.transform(X))
