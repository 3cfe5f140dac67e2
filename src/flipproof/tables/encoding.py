"""Columns of numbers, words, vectors and texts as features; labels are never read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler
from sklearn.utils.validation import check_is_fitted

from flipproof.errors import InputError, RowNumber
from flipproof.origins import index_of
from flipproof.parameters import NONE, Constraints, check_parameters, integer, one_of, with_methods
from flipproof.runtime.determinism import on_one_thread
from flipproof.tables.columns import as_numbers, as_vectors, as_words, column_kind, without_dictionary
from flipproof.tables.spellings import (
    MANY_CATEGORIES,
    NUMBERS,
    check_categories,
    refuse_strange_words,
    shortened,
)

#: Number of most frequent words that are counted. More are slower, and hardly better.
MOST_WORDS = 30_000

#: Smallest number of rows in which a word must occur: a word that occurs once says nothing about other rows.
FEWEST_ROWS = 2

#: Smallest number of distinct words in a column of texts.
FEWEST_WORDS = 2


class TextEncoder:
    """Latent semantic analysis: the leading directions of TF-IDF counts of words and punctuation.

    Parameters
    ----------
    name : str
        The name of the column, for error messages.
    n_dimensions : int
        Number of features of a text; fewer if there are fewer words or texts.
    """

    parameter_constraints: ClassVar[Constraints] = {"n_dimensions": integer(1)}

    def __init__(self, name: str, n_dimensions: int) -> None:
        self.name = name
        self.n_dimensions = n_dimensions

    def fit_transform(self, texts: NDArray[np.object_]) -> NDArray[np.float64]:
        """Learn words and directions from the training texts, and return the texts as vectors."""
        check_parameters(self)
        self._counts = CountVectorizer(
            max_features=MOST_WORDS,
            min_df=min(FEWEST_ROWS, len(texts)),
            token_pattern=r"(?u)\b\w+\b|[!?$£€%]",
            dtype=np.float64,
        )
        try:
            counts = self._counts.fit_transform(_present(texts))
        except ValueError:  # no words
            counts = np.zeros((len(texts), 0))
        if counts.shape[1] < FEWEST_WORDS:
            raise ValueError(f"column {self.name!r} has too few words to be read as text.")
        # the same order of summation as in `transform`, so that training texts are bitwise identical there
        counts.sort_indices()
        self._weights = TfidfTransformer(sublinear_tf=True)
        weighted = self._weights.fit_transform(counts)
        most = max(1, min(counts.shape) - 1)
        self._directions = TruncatedSVD(min(self.n_dimensions, most), random_state=0)
        # one thread: the vectors, and so the certificates, do not depend on the number of threads; the explained
        # variance, which is invalid if all texts are the same, is not used
        with np.errstate(invalid="ignore"):
            return np.asarray(on_one_thread(lambda: self._directions.fit_transform(weighted)))

    def transform(self, texts: NDArray[np.object_]) -> NDArray[np.float64]:
        """Return texts as vectors."""
        return np.asarray(self._directions.transform(self._weights.transform(self._counts.transform(_present(texts)))))


def _present(texts: NDArray[np.object_]) -> list[Any]:
    return ["" if text is None else text for text in texts]


SCALES = ("auto", "standard", "rank", "none")

#: Numbers that ``scale="auto"`` maps by rank.
HEAVY_TAILED = "heavy-tailed numbers"

#: Kinds of columns, in the order of their features.
BLOCKS = ("numbers", HEAVY_TAILED, "booleans", "words", "vectors", "text")

#: Columns of a larger kurtosis are heavy-tailed. A normal distribution has 3, an exponential one 9.
LARGEST_KURTOSIS = 10.0

#: Fewest distinct values of a heavy-tailed column: with two of them, ranks would only change the scale.
FEWEST_VALUES = 3

#: Number of quantiles for ranks, and largest number of rows from which these are computed.
RANK_QUANTILES = 1000
RANK_ROWS = 100_000

#: Largest number of column names in a description.
NAMES_SHOWN = 6


@dataclass(frozen=True)
class EncodedFeature:
    """A feature that a table encoder makes of a column.

    Attributes
    ----------
    name : str
        The name of the column, and what the feature tells about it.
    scale : float
        How far the feature moves if the column moves by 1; positive. 1 for features that are not linear in a column.
    """

    name: str
    scale: float = 1.0


class TableEncoder(TransformerMixin, BaseEstimator, auto_wrap_output_keys=None):  # type: ignore[misc, call-arg]
    """Encode the columns of a table as numbers, without labels; use it as the `features` of a learner.

    Numbers are scaled; missing ones are replaced by the median and marked in an additional column. Booleans are 0 and
    1; missing ones are also marked in an additional column. Words are one-hot encoded with one column for each of the
    most frequent words; rare words and words that occur only in test rows share a column, and a missing word counts as
    a word. A column of vectors, for example embeddings, is only divided by one common scale. Texts become vectors by
    latent semantic analysis.

    Parameters
    ----------
    text : iterable of str
        Columns that are texts, not categories.
    scale : {"auto", "standard", "rank", "none"}, default="auto"
        Scale of columns of numbers. ``"standard"``: mean 0, variance 1. ``"rank"``: ranks mapped to a normal
        distribution, which tames heavy tails. ``"auto"``: by rank for columns with a kurtosis above 10 and at least
        three distinct values, standard for others. ``"none"``: numbers, vectors and texts are not scaled.
    text_dimensions : int, default=200
        Number of features of a text.
    max_categories : int, default=100
        Largest number of features of a column of words.
    categories : iterable of str
        Columns that hold categories, even if some or all of them are numbers.
    text_encoder : transformer, optional
        Encodes texts instead of latent semantic analysis, for example :class:`flipproof.features.SentenceEncoder`. A
        missing text counts as an empty one.

    Attributes
    ----------
    kinds_ : dict of str
        The kind of each column: "numbers", "booleans", "words", "vectors" or "text".
    heavy_tailed_ : tuple of str
        Columns of numbers that ``"auto"`` maps by rank.
    n_features_out_ : int
        Number of features.

    See Also
    --------
    flipproof.audit : From a table to certificates, attacks and a report.
    flipproof.tables.read_table : Read a table from a file.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from flipproof.tables import TableEncoder
    >>> table = pa.table({"age": [20.0, 40.0, None], "job": ["cook", "nurse", "cook"]})
    >>> TableEncoder().fit_transform(table)
    array([[-1.,  0.,  1.,  0.],
           [ 1.,  0.,  0.,  1.],
           [ 0.,  1.,  1.,  0.]])

    As the `features` of a learner, for data frames of pandas, polars and pyarrow:

    >>> import pandas as pd
    >>> from flipproof import CertifiedNeighborsClassifier
    >>> frame = pd.DataFrame({"age": [20, 40, 30, 50], "job": ["cook", "nurse", "cook", "nurse"]})
    >>> model = CertifiedNeighborsClassifier(3, features=TableEncoder()).fit(frame, ["a", "b", "a", "b"])
    >>> model.certify(frame).prediction.tolist()
    ['a', 'b', 'a', 'b']
    """

    parameter_constraints: ClassVar[Constraints] = {
        "scale": one_of(*SCALES),
        "text_dimensions": integer(1),
        "max_categories": integer(1),
        "text_encoder": NONE | with_methods("fit", "transform", described="a transformer of texts"),
    }

    def __init__(
        self,
        text: Iterable[str] = (),
        *,
        scale: str = "auto",
        text_dimensions: int = 200,
        max_categories: int = MANY_CATEGORIES,
        categories: Iterable[str] = (),
        text_encoder: object = None,
    ) -> None:
        self.text = text
        self.categories = categories
        self.scale = scale
        self.text_dimensions = text_dimensions
        self.max_categories = max_categories
        self.text_encoder = text_encoder

    def fit(self, X: object, y: object = None) -> TableEncoder:
        """Learn scales, medians, words and texts from training rows; labels are ignored.

        Parameters
        ----------
        X : data frame
            Rows with the columns to encode.
        y : ignored
            Labels are never read.

        Returns
        -------
        self
            The fitted encoder.

        Examples
        --------
        >>> import pandas as pd
        >>> from flipproof.tables import TableEncoder
        >>> table = pd.DataFrame({"age": [20.0, 40.0], "job": ["cook", "nurse"]})
        >>> encoder = TableEncoder().fit(table)
        >>> encoder.get_feature_names_out()
        array(['age', 'job = cook', 'job = nurse'], dtype=object)
        """
        self.fit_transform(X)
        return self

    def fit_transform(self, X: object, y: object = None) -> NDArray[np.float64]:
        """Learn from training rows, and return them as numbers; labels are ignored.

        Parameters
        ----------
        X : data frame
            Rows with the columns to encode.
        y : ignored
            Labels are never read.

        Returns
        -------
        floats of shape (n, features)
            The encoded rows.

        Examples
        --------
        >>> import pandas as pd
        >>> from flipproof.tables import TableEncoder
        >>> table = pd.DataFrame({"age": [20.0, 40.0], "job": ["cook", "nurse"]})
        >>> TableEncoder().fit_transform(table).shape
        (2, 3)
        """
        check_parameters(self)
        table = _without_index(X)
        self.kinds_ = {name: self._kind(name, table[name]) for name in table.column_names}
        if not self.kinds_:
            raise ValueError("there are no columns to learn from.")
        numbers = [name for name, kind in self.kinds_.items() if kind == "numbers"] if self.scale == "auto" else []
        self.heavy_tailed_ = tuple(name for name in numbers if is_heavy_tailed(as_numbers(name, table[name])))
        self._steps: dict[str, Any] = {}
        self._scales: dict[str, float] = {}
        self._widths: dict[str, int] = {}
        self._lengths: dict[str, int] = {}
        blocks = [self._fit_block(kind, table) for kind in BLOCKS]
        encoded = np.concatenate([block for block in blocks if block is not None], axis=1)
        self.n_features_out_ = encoded.shape[1]
        return encoded

    def transform(self, X: object) -> NDArray[np.float64]:
        """Encode rows as numbers, as learned from the training rows.

        Parameters
        ----------
        X : data frame
            Rows with the columns to encode.

        Returns
        -------
        floats of shape (n, features)
            The encoded rows.

        Examples
        --------
        >>> import pandas as pd
        >>> from flipproof.tables import TableEncoder
        >>> table = pd.DataFrame({"age": [20.0, 40.0], "job": ["cook", "nurse"]})
        >>> encoder = TableEncoder().fit(table)
        >>> encoder.transform(table).shape
        (2, 3)
        """
        table = _without_index(X)
        self.check_columns(table)
        blocks = [self._transform_block(kind, table) for kind in BLOCKS]
        return np.concatenate([block for block in blocks if block is not None], axis=1)

    def check_columns(
        self,
        X: object,
        where: str = "the test rows",
        learned_from: str = "the training rows",
        *,
        strictly: bool = False,
    ) -> None:
        """Raise ValueError if a column is missing or of another kind than those learned.

        Parameters
        ----------
        X : data frame
            The rows to encode.
        where, learned_from : str
            Names of these rows and of those that the encoder learned from, for errors.
        strictly : bool
            Whether numbers in place of words are refused, too. How a number is spelled may depend on other rows of its
            column.

        Examples
        --------
        >>> import pandas as pd
        >>> from flipproof.tables import TableEncoder
        >>> table = pd.DataFrame({"age": [20.0, 40.0], "job": ["cook", "nurse"]})
        >>> encoder = TableEncoder().fit(table)
        >>> try:
        ...     encoder.check_columns(table[["age"]])
        ... except ValueError as error:
        ...     print("refused")
        refused
        """
        check_is_fitted(self)
        table = as_arrow(X)
        for name, kind in self.kinds_.items():
            if name not in table.column_names:
                raise ValueError(f"column {name!r} is missing.")
            found = _other_kind(name, kind, table[name], strictly)
            if found is not None:
                there = [f"column {name!r} holds {kind} in {learned_from}, but {found} in {where}"]
                raise InputError(*there, *_first_word(table[name], kind, found), ".")

    def describe(self) -> list[str]:
        """Describe how the columns were encoded, one line for each kind.

        Returns
        -------
        list of str
            A sentence for each kind of columns.

        Examples
        --------
        >>> import pandas as pd
        >>> from flipproof.tables import TableEncoder
        >>> table = pd.DataFrame({"age": [20.0, 40.0], "job": ["cook", "nurse"]})
        >>> encoder = TableEncoder().fit(table)
        >>> print(encoder.describe()[1])
        1 column of words (job): a column for each word; 2 features
        """
        check_is_fitted(self)
        by_rank = "by rank, as if normally distributed"
        scaled = {"auto": "standardised", "standard": "standardised", "rank": by_rank, "none": "as they are"}
        said = {
            "numbers": f"{scaled[self.scale]}; missing values become the median",
            HEAVY_TAILED: f"{by_rank}; missing values become the median",
            "booleans": "0 or 1",
            "words": "a column for each word",
            "vectors": "as they are" if self.scale == "none" else "as they are, up to one common scale each",
            "text": "latent semantic analysis of TF-IDF"
            if self.text_encoder is None
            else f"encoded by {type(self.text_encoder).__name__}",
        }
        lines = []
        for kind, what in said.items():
            names = self._names(kind)
            if names:
                shown = ", ".join(names[:NAMES_SHOWN]) + (", ..." if len(names) > NAMES_SHOWN else "")
                columns, features = _counted(len(names), "column"), _counted(self._widths[kind], "feature")
                lines.append(f"{columns} of {kind} ({shown}): {what}; {features}")
        return lines

    def encoded_features(self) -> list[EncodedFeature]:
        """Return what each feature is, in the order in which `transform` returns them.

        Returns
        -------
        list of EncodedFeature
            Their names and scales.

        Examples
        --------
        >>> import pandas as pd
        >>> from flipproof.tables import TableEncoder
        >>> table = pd.DataFrame({"age": [20.0, 40.0], "job": ["cook", "nurse"]})
        >>> encoder = TableEncoder().fit(table)
        >>> [one.name for one in encoder.encoded_features()]
        ['age', 'job = cook', 'job = nurse']
        """
        check_is_fitted(self)
        return [feature for kind in BLOCKS for feature in self._features_of(kind, self._names(kind))]

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the name of each feature.

        Parameters
        ----------
        input_features : ignored
            Columns have the names that they had in `fit`.

        Returns
        -------
        array of str
            One name per feature.

        Examples
        --------
        >>> import pandas as pd
        >>> from flipproof.tables import TableEncoder
        >>> table = pd.DataFrame({"age": [20.0, 40.0], "job": ["cook", "nurse"]})
        >>> encoder = TableEncoder().fit(table)
        >>> encoder.get_feature_names_out().tolist()
        ['age', 'job = cook', 'job = nurse']
        """
        return np.array([one.name for one in self.encoded_features()], dtype=object)

    def _features_of(self, kind: str, names: list[str]) -> Iterator[EncodedFeature]:
        """Yield what the features of the columns of a kind are."""
        if not names:
            return
        if kind in ("vectors", "text"):
            for name in names:
                scale = 1 / self._scales[name]
                yield from (EncodedFeature(f"{name}[{place}]", scale) for place in range(self._lengths[name]))
        elif kind == "words":
            (encoder,) = (step for _, step in self._steps[kind].steps)
            for name, words, rare in zip(names, encoder.categories_, encoder.infrequent_categories_, strict=True):
                others = [] if rare is None else list(rare)
                yield from (EncodedFeature(_word_feature(name, word)) for word in words if word not in others)
                yield from [EncodedFeature(f"{name} = another word")] * bool(others)
        else:
            yield from self._features_of_numbers(kind, names)

    def _features_of_numbers(self, kind: str, names: list[str]) -> Iterator[EncodedFeature]:
        """Yield the features of numbers or booleans: their values, then the marks of missing ones."""
        scaler, imputer = self._steps[kind].steps[0][1], self._steps[kind].steps[-1][1]
        by_rank = isinstance(scaler, QuantileTransformer)
        spread = scaler.scale_ if isinstance(scaler, StandardScaler) else np.ones(len(names))
        for name, of_column in zip(names, spread.tolist(), strict=True):
            yield EncodedFeature(f"{name} (by rank)" if by_rank else name, 1 / of_column)
        yield from (EncodedFeature(f"{names[column]} is missing") for column in imputer.indicator_.features_)

    def _kind(self, name: str, column: pa.ChunkedArray) -> str:
        kind = column_kind(name, column)
        if name in tuple(self.categories):
            if kind == "vectors":
                raise ValueError(f"column {name!r} must hold words or numbers to be categories. Got vectors instead.")
            return "words"
        if name not in tuple(self.text):
            return kind
        if kind != "words":
            raise ValueError(f"column {name!r} must hold words to be read as text. Got {kind} instead.")
        return "text"

    def _names(self, kind: str) -> list[str]:
        if kind == HEAVY_TAILED:
            return list(self.heavy_tailed_)
        alike = [name for name, of_column in self.kinds_.items() if of_column == kind]
        return [name for name in alike if name not in self.heavy_tailed_]

    def _fit_block(self, kind: str, table: pa.Table) -> NDArray[np.float64] | None:
        names = self._names(kind)
        if not names:
            return None
        columns = self._columns(kind, names, table)
        if kind == "vectors":
            block = self._fit_scaled(names, columns)
        elif kind == "text":
            block = self._fit_scaled(names, self._fit_texts(names, columns))
        else:
            if kind == "words":
                for name in names:
                    if name not in tuple(self.categories) and not pa.types.is_dictionary(table[name].type):
                        refuse_strange_words(name, table[name])
                check_categories(dict(zip(names, columns, strict=True)))
            self._steps[kind] = self._step(kind, table.num_rows)
            block = self._steps[kind].fit_transform(np.stack(columns, axis=1))
        self._widths[kind] = block.shape[1]
        return np.asarray(block)

    def _fit_texts(self, names: list[str], columns: list[NDArray[Any]]) -> list[NDArray[Any]]:
        """Fit an encoder to each column of texts, and return the vectors."""
        if self.text_encoder is None:
            self._steps["text"] = [TextEncoder(name, self.text_dimensions) for name in names]
            return [step.fit_transform(texts) for step, texts in zip(self._steps["text"], columns, strict=True)]
        steps = [clone(self.text_encoder).fit(_present(texts)) for texts in columns]
        self._steps["text"] = steps
        return [np.asarray(step.transform(_present(texts))) for step, texts in zip(steps, columns, strict=True)]

    def _transform_block(self, kind: str, table: pa.Table) -> NDArray[np.float64] | None:
        names = self._names(kind)
        if not names:
            return None
        columns = self._columns(kind, names, table)
        if kind == "vectors":
            block = self._scaled(names, columns)
            if block.shape[1] != self._widths[kind]:
                raise ValueError(f"vectors in columns {', '.join(names)} must be as long as in the training rows.")
            return block
        if kind == "text":
            pairs = zip(self._steps[kind], columns, strict=True)
            return self._scaled(names, [np.asarray(step.transform(_present(texts))) for step, texts in pairs])
        return np.asarray(self._steps[kind].transform(np.stack(columns, axis=1)))

    def _columns(self, kind: str, names: list[str], table: pa.Table) -> list[NDArray[Any]]:
        if kind in ("words", "text"):
            return [as_words(table[name]) for name in names]
        read = as_vectors if kind == "vectors" else as_numbers
        return [read(name, table[name]) for name in names]

    def _fit_scaled(self, names: list[str], matrices: list[NDArray[Any]]) -> NDArray[np.float64]:
        for name, matrix in zip(names, matrices, strict=True):
            self._scales[name] = 1.0 if self.scale == "none" else _common_scale(matrix)
            self._lengths[name] = matrix.shape[1]
        return self._scaled(names, matrices)

    def _scaled(self, names: list[str], matrices: list[NDArray[Any]]) -> NDArray[np.float64]:
        scaled = [matrix / self._scales[name] for name, matrix in zip(names, matrices, strict=True)]
        return np.concatenate(scaled, axis=1)

    def _step(self, kind: str, n_rows: int) -> Pipeline:
        if kind == "words":
            return make_pipeline(
                OneHotEncoder(
                    handle_unknown="infrequent_if_exist", max_categories=self.max_categories, sparse_output=False
                )
            )
        if kind == "booleans":
            return make_pipeline(SimpleImputer(strategy="most_frequent", add_indicator=True))
        ranks = QuantileTransformer(
            n_quantiles=min(RANK_QUANTILES, n_rows),
            output_distribution="normal",
            subsample=RANK_ROWS,
            random_state=0,
        )
        scalers = {"auto": StandardScaler(), "standard": StandardScaler(), "rank": ranks, "none": "passthrough"}
        scaler = ranks if kind == HEAVY_TAILED else scalers[self.scale]
        # scaled first, so that the columns that mark missing values stay 0 and 1
        return make_pipeline(scaler, SimpleImputer(strategy="median", add_indicator=True))


def _word_feature(column: str, word: str | None) -> str:
    return f"{column} is missing" if word is None else f"{column} = {word}"


def is_heavy_tailed(values: NDArray[np.float64]) -> bool:
    """Return whether numbers have heavy tails, by their kurtosis; missing ones are ignored.

    Soundness: no label is read. With a reference, only its rows decide.
    """
    present = values[np.isfinite(values)]
    if len(np.unique(present)) < FEWEST_VALUES:
        return False
    # divided first, so that no power overflows
    scaled = present / np.abs(present).max()
    centred = scaled - scaled.mean()
    squares = (centred / (np.abs(centred).max() or 1.0)) ** 2
    return bool((squares**2).mean() > LARGEST_KURTOSIS * squares.mean() ** 2)


def as_arrow(X: Any) -> pa.Table:
    """Return a data frame of any library as a pyarrow table."""
    if isinstance(X, pa.Table):
        return X
    import narwhals

    try:
        return narwhals.from_native(X, eager_only=True).to_arrow()
    except TypeError as error:
        raise ValueError(f"X must be a pyarrow table or a data frame. Got {type(X).__name__} instead.") from error


def _without_index(X: Any) -> pa.Table:
    """Return a data frame as a pyarrow table; the index of a pandas frame names its rows, and is no feature."""
    return as_arrow(X if index_of(X) is None else X.reset_index(drop=True))


def _other_kind(name: str, kind: str, column: pa.ChunkedArray, strictly: bool) -> str | None:
    """Return the kind of a column if it cannot be encoded as `kind`; else None.

    All values may be missing. Unless `strictly`, numbers may replace words.
    """
    if column.null_count == len(column) and kind != "vectors":
        return None
    found = column_kind(name, column)
    alike = {"numbers": ("numbers", "booleans"), "booleans": ("numbers", "booleans"), "vectors": ("vectors",)}
    like_words = ("words",) if strictly else ("words", "numbers", "booleans")
    return None if found in alike.get(kind, like_words) else found


def _first_word(column: pa.ChunkedArray, kind: str, found: str) -> list[str | RowNumber]:
    """Return the end of an error that shows the first word in a column of numbers."""
    if (kind, found) != ("numbers", "words"):
        return []
    words = without_dictionary(column)
    row = int(pc.index(pc.match_substring_regex(words, NUMBERS["."]), False).as_py())
    return [] if row < 0 else [f": {shortened(words[row].as_py())} in ", RowNumber(row)]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _common_scale(matrix: NDArray[np.float64]) -> float:
    """Return the square root of the mean variance of the columns; 1 if all are constant."""
    scale = float(np.sqrt(matrix.var(axis=0).mean()))
    return scale if scale > 0 else 1.0
