"""What `flipproof.find_attacks` returns: facts about each attacked prediction, or a ranking of labels or annotators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flipproof.attacks import AnnotatorAudit, LabelAudit
from flipproof.origins import frame_of_table
from flipproof.readable import text_table
from flipproof.values import column_of

if TYPE_CHECKING:
    import pyarrow as pa

#: Largest number of lines that are printed; tables and files have all of them.
MOST_LINES = 20

#: Units of attacks on labels of which each can have several labels, in the singular.
HOLDERS = {"annotators": "annotator", "windows": "window"}


class FoundAttacks(ABC):
    """Result of :func:`flipproof.find_attacks`.

    It prints as sentences and a table. There are four kinds, by what was asked: changes of labels, or of rows, that
    overturn single predictions, which :attr:`predictions` lists as objects; and rankings of labels, or of annotators.

    Attributes
    ----------
    predictions : tuple
        Facts about each attacked prediction, in the order given: its ``id``, ``prediction`` and ``needed``, the number
        of changes that overturn it, or None if there is no attack. ``str`` of an entry about labels is a sentence.
        Empty for rankings.
    sentences : tuple of str
        What was found, in words.

    See Also
    --------
    flipproof.find_attacks : The labels or rows that would change predictions.

    Examples
    --------
    >>> import flipproof
    >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
    >>> found = flipproof.find_attacks((X, y), holdout=0.25, rows=[4, 5])
    >>> [one.needed for one in found.predictions]
    [8, 7]
    >>> found.to_frame().columns.tolist()
    ['id', 'prediction', 'order', 'train_id', 'old_label', 'new_label']
    """

    _frames: str | None = None

    @property
    def predictions(self) -> tuple[AttackedPrediction, ...]:
        """Facts about each attacked prediction."""
        return ()

    @property
    @abstractmethod
    def sentences(self) -> tuple[str, ...]:
        """What was found, in words."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return a table with one line per changed label or row, or per ranked label or annotator.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
        >>> found = flipproof.find_attacks((X, y), holdout=0.25, rows=[4])
        >>> found.to_arrow().num_rows
        8
        """

    @abstractmethod
    def facts(self) -> dict[str, object]:
        """Return what the table does not contain, in JSON types."""

    def to_frame(self) -> Any:
        """Return the table as a data frame.

        Returns
        -------
        data frame
            Of the same library as the test rows; for files and arrays, pandas, or pyarrow if pandas is missing.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i % 20)] for i in range(80)], [i % 20 >= 10 for i in range(80)]
        >>> found = flipproof.find_attacks((X, y), holdout=0.25, rows=[4])
        >>> found.to_frame().shape
        (8, 6)
        """
        return frame_of_table(self.to_arrow(), self._frames)

    def lines(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and all lines that are shown to people, as text."""
        return lines_of(self.to_arrow())

    def __repr__(self) -> str:
        header, lines = self.lines()
        parts = [*self.sentences]
        if lines:
            parts += ["", text_table(header, lines[:MOST_LINES])]
        if len(lines) > MOST_LINES:
            parts.append(f"... and {len(lines) - MOST_LINES:,} more: see .to_frame()")
        return "\n".join(parts)


@dataclass(frozen=True)
class AttackedPrediction:
    """One prediction, and the size of the attack on it.

    Attributes
    ----------
    id
        Name of the test row.
    prediction
        Its predicted class.
    needed : int or None
        Number of changes that overturn the prediction; None if no attack was found.
    """

    id: Any
    prediction: Any
    needed: int | None


@dataclass(frozen=True)
class LabelAttack(AttackedPrediction):
    """The smallest set of changed labels that overturns one prediction.

    Attributes
    ----------
    id, prediction, needed
        As for every attacked prediction; `needed` counts annotators or windows if `unit` says so.
    unit : {"labels", "annotators", "windows"}
        What `needed` counts.
    train_ids, old_labels, new_labels : tuple
        The changed labels, in the order of the attack.
    annotators : tuple, optional
        The annotator of each changed label, if annotators are counted.
    n_annotators : int, optional
        Number of all annotators, if they are counted.
    max_changes : int, optional
        Largest number of changes that was tried.
    """

    unit: str
    train_ids: tuple[Any, ...]
    old_labels: tuple[Any, ...]
    new_labels: tuple[Any, ...]
    annotators: tuple[Any, ...] | None = None
    n_annotators: int | None = None
    max_changes: int | None = None

    def __str__(self) -> str:
        predicted = f"Test row {self.id} is predicted as {self.prediction}."
        if self.needed is None:
            labels = "labels" if self.max_changes is None else f"at most {counted(self.max_changes, 'label')}"
            return f"{predicted} No change of {labels} overturns it."
        changed = counted(len(self.train_ids), "changed label")
        if self.annotators is not None:
            each = ", ".join(f"{name} ({n_labels:,})" for name, n_labels in self.who.items())
            return (
                f"{predicted} It takes {self.needed:,} of {self.n_annotators:,} annotators with {changed} to overturn "
                f"it. In the order of the attack, with their numbers of labels: {each}."
            )
        if self.unit in HOLDERS:
            return f"{predicted} It takes {counted(self.needed, HOLDERS[self.unit])} with {changed} to overturn it."
        return f"{predicted} It takes {counted(self.needed, 'changed label')} to overturn it."

    @property
    def who(self) -> dict[Any, int]:
        """Who takes part in the attack, in its order, and how many labels each changes."""
        return dict(Counter(self.annotators or ()))


@dataclass(frozen=True, repr=False, eq=False)
class LabelAttacks(FoundAttacks):
    """The smallest sets of changed labels that overturn single predictions.

    Attributes
    ----------
    attacks : tuple of LabelAttack
        One per prediction, in the order given.
    unit : {"labels", "annotators", "windows"}
        What attacks count.
    """

    attacks: tuple[LabelAttack, ...]
    unit: str
    _frames: str | None = None

    @property
    def predictions(self) -> tuple[LabelAttack, ...]:
        """Facts about each attacked prediction."""
        return self.attacks

    @property
    def sentences(self) -> tuple[str, ...]:
        """A sentence about each attacked prediction."""
        return tuple(map(str, self.attacks))

    def to_arrow(self) -> pa.Table:
        """Return a table with one line per changed label."""
        import pyarrow as pa

        columns: dict[str, list[Any]] = {"id": [], "prediction": [], "order": []}
        if any(one.annotators is not None for one in self.attacks):
            columns["annotator"] = []
        columns |= {"train_id": [], "old_label": [], "new_label": []}
        for one in self.attacks:
            n_changed = len(one.train_ids)
            columns["id"] += [one.id] * n_changed
            columns["prediction"] += [one.prediction] * n_changed
            columns["order"] += range(1, n_changed + 1)
            columns["train_id"] += one.train_ids
            columns["old_label"] += one.old_labels
            columns["new_label"] += one.new_labels
            if one.annotators is not None:
                columns["annotator"] += one.annotators
        return pa.table({name: column_of(one) for name, one in columns.items()})

    def facts(self) -> dict[str, object]:
        """Return what the table does not contain, in JSON types."""
        return {"sentences": list(self.sentences), "unit": self.unit}


@dataclass(frozen=True, repr=False, eq=False)
class LabelsToCheck(FoundAttacks):
    """The training labels that are part of the most attacks.

    Attributes
    ----------
    ranking : LabelAudit
        Training rows by number, with their numbers of attacks.
    train_ids, labels : sequence
        Names and labels of these rows.
    n_train : int
        Number of all training labels.
    """

    ranking: LabelAudit
    train_ids: Sequence[Any]
    labels: Sequence[Any]
    n_train: int
    _frames: str | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the ranking is about."""
        n_attacked = self.ranking.n_attacked
        if not len(self.ranking.rows):
            return (f"No change of labels can overturn any of the {n_attacked:,} most fragile predictions.",)
        return (
            f"Of {self.n_train:,} training labels, these are part of the most attacks on the {n_attacked:,} most "
            "fragile predictions. Once they are checked, attackers use others: `flipproof plan` measures what checking "
            "them buys, beside random labels and a model of the checked labels alone.",
        )

    def to_arrow(self) -> pa.Table:
        """Return a table with one line per training label."""
        import pyarrow as pa

        return pa.table(
            {
                "train_id": column_of(list(self.train_ids)),
                "label": column_of(list(self.labels)),
                "n_attacks": self.ranking.n_attacks,
                "weight": self.ranking.weight,
            }
        )

    def facts(self) -> dict[str, object]:
        """Return what the table does not contain, in JSON types."""
        return {"sentences": list(self.sentences), "n_attacked": self.ranking.n_attacked}


@dataclass(frozen=True, repr=False, eq=False)
class AnnotatorsToCheck(FoundAttacks):
    """The annotators who take part in the most attacks.

    Attributes
    ----------
    ranking : AnnotatorAudit
        The annotators, with their numbers of attacks and of labels.
    """

    ranking: AnnotatorAudit
    _frames: str | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the ranking is about."""
        n_attacked = self.ranking.n_attacked
        if not len(self.ranking):
            return (f"No annotators can overturn any of the {n_attacked:,} most fragile predictions.",)
        return (
            f"Check these annotators first: of {self.ranking.n_annotators:,}, they take part in the most attacks on "
            f"the {n_attacked:,} most fragile predictions.",
        )

    def to_arrow(self) -> pa.Table:
        """Return a table with one line per annotator."""
        import pyarrow as pa

        return pa.table(
            {
                "annotator": column_of(self.ranking.names.tolist()),
                "n_labels": self.ranking.n_labels,
                "n_attacks": self.ranking.n_attacks,
                "n_alone": self.ranking.n_alone,
            }
        )

    def facts(self) -> dict[str, object]:
        """Return what the table does not contain, in JSON types."""
        return {"sentences": list(self.sentences), "n_attacked": self.ranking.n_attacked}


@dataclass(frozen=True, eq=False)
class ChangedRow:
    """A training row to remove, or all copies of a row to add.

    Attributes
    ----------
    change : {"remove", "add"}
        What the attack does.
    label
        Label of the row.
    train_id
        Name of the training row to remove.
    copies : int
        How many equal rows are changed.
    copy_of : str, optional
        The existing row that a row to add is a copy of, if it is one.
    features : array of shape (k,), optional
        Features of the row to add, as input of the learner.
    source
        Source of the training row to remove, if sources are counted.
    """

    change: str
    label: Any
    train_id: Any = None
    copies: int = 1
    copy_of: str | None = None
    features: Any = None
    source: Any = None

    @property
    def is_new(self) -> bool:
        """Whether this is a row to add that is no copy of an existing row."""
        return self.change == "add" and self.copy_of is None


@dataclass(frozen=True, eq=False)
class RowAttack(AttackedPrediction):
    """The fewest changed rows that overturn one prediction.

    Attributes
    ----------
    id, prediction, needed
        As for every attacked prediction.
    radius : int
        Certified radius.
    unlimited : bool
        Whether no number of changes can overturn the prediction.
    removed, added : int
        Number of training rows to remove, and of rows to add.
    is_smallest : bool
        Whether no smaller attack exists.
    changes : tuple of ChangedRow
        The rows to remove, and the row to add.
    """

    radius: int
    unlimited: bool
    removed: int
    added: int
    is_smallest: bool
    changes: tuple[ChangedRow, ...]

    @property
    def who(self) -> dict[Any, int]:
        """Which sources take part in the attack, and how many rows of each are removed; empty if rows are counted."""
        return dict(Counter(one.source for one in self.changes if one.source is not None))

    def facts(self) -> dict[str, object]:
        """Return the facts in JSON types, without the rows."""
        names = ("id", "prediction", "radius", "unlimited", "needed", "removed", "added", "is_smallest")
        return {name: getattr(self, name) for name in names}

    @property
    def shown_needed(self) -> str:
        """The number of changes as text."""
        if self.unlimited:
            return "impossible"
        return "none found" if self.needed is None else f"{self.needed:,}"


@dataclass(frozen=True, repr=False, eq=False)
class RowAttacks(FoundAttacks):
    """The fewest training rows to add, remove or replace that overturn single predictions, confirmed by refits.

    Attributes
    ----------
    attacks : tuple of RowAttack
        One per prediction, in the order given, or the most fragile first.
    unit : {"rows", "sources"}
        What attacks count.
    changes : {"rows", "insertions", "removals"}
        What may be changed.
    n_confirmed : int
        Number of attacks that a refit confirmed.
    n_refits : int
        Number of refits.
    n_features : int
        Number of features of a row, as input of the learner.
    max_changes : int, optional
        Largest number of changes that was tried.
    """

    attacks: tuple[RowAttack, ...]
    unit: str
    changes: str
    n_confirmed: int
    n_refits: int
    n_features: int
    max_changes: int | None = None
    _frames: str | None = None

    @property
    def predictions(self) -> tuple[RowAttack, ...]:
        """Facts about each attacked prediction."""
        return self.attacks

    @property
    def sentences(self) -> tuple[str, ...]:
        """What the attacks found, and what the rows to add are."""
        n, needed = len(self.attacks), [one.needed for one in self.attacks if one.needed is not None]
        most = (
            "" if self.max_changes is None else f" with at most {self.max_changes:,} {self._changed(self.max_changes)}"
        )
        if not needed:
            return (f"No attack was found on {n:,} {'prediction' if n == 1 else 'predictions'}{most}.",)
        least, largest = min(needed), max(needed)
        numbers = f"{least:,}" if least == largest else f"{least:,} to {largest:,}"
        found = [
            f"Attacks{most} overturn {len(needed):,} of {n:,} predictions, each confirmed by a refit. It takes "
            f"{numbers} {self._changed(largest)}."
        ]
        if n == 1 and self.attacks[0].who:
            each = ", ".join(f"{name} ({n_rows:,})" for name, n_rows in self.attacks[0].who.items())
            found.append(f"In the order of the attack, with their numbers of rows: {each}.")
        n_unclear = sum(one.needed is not None and not one.is_smallest for one in self.attacks)
        if n_unclear:
            found.append(f"For {n_unclear:,} of them, it is not known whether fewer changes are enough.")
        if any(change.is_new for one in self.attacks for change in one.changes):
            found.append(
                "Some rows to add are not copies of existing rows. They are vectors of encoded features: there may be "
                "no row of a file that is encoded like this."
            )
        return tuple(found)

    def _changed(self, number: int) -> str:
        return f"changed {self.unit[:-1] if number == 1 else self.unit}"

    def to_arrow(self) -> pa.Table:
        """Return a table with one line per row to remove, and one for all copies of a row to add."""
        import pyarrow as pa

        each = [(one, change) for one in self.attacks for change in one.changes]
        columns: dict[str, list[Any]] = {
            "id": [one.id for one, _ in each],
            "prediction": [one.prediction for one, _ in each],
        }
        names = ("change", "train_id", "label", "copies", "copy_of")
        for name in names if self.unit != "sources" else (*names[:2], "source", *names[2:]):
            columns[name] = [getattr(change, name) for _, change in each]
        table = {name: column_of(column) for name, column in columns.items()}
        features = [change.features for _, change in each]
        for number in range(self.n_features if any(one is not None for one in features) else 0):
            values = [None if one is None else float(np.asarray(one)[number]) for one in features]
            table[f"feature_{number}"] = pa.array(values, pa.float64())
        return pa.table(table)

    def lines(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and one line per prediction, as text."""
        header = ["id", "prediction", "certified", "needed", "removed", "added", "is smallest"]
        return header, [
            [
                *(str(one.id), str(one.prediction), "unlimited" if one.unlimited else f"{one.radius:,}"),
                *(one.shown_needed, f"{one.removed:,}", f"{one.added:,}", "yes" if one.is_smallest else "not known"),
            ]
            for one in self.attacks
        ]

    def facts(self) -> dict[str, object]:
        """Return what the table does not contain, in JSON types."""
        return {
            "sentences": list(self.sentences),
            "unit": self.unit,
            "changes": self.changes,
            "n_confirmed": self.n_confirmed,
            "n_refits": self.n_refits,
            "predictions": [one.facts() for one in self.attacks],
        }


def counted(number: int, noun: str) -> str:
    """Return a number with a noun in the singular or plural."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def lines_of(table: pa.Table) -> tuple[list[str], list[list[str]]]:
    """Return the header and the lines of a table as text."""
    lines = [
        [f"{value:.3g}" if isinstance(value, float) else str(value) for value in line.values()]
        for line in table.to_pylist()
    ]
    return [name.replace("_", " ") for name in table.column_names], lines
