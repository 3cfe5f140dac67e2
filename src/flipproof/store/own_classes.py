"""The classes of flipproof whose objects can be stored: learners, their parts, and their features.

A new learner or step is one entry: its name, and the attributes that a fit sets, each with its kind. Parameters are
those of the constructor. `tests/store` saves and loads an object of every class, and fails if an attribute is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flipproof.store import consistency
from flipproof.store.kinds import (
    ANYTHING,
    CLASSIFIER,
    COLUMNS,
    DTYPE,
    FLAG,
    NOTHING,
    NUMBER,
    TEXT,
    TRANSFORMER,
    Kind,
    booleans,
    floats,
    instance,
    integers,
    mapping,
    maybe,
    one_of,
    part,
    positive,
    sequence,
    size,
    sparse_floats,
    values,
    whole,
    zeros_and_ones,
)
from flipproof.store.registry import Entry, register

# --- values that learners are made of

DATACLASSES: dict[str, tuple[dict[str, Kind], Callable[[Any], None] | None]] = {
    "assumptions.Assumption": ({"code": TEXT, "values": mapping(TEXT, ANYTHING)}, None),
    "core.noise.LabelFlip": ({"q": NUMBER, "n_classes": whole(2) | NOTHING}, None),
    "core.ballots.Ballots": (
        {"n_rows": whole(0), "row": integers("labels", low=0) | NOTHING, "weight": floats("labels") | NOTHING},
        consistency.check_ballots,
    ),
    "core.majority.ItemVotes": (
        {
            "item": integers("annotations", low=0),
            "codes": integers("annotations", low=0),
            "n_items": whole(0),
            "n_classes": whole(2),
        },
        consistency.check_item_votes,
    ),
    "core.linalg.ColumnGrid": (
        {
            "midpoint": floats("columns"),
            "exponent": integers("columns"),
            "mean": floats("columns"),
            "spread": floats("columns"),
            "used": booleans("columns"),
        },
        consistency.check_column_grid,
    ),
    "core.linalg.Rotation": (
        {"both": floats("lines", "halves"), "exponent": integers("columns"), "bits": whole(1, 53)},
        consistency.check_rotation,
    ),
    "core.linalg.Whitening": (
        {
            "grid": instance("ColumnGrid"),
            "rotation": instance("Rotation"),
            "basis_exponent": integers("coordinates"),
            "eigenvalues": floats("rank"),
            "n_rows": whole(1),
            "largest_leverage": NUMBER,
        },
        consistency.check_whitening,
    ),
    "learners.prior.Prior": (
        {"model": CLASSIFIER, "weight": NUMBER, "classes": values("classes"), "owner": TEXT},
        None,
    ),
    "learners.kernel.KernelValues": (
        {
            "kernel": one_of("rbf", "laplacian", "poly", "polynomial", "linear", "cosine"),
            "gamma": positive(),
            "degree": whole(1),
            "coef0": NUMBER,
            "landmarks": floats("landmarks", "columns"),
            "factor": instance("Rotation") | NOTHING,
            "shift": whole(),
        },
        consistency.check_kernel_values,
    ),
    "learners.neighbor_search.Grid": (
        {"center": floats("columns"), "box": positive(), "exponent": whole(), "bits": whole(1, 24)},
        consistency.check_grid,
    ),
    "learners.neighbor_search.ExactSearch": (
        {
            "grid": instance("Grid"),
            "columns": floats("columns", "rows"),
            "squares": floats("rows"),
            "by_angle": FLAG,
        },
        consistency.check_exact_search,
    ),
    "learners.neighbor_search.MeasuredSearch": ({"training_rows": floats("rows", "columns"), "metric": TEXT}, None),
    "learners.propagation.Graph": (
        {"adjacency": sparse_floats("rows", "others"), "degree": floats("rows"), "alpha": positive(0.9999)},
        consistency.check_graph,
    ),
}

#: Modules of classes whose names in files are those of the modules that they were in before.
HOMES = {"learners.kernel.KernelValues": "flipproof.learners.kernel_values"}

register(
    *(
        Entry(f"flipproof.{name}", kinds, check=check, home=HOMES.get(name))
        for name, (kinds, check) in DATACLASSES.items()
    )
)

# --- learners

LABELS = {
    **COLUMNS,
    "n_reference_": size("reference", low=2) | NOTHING,
    "features_": TRANSFORMER | NOTHING,
    "is_labeled_": booleans("labels"),
    "classes_": values("classes"),
    "label_codes_": integers("labels", low=0),
    "n_rows_": size("rows"),
    "n_labels_": whole(0),
    "row_names_": values("labels") | NOTHING,
    "assumptions_": sequence(instance("Assumption"), of=tuple),
    "is_trusted_": booleans("labels"),
    "weighted_prior_": instance("Prior") | NOTHING,
    "_tile_rows": maybe(whole(1)),
    "label_readers_": sequence(TEXT, of=tuple),
    "trusted_part_": NOTHING,
    "reads_trusted_rows_": FLAG,
    "_reference_types": maybe(DTYPE | mapping(ANYTHING, DTYPE) | NOTHING),
    "_reference_width": maybe(whole(1)),
    "_reference_hashes": maybe(integers("reference")),
    "_row_hashes": maybe(integers("rows")),
}

#: Attributes of LABELS that only a fit with a reference has.
OF_REFERENCE = ("_reference_types", "_reference_width", "_reference_hashes", "_row_hashes")

VOTES = {
    **LABELS,
    "precision_": whole(1, 24),
    "_clip": one_of("sign") | positive(1) | NOTHING,
    "noise_": instance("LabelFlip") | NOTHING,
    "_ballots": maybe(instance("Ballots")),
    "_votes_are": maybe(TEXT),
    "_majority": maybe(instance("ItemVotes")),
}

COORDINATES = {
    "_held": maybe(floats("rows", "coordinates") | NOTHING),
    "_placed": floats("rows", "coordinates") | NOTHING,
    "_reference_held": floats("reference", "coordinates") | NOTHING,
}

SEARCH = instance("ExactSearch") | instance("MeasuredSearch")


def _of_earlier_fits(model: object) -> tuple[str, ...]:
    """Return what does not belong to this fit; with a reference, rows are held again from where they are placed."""
    return OF_REFERENCE if getattr(model, "n_reference_", None) is None else ()


def _held_again(model: object) -> tuple[str, ...]:
    frozen = getattr(model, "n_reference_", None) is not None
    return (*_of_earlier_fits(model), *(("_held",) if frozen else ()))


def _kernel_of_earlier_fits(model: object) -> tuple[str, ...]:
    is_exact = getattr(model, "component_indices_", None) is None
    return (
        *_held_again(model),
        *(("_map", "_lambda", "_whitening") if is_exact else ("_mean", "_intercept", "_inverse")),
    )


def _with_prior(model: Any) -> None:
    prior = vars(model)["weighted_prior_"]
    model.prior_ = None if prior is None else prior.model


def _recount(model: Any) -> None:
    _with_prior(model)
    model.recount()


def _learner(
    name: str,
    kinds: dict[str, Kind],
    check: Callable[[Any], None],
    left_out: tuple[str, ...] = (),
    stale: Callable[[Any], tuple[str, ...]] = _held_again,
) -> Entry:
    key = f"flipproof.learners.{name}"
    return Entry(key, {**VOTES, **kinds}, left_out=("prior_", *left_out), stale=stale, check=check, finish=_recount)


register(
    _learner(
        "ridge.CertifiedRidgeClassifier",
        {**COORDINATES, "_whitening": instance("Whitening"), "_regularization": TEXT | NUMBER},
        consistency.check_ridge,
        left_out=("_rule", "regularization_"),
    ),
    _learner(
        "kernel.CertifiedKernelClassifier",
        {
            **COORDINATES,
            "gamma_": NUMBER,
            "component_indices_": integers("landmarks", low=0) | NOTHING,
            "_kernel": instance("KernelValues"),
            "regularization_": NUMBER,
            "_mean": maybe(floats("rows")),
            "_intercept": maybe(NUMBER),
            "_inverse": maybe(instance("Rotation")),
            "_map": maybe(instance("Rotation")),
            "_lambda": maybe(NUMBER),
            "_whitening": maybe(instance("Whitening")),
        },
        consistency.check_kernel,
        left_out=("_rule",),
        stale=_kernel_of_earlier_fits,
    ),
    _learner(
        "neighbors.CertifiedNeighborsClassifier",
        {
            "clip": NOTHING,
            "n_neighbors_": whole(1),
            "_weights": one_of("uniform", "distance"),
            "_metric": TEXT,
            "index_": NOTHING,
            "_grid": instance("Grid") | NOTHING,
            "_held": maybe(SEARCH),
            "_placed": floats("rows", "width") | NOTHING,
            "_reference_held": SEARCH | NOTHING,
        },
        consistency.check_neighbors,
    ),
    _learner(
        "cluster.CertifiedClusterClassifier",
        {
            "clip": NOTHING,
            "clusterer_": part("fit_predict"),
            "n_clusters_": size("clusters", low=1),
            "_names": integers("clusters", low=0),
            "_centres": floats("clusters", "width") | NOTHING,
            "_joint": FLAG,
            "_held": maybe(zeros_and_ones("lines", "rows")),
            "_placed": integers("rows", low=0) | NOTHING,
            "_reference_held": zeros_and_ones("lines", "reference") | NOTHING,
        },
        consistency.check_cluster,
    ),
    _learner(
        "forest.CertifiedForestClassifier",
        {
            "_levels": floats("width", "levels"),
            "_lesson": maybe(NOTHING),
            "_n_examples": maybe(whole(1)),
            "estimators_": sequence(instance("ExtraTreeRegressor"), "trees"),
            "_first_node": integers("ends", low=0),
            "_shares": floats("nodes"),
            "_held": maybe(zeros_and_ones("nodes", "rows")),
            "_placed": integers("rows", "trees", low=0) | NOTHING,
            "_reference_held": zeros_and_ones("nodes", "reference") | NOTHING,
        },
        consistency.check_forest,
        left_out=("_class_counts", "_leaf_counts"),
    ),
    _learner(
        "propagation.CertifiedPropagationClassifier",
        {
            "n_neighbors_": whole(1) | NOTHING,
            "n_nodes_": whole(2) | NOTHING,
            "_rule": one_of("spreading", "poisson"),
            "_search": instance("ExactSearch") | NOTHING,
            "_graph": instance("Graph"),
            "_voters": integers("voters", low=0),
            "_sources": integers("voters", low=0),
            "_spread": floats("nodes", "voters") | NOTHING,
            "_held": NOTHING,
            "_placed": NOTHING,
            "_reference_held": NOTHING,
        },
        consistency.check_propagation,
    ),
    Entry(
        "flipproof.learners.partition.CertifiedPartitionClassifier",
        {
            **LABELS,
            "_frozen_rows": floats("rows", "width") | NOTHING,
            "_base_learner": CLASSIFIER,
            "_base_learner_name": TEXT,
            "partition_": integers("rows", low=0),
            "estimators_": sequence(CLASSIFIER | NOTHING, "partitions"),
        },
        left_out=("prior_",),
        stale=_of_earlier_fits,
        check=consistency.check_partition,
        finish=_with_prior,
    ),
)

# --- learners of tables

ROLES = {name: TEXT | NOTHING for name in ("id", "trusted", "annotator", "window", "by")}
ROLES |= {name: sequence(TEXT, of=tuple) for name in ("features", "drop", "text", "categories", "show")}

register(
    Entry("flipproof.tables.roles.Roles", {"label": TEXT, **ROLES}),
    Entry(
        "flipproof.adversary.Adversary",
        {
            "changes": TEXT,
            "trusted": booleans("rows") | NOTHING,
            "groups": values("rows") | NOTHING,
            "allowed": sequence(sequence(ANYTHING, of=tuple), of=tuple) | NOTHING,
            "window": values("rows") | NOTHING,
            "length": TEXT | NUMBER | NOTHING,
            "max_change": NUMBER | NOTHING,
        },
    ),
    Entry(
        "flipproof.learners.table_model.TableModel",
        {
            "model": part("predict"),
            "encoder": instance("TableEncoder"),
            "roles": instance("Roles"),
            "columns": sequence(TEXT, of=tuple),
            "word_columns": sequence(TEXT, of=tuple),
            "adversary": instance("Adversary") | NOTHING,
            "ids": sequence(ANYTHING, "rows"),
            "source": mapping(TEXT, ANYTHING),
        },
        check=consistency.check_table_model,
    ),
)

# --- features of flipproof


def _sum_of_widths(encoder: Any) -> None:
    widths, lengths = vars(encoder)["_widths"], vars(encoder)["_lengths"]
    consistency.require(sum(widths.values()) == encoder.n_features_out_, "columns are missing")
    of_vectors = sum(widths.get(kind, 0) for kind in ("vectors", "text"))
    consistency.require(sum(lengths.values()) == of_vectors, "lengths of vectors contradict their features")


register(
    Entry(
        "flipproof.tables.encoding.TextEncoder",
        {
            "_counts": instance("CountVectorizer"),
            "_weights": instance("TfidfTransformer"),
            "_directions": instance("TruncatedSVD"),
        },
        parameters=("name", "n_dimensions"),
    ),
    Entry(
        "flipproof.tables.encoding.TableEncoder",
        {
            "kinds_": mapping(TEXT, one_of("numbers", "booleans", "words", "vectors", "text")),
            "heavy_tailed_": sequence(TEXT, of=tuple),
            "_steps": mapping(
                TEXT, instance("Pipeline") | sequence(instance("TextEncoder") | instance("SentenceEncoder"))
            ),
            "_scales": mapping(TEXT, positive()),
            "_widths": mapping(TEXT, whole(0)),
            "_lengths": mapping(TEXT, whole(0)),
            "n_features_out_": whole(1),
        },
        check=_sum_of_widths,
    ),
    Entry(
        "flipproof.features.word_vectors.WordVectors",
        {
            "words_": sequence(TEXT, "words"),
            "vectors_": floats("words", "width"),
            "weights_": floats("words"),
            "_n_features_out": size("width"),
        },
    ),
    # The files of the model are not stored: they must be there, and their digest is compared. Nor is the cache: a model
    # file from somebody else must not decide where vectors are read from or written to.
    Entry(
        "flipproof.features.sentence_encoder.SentenceEncoder",
        {"digest_": TEXT, "_n_features_out": whole(1)},
        left_out=("cache", "_vectors"),
        parameters=("model", "normalize"),
    ),
    Entry(
        "flipproof.features.graphs.GraphFeatures",
        {
            "embedding_": floats("nodes", "width") | sparse_floats("nodes", "width"),
            "_n_features_out": size("width"),
        },
    ),
    Entry(
        "flipproof.features.rica.RICA",
        {
            **COLUMNS,
            "image_shape_": sequence(whole(1), of=tuple),
            "contrast_floor_": NUMBER,
            "mean_": floats("pixels"),
            "whitening_": floats("pixels", "whitened"),
            "filters_": floats("filters", "whitened"),
            "loss_": NUMBER,
            "n_iter_": whole(0),
            "_n_features_out": whole(1),
        },
    ),
)
