"""Certified nearest neighbours: the labels of the k nearest training rows vote."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from flipproof.assumptions import Assumption
from flipproof.core.engine import CertifiedBlock, exact_certificates, grid_offsets
from flipproof.core.neighbor_cuts import NearestRows
from flipproof.core.powers import Powers
from flipproof.core.rounding import Floats, Integers
from flipproof.core.votes import SparseVotes, VoteSource, sparse_votes, vote_totals
from flipproof.learners.base import LabelLinearClassifier
from flipproof.learners.clones import fit_label_free, label_free_assumptions, name_of
from flipproof.learners.label_linear import MOST_ROWS
from flipproof.learners.nearest_rows import in_order
from flipproof.learners.neighbor_rows import Electorate, by_class
from flipproof.learners.neighbor_search import (
    ExactSearch,
    Grid,
    IndexedSearch,
    NeighborSearch,
    Voters,
    exact_grid,
    grid_rows,
    measured_search,
    search_on_grid,
)
from flipproof.learners.prior import features_in
from flipproof.parameters import (
    NONE,
    Constraints,
    function,
    instance,
    integer,
    is_integer,
    one_of,
    parameter_error,
    share,
    with_methods,
)
from flipproof.runtime.determinism import on_one_thread

#: For ``n_neighbors=None``, one row in this many votes (5 %), but not fewer than the number below.
ROWS_PER_NEIGHBOR = 20
FEWEST_NEIGHBORS = 15

#: Description of a valid index.
INDEX = "a transformer to sparse matrices of distances that can be fitted without labels, as KNeighborsTransformer is"

#: Training rows of at most this many bytes are copied in the order of their classes for certificates against rows.
MOST_COPIED = 2**26

#: Bits per vote if every neighbour votes 1.
UNIFORM_PRECISION = 1

#: Names of metrics in scikit-learn that scipy lacks, and their names in scipy.
OTHER_NAMES = {"l2": "euclidean", "l1": "cityblock", "manhattan": "cityblock"}

#: Metrics whose distances are exact, on a grid.
EXACT_METRICS = ("euclidean", "cosine")

#: Metrics that scipy scales by the test rows too, and what to use instead.
SCALED_METRICS = {
    **dict.fromkeys(("seuclidean", "se", "s"), "features=StandardScaler()"),
    **dict.fromkeys(("mahalanobis", "mahal", "mah"), "features=PCA(whiten=True)"),
}


class CertifiedNeighborsClassifier(LabelLinearClassifier):
    """Nearest neighbours with a certificate against changed training labels for every prediction.

    The score of class c is the sum of ``w(distance_j) [y_j = c]`` over the k nearest training rows j. These rows and
    their weights depend on features alone: alpha_j is w(distance_j) for the k nearest rows and 0 for all others, and
    there is no offset. With uniform weights all labels count the same, and the radius is half the winner's lead in
    votes: up to k / 2.

    Training rows with equal features form a *pile*. The pile that contains the k-th nearest row votes as a whole, so
    that more than k rows may vote. Rows that are equally far but differ are ordered by a hash of their features. So
    the order of the training rows never matters, and no label decides who votes.

    With ``fit(X, y, reference=...)``, :meth:`certify` also covers added, removed and replaced rows (uniform weights,
    Euclidean or cosine metric). Malicious sources, ``Adversary(groups=...)``, are covered by a lower bound.

    Choose it for large radii: on spambase, certified accuracy at 172 changed labels, 5 % of all, is 0.69 (cosine, 30 %
    of the rows), where ridge has 0.17. It needs features in which near rows are similar: principal components,
    embeddings, standardised columns. More neighbours trade accuracy for radius; choose the number without the labels
    that are to be protected. If you expect few changed labels and a linear rule fits, ridge is more accurate, and it
    predicts much faster.

    Parameters
    ----------
    n_neighbors : int or float, optional
        Number of rows that vote: an integer from 1 to n, or a share of the training rows between 0 and 1, rounded up.
        Default: 5 % of the rows, rounded up, but at least 15, or all rows if there are fewer. An integer above n is an
        error in `fit`; to tune on folds of any size, use shares. With a reference, it must not depend on n: an integer,
        perhaps above n, or None for 5 % of the rows of the reference, at least 15.
    weights : {"uniform", "distance"} or callable, default="uniform"
        Weight of each neighbour. ``"uniform"``: 1. ``"distance"``: one over its distance; if some are at distance 0,
        these have weight 1 and all others 0. A function gets the distances of one test row, shape (1, number of rows
        that vote), in ascending order, and returns weights of the same shape; they may be negative. All rows of a pile
        have the weight of the first of them.
    metric : str or callable, default="euclidean"
        ``"euclidean"`` and ``"cosine"`` are fast. Also any other metric of :func:`scipy.spatial.distance.cdist` that
        needs no parameters, or a function of two rows. For the fast metrics, features are rounded to about 20 bits, so
        that distances are exact (cosine: of rows of length 1). Values are clipped, in each column, at a distance from
        the columns' medians of four times the farthest training row, or 1024 times the median one if that is less.
        With a reference, its rows decide on medians and distances, not the training rows.
    index : transformer, optional
        Finds neighbours, perhaps approximately, in the way of :class:`sklearn.neighbors.KNeighborsTransformer` with
        ``mode="distance"``: ``fit(X)``, then ``transform(Z)`` returns a sparse matrix of distances with at least
        n_neighbors entries per row. Cloned and fitted without labels, with random states that are not integers set to
        0, and called with one row at a time on one thread. Certificates assume that a refit gives the same index. The
        index measures distances: `metric` must keep its default. Exactly n_neighbors rows vote; of equally near ones,
        those with the lower row numbers. Not with a reference.
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
        Bits per vote, 2 to 24. Weights are rounded to integer votes; predictions and certificates both use these votes.
        Uniform votes are 1 at any precision.
    features : transformer, optional
        Cloned and fitted on the training features *without* labels; a step that needs labels gets trusted ones only,
        see :meth:`fit`. Random states that are not integers are set to 0, so that a refit gives the same features.
    classes : array of shape (K,), optional
        The class set. If omitted, it is read from the labels, and certificates assume that it is fixed.
    block_size : int, optional
        Test rows certified at a time; by default as many as fit in 256 MiB. It does not affect results.
    n_jobs : int, optional
        Threads over blocks of test rows, as in joblib. It does not affect results.
    verbose : int, default=0
        1: show progress and the time left on stderr in `fit`, `predict` and `certify`. It does not affect results.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    n_neighbors_ : int
        Number of rows that vote, without the rest of a pile.
    index_ : transformer or None
        The fitted `index`.
    precision_ : int
        Bits per vote that were used; 1 if all votes are 1.
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
    flipproof.CertifiedForestClassifier : Rows in the same leaves vote.
    flipproof.CertifiedClusterClassifier : Rows of the same cluster vote.
    flipproof.CertifiedNeighborsRegressor : Nearest rows for numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedNeighborsClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CertifiedNeighborsClassifier(50, classes=range(10)).fit(X[:1000], y[:1000])
    >>> model.certify(X[1000:])
    <Certificates: 797 predictions, method 'exact', median radius 18 of 1000 labels>
    """

    parameter_constraints: ClassVar[Constraints] = {
        "n_neighbors": NONE | integer(1) | share(),
        "weights": one_of("uniform", "distance") | function("a function of distances"),
        "metric": instance(str, "the name of a metric") | function("a function of two rows"),
        "index": NONE | with_methods("fit", "transform", "get_params", described=INDEX),
    }

    def __init__(
        self,
        n_neighbors: int | float | None = None,
        *,
        weights: str | Callable[[Floats], Floats] = "uniform",
        metric: str | Callable[[Floats, Floats], float] = "euclidean",
        index: Any = None,
        noise: Any = 0.1,
        prior: Any = None,
        prior_weight: float = 1.0,
        method: str = "exact",
        precision: int = 10,
        features: Any = None,
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
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.metric = metric
        self.index = index

    def validate_parameters(self) -> None:
        """Refuse parameters that `fit` cannot use."""
        super().validate_parameters()
        owner, metric = type(self).__name__, self.metric
        if self.index is not None and not (isinstance(metric, str) and metric == "euclidean"):
            remedy = "it has no effect on an index. Omit it, and set the metric of the index."
            raise parameter_error(owner, "metric", "'euclidean' where an index measures distances", metric, remedy)
        if isinstance(metric, str) and metric.lower() in SCALED_METRICS:
            remedy = f"use {SCALED_METRICS[metric.lower()]} and the Euclidean metric."
            raise parameter_error(owner, "metric", "one that does not depend on other test rows", metric, remedy)

    _gets_a_copy = False
    rows_vote_separately = False

    def fit_without_labels(self, X: Floats) -> NDArray[Any]:
        """Fix the number of neighbours and the grid, or fit the index, and return the rows in this geometry."""
        self.n_neighbors_ = self._resolve_n_neighbors(len(X))
        # as fitted; set_params may change parameters before the next fit
        self._weights, self._metric = self.weights, self._resolve_metric()
        if self._weights == "uniform":
            self.precision_ = UNIFORM_PRECISION
        self.index_: Any = None
        self._grid: Grid | None = None
        if self.index is not None:
            self._fit_index(X)
            return X
        if self._metric in EXACT_METRICS:
            self._grid = exact_grid(X, self._metric == "cosine")
        else:
            self._try_metric(X[:2])
        return self.place(X)

    def place(self, X: Floats) -> NDArray[Any]:
        """Return rows on the grid; for metrics without a grid, as they are."""
        if self._grid is not None:
            return grid_rows(X, self._grid, self._metric == "cosine")
        return np.array(X, dtype=np.float64, order="C")

    def hold(self, placed: NDArray[Any]) -> NeighborSearch:
        """Return a search among placed rows."""
        if self.index_ is not None:
            return IndexedSearch(self.index_, len(placed))
        if self._grid is not None:
            return search_on_grid(placed, self._grid, self._metric == "cosine")
        return measured_search(placed, self._metric)

    def hold_more(self, held: NeighborSearch, placed: NDArray[Any], n_before: int) -> NeighborSearch:
        """Return a search among more rows; lengths and hashes of the first ones are kept."""
        return held.with_more(placed) if isinstance(held, ExactSearch) else self.hold(placed)

    def _resolve_n_neighbors(self, n: int) -> int:
        """Return how many rows vote.

        Soundness: n is the number of training rows, which changed labels leave as it is; or, with a reference, that of
        its rows, which nobody can change. The number of training rows then does not matter (M13).
        """
        is_frozen, given = self.n_reference_ is not None, self.n_neighbors
        if given is None:
            default = max(-(-n // ROWS_PER_NEIGHBOR), FEWEST_NEIGHBORS)
            return default if is_frozen else min(default, n)
        if not is_integer(given):
            if is_frozen:
                wanted, remedy = "an integer where reference=... is given", "a share changes with the number of rows."
                raise parameter_error(type(self).__name__, "n_neighbors", wanted, given, remedy)
            share = round(float(given) * n, 6)  # 0.07 * 100 is slightly above 7
            return max(math.ceil(share), 1)
        if given > n and not is_frozen:
            wanted, remedy = f"at most the number of training rows, {n}", "give fewer, or a share between 0 and 1."
            raise parameter_error(type(self).__name__, "n_neighbors", wanted, given, remedy)
        return int(given)

    def _resolve_metric(self) -> Any:
        return OTHER_NAMES.get(self.metric, self.metric) if isinstance(self.metric, str) else self.metric

    def _try_metric(self, X: Floats) -> None:
        """Refuse a metric that is unknown, or not defined for these rows."""
        try:
            measured_search(np.array(X, dtype=np.float64, order="C"), self._metric).voters(X[:1], 1)
        except ValueError as error:
            if "Unknown Distance Metric" not in str(error):
                raise
            wanted = "'euclidean', 'cosine', another metric of scipy.spatial.distance.cdist, or a function of two rows"
            raise parameter_error(type(self).__name__, "metric", wanted, self.metric) from error

    def _fit_index(self, X: Floats) -> None:
        owner, settings = type(self).__name__, self.index.get_params()
        if self.n_reference_ is not None:
            remedy = "what an index finds depends on all rows. Omit it: the search without an index is exact."
            raise parameter_error(owner, "index", "None where reference=... is given", self.index, remedy)
        if any(name.endswith("mode") and value == "connectivity" for name, value in settings.items()):
            raise parameter_error(owner, "index", INDEX, self.index, "set its mode to 'distance'.")
        try:
            # a copy: it may keep the rows, and the caller may change them
            self.index_ = fit_label_free(self.index, X.copy())
        except (TypeError, ValueError) as error:
            raise parameter_error(owner, "index", f"{INDEX}, to these rows", self.index, f"{error}") from error
        IndexedSearch(self.index_, len(X)).voters(X[:1], self.n_neighbors_)  # raises now if its output is invalid

    def label_free_votes(self, Z: Floats, held: NeighborSearch) -> SparseVotes:
        """Return the votes of the nearest training rows on each test row."""
        voters, n = held.voters(Z, self.n_neighbors_), self.n_rows_
        most = held.most_voters(self.n_neighbors_)
        weights = csr_array((self._weigh(voters), voters.rows, voters.starts), shape=(len(Z), n))
        if self._weights == "uniform":
            return SparseVotes(weights, np.zeros(len(Z), dtype=np.int64), most)
        return sparse_votes(weights, self.precision_, most)

    def _weigh(self, voters: Voters) -> Floats:
        if callable(self._weights):
            return _weigh_row_by_row(self._weights, voters)
        return _inverse(voters) if self._weights == "distance" else np.ones(len(voters.rows))

    def total_votes(self, Z: Floats, source: VoteSource) -> Integers:
        """Return the number of neighbours; of weighted neighbours, the sum of their votes.

        With other weights there are no certificates against changed rows, so the sum may depend on training rows.
        """
        if self._weights == "uniform" and self._ballots is None:
            return np.full(len(Z), self.n_neighbors_, dtype=np.int64)
        return vote_totals(source)

    def largest_votes(self, Z: Floats, source: VoteSource) -> Integers:
        """Uniform votes are 0 or 1; others are bounded by the end of the grid."""
        return np.full(len(Z), 2**self.precision_ - 1, dtype=np.int64)

    def attains_largest_votes(self, Z: Floats, limit: Integers) -> bool:
        """A copy of the test row votes; with uniform weights, no other row can have a larger vote."""
        return self._weights == "uniform"

    @property
    def covers_rows(self) -> bool:
        """Whether this fit can be certified against changed rows; with weights or other metrics it cannot."""
        return super().covers_rows and self._weights == "uniform" and self._grid is not None

    def _check_row_changes(self, method: str, powers: Powers) -> None:
        super()._check_row_changes(method, powers)
        owner = type(self).__name__
        if self._weights != "uniform":
            wanted, remedy = "'uniform' against changed rows", "an added row changes the weights of others. Fit again."
            raise parameter_error(owner, "weights", wanted, self._weights, remedy)
        if self._grid is None:
            wanted = "'euclidean' or 'cosine' against changed rows"
            remedy = "for other metrics it is not known how near an added row can be. Fit again."
            raise parameter_error(owner, "metric", wanted, self._metric, remedy)

    def _certify_rows(self, Z: Any, powers: Powers) -> CertifiedBlock:
        """Certify a block against changed rows: exactly, by the nearest rows in order (M13).

        Soundness: a row on the grid is at distance 0 from the test row if and only if it equals it there, so an added
        copy of the test row is in front of all rows of other content. If the test row is a row of zeros and distances
        are angles, the nearest possible row is unknown; the attacker is then assumed to have one in front of all
        training rows. A source with s rows makes at most s changes, so a certificate against any r changes also covers
        any sources that have at most r rows in total. Both are lower bounds.
        """
        search = self._held
        assert isinstance(search, ExactSearch)
        offsets, Z = self._constant_offsets(Z), features_in(Z)
        ordered, order, electorate = self._by_class(search, powers)
        relative, own_squares = ordered.compare(Z, order)
        scores, needed = electorate.changes_needed(relative, own_squares, offsets)
        scope, exponent = powers.scope, np.zeros(len(Z), dtype=np.int64)
        found = exact_certificates(scores, lambda winner, lead: needed, replace(scope, group_sizes=None))
        if scope.group_sizes is None:
            return CertifiedBlock(found, exponent, powers.changes == "removals" or search.has_nearest(Z))
        radius = np.where(found.unlimited, scope.n_touchable, scope.groups_within(found.radius))
        return CertifiedBlock(replace(found, radius=radius, unlimited=radius == scope.n_touchable), exponent, False)

    def _by_class(self, search: ExactSearch, powers: Powers) -> tuple[ExactSearch, Integers | None, Electorate]:
        """Return the rows sorted by class, which changes no result: a search, the order of its rows, and who they are.

        It is computed once for all blocks of test rows. Many rows are not copied, but put in order for each block.
        """
        if "by class" not in powers.kept:
            order = by_class(self.label_codes_, powers.changeable)
            electorate = self._electorate(search, powers, order)
            if search.columns.nbytes <= MOST_COPIED:
                powers.kept["by class"] = search.reordered(order), None, electorate
            else:
                powers.kept["by class"] = search, order, electorate
        found: tuple[ExactSearch, Integers | None, Electorate] = powers.kept["by class"]
        return found

    def _constant_offsets(self, Z: Any) -> Integers | None:
        """Return the offsets of the prior on test rows, if there is one, as `offsets_on` does."""
        if self.weighted_prior_ is None:
            return None
        totals = np.full(len(Z), self.n_neighbors_, dtype=np.int64)
        given = self.weighted_prior_.offsets(totals, Z.shares)
        return grid_offsets(given, given.shape, MOST_ROWS, self.precision_)

    def _electorate(self, search: ExactSearch, powers: Powers, order: Integers | None = None) -> Electorate:
        """Return the training rows, perhaps in another order, with what can be done to them."""
        rows = slice(None) if order is None else order
        return Electorate(
            contents=search.contents[rows],
            codes=self.label_codes_[rows],
            removable=powers.changeable[rows],
            k=self.n_neighbors_,
            n_classes=len(self.classes_),
            changes=powers.changes,
            is_by_class=order is not None,
        )

    def rows_in_order(self, Z: object, powers: Powers) -> tuple[NearestRows, Integers]:
        """Return all training rows in the order of their distance from each test row, and their row numbers.

        For attacks by changed rows: needs a fit with ``reference=...`` and a metric that is exact.
        """
        search = self._held
        assert isinstance(search, ExactSearch)
        relative, own_squares = search.compare(features_in(Z))
        listed = in_order(relative, search.contents, self.n_rows_)
        first = np.take_along_axis(relative, listed.rows[:, :1], axis=1) + own_squares[:, None]
        nearest = self._electorate(search, powers).nearest_rows(listed, (first == 0).any(axis=1))
        return replace(nearest, offsets=self._constant_offsets(Z)), listed.rows

    def votes_per_row(self) -> int:
        """Return how many votes on a test row can differ from 0."""
        return int(self._held.most_voters(self.n_neighbors_))

    def numbers_per_row(self) -> int:
        """Count the distances to all rows (none for an index), and the voters with their weights."""
        return (0 if self.index_ is not None else self.n_rows_) + 5 * self.votes_per_row()

    def learner_assumptions(self) -> list[Assumption]:
        """Return what certificates of this learner assume beyond what is common to all learners."""
        found: list[Assumption] = []
        if self.index_ is not None:
            found += label_free_assumptions(self.index, "neighbour index")
        for name in ("weights", "metric"):
            given = getattr(self, name)
            if callable(given):
                found.append(Assumption("custom-function", {"parameter": name, "function": name_of(given)}))
        return found


def _inverse(voters: Voters) -> Floats:
    """Return one over each distance; if that is infinite somewhere for a test row, 1 there and 0 elsewhere."""
    with np.errstate(divide="ignore", over="ignore"):
        weights = 1 / voters.distances
    hits = np.isinf(weights)
    has_hit = np.bincount(voters.test_rows[hits], minlength=len(voters.starts) - 1) > 0
    return np.where(has_hit[voters.test_rows], hits, weights)


def _weigh_row_by_row(weigh: Callable[[Floats], Any], voters: Voters) -> Floats:
    """Return the function's weights; it gets the distances of each test row in order, as in scikit-learn.

    Rows of a pile all have the weight of the first of them: else the weight of a row could depend on its place.
    """
    order = np.lexsort((voters.rows, voters.contents, voters.distances, voters.test_rows))
    distances, contents = voters.distances[order], voters.contents[order]

    def weigh_all() -> list[Floats]:
        return [
            _checked_weights(weigh(distances[None, start:stop]), stop - start)
            for start, stop in zip(voters.starts[:-1], voters.starts[1:], strict=True)
        ]

    in_order = np.concatenate(on_one_thread(weigh_all), axis=1)[0]
    begins = np.ones(len(order), dtype=bool)
    begins[1:] = (distances[1:] != distances[:-1]) | (contents[1:] != contents[:-1])
    begins[voters.starts[:-1][voters.starts[:-1] < len(order)]] = True
    first_of_pile = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    weights = np.empty(len(order))
    weights[order] = in_order[first_of_pile]
    return weights


def _checked_weights(answer: object, k: int) -> Floats:
    weights = np.asarray(answer, dtype=np.float64)
    if weights.shape != (1, k) or not np.all(np.isfinite(weights)):
        what = f"shape {weights.shape}" if weights.shape != (1, k) else "NaN or infinity"
        raise ValueError(
            f"The 'weights' function must return finite weights, one per distance, shape (1, {k}) for one test row. "
            f"Got {what} instead."
        )
    return weights
