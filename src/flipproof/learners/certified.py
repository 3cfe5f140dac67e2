"""What all certified classifiers share, label-linear or not: features, labels, parameters, assumptions."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite, check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from flipproof.adversary import Adversary, powers_of, refuse_windows
from flipproof.annotations import Annotations
from flipproof.assumptions import Assumption, as_assumption
from flipproof.certificates import Certificates
from flipproof.core.contents import row_hashes, rows_found
from flipproof.core.powers import Powers, Scope
from flipproof.core.rounding import Floats, Integers
from flipproof.determinism import on_one_thread, with_seeds
from flipproof.learners.clones import (
    assumptions_about,
    fit_label_free,
    fit_to_trusted,
    fresh,
    label_free_assumptions,
    name_of,
    parts_of,
)
from flipproof.learners.prior import Prior, as_given, fit_prior, is_fitted
from flipproof.learners.row_by_row import TILE_ROWS, number_types, row_tiles, rows_at, with_number_types
from flipproof.origins import joined_names, row_names, strange_columns
from flipproof.parameters import N_JOBS, NONE, VERBOSE, Constraints, check_parameters, parameter_error, with_methods
from flipproof.progress import CountedProgress
from flipproof.values import as_mask, check_nothing_masked, encode_labels, joined, label_values, positions

if TYPE_CHECKING:
    from flipproof import Report

#: Features are converted to the first type, unless they already have the second.
FEATURE_TYPES = [np.float64, np.float32]

#: Description of a valid features step.
LABEL_FREE_TRANSFORMER = "a transformer that can be fitted without labels"


#: What to do with training rows that are not in memory.
IN_BLOCKS = "load them, or use the learners of flipproof.streaming, which read rows from files, blocks or Dask"

#: Other places in a tile where the features of rows are compared.
OTHER_PLACES = (1, 3, 8, 21)

#: Relative differences up to this are roundings of single precision.
LAST_BITS = 1e-4

#: How many rows a warning names.
MOST_NAMED = 5

#: How to give trusted labels to a fit.
TRUSTED_LABELS = "fit(X, y, trusted=mask), or fit(X, y, reference=..., reference_labels=...)"


@dataclass(frozen=True)
class TrustedPart:
    """Rows and labels that nobody can change, in a fit: features, trees and priors may be fitted to them (M15).

    Attributes
    ----------
    rows : array or data frame
        The rows as they were given.
    labels : array
        Their labels, as values.
    numbers : integers or None
        Which of the training rows they are; None for the rows of the reference.
    """

    rows: Any
    labels: NDArray[Any]
    numbers: Integers | None

    def __len__(self) -> int:
        return len(self.labels)


class ReferenceWarning(UserWarning):
    """Rows that were withdrawn are also in the reference, on which the geometry still depends."""


class CertifiedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that certifies its predictions against changed training labels."""

    parameter_constraints: ClassVar[Constraints] = {
        "features": NONE | with_methods("fit", "transform", described=LABEL_FREE_TRANSFORMER),
        "n_jobs": N_JOBS,
        "verbose": VERBOSE,
    }

    features: Any
    classes: ArrayLike | None
    n_jobs: int | None
    verbose: int = 0  # a default for custom learners with an `__init__` that does not set it
    n_rows_: int
    n_labels_: int
    assumptions_: tuple[Assumption, ...]

    #: Number of rows of the reference that the geometry was learned from; None if that were the training rows.
    n_reference_: int | None = None

    #: Trusted rows and labels, while a fit lasts, and who has read these labels.
    _trusted: TrustedPart | None = None
    _label_readers: tuple[str, ...] = ()

    @abstractmethod
    def certify(self, X: Any, method: str | None = None, adversary: Adversary | None = None) -> Certificates:
        """Predict, and certify every prediction."""

    def report(self, X: Any, y: Any = None, **options: Any) -> Report:
        """Certify test rows and return a report: ``model.report(X, y).save("report.html")``.

        Parameters
        ----------
        X : array or data frame
            Test rows. The index of a pandas frame names them in the report.
        y : array or Series, optional
            Their true classes.
        **options
            As for :meth:`flipproof.Report.from_estimator`: `method`, `adversary`, `attack`, `title` and `flips`.

        Returns
        -------
        Report
        """
        from flipproof import Report  # defined in a higher layer: imported by its public name

        return Report.from_estimator(self, X, y, **options)

    def validate_parameters(self) -> None:
        """Refuse invalid parameters; subclasses also refuse combinations that are invalid."""
        check_parameters(self)

    def _training_arrays(self, X: Any, y: Any) -> tuple[Floats, NDArray[Any]]:
        self._refuse_unless_in_memory(X, "training rows")
        if self.features is None:
            self.features_ = None
            X, y = self._numbers(X, y=y, dtype=FEATURE_TYPES, ensure_min_samples=2)
            return X, y
        _, y = validate_data(self, X, y, skip_check_array=True)
        y = np.asarray(y)
        self._fit_features(X)
        self._tile_rows = self._rows_at_a_time(X)
        X = check_array(self._transformed(X), dtype=FEATURE_TYPES, ensure_min_samples=2, estimator=self)
        check_consistent_length(X, y)
        return np.asarray(X), y

    def _numbers(self, X: Any, **options: Any) -> Any:
        """Return rows as numbers, checked by scikit-learn; data frames of anything else are told how to be encoded."""
        try:
            return validate_data(self, X, **options)
        except (TypeError, ValueError) as error:
            found = strange_columns(X)
            if found is None:
                raise
            remedy = (
                f"give {type(self).__name__}(features=TableEncoder()), from flipproof.tables, which encodes columns "
                "without labels, or call flipproof.audit(train, test, label=...), which does so itself"
            )
            raise ValueError(f"{type(self).__name__} needs numbers, but {found}: {remedy}.") from error

    def _refuse_unless_in_memory(self, X: Any, what: str, remedy: str = IN_BLOCKS) -> None:
        if isinstance(X, (str, os.PathLike)) or hasattr(X, "comes_in_blocks") or hasattr(X, "__dask_graph__"):
            raise ValueError(f"{type(self).__name__} needs {what} in memory. Got {type(X).__name__} instead: {remedy}.")

    def _fit_features(self, X: Any, types: Any = None) -> None:
        """Fit a clone of the features step without labels; one that needs labels gets trusted rows and their labels.

        `types` are those of the numbers in the reference, if there is one.
        """
        try:
            self.features_ = fit_label_free(self.features, X)
        except (TypeError, ValueError) as error:
            if self._trusted is not None:
                self._fit_features_to_trusted(self._trusted, types)
                return
            wanted = f"{LABEL_FREE_TRANSFORMER} to these rows"
            found = f"{error} A step that needs labels can be fitted to trusted ones: {TRUSTED_LABELS}."
            raise parameter_error(type(self).__name__, "features", wanted, self.features, found) from error

    def _fit_features_to_trusted(self, trusted: TrustedPart, types: Any) -> None:
        """Fit a clone of the features step to trusted rows and their labels, which nobody can change (M15)."""
        try:
            self.features_ = fit_to_trusted(self.features, with_number_types(trusted.rows, types), trusted.labels)
        except (TypeError, ValueError) as error:
            wanted = "a transformer that can be fitted to these rows without labels, or to trusted rows and labels"
            raise parameter_error(type(self).__name__, "features", wanted, self.features, f"{error}") from error
        self._label_readers = (*self._label_readers, f"the features step {name_of(self.features)}")

    def _fit_features_to_reference(self, reference: Any) -> Floats:
        """Fit the features step to the reference, and return the features of the reference."""
        self._refuse_unless_in_memory(reference, "the reference", "load it, or a sample of its rows")
        check_nothing_masked(reference, "reference")
        self._reference_types = number_types(reference)
        if self.features is None:
            self.features_ = None
            rows = self._numbers(reference, dtype=np.float64, ensure_min_samples=2)
        else:
            validate_data(self, reference, skip_check_array=True)
            if any(getattr(part.value, "places_rows_together", False) for part in parts_of(self.features)):
                raise ValueError(
                    f"The features step {type(self.features).__name__} embeds rows together, so the features of a row "
                    "depend on other rows: it cannot be used with reference=... Use a step that transforms each row "
                    "separately."
                )
            reference = with_number_types(reference, self._reference_types)
            self._fit_features(reference, self._reference_types)
            self._tile_rows = self._rows_at_a_time(reference)
            rows = self._rows_in_geometry(reference, least=2)
            self._refuse_features_of_company(reference, rows)
        self._reference_width = rows.shape[1]
        return np.asarray(rows)

    def _rows_at_a_time(self, X: Any) -> int:
        """Return how many rows the features step gets at a time: a tile, or one row.

        On some processors, the last bits of a matrix product also depend on the place of a row among others. Then each
        row is transformed alone. Larger differences are those of a step that does not treat rows separately.
        """
        can_be_split = hasattr(X, "shape") or isinstance(X, (list, tuple))
        if not can_be_split or any(
            getattr(part.value, "places_rows_together", False) for part in parts_of(self.features_)
        ):
            return TILE_ROWS
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        numbers = np.resize(np.arange(n_rows), TILE_ROWS)

        def transformed(places: Integers) -> Floats:
            tile = rows_at(X, numbers[places])
            return np.asarray(check_array(on_one_thread(lambda: self._transformed(tile)), dtype=FEATURE_TYPES))

        in_order = np.arange(TILE_ROWS)
        usual = transformed(in_order)
        if len(usual) != TILE_ROWS:  # the step loses rows, which the fit refuses
            return TILE_ROWS
        others = (in_order[::-1], *(np.roll(in_order, shift) for shift in OTHER_PLACES))
        alone = np.zeros(TILE_ROWS, dtype=np.int64)
        are_alike = [_are_alike(transformed(places), usual[places]) for places in (alone, *others)]
        only_last_bits_differ = all(alike is not None for alike in are_alike) and not all(are_alike)
        return 1 if only_last_bits_differ else TILE_ROWS

    def _refuse_features_of_company(self, reference: Any, rows: Floats) -> None:
        """Refuse a features step that gives a row of the reference other features if other rows are beside it.

        No test can prove that a step transforms each row separately. This one finds steps that subtract a mean of
        what they are given, iterate until all rows have converged, or draw a random number for each row.
        """
        if not (hasattr(reference, "shape") or isinstance(reference, (list, tuple))):
            return  # cannot be split into rows
        half = np.arange((min(len(rows), TILE_ROWS) + 1) // 2)
        for numbers in (half, np.array([len(rows) - 1])):
            in_other_company = self._rows_in_geometry(rows_at(reference, numbers))
            if not np.array_equal(in_other_company, rows[numbers]):
                raise ValueError(
                    f"The features step {type(self.features).__name__} gives a row other features if other rows are "
                    "transformed with it: it cannot be used with reference=... Use a step that transforms each row "
                    "separately."
                )

    def _rows_in_geometry(self, X: Any, least: int = 0) -> Floats:
        """Return the features of rows, each computed independently of all others (M12).

        Rows are converted to the type of the reference first: a step may compute other bits from another type.
        """
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if self.features_ is None:
            rows = self._numbers(X, dtype=np.float64, reset=False, ensure_min_samples=least)
            return np.asarray(rows)
        validate_data(self, X, skip_check_array=True, reset=False)
        if n_rows == 0:
            return np.empty((0, self._reference_width))
        X = with_number_types(X, self._reference_types)
        return on_one_thread(lambda: self._transformed_in_tiles(X)).astype(np.float64)

    def test_features(self, X: Any) -> Floats:
        """Return the features of test rows after the learner's features step: all that their votes depend on."""
        check_is_fitted(self)
        if self.n_reference_ is not None:
            return self._rows_in_geometry(X, least=1)
        if self.features_ is None:
            return np.asarray(self._numbers(X, dtype=FEATURE_TYPES, reset=False))
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
        size, :meth:`_rows_at_a_time`; the last tile is padded with copies of its last row.
        """
        tiles = []
        with CountedProgress(
            X.shape[0] if hasattr(X, "shape") else len(X), "rows transformed", self.verbose
        ) as progress:
            for tile, n_rows in row_tiles(X, self._tile_rows):
                transformed = check_array(self._transformed(tile), dtype=FEATURE_TYPES, estimator=self)
                tiles.append(np.asarray(transformed)[:n_rows])
                progress.advance(n_rows)
        return np.vstack(tiles)

    #: Rows that the features step gets at a time.
    _tile_rows = TILE_ROWS

    #: How users can avoid the assumption about the steps of a Pipeline: a key of `STEP_REMEDIES`.
    step_remedy = "features"

    #: Whether certificates also cover windows of time.
    covers_windows = False

    #: Whether certificates also cover changed training features.
    covers_features: Any = False

    @property
    def covers_rows(self) -> bool:
        """Whether this fit can be certified against changed rows: nothing but votes was learned from them."""
        return self.n_reference_ is not None

    def common_assumptions(self) -> list[Assumption]:
        """Return the assumptions that all learners have in common, as of this fit."""
        found = [Assumption("labels-only")]
        if self.classes is None:
            found.append(Assumption("classes-read", {"n_classes": len(self.classes_)}))
        if self.features is not None:
            found += self._assumptions_about_features()
            stated = (getattr(part.value, "rests_on", None) for part in parts_of(self.features))
            found += [as_assumption(one) for one in stated if isinstance(one, (str, Assumption))]
        found += self._assumptions_about_trust()
        found += self._assumptions_about_prior()
        if self.n_reference_ is not None and self.features is not None:
            found.append(Assumption("features-separately", {"step": name_of(self.features)}))
        n_unlabelled = self._n_unlabelled()
        if n_unlabelled:
            found.append(Assumption("unlabelled-rows", {"n_unlabelled": n_unlabelled, "n_rows": self.n_rows_}))
        return found

    def _assumptions_about_features(self) -> list[Assumption]:
        """Return the assumptions about the features step: fitted without labels, or to trusted rows and labels."""
        step = name_of(self.features)
        if self._trusted is None or f"the features step {step}" not in self._label_readers:
            return label_free_assumptions(self.features, "features step")
        values = {"role": "features step", "step": step, "n_trusted": len(self._trusted)}
        return [Assumption("fitted-on-trusted", values), *assumptions_about(self.features, "features step")]

    def _assumptions_about_trust(self) -> list[Assumption]:
        """Return what is assumed about the reference, and about labels that were trusted in the fit (M15)."""
        trusted, readers, n_reference = self._trusted, self._label_readers, self.n_reference_
        found: list[Assumption] = []
        if n_reference is not None and trusted is not None and (readers or trusted.numbers is None):
            values = {"n_labels": len(trusted), "of_reference": trusted.numbers is None, "readers": readers}
            found.append(Assumption("reference-labels-read", {"n_reference": n_reference, **values}))
        elif n_reference is not None:
            found.append(Assumption("reference-fixed", {"n_reference": n_reference}))
        if n_reference is not None:
            found += self._shared_with_reference()
        n_trusted = self._n_trusted_at_fit()
        if n_trusted:
            who = () if trusted is None or trusted.numbers is None else readers
            values = {"n_trusted": n_trusted, "n_labels": self.n_labels_, "readers": who}
            found.append(Assumption("trusted-at-fit", values))
        return found

    def _n_trusted_at_fit(self) -> int:
        """Return how many training labels were trusted in the fit."""
        return 0

    def _assumptions_about_prior(self) -> list[Assumption]:
        """Return what is assumed about the prior, if there is one."""
        return []

    def _n_unlabelled(self) -> int:
        """Return how many training rows have no label."""
        return self.n_rows_ - self.n_labels_

    def _shared_with_reference(self) -> list[Assumption]:
        """Return the assumption about training rows that are also in the reference, if there are any."""
        return _shared(self._rows_in_reference(), self.n_rows_)

    def _rows_in_reference(self) -> int:
        """Return how many training rows have the features of a row of the reference."""
        return 0

    def refuse_unless_frozen(self, adversary: Adversary | None) -> None:
        """Refuse an adversary who changes rows, unless the geometry was learned from a reference (M12)."""
        if isinstance(adversary, Adversary) and adversary.changes_rows and self.n_reference_ is None:
            raise ValueError(
                f"Adversary(changes={adversary.changes!r}) needs a geometry that no training row can change, but this "
                f"{type(self).__name__} learned it from the training rows: fit(X, y, reference=...) learns it from "
                "rows that you trust, without labels."
            )

    def also_assume(self, assumption: Assumption | str) -> None:
        """Add an assumption to the certificates of this fit."""
        self.assumptions_ = (*self.assumptions_, as_assumption(assumption))


def _are_alike(found: Floats, usual: Floats) -> bool | None:
    """Tell whether features are identical; None if more than their last bits differ."""
    if np.array_equal(found, usual):
        return True
    close = np.allclose(found, usual, rtol=LAST_BITS, atol=LAST_BITS * float(np.abs(usual).max(initial=0.0)))
    return False if close else None


@contextmanager
def all_or_nothing(learner: Any) -> Iterator[None]:
    """Restore the attributes of a learner if a fit or an update fails: votes, labels and geometry belong together."""
    before = dict(vars(learner))
    try:
        yield
    except BaseException:
        vars(learner).clear()
        vars(learner).update(before)
        raise


class _NeedsReference:
    """A method that exists only after a fit with a reference, like scikit-learn's `available_if`, but says why."""

    def __init__(self, method: Callable[..., Any]):
        self.__doc__, self._method = method.__doc__, method

    def __get__(self, learner: Any, owner: type) -> Any:
        if learner is not None and learner.n_reference_ is None:
            raise AttributeError(
                f"{self._method.__name__} of {owner.__name__} needs a geometry that does not depend on the training "
                "rows: call fit(X, y, reference=...) first."
            )
        return self._method.__get__(learner, owner)


class LabelsInMemory(CertifiedClassifier):
    """A certified classifier that holds its training labels.

    Attributes
    ----------
    label_codes_ : integers of shape (n,)
        The training labels, as positions in `classes_`; 0 for rows without a label.
    is_labeled_ : booleans of shape (n,)
        Which training rows have a label.
    is_trusted_ : booleans of shape (n,)
        Which training labels were trusted in the fit: they are trusted in every certificate.
    row_names_ : array of shape (n,) or None
        The index of the pandas frame that was fitted, if it is not just row numbers. Reports and explanations call the
        training rows by these names; nothing else depends on them.
    """

    label_codes_: Integers
    is_labeled_: NDArray[np.bool_]
    is_trusted_: NDArray[np.bool_]
    prior: Any
    prior_weight: float
    _prior: Prior | None
    row_names_: NDArray[Any] | None = None

    def _read_training_rows(
        self,
        X: Any,
        y: Any,
        unlabeled: Any = None,
        reference: Any = None,
        reference_labels: Any = None,
        trusted: Any = None,
    ) -> tuple[Floats, Floats | None]:
        """Return the features that the learner sees, of the training rows and of the reference, if any.

        Labels are kept as class codes, those of unlabelled rows as code 0. Trusted rows and labels are kept until the
        end of the fit.
        """
        self.validate_parameters()
        if isinstance(y, Annotations):
            raise ValueError(
                f"{type(self).__name__} takes one label per row, not Annotations: use a label-linear learner."
            )
        check_nothing_masked(X, "X")
        self.row_names_ = row_names(X)
        self.n_reference_, reference_rows = None, None
        self._label_readers, self._trusted = (), self._trusted_part(X, y, reference, reference_labels, trusted)
        if reference is not None:
            reference_rows = self._fit_features_to_reference(reference)
            self.n_reference_ = len(reference_rows)
            self._reference_hashes = row_hashes(reference_rows)
            self._refuse_unless_in_memory(X, "training rows")
            X, labels = self._rows_in_geometry(X), self._labels_of(X, y)
            self._row_hashes = row_hashes(X)
            self.is_labeled_ = np.ones(len(labels), dtype=bool)
        elif unlabeled is None or y is None:
            X, labels = self._training_arrays(X, label_values(y))
            self.is_labeled_ = np.ones(len(labels), dtype=bool)
        else:
            self.is_labeled_ = _labeled_rows(unlabeled, len(y))
            labels = column_or_1d(label_values(_given_labels(y, self.is_labeled_)))
            assert_all_finite(labels, input_name="y")
            # the placeholders of missing labels are never read
            X, _ = self._training_arrays(X, np.zeros(len(self.is_labeled_)))
        if len(labels):
            check_classification_targets(labels)
        elif self.classes is None and self._trusted is None:
            raise ValueError("A fit without training rows needs the class set: give classes=... to the learner.")
        self.classes_, codes = self._encoded(labels)
        came_as_objects = unlabeled is None and getattr(getattr(y, "dtype", None), "kind", None) == "O"
        if self.classes is None and came_as_objects and self.classes_.dtype.kind == "U":
            self.classes_ = self.classes_.astype(object)
        all_codes = np.zeros(len(self.is_labeled_), dtype=np.int64)
        all_codes[self.is_labeled_] = codes
        self._keep_labels(all_codes, self.is_labeled_, self._trusted_mask(trusted))
        return np.asarray(X), reference_rows

    def _trusted_part(self, X: Any, y: Any, reference: Any, reference_labels: Any, trusted: Any) -> TrustedPart | None:
        """Return the rows and labels that nobody can change: those of the reference or, without labels, of the mask."""
        if reference_labels is not None:
            if reference is None:
                raise ValueError(
                    "fit(..., reference_labels=...) needs the rows that these labels belong to: give reference=..., "
                    "or trusted=... to trust labels of training rows."
                )
            labels = column_or_1d(label_values(reference_labels, "The reference_labels"))
            check_consistent_length(reference, labels)
            return TrustedPart(reference, self._as_classes(labels), None)
        if trusted is None or y is None:
            return None
        mask = _mask_of_trusted(trusted)
        check_consistent_length(X, y, mask)
        if not mask.any():
            return None
        numbers, labels = np.flatnonzero(mask), np.asarray(column_or_1d(label_values(_given_labels(y, mask))))
        return TrustedPart(rows_at(X, numbers), self._as_classes(labels), numbers)

    def _as_classes(self, labels: NDArray[Any]) -> NDArray[Any]:
        """Return labels in the type of the given classes, so that nothing but their values matters."""
        if self.classes is None:
            return labels
        classes, codes = encode_labels(labels, self.classes)
        return np.asarray(classes[codes])

    def _encoded(self, labels: NDArray[Any]) -> tuple[NDArray[Any], Integers]:
        """Return the classes and the labels as positions in them; labels of the reference name classes too."""
        trusted = self._trusted
        if self.classes is not None or trusted is None or trusted.numbers is not None:
            return encode_labels(labels, self.classes)
        classes, codes = encode_labels(joined([label_values(labels), trusted.labels]), None)
        return classes, codes[: len(labels)]

    def _trusted_mask(self, trusted: Any) -> NDArray[np.bool_]:
        """Return which training labels are trusted; refuse to trust labels that are missing."""
        n_rows = len(self.is_labeled_)
        if trusted is None:
            return np.zeros(n_rows, dtype=bool)
        mask = _mask_of_trusted(trusted)
        if len(mask) != n_rows:
            raise ValueError(f"trusted must be {TRUSTED_MASK} Got {len(mask)} for {n_rows} rows instead.")
        if (mask & ~self.is_labeled_).any():
            raise ValueError("trusted must be False for rows that have no label. Got True for some of them.")
        return mask

    def _trusted_codes(self) -> tuple[TrustedPart, Integers] | None:
        """Return the trusted rows and labels of this fit, and these labels as class codes."""
        if self._trusted is None:
            return None
        return self._trusted, positions(self.classes_, self._trusted.labels)[0]

    def _prepare_prior(self, X: Any) -> Prior | None:
        """Return the fitted prior, if there is one: as it was given, or fitted to trusted rows and labels (M15).

        It is asked about one training row, so that a prior that cannot answer is refused now.
        """
        self.prior_ = None
        if self.prior is None:
            return None
        owner = type(self).__name__
        if is_fitted(self.prior):
            self.prior_ = as_given(self.prior)
        elif self._trusted is None:
            wanted, remedy = "a fitted classifier where no labels are trusted", f"fit it, or use {TRUSTED_LABELS}."
            raise parameter_error(owner, "prior", wanted, self.prior, remedy)
        else:
            rows = self._trusted.rows
            if self.n_reference_ is not None:
                rows = with_number_types(rows, self._reference_types)
            self.prior_ = fit_prior(owner, self.prior, rows, self._trusted.labels)
            self._label_readers = (*self._label_readers, "the prior")
        prior = Prior(self.prior_, float(self.prior_weight), self.classes_, owner)
        if self.n_rows_:
            prior.shares(rows_at(X, np.arange(1)))
        return prior

    def _assumptions_about_prior(self) -> list[Assumption]:
        """Return what is assumed about the prior, if there is one."""
        if self.prior_ is None:
            return []
        step = name_of(self.prior)
        found = [Assumption("prior-weight", {"step": step, "weight": float(self.prior_weight)})]
        if self._trusted is None or "the prior" not in self._label_readers:
            where = {"path": "", "part": step, "data": "rows and labels"}
            return [*found, Assumption("fitted-elsewhere", {"role": "prior", "step": step, **where})]
        fitted = Assumption("fitted-on-trusted", {"role": "prior", "step": step, "n_trusted": len(self._trusted)})
        return [*found, fitted, *assumptions_about(self.prior, "prior")]

    def _forget_trusted_part(self) -> None:
        """Drop the trusted rows at the end of a fit; keep whether labels of training rows were read."""
        trusted = self._trusted
        self._reads_trusted_rows = trusted is not None and trusted.numbers is not None and bool(self._label_readers)
        self._trusted = None

    def _n_trusted_at_fit(self) -> int:
        return int(np.count_nonzero(self.is_trusted_))

    def _labels_of(self, X: Any, y: Any) -> NDArray[Any]:
        """Return the labels of rows as values; refuse other numbers of labels than rows."""
        if y is None:
            raise ValueError(f"{type(self).__name__} needs labels: give y.")
        labels = np.asarray(column_or_1d(label_values(y)))
        assert_all_finite(labels, input_name="y")
        check_consistent_length(X, labels)
        return labels

    def _keep_labels(self, codes: Integers, is_labeled: NDArray[np.bool_], is_trusted: NDArray[np.bool_]) -> None:
        self.label_codes_, self.is_labeled_, self.is_trusted_ = codes, is_labeled, is_trusted
        self.n_rows_, self.n_labels_ = len(codes), int(np.count_nonzero(is_labeled))
        for fixed in (self.label_codes_, self.is_labeled_, self.is_trusted_):
            fixed.setflags(write=False)

    def powers(self, adversary: Adversary | None) -> Powers:
        """Return what an adversary can do to the rows of this fit; by default, change any label to any class.

        Soundness: labels that were trusted in the fit are trusted here, whatever the adversary (M15). Geometry and
        prior may have read them, so no certificate covers their change.
        """
        self.refuse_unless_frozen(adversary)
        if not self.covers_windows:
            refuse_windows(adversary, type(self).__name__)
        untrusted = self.is_labeled_ & ~self.is_trusted_
        return powers_of(adversary, self.label_codes_, self.classes_, untrusted)

    def _rows_in_reference(self) -> int:
        return len(rows_found(self._row_hashes, self._reference_hashes))

    @_NeedsReference
    def partial_fit(self, X: Any, y: Any) -> LabelsInMemory:
        """Let more rows vote, as if they had been given to `fit`, after the others; to the last bit.

        Needs a fit with ``reference=...``. The classes of the labels must be among `classes_`.

        Parameters
        ----------
        X : array or data frame of shape (n, k)
            More training rows.
        y : array of shape (n,)
            Their labels.

        Returns
        -------
        self
        """
        check_nothing_masked(X, "X")
        self._refuse_unless_in_memory(X, "training rows")
        rows, labels = self._rows_in_geometry(X), self._labels_of(X, y)
        _, codes = encode_labels(labels, self.classes_)
        with all_or_nothing(self):
            hashes = row_hashes(rows)
            self._row_hashes = np.concatenate([self._row_hashes, hashes])
            all_codes = np.concatenate([self.label_codes_, codes])
            self.row_names_ = joined_names(self.row_names_, self.n_rows_, row_names(X), len(rows))
            is_trusted = np.concatenate([self.is_trusted_, np.zeros(len(codes), dtype=bool)])
            self._keep_labels(all_codes, np.ones(len(all_codes), dtype=bool), is_trusted)
            n_shared = self._n_shared() + len(rows_found(hashes, self._reference_hashes))
            self._vote_too(rows)
            self._state_shared(n_shared)
        return self

    @_NeedsReference
    def forget(self, rows: Any) -> LabelsInMemory:
        """Remove rows from the vote, as if they had never been given to `fit`; to the last bit.

        Needs a fit with ``reference=...``. What was learned from the reference is kept: if a withdrawn row is also in
        the reference, a :class:`ReferenceWarning` says so. Give ``classes=...`` to the learner, or classes whose last
        row is withdrawn remain.

        Parameters
        ----------
        rows : integers, or booleans of shape (n,)
            Numbers of the training rows to withdraw, in the order of `fit` and `partial_fit`, or a mask.

        Returns
        -------
        self
        """
        gone = _rows_to_forget(rows, self.n_rows_)
        self._refuse_to_forget_trusted(gone)
        shared = gone[rows_found(self._row_hashes[gone], self._reference_hashes)]
        kept = np.delete(np.arange(self.n_rows_), gone)
        with all_or_nothing(self):
            self._row_hashes = self._row_hashes[kept]
            self.row_names_ = (np.arange(self.n_rows_) if self.row_names_ is None else self.row_names_)[kept]
            self._keep_labels(self.label_codes_[kept], self.is_labeled_[kept], self.is_trusted_[kept])
            n_shared = self._n_shared() - len(shared)
            self._vote_only(kept)
            self._state_shared(n_shared)
        if len(shared):
            named = ", ".join(map(str, shared[:MOST_NAMED].tolist())) + ", ..." * (len(shared) > MOST_NAMED)
            warnings.warn(
                f"{len(shared)} of the {len(gone)} withdrawn rows ({named}) have the same features as rows of the "
                "reference, from which the geometry was learned: to forget them completely, fit again with a reference "
                "that does not contain them.",
                ReferenceWarning,
                stacklevel=2,
            )
        return self

    def _refuse_to_forget_trusted(self, gone: Integers) -> None:
        """Refuse to forget rows whose labels the geometry or the prior has read."""
        read = gone[self.is_trusted_[gone]] if self._reads_trusted_rows else gone[:0]
        if len(read):
            raise ValueError(
                f"Row {read[0]} was trusted in the fit, and its label was read by {', '.join(self._label_readers)}: to "
                "forget it, fit again without it."
            )

    def _n_shared(self) -> int:
        """Return how many training rows are also in the reference, as stated; counting them again takes longer."""
        return sum(one.values["n_shared"] for one in self.assumptions_ if one.code == "reference-shared")

    def _state_shared(self, n_shared: int) -> None:
        """Update the assumptions that depend on training rows; all others are those of the fit."""
        found: list[Assumption] = []
        for one in self.assumptions_:
            if one.code == "trusted-at-fit":
                n_trusted = self._n_trusted_at_fit()
                values = {**one.values, "n_trusted": n_trusted, "n_labels": self.n_labels_}
                found += [Assumption(one.code, values)] if n_trusted else []
            elif one.code != "reference-shared":
                found.append(one)
            if one.code in ("reference-fixed", "reference-labels-read"):
                found += _shared(n_shared, self.n_rows_)
        self.assumptions_ = tuple(found)

    def _vote_too(self, rows: Floats) -> None:
        """Let more rows vote, given by their features; their labels are kept already."""
        raise NotImplementedError

    def _vote_only(self, kept: Integers) -> None:
        """Let only these of the present rows vote."""
        raise NotImplementedError


def _shared(n_shared: int, n_rows: int) -> list[Assumption]:
    """Return the assumption about training rows that are also in the reference, if there are any."""
    return [Assumption("reference-shared", {"n_shared": n_shared, "n_rows": n_rows})] if n_shared else []


def assumptions_about_rows(of_fit: tuple[Assumption, ...], scope: Scope) -> tuple[Assumption, ...]:
    """Return the assumptions of certificates against changed rows, given those of the fit, which are about labels."""
    changed = Assumption("rows-changed", {"changes": scope.changes, "by_sources": scope.unit == "sources"})
    return changed, *(one for one in of_fit if one.code != "labels-only")


#: Description of a valid mask of trusted rows.
TRUSTED_MASK = "a mask of booleans, one per training row: np.isin(np.arange(n), rows) makes one from row numbers."


def _mask_of_trusted(trusted: Any) -> NDArray[np.bool_]:
    return as_mask(trusted, "trusted", TRUSTED_MASK)


def _rows_to_forget(rows: Any, n: int) -> Integers:
    """Return row numbers, in ascending order and each once."""
    given = np.asarray(rows)
    if given.dtype == bool:
        if given.shape != (n,):
            raise ValueError(f"A mask of rows to forget must have one entry per training row, {n}. Got {given.shape}.")
        return np.flatnonzero(given)
    if given.size == 0:
        return np.zeros(0, dtype=np.int64)
    if given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= n:
        raise ValueError(
            f"Rows to forget must be numbers from 0 to {n - 1}, or a mask of {n} booleans. Got {rows!r} instead."
        )
    return np.unique(given).astype(np.int64)


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
