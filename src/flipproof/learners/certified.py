"""What all certified classifiers share, label-linear or not: features, labels, parameters, assumptions."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from flipproof.adversary import Adversary, powers_of
from flipproof.assumptions import Assumption, as_assumption
from flipproof.certificates import Certificates
from flipproof.core.powers import Powers
from flipproof.core.rounding import Floats, Integers
from flipproof.determinism import on_one_thread, with_seeds
from flipproof.learners.clones import fit_label_free, fresh, label_free_assumptions, parts_of
from flipproof.learners.row_by_row import row_tiles
from flipproof.parameters import N_JOBS, NONE, Constraints, check_parameters, parameter_error, with_methods
from flipproof.values import as_mask, check_nothing_masked, encode_labels, label_values

#: Features are converted to the first type, unless they already have the second.
FEATURE_TYPES = [np.float64, np.float32]

#: Description of a valid features step.
LABEL_FREE_TRANSFORMER = "a transformer that can be fitted without labels"


class CertifiedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that certifies its predictions against changed training labels."""

    parameter_constraints: ClassVar[Constraints] = {
        "features": NONE | with_methods("fit", "transform", described=LABEL_FREE_TRANSFORMER),
        "n_jobs": N_JOBS,
    }

    features: Any
    classes: ArrayLike | None
    n_jobs: int | None
    n_rows_: int
    n_labels_: int
    assumptions_: tuple[Assumption, ...]

    @abstractmethod
    def certify(self, X: Any, method: str | None = None, adversary: Adversary | None = None) -> Certificates:
        """Predict, and certify every prediction."""

    def validate_parameters(self) -> None:
        """Refuse invalid parameters; subclasses also refuse combinations that are invalid."""
        check_parameters(self)

    def _training_arrays(self, X: Any, y: Any) -> tuple[Floats, NDArray[Any]]:
        if isinstance(X, (str, os.PathLike)) or hasattr(X, "comes_in_blocks") or hasattr(X, "__dask_graph__"):
            raise ValueError(
                f"{type(self).__name__} needs training rows in memory. Got {type(X).__name__} instead: load them, or "
                "use the learners of flipproof.streaming, which read rows from files, blocks or Dask."
            )
        if self.features is None:
            self.features_ = None
            X, y = validate_data(self, X, y, dtype=FEATURE_TYPES, ensure_min_samples=2)
            return X, y
        _, y = validate_data(self, X, y, skip_check_array=True)
        y = np.asarray(y)
        try:
            self.features_ = fit_label_free(self.features, X)
        except (TypeError, ValueError) as error:
            wanted = f"{LABEL_FREE_TRANSFORMER} to these rows"
            raise parameter_error(type(self).__name__, "features", wanted, self.features, f"{error}") from error
        X = check_array(self._transformed(X), dtype=FEATURE_TYPES, ensure_min_samples=2, estimator=self)
        check_consistent_length(X, y)
        return np.asarray(X), y

    def test_features(self, X: Any) -> Floats:
        """Return the features of test rows after the learner's features step: all that their votes depend on."""
        check_is_fitted(self)
        if self.features_ is None:
            return np.asarray(validate_data(self, X, dtype=FEATURE_TYPES, reset=False))
        validate_data(self, X, skip_check_array=True, reset=False)
        if any(getattr(part.value, "places_rows_together", False) for part in parts_of(self.features_)):
            return np.asarray(check_array(self._transformed(X), dtype=FEATURE_TYPES, estimator=self))
        return on_one_thread(lambda: self._transformed_in_tiles(X))

    def _transformed(self, X: Any) -> Any:
        """Return the output of the features step for rows; it draws the same random numbers in every call."""
        step: Any = self.features_
        return with_seeds(lambda: step.transform(fresh(X)))

    def _transformed_in_tiles(self, X: Any) -> Floats:
        """Return the features of test rows, bit-identical for a row in any batch.

        A matrix product chooses its order of summation by the number of rows. So the step always gets tiles of the same
        size; the last tile is padded with copies of its last row.
        """
        tiles = [
            np.asarray(check_array(self._transformed(tile), dtype=FEATURE_TYPES, estimator=self))[:n_rows]
            for tile, n_rows in row_tiles(X)
        ]
        return np.vstack(tiles)

    #: How users can avoid the assumption about the steps of a Pipeline: a key of `STEP_REMEDIES`.
    step_remedy = "features"

    #: Whether certificates also cover changed training features.
    covers_features: Any = False

    def common_assumptions(self) -> list[Assumption]:
        """Return the assumptions that all learners have in common, as of this fit."""
        found = [Assumption("labels-only")]
        if self.classes is None:
            found.append(Assumption("classes-read", {"n_classes": len(self.classes_)}))
        if self.features is not None:
            found += label_free_assumptions(self.features, "features step")
            stated = (getattr(part.value, "rests_on", None) for part in parts_of(self.features))
            found += [as_assumption(one) for one in stated if isinstance(one, (str, Assumption))]
        if self.n_labels_ < self.n_rows_:
            n_unlabelled = self.n_rows_ - self.n_labels_
            found.append(Assumption("unlabelled-rows", {"n_unlabelled": n_unlabelled, "n_rows": self.n_rows_}))
        return found

    def also_assume(self, assumption: Assumption | str) -> None:
        """Add an assumption to the certificates of this fit."""
        self.assumptions_ = (*self.assumptions_, as_assumption(assumption))


class LabelsInMemory(CertifiedClassifier):
    """A certified classifier that holds its training labels.

    Attributes
    ----------
    label_codes_ : integers of shape (n,)
        The training labels, as positions in `classes_`; 0 for rows without a label.
    is_labeled_ : booleans of shape (n,)
        Which training rows have a label.
    """

    label_codes_: Integers
    is_labeled_: NDArray[np.bool_]

    def _read_training_rows(self, X: Any, y: Any, unlabeled: Any = None) -> Floats:
        """Return the features that the learner sees; keep the labels as class codes, unlabelled rows as code 0."""
        self.validate_parameters()
        check_nothing_masked(X, "X")
        if unlabeled is None or y is None:
            X, labels = self._training_arrays(X, label_values(y))
            self.is_labeled_ = np.ones(len(labels), dtype=bool)
        else:
            self.is_labeled_ = _labeled_rows(unlabeled, len(y))
            labels = column_or_1d(label_values(_given_labels(y, self.is_labeled_)))
            assert_all_finite(labels, input_name="y")
            # the placeholders of missing labels are never read
            X, _ = self._training_arrays(X, np.zeros(len(self.is_labeled_)))
        check_classification_targets(labels)
        self.classes_, codes = encode_labels(labels, self.classes)
        came_as_objects = unlabeled is None and getattr(getattr(y, "dtype", None), "kind", None) == "O"
        if self.classes is None and came_as_objects and self.classes_.dtype.kind == "U":
            self.classes_ = self.classes_.astype(object)
        self.label_codes_ = np.zeros(len(self.is_labeled_), dtype=np.int64)
        self.label_codes_[self.is_labeled_] = codes
        self.n_rows_, self.n_labels_ = len(self.label_codes_), len(codes)
        for fixed in (self.label_codes_, self.is_labeled_):
            fixed.setflags(write=False)
        return np.asarray(X)

    def powers(self, adversary: Adversary | None) -> Powers:
        """Return what an adversary can do to the labels of this fit; by default, change any label to any class."""
        return powers_of(adversary, self.label_codes_, self.classes_, self.is_labeled_)


def _labeled_rows(unlabeled: Any, n: int) -> NDArray[np.bool_]:
    """Return the mask of rows that have a label."""
    wanted = f"a mask of {n} booleans, one per training row, True where there is no label."
    mask = as_mask(unlabeled, "unlabeled", wanted)
    if len(mask) != n:
        raise ValueError(f"unlabeled must be {wanted} Got {len(mask)} instead.")
    if mask.all():
        raise ValueError("unlabeled must be False for at least one training row. Got True for every training row.")
    return np.asarray(~mask)


def _given_labels(y: Any, labeled: NDArray[np.bool_]) -> Any:
    """Return the labels of the labelled rows, as if there were no other rows."""
    if isinstance(y, (list, tuple)):  # an array would convert all labels to one type, or to objects
        return [label for label, is_given in zip(y, labeled, strict=True) if is_given]
    keeps_types = hasattr(y, "isna") or isinstance(y, np.ma.MaskedArray)
    return (y if keeps_types else np.asarray(y))[labeled]
