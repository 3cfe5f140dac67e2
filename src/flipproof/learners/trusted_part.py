"""What a fit learns from trusted rows and labels: the prior, the class set, and what is assumed about them (M15)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples, column_or_1d

from flipproof.assumptions import Assumption
from flipproof.core.rounding import Integers, Values
from flipproof.learners.certified import (
    MOST_NAMED,
    TRUSTED_LABELS,
    CertifiedClassifier,
    ReferenceWarning,
    TrustedPart,
    shared_rows,
)
from flipproof.learners.clones import (
    assumptions_about,
    label_free_assumptions,
    name_of,
    stated_assumptions,
)
from flipproof.learners.prior import Prior, as_given, fit_prior, is_fitted, reads_no_labels
from flipproof.learners.row_by_row import rows_at, with_number_types
from flipproof.parameters import parameter_error
from flipproof.values import encode_labels, joined, label_values, positions


class LearnsFromTrusted(CertifiedClassifier):
    """A certified classifier with a prior, for training rows in memory and in blocks."""

    classes_: NDArray[Any]
    prior: Any
    prior_weight: float
    weighted_prior_: Prior | None
    reads_trusted_rows_: bool

    def labelled_reference(self, reference: object, reference_labels: object) -> TrustedPart:
        """Return the rows of the reference with their labels, which nobody can change."""
        if reference is None:
            raise ValueError(
                "fit(..., reference_labels=...) needs the rows that these labels belong to: give reference=..., "
                "or trusted=... to trust labels of training rows."
            )
        labels = column_or_1d(label_values(reference_labels, "The reference_labels"))
        n_rows = _num_samples(reference)
        if len(labels) != n_rows:
            raise ValueError(
                f"reference_labels must have one label per row of the reference, {n_rows}. Got {len(labels)} instead."
            )
        return TrustedPart(reference, self._as_classes(labels), None)

    def _as_classes(self, labels: Values) -> NDArray[Any]:
        """Return labels in the type of the given classes, so that nothing but their values matters."""
        if self.classes is None:
            return labels
        classes, codes = encode_labels(labels, self.classes)
        return np.asarray(classes[codes])

    def encoded_labels(self, labels: Values) -> tuple[NDArray[Any], Integers]:
        """Return the classes and the labels as positions in them; labels of the reference name classes too."""
        trusted = self.trusted_part_
        if self.classes is not None or trusted is None or trusted.numbers is not None:
            return encode_labels(labels, self.classes)
        classes, codes = encode_labels(joined([label_values(labels), trusted.labels]), None)
        return classes, codes[: len(labels)]

    def _trusted_codes(self) -> tuple[TrustedPart, Integers] | None:
        """Return the trusted rows and labels of this fit, and these labels as class codes."""
        if self.trusted_part_ is None:
            return None
        return self.trusted_part_, positions(self.classes_, self.trusted_part_.labels)[0]

    def prepare_prior(self, X: object, reference: object) -> Prior | None:
        """Return the fitted prior, if there is one: as it was given, or fitted to trusted rows and labels (M15).

        One that reads no labels is fitted to the reference or, without a reference, to the training rows. The prior is
        asked about one row, so that one that cannot answer is refused now: a row of the reference if rows can be
        changed, since no row that an adversary adds may make a fit fail.

        Soundness: such a prior is learned from what the geometry is learned from, which the adversary cannot change.
        """
        self.prior_ = None
        if self.prior is None:
            return None
        owner = type(self).__name__
        if is_fitted(self.prior):
            self.prior_ = as_given(self.prior)
        elif reads_no_labels(self.prior):
            rows = X if reference is None else with_number_types(reference, self._reference_types)
            self.prior_ = fit_prior(owner, self.prior, rows, None)
        elif self.trusted_part_ is None:
            wanted, remedy = "a fitted classifier where no labels are trusted", f"fit it, or use {TRUSTED_LABELS}."
            raise parameter_error(owner, "prior", wanted, self.prior, remedy)
        else:
            rows = self.trusted_part_.rows
            if self.n_reference_ is not None:
                rows = with_number_types(rows, self._reference_types)
            self.prior_ = fit_prior(owner, self.prior, rows, self.trusted_part_.labels)
            self.label_readers_ = (*self.label_readers_, "the prior")
        prior = Prior(self.prior_, float(self.prior_weight), self.classes_, owner)
        if reference is not None or self.n_rows_:
            prior.shares(rows_at(X if reference is None else reference, np.arange(1)))
        return prior

    def _assumptions_about_prior(self) -> list[Assumption]:
        """Return what is assumed about the prior, if there is one."""
        if self.prior_ is None:
            return []
        step = name_of(self.prior)
        found = [Assumption("prior-weight", {"step": step, "weight": float(self.prior_weight)})]
        if reads_no_labels(self.prior) and not is_fitted(self.prior):
            return [*found, *label_free_assumptions(self.prior, "prior"), *stated_assumptions(self.prior_)]
        if self.trusted_part_ is None or "the prior" not in self.label_readers_:
            where = {"path": "", "part": step, "data": "rows and labels"}
            return [*found, Assumption("fitted-elsewhere", {"role": "prior", "step": step, **where})]
        fitted = Assumption("fitted-on-trusted", {"role": "prior", "step": step, "n_trusted": len(self.trusted_part_)})
        return [*found, fitted, *assumptions_about(self.prior, "prior")]

    def forget_trusted_part(self) -> None:
        """Drop the trusted rows at the end of a fit; keep whether labels of training rows were read."""
        trusted = self.trusted_part_
        self.reads_trusted_rows_ = trusted is not None and trusted.numbers is not None and bool(self.label_readers_)
        self.trusted_part_ = None

    def refuse_to_forget(self, read: Integers) -> None:
        """Refuse to forget these rows, whose labels the geometry or the prior has read."""
        if len(read):
            raise ValueError(
                f"Row {read[0]} was trusted in the fit, and its label was read by {', '.join(self.label_readers_)}: to "
                "forget it, fit again without it."
            )

    def _n_shared(self) -> int:
        """Return how many training rows are also in the reference, as stated; counting them again takes longer."""
        return sum(one.values["n_shared"] for one in self.assumptions_ if one.code == "reference-shared")

    def state_shared_rows(self, n_shared: int) -> None:
        """Update the assumptions that depend on training rows; all others are those of the fit."""
        found: list[Assumption] = []
        for one in self.assumptions_:
            if one.code == "trusted-at-fit":
                n_trusted = self.n_trusted_at_fit()
                values = {**one.values, "n_trusted": n_trusted, "n_labels": self.n_labels_}
                found += [Assumption(one.code, values)] if n_trusted else []
            elif one.code != "reference-shared":
                found.append(one)
            if one.code in ("reference-fixed", "reference-labels-read"):
                found += shared_rows(n_shared, self.n_rows_)
        self.assumptions_ = tuple(found)


def warn_of_rows_in_reference(shared: Integers, n_gone: int) -> None:
    """Warn the caller of `forget` that some withdrawn rows, given by number, are also in the reference."""
    if len(shared):
        named = ", ".join(map(str, shared[:MOST_NAMED].tolist())) + ", ..." * (len(shared) > MOST_NAMED)
        warnings.warn(
            f"{len(shared)} of the {n_gone} withdrawn rows ({named}) have the same features as rows of the "
            "reference, from which the geometry was learned: to forget them completely, fit again with a reference "
            "that does not contain them.",
            ReferenceWarning,
            stacklevel=3,
        )
