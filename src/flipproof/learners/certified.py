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
from flipproof.certificates import Certificates
from flipproof.core.powers import Powers
from flipproof.core.rounding import Floats, Integers
from flipproof.determinism import on_one_thread, with_seeds
from flipproof.learners.clones import fit_label_free, fresh, label_free_assumptions, parts_of
from flipproof.learners.row_by_row import row_tiles
from flipproof.parameters import N_JOBS, NONE, Constraints, check_parameters, parameter_error, with_methods
from flipproof.values import as_mask, check_nothing_masked, encode_labels, label_values

#: What features are converted to: the first, unless they are of the other already.
FEATURE_TYPES = [np.float64, np.float32]

#: What the features step must be.
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
    _codes: Integers
    _labeled: NDArray[np.bool_]
    _assumed: tuple[str, ...]

    @abstractmethod
    def certify(self, X: Any, method: str | None = None, adversary: Adversary | None = None) -> Certificates:
        """Predict, and certify every prediction."""

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit could make sense of; subclasses check how they go together."""
        check_parameters(self)

    def _read_training_rows(self, X: Any, y: Any, unlabeled: Any = None) -> Floats:
        """Return the features that the learner sees; keep the labels as class codes, unlabelled rows as code 0."""
        self._check_parameters()
        check_nothing_masked(X, "X")
        if unlabeled is None or y is None:
            X, labels = self._training_arrays(X, label_values(y))
            self._labeled = np.ones(len(labels), dtype=bool)
        else:
            self._labeled = _labeled_rows(unlabeled, len(y))
            labels = column_or_1d(label_values(_given_labels(y, self._labeled)))
            assert_all_finite(labels, input_name="y")
            # whatever stands in for the missing labels is not looked at
            X, _ = self._training_arrays(X, np.zeros(len(self._labeled)))
        check_classification_targets(labels)
        self.classes_, codes = encode_labels(labels, self.classes)
        came_as_objects = unlabeled is None and getattr(getattr(y, "dtype", None), "kind", None) == "O"
        if self.classes is None and came_as_objects and self.classes_.dtype.kind == "U":
            self.classes_ = self.classes_.astype(object)
        self._codes = np.zeros(len(self._labeled), dtype=np.int64)
        self._codes[self._labeled] = codes
        return np.asarray(X)

    def _training_arrays(self, X: Any, y: Any) -> tuple[Floats, NDArray[Any]]:
        if isinstance(X, (str, os.PathLike)) or hasattr(X, "comes_in_blocks") or hasattr(X, "__dask_graph__"):
            raise ValueError(
                f"{type(self).__name__} learns from rows in memory. Got {type(X).__name__} instead: read them, or use "
                "the learners of flipproof.streaming, which visit rows in files, in blocks and in Dask."
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

    def _test_features(self, X: Any) -> Floats:
        check_is_fitted(self)
        if self.features_ is None:
            return np.asarray(validate_data(self, X, dtype=FEATURE_TYPES, reset=False))
        validate_data(self, X, skip_check_array=True, reset=False)
        if any(getattr(part.value, "places_rows_together", False) for part in parts_of(self.features_)):
            return np.asarray(check_array(self._transformed(X), dtype=FEATURE_TYPES, estimator=self))
        return on_one_thread(lambda: self._transformed_in_tiles(X))

    def _transformed(self, X: Any) -> Any:
        """Return what the features step makes of rows; random numbers in it are the same at every call."""
        step: Any = self.features_
        return with_seeds(lambda: step.transform(fresh(X)))

    def _transformed_in_tiles(self, X: Any) -> Floats:
        """Return the features of test rows, to the last bit the same for a row alone and in any company.

        A matrix product takes other paths for other numbers of rows, and adds up in another order on each. So the step
        is always asked for tiles of one size; the last one is filled up with its last row.
        """
        tiles = [
            np.asarray(check_array(self._transformed(tile), dtype=FEATURE_TYPES, estimator=self))[:n_rows]
            for tile, n_rows in row_tiles(X)
        ]
        return np.vstack(tiles)

    @property
    def _n_rows(self) -> int:
        """Number of training rows."""
        return len(self._codes)

    @property
    def _n_labels(self) -> int:
        """Number of training rows that have a label."""
        return int(np.count_nonzero(self._labeled))

    def _powers(self, adversary: Adversary | None) -> Powers:
        """Return what an adversary can do to the labels of this fit; by default, change any of them to anything."""
        return powers_of(adversary, self._codes, self.classes_, self._labeled)

    #: What to do with the steps of a Pipeline, which a certificate must take on trust.
    step_remedy = "Give them as the learner's features=... to have them fitted without labels."

    #: Whether certificates are about changed training features, too.
    covers_features: Any = False

    def _common_assumptions(self) -> list[str]:
        """Say what certificates of any learner rest on, at the time of fitting."""
        said = [
            "Only training labels are changed: training features, the number of rows and the test row are as given."
        ]
        if self.classes is None:
            said.append(
                f"The class set ({len(self.classes_)} classes) was read from the training labels and is taken as "
                "fixed; give classes=... to drop this assumption."
            )
        if self.features is not None:
            said += label_free_assumptions(self.features, "features step")
            parts = (part.value for part in parts_of(self.features))
            said += [part.rests_on for part in parts if isinstance(getattr(part, "rests_on", None), str)]
        if self._n_labels < self._n_rows:
            said.append(
                f"{self._n_rows - self._n_labels} of the {self._n_rows} training rows have no label: "
                "there is none to change, and they cannot be given one."
            )
        return said

    def _also_assume(self, sentence: str) -> None:
        """Add to what the certificates of this fit rest on."""
        self._assumed = (*self._assumed, sentence)


def _labeled_rows(unlabeled: Any, n: int) -> NDArray[np.bool_]:
    """Return the mask of rows that have a label."""
    wanted = f"a mask of {n} booleans, one per training row, True where there is no label."
    mask = as_mask(unlabeled, "unlabeled", wanted)
    if len(mask) != n:
        raise ValueError(f"unlabeled must be {wanted} Got {len(mask)} instead.")
    if mask.all():
        raise ValueError("unlabeled is True for every training row: at least one label is needed.")
    return np.asarray(~mask)


def _given_labels(y: Any, labeled: NDArray[np.bool_]) -> Any:
    """Return the labels of the rows that have one, as they would be if there were no other rows."""
    if isinstance(y, (list, tuple)):  # before an array makes one kind of all, or None an object array
        return [label for label, is_given in zip(y, labeled, strict=True) if is_given]
    keeps_types = hasattr(y, "isna") or isinstance(y, np.ma.MaskedArray)
    return (y if keeps_types else np.asarray(y))[labeled]
