"""Certified clustering: the training labels of a cluster vote on the class of its test rows."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, vstack
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from flipproof.assumptions import Assumption
from flipproof.core.growth import GrowingLines, joined_lines
from flipproof.core.rounding import Floats, Integers
from flipproof.core.votes import SparseVotes, VoteSource, tiles
from flipproof.learners.base import LabelLinearClassifier
from flipproof.learners.clones import assumptions_about, own_clone
from flipproof.parameters import NONE, Constraints, one_of, parameter_error, with_methods
from flipproof.runtime.determinism import on_one_thread, single_threaded, start_anew, with_seeds
from flipproof.runtime.progress import CountedProgress

VOTES = ("cluster", "joint")

#: Description of a valid clusterer.
CLUSTERER = "a clusterer with fit_predict, as KMeans() is"

#: Clusters per class of the default clusterer; in total at most one per training row.
CLUSTERS_PER_CLASS = 4

#: Votes are -1, 0 and 1.
VOTE_PRECISION = 1

#: Distances to centres that are summed at a time: 512 KiB, which fits in a cache.
DISTANCES_AT_A_TIME = 2**16


class CertifiedClusterClassifier(LabelLinearClassifier):
    """Clusters rows without labels; the labels of a cluster vote on its class, and every prediction is certified.

    Choose it where classes form clusters, on raw features or after a label-free `features` step, and where the attack
    may be large: to change the class of a cluster, an attacker must change half of its lead in labels. So radii are
    large, at the cost of accuracy within clusters. More clusters give more accuracy and smaller radii. On MNIST 1/7,
    two clusters of whitened principal components and the vote ``"joint"`` classify 98 % of the test rows correctly,
    even if any 6,300 of the 13,007 training labels are changed.

    **Why it is label-linear.** With the clusters C fixed, the score of class c for a test row z is::

        s_c(z) = sum over j of alpha_j(z) [y_j = c],    alpha_j(z) = 1 if j and z are in the same cluster, else 0,

    and with the vote ``"joint"`` alpha_j(z) is -1 instead of 0 in the other of two clusters: a vote for a class in one
    cluster is a vote against that class in the other. Clusters depend on features alone.

    A test row belongs to the cluster that the clusterer's `predict` returns, called with one row at a time. For
    k-means, and for clusterers without `predict`, it belongs to the cluster with the nearest centre; for the latter, a
    centre is the mean of the cluster's training rows. Training rows that the clusterer labels as noise (a negative
    label, as in DBSCAN) do not vote in any cluster. A test row in no cluster with training rows, that is noise or an
    unknown cluster, gets one vote from every training label: the most frequent class.

    Parameters
    ----------
    clusterer : clusterer, optional
        Any clusterer of scikit-learn, or any object with `fit_predict`, also a mixture model or a pipeline. Cloned and
        fitted *without* labels, on one thread. Random states that are not integers are set to 0, so that a refit gives
        the same clusters. Default: k-means with four clusters per class, ``KMeans(4 * K, n_init=10)``.
    vote : {"cluster", "joint"}, default="cluster"
        ``"cluster"``: the labels of a cluster vote on its class. ``"joint"``: all labels together decide which of two
        clusters belongs to which of two classes, which doubles the radius. It requires exactly two clusters and two
        classes, and suits problems where each class is a cluster.
    noise : float, LabelFlip or "auto", default=0.1
        Noise q of the certificates ``"kl"`` and ``"tight"``; 0 < q < (K - 1) / K. The exact certificate needs no noise.
        ``"auto"``: the best of a grid of q for each test row.
    prior : classifier, optional
        A classifier that votes beside the training labels. If it is fitted, on data that nobody can change, it is used
        as it is; otherwise it is cloned and fitted to the trusted rows and labels of :meth:`fit`. It gets rows as they
        are given, before `features`. See `docs/trusted-labels.md`.
    prior_weight : float, default=1.0
        Weight of the prior. With 1, it counts as much as the votes of all rows that the geometry was learned from.
    method : {"exact", "tight", "kl"}, default="exact"
        Default of :meth:`certify`.
    precision : int, default=10
        Bits per vote, 2 to 24. It has no effect here: votes are -1, 0 or 1.
    features : transformer, optional
        Cloned and fitted on the training features *without* labels; a step that needs labels gets trusted ones only,
        see :meth:`fit`. Random states that are not integers are set to 0, so that a refit gives the same features.
    classes : array of shape (K,), optional
        The class set. If omitted, it is read from the labels, and certificates assume that it is fixed.
    block_size : int, optional
        Clusters certified at a time; by default as many as fit in 256 MiB. It does not affect results.
    n_jobs : int, optional
        Threads over blocks of clusters, as in joblib. It does not affect results.
    verbose : int, default=0
        1: show progress and the time left on stderr in `fit`, `predict` and `certify`. It does not affect results.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    clusterer_ : clusterer
        The fitted `clusterer`.
    n_clusters_ : int
        The number of clusters that have training rows.
    precision_ : int
        Bits per vote: 1.
    noise_ : LabelFlip or None
        The noise with its number of classes; None for ``"auto"``.
    features_ : transformer or None
        The fitted `features`.
    prior_ : classifier or None
        The fitted `prior`.
    n_features_in_ : int
        Number of input columns.

    See Also
    --------
    flipproof.CertifiedNeighborsClassifier : The nearest rows vote.
    flipproof.CertifiedForestClassifier : Rows in the same leaves vote.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from flipproof import CertifiedClusterClassifier
    >>> X, y = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]], ["a", "a", "a", "b", "b", "b"]
    >>> CertifiedClusterClassifier(KMeans(2), classes=["a", "b"]).fit(X, y).certify([[0.3], [4.0]]).radius
    array([1, 1])
    >>> CertifiedClusterClassifier(KMeans(2), vote="joint", classes=["a", "b"]).fit(X, y).certify([[0.3]]).radius
    array([3])
    """

    parameter_constraints: ClassVar[Constraints] = {
        "clusterer": NONE | with_methods("fit_predict", described=CLUSTERER),
        "vote": one_of(*VOTES),
    }

    def __init__(
        self,
        clusterer: object = None,
        *,
        vote: str = "cluster",
        noise: object = 0.1,
        prior: object = None,
        prior_weight: float = 1.0,
        method: str = "exact",
        precision: int = 10,
        features: object = None,
        classes: ArrayLike | None = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        super().__init__(
            noise,
            prior=prior,
            prior_weight=prior_weight,
            method=method,
            precision=precision,
            features=features,
            classes=classes,
            block_size=block_size,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.clusterer = clusterer
        self.vote = vote

    _gets_a_copy = False

    def fit_without_labels(self, X: Floats) -> Integers:
        """Cluster the rows, and return the cluster of each."""
        if self.vote == "joint" and len(self.classes_) != 2:
            raise ValueError(
                f"The vote 'joint' of {type(self).__name__} needs exactly two classes. Got {len(self.classes_)} "
                "instead: use vote='cluster'."
            )
        X = np.asarray(X, dtype=np.float64)
        self.precision_ = VOTE_PRECISION
        labels = self._cluster(X)
        self._names = np.unique(labels[labels >= 0])
        self.n_clusters_ = len(self._names)
        self._check_n_clusters(len(X))
        clusters = _known_clusters(labels, self._names)
        self._centres = self._nearest_decides(X, clusters)
        self._joint = self.vote == "joint"  # as fitted; set_params may change the parameter before the next fit
        return clusters if self.n_reference_ is None else self.place(X)

    def place(self, X: Floats) -> Integers:
        """Return the clusters of rows: of test rows, and of training rows if there is a reference."""
        X = np.asarray(X, dtype=np.float64)
        if self._centres is not None:
            return _nearest(X, self._centres)
        labels = on_one_thread(lambda: with_seeds(lambda: self._predict_one_by_one(X)))
        return _known_clusters(np.array(labels, dtype=np.int64), self._names)

    def hold(self, placed: Integers) -> csr_array:
        """List the votes in each cluster."""
        return _votes_by_cluster(placed, self.n_clusters_, self._joint)

    def hold_more(self, held: csr_array | GrowingLines, placed: Integers, n_before: int) -> GrowingLines:
        """List more votes in each cluster."""
        return GrowingLines.of(held, self.hold(placed[n_before:]))

    def _cluster(self, X: Floats) -> Integers:
        """Fit the clusterer, and return the cluster label of each training row; a negative label means noise."""
        if self.clusterer is None:
            given = KMeans(min(CLUSTERS_PER_CLASS * len(self.classes_), len(X)), n_init=10, random_state=0)
        else:
            given = self.clusterer

        def fit() -> tuple[Any, Any]:
            # one thread for OpenMP too: k-means sums in the order in which threads finish
            with single_threaded(), warnings.catch_warnings():
                if self.clusterer is None:  # duplicate rows give fewer clusters, which is fine
                    warnings.simplefilter("ignore", ConvergenceWarning)
                clusterer = own_clone(given)
                return clusterer, clusterer.fit_predict(X)

        try:
            clusterer, found = on_one_thread(lambda: with_seeds(fit))
            labels = np.asarray(found)
        except (TypeError, ValueError) as error:
            wanted = f"{CLUSTERER}, that can be fitted to these rows without labels"
            raise parameter_error(type(self).__name__, "clusterer", wanted, given, f"{error}") from error
        if labels.shape != (len(X),) or labels.dtype.kind not in "iu":
            wanted = f"{CLUSTERER}, that returns an integer per training row, shape ({len(X)},)"
            found_instead = f"it returned {labels.dtype} of shape {labels.shape}."
            raise parameter_error(type(self).__name__, "clusterer", wanted, given, found_instead)
        self.clusterer_ = clusterer
        return labels.astype(np.int64)

    def _check_n_clusters(self, n: int) -> None:
        name = type(self.clusterer_).__name__
        if self.n_clusters_ == 0:
            raise ValueError(
                f"The clusterer {name} must find a cluster, but labels all {n} training rows as noise: change its "
                "parameters."
            )
        if self.vote == "joint" and self.n_clusters_ != 2:
            raise ValueError(
                f"The vote 'joint' of {type(self).__name__} needs exactly two clusters. {name} found "
                f"{self.n_clusters_} instead: set its number of clusters to 2, as in KMeans(2), or use vote='cluster'."
            )

    def _nearest_decides(self, X: Floats, clusters: Integers) -> Floats | None:
        """Return the centres if test rows go to the nearest one; None if the clusterer's `predict` assigns them."""
        if getattr(type(self.clusterer_), "predict", None) is KMeans.predict:
            # assigns the same clusters as predict, but all rows in one batch, with the same bits in any batch
            return np.asarray(self.clusterer_.cluster_centers_[self._names], dtype=np.float64)
        if hasattr(self.clusterer_, "predict"):
            return None
        members = _members(clusters, self.n_clusters_)
        return np.asarray((members @ X) / members.sum(axis=1)[:, None])

    def test_features(self, X: object) -> Any:
        """Return the cluster number of each test row: all that its votes depend on."""
        return self.place(super().test_features(X))

    def _predict_one_by_one(self, Z: Floats) -> list[Any]:
        """Call the clusterer with one row at a time: its predictions might depend on the batch."""

        def predict(row: Floats) -> Any:
            start_anew()
            return np.asarray(self.clusterer_.predict(row)).item()

        with single_threaded(), CountedProgress(len(Z), "rows assigned to clusters", self.verbose) as progress:
            clusters = []
            for i in range(len(Z)):
                clusters.append(predict(Z[i : i + 1]))
                progress.advance(1)
            return clusters

    def _without_repeats(self, Z: Any) -> tuple[Any, Integers]:
        """All test rows of a cluster have the same votes."""
        return np.unique(Z, return_inverse=True)

    def label_free_votes(self, Z: Any, held: csr_array | GrowingLines) -> SparseVotes:
        """Return the votes on test rows, given by their clusters."""
        held = joined_lines(held)
        return SparseVotes(held[Z], np.zeros(len(Z), dtype=np.int64), held.shape[1])

    def largest_votes(self, Z: Any, source: VoteSource) -> Integers:
        """Every vote is -1, 0 or 1."""
        return np.ones(len(Z), dtype=np.int64)

    def attains_largest_votes(self, Z: object, limit: Integers) -> bool:
        """A copy of the test row votes 1."""
        return True

    def numbers_per_row(self) -> int:
        """Return how many numbers are held per test row, besides the votes."""
        return 5 * self.n_rows_

    def learner_assumptions(self) -> list[Assumption]:
        """Return what certificates of this learner assume beyond what is common to all learners."""
        values = {"step": type(self.clusterer_).__name__, "n_clusters": self.n_clusters_}
        found = [Assumption("clustered-without-labels", values)]
        return found if self.clusterer is None else found + assumptions_about(self.clusterer, "clusterer")


def _known_clusters(labels: Integers, names: Integers) -> Integers:
    """Number the clusters in the order of their labels; unknown labels get the number after the last."""
    return np.where(np.isin(labels, names), np.searchsorted(names, labels), len(names)).astype(np.int64)


def _members(clusters: Integers, n_clusters: int) -> csr_array:
    """Return an indicator row per cluster, with ones at its training rows; noise is in no cluster."""
    rows = np.flatnonzero(clusters < n_clusters)
    return csr_array((np.ones(len(rows)), (clusters[rows], rows)), shape=(n_clusters, len(clusters)))


def _votes_by_cluster(clusters: Integers, n_clusters: int, joint: bool) -> csr_array:
    """Return the votes of all training rows on each cluster, and in the last line on test rows in no cluster."""
    lines = _members(clusters, n_clusters)
    if joint:
        lines = lines - lines[[1, 0]]
    return csr_array(vstack([lines, csr_array(np.ones((1, len(clusters))))], format="csr"))


def _nearest(Z: Floats, centres: Floats) -> Integers:
    """Return the number of the nearest centre; ties go to the first.

    Soundness: differences, squares and sums are computed element by element and column by column, so that no result
    depends on the other rows of the batch, nor on threads.
    """
    nearest = np.empty(len(Z), dtype=np.int64)
    for start, stop in tiles(len(Z), max(DISTANCES_AT_A_TIME // len(centres), 1)):
        distances = np.zeros((len(centres), stop - start))
        squares = np.empty_like(distances)
        with np.errstate(over="ignore", invalid="ignore"):
            for column, coordinates in zip(np.ascontiguousarray(Z[start:stop].T), centres.T, strict=True):
                np.subtract(column, coordinates[:, None], out=squares)
                np.multiply(squares, squares, out=squares)
                distances += squares
        nearest[start:stop] = np.argmin(distances, axis=0)
    return nearest
