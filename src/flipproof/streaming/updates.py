"""Rows in blocks that join or leave after the fit, given a reference: to the last bit as if by a new fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flipproof.core.rounding import Integers
from flipproof.learners.in_memory import NeedsReference, all_or_nothing, rows_to_forget
from flipproof.learners.ridge import LabelSums
from flipproof.learners.trusted_part import warn_of_rows_in_reference
from flipproof.streaming.known_rows import Departed, Departure, KnownRows
from flipproof.streaming.row_blocks import RowBlocks
from flipproof.streaming.rows_in_blocks import RowsInBlocks
from flipproof.values import encode_labels


class UpdatedRows(RowsInBlocks):
    """A learner over rows in blocks, with a reference, whose training rows may join and leave.

    Soundness: given a reference, a model depends on its training rows through sums of integers over them (M12). So sums
    to which new rows are added, or from which rows are removed, are those of a fit to the rows that then vote.
    """

    @NeedsReference
    def partial_fit(self, X: object, y: object = None, *, trusted: object = None, groups: object = None) -> UpdatedRows:
        """Let more rows vote, as if they had been given to `fit`, after the others; to the last bit.

        Needs a fit with ``reference=...``. Only the new rows are visited, twice. The classes of the labels must be
        among `classes_`.

        Parameters
        ----------
        X : rows
            More training rows, in any form that `fit` takes, with the columns of the reference.
        y : labels
            Their labels, as for `fit`.
        trusted : like `y`, optional
            As for `fit`. If it is not given, none of these rows is trusted. A prior that has read labels of training
            rows cannot read more.
        groups : like `y`, optional
            As for `fit`: given for all rows, or for none.

        Returns
        -------
        self

        See Also
        --------
        forget : Remove rows from the vote.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from flipproof.streaming import StreamingRidgeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = StreamingRidgeClassifier(classes=range(10)).fit(X[200:800], y[200:800], reference=X[:200])
        >>> model.partial_fit([(X[800:1000], y[800:1000]), (X[1000:1200], y[1000:1200])]).n_rows_
        1000
        """
        rows = self._as_rows(X, y, trusted, groups)
        if rows.has_groups != self._known.rows.has_groups:
            had, have = ("groups", "none") if self._known.rows.has_groups else ("no groups", "some")
            raise ValueError(
                f"The rows of the fit have {had}, but these rows have {have}: give groups for all, or for none."
            )
        with all_or_nothing(self):
            self._let_join(rows)
        return self

    @NeedsReference
    def forget(self, rows: object) -> UpdatedRows:
        """Remove rows from the vote, as if they had never been given to `fit`; to the last bit.

        Needs a fit with ``reference=...``. Only the parts that contain these rows are visited: files, blocks or
        partitions. The rows stay where they are, and are skipped on every later visit. What was learned from the
        reference is kept: if a withdrawn row is also in the reference, a `ReferenceWarning` says so. At least one row
        must remain.

        Parameters
        ----------
        rows : integers, or booleans of shape (n,)
            Numbers of the training rows to withdraw, in the order of `fit` and `partial_fit`, or a mask. Rows behind
            them then move up.

        Returns
        -------
        self

        See Also
        --------
        partial_fit : Let more rows vote.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from flipproof.streaming import StreamingRidgeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = StreamingRidgeClassifier(classes=range(10)).fit(X[200:800], y[200:800], reference=X[:200])
        >>> model.forget([0, 17, 599]).n_rows_
        597
        """
        gone = rows_to_forget(rows, self.n_rows_)
        if len(gone):
            with all_or_nothing(self):
                shared = self._let_leave(gone)
            warn_of_rows_in_reference(shared, len(gone))
        return self

    def _let_join(self, rows: RowBlocks) -> None:
        self._begin(self._known.rows.followed_by(rows))
        visited = self._survey(rows)
        if visited.found is None:
            return
        more = KnownRows.of(rows, visited.seen, self._known.n_numbers)
        self._refuse_columns_unlike_the_reference(visited.found, rows.feature_names)
        encode_labels(visited.found.labels, self.classes_)  # raises if there are others
        self.n_rows_ += more.n_rows
        kept = None if self._kept is None else self._kept_basis(more.rows)
        sums = self._labelled_sums(more, kept)
        if self.reads_trusted_rows_ and sums.census.trusted is not None and sums.census.trusted.any():
            raise ValueError(
                f"{', '.join(self.label_readers_)} read the labels that were trusted in the fit, so no row that joins "
                "can be trusted: fit again to all rows, or leave out trusted=..."
            )
        self._kept = None if self._kept is None or kept is None else self._kept.followed_by(kept)
        self._known, self._sums = self._known.and_more(more), self._sums + sums
        self._count_again(self._n_in_reference + visited.found.n_in_reference)

    def _let_leave(self, gone: Integers) -> Integers:
        """Remove rows, given by ascending numbers; return the numbers of those that are also in the reference."""
        if len(gone) == self.n_rows_:
            raise ValueError("At least one training row is needed, so not all can be forgotten: fit to other rows.")
        self._begin()
        assert self._reference_hashes is not None
        places = self._known.places_of(gone)
        visit = Departure(self._labels_summary, self._mapping, self._reference_hashes)
        found: Departed = self._engine.total(visit, self._known.departing(places), "Removing rows")
        self._known.check(found.before, list(places))
        if self.reads_trusted_rows_:
            self.refuse_to_forget(gone[found.is_trusted])
        assert found.old is not None
        self._known = self._known.without(places, found.after)
        self.n_rows_ = self._known.n_rows
        self._kept = self._kept_without(list(places))
        self._sums = self._sums.without(found.old, found.new)
        self._count_again(self._n_in_reference - int(np.count_nonzero(found.is_shared)))
        return np.asarray(gone[found.is_shared])

    def _kept_without(self, places: list[int]) -> RowBlocks | None:
        """Return the basis that workers keep, with these parts as they are now; None if it is not kept."""
        if self._kept is None:
            return None
        parts = list(self._kept.parts)
        again = self._kept_basis(replace(self._known.rows, parts=tuple(self._known.rows.parts[one] for one in places)))
        if again is None:
            return None
        for place, part in zip(places, again.parts, strict=True):
            parts[place] = part
        return replace(self._kept, parts=tuple(parts))

    def _count_again(self, n_in_reference: int) -> None:
        """Compute again what follows from sums over the training rows."""
        self.n_rows_ = self.n_labels_ = self._known.n_rows
        self._rule = self._rule.with_labels(LabelSums(self._sums.class_sums, self._sums.census.counts))
        self._n_in_reference = n_in_reference
        self.state_shared_rows(n_in_reference)
