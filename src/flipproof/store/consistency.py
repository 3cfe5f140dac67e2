"""What must hold between the parts of a stored model, beyond the kinds of its attributes.

Soundness: a certificate rests on exact integers. So a model that was read from a file must have numbers within the bits
that its arithmetic is exact for, votes within their grid, and rows, labels and geometry that belong together. All
else in a file may differ: it is then another model, with other certificates, which hold for what it predicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flipproof.core.contents import partition_numbers, row_hashes
from flipproof.core.linalg import FEATURE_BITS, HALF_BITS
from flipproof.core.rounding import EXACT_BITS, Values, bits_left, grid_exponent
from flipproof.learners.certified import CertifiedClassifier
from flipproof.learners.forest import SHARE_BITS
from flipproof.learners.neighbor_search import FLOAT32_BITS, search_on_grid
from flipproof.learners.neighbors import EXACT_METRICS
from flipproof.learners.propagation import WEIGHT_LEVELS
from flipproof.learners.ridge import is_paper_rule, refuse_rules_of_all_rows
from flipproof.store.archive import ModelFileError
from flipproof.values import as_values, distinct

if TYPE_CHECKING:
    from flipproof.core.ballots import Ballots
    from flipproof.core.linalg import ColumnGrid, Rotation, Whitening
    from flipproof.core.majority import ItemVotes
    from flipproof.core.rounding import Integers
    from flipproof.learners.base import LabelLinearClassifier
    from flipproof.learners.certified import CertifiedClassifier
    from flipproof.learners.cluster import CertifiedClusterClassifier
    from flipproof.learners.forest import CertifiedForestClassifier
    from flipproof.learners.kernel import CertifiedKernelClassifier
    from flipproof.learners.kernel_values import KernelValues
    from flipproof.learners.neighbor_search import ExactSearch, Grid
    from flipproof.learners.neighbors import CertifiedNeighborsClassifier
    from flipproof.learners.partition import CertifiedPartitionClassifier
    from flipproof.learners.propagation import CertifiedPropagationClassifier, Graph
    from flipproof.learners.ridge import CertifiedRidgeClassifier
    from flipproof.learners.table_model import TableModel

#: Exponents of grids are within this range.
LARGEST_EXPONENT = 2000


def require(holds: object, what: str) -> None:
    """Raise ModelFileError unless something holds."""
    if not holds:
        raise ModelFileError(f"its parts contradict each other: {what}")


def _are_whole(values: Values, largest: float) -> bool:
    return values.size == 0 or bool((np.rint(values) == values).all() and np.abs(values).max() <= largest)


def _are_exponents(values: Values) -> bool:
    return values.size == 0 or bool(np.abs(values).max() <= LARGEST_EXPONENT)


def check_column_grid(grid: ColumnGrid) -> None:
    """Columns are whole steps of their grids."""
    require(_are_exponents(grid.exponent), "a grid has an exponent out of range")
    require(_are_whole(grid.mean, 2.0**FEATURE_BITS), "the mean of a column is not on its grid")
    require((grid.spread >= 0).all(), "the spread of a column is negative")


def check_rotation(rotation: Rotation) -> None:
    """Both halves of a matrix are integers whose products with features are exact."""
    n_lines, n_columns = rotation.both.shape
    require(n_columns == 2 * len(rotation.exponent), "a matrix does not have two halves")
    require(rotation.bits == bits_left(n_lines, HALF_BITS), "a matrix has other bits than its products are exact for")
    require(_are_whole(rotation.both, 2.0**rotation.bits - 1), "a matrix is not on its grid")
    require(_are_exponents(rotation.exponent), "a matrix has an exponent out of range")


def check_whitening(whitening: Whitening) -> None:
    """Grid, rotation and eigenvalues are of the same columns and coordinates."""
    rank, n_coordinates = len(whitening.eigenvalues), len(whitening.basis_exponent)
    require(n_coordinates in (rank, rank + 1), "the basis has another number of coordinates than there are eigenvalues")
    require(whitening.rotation.width == rank, "the rotation has another number of coordinates than eigenvalues")
    require(len(whitening.rotation.both) == len(whitening.grid.exponent), "the rotation is of other columns")
    require((whitening.eigenvalues > 0).all(), "an eigenvalue is not positive")
    require(_are_exponents(whitening.basis_exponent), "the basis has an exponent out of range")


def _check_basis(whitening: Whitening, basis: NDArray[np.float32], n_rows: int, has_leverage: bool) -> None:
    """Coordinates of rows are whole steps within their range, and no longer than the votes' grid was made for."""
    rank = whitening.rank
    require(basis.dtype == np.float32, "coordinates are not of the type float32")
    require(basis.shape == (n_rows, len(whitening.basis_exponent)), "there are not as many coordinates as rows")
    require(_are_whole(basis, 2.0**HALF_BITS - 1), "coordinates are not on their grid")
    require((basis[:, rank:] == 2.0 ** (HALF_BITS - 1)).all(), "the column of the intercept is not constant")
    if has_leverage and n_rows:
        require(whitening.leverage(basis) <= whitening.largest_leverage, "a row is longer than the longest")


def check_ballots(ballots: Ballots) -> None:
    """Labels are of known rows, and weights are relative to the largest."""
    row, weight = ballots.row, ballots.weight
    require(row is None or (row.dtype == np.int64 and (row < ballots.n_rows).all()), "a label is of an unknown row")
    require(row is not None or weight is None or len(weight) == ballots.n_rows, "there is not one weight for each row")
    require(weight is None or bool((weight >= 0).all() and weight.max(initial=0.0) == 1), "a weight is not from 0 to 1")


def check_item_votes(votes: ItemVotes) -> None:
    """Annotations are of known items and classes."""
    known = votes.item.dtype == votes.codes.dtype == np.int64 and (votes.item < votes.n_items).all()
    require(known and (votes.codes < votes.n_classes).all(), "an annotation is of an unknown item or class")


def _check_what_votes(model: CertifiedClassifier) -> None:
    """There is one label for each row, ballot, or item with a majority."""
    ballots, votes = getattr(model, "_ballots", None), getattr(model, "_majority", None)
    n_codes = len(model.label_codes_)
    require(n_codes == (model.n_rows_ if ballots is None else len(ballots)), "there is not one label for each row")
    require(ballots is None or ballots.n_rows == model.n_rows_, "the ballots are of other rows")
    if votes is None:
        require(model.n_labels_ == np.count_nonzero(model.is_labeled_), "the number of labels is wrong")
        return
    require(votes.n_items == model.n_rows_ and votes.n_classes == len(model.classes_), "the annotations are of others")
    decided = np.flatnonzero(votes.states < votes.n_classes)
    require(ballots is not None, "the majorities do not vote")
    assert ballots is not None
    require(ballots.row is not None and ballots.weight is None, "the majorities do not vote")
    same = np.array_equal(ballots.row, decided) and np.array_equal(model.label_codes_, votes.states[decided])
    require(same and model.is_labeled_.all() and not model.is_trusted_.any(), "the majorities are others")
    require(model.n_labels_ == len(votes.codes), "the number of labels is wrong")


def check_labels(model: CertifiedClassifier) -> None:
    """Classes are in order and distinct, and every label is one of them."""
    classes, codes, labeled = model.classes_, model.label_codes_, model.is_labeled_
    try:
        known, _ = distinct(as_values(classes, "The classes"))
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"its classes are invalid ({error})") from None
    require(len(known) >= 2 and known.tolist() == classes.tolist(), "the classes are not distinct and in order")
    require(codes.dtype == np.int64 and (codes < len(classes)).all(), "a label is not one of the classes")
    require((codes[~labeled] == 0).all(), "a row without a label has one")
    _check_what_votes(model)
    prior = vars(model)["weighted_prior_"]
    if prior is not None:
        require(prior.classes.tolist() == classes.tolist() and prior.weight >= 0, "the prior is for other classes")
        require(set(prior.model.classes_.tolist()) <= set(classes.tolist()), "the prior is for other classes")
    if model.n_reference_ is None:
        require(model.n_rows_ >= 2, "there are fewer than two rows")
    else:
        names = ("_reference_width", "_reference_hashes", "_row_hashes")
        require(all(hasattr(model, name) for name in names), "the reference is missing")
        require(vars(model)["_row_hashes"].dtype == vars(model)["_reference_hashes"].dtype == np.uint64, "hashes")
        require(labeled.all(), "a model with a reference has rows without labels")
        require(model.features_ is None or hasattr(model, "_reference_types"), "the reference is missing")


def _check_label_linear(model: LabelLinearClassifier) -> None:
    check_labels(model)
    noise = model.noise_
    require(noise is None or noise.n_classes == len(model.classes_), "the noise is for another number of classes")


def _columns(model: CertifiedClassifier) -> int | None:
    """Return the number of columns of the rows that the geometry is of, if nothing comes before it."""
    if model.n_reference_ is not None:
        return int(vars(model)["_reference_width"])
    return int(model.n_features_in_) if model.features_ is None else None


def _n_learned_from(model: CertifiedClassifier) -> int:
    """Return the number of rows that the geometry was learned from: those of the reference, or all training rows."""
    return model.n_rows_ if model.n_reference_ is None else model.n_reference_


def _check_columns(model: CertifiedClassifier, n_columns: int) -> None:
    require(_columns(model) in (None, n_columns), "the geometry is of other columns than the rows")


def check_ridge(model: CertifiedRidgeClassifier) -> None:
    """The rows are coordinates of the whitening."""
    _check_label_linear(model)
    own = vars(model)
    whitening, n_classes = own["_whitening"], len(model.classes_)
    _check_columns(model, len(whitening.grid.exponent))
    _check_coordinates(model, whitening)
    if model.n_reference_ is not None:
        refuse_rules_of_all_rows(whitening, n_classes, own["_regularization"])
    depends = is_paper_rule(whitening, n_classes) or own["_regularization"] == "paper"
    require(not depends or model.noise_ is not None, "the rule depends on a noise that is missing")


def _check_coordinates(model: CertifiedRidgeClassifier, whitening: Whitening) -> None:
    own = vars(model)
    frozen, n_learned_from = model.n_reference_ is not None, _n_learned_from(model)
    require(whitening.n_rows == n_learned_from, "the geometry is of other rows")
    require(np.isfinite(whitening.largest_leverage), "the longest row is unknown")
    _check_placed(model)
    _check_basis(whitening, own["_placed"] if frozen else own["_held"], model.n_rows_, not frozen)
    if frozen:
        _check_basis(whitening, own["_reference_held"], n_learned_from, True)


def _check_placed(model: CertifiedClassifier) -> None:
    own, frozen = vars(model), model.n_reference_ is not None
    require((own["_placed"] is not None) == (own["_reference_held"] is not None) == frozen, "the reference is missing")


def check_kernel_values(kernel: KernelValues) -> None:
    """Kernels of dot products have the landmarks as a matrix."""
    from flipproof.learners.kernel_values import PRODUCTS

    require((kernel.kernel in PRODUCTS) == (kernel.factor is not None), "the kernel does not fit its matrix")
    if kernel.factor is not None:
        shape = kernel.factor.both.shape[0], kernel.factor.width
        require(shape == kernel.landmarks.shape[::-1], "the kernel's matrix is of other landmarks")
    require(abs(kernel.shift) <= LARGEST_EXPONENT, "the kernel is scaled out of range")


def check_kernel(model: CertifiedKernelClassifier) -> None:
    """Landmarks, their map and the coordinates belong together; without landmarks, the inverse is of all rows."""
    _check_label_linear(model)
    own = vars(model)
    kernel, chosen = own["_kernel"], model.component_indices_
    n_landmarks, n_columns = kernel.landmarks.shape
    _check_columns(model, n_columns)
    if chosen is None:
        _check_placed(model)
        require(model.n_reference_ is None, "a reference has landmarks")
        require(all(name in own for name in ("_mean", "_intercept", "_inverse")), "the inverse is missing")
        require(n_landmarks == model.n_rows_ == len(own["_mean"]), "the kernel is of other rows")
        require(own["_inverse"].both.shape == (n_landmarks, 2 * n_landmarks), "the inverse is of other rows")
        require(own["_held"] is None, "rows are held that do not vote")
        return
    require(all(name in own for name in ("_map", "_lambda", "_whitening")), "the map of the landmarks is missing")
    n_all = model.n_rows_ if model.n_reference_ is None else model.n_reference_
    in_order = len(chosen) == n_landmarks and (np.diff(chosen) > 0).all() and chosen[-1] < n_all
    require(n_landmarks >= 1 and in_order, "the landmarks are not among the rows")
    require(len(own["_map"].both) == n_landmarks, "the map is of other landmarks")
    require(len(own["_whitening"].grid.exponent) == own["_map"].width, "the coordinates are of another map")
    require(own["_lambda"] >= 0, "lambda is negative")
    _check_coordinates(model, own["_whitening"])


def check_grid(grid: Grid) -> None:
    """Squared distances of rows on the grid are exact."""
    by_angle = 1.0 if grid.box == 1.0 and not grid.center.any() else None
    bits = min(bits_left(4 * max(len(grid.center), 1)) // 2, FLOAT32_BITS)
    allowed = (bits, FLOAT32_BITS) if by_angle else (bits,)
    require(grid.bits in allowed, "distances would not be exact")
    require(grid.exponent == grid_exponent(grid.box, grid.bits), "the grid does not fit its box")


def check_exact_search(search: ExactSearch) -> None:
    """Rows are on the grid, and their squared lengths are those of the rows."""
    require(search.columns.dtype == np.float32, "rows are not of the type float32")
    require(search.columns.shape[0] == len(search.grid.center), "rows and grid have different columns")
    if search.by_angle:
        unit = search.grid.box == 1.0 and not search.grid.center.any() and search.grid.bits == FLOAT32_BITS
        require(unit, "the grid is not one for angles")
    else:
        bits = bits_left(4 * max(len(search.grid.center), 1)) // 2
        require(search.grid.bits <= bits, "distances would not be exact")
    require(_are_whole(search.columns, 2.0**search.grid.bits), "rows are not on their grid")
    again = search_on_grid(np.ascontiguousarray(search.columns.T), search.grid, search.by_angle)
    require(np.array_equal(search.squares, again.squares), "the lengths of rows are wrong")
    if search.by_angle:  # distances are exact for rows of length 1 only
        require((search.squares <= 4.0 ** (search.grid.exponent + 1)).all(), "a row is longer than 1")


def check_neighbors(model: CertifiedNeighborsClassifier) -> None:
    """The search is among the training rows, by the metric of the model."""
    _check_label_linear(model)
    own = vars(model)
    grid, metric = own["_grid"], own["_metric"]
    require((grid is not None) == (metric in EXACT_METRICS), "the metric does not fit the grid")
    ballots = own.get("_ballots")
    if ballots is None or ballots.weight is None:  # fractions of votes need more bits
        require((own["_weights"] == "uniform") == (model.precision_ == 1), "the votes do not fit the weights")
    require(model.n_reference_ is not None or model.n_neighbors_ <= model.n_rows_, "more rows vote than there are")
    _check_placed(model)
    frozen = model.n_reference_ is not None
    search, n_rows = (own["_reference_held"], model.n_reference_) if frozen else (own["_held"], model.n_rows_)
    if grid is None:
        require(type(search).__name__ == "MeasuredSearch" and search.metric == metric, "the metric is another")
        n_columns = search.training_rows.shape[1]
        require(len(search.training_rows) == n_rows, "the search is among other rows")
        require(not frozen or own["_placed"].dtype == np.float64, "rows are not of the type float64")
    else:
        n_columns = len(grid.center)
        require(type(search).__name__ == "ExactSearch", "the metric is another")
        same = np.array_equal(search.grid.center, grid.center) and search.grid.box == grid.box
        require(same and search.grid.bits == grid.bits, "the search is on another grid")
        require(search.by_angle == (metric == "cosine"), "the search is by another metric")
        require(len(search.squares) == n_rows, "the search is among other rows")
        if frozen:
            check_exact_search(search_on_grid(own["_placed"], grid, search.by_angle))
    require(not frozen or own["_placed"].shape == (model.n_rows_, n_columns), "the rows are others")
    _check_columns(model, n_columns)


def check_cluster(model: CertifiedClusterClassifier) -> None:
    """Every row votes in its cluster, with a vote of 1."""
    _check_label_linear(model)
    own = vars(model)
    names, centres, joint = own["_names"], own["_centres"], own["_joint"]
    require(len(names) >= 1 and (np.diff(names) > 0).all(), "the clusters are not in order")
    require(model.precision_ == 1 and own["_clip"] is None, "votes of clusters are 1")
    require(not joint or (len(names) == 2 and len(model.classes_) == 2), "joint votes need two clusters and classes")
    if centres is None:
        require(hasattr(model.clusterer_, "predict"), "it is unknown how test rows are assigned")
    else:
        _check_columns(model, centres.shape[1])
    _check_placed(model)
    placed, frozen = own["_placed"], model.n_reference_ is not None
    if frozen:
        in_range = placed.size == 0 or (placed.min() >= 0 and placed.max() <= len(names))
        require(placed.shape == (model.n_rows_,) and in_range, "a row is in no cluster")
    lines, n_rows = own["_reference_held"] if frozen else own["_held"], _n_learned_from(model)
    require(lines.shape == (len(names) + 1, n_rows), "the clusters are of other rows")
    positive = (lines[:-1] > 0).tocoo()
    clusters = np.full(n_rows, len(names), dtype=np.int64)
    clusters[positive.col] = positive.row
    require(_are_equal(lines, model.hold(clusters)), "a row does not vote in its cluster")


def check_forest(model: CertifiedForestClassifier) -> None:
    """Every row is in one leaf of each tree, and shares are those of the leaves."""
    _check_label_linear(model)
    own = vars(model)
    levels, trees, first = own["_levels"], model.estimators_, own["_first_node"]
    require(len(trees) >= 1 and (levels[:, 1:] >= levels[:, :-1]).all(), "the ranks of a column are not in order")
    require(all(tree.tree_.n_features == len(levels) for tree in trees), "a tree is of other columns")
    _check_columns(model, len(levels))
    require(first.tolist() == np.cumsum([0, *(tree.tree_.node_count for tree in trees)]).tolist(), "nodes are missing")
    _check_placed(model)
    frozen = model.n_reference_ is not None
    held = own["_reference_held"] if frozen else own["_held"]
    sizes = _check_leaves(model, held, _n_learned_from(model))
    expected = np.rint(2.0**SHARE_BITS / (np.maximum(sizes, 1) * len(trees)))
    require(np.array_equal(own["_shares"], expected), "the shares are not those of the leaves")
    if frozen:
        placed = own["_placed"]
        require(placed.shape == (model.n_rows_, len(trees)), "the leaves are of other rows")
        require(((placed >= first[:-1]) & (placed < first[1:])).all(), "a row is not in one leaf of each tree")


def _check_leaves(model: CertifiedForestClassifier, held: csr_array, n_rows: int) -> Integers:
    first, n_trees = vars(model)["_first_node"], len(model.estimators_)
    require(held.shape == (first[-1], n_rows) and held.nnz == n_rows * n_trees, "the leaves are of other rows")
    leaves = held.T.tocsr().indices.reshape(n_rows, n_trees).astype(np.int64)
    require(((leaves >= first[:-1]) & (leaves < first[1:])).all(), "a row is not in one leaf of each tree")
    require(_are_equal(held, model.hold(leaves)), "a row is not in one leaf of each tree")
    sizes: Integers = np.diff(held.indptr)
    return sizes


def _are_equal(first: csr_array, second: csr_array) -> bool:
    if first.shape != second.shape:
        return False
    a, b = first.copy(), second.copy()
    for one in (a, b):
        one.sum_duplicates()
    same = np.array_equal(a.indptr, b.indptr) and np.array_equal(a.indices, b.indices)
    return same and np.array_equal(a.data, b.data) and first.nnz == second.nnz


def check_graph(graph: Graph) -> None:
    """The graph is symmetric, with integer weights that can be added exactly."""
    adjacency = graph.adjacency
    require(adjacency.shape[0] == adjacency.shape[1] == len(graph.degree), "the graph is not square")
    require(_are_whole(adjacency.data, WEIGHT_LEVELS) and (adjacency.data >= 1).all(), "the weights are not on a grid")
    require(_are_equal(adjacency, csr_array(adjacency.T)), "the graph is not symmetric")
    degree = adjacency.sum(axis=1)
    require(len(degree) and np.array_equal(np.where(degree > 0, degree, 1.0), graph.degree), "degrees are wrong")


def check_propagation(model: CertifiedPropagationClassifier) -> None:
    """The graph is of the training rows, or given, and what labels send along it can be added exactly."""
    _check_label_linear(model)
    own = vars(model)
    search, graph, voters, spread = own["_search"], own["_graph"], own["_voters"], own["_spread"]
    require(model.n_reference_ is None and own["_held"] is None, "it has votes of others")
    require(np.array_equal(voters, np.flatnonzero(model.is_labeled_)), "other rows vote than those with labels")
    require(spread is None or len(spread) == len(graph.degree), "the votes are of other labels")
    if model.n_nodes_ is not None:
        require(search is None and model.n_neighbors_ is None, "the graph is given, but has neighbours")
        require(len(graph.degree) == model.n_nodes_, "the graph has other nodes")
        require((own["_sources"] < model.n_nodes_).all(), "a label is of an unknown node")
        require(spread is None or _are_whole(spread, 2.0**EXACT_BITS), "the votes cannot be added exactly")
        _check_columns(model, 1)
        return
    require(search is not None and model.n_neighbors_ is not None, "the neighbours are missing")
    assert model.n_neighbors_ is not None
    require(len(search.squares) == len(graph.degree) == model.n_rows_, "the graph is of other rows")
    require((graph.adjacency.data == 1).all(), "the neighbours have weights")
    require(np.array_equal(own["_sources"], voters), "other rows vote than those with labels")
    require(not search.by_angle, "distances are not Euclidean")
    _check_columns(model, len(search.columns))
    require(1 <= model.n_neighbors_ <= graph.degree.min(), "a row has fewer neighbours than all have")
    if spread is not None:
        require(_are_whole(spread, 2.0**EXACT_BITS / model.n_neighbors_), "the votes cannot be added exactly")


def check_partition(model: CertifiedPartitionClassifier) -> None:
    """Every row is in a partition; with a reference, in that of its hash."""
    check_labels(model)
    own, n_partitions = vars(model), len(model.estimators_)
    rows, partition = own["_frozen_rows"], model.partition_
    require(n_partitions >= 1 and (partition < n_partitions).all(), "a row is in no partition")
    require((rows is not None) == (model.n_reference_ is not None), "the rows are missing")
    members = np.bincount(partition, minlength=n_partitions)
    require(
        all((one is None) == (n == 0) for one, n in zip(model.estimators_, members, strict=True)),
        "a partition has rows but no base learner, or the other way round",
    )
    for one in model.estimators_:
        require(one is None or hasattr(one, "classes_"), "a base learner is not fitted")
        require(one is None or set(one.classes_.tolist()) <= set(model.classes_.tolist()), "a class is unknown")
    if rows is not None:
        require(len(rows) == model.n_rows_ and rows.shape[1] == own["_reference_width"], "the rows are others")
        require(np.array_equal(row_hashes(rows), own["_row_hashes"]), "the rows are others than their hashes")
        require(np.array_equal(partition_numbers(own["_row_hashes"], n_partitions), partition), "a row moved")


def check_table_model(deployed: TableModel) -> None:
    """The encoder makes the columns of the learner, and the adversary is about its rows."""
    learner, encoder = deployed.learner, deployed.encoder
    require(isinstance(learner, CertifiedClassifier) and hasattr(learner, "assumptions_"), "the learner is missing")
    require(hasattr(encoder, "kinds_") and set(encoder.kinds_) <= set(deployed.columns), "columns are missing")
    first = deployed.model.steps[0][1] if hasattr(deployed.model, "steps") else learner
    n_features = getattr(first, "n_features_in_", encoder.n_features_out_)
    require(n_features == encoder.n_features_out_, "the encoder makes other columns")
    ballots = getattr(learner, "_ballots", None)
    n_names = learner.n_rows_ if ballots is None or ballots.row is None else learner.n_labels_
    require(len(deployed.ids) == n_names, "there is not one name for each row")
    try:
        learner.powers(deployed.adversary)
    except ValueError as error:
        raise ModelFileError(f"its adversary does not fit its rows ({error})") from None
