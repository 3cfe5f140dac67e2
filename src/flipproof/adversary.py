"""Adversary: which labels or rows can be changed and to what, translated to the labels of a fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.assumptions import MOST_CHANGES, Assumption, change_values, changes_in_words
from flipproof.core.powers import CHANGES, Powers, Rights, Scope
from flipproof.core.rounding import Integers, Values
from flipproof.core.windows import window_ends
from flipproof.parameters import NONE, check_parameter, number, one_of
from flipproof.timestamps import as_length, as_stamps, length_in_words, whole_numbers
from flipproof.values import as_mask, as_names, as_values, distinct, positions

#: What an adversary who changes rows may do.
ROW_CHANGES = {
    "rows": "may add, remove or replace rows",
    "insertions": "may add rows",
    "removals": "may remove rows",
}


@dataclass(frozen=True, eq=False)
class Adversary:
    """What an attacker can change in the training data; by default any label to any class.

    Parameters
    ----------
    changes : {"labels", "rows", "insertions", "removals"}, default="labels"
        ``"labels"``: the labels of training rows. ``"rows"``: whole training rows; each change adds a row with any
        features and label, removes a row, or replaces one. ``"insertions"``: rows can only be added. ``"removals"``:
        rows can only be removed. Changes of rows need a learner that was fitted with ``reference=...``.
    trusted : booleans of shape (n,), optional
        True for training rows whose labels cannot be changed; if rows can be changed, for rows that cannot be removed
        or replaced.
    groups : array of shape (n,), optional
        The annotator of each training row, as numbers, strings, bytes or booleans without missing values. The radius
        then counts malicious annotators, each of whom may change all of their labels. If rows can be changed, it is the
        source of each row, and the radius counts malicious sources: each may replace (or remove) all of its rows, but
        adds none. Names are compared by value: 1 and 1.0 are the same annotator, and so are equal strings in arrays of
        different width.
    allowed : iterable of pairs of classes, optional
        The only possible changes, as (old, new): ``[("ham", "spam")]`` means that ham may be relabelled as spam, and
        nothing else may change. Only for changes of labels.
    window : array of shape (n,), optional
        The timestamp of each training label, as numbers, dates or times. The radius then counts windows of time: the
        attacker may change all labels in any r windows of the given `length`, wherever they start. A window contains
        both of its ends.
    length : number, timedelta or str, optional
        Length of a window: a number if timestamps are numbers; a timedelta, or a text such as ``"7d"``, ``"12h"`` or
        ``"30min"``, if they are dates or times.
    max_change : float, optional
        Only for regressors: how far each training target may be moved, up or down, within the target range.

    See Also
    --------
    flipproof.certify : Certify with a learner, a Pipeline or a search.
    flipproof.Annotations : Several labels per item.
    flipproof.attacks.worst_flips : Smallest attack by labels.
    flipproof.attacks.worst_rows : Smallest attack by rows.

    Examples
    --------
    >>> import numpy as np
    >>> from flipproof import Adversary
    >>> Adversary(groups=["ann", "bob", "ann"], allowed=[(1, 0)])
    <Adversary: labels of 2 annotators, changes 1 -> 0 only>
    >>> Adversary(changes="removals", trusted=[True, False, False])
    <Adversary: may remove rows, 1 rows trusted>
    >>> Adversary(window=np.array(["2024-03-01", "2024-03-05"], dtype="datetime64[D]"), length="7d")
    <Adversary: labels of windows of 7d>
    """

    changes: str = "labels"
    trusted: Any = None
    groups: Any = None
    allowed: Any = None
    window: Any = None
    length: Any = None
    max_change: Any = None

    def __post_init__(self) -> None:
        checks = {"trusted": _trusted_mask, "groups": _group_names, "allowed": _class_pairs, "window": _stamps}
        for name, check in checks.items():
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else check(given))
        check_parameter("Adversary", "changes", self.changes, one_of(*CHANGES))
        if self.changes_rows and self.allowed is not None:
            raise ValueError(
                f"Adversary(allowed=...) limits changes of labels, but changes={self.changes!r}: an added or replaced "
                "row may have any label. Omit allowed, or use changes='labels'."
            )
        if self.groups is not None:
            refuse_insertions_by_groups(self.changes)
        check_parameter("Adversary", "max_change", self.max_change, NONE | number(0, closed="low"))
        if self.max_change is not None and (self.changes_rows or self.allowed is not None):
            raise ValueError(
                "Adversary(max_change=...) limits changes of numeric targets: it cannot be combined with changes of "
                "rows, nor with allowed=..., which is about classes."
            )
        self._check_window()

    def _check_window(self) -> None:
        if (self.window is None) != (self.length is None):
            raise ValueError("Adversary(window=...) and Adversary(length=...) must be given together.")
        if self.window is None:
            return
        as_length(self.length, self.window, "Adversary(length=...)")
        if self.groups is not None:
            raise ValueError("Adversary(window=...) cannot be combined with groups=...: a radius counts one of them.")
        if self.changes_rows:
            raise ValueError(
                f"Adversary(window=...) is about labels, but changes={self.changes!r}. For whole rows, give "
                "groups=..., for example the week or the source of each row."
            )

    @property
    def changes_rows(self) -> bool:
        """Whether whole rows can be changed, not only labels."""
        return self.changes != "labels"

    def __repr__(self) -> str:
        unit, parts = "row" if self.changes_rows else "label", []
        if self.changes_rows:
            parts.append(ROW_CHANGES[self.changes])
        if self.trusted is not None:
            n_trusted = int(np.count_nonzero(self.trusted))
            parts.append(f"{n_trusted} {unit}s trusted")
        if self.groups is not None:
            owners = "sources" if self.changes_rows else "annotators"
            parts.append(f"{unit}s of {len(distinct(self.groups)[0])} {owners}")
        if self.window is not None:
            parts.append(f"labels of windows of {self.length}")
        if self.allowed is not None:
            parts.append(f"changes {changes_in_words(self.allowed[:MOST_CHANGES], len(self.allowed))} only")
        if self.max_change is not None:
            parts.append(f"targets moved by at most {self.max_change:.15g}")
        return f"<Adversary: {', '.join(parts) or 'may change any label to any class'}>"


def refuse_insertions_by_groups(changes: str) -> None:
    """Refuse groups where rows can only be added."""
    if changes == "insertions":
        raise ValueError(
            "Adversary(groups=...) needs changes='rows' or 'removals' where rows can be changed: there is no limit "
            "to the number of rows that a source could add."
        )


def _trusted_mask(given: object) -> NDArray[np.bool_]:
    wanted = "a mask of booleans, one per training row: np.isin(np.arange(n), rows) makes one from row numbers."
    return _frozen(as_mask(given, "Adversary(trusted=...)", wanted))


def _group_names(given: object) -> NDArray[Any]:
    remedy = "give labels of unknown origin a separate name each, or one common name."
    return _frozen(as_names(given, "Adversary(groups=...)", remedy))


def _stamps(given: object) -> NDArray[Any]:
    return _frozen(as_stamps(given, "Adversary(window=...)"))


def _class_pairs(given: object) -> tuple[tuple[Any, Any], ...]:
    wanted = "Adversary(allowed=...) must be pairs of two different classes, (old, new)"
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ValueError(f"{wanted}. Got {given!r} instead.")
    pairs = list(given)
    if not pairs:
        raise ValueError(f"{wanted}. Got no pairs: pass None to allow any change.")
    for pair in pairs:
        if isinstance(pair, str) or not isinstance(pair, Sequence | np.ndarray) or len(pair) != 2:
            raise ValueError(f"{wanted}. Got {pair!r} among them.")
    known: dict[Any, Any] = {}  # there may be many more pairs than classes

    def plain(one: object) -> Any:
        key = type(one), one
        if key not in known:
            known[key] = as_values([one], "Adversary(allowed=...)").tolist()[0]
        return known[key]

    try:
        changes = tuple((plain(old), plain(new)) for old, new in pairs)
    except TypeError as error:  # not a class, for example a list
        raise ValueError(f"{wanted}. Got {error} instead.") from error
    for pair, (old, new) in zip(pairs, changes, strict=True):
        if old == new:
            raise ValueError(f"{wanted}. Got {pair!r} among them.")
    return changes


def _frozen(array: Values) -> NDArray[Any]:
    array = array.copy()
    array.setflags(write=False)
    return array


def powers_of(adversary: Adversary | None, codes: Integers, classes: Values, untrusted: NDArray[np.bool_]) -> Powers:
    """Translate an adversary into class codes; refuse one that does not match the training rows.

    `untrusted` is False where no adversary can change a label: it is missing, or was trusted in the fit (M15). A label
    that the adversary trusts too, or of a class without an allowed change, cannot be changed either. A trusted row
    cannot be removed.
    """
    check_adversary(adversary, len(codes))
    rights = rights_of(adversary, classes)
    if adversary is None:
        return rights.over(codes, ~untrusted)
    fixed = ~untrusted if adversary.trusted is None else ~untrusted | adversary.trusted
    if adversary.window is not None:
        stamps, number_of_row = np.unique(whole_numbers(adversary.window), return_inverse=True)
        ends = window_ends(stamps, as_length(adversary.length, adversary.window, "Adversary(length=...)"))
        return replace(rights.over(codes, fixed, number_of_row.astype(np.int64)), window_ends=ends)
    return rights.over(codes, fixed, None if adversary.groups is None else distinct(adversary.groups)[1])


def rights_of(adversary: Adversary | None, classes: Values) -> Rights:
    """Translate the changes that an adversary may make into class codes; by default any class to any other."""
    if adversary is not None and adversary.max_change is not None:
        raise ValueError("Adversary(max_change=...) is about numeric targets: omit it for a classifier.")
    if adversary is None or adversary.allowed is None:
        return Rights(~np.eye(len(classes), dtype=bool), "labels" if adversary is None else adversary.changes)
    return Rights(possible_changes(adversary.allowed, classes))


def refuse_row_changes(adversary: Adversary | None, what: str, remedy: str) -> None:
    """Refuse an adversary who changes rows, which `what` does not cover."""
    if isinstance(adversary, Adversary) and adversary.changes_rows:
        raise ValueError(f"{what} covers changed labels only. Got Adversary(changes={adversary.changes!r}): {remedy}")


def refuse_windows(adversary: Adversary | None, what: str) -> None:
    """Refuse an adversary who changes the labels of windows of time, which `what` does not cover."""
    if isinstance(adversary, Adversary) and adversary.window is not None:
        raise ValueError(
            f"{what} does not cover Adversary(window=...): only certify(X, 'exact') and worst_flips do, for "
            "label-linear learners in memory. Give groups=... instead, for example the week of each row."
        )


def check_adversary(adversary: Adversary | None, n_rows: int) -> None:
    """Refuse anything but an adversary for this number of training rows."""
    if adversary is None:
        return
    if not isinstance(adversary, Adversary):
        raise ValueError(f"adversary must be a flipproof.Adversary or None. Got {type(adversary).__name__} instead.")
    for name in ("trusted", "groups", "window"):
        given = getattr(adversary, name)
        if given is not None and len(given) != n_rows:
            raise ValueError(
                f"Adversary({name}=...) must have one entry per training row, {n_rows}. Got {len(given)} instead."
            )


def adversary_assumptions(adversary: Adversary | None, scope: Scope, method: str) -> list[Assumption]:
    """Return the limits that the adversary is assumed to have, and what the radius counts."""
    if adversary is None:
        return []
    trusted = None if adversary.trusted is None else (int(np.count_nonzero(adversary.trusted)), len(adversary.trusted))
    limits = assumed_limits(trusted, adversary.allowed, scope, method)
    if adversary.window is not None:
        length = length_in_words(adversary.length, adversary.window)
        limits.append(Assumption("windows", {"length": length, "n_windows": scope.n_touchable}))
    return limits


def assumed_limits(
    trusted: tuple[int, int] | None, allowed: tuple[tuple[object, object], ...] | None, scope: Scope, method: str
) -> list[Assumption]:
    """Return the limits that an adversary is assumed to have; `trusted` is (number trusted, number of labels)."""
    found: list[Assumption] = []
    if trusted is not None and scope.changes == "labels":
        found.append(Assumption("trusted-labels", {"n_trusted": trusted[0], "n_labels": trusted[1]}))
    elif trusted is not None:
        values = {"n_trusted": trusted[0], "n_rows": trusted[1], "can_add": scope.can_add_rows}
        found.append(Assumption("trusted-rows", values))
    if allowed is not None:
        found.append(Assumption("changes-allowed", change_values(allowed)))
        if method in ("kl", "tight", "gap"):
            found.append(Assumption("changes-partly-used", {"method": method}))
    if scope.group_sizes is not None and scope.unit == "annotators":
        found.append(Assumption("annotators", {"n_annotators": scope.n_touchable}))
    elif scope.unit == "sources":
        found.append(Assumption("sources", {"n_sources": scope.n_touchable, "changes": scope.changes}))
    return found


def possible_changes(allowed: tuple[tuple[object, object], ...], classes: Values) -> NDArray[np.bool_]:
    """Return which changes from one class to another are among the allowed pairs."""
    # there may be many more pairs than classes; equal values of one type share a key
    named, known = list(dict.fromkeys(one for pair in allowed for one in pair)), as_values(classes, "The classes")
    place = {}
    for one in named:
        position, is_known = positions(known, as_values([one], "Adversary(allowed=...)"))
        if not is_known[0]:
            raise ValueError(
                f"Adversary(allowed=...) contains the class {one!r}, which is not a class of the learner. The classes "
                f"are {classes.tolist()}."
            )
        place[one] = int(position[0])
    possible = np.zeros((len(classes), len(classes)), dtype=bool)
    possible[[place[old] for old, _ in allowed], [place[new] for _, new in allowed]] = True
    return possible
