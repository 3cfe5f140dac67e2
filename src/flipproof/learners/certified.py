"""What all certified classifiers share, label-linear or not: features, labels, parameters, assumptions."""

from __future__ import annotations

import os
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption, as_assumption
from flipproof.certificates import Certificates
from flipproof.core.rounding import Floats, Integers
from flipproof.learners.clones import (
    assumptions_about,
    fit_label_free,
    fit_to_trusted,
    fresh,
    label_free_assumptions,
    name_of,
    places_rows_together,
    stated_assumptions,
)
from flipproof.learners.row_by_row import TILE_ROWS, as_floats, number_types, row_tiles, rows_at, with_number_types
from flipproof.origins import first_not_finite, strange_columns
from flipproof.parameters import N_JOBS, NONE, VERBOSE, Constraints, check_parameters, parameter_error, with_methods
from flipproof.runtime.determinism import on_one_thread, with_seeds
from flipproof.runtime.progress import CountedProgress
from flipproof.values import check_nothing_masked

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
    trusted_part_: TrustedPart | None = None
    label_readers_: tuple[str, ...] = ()

    @abstractmethod
    def certify(self, X: object, method: str | None = None, adversary: Adversary | None = None) -> Certificates:
        """Predict, and certify every prediction."""

    def report(self, X: object, y: object = None, **options: Any) -> Report:
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

        Examples
        --------
        >>> from flipproof import CertifiedNeighborsClassifier
        >>> X, y = [[float(i)] for i in range(40)], ["ham"] * 20 + ["spam"] * 20
        >>> model = CertifiedNeighborsClassifier(n_neighbors=15, classes=["ham", "spam"]).fit(X, y)
        >>> report = model.report([[5.0], [30.0]], ["ham", "spam"])
        >>> report.to_frame()[["label", "prediction", "radius"]]
          label prediction  radius
        0   ham        ham       7
        1  spam       spam       7
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

    def _numbers(self, X: object, **options: object) -> Any:
        """Return rows as numbers, checked by scikit-learn; data frames of anything else are told how to be encoded.

        Errors about numbers that are not finite say where they are, in a line.
        """
        try:
            return validate_data(self, X, **options)
        except (TypeError, ValueError) as error:
            found = strange_columns(X)
            if found is None:
                place = first_not_finite(X)
                if place is None:
                    raise
                message = f"Input X contains {place}: leave out rows like this one, or fill in numbers."
                raise ValueError(message) from error
            remedy = (
                f"give {type(self).__name__}(features=TableEncoder()), from flipproof.tables, which encodes columns "
                "without labels, or call flipproof.audit(train, test, label=...), which does so itself"
            )
            raise ValueError(f"{type(self).__name__} needs numbers, but {found}: {remedy}.") from error

    def _refuse_unless_in_memory(self, X: object, what: str, remedy: str = IN_BLOCKS) -> None:
        if isinstance(X, (str, os.PathLike)) or hasattr(X, "comes_in_blocks") or hasattr(X, "__dask_graph__"):
            raise ValueError(f"{type(self).__name__} needs {what} in memory. Got {type(X).__name__} instead: {remedy}.")

    def _fit_features(self, X: object, types: object = None) -> None:
        """Fit a clone of the features step without labels; one that needs labels gets trusted rows and their labels.

        `types` are those of the numbers in the reference, if there is one.
        """
        try:
            self.features_ = fit_label_free(self.features, X)
        except (TypeError, ValueError) as error:
            if self.trusted_part_ is not None:
                self._fit_features_to_trusted(self.trusted_part_, types)
                return
            wanted = f"{LABEL_FREE_TRANSFORMER} to these rows"
            found = f"{error} A step that needs labels can be fitted to trusted ones: {TRUSTED_LABELS}."
            raise parameter_error(type(self).__name__, "features", wanted, self.features, found) from error

    def _fit_features_to_trusted(self, trusted: TrustedPart, types: object) -> None:
        """Fit a clone of the features step to trusted rows and their labels, which nobody can change (M15)."""
        try:
            self.features_ = fit_to_trusted(self.features, with_number_types(trusted.rows, types), trusted.labels)
        except (TypeError, ValueError) as error:
            wanted = "a transformer that can be fitted to these rows without labels, or to trusted rows and labels"
            raise parameter_error(type(self).__name__, "features", wanted, self.features, f"{error}") from error
        self.label_readers_ = (*self.label_readers_, f"the features step {name_of(self.features)}")

    def fit_features_to_reference(self, reference: object) -> Floats:
        """Fit the features step to the reference, and return the features of the reference."""
        self._refuse_unless_in_memory(reference, "the reference", "load it, or a sample of its rows")
        check_nothing_masked(reference, "reference")
        self._reference_types = number_types(reference)
        if self.features is None:
            self.features_ = None
            try:
                rows = self._numbers(reference, dtype=np.float64, ensure_min_samples=2)
            except (TypeError, ValueError) as error:
                said = str(error).strip().splitlines()[0].removesuffix(":").removesuffix(".")
                raise ValueError(f"The reference cannot be used. {said}.") from error
        else:
            validate_data(self, reference, skip_check_array=True)
            if places_rows_together(self.features):
                raise ValueError(
                    f"The features step {type(self.features).__name__} embeds rows together, so the features of a row "
                    "depend on other rows: it cannot be used with reference=... Use a step that transforms each row "
                    "separately, or freeze it: features.FrozenMap."
                )
            rows = self._features_of_reference(reference)
        self._reference_width = rows.shape[1]
        return np.asarray(rows)

    def _features_of_reference(self, reference: object) -> Floats:
        """Fit the features step to the reference, with integers as floats unless the step needs integers.

        Floats can also represent the fractions in other rows. Which of the two it is depends on the reference alone.
        """
        own_types, readers = self._reference_types, self.label_readers_
        floats = as_floats(own_types)
        if floats is not None:
            self._reference_types = floats
            try:
                return self._fitted_to_reference(reference)
            except (TypeError, ValueError, IndexError):
                self._reference_types, self.label_readers_ = own_types, readers
        return self._fitted_to_reference(reference)

    def _fitted_to_reference(self, reference: object) -> Floats:
        reference = with_number_types(reference, self._reference_types)
        self._fit_features(reference, self._reference_types)
        self._tile_rows = self._rows_at_a_time(reference)
        rows = self._rows_in_geometry(reference, least=2)
        self._refuse_features_of_company(reference, rows)
        return rows

    def _rows_at_a_time(self, X: Any) -> int:
        """Return how many rows the features step gets at a time: a tile, or one row.

        On some processors, the last bits of a matrix product also depend on the place of a row among others. Then each
        row is transformed alone. Larger differences are those of a step that does not treat rows separately.
        """
        can_be_split = hasattr(X, "shape") or isinstance(X, (list, tuple))
        if not can_be_split or places_rows_together(self.features_):
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

    def _refuse_features_of_company(self, reference: object, rows: Floats) -> None:
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

    def _refuse_other_columns(self, X: object) -> None:
        """Refuse training rows that have other columns than the reference."""
        of_reference, names = getattr(self, "feature_names_in_", None), getattr(X, "columns", None)
        known, n_columns = getattr(self, "n_features_in_", None), getattr(X, "shape", ())[1:]
        if known is not None and n_columns and n_columns[0] != known:
            raise ValueError(
                f"The reference has {known} columns, but the training rows have {n_columns[0]}: give rows with the "
                "same columns."
            )
        if of_reference is None or names is None or len(names) != len(of_reference):
            return
        for one, other in zip(of_reference, names, strict=True):
            if one != other:
                raise ValueError(
                    f"The reference has a column {one!r} where the training rows have {other!r}: give rows with the "
                    "same columns, in the same order."
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

    def test_features(self, X: object) -> Any:
        """Return all that the votes on test rows depend on: by default, their features after the features step."""
        return self.step_features(X)

    def step_features(self, X: object) -> Floats:
        """Return the features of rows after the learner's features step, or as they are if there is none."""
        check_is_fitted(self)
        if self.n_reference_ is not None:
            return self._rows_in_geometry(X, least=1)
        if self.features_ is None:
            return np.asarray(self._numbers(X, dtype=FEATURE_TYPES, reset=False))
        validate_data(self, X, skip_check_array=True, reset=False)
        if places_rows_together(self.features_):
            return np.asarray(check_array(self._transformed(X), dtype=FEATURE_TYPES, estimator=self))
        return on_one_thread(lambda: self._transformed_in_tiles(X))

    def _transformed(self, X: object) -> Any:
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
            stated = stated_assumptions(self.features)
            found += [*stated, *(one for one in stated_assumptions(self.features_) if one not in stated)]
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
        if self.trusted_part_ is None or f"the features step {step}" not in self.label_readers_:
            return label_free_assumptions(self.features, "features step")
        values = {"role": "features step", "step": step, "n_trusted": len(self.trusted_part_)}
        return [Assumption("fitted-on-trusted", values), *assumptions_about(self.features, "features step")]

    def _assumptions_about_trust(self) -> list[Assumption]:
        """Return what is assumed about the reference, and about labels that were trusted in the fit (M15)."""
        trusted, readers, n_reference = self.trusted_part_, self.label_readers_, self.n_reference_
        found: list[Assumption] = []
        if n_reference is not None and trusted is not None and (readers or trusted.numbers is None):
            values = {"n_labels": len(trusted), "of_reference": trusted.numbers is None, "readers": readers}
            found.append(Assumption("reference-labels-read", {"n_reference": n_reference, **values}))
        elif n_reference is not None:
            found.append(Assumption("reference-fixed", {"n_reference": n_reference}))
        if n_reference is not None:
            found += self._shared_with_reference()
        n_trusted = self.n_trusted_at_fit()
        if n_trusted:
            who = () if trusted is None or trusted.numbers is None else readers
            values = {"n_trusted": n_trusted, "n_labels": self.n_labels_, "readers": who}
            found.append(Assumption("trusted-at-fit", values))
        return found

    def n_trusted_at_fit(self) -> int:
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
        return shared_rows(self.rows_in_reference(), self.n_rows_)

    def rows_in_reference(self) -> int:
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


def shared_rows(n_shared: int, n_rows: int) -> list[Assumption]:
    """Return the assumption about training rows that are also in the reference, if there are any."""
    return [Assumption("reference-shared", {"n_shared": n_shared, "n_rows": n_rows})] if n_shared else []
