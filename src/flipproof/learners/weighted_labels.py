"""Labels that vote with weights, and several labels per row: annotations, each a vote or majority first (M15)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from flipproof.adversary import Adversary, powers_of, refuse_windows
from flipproof.annotations import Annotations
from flipproof.assumptions import Assumption
from flipproof.core.ballots import Ballots, relative
from flipproof.core.majority import ItemVotes, majority_powers
from flipproof.core.powers import Powers
from flipproof.core.rounding import Floats, Integers
from flipproof.learners.in_memory import LabelsInMemory
from flipproof.values import encode_labels


class WeightedLabels(LabelsInMemory):
    """A certified classifier that holds labels with weights, or several labels per row."""

    _ballots: Ballots | None = None  # of labels with weights, or of several labels per row
    _votes_are = ""
    _majority: ItemVotes | None = None  # annotations whose majorities vote

    def _one_label_per_item(
        self, X: Any, annotations: Annotations, sample_weight: object, unlabeled: object, trusted: object
    ) -> NDArray[Any]:
        """Return placeholders with the class set of all annotations, one per item; refuse what does not fit them."""
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if n_rows != annotations.n_items:
            raise ValueError(f"Annotations of {annotations.n_items} items need as many rows in X. Got {n_rows} rows.")
        for name, given in (("sample_weight", sample_weight), ("unlabeled", unlabeled), ("trusted", trusted)):
            if given is not None:
                raise ValueError(
                    f"fit(X, annotations) cannot be combined with {name}=...: annotations have their own weights, and "
                    "Adversary(trusted=...) has an entry per annotation."
                )
        if getattr(self, "regularization", None) == "paper":
            raise ValueError("regularization='paper' reads one label per row: use another value with Annotations.")
        classes, _ = encode_labels(annotations.label, self.classes)
        if len(classes) > n_rows and self.classes is None:
            raise ValueError("There are fewer items than classes: give classes=... to the learner.")
        return np.asarray(classes[np.arange(n_rows) % len(classes)])

    def _keep_annotations(self, annotations: Annotations) -> None:
        """Let annotations vote instead of rows; rows are items."""
        _, codes = encode_labels(annotations.label, self.classes_)
        n_items, names = self.n_rows_, self.row_names_
        self._keep_labels(codes, np.ones(len(codes), dtype=bool), np.zeros(len(codes), dtype=bool))
        self.n_rows_ = n_items
        self._votes_are = "Annotations"
        if annotations.aggregate == "majority":
            self._let_majorities_vote(ItemVotes(annotations.item.copy(), codes.copy(), n_items, len(self.classes_)))
            return
        self._ballots = Ballots(n_items, annotations.item.copy(), relative(annotations.weight))
        items = annotations.item if names is None else names[annotations.item]
        who = annotations.annotator
        self.row_names_ = np.array([f"{item} by {name}" for item, name in zip(items, who, strict=True)], dtype=object)

    def _let_majorities_vote(self, votes: ItemVotes) -> None:
        """Let the items vote that have a majority; radii count annotations, of which all are kept."""
        decided = np.flatnonzero(votes.states < len(self.classes_))
        self.row_names_ = None if self.row_names_ is None else self.row_names_[decided]
        n_items, n_labels = self.n_rows_, self.n_labels_
        self._keep_labels(
            votes.states[decided].astype(np.int64),
            np.ones(len(decided), dtype=bool),
            np.zeros(len(decided), dtype=bool),
        )
        self.n_rows_, self.n_labels_ = n_items, n_labels
        self._majority, self._ballots = votes, Ballots(n_items, decided, None)

    @property
    def rows_of_labels(self) -> Integers | None:
        """The row of each label; None if each row has one label."""
        return None if self._ballots is None else self._ballots.row

    @property
    def given_codes_(self) -> Integers:
        """All labels that were given to the fit, as positions in `classes_`; annotations if their majorities vote."""
        return self.label_codes_ if self._majority is None else self._majority.codes

    @property
    def majority_first(self) -> bool:
        """Whether items vote, each for the majority of its annotations."""
        return self._majority is not None

    def powers(self, adversary: Adversary | None) -> Powers:
        """Return what an adversary can do to the rows of this fit; by default, change any label to any class.

        If majorities vote, these are powers over the annotations, not over the labels of items.
        """
        if self._majority is None:
            return super().powers(adversary)
        self.refuse_unless_frozen(adversary)
        refuse_windows(adversary, "A model of majorities, Annotations(..., aggregate='majority'),")
        codes = self._majority.codes
        found = powers_of(adversary, codes, self.classes_, np.ones(len(codes), dtype=bool))
        return majority_powers(found, self._majority)

    def _weigh_labels(self, X: Floats, sample_weight: object) -> None:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weights.any():
            raise ValueError("sample_weight must not be 0 for all rows: no label would vote.")
        found = relative(weights)
        if found is not None:
            self._ballots, self._votes_are = Ballots(self.n_rows_, None, found), "sample_weight"

    def _n_unlabelled(self) -> int:
        if self._ballots is None or self._ballots.row is None:
            return super()._n_unlabelled()
        row = self._ballots.row if self._majority is None else self._majority.item
        return self.n_rows_ - len(np.unique(row))

    def _ballot_assumptions(self) -> list[Assumption]:
        if self._ballots is None:
            return []
        if self._ballots.row is None:
            return [Assumption("sample-weights")]
        if self._majority is not None:
            n_labelled = len(np.unique(self._majority.item))
            n_tied = n_labelled - len(self._ballots)
            values = {"n_labels": self.n_labels_, "n_labelled": n_labelled, "n_tied": n_tied}
            return [Assumption("majority-first", values)]
        n_labelled = len(np.unique(self._ballots.row))
        return [Assumption("annotations", {"n_labels": self.n_labels_, "n_labelled": n_labelled})]

    @property
    def covers_rows(self) -> bool:
        """Whether this fit can be certified against changed rows; not with weights or several labels per row."""
        return super().covers_rows and self._ballots is None

    def _refuse_ballots(self, what: str) -> None:
        if self._ballots is not None:
            raise ValueError(
                f"{what} cannot be combined with {self._votes_are}: fit with one label of weight 1 per row."
            )
