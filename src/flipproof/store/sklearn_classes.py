"""The classes of scikit-learn that a stored model may contain: steps, clusterers, and base learners of partitions.

An entry is the name of a class, and the attributes that a fit sets, each with its kind. Some of them are read by
compiled code without checks: those are checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from flipproof.store.archive import ModelFileError
from flipproof.store.consistency import require
from flipproof.store.kinds import (
    ANYTHING,
    CLASSIFIER,
    COLUMNS,
    DTYPE,
    FLAG,
    NOTHING,
    NUMBER,
    TEXT,
    Kind,
    array,
    floats,
    instance,
    integers,
    mapping,
    maybe,
    sequence,
    size,
    values,
    vocabulary,
    whole,
)
from flipproof.store.registry import Entry, register
from flipproof.store.trees import TREE

#: What steps of scikit-learn have in common.
STEP = {**COLUMNS, "_sklearn_output_config": maybe(mapping(TEXT, TEXT))}

NUMBERS_BY_COLUMN = floats("columns", finite=False)
ANY_FLOATS = floats("a", finite=False) | floats("a", "b", finite=False) | floats("a", "b", "c", finite=False)
COUNTS = NUMBER | array("fiu", "columns")
ONE_BY_COLUMN = sequence(NOTHING | integers("categories", low=0))


def _sklearn(
    name: str,
    fitted: Mapping[str, Kind] = MappingProxyType({}),
    check: Callable[[Any], None] | None = None,
    left_out: tuple[str, ...] = (),
) -> Entry:
    return Entry(f"sklearn.{name}", {**STEP, **fitted}, check=check, left_out=left_out)


def _check_one_hot(encoder: Any) -> None:
    """Columns of the encoded rows exist: scipy does not check them."""
    own = vars(encoder)
    categories, n = encoder.categories_, len(encoder.categories_)
    require(getattr(encoder, "n_features_in_", n) == n, "the categories are of other columns")
    widths = []
    for number, known in enumerate(categories):
        rare = (own.get("_infrequent_indices") or [None] * n)[number]
        places = (own.get("_default_to_infrequent_mappings") or [None] * n)[number]
        width = len(known) if rare is None else len(known) - len(rare) + 1
        if places is not None:
            require(len(places) == len(known) and (places < width).all(), "a category has no column")
        widths.append(width)
    if "_n_features_outs" not in own:
        return
    for names in ("drop_idx_", "_drop_idx_after_grouping"):
        dropped = own.get(names)
        limits = widths if names.startswith("_") else [len(known) for known in categories]
        if dropped is None:
            continue
        for one, limit in zip(dropped.tolist(), limits, strict=True):
            require(one is None or (type(one) is int and 0 <= one < limit), "a category is not there")
    after = own["_drop_idx_after_grouping"]
    if after is not None:
        widths = [width - (one is not None) for width, one in zip(widths, after.tolist(), strict=True)]
    require(own["_n_features_outs"] == widths, "the columns are not those of the categories")


def _check_steps(pipeline: Any) -> None:
    named = getattr(pipeline, "steps", None) or getattr(pipeline, "transformer_list", None) or pipeline.transformers
    is_named = all(type(one) is tuple and len(one) >= 2 and isinstance(one[0], str) for one in named)
    require(isinstance(named, list) and is_named, "steps must be names and steps")


def _check_pipeline(pipeline: Any) -> None:
    _check_steps(pipeline)
    if pipeline.memory is not None:
        raise ModelFileError("a Pipeline must have memory=None: folders are not stored")


LINEAR = {
    "classes_": values("classes"),
    "coef_": floats("lines", "columns"),
    "intercept_": floats("lines"),
}
SGD = {**LINEAR, "t_": NUMBER, "_expanded_class_weight": maybe(floats("classes")), "n_iter_": whole(0)}
SGD |= {
    name: maybe(ANY_FLOATS) for name in ("_standard_coef", "_standard_intercept", "_average_coef", "_average_intercept")
}
COUNTED = {
    "classes_": values("classes"),
    "class_count_": floats("classes"),
    "feature_count_": floats("classes", "columns"),
    "feature_log_prob_": floats("classes", "columns", finite=False),
    "class_log_prior_": floats("classes", finite=False),
}
TREES = {
    "n_outputs_": whole(1, 1),
    "max_features_": whole(1),
    "tree_": instance("Tree"),
}
CLASSES_OF_TREES = {"classes_": values("classes"), "n_classes_": size("classes")}
FOREST = {
    **CLASSES_OF_TREES,
    "n_outputs_": whole(1, 1),
    "estimators_": sequence(CLASSIFIER),
    "estimator_": CLASSIFIER,
    "_n_samples": maybe(whole(1)),
    "_n_samples_bootstrap": maybe(whole(1) | NOTHING),
    "oob_score_": maybe(NUMBER),
}
OF_FOREST = ("estimator", "estimator_params", "_sample_weight", "oob_decision_function_")
K_MEANS = {
    "cluster_centers_": floats("clusters", "columns"),
    "labels_": integers("rows"),
    "inertia_": NUMBER,
    "n_iter_": whole(0),
    "_n_features_out": size("clusters"),
    "_tol": NUMBER,
    "_n_init": whole(0),
    "_n_threads": whole(1),
}


def _check_tree(model: Any) -> None:
    tree = model.tree_
    require(tree.n_features == model.n_features_in_, "a tree is of other columns")
    n_classes = len(model.classes_) if hasattr(model, "classes_") else 1
    require(tree.max_n_classes == n_classes, "a tree has other classes")


def _check_forest(model: Any) -> None:
    for tree in model.estimators_:
        require(tree.n_features_in_ == model.n_features_in_, "a tree is of other columns")
        require(tree.tree_.max_n_classes == len(model.classes_), "a tree has other classes")


def _check_voter(model: Any) -> None:
    require(len(model.coef_) in (1, len(model.classes_)), "there are other classes than coefficients")


register(
    TREE,
    # numbers
    _sklearn(
        "preprocessing.StandardScaler",
        dict(
            mean_=NUMBERS_BY_COLUMN | NOTHING,
            var_=NUMBERS_BY_COLUMN | NOTHING,
            scale_=NUMBERS_BY_COLUMN | NOTHING,
            n_samples_seen_=COUNTS,
        ),
    ),
    _sklearn(
        "preprocessing.MinMaxScaler",
        dict(
            n_samples_seen_=COUNTS,
            **{name: NUMBERS_BY_COLUMN for name in ("scale_", "min_", "data_min_", "data_max_", "data_range_")},
        ),
    ),
    _sklearn(
        "preprocessing.MaxAbsScaler",
        dict(
            n_samples_seen_=COUNTS,
            max_abs_=NUMBERS_BY_COLUMN,
            scale_=NUMBERS_BY_COLUMN,
        ),
    ),
    _sklearn(
        "preprocessing.RobustScaler",
        dict(
            center_=NUMBERS_BY_COLUMN | NOTHING,
            scale_=NUMBERS_BY_COLUMN | NOTHING,
        ),
    ),
    _sklearn(
        "preprocessing.QuantileTransformer",
        dict(
            n_quantiles_=size("quantiles"),
            references_=floats("quantiles"),
            quantiles_=floats("quantiles", "columns", finite=False),
        ),
    ),
    _sklearn(
        "preprocessing.PowerTransformer",
        dict(
            lambdas_=NUMBERS_BY_COLUMN,
            _scaler=maybe(instance("StandardScaler")),
        ),
    ),
    _sklearn("preprocessing.Normalizer"),
    _sklearn("preprocessing.Binarizer"),
    _sklearn(
        "preprocessing.KBinsDiscretizer",
        dict(
            bin_edges_=values("columns"),
            n_bins_=integers("columns", low=1),
            _encoder=maybe(instance("OneHotEncoder")),
        ),
    ),
    _sklearn("preprocessing.FunctionTransformer"),
    _sklearn(
        "feature_selection.VarianceThreshold",
        dict(
            variances_=NUMBERS_BY_COLUMN,
        ),
    ),
    _sklearn(
        "decomposition.PCA",
        dict(
            _fit_svd_solver=TEXT,
            mean_=floats("columns"),
            noise_variance_=NUMBER,
            n_samples_=whole(1),
            n_components_=size("components"),
            components_=floats("components", "columns"),
            explained_variance_=floats("components"),
            explained_variance_ratio_=floats("components", finite=False),
            singular_values_=floats("components"),
        ),
    ),
    _sklearn(
        "decomposition.TruncatedSVD",
        dict(
            components_=floats("components", "columns"),
            explained_variance_=floats("components", finite=False),
            explained_variance_ratio_=floats("components", finite=False),
            singular_values_=floats("components"),
        ),
    ),
    _sklearn(
        "decomposition.FastICA",
        dict(
            n_iter_=whole(0),
            components_=floats("components", "columns"),
            mixing_=floats("columns", "components"),
            mean_=maybe(floats("columns")),
            whitening_=maybe(floats("components", "columns")),
            _unmixing=floats("components", "inputs"),
        ),
    ),
    _sklearn(
        "kernel_approximation.Nystroem",
        dict(
            components_=floats("landmarks", "columns"),
            component_indices_=integers("landmarks", low=0),
            normalization_=floats("landmarks", "landmarks"),
            _n_features_out=size("landmarks"),
        ),
    ),
    _sklearn(
        "kernel_approximation.RBFSampler",
        dict(
            random_weights_=floats("columns", "components"),
            random_offset_=floats("components"),
            _gamma=NUMBER,
            _n_features_out=size("components"),
        ),
    ),
    # missing values
    _sklearn(
        "impute.SimpleImputer",
        dict(
            statistics_=values("columns"),
            indicator_=instance("MissingIndicator") | NOTHING,
            _fit_dtype=DTYPE,
            _fill_dtype=maybe(DTYPE),
        ),
    ),
    _sklearn(
        "impute.MissingIndicator",
        dict(
            features_=integers("missing", low=0),
            _n_features=size("columns"),
            _precomputed=FLAG,
        ),
    ),
    # words and texts
    _sklearn(
        "preprocessing.OneHotEncoder",
        dict(
            categories_=sequence(values("categories")),
            drop_idx_=values("columns") | NOTHING,
            _drop_idx_after_grouping=values("columns") | NOTHING,
            _infrequent_enabled=FLAG,
            _infrequent_indices=maybe(ONE_BY_COLUMN),
            _default_to_infrequent_mappings=maybe(ONE_BY_COLUMN),
            _n_features_outs=sequence(whole(0)),
        ),
        check=_check_one_hot,
    ),
    _sklearn(
        "preprocessing.OrdinalEncoder",
        dict(
            categories_=sequence(values("categories")),
            _infrequent_enabled=FLAG,
            _infrequent_indices=maybe(ONE_BY_COLUMN),
            _default_to_infrequent_mappings=maybe(ONE_BY_COLUMN),
            _missing_indices=mapping(whole(0), whole(0)),
        ),
        check=_check_one_hot,
    ),
    _sklearn(
        "feature_extraction.text.CountVectorizer",
        dict(
            vocabulary_=vocabulary("words"),
            fixed_vocabulary_=FLAG,
        ),
        left_out=("_stop_words_id", "stop_words_"),
    ),
    _sklearn(
        "feature_extraction.text.TfidfVectorizer",
        dict(
            vocabulary_=vocabulary("words"),
            fixed_vocabulary_=FLAG,
            _tfidf=instance("TfidfTransformer"),
        ),
        left_out=("_stop_words_id", "stop_words_"),
    ),
    _sklearn("feature_extraction.text.HashingVectorizer", left_out=("_stop_words_id",)),
    _sklearn(
        "feature_extraction.text.TfidfTransformer",
        dict(
            idf_=maybe(floats("columns")),
        ),
    ),
    # steps of steps
    _sklearn("pipeline.Pipeline", check=_check_pipeline),
    _sklearn("pipeline.FeatureUnion", check=_check_steps),
    _sklearn("frozen.FrozenEstimator"),
    _sklearn(
        "compose.ColumnTransformer",
        dict(
            transformers_=sequence(sequence(ANYTHING, of=tuple)),
            output_indices_=mapping(TEXT, ANYTHING),
            sparse_output_=FLAG,
            _columns=sequence(ANYTHING),
            _remainder=sequence(ANYTHING, of=tuple),
            _transformer_to_input_indices=mapping(TEXT, ANYTHING),
            _n_features=maybe(whole(0)),
            _name_to_fitted_passthrough=maybe(mapping(TEXT, ANYTHING)),
        ),
        check=_check_steps,
    ),
    # clusters
    _sklearn(
        "cluster.KMeans",
        dict(
            **K_MEANS,
            _algorithm=TEXT,
        ),
    ),
    _sklearn(
        "cluster.MiniBatchKMeans",
        dict(
            **K_MEANS,
            _batch_size=whole(1),
            _init_size=whole(1),
            _counts=floats("clusters"),
            _ewa_inertia=NUMBER | NOTHING,
            _ewa_inertia_min=NUMBER | NOTHING,
            _no_improvement=whole(0),
            _n_since_last_reassign=whole(0),
            n_steps_=whole(0),
        ),
    ),
    _sklearn(
        "cluster.AgglomerativeClustering",
        dict(
            labels_=integers("rows"),
            children_=integers("merges", 2),
            n_leaves_=whole(1),
            n_clusters_=whole(1),
            n_connected_components_=whole(1),
            distances_=maybe(floats("merges")),
        ),
    ),
    _sklearn(
        "cluster.DBSCAN",
        dict(
            labels_=integers("rows"),
            core_sample_indices_=integers("core", low=0),
            components_=floats("core", "columns"),
        ),
    ),
    _sklearn(
        "mixture.GaussianMixture",
        dict(
            converged_=FLAG,
            weights_=floats("components"),
            means_=floats("components", "columns"),
            covariances_=ANY_FLOATS,
            precisions_cholesky_=ANY_FLOATS,
            precisions_=ANY_FLOATS,
            n_iter_=whole(0),
            lower_bound_=NUMBER,
            lower_bounds_=maybe(sequence(NUMBER)),
        ),
    ),
    # classifiers, as base learners of partitions
    _sklearn(
        "linear_model.LogisticRegression",
        dict(
            **LINEAR,
            n_iter_=integers("fits"),
            C_=maybe(ANY_FLOATS),
        ),
        check=_check_voter,
    ),
    _sklearn(
        "linear_model.RidgeClassifier",
        dict(
            **LINEAR,
            n_iter_=integers("fits") | NOTHING,
            solver_=maybe(TEXT),
            _label_binarizer=instance("LabelBinarizer"),
        ),
        check=_check_voter,
    ),
    _sklearn(
        "preprocessing.LabelBinarizer",
        dict(
            classes_=values("classes"),
            y_type_=TEXT,
            sparse_input_=FLAG,
        ),
    ),
    _sklearn(
        "svm.LinearSVC",
        dict(
            **LINEAR,
            n_iter_=whole(0),
        ),
        check=_check_voter,
    ),
    _sklearn(
        "linear_model.SGDClassifier",
        dict(
            **SGD,
        ),
        check=_check_voter,
        left_out=("_loss_function_",),
    ),
    _sklearn(
        "linear_model.Perceptron",
        dict(
            **SGD,
        ),
        check=_check_voter,
        left_out=("_loss_function_", "loss", "learning_rate", "epsilon", "power_t", "average"),
    ),
    _sklearn(
        "naive_bayes.GaussianNB",
        dict(
            classes_=values("classes"),
            epsilon_=NUMBER,
            theta_=floats("classes", "columns"),
            var_=floats("classes", "columns"),
            class_count_=floats("classes"),
            class_prior_=floats("classes"),
        ),
    ),
    _sklearn(
        "naive_bayes.BernoulliNB",
        dict(
            **COUNTED,
        ),
    ),
    _sklearn(
        "naive_bayes.MultinomialNB",
        dict(
            **COUNTED,
        ),
    ),
    _sklearn(
        "naive_bayes.ComplementNB",
        dict(
            **COUNTED,
            feature_all_=floats("columns"),
        ),
    ),
    _sklearn(
        "tree.DecisionTreeClassifier",
        dict(
            **TREES,
            **CLASSES_OF_TREES,
        ),
        check=_check_tree,
    ),
    _sklearn(
        "tree.ExtraTreeClassifier",
        dict(
            **TREES,
            **CLASSES_OF_TREES,
        ),
        check=_check_tree,
    ),
    _sklearn(
        "tree.ExtraTreeRegressor",
        dict(
            **{**TREES, "n_outputs_": whole(1)},
        ),
        check=_check_tree,
        left_out=("class_weight",),
    ),
    _sklearn(
        "ensemble.RandomForestClassifier",
        dict(
            **FOREST,
        ),
        check=_check_forest,
        left_out=OF_FOREST,
    ),
    _sklearn(
        "ensemble.ExtraTreesClassifier",
        dict(
            **FOREST,
        ),
        check=_check_forest,
        left_out=OF_FOREST,
    ),
    _sklearn(
        "neighbors.NearestCentroid",
        dict(
            classes_=values("classes"),
            centroids_=floats("classes", "columns"),
            class_prior_=maybe(floats("classes")),
            deviations_=maybe(floats("classes", "columns", finite=False)),
            within_class_std_dev_=maybe(floats("columns", finite=False)),
        ),
    ),
    _sklearn(
        "dummy.DummyClassifier",
        dict(
            classes_=values("classes"),
            n_classes_=size("classes"),
            class_prior_=floats("classes"),
            n_outputs_=whole(1, 1),
            sparse_output_=FLAG,
            _strategy=TEXT,
        ),
    ),
    _sklearn(
        "discriminant_analysis.LinearDiscriminantAnalysis",
        dict(
            **LINEAR,
            priors_=floats("classes"),
            means_=floats("classes", "columns"),
            _max_components=whole(0),
            xbar_=maybe(floats("columns")),
            covariance_=maybe(floats("columns", "columns")),
            scalings_=maybe(floats("columns", "directions")),
            explained_variance_ratio_=maybe(floats("shown")),
            _n_features_out=maybe(whole(0)),
        ),
        check=_check_voter,
    ),
    _sklearn(
        "discriminant_analysis.QuadraticDiscriminantAnalysis",
        dict(
            classes_=values("classes"),
            priors_=floats("classes"),
            means_=floats("classes", "columns"),
            scalings_=sequence(floats("rank"), "classes"),
            rotations_=sequence(floats("columns", "rank"), "classes"),
            covariance_=maybe(sequence(floats("columns", "columns"))),
        ),
    ),
)
