"""Features of the nodes of a graph: what a node and its surroundings have in common, without labels."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, eye_array, issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from flipproof.assumptions import Assumption
from flipproof.core.rounding import Floats, Integers
from flipproof.parameters import Constraints, check_parameters, integer, parameter_error

#: What a graph must be.
SYMMETRIC_WEIGHTS = "a symmetric matrix of weights, finite and not negative, with a row and a column for each node"


def edge_weights(graph: Any, owner: str) -> csr_array:
    """Return the weights of a graph's edges as a new sparse array in float64, sorted, without zeros.

    Soundness: the result depends on the values of the matrix alone, not on its format or the order of its entries.

    Raises
    ------
    ValueError
        If it is not a square matrix of numbers, has weights that are negative or not finite, is not symmetric, or has
        no edge at all.
    """

    def error(found: str, remedy: str = "") -> ValueError:
        return parameter_error(owner, "graph", SYMMETRIC_WEIGHTS, remedy=remedy, found=found)

    if not issparse(graph) and not isinstance(graph, np.ndarray):
        raise error(f"a {type(graph).__name__}", "give a SciPy sparse array or a NumPy array.")
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise error(f"the shape {tuple(map(int, graph.shape))}")
    if graph.dtype.kind not in "fiub":
        raise error(f"values of type {graph.dtype}")
    if np.ma.isMaskedArray(graph):
        raise error("a masked array")
    weights = csr_array(graph, dtype=np.float64, copy=True)
    weights.sum_duplicates()
    if not np.isfinite(weights.data).all():
        raise error("a weight that is NaN or infinite")
    if (weights.data < 0).any():
        raise error("a negative weight")
    weights.eliminate_zeros()
    if not weights.nnz:
        raise error("a graph without edges")
    difference = csr_array(weights - weights.T)
    difference.eliminate_zeros()
    if difference.nnz:
        lines, columns = difference.nonzero()
        node, other = int(lines[0]), int(columns[0])
        there, back = float(weights[node, other]), float(weights[other, node])
        raise error(
            f"{there:g} from node {node} to node {other} and {back:g} back",
            "if directions do not matter, give graph.maximum(graph.T) or graph + graph.T.",
        )
    return weights


def node_numbers(X: object, n_nodes: int, owner: str) -> Integers:
    """Return X as numbers of nodes; refuse anything else.

    Raises
    ------
    ValueError
        If X is not of shape (n,) or (n, 1), or has values that are not whole numbers from 0 to n_nodes - 1.
    """
    wanted = f"X of {owner} must be node numbers from 0 to {n_nodes - 1}, of shape (n,) or (n, 1)."
    if issparse(X):
        raise ValueError(f"{wanted} Got a sparse array instead.")
    try:
        found = np.asarray(X)
        if found.dtype.kind == "O" and found.size:
            found = np.asarray(found.tolist())
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted} Got {type(X).__name__} instead.") from error
    if found.ndim == 2 and found.shape[1] != 1:
        raise ValueError(f"{wanted} Got {found.shape[1]} columns instead.")
    if found.ndim not in (1, 2):
        raise ValueError(f"{wanted} Got {found.ndim} dimensions instead.")
    found = found.reshape(-1)
    if found.size == 0:
        raise ValueError(f"{wanted} Got no nodes.")
    if found.dtype.kind not in "fiu":
        raise ValueError(f"{wanted} Got values of type {found.dtype} instead.")
    is_node = (found >= 0) & (found < n_nodes) & (found == np.floor(found))
    if not is_node.all():
        raise ValueError(f"{wanted} Got {found[~is_node][0]} instead.")
    return found.astype(np.int64)


def graph_fixed(weights: csr_array) -> Assumption:
    """Return the assumption that nobody can change a graph."""
    on_diagonal = int(np.count_nonzero(weights.diagonal()))
    values = {"n_nodes": int(weights.shape[0]), "n_edges": (int(weights.nnz) - on_diagonal) // 2 + on_diagonal}
    return Assumption("graph-fixed", values)


class GraphFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Features of nodes, averaged over the nodes that are a few steps away, without labels.

    With F the features of all nodes, A the weights of the edges and D the row sums of A + I, the features of node i are
    row i of ``S^hops F``, where ``S = D^-1/2 (A + I) D^-1/2``: the simplified graph convolution of Wu et al. (2019). A
    certified learner after this step, for instance ridge regression, is a graph neural network without
    nonlinearities, with exact certificates. The graph and the features of *all* nodes are used, those of test nodes
    included. Certificates rest on the assumption that nobody can change them.

    Rows are nodes, and X holds their numbers. Give the step to a learner as ``features=GraphFeatures(...)``.

    Parameters
    ----------
    graph : sparse or dense array of shape (nodes, nodes)
        Weights of the edges between nodes: symmetric, finite and not negative; 0 where there is no edge.
    node_features : sparse or dense array of shape (nodes, k)
        Features of all nodes, row i those of node i; finite numbers.
    hops : int, default=2
        Number of steps along edges, at least 0. Choose it without labels, or on trusted labels only.

    Attributes
    ----------
    embedding_ : sparse or dense array of shape (nodes, k)
        The features of all nodes after `hops` steps.

    See Also
    --------
    flipproof.CertifiedPropagationClassifier : Few labels, along a graph.
    flipproof.features.pca_features : Principal components.

    References
    ----------
    Wu, Souza, Zhang, Fifty, Yu and Weinberger, *Simplifying Graph Convolutional Networks*, ICML 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from flipproof.features import GraphFeatures
    >>> graph = np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]])
    >>> step = GraphFeatures(graph, np.eye(4), hops=1)
    >>> step.fit_transform([3, 0]).round(2)
    array([[0.  , 0.  , 0.35, 0.5 ],
           [0.33, 0.33, 0.29, 0.  ]])
    >>> model = CertifiedRidgeClassifier(features=step, classes=[0, 1]).fit([0, 3], [0, 1])
    >>> model.predict([1, 2])
    array([0, 0])
    """

    parameter_constraints: ClassVar[Constraints] = {"hops": integer(0)}

    def __init__(self, graph: Any, node_features: Any, *, hops: int = 2) -> None:
        self.graph = graph
        self.node_features = node_features
        self.hops = hops

    @property
    def rests_on(self) -> Assumption:
        """What certificates with these features assume: nobody can change the graph."""
        return graph_fixed(edge_weights(self.graph, type(self).__name__))

    def fit(self, X: object = None, y: object = None) -> GraphFeatures:
        """Compute the features of all nodes; labels are ignored, and of X only whether these are nodes matters.

        Parameters
        ----------
        X : integers of shape (n,)
            Numbers of nodes.
        y : ignored
            Labels are never read.

        Returns
        -------
        self
            The fitted map.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.features import GraphFeatures
        >>> graph = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
        >>> GraphFeatures(graph, np.eye(3), hops=1).fit([0, 2]).transform([1]).round(2)
        array([[0.41, 0.33, 0.41]])
        """
        check_parameters(self)
        weights = edge_weights(self.graph, type(self).__name__)
        n = weights.shape[0]
        if X is not None:
            node_numbers(X, n, type(self).__name__)
        found = self._checked_features(n)
        with_loops = csr_array(weights + eye_array(n))
        # element by element, and products in the order of the entries: the same bits in any refit
        root = diags_array(1 / np.sqrt(with_loops.sum(axis=1)))
        steps = csr_array(root @ with_loops @ root)
        for _ in range(int(self.hops)):
            found = steps @ found
        self.embedding_ = csr_array(found) if issparse(found) else np.asarray(found)
        self._n_features_out = int(self.embedding_.shape[1])
        return self

    def _checked_features(self, n: int) -> Any:
        """Return the features of all nodes in float64; refuse anything else."""
        given, owner = self.node_features, type(self).__name__
        wanted = f"an array of finite numbers with a row for each of the {n} nodes"
        if not issparse(given):
            try:
                given = np.asarray(given)
            except (TypeError, ValueError) as error:
                raise parameter_error(owner, "node_features", wanted, type(given).__name__) from error
        if given.ndim != 2 or given.shape[0] != n or given.shape[1] == 0:
            shape = " x ".join(map(str, given.shape)) or type(self.node_features).__name__
            raise parameter_error(owner, "node_features", wanted, f"an array of {shape}")
        if given.dtype.kind not in "fiub":
            raise parameter_error(owner, "node_features", wanted, f"values of type {given.dtype}")
        found: Any = np.array(given, dtype=np.float64) if not issparse(given) else csr_array(given, dtype=np.float64)
        if issparse(given):
            found = found.copy()
            found.sum_duplicates()
        if not np.isfinite(found.data if issparse(given) else found).all():
            raise parameter_error(owner, "node_features", wanted, "NaN or infinite numbers")
        return found

    def transform(self, X: object) -> Floats:
        """Return the features of nodes, given by their numbers, as a dense array of shape (n, k).

        Parameters
        ----------
        X : integers of shape (n,)
            Numbers of nodes.

        Returns
        -------
        floats
            A line per node.

        Examples
        --------
        >>> import numpy as np
        >>> from flipproof.features import GraphFeatures
        >>> graph = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
        >>> GraphFeatures(graph, np.eye(3), hops=1).fit([0, 1]).transform([2]).round(2)
        array([[0.  , 0.41, 0.5 ]])
        """
        check_is_fitted(self)
        embedding: Any = self.embedding_
        found = embedding[node_numbers(X, embedding.shape[0], type(self).__name__)]
        dense: NDArray[np.float64] = found.toarray() if issparse(found) else np.asarray(found)
        return dense
