"""Feature maps of other libraries with settings that make them label-free and reproducible."""

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
        Whether to scale all components to the same variance. Ridge regression then treats weak directions like strong
        ones; neighbours and clusters often improve.
    random_state : int
        Seed of the randomised solver, which is used for large inputs.

    Returns
    -------
    sklearn.decomposition.PCA
        Not fitted; use it as `features` of a learner.

    See Also
    --------
    flipproof.features.ica_features : Independent components.
    flipproof.features.UMAPFeatures : UMAP without labels.

    Examples
    --------
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from flipproof.features import pca_features
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(features=pca_features(5)).fit(X[:400], y[:400])
    """
    return PCA(n_components, whiten=whiten, random_state=random_state)


def ica_features(n_components: int = 30, *, random_state: int = 0) -> Pipeline:
    """Return an independent component analysis, as in the paper for MNIST: 30 components of equal variance.

    It is a rotation of whitened principal components. Ridge regression is invariant to rotations, so a search that
    stops early (a ConvergenceWarning) does no harm there.

    Parameters
    ----------
    n_components : int
        Number of components.
    random_state : int
        Seed of the start of the search.

    Returns
    -------
    sklearn.pipeline.Pipeline
        A step that drops constant columns, followed by sklearn.decomposition.FastICA.

    See Also
    --------
    flipproof.features.pca_features : Principal components.

    Examples
    --------
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from flipproof.features import ica_features
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(features=ica_features(5)).fit(X[:400], y[:400])
    """
    ica = FastICA(n_components, whiten="unit-variance", max_iter=400, tol=1e-2, random_state=random_state)
    # FastICA takes its signs from the first column, and fails if it is constant, like the corner pixel of many images
    return make_pipeline(VarianceThreshold(), ica)


class UMAPFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Uniform manifold approximation (umap-learn), which places similar rows close together, without labels.

    `umap.UMAP` itself uses labels if it gets them, and a Pipeline passes them on; this class never does.

    Parameters
    ----------
    n_components : int, default=10
        Dimensions of the result.
    n_neighbors : int, default=15
        Number of neighbours of each row.
    metric : str, default="euclidean"
        Distance between rows, by its name in umap-learn.
    min_dist : float, default=0.0
        Smallest distance between rows in the result; 0 suits neighbours and clusters.
    random_state : int, default=0
        Seed. With a seed, umap-learn uses one thread, and a refit gives the same result.

    Attributes
    ----------
    umap_ : umap.UMAP
        The fitted map.

    See Also
    --------
    flipproof.features.pca_features : Principal components.
    flipproof.CertifiedNeighborsClassifier : The nearest rows vote.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedNeighborsClassifier
    >>> from flipproof.features import UMAPFeatures
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CertifiedNeighborsClassifier(50, features=UMAPFeatures(10), classes=range(10)).fit(X[:300], y[:300])
    >>> model.predict(X[300:305]).shape
    (5,)
    """

    #: Learners pass all test rows at once: umap-learn places them together, and one at a time would take minutes.
    places_rows_together = True

    #: What certificates with these features assume; every learner adds it to its assumptions.
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

    def fit(self, X: object, y: object = None) -> UMAPFeatures:
        """Learn the map from rows; labels are ignored.

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
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ImportWarning)  # an unused part of umap-learn asks for TensorFlow
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

    def transform(self, X: object) -> Any:
        """Return the rows in `n_components` dimensions; training rows get the same coordinates as in `fit`.

        Parameters
        ----------
        X : array of shape (n, k)
            Rows.

        Returns
        -------
        floats of shape (n, n_components)
            A line per row.
        """
        check_is_fitted(self)
        return self.umap_.transform(validate_data(self, X, dtype=np.float32, reset=False))
