"""Certified forests: trees are grown without labels, so that labels enter only as votes of a leaf."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.tree import ExtraTreeRegressor

from flipproof.assumptions import Assumption
from flipproof.core.growth import GrowingLines, joined_lines
from flipproof.core.histograms import NUMBERS_AT_A_TIME
from flipproof.core.rounding import Floats, Integers, bits_left, grid_exponent, power_of_two, scale, to_grid
from flipproof.core.votes import EstimatedScores, SparseVotes, VoteSource, one_hot, tiles
from flipproof.learners.base import LabelLinearClassifier
from flipproof.learners.certified import TRUSTED_LABELS
from flipproof.parameters import NONE, Constraints, integer, is_integer, one_of, parameter_error, share
from flipproof.runtime.progress import CountedProgress

#: Most values of a column that define its ranks; longer columns are subsampled evenly.
MOST_LEVELS = 2**12

#: Random directions per tree in which the rows of a leaf should agree.
DIRECTIONS = 4

#: A training row's share in a leaf is an integer multiple of 2**-48: sums over trees and rows are exact.
SHARE_BITS = 48


class CertifiedForestClassifier(LabelLinearClassifier):
    """A forest whose trees never see a label, with a certificate against changed training labels.

    Trees split the training rows into leaves of similar rows, and in each tree the labels of the leaf that a test row
    falls into vote on its class. Choose it for tables with columns of all kinds, many uninformative columns, heavy
    tails or many zeros. Splits compare ranks, so the shape of a column's distribution does not matter. Leaves with more
    rows (`min_samples_leaf`) give larger radii and less accuracy. On standardised spambase (3,450 training rows),
    leaves of at least a tenth of the rows give a certified accuracy of 78 % at 69 flips and 61 % at 172, where ridge
    has 50 % and 17 %.

    **Why it is label-linear.** With the trees fixed, the average over T trees of the shares of class c in the leaves
    of a test row z is::

        s_c(z) = sum over j of alpha_j(z) [y_j = c],    alpha_j(z) = 1/T sum over t of [j in leaf_t(z)] / |leaf_t(z)|.

    **How trees grow without labels.** They are extremely randomised trees: a node draws some columns and one random
    threshold for each, and keeps the best split. Splits are compared by features, not labels: each tree draws a few
    random directions, sums of all columns with random signs, and keeps the split that leaves the least variance in
    them. Columns with larger numbers therefore count more: scale columns that have different units, for instance by
    ``features=StandardScaler()``.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of trees T. Fitting needs 12 bytes of memory per tree and training row.
    max_depth : int, optional
        Maximal depth of a tree. Default: limited only by `min_samples_leaf`.
    min_samples_leaf : int or float, default=0.02
        Minimal number of training rows in a leaf, or share of all training rows between 0 and 1. More classes need
        smaller leaves; larger radii need larger leaves.
    max_features : {"sqrt", "log2"}, int, float or None, default="sqrt"
        Number of columns a node draws: the square root or logarithm of their number, an integer, a share of all, or
        None for all. With 1, trees are totally random; with more, the rows of a leaf are more similar.
    grow : {"label-free", "supervised"}, default="label-free"
        How splits are compared: by features, or by the labels of trusted rows, which :meth:`fit` then needs. In that
        case `min_samples_leaf` counts trusted rows, and all training rows vote in the leaves that they fall into.
    random_state : int, default=0
        Seed of the trees; an integer, since a refit must grow the same trees.
    noise : float, LabelFlip or "auto", default=0.1
        Noise q of the certificates ``"kl"`` and ``"tight"``; 0 < q < (K - 1) / K. The exact certificate needs no noise.
        ``"auto"``: the best of a grid of q for each test row.
    clip : "sign" or float, optional
        Limits the votes on each test row, so that no row has a much larger vote. A share in (0, 1]: votes are
        clipped to the size that this share of all votes other than 0 do not exceed. ``"sign"``: every vote is -1, 0 or
        1. Clipping usually increases radii; see `docs/poisoned-rows.md`.
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
    features : transformer, optional
        Cloned and fitted on the training features *without* labels; a step that needs labels gets trusted ones only,
        see :meth:`fit`. Random states that are not integers are set to 0, so that a refit gives the same features.
    classes : array of shape (K,), optional
        The class set. If omitted, it is read from the labels, and certificates assume that it is fixed.
    block_size : int, optional
        Test rows certified at a time; by default as many as fit in 256 MiB. It does not affect results.
    n_jobs : int, optional
        Threads over trees in `fit`, and over blocks of test rows, as in joblib. It does not affect results.
    verbose : int, default=0
        1: show progress and the time left on stderr in `fit`, `predict` and `certify`. It does not affect results.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    estimators_ : list of ExtraTreeRegressor
        The trees, which are fitted to ranks of features.
    precision_ : int
        Bits per vote that were used.
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
    flipproof.CertifiedRidgeClassifier : Ridge regression, as in the paper.
    flipproof.CertifiedForestRegressor : The same trees for numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedForestClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CertifiedForestClassifier(classes=range(10)).fit(X[:1000], y[:1000])
    >>> model.certify(X[1000:])
    <Certificates: 797 predictions, method 'exact', median radius 11 of 1000 labels>
    """

    parameter_constraints: ClassVar[Constraints] = {
        "n_estimators": integer(1),
        "max_depth": NONE | integer(1),
        "min_samples_leaf": integer(1) | share(),
        "max_features": NONE | one_of("sqrt", "log2") | integer(1) | share(includes_all=True),
        "grow": one_of("label-free", "supervised"),
        "random_state": integer(0).explained("a refit must grow the same trees."),
    }

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_depth: int | None = None,
        min_samples_leaf: int | float = 0.02,
        max_features: str | int | float | None = "sqrt",
        grow: str = "label-free",
        random_state: int = 0,
        noise: object = 0.1,
        clip: str | float | None = None,
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
            clip=clip,
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
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.max_features = max_features
        self.grow = grow
        self.random_state = random_state

    _gets_a_copy = False
    _lesson: tuple[Floats, Integers] | None = None

    def learn_from_trusted(self, X: Floats, codes: Integers) -> tuple[str, ...]:
        """Keep trusted rows and labels until the trees are grown, if they are grown with labels (M15)."""
        if self.grow == "label-free":
            return ()
        self._lesson = X, codes
        return ("the trees",)

    def fit_without_labels(self, X: Floats) -> Integers:
        """Grow the trees, count the rows of each leaf, and return the leaves of these rows."""
        self._levels = _levels(X)
        ranks = _ranks(X, self._levels)
        grown_on, targets = self._examples(X, ranks)
        seeds = np.random.SeedSequence(int(self.random_state)).generate_state(int(self.n_estimators)).tolist()
        with CountedProgress(len(seeds), "trees", self.verbose) as progress:

            def grow(seed: int) -> ExtraTreeRegressor:
                tree = self._grow(grown_on, targets, seed)
                progress.advance(1)
                return tree

            self.estimators_ = Parallel(n_jobs=self.n_jobs, require="sharedmem")(delayed(grow)(seed) for seed in seeds)
        n_nodes = [tree.tree_.node_count for tree in self.estimators_]
        self._first_node = np.cumsum([0, *n_nodes])
        leaves = self._leaves(ranks)
        sizes = np.bincount(leaves.ravel(), minlength=int(self._first_node[-1]))
        self._shares = np.rint(2.0**SHARE_BITS / (np.maximum(sizes, 1) * len(seeds)))
        return leaves

    def place(self, X: Floats) -> Integers:
        """Return the leaves of training rows, one per tree."""
        return self._leaves(_ranks(X, self._levels))

    def hold(self, placed: Integers) -> csr_array:
        """List the training rows in each leaf."""
        return _incidence(placed, len(self._shares)).T.tocsr()

    def hold_more(self, held: csr_array | GrowingLines, placed: Integers, n_before: int) -> GrowingLines:
        """List more training rows in each leaf."""
        return GrowingLines.of(held, self.hold(placed[n_before:]))

    def _examples(self, X: Floats, ranks: NDArray[np.float32]) -> tuple[NDArray[np.float32], Floats]:
        """Return the ranks of the rows that trees are grown on, and integers that splits are compared by.

        Without labels, these are the features of the rows; with labels, indicators of the classes of trusted rows: the
        split that leaves the least variance in these indicators is the one with the least Gini impurity.
        """
        if self.grow == "label-free":
            return ranks, _on_grid(X)
        if self._lesson is None:
            remedy = f"use {TRUSTED_LABELS}, or 'label-free'."
            raise parameter_error(type(self).__name__, "grow", "'label-free' without trusted labels", self.grow, remedy)
        (rows, codes), self._lesson = self._lesson, None
        self._n_examples = len(rows)
        return _ranks(rows, self._levels), one_hot(codes, len(self.classes_))

    def _grow(self, ranks: NDArray[np.float32], targets: Floats, seed: int) -> ExtraTreeRegressor:
        """Grow one tree: by random directions of the features, or by the trusted labels."""
        n_features = ranks.shape[1]
        if self.grow == "label-free":
            targets = targets @ np.random.default_rng(seed).choice([-1.0, 1.0], size=(n_features, DIRECTIONS))
        tree = ExtraTreeRegressor(
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            max_features=min(self.max_features, n_features) if is_integer(self.max_features) else self.max_features,
            random_state=seed,
        )
        return tree.fit(ranks, targets)

    def _fit_with_labels(self, codes: Integers) -> None:
        """Count the labels of each leaf, for fast predictions."""
        self._class_counts = np.bincount(codes, minlength=len(self.classes_))
        self._leaf_counts = self._held @ csr_array(one_hot(codes, len(self.classes_)))

    def _fit_with_more_labels(self, codes: Integers, n_before: int) -> None:
        named, leaves = codes[n_before:], _incidence(self._placed[n_before:], len(self._shares))
        self._class_counts = self._class_counts + np.bincount(named, minlength=len(self.classes_))
        self._leaf_counts = self._leaf_counts + leaves.T @ csr_array(one_hot(named, len(self.classes_)))

    def test_features(self, X: object) -> Any:
        """Return the leaves of each test row, one per tree: all that its votes depend on."""
        Z = super().test_features(X)
        leaves = np.empty((len(Z), len(self.estimators_)), dtype=np.int64)
        for start, stop in tiles(len(Z), max(NUMBERS_AT_A_TIME // Z.shape[1], 1)):
            leaves[start:stop] = self._leaves(_ranks(Z[start:stop], self._levels))
        return leaves

    def _leaves(self, ranks: NDArray[np.float32]) -> Integers:
        """Return the leaves of rows; nodes are numbered across all trees."""
        if not len(ranks):  # trees refuse to place no rows
            return np.empty((0, len(self.estimators_)), dtype=np.int64)
        leaves = np.stack([tree.apply(ranks) for tree in self.estimators_], axis=1)
        return np.asarray(leaves + self._first_node[:-1])

    def _grid(self, leaves: Integers) -> tuple[Floats, Integers]:
        """Return the share of a training row in each leaf, and the exponent that scales sums of shares to votes.

        No training row has more than one share in each leaf: no vote needs more than `precision` bits.
        """
        shares = self._shares[leaves]
        most = shares.sum(axis=1)
        exponent = grid_exponent(most, self.precision_)
        exponent -= scale(most, exponent) > 2.0**self.precision_ - 1
        return shares, exponent

    def label_free_votes(self, Z: Any, held: csr_array | GrowingLines) -> SparseVotes:
        """Return the votes on a block of test rows, given by their leaves.

        Sums of shares are exact in any order, and each is rounded once.
        """
        held, (shares, exponent) = joined_lines(held), self._grid(Z)
        weights = _incidence(Z, len(self._shares), shares) @ held
        weights.data = np.rint(weights.data * np.repeat(power_of_two(exponent), np.diff(weights.indptr)))
        return SparseVotes(weights, exponent + SHARE_BITS, self._most_votes(held))

    def _most_votes(self, held: csr_array | GrowingLines) -> int:
        """Return how many training rows may share a leaf with a test row."""
        held = joined_lines(held)
        sizes = np.diff(held.indptr)
        return min(int(held.shape[1]), int(np.maximum.reduceat(sizes, self._first_node[:-1]).sum()))

    def largest_votes(self, Z: Any, source: VoteSource) -> Integers:
        """Return the vote of a row that shares all leaves with the test row, as the test row itself does."""
        shares, exponent = self._grid(Z)
        return np.rint(scale(shares.sum(axis=1), exponent)).astype(np.int64)

    def attains_largest_votes(self, Z: object, limit: Integers) -> bool:
        """A copy of the test row has the largest vote."""
        return True

    def _estimated_scores(self, Z: Any) -> EstimatedScores:
        """Sum the shares of each class from the label counts of the leaves, without visiting training rows.

        Soundness: these sums are exact, and each vote is within 1/2 of the sum that it rounds; a class has no more
        votes than labels, and no more than labels in the leaves.
        """
        shares, exponent = self._grid(Z)
        scores = (_incidence(Z, len(self._shares), shares) @ self._leaf_counts).toarray()
        votes = (_incidence(Z, len(self._shares)) @ self._leaf_counts).toarray()
        error = 0.5 * np.minimum(votes, self._class_counts)
        return EstimatedScores(scale(scores, exponent[:, None]), error, exponent + SHARE_BITS)

    def votes_per_row(self) -> int:
        """Return how many votes on a test row can differ from 0."""
        return self._most_votes(self._held)

    def numbers_per_row(self) -> int:
        """Return how many numbers are held per test row, besides the votes."""
        return 6 * self._most_votes(self._held)

    def learner_assumptions(self) -> list[Assumption]:
        """Return what certificates of this learner assume beyond what is common to all learners."""
        values = {"n_trees": len(self.estimators_), "random_state": int(self.random_state)}
        if self.grow == "label-free":
            return [Assumption("trees-without-labels", values)]
        return [Assumption("trees-on-trusted", {**values, "n_trusted": self._n_examples})]


def _levels(X: Floats) -> Floats:
    """Return sorted values of each column, one line per column, that represent its distribution."""
    n = len(X)
    kept = np.arange(n) if n <= MOST_LEVELS else np.linspace(0, n - 1, MOST_LEVELS).astype(np.int64)
    return np.array([np.sort(column)[kept] for column in X.T])


def _ranks(X: Floats, levels: Floats) -> NDArray[np.float32]:
    """Return twice the rank of each number: the number of levels below it, plus the number of levels not above it.

    Trees compare numbers in float32, which represents these ranks exactly for features of any size.
    """
    ranks = np.empty(X.shape, dtype=np.float32)
    for i, line in enumerate(levels):
        ranks[:, i] = np.searchsorted(line, X[:, i], side="left") + np.searchsorted(line, X[:, i], side="right")
    return ranks


def _on_grid(X: Floats) -> Floats:
    """Return the features as integers in the same unit, whose sums over columns are exact."""
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    bits = bits_left(X.shape[1])
    exponent = grid_exponent((high / 2 - low / 2).max(), bits)
    return to_grid(np.subtract(X, low / 2 + high / 2, dtype=np.float64), exponent, bits)


def _incidence(leaves: Integers, n_nodes: int, shares: Floats | None = None) -> csr_array:
    """Return a sparse line per row, with ones (or shares) at its leaves."""
    rows, n_trees = leaves.shape
    values = np.ones(leaves.size) if shares is None else shares.ravel()
    return csr_array((values, leaves.ravel(), n_trees * np.arange(rows + 1)), shape=(rows, n_nodes))
