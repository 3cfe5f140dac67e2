"""Several labels per item: a file of annotations, or a column per annotator, joined to the table of items."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flipproof.annotations import AGGREGATES, Annotations, RepeatedLabelsError
from flipproof.errors import InputError, Parameter, nearest
from flipproof.timestamps import as_stamps
from flipproof.values import column_of

if TYPE_CHECKING:
    import pyarrow as pa

    from flipproof.fitting.choices import DataChoice
    from flipproof.tables.roles import Roles, Rows

#: What radii count.
COUNTED = ("annotators", "annotations")


@dataclass(frozen=True)
class CrowdChoice:
    """Where the annotations of the items are, and what they are used for.

    Attributes
    ----------
    labels
        Path or data frame with a line per annotation; None if each annotator has a column of the training table.
    item, label : str
        Columns of `labels`: the item, as in the column of ids of the training table, and the label.
    annotator, trusted, window : str, optional
        More columns of `labels`: who gave the label, whether it cannot be changed, and when it was given.
    annotators : tuple of str
        Columns of the training table with the labels of one annotator each, or patterns of their names; blanks are no
        annotations.
    aggregate : {"votes", "majority"}
        What votes: each annotation, or the majority of each item.
    count : {"annotators", "annotations"}
        What radii count.
    """

    labels: Any
    item: str | None
    label: str
    annotator: str | None
    trusted: str | None
    window: str | None
    annotators: tuple[str, ...]
    aggregate: str
    count: str


def crowd_choice(
    labels: object, item: str | None, annotators: Any, aggregate: str | None, count: str | None, roles: Roles | None
) -> tuple[CrowdChoice | None, Roles | None]:
    """Return the choice of annotations, if there are any, and the roles of the columns of the table of items."""
    names = (annotators,) if isinstance(annotators, str) else tuple(annotators)
    if labels is None and not names:
        for name, value in (("item", item), ("aggregate", aggregate), ("count", count)):
            if value is not None:
                raise InputError(
                    Parameter(name), " requires ", Parameter("labels"), " or ", Parameter("annotators"), "."
                )
        return None, roles
    if labels is not None and names:
        raise InputError("give either ", Parameter("labels"), " or ", Parameter("annotators"), ".")
    if roles is None:
        raise InputError(
            Parameter("train"), ": it must be a file or a data frame of items, or a pair (X, Annotations)."
        )
    for name, given, known in (("aggregate", aggregate, AGGREGATES), ("count", count, COUNTED)):
        if given is not None and given not in known:
            raise InputError(
                Parameter(name), f": {given!r} must be one of {', '.join(known)}.{nearest(str(given), known)}"
            )
    if labels is not None and item is None:
        raise InputError(
            Parameter("labels"), " requires ", Parameter("item"), ": the column that names the item of each label."
        )
    if names and (item or roles.annotator or roles.trusted or roles.window):
        wrong = next(one for one in ("item", "annotator", "trusted", "window") if item or getattr(roles, one, None))
        raise InputError(
            Parameter(wrong), " names a column of ", Parameter("labels"), "; ", Parameter("annotators"), " has none."
        )
    are_named = bool(names or roles.annotator)
    if count == "annotators" and not are_named:
        raise InputError(Parameter("count", "annotators"), " requires ", Parameter("annotator"), ".")
    counted = count or ("annotators" if are_named and not roles.window else "annotations")
    choice = CrowdChoice(
        labels,
        item,
        roles.label,
        roles.annotator,
        roles.trusted,
        roles.window,
        names,
        aggregate or "votes",
        counted,
    )
    of_items = replace(roles, annotator=None, trusted=None, window=None, id=roles.id or item)
    return choice, replace(of_items, drop=(*of_items.drop, *names))


@dataclass(frozen=True)
class HeldOut:
    """Which items are trained on and which are tested.

    Attributes
    ----------
    train, test : integers
        Numbers of the items.
    n_unclear : int
        How many items were drawn for the test, but are left out because their majority is not clear.
    """

    train: NDArray[np.int64]
    test: NDArray[np.int64]
    n_unclear: int = 0


@dataclass(frozen=True)
class Crowd:
    """The annotations of the training items.

    Attributes
    ----------
    annotations : Annotations
        The annotations; items are rows of the training table.
    limits : mapping
        Arguments of an Adversary, with an entry per annotation: groups, trusted, window.
    truth : pyarrow column, optional
        A label of each item that is not an annotation: that of items that are held out.
    judges_itself : bool
        Whether the truth of items that were held out is the majority of their annotations.
    n_unclear : int
        How many items that were held out are left out because their majority is not clear.
    """

    annotations: Annotations
    limits: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    truth: pa.ChunkedArray | None = None
    judges_itself: bool = False
    n_unclear: int = 0

    def without_held_out(self, drawn: HeldOut) -> Crowd:
        """Return the annotations of the items that were not held out."""
        return replace(self.of_items(drawn.train), judges_itself=self.truth is None, n_unclear=drawn.n_unclear)

    def of_items(self, kept: NDArray[np.int64]) -> Crowd:
        """Return the annotations of some items."""
        chosen = self.numbers_of(kept)
        return Crowd(self.annotations.of_items(kept), {name: one[chosen] for name, one in self.limits.items()})

    def numbers_of(self, kept: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the annotations of some items."""
        return np.flatnonzero(np.isin(self.annotations.item, kept))

    def held_out(self, share: float, seed: int) -> HeldOut:
        """Draw training and test items.

        Without a true label, only items with annotations are drawn. Of these, an item whose majority is not clear is
        neither trained on nor tested.

        Soundness: which items are trained on does not depend on any label. If a tie kept an item in the training set,
        a changed annotation would change the geometry, which no certificate covers.
        """
        n_items = self.annotations.n_items
        order = np.random.default_rng(seed).permutation(n_items)
        if self.truth is None:
            order = order[np.isin(order, self.annotations.item)]
        n_test = round(share * n_items)
        chosen = drawn = np.sort(order[:n_test])
        kept = np.setdiff1d(np.arange(n_items), drawn)
        if self.truth is None:
            chosen = drawn[~self.annotations.majority()[1][drawn]]
        if not len(chosen) or not len(self.numbers_of(kept)):
            raise InputError(
                Parameter("holdout"),
                f": {share:g} of {n_items} items leaves no training labels or no test items whose label is known or "
                "whose majority is clear.",
            )
        return HeldOut(kept, chosen, len(drawn) - len(chosen))

    def as_rows(self, items: Rows) -> Rows:
        """Return a row per annotation, for names and contents of attacked labels."""
        from flipproof.tables.roles import Rows

        place, who = self.annotations.item, self.annotations.annotator
        ids = [f"{items.ids[row]} by {name}" for row, name in zip(place.tolist(), who.tolist(), strict=True)]
        features = items.features.take(place) if hasattr(items.features, "take") else items.features[place]
        shown = None if items.shown is None else items.shown.take(place)
        if isinstance(items.features, np.ndarray):
            features = items.features[place]
        return Rows(features, self.annotations.label, ids, shown=shown)


def with_crowd(
    table: pa.Table, data: DataChoice, choice: CrowdChoice, roles: Roles, source: str
) -> tuple[pa.Table, Crowd]:
    """Join annotations to the table of items, whose label becomes the majority of its annotations.

    Items without annotations, or tied, get a placeholder, which is never used: the annotations are fitted.
    """
    crowd = _wide(table, choice, source) if choice.labels is None else _long(table, data, choice, roles, source)
    labels, _ = crowd.annotations.majority()
    column = column_of(labels.tolist())
    if roles.label not in table.column_names:
        return table.append_column(roles.label, column), crowd
    place = table.column_names.index(roles.label)
    return table.set_column(place, roles.label, column), replace(crowd, truth=table[roles.label])


def _long(table: pa.Table, data: DataChoice, choice: CrowdChoice, roles: Roles, source: str) -> Crowd:
    from flipproof.fitting.sources import is_path
    from flipproof.tables import TextLayout
    from flipproof.tables.columns import as_mask, as_names
    from flipproof.tables.encoding import as_arrow
    from flipproof.tables.labels import label_array
    from flipproof.tables.reading import read_file
    from flipproof.tables.roles import RowPlaces, require_column

    assert choice.item is not None
    assert roles.id is not None
    columns = {"item": choice.item, "label": choice.label, "annotator": choice.annotator}
    columns |= {"trusted": choice.trusted, "window": choice.window}
    if is_path(choice.labels):
        purposes = {choice.item: "ids", choice.label: "label"}
        if choice.annotator:
            purposes[choice.annotator] = "names"
        layout = replace(data.layout or TextLayout(), names=(), kind=None)
        found = read_file(Path(choice.labels), layout, part="labels", purposes=purposes)
        votes, of_votes, file = found.table, repr(str(choice.labels)), found.rows
    else:
        if not hasattr(choice.labels, "columns"):
            raise InputError(
                Parameter("labels"), f": it must be a path or a data frame. Got {type(choice.labels).__name__} instead."
            )
        votes, of_votes, file = as_arrow(choice.labels), "the table of labels", None
    for parameter, name in columns.items():
        if name:
            require_column(name, votes.column_names, parameter, of_votes)
    require_column(roles.id, table.column_names, "id" if roles.id != choice.item else "item", source)
    with RowPlaces(of_votes, file).located(with_source=True):
        labels = label_array(votes[choice.label], choice.label, of_votes)
        limits = {}
        if choice.trusted:
            limits["trusted"] = as_mask(choice.trusted, votes[choice.trusted], of_votes)
        who = np.arange(votes.num_rows)
        if choice.annotator:
            who = as_names(choice.annotator, votes[choice.annotator], of_votes)
    if choice.window:
        limits["window"] = stamps_of(choice.window, votes[choice.window])
    items, known = (one.to_pylist() for one in (votes[choice.item], table[roles.id]))
    try:
        annotations = Annotations.from_long(items, who, labels, items=known, aggregate=choice.aggregate)
    except RepeatedLabelsError as error:
        remedy = f"Keep one line per {choice.item} and {choice.annotator}."
        raise InputError(Parameter("labels"), f": {error.found} {remedy}") from error
    except ValueError as error:
        raise InputError(Parameter("labels"), f": {error}") from error
    if choice.count == "annotators":
        limits["groups"] = annotations.annotator
    return Crowd(annotations, limits)


def _wide(table: pa.Table, choice: CrowdChoice, source: str) -> Crowd:
    from flipproof.tables.roles import matching_columns

    found = (matching_columns(pattern, table.column_names, "annotators", source) for pattern in choice.annotators)
    names = list(dict.fromkeys(name for each in found for name in each))
    for name in names:
        if name == choice.label:
            raise InputError(
                f"column {name!r} cannot be both ", Parameter("annotators"), " and ", Parameter("label"), "."
            )
    try:
        annotations = Annotations.from_wide(table.select(names), aggregate=choice.aggregate)
    except ValueError as error:
        raise InputError(Parameter("annotators"), f": {error}") from error
    return Crowd(annotations, {"groups": annotations.annotator} if choice.count == "annotators" else {})


def stamps_of(name: str, column: pa.ChunkedArray) -> NDArray[Any]:
    """Return the timestamps of training rows; texts are read as ISO 8601."""
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        with contextlib.suppress(pa.ArrowInvalid):  # refused below
            column = column.cast(pa.timestamp("us"))
    try:
        return as_stamps(column.to_numpy(), f"column {name!r}")
    except ValueError as error:
        raise InputError(Parameter("window"), f": {error}") from None
