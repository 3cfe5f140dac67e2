"""Feature maps of other libraries, set so that they read no label and come out the same each time."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.decomposition import PCA, FastICA
from sklearn.feature_selection import VarianceThreshold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted, validate_data

from flipproof.assumptions import Assumption


def pca_features(n_components: int = 50, *, whiten: bool = False, random_state: int = 0) -> PCA:
    """Return a principal component analysis.

    Parameters
    ----------
    n_components : int
        Number of components.
    whiten : bool
        Whether all components get the same variance. Ridge regression then treats faint directions like strong ones;
        neighbours and clusters often gain.
    random_state : int
        For the randomised solver, which large inputs get.

    Returns
    -------
    sklearn.decomposition.PCA
    """
    return PCA(n_components, whiten=whiten, random_state=random_state)


def ica_features(n_components: int = 30, *, random_state: int = 0) -> Pipeline:
    """Return an independent component analysis, as the paper has it for MNIST: 30 components of equal variance.

    It is a rotation of whitened principal components. Ridge regression does not see rotations, so a search for the best
    one that stops early (a ConvergenceWarning) does no harm there.

    Parameters
    ----------
    n_components : int
        Number of components.
    random_state : int
        Where the search for them starts.

    Returns
    -------
    sklearn.pipeline.Pipeline
        Of a step that leaves constant columns out, and sklearn.decomposition.FastICA.
    """
    ica = FastICA(n_components, whiten="unit-variance", max_iter=400, tol=1e-2, random_state=random_state)
    # FastICA takes its signs from the first column, and fails if that is constant, as the corner of an image may be
    return make_pipeline(VarianceThreshold(), ica)


class UMAPFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Uniform manifold approximation (umap-learn), which brings rows that are alike close together, without labels.

    `umap.UMAP` itself uses labels whenever it is given some, and a Pipeline gives it some: this one never does.

    Parameters
    ----------
    n_components : int, default=10
        Dimensions of the result.
    n_neighbors : int, default=15
        Rows around each row that count as near.
    metric : str, default="euclidean"
        Distance between rows, as umap-learn knows it.
    min_dist : float, default=0.0
        How close rows may come in the result; 0 suits neighbours and clusters.
    random_state : int, default=0
        Seed. With one, umap-learn works on one thread, and a refit gives the same result.

    Attributes
    ----------
    umap_ : umap.UMAP
        The fitted map.
    """

    #: Learners hand it all test rows at once: umap-learn moves them together, so one at a time would take minutes.
    places_rows_together = True

    #: What certificates on these features assume; every learner adds it to its own assumptions.
    rests_on = Assumption("test-rows-together")

    def __init__(
        self,
        n_components: int = 10,
        *,
        n_neighbors: int = 15,
        metric: str = "euclidean",
        min_dist: float = 0.0,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.min_dist = min_dist
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> UMAPFeatures:
        """Learn the map from rows; labels are ignored."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ImportWarning)  # a part of it that is not used here wants TensorFlow
                umap = import_module("umap")
        except ImportError as error:
            raise ImportError("UMAPFeatures needs umap-learn: pip install 'flipproof[umap]'.") from error
        X = validate_data(self, X, dtype=np.float32)
        self.umap_ = umap.UMAP(
            n_components=self.n_components,
            n_neighbors=self.n_neighbors,
            metric=self.metric,
            min_dist=self.min_dist,
            random_state=self.random_state,
            n_jobs=1,
        ).fit(X)
        self._n_features_out = self.n_components
        return self

    def transform(self, X: Any) -> Any:
        """Return the rows in `n_components` dimensions; the rows of the fit come out as they were placed then."""
        check_is_fitted(self)
        return self.umap_.transform(validate_data(self, X, dtype=np.float32, reset=False))
