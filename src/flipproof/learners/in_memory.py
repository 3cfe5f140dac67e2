"""What certified classifiers share that hold their training labels: fit, partial_fit, forget, trusted labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_consistent_length, column_or_1d

from flipproof.adversary import Adversary, powers_of, refuse_windows
from flipproof.annotations import Annotations
from flipproof.assumptions import Assumption
from flipproof.core.contents import row_hashes, rows_found
from flipproof.core.growth import appended
from flipproof.core.powers import Powers, Scope
from flipproof.core.rounding import Floats, Integers
from flipproof.learners.certified import (
    TrustedPart,
)
from flipproof.learners.row_by_row import rows_at
from flipproof.learners.trusted_part import LearnsFromTrusted, warn_of_rows_in_reference
from flipproof.origins import joined_names, row_names
from flipproof.values import as_mask, check_nothing_masked, encode_labels, label_values


@contextmanager
def all_or_nothing(learner: object) -> Iterator[None]:
    """Restore the attributes of a learner if a fit or an update fails: votes, labels and geometry belong together."""
    before = dict(vars(learner))
    try:
        yield
    except BaseException:
        vars(learner).clear()
        vars(learner).update(before)
        raise


class NeedsReference:
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


class LabelsInMemory(LearnsFromTrusted):
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
    row_names_: NDArray[Any] | None = None

    def _read_training_rows(
        self,
        X: object,
        y: Any,
        unlabeled: Any = None,
        reference: object = None,
        reference_labels: object = None,
        trusted: object = None,
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
        self.label_readers_, self.trusted_part_ = (), self._trusted_part(X, y, reference, reference_labels, trusted)
        if reference is not None:
            reference_rows = self.fit_features_to_reference(reference)
            self.n_reference_ = len(reference_rows)
            self._reference_hashes = row_hashes(reference_rows)
            self._refuse_unless_in_memory(X, "training rows")
            self._refuse_other_columns(X)
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
        elif self.classes is None and self.trusted_part_ is None:
            raise ValueError("A fit without training rows needs the class set: give classes=... to the learner.")
        self.classes_, codes = self.encoded_labels(labels)
        came_as_objects = unlabeled is None and getattr(getattr(y, "dtype", None), "kind", None) == "O"
        if self.classes is None and came_as_objects and self.classes_.dtype.kind == "U":
            self.classes_ = self.classes_.astype(object)
        all_codes = np.zeros(len(self.is_labeled_), dtype=np.int64)
        all_codes[self.is_labeled_] = codes
        self._keep_labels(all_codes, self.is_labeled_, self._trusted_mask(trusted))
        return np.asarray(X), reference_rows

    def _trusted_part(
        self, X: object, y: object, reference: object, reference_labels: object, trusted: object
    ) -> TrustedPart | None:
        """Return the rows and labels that nobody can change: those of the reference or, without labels, of the mask."""
        if reference_labels is not None:
            return self.labelled_reference(reference, reference_labels)
        if trusted is None or y is None:
            return None
        check_consistent_length(X, y)
        mask = mask_of_trusted(trusted, _num_samples(y))
        if not mask.any():
            return None
        numbers, labels = np.flatnonzero(mask), np.asarray(column_or_1d(label_values(_given_labels(y, mask))))
        return TrustedPart(rows_at(X, numbers), self._as_classes(labels), numbers)

    def _trusted_mask(self, trusted: object) -> NDArray[np.bool_]:
        """Return which training labels are trusted; refuse to trust labels that are missing."""
        n_rows = len(self.is_labeled_)
        if trusted is None:
            return np.zeros(n_rows, dtype=bool)
        mask = mask_of_trusted(trusted, n_rows)
        if (mask & ~self.is_labeled_).any():
            raise ValueError("trusted must be False for rows that have no label. Got True for some of them.")
        return mask

    def n_trusted_at_fit(self) -> int:
        """Return how many training labels were trusted in the fit."""
        return int(np.count_nonzero(self.is_trusted_))

    def _labels_of(self, X: object, y: object) -> NDArray[Any]:
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

        Soundness: labels that were trusted in the fit are trusted here, for every adversary (M15). Geometry and
        prior may have read them, so no certificate covers their change.
        """
        self.refuse_unless_frozen(adversary)
        if not self.covers_windows:
            refuse_windows(adversary, type(self).__name__)
        untrusted = self.is_labeled_ & ~self.is_trusted_
        return powers_of(adversary, self.label_codes_, self.classes_, untrusted)

    def rows_in_reference(self) -> int:
        """Return how many training rows have the same features as a row of the reference."""
        return len(rows_found(self._row_hashes, self._reference_hashes))

    @NeedsReference
    def partial_fit(self, X: object, y: object) -> LabelsInMemory:
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

        Examples
        --------
        >>> from flipproof import CertifiedRidgeClassifier
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
        >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X, y, reference=X)
        >>> model.partial_fit([[4.0], [5.0]], [1, 1]).n_rows_
        6
        """
        check_nothing_masked(X, "X")
        self._refuse_unless_in_memory(X, "training rows")
        self._refuse_other_columns(X)
        rows, labels = self._rows_in_geometry(X), self._labels_of(X, y)
        _, codes = encode_labels(labels, self.classes_)
        with all_or_nothing(self):
            hashes = row_hashes(rows)
            self._row_hashes = appended(self._row_hashes, hashes)
            all_codes = appended(self.label_codes_, codes)
            self.row_names_ = joined_names(self.row_names_, self.n_rows_, row_names(X), len(rows))
            is_trusted = appended(self.is_trusted_, np.zeros(len(codes), dtype=bool))
            self._keep_labels(all_codes, appended(self.is_labeled_, np.ones(len(codes), dtype=bool)), is_trusted)
            n_shared = self._n_shared() + len(rows_found(hashes, self._reference_hashes))
            self._vote_too(rows)
            self.state_shared_rows(n_shared)
        return self

    @NeedsReference
    def forget(self, rows: object) -> LabelsInMemory:
        """Remove rows from the vote, as if they had never been given to `fit`; to the last bit.

        Needs a fit with ``reference=...``. What was learned from the reference is kept: if a withdrawn row is also in
        the reference, a `ReferenceWarning` says so. Give ``classes=...`` to the learner, or classes whose last
        row is withdrawn remain.

        Parameters
        ----------
        rows : integers, or booleans of shape (n,)
            Numbers of the training rows to withdraw, in the order of `fit` and `partial_fit`, or a mask.

        Returns
        -------
        self

        Examples
        --------
        >>> from flipproof import CertifiedRidgeClassifier
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
        >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X, y, reference=[[0.5], [1.5], [2.5]])
        >>> model.forget([0]).n_rows_
        3
        """
        gone = rows_to_forget(rows, self.n_rows_)
        if self.reads_trusted_rows_:
            self.refuse_to_forget(gone[self.is_trusted_[gone]])
        shared = gone[rows_found(self._row_hashes[gone], self._reference_hashes)]
        kept = np.delete(np.arange(self.n_rows_), gone)
        with all_or_nothing(self):
            self._row_hashes = self._row_hashes[kept]
            self.row_names_ = (np.arange(self.n_rows_) if self.row_names_ is None else self.row_names_)[kept]
            self._keep_labels(self.label_codes_[kept], self.is_labeled_[kept], self.is_trusted_[kept])
            n_shared = self._n_shared() - len(shared)
            self._vote_only(kept)
            self.state_shared_rows(n_shared)
        warn_of_rows_in_reference(shared, len(gone))
        return self

    def _vote_too(self, rows: Floats) -> None:
        """Let more rows vote, given by their features; their labels are kept already."""
        raise NotImplementedError

    def _vote_only(self, kept: Integers) -> None:
        """Let only these of the present rows vote."""
        raise NotImplementedError


def assumptions_about_rows(of_fit: tuple[Assumption, ...], scope: Scope) -> tuple[Assumption, ...]:
    """Return the assumptions of certificates against changed rows, given those of the fit, which are about labels."""
    changed = Assumption("rows-changed", {"changes": scope.changes, "by_sources": scope.unit == "sources"})
    found = [changed]
    for one in of_fit:
        found += [] if one.code == "labels-only" else [one]
        if one.code == "features-separately" and scope.changes != "removals":
            found.append(Assumption("features-any-rows", one.values))
    return tuple(found)


#: Description of a valid mask of trusted rows.
TRUSTED_MASK = "a mask of booleans, one per training row: np.isin(np.arange(n), rows) makes one from row numbers."


def mask_of_trusted(trusted: object, n_rows: int) -> NDArray[np.bool_]:
    """Return a mask of trusted rows, which the caller's array shares no memory with; refuse anything else."""
    mask = as_mask(trusted, "trusted", TRUSTED_MASK).copy()
    if len(mask) != n_rows:
        raise ValueError(f"trusted must be {TRUSTED_MASK} Got {len(mask)} for {n_rows} rows instead.")
    return mask


def rows_to_forget(rows: object, n: int) -> Integers:
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


def _labeled_rows(unlabeled: object, n: int) -> NDArray[np.bool_]:
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
