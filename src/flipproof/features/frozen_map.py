"""A map that places rows by their nearest reference rows, one row at a time, so that certificates can cover rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from flipproof.core.rounding import Floats, Integers
from flipproof.parameters import Constraints, check_parameters, integer, one_of, with_methods

#: Bits of a float64 in which whole numbers, and sums of products of them, are exact.
EXACT_BITS = 52
#: Rows per block: bounds the memory for distances.
BLOCK = 256


class FrozenMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Give a row the weighted mean of the places that its nearest reference rows have under another map.

    UMAP places the rows that it is fitted to; other rows it places slowly, and depending on which rows are asked for
    together. This step fits such a map to the rows that it gets in `fit`, the reference, and keeps their places. Any
    other row is then placed by itself: at the mean of the places of the reference rows nearest to it, weighted by the
    inverse of their distances. A reference row keeps its own place. So the map is *frozen*: with ``reference=`` in the
    fit of a learner, certificates can cover added, removed and replaced training rows.

    Soundness: the place of a row depends on this row and the reference alone. Rows are rounded to whole numbers, small
    enough for all sums of products to be exact in float64 in any order. Distances, and which rows are nearest, are
    therefore the same beside any other rows; of equally near rows, the first ones count.

    Parameters
    ----------
    transformer : transformer
        The map to freeze, for example :class:`UMAPFeatures`. It is cloned and fitted without labels, and is then asked
        for the rows that it was fitted to, once.
    n_neighbors : int, default=5
        Number of nearest reference rows; all of them if there are fewer.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Distance by which reference rows are near. For "cosine", rows are scaled to length 1 first.

    Attributes
    ----------
    places_ : array of shape (n_reference, n_components)
        Places of the reference rows.

    See Also
    --------
    flipproof.features.UMAPFeatures : A map that is worth freezing.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from flipproof.features import FrozenMap
    >>> reference = np.array([[0.0, 0.0], [2.0, 0.0], [10.0, 0.0]])
    >>> frozen = FrozenMap(PCA(1), n_neighbors=2).fit(reference)
    >>> abs(frozen.transform([[1.0, 0.0], [10.0, 0.0]])).round(6).tolist()
    [[3.0], [6.0]]
    """

    #: The map inside is asked for the reference only, so it does not matter that it may place rows together.
    freezes_places = True

    parameter_constraints: ClassVar[Constraints] = {
        "transformer": with_methods("fit", "transform", described="a transformer"),
        "n_neighbors": integer(1),
        "metric": one_of("euclidean", "cosine"),
    }

    def __init__(self, transformer: object, *, n_neighbors: int = 5, metric: str = "euclidean") -> None:
        self.transformer = transformer
        self.n_neighbors = n_neighbors
        self.metric = metric

    def fit(self, X: object, y: object = None) -> FrozenMap:
        """Fit the map to reference rows and keep their places; labels are ignored.

        Parameters
        ----------
        X : array of shape (n, k)
            Rows.
        y : ignored
            Labels are never read.

        Returns
        -------
        self
            The fitted map.
        """
        check_parameters(self)
        rows = self._scaled(validate_data(self, X, dtype=np.float64))
        self.places_: Floats = np.array(clone(self.transformer).fit(X).transform(X), dtype=np.float64)
        if self.places_.ndim != 2 or len(self.places_) != len(rows) or not np.isfinite(self.places_).all():
            raise ValueError("The transformer of FrozenMap must return a row of finite numbers for each row.")
        self._n_features_out = self.places_.shape[1]
        self._center: Floats = rows.mean(axis=0)
        # values of other rows beyond twice the range of the reference are clipped
        self._largest = 2.0 * float(np.abs(rows - self._center).max()) or 1.0
        # with d columns, squared distances are at most 4 d steps^2, which must not exceed 2^EXACT_BITS
        self._steps = 2.0 ** ((EXACT_BITS - 2 - int(np.ceil(np.log2(rows.shape[1])))) // 2)
        self._reference: Floats = self._on_grid(rows)
        self._squares: Floats = np.einsum("ij,ij->i", self._reference, self._reference)
        return self

    def transform(self, X: object) -> Floats:
        """Return the place of each row.

        Parameters
        ----------
        X : array of shape (n, k)
            Rows.

        Returns
        -------
        floats
            A line per row.
        """
        check_is_fitted(self)
        rows = self._on_grid(self._scaled(validate_data(self, X, dtype=np.float64, reset=False)))
        blocks = (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))
        return np.concatenate([self._placed(block) for block in blocks])

    def _scaled(self, X: Any) -> Floats:
        if self.metric == "euclidean":
            return np.asarray(X)
        largest = np.abs(X).max(axis=1, keepdims=True)
        X = X / np.where(largest > 0, largest, 1.0)  # squares must not overflow
        length = np.sqrt(np.einsum("ij,ij->i", X, X))[:, None]
        return np.asarray(X / np.where(length > 0, length, 1.0))

    def _on_grid(self, rows: Floats) -> Floats:
        """Return whole numbers between -steps and steps, as floats."""
        with np.errstate(over="ignore"):  # values near the largest float become infinite, and are clipped
            moved = (rows - self._center) / self._largest
        return np.rint(np.clip(moved, -1.0, 1.0) * self._steps)

    def _placed(self, rows: Floats) -> Floats:
        squares = np.einsum("ij,ij->i", rows, rows)
        distances = squares[:, None] - 2.0 * (rows @ self._reference.T) + self._squares
        nearest = _smallest(distances, min(self.n_neighbors, len(self._reference)))
        near = np.sqrt(np.take_along_axis(distances, nearest, axis=1))
        is_same = near == 0
        weights = np.where(is_same.any(axis=1, keepdims=True), is_same, 1.0 / np.where(is_same, 1.0, near))
        total = np.zeros((len(rows), self.places_.shape[1]))
        for rank in range(nearest.shape[1]):  # one after the other: the same order of additions for every row
            total += weights[:, rank, None] * self.places_[nearest[:, rank]]
        whole = np.zeros(len(rows))
        for rank in range(nearest.shape[1]):
            whole += weights[:, rank]
        return np.asarray(total / whole[:, None])


def _smallest(distances: Floats, k: int) -> Integers:
    """Return the columns of the k smallest values of each row, ascending; of equal values, the first columns."""
    found: NDArray[np.int64] = np.argpartition(distances, k - 1, axis=1)[:, :k].astype(np.int64)
    largest = np.take_along_axis(distances, found, axis=1).max(axis=1)
    for row in np.flatnonzero((distances <= largest[:, None]).sum(axis=1) > k):  # equal values on both sides
        found[row] = np.argsort(distances[row], kind="stable")[:k]
    found.sort(axis=1)
    order = np.argsort(np.take_along_axis(distances, found, axis=1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(found, order, axis=1))
