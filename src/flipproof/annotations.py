"""Annotations: several labels per item, by several annotators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.core.rounding import Floats, Integers, Values
from flipproof.parameters import check_arguments, one_of
from flipproof.values import as_names, as_values, distinct, label_values, positions

#: What an annotation weighs: 1 / (annotations of its item), or 1.
WEIGHTS = ("item", "annotation")

#: What to do if one annotator labelled an item more than once.
REPEATED = ("error", "keep", "last")

#: What votes: every annotation, or the majority label of each item.
AGGREGATES = ("votes", "majority")

#: A column of more values than this that all differ has no labels: it names the items, or is a feature.
MOST_DIFFERENT = 10

CONSTRAINTS = {"weights": one_of(*WEIGHTS), "repeated": one_of(*REPEATED), "aggregate": one_of(*AGGREGATES)}


@dataclass(frozen=True, eq=False, repr=False)
class Annotations:
    """Several labels per item, as ``y`` of ``fit(X, y)``: X has a row per item, and each annotation is a vote.

    Features are not repeated. The geometry is that of the items; an annotation has the vote of its item times its
    weight. With ``aggregate="majority"``, each item votes once, for the label that most of its annotations name; tied
    items do not vote. Radii count annotations, or annotators with ``Adversary(groups=annotations.annotator)``; masks
    and groups of an adversary have an entry per annotation. Make one by :meth:`from_long` or :meth:`from_wide`.

    Attributes
    ----------
    item : integers of shape (n,)
        Row of X of each annotation.
    label : array of shape (n,)
        The labels.
    annotator : array of shape (n,)
        Who gave each label.
    weight : floats of shape (n,)
        Weight of each annotation.
    n_items : int
        Number of items, with or without annotations.
    aggregate : {"votes", "majority"}
        Whether each annotation votes, or the majority of each item.

    See Also
    --------
    flipproof.Adversary : What an attacker can change.
    flipproof.attacks.annotators_to_check : Rank annotators.

    Examples
    --------
    >>> from flipproof import Adversary, Annotations, CertifiedNeighborsClassifier
    >>> X = [[0.0], [0.1], [0.2], [5.0], [5.1]]
    >>> who = ["ann", "bob", "eve", "ann", "bob", "eve", "ann", "bob", "bob"]
    >>> votes = Annotations.from_long([0, 0, 0, 1, 1, 1, 2, 3, 4], who, list("aaaaababb"), items=5)
    >>> votes
    <Annotations: 9 labels of 5 items by 3 annotators>
    >>> model = CertifiedNeighborsClassifier(n_neighbors=3, classes=["a", "b"]).fit(X, votes)
    >>> model.certify([[0.1]]).radius, model.certify([[0.1]], adversary=Adversary(groups=votes.annotator)).radius
    (array([1]), array([0]))
    """

    item: Integers
    label: NDArray[Any]
    annotator: NDArray[Any]
    weight: Floats
    n_items: int
    aggregate: str = "votes"

    def __post_init__(self) -> None:
        for array in (self.item, self.label, self.annotator, self.weight):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.item)

    def __repr__(self) -> str:
        without = self.n_items - len(np.unique(self.item))
        unlabelled = f", {without:,} items without labels" if without else ""
        people = len(distinct(self.annotator)[0])
        first = ", majority first" if self.aggregate == "majority" else ""
        counted = f"{len(self):,} labels of {self.n_items:,} items by {people:,} annotators"
        return f"<Annotations: {counted}{unlabelled}{first}>"

    @classmethod
    def from_long(
        cls,
        item: object,
        annotator: object,
        label: object,
        *,
        items: object,
        weights: str = "item",
        repeated: str = "error",
        aggregate: str = "votes",
    ) -> Annotations:
        """Make annotations from three columns with a line per annotation.

        Parameters
        ----------
        item, annotator, label : arrays of shape (n,)
            The item that was labelled, who labelled it, and the label.
        items : array of shape (n_items,), or int
            The items in the order of the rows of X; an int if items are row numbers. Items without annotations stay in
            the geometry and do not vote.
        weights : {"item", "annotation"}, default="item"
            ``"item"``: the annotations of an item share one vote, 1 / (annotations of the item) each.
            ``"annotation"``: each is a full vote.
        repeated : {"error", "keep", "last"}, default="error"
            What to do if one annotator labelled an item more than once: refuse, keep all of these labels as separate
            annotations, or keep the last.
        aggregate : {"votes", "majority"}, default="votes"
            ``"votes"``: each annotation votes. ``"majority"``: each item votes once, for the label that more of its
            annotations name than any other; tied items stay in the geometry and do not vote. `weights` then have no
            effect.

        Returns
        -------
        Annotations

        Examples
        --------
        >>> from flipproof import Annotations
        >>> Annotations.from_long(["a", "a", "b"], ["ann", "bob", "ann"], [0, 1, 1], items=["a", "b"])
        <Annotations: 3 labels of 2 items by 2 annotators>
        """
        check_arguments("Annotations.from_long", CONSTRAINTS, weights=weights, repeated=repeated, aggregate=aggregate)
        given = as_names(item, "item", "name the item of each annotation.")
        who = as_names(annotator, "annotator")
        labels = np.asarray(label_values(label))
        if not given.shape == who.shape == labels.shape:
            raise ValueError(
                "item, annotator and label must have one entry per annotation. Got "
                f"{len(given)}, {len(who)} and {len(labels)} instead."
            )
        if not len(given):
            raise ValueError("There are no annotations: give at least one.")
        row, n_items = _rows_of(given, items)
        kept = _without_repeats(given, row, who, repeated)
        row, who, labels = row[kept], who[kept], labels[kept]
        each = np.bincount(row, minlength=n_items)
        weight = 1.0 / each[row] if weights == "item" else np.ones(len(row))
        return cls(row, labels, who, weight, n_items, aggregate)

    @classmethod
    def from_wide(cls, table: object, *, weights: str = "item", aggregate: str = "votes") -> Annotations:
        """Make annotations from a table with a row per item and a column per annotator; blanks are no annotations.

        Parameters
        ----------
        table : array or data frame of shape (n_items, annotators)
            The labels, without columns that name the items. None, NaN and empty strings are blanks. Names of columns
            are names of annotators.
        weights : {"item", "annotation"}, default="item"
            As for :meth:`from_long`.
        aggregate : {"votes", "majority"}, default="votes"
            As for :meth:`from_long`.

        Returns
        -------
        Annotations

        Examples
        --------
        >>> from flipproof import Annotations
        >>> Annotations.from_wide([["cat", "cat", None], ["dog", "cat", "dog"]])
        <Annotations: 5 labels of 2 items by 3 annotators>
        """
        names = list(table.columns) if hasattr(table, "columns") else None
        if hasattr(table, "column_names"):  # pyarrow
            names = list(table.column_names)
        cells = np.array([_plain_column(table, name) for name in names], dtype=object).T if names else _cells(table)
        if cells.ndim != 2:
            raise ValueError(f"A table of labels must have two dimensions. Got shape {cells.shape} instead.")
        _refuse_names(cells, list(range(cells.shape[1])) if names is None else names)
        row, column = np.nonzero(~_blank(cells))
        who = np.asarray([str(name) for name in names])[column] if names else column
        labels = cells[row, column].tolist()
        return cls.from_long(row, who, labels, items=len(cells), weights=weights, aggregate=aggregate)

    def of_items(self, items: Any) -> Annotations:
        """Return the annotations of some items, given by row numbers or a mask, which become rows 0, 1, ...

        Parameters
        ----------
        items : integers, slice or mask
            Rows of X.

        Returns
        -------
        Annotations
            Those of these items.

        Examples
        --------
        >>> from flipproof import Annotations
        >>> votes = Annotations.from_wide([["cat", "cat", None], ["dog", "cat", "dog"]])
        >>> votes.of_items([1])
        <Annotations: 3 labels of 1 items by 3 annotators>
        """
        chosen = np.arange(self.n_items)[items]
        place = np.full(self.n_items, -1)
        place[chosen] = np.arange(len(chosen))
        kept = place[self.item] >= 0
        rows, who = place[self.item[kept]], self.annotator[kept]
        return Annotations(rows, self.label[kept], who, self.weight[kept], len(chosen), self.aggregate)

    def majority(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the most frequent label of each item, and True for items without one: tied, or without annotations.

        The label of such an item is a placeholder.

        Returns
        -------
        tuple of two arrays of shape (n_items,)
            The labels, and a mask of the items without a majority.

        Examples
        --------
        >>> from flipproof import Annotations
        >>> votes = Annotations.from_wide([["cat", "cat", None], ["dog", "cat", "dog"], ["cat", None, "dog"]])
        >>> label, is_undecided = votes.majority()
        >>> label[~is_undecided].tolist(), is_undecided.tolist()
        (['cat', 'dog'], [False, False, True])
        """
        classes, codes = distinct(as_values(self.label, "label"))
        counts = np.zeros((self.n_items, len(classes)), dtype=np.int64)
        np.add.at(counts, (self.item, codes), 1)
        undecided = np.count_nonzero(counts == counts.max(axis=1, keepdims=True), axis=1) > 1
        return classes[counts.argmax(axis=1)], undecided | (counts.max(axis=1) == 0)


class RepeatedLabelsError(ValueError):
    """An annotator labelled an item more than once.

    Attributes
    ----------
    found : str
        How many annotations are repeated, and an example, as a sentence.
    """

    def __init__(self, n_repeated: int, n_labels: int, annotator: object, item: object) -> None:
        self.found = (
            f"{n_repeated} of {n_labels} annotations are repeated: {annotator!r} labelled the item {item!r} again, for "
            "example."
        )
        super().__init__(f"{self.found} Give repeated='last' or repeated='keep'.")


def _rows_of(given: Values, items: object) -> tuple[Integers, int]:
    """Return the row of X of each annotation, and the number of rows."""
    if isinstance(items, (int, np.integer)) and not isinstance(items, bool):
        if given.dtype.kind not in "iu" or (len(given) and not (given.min() >= 0 and given.max() < items)):
            raise ValueError(
                f"item must be row numbers from 0 to {items - 1}; for other names, give those of all items as items."
            )
        return given.astype(np.int64), int(items)
    known = as_names(items, "items", "name each item.")
    rising, order = distinct(known)
    if len(rising) < len(known):
        twice = known[np.flatnonzero(np.bincount(order)[order] > 1)[0]]
        raise ValueError(f"items must be different. Got {twice.item()!r} more than once.")
    place, is_known = positions(rising, given)
    if not is_known.all():
        unknown = given[~is_known]
        raise ValueError(
            f"{len(unknown)} of {len(given)} annotations are of unknown items, the first of {unknown[0].item()!r}: "
            "leave them out, or add the items to the table."
        )
    row_of_rising = np.argsort(order)
    return row_of_rising[place].astype(np.int64), len(known)


def _without_repeats(given: Values, row: Integers, who: Values, repeated: str) -> Integers:
    """Return the annotations to keep if annotators labelled items more than once."""
    if repeated == "keep" or not len(row):
        return np.arange(len(row))
    people, person = distinct(who)
    pair = row * len(people) + person
    _, last = np.unique(pair[::-1], return_index=True)
    kept = np.sort(len(pair) - 1 - last)
    if len(kept) < len(pair) and repeated == "error":
        again = np.setdiff1d(np.arange(len(pair)), kept)
        raise RepeatedLabelsError(len(again), len(pair), who[again[0]].item(), given[again[0]].item())
    return kept


def _cells(table: object) -> NDArray[Any]:
    if isinstance(table, np.ma.MaskedArray):
        cells = np.array(table.data, dtype=object)
        cells[np.ma.getmaskarray(table)] = None
        return cells
    return np.array(table, dtype=object)


def _refuse_names(cells: Values, names: list[Any]) -> None:
    """Refuse columns such as names of items or features: all of their values differ, and there are more than a few."""
    for place, name in enumerate(names):
        values = [str(one) for one in cells[:, place] if one is not None]
        if len(values) == len(cells) > MOST_DIFFERENT and len(set(values)) == len(values):
            raise ValueError(
                f"Column {name!r} has {len(values)} different values in {len(values)} rows: these cannot be labels. "
                "Pass only the columns of annotators."
            )


def _plain_column(table: Any, name: Any) -> list[Any]:
    column = table[name]
    if hasattr(column, "to_pylist"):
        return list(column.to_pylist())
    return list(column.tolist() if hasattr(column, "tolist") else column)


def _blank(cells: Values) -> NDArray[np.bool_]:
    def is_blank(one: object) -> bool:
        if one is None or type(one).__name__ in ("NAType", "NaTType"):
            return True
        return not one.strip() if isinstance(one, str) else bool(one != one)

    return np.array([[is_blank(one) for one in line] for line in cells], dtype=bool).reshape(cells.shape)
