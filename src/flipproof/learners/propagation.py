"""Certified label spreading: labels spread along a graph of neighbours, through rows without a label."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from flipproof.adversary import Adversary, refuse_row_changes
from flipproof.assumptions import Assumption
from flipproof.core.histograms import NUMBERS_AT_A_TIME
from flipproof.core.rounding import EXACT_BITS, Floats, Integers, exponent_above, power_of_two, scale
from flipproof.core.votes import SparseVotes, sparse_votes, tiles
from flipproof.features.graphs import edge_weights, graph_fixed, node_numbers
from flipproof.learners.base import LabelLinearClassifier
from flipproof.learners.neighbor_search import ExactSearch, exact_search
from flipproof.parameters import Constraints, integer, number, one_of, parameter_error
from flipproof.runtime.progress import CountedProgress

RULES = ("spreading", "poisson")

#: Closer to 1, a solution would need too many steps, and its numbers too many bits.
LARGEST_ALPHA = 0.9999

#: Target error of a solution, relative to its length: 2**-40.
SOLUTION_BITS = 40

#: Values below 2**-32, relative to the longest possible solution, may be rounding error, and count as 0.
REACH_BITS = 32

#: Values of fewer units than this, relative to the same, may be rounding error as well.
ERROR_UNITS = 16

#: Different weights of edges: weights are rounded up to multiples of the largest one divided by this.
WEIGHT_LEVELS = 2**10

#: Solutions for all labels are kept if they have at most this many numbers (128 MiB); else each test row is solved for.
MOST_KEPT = 2**24

#: Most labels that are solved for at a time.
COLUMNS_AT_A_TIME = 32


class CertifiedPropagationClassifier(LabelLinearClassifier):
    """Label spreading on a graph, with a certificate against changed training labels; few labels suffice.

    The graph is your own, see `graph`, or is made from features: training rows are connected to their nearest
    neighbours. Every label spreads along the edges, through rows with and without labels. Choose it where labels are
    few, rows without a label are many, and classes form connected groups: a label then votes for a whole group, and an
    attacker must outvote all labels there (or, with the rule ``"poisson"``, all labels anywhere). Distances are
    Euclidean: scale columns that have different units, for instance by ``features=StandardScaler()``, which is fitted
    on all rows, labelled or not.

    **Why it is label-linear.** Let W be the symmetric 0/1 matrix of the graph, D its degrees, S = D^-1/2 W D^-1/2, and
    Y the labels as class indicators, with a line of zeros for each row without a label. Label spreading (Zhou et al.
    2004) is F = (I - alpha S)^-1 Y. If an unlabelled test row z joined the graph, it would get, up to a factor, the
    line w(z)' F, where w_i(z) = 1 / sqrt(k d_i) for the k training rows i that are nearest to z, and 0 for all others.
    So the score of class c is::

        s_c(z) = w(z)' (I - alpha S)^-1 Y_c = sum over labelled j of alpha_j(z) [y_j = c],
        alpha_j(z) = ((I - alpha S)^-1 w(z))_j = sum over p of alpha^p (S^p w(z))_j >= 0,

    and alpha_j(z) depends on features alone. (Dividing scores by their sum, as is customary, is not linear, but would
    not change any prediction.) A test row that is also a training row is treated like any other.

    With e(z) the indicator of the k rows, alpha_j(z) is sqrt(d_j / k) u_j(z), where u(z) = (D - alpha W)^-1 e(z).
    Poisson learning (Calder et al. 2020, with alpha going to 1) spreads the labels' deviations from their mean, all
    with the same strength, and is label-linear as well::

        s_c(z) = sum over labelled j of u_j(z) ([y_j = c] - share of c) = sum over labelled j of alpha_j(z) [y_j = c],
        alpha_j(z) = u_j(z) - mean of u(z) over all labelled rows.

    A test row that no label reaches gets no votes: it is assigned to the lowest class, and no change of labels can
    alter that. It happens if there is no path, or if paths are so long that less than 2^-32 / (1 - alpha) arrives. With
    more neighbours, or a larger `alpha`, labels reach farther.

    **On your own graph.** With ``graph=A``, rows are nodes of A, and X holds their numbers: ``fit(nodes, y)`` takes the
    nodes that have a label, ``predict(nodes)`` and ``certify(nodes)`` any nodes. All nodes and edges of A carry labels
    on. The line of node z is that of label spreading itself: alpha_j(z) = sqrt(d_z d_j) u_j(z), with e(z) = z alone. If
    z has a label, that counts as well. Certificates rest on the assumption that nobody can change the graph.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number k of neighbours that each row is connected to, or all other rows if there are fewer. Two rows are
        connected if one of them is among the other's nearest.
    alpha : float, default=0.9
        Influence of the neighbours of a row relative to its own label, above 0 and up to 0.9999, as in
        :class:`sklearn.semi_supervised.LabelSpreading`. With a larger `alpha`, labels reach farther, and an attacker
        must change more of them. Time grows with 1 / sqrt(1 - alpha).
    rule : {"spreading", "poisson"}, default="spreading"
        ``"spreading"``: label spreading. Where all labels reach every row (often from `alpha` = 0.99 on), the class
        with the most labels wins everywhere. ``"poisson"``: Poisson learning, which does not have this bias, since
        labels far away count against their class. It usually certifies more, and most with a large `alpha`. It measures
        where a class is more frequent than elsewhere, so it learns nothing from labels that are all of one class.
    graph : sparse or dense array of shape (nodes, nodes), optional
        Weights of the edges between nodes: symmetric, finite and not negative; 0 where there is no edge. Entries on the
        diagonal are edges from a node to itself. Weights that are not all the same are rounded up to 1,024 levels of
        the largest one, so that sums are exact. A node without edges is reached by its own label only. X is then node
        numbers, from 0 on, of shape (n,) or (n, 1); `n_neighbors` is not used, and there can be no `features`. By
        default, rows are connected to their nearest neighbours.
    clip : "sign" or float, optional
        Limits the votes on each test row, so that no row has a much larger vote. A share in (0, 1]: votes are
        clipped to the size that this share of all votes other than 0 do not exceed. ``"sign"``: every vote is -1, 0 or
        1. With the rule ``"spreading"``, it usually increases radii; ``"poisson"`` has many equal votes, and needs
        none.
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
    features : transformer, optional
        Cloned and fitted on the features of all training rows *without* labels. Random states that are not integers are
        set to 0, so that a refit gives the same features.
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
    n_neighbors_ : int or None
        Number of neighbours that was used; None with a given graph.
    n_nodes_ : int or None
        Number of nodes of the given graph.
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
    flipproof.CertifiedKernelClassifier : Kernel ridge regression.

    References
    ----------
    Zhou, Bousquet, Lal, Weston and Schölkopf, *Learning with Local and Global Consistency*, NIPS 16, 2004.
    Calder, Cook, Thorpe and Slepčev, *Poisson Learning: Graph Based Semi-Supervised Learning at Very Low Label Rates*,
    ICML 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from flipproof import CertifiedPropagationClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> unlabeled = np.arange(1000) >= 200
    >>> model = CertifiedPropagationClassifier(alpha=0.99, rule="poisson", classes=range(10))
    >>> model.fit(X[:1000], y[:1000], unlabeled).certify(X[1000:])
    <Certificates: 797 predictions, method 'exact', median radius 6 of 200 labels>

    On a graph of your own: a ring of 12 nodes, four of which have a label.

    >>> from scipy.sparse import coo_array
    >>> one, other = np.arange(12), (np.arange(12) + 1) % 12
    >>> edges = coo_array((np.ones(12), (one, other)), shape=(12, 12))
    >>> model = CertifiedPropagationClassifier(graph=edges + edges.T, classes=["a", "b"])
    >>> certificates = model.fit([0, 1, 6, 7], ["a", "a", "b", "b"]).certify([11, 2, 5])
    >>> certificates.prediction, certificates.radius
    (array(['a', 'a', 'b'], dtype='<U1'), array([0, 0, 0]))
    """

    parameter_constraints: ClassVar[Constraints] = {
        "n_neighbors": integer(1),
        "alpha": number(0, LARGEST_ALPHA, closed="high"),
        "rule": one_of(*RULES),
    }

    def __init__(
        self,
        n_neighbors: int = 10,
        *,
        alpha: float = 0.9,
        rule: str = "spreading",
        graph: Any = None,
        clip: str | float | None = None,
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
        self.n_neighbors = n_neighbors
        self.alpha = alpha
        self.rule = rule
        self.graph = graph

    def validate_parameters(self) -> None:
        """Refuse invalid parameters, and features beside a given graph."""
        super().validate_parameters()
        if self.graph is None:
            return
        edge_weights(self.graph, type(self).__name__)
        if self.features is not None:
            wanted = "None with a given graph"
            remedy = "X is node numbers. For features of nodes, see flipproof.features.GraphFeatures."
            raise parameter_error(type(self).__name__, "features", wanted, self.features, remedy)

    def fit(  # type: ignore[override]
        self, X: object, y: object, unlabeled: object = None, trusted: object = None, sample_weight: object = None
    ) -> CertifiedPropagationClassifier:
        """Fit to training features, and to the labels of the labelled rows.

        Parameters
        ----------
        X : array or data frame of shape (n, k)
            Training features, or the input of `features`. With a given `graph`, the numbers of the training nodes, of
            shape (n,) or (n, 1).
        y : array of shape (n,)
            Training labels: numbers, strings or booleans. Entries of rows without a label are ignored.
        unlabeled : booleans of shape (n,), optional
            True for rows that have no label. By default, all have one.
        trusted : booleans of shape (n,), optional
            True for rows whose labels nobody can change: they are trusted in every certificate of this model. A
            `features` step that needs labels and an unfitted `prior` are fitted to these rows and labels.
        sample_weight : array of shape (n,), optional
            Weights of the labels, chosen without labels; see :meth:`flipproof.LabelLinearClassifier.fit`.

        Returns
        -------
        self
        """
        self._fit(X, y, sample_weight=sample_weight, unlabeled=unlabeled, trusted=trusted)
        return self

    _gets_a_copy = False

    def _read_training_rows(
        self, X: object, y: object, *others: object, **named: object
    ) -> tuple[Floats, Floats | None]:
        self.validate_parameters()
        self.n_nodes_ = None if self.graph is None else int(self.graph.shape[0])
        return super()._read_training_rows(X, y, *others, **named)

    def _numbers(self, X: object, **options: Any) -> Any:
        """Return rows as numbers; with a given graph, node numbers in one column."""
        if self.n_nodes_ is not None:
            X = node_numbers(X, self.n_nodes_, type(self).__name__)[:, None].astype(np.float64)
        return super()._numbers(X, **options)

    def refuse_unless_frozen(self, adversary: Adversary | None) -> None:
        """Refuse an adversary who changes rows: labels spread through all rows, so there is no reference to fit to."""
        remedy = "every row is a node that labels spread through. For changed rows, use CertifiedNeighborsClassifier."
        refuse_row_changes(adversary, type(self).__name__, remedy)

    def learner_assumptions(self) -> list[Assumption]:
        """Return the assumption that the graph cannot be changed, if it is given."""
        return [] if self.n_nodes_ is None else [graph_fixed(self._graph.adjacency)]

    def fit_without_labels(self, X: Floats) -> None:
        """Connect training rows to their neighbours, or take the given graph; if labels are few, spread each of them.

        Soundness: which rows have a label is as given, and no label is read.
        """
        n = len(X)
        self._rule = self.rule  # as fitted; set_params may change the parameter before the next fit
        self._voters, self._spread = np.flatnonzero(self.is_labeled_), None
        self._search: ExactSearch | None = None
        if self.n_nodes_ is None:
            self.n_neighbors_: int | None = min(int(self.n_neighbors), n - 1)
            self._search = exact_search(X)
            with CountedProgress(n, "rows connected", self.verbose) as progress:
                nearest = _nearest_others(self._search, X, self.n_neighbors_, progress)
            self._graph = Graph.of_neighbors(nearest, float(self.alpha))
            self._sources = self._voters
        else:
            self.n_neighbors_ = None
            self._graph = Graph.of_weights(edge_weights(self.graph, type(self).__name__), float(self.alpha))
            self._sources = X[self._voters, 0].astype(np.int64)
        if len(self._graph.degree) * len(self._voters) <= MOST_KEPT:
            with CountedProgress(len(self._voters), "labels spread", self.verbose) as progress:
                self._spread = self._graph.solutions(self._sources, progress)

    def label_free_votes(self, Z: Floats, held: None) -> SparseVotes:
        """Return the votes of all labels on a block of test rows.

        (D - alpha W)^-1 is symmetric: what a label sends to the neighbours of a test row equals what they send to it.
        """
        graph, n_voters = self._graph, len(self._voters)
        if self._search is None:
            joined_to = Z.astype(np.int64)
        else:
            assert self.n_neighbors_ is not None
            joined_to = self._search.nearest(Z, self.n_neighbors_).rows
        joined = _indicator(joined_to, len(graph.degree))
        reached = graph.solve(joined.T)[self._sources].T if self._spread is None else joined @ self._spread
        alpha = self._weigh(graph.without_error(reached), joined_to)
        starts = n_voters * np.arange(len(Z) + 1)
        weights = csr_array((alpha.ravel(), np.tile(self._voters, len(Z)), starts), shape=(len(Z), self.n_rows_))
        return sparse_votes(weights, self.precision_, n_voters)

    def _weigh(self, reached: Floats, joined_to: Integers) -> Floats:
        """Return alpha of the labelled rows, given ``u * 2**bits`` there, and the rows that test rows are joined to.

        Soundness: the sum is exact in any order. By Cauchy and Schwarz as in :attr:`Graph.bits` it is below
        2**52 sqrt(labels / largest degree), which int64 holds for millions of labels.
        """
        if self._rule == "poisson":
            mean = reached.astype(np.int64).sum(axis=1, keepdims=True) / reached.shape[1]
            return scale(reached - mean, -self._graph.bits)
        degree = self._graph.degree
        if self.n_neighbors_ is None:
            return scale(reached, -self._graph.bits) * np.sqrt(degree[self._sources]) * np.sqrt(degree[joined_to])
        return scale(reached, -self._graph.bits) * np.sqrt(degree[self._sources] / self.n_neighbors_)

    def votes_per_row(self) -> int:
        """Return how many votes on a test row can differ from 0."""
        return len(self._voters)

    def numbers_per_row(self) -> int:
        """Count the distances to all rows or, if each test row is solved for, the numbers in a step of the solution."""
        numbers = (1 if self._spread is not None else 4) * len(self._graph.degree)
        return numbers + 8 * len(self._voters) + 4 * (self.n_neighbors_ or 1)


@dataclass(frozen=True)
class Graph:
    """Solves ``(D - alpha W) u = e`` for sets e of rows; D^1/2 u is then ``(I - alpha S)^-1 D^-1/2 e``.

    Soundness: results do not depend on the order of a sum, hence not on the columns that are solved for together. W is
    integers, and iterates are multiples of 2^-bits, with few enough bits that their sums are exact. All else is
    computed element by element. The number of steps is fixed in advance.

    Attributes
    ----------
    adjacency : sparse array of shape (n, n)
        W, symmetric: integers from 0 to `WEIGHT_LEVELS`, in float64; 0 and 1 for neighbours.
    degree : floats of shape (n,)
        D: the row sums of W, at least the number of neighbours; 1 for a node without edges.
    alpha : float
        Between 0 and 1.
    """

    adjacency: csr_array
    degree: Floats
    alpha: float

    @classmethod
    def of_neighbors(cls, nearest: Integers, alpha: float) -> Graph:
        """Connect two rows if one of them is among the other's nearest; `nearest` has one line per row."""
        directed = _indicator(nearest, len(nearest))
        adjacency = csr_array(directed.maximum(directed.T))
        return cls(adjacency, np.diff(adjacency.indptr).astype(np.float64), alpha)

    @classmethod
    def of_weights(cls, weights: csr_array, alpha: float) -> Graph:
        """Take a given graph, as :func:`~flipproof.features.graphs.edge_weights` returns it.

        Soundness: rounding is element by element and depends on the weights alone. Rounding up keeps every edge.
        """
        adjacency = weights.copy()
        largest = adjacency.data.max()
        if (adjacency.data == largest).all():
            adjacency.data[:] = 1.0
        elif largest > WEIGHT_LEVELS or not np.array_equal(adjacency.data, np.rint(adjacency.data)):
            # divided first: the largest number there is would overflow
            adjacency.data = np.ceil(np.maximum(adjacency.data / largest, 1 / WEIGHT_LEVELS) * WEIGHT_LEVELS)
        degree = adjacency.sum(axis=1)  # of integers: exact in any order
        return cls(adjacency, np.where(degree > 0, degree, 1.0), alpha)

    @property
    def bits(self) -> int:
        """Bits after the point of iterates.

        With |u|_D^2 = u' D u: e has no more members than the least degree, so the solution has
        |u|_D <= |D^-1/2 e| / (1 - alpha) <= 1 / (1 - alpha), and iterates, which are closer to it than 0 is, at most
        twice that, where a set of one node e = z has |D^-1/2 e| = d_z^-1/2. Since W_ij <= d_j, sums over neighbours,
        of W_ij |u_j|, are at most sqrt(d_i) |u|_D by Cauchy and Schwarz, and sqrt(largest degree / least degree) bounds
        their growth. One bit is left for the rounding of iterates.
        """
        largest_sum = 2 / (1 - self.alpha) * np.sqrt(self.degree.max() / self.degree.min())
        return EXACT_BITS - 1 - int(exponent_above(largest_sum))

    def solve(self, sets: csr_array) -> Floats:
        """Return ``u * 2**bits`` for each column of `sets`, of zeros and at most as many ones as the least degree.

        Chebyshev's semi-iteration (Golub and Varga 1961) for ``u = alpha D^-1 W u + D^-1 e``: D^-1 W has the
        eigenvalues of S, in [-1, 1], so the error in the norm |.|_D is below 2 r^t after t steps, relative to the
        solution, with r = alpha / (1 + sqrt(1 - alpha^2)).
        """
        members = sets.nonzero()
        source = (power_of_two(self.bits) / self.degree)[members[0]]
        share = (self.alpha / self.degree)[:, None]
        before, now = np.zeros(sets.shape), np.zeros(sets.shape)
        now[members] = np.rint(source)
        for step in _step_lengths(self.alpha):
            # step * (alpha D^-1 W now + D^-1 e - before) + before
            after = self.adjacency @ now
            after *= step * share
            after[members] += step * source
            before *= 1 - step
            after += before
            before, now = now, np.rint(after, out=after)
        return now

    def solutions(self, rows: Integers, progress: CountedProgress) -> Floats:
        """Solve for each of the rows separately, one column per row."""
        n = len(self.degree)
        solved = np.empty((n, len(rows)))
        for start, stop in tiles(len(rows), max(min(NUMBERS_AT_A_TIME // n, COLUMNS_AT_A_TIME), 1)):
            solved[:, start:stop] = self.solve(_indicator(rows[start:stop, None], n).T)
            progress.advance(stop - start)
        return solved

    def without_error(self, solutions: Floats) -> Floats:
        """Return solutions with 0 for values that may be rounding error, which includes all negative ones."""
        least = max(2.0 ** (self.bits - REACH_BITS), ERROR_UNITS) / (1 - self.alpha)
        return np.where(solutions < least, 0.0, solutions)


def _step_lengths(alpha: float) -> Iterator[float]:
    """Yield the factors of all steps after the first, whose factor is 1."""
    log_rate = np.log(alpha) - np.log1p(np.sqrt(1 - alpha**2))
    n_steps = int(np.ceil((SOLUTION_BITS + 1) * np.log(2) / -log_rate))
    length = 2.0
    for _ in range(1, n_steps):
        length = 1 / (1 - alpha**2 * length / 4)
        yield length


def _indicator(members: Integers, n: int) -> csr_array:
    """Return an indicator line of zeros and ones for each line of row numbers."""
    lines, size = members.shape
    return csr_array((np.ones(members.size), members.ravel(), np.arange(lines + 1) * size), shape=(lines, n))


def _nearest_others(search: ExactSearch, X: Floats, k: int, progress: CountedProgress) -> Integers:
    """Return the k training rows nearest to each training row, excluding itself."""
    found = np.empty((len(X), k + 1), dtype=np.int64)
    for start, stop in tiles(len(X), max(NUMBERS_AT_A_TIME // len(X), 1)):
        found[start:stop] = search.nearest(X[start:stop], k + 1).rows
        progress.advance(stop - start)
    is_other = found != np.arange(len(X))[:, None]
    is_other[is_other.all(axis=1), -1] = False  # k + 1 copies of the row were found, but not the row itself
    return np.asarray(found[is_other].reshape(len(X), k))
