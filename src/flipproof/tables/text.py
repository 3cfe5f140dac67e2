"""Texts as vectors, without a look at any label."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from threadpoolctl import threadpool_limits

#: Words that are counted: the most frequent ones. More make it slower, and hardly better.
MOST_WORDS = 30_000

#: Rows in which a word must occur, unless there are few rows: one that occurs once says nothing about others.
FEWEST_ROWS = 2

#: Different words that a column of texts must have.
FEWEST_WORDS = 2


class TextEncoder:
    """Latent semantic analysis: the leading directions of TF-IDF counts of words and signs.

    Parameters
    ----------
    name : str
        What the column is called, for errors.
    n_dimensions : int
        Numbers that stand for a text; fewer if there are fewer words or texts.
    """

    def __init__(self, name: str, n_dimensions: int) -> None:
        self.name = name
        self.n_dimensions = n_dimensions

    def fit_transform(self, texts: NDArray[np.object_]) -> NDArray[np.float64]:
        """Learn words and directions from the training texts, and return those as vectors."""
        self._counts = CountVectorizer(
            max_features=MOST_WORDS,
            min_df=min(FEWEST_ROWS, len(texts)),
            token_pattern=r"(?u)\b\w+\b|[!?$£€%]",
            dtype=np.float64,
        )
        try:
            counts = self._counts.fit_transform(_present(texts))
        except ValueError:  # no word at all
            counts = np.zeros((len(texts), 0))
        if counts.shape[1] < FEWEST_WORDS:
            raise ValueError(f"column {self.name!r} has too few words to be read as text.")
        # sums in the order of `transform`, so that training texts come out the same there, to the last bit
        counts.sort_indices()
        self._weights = TfidfTransformer(sublinear_tf=True)
        weighted = self._weights.fit_transform(counts)
        most = max(1, min(counts.shape) - 1)
        self._directions = TruncatedSVD(min(self.n_dimensions, most), random_state=0)
        # sums in the order of one thread: the vectors, and with them the certificates, are the same for any number
        # of threads; the shares of the variance are of no use, and of 0 if all texts are the same
        with threadpool_limits(limits=1, user_api="blas"), np.errstate(invalid="ignore"):
            return np.asarray(self._directions.fit_transform(weighted))

    def transform(self, texts: NDArray[np.object_]) -> NDArray[np.float64]:
        """Return texts as vectors."""
        return np.asarray(self._directions.transform(self._weights.transform(self._counts.transform(_present(texts)))))


def _present(texts: NDArray[np.object_]) -> list[Any]:
    return ["" if text is None else text for text in texts]
