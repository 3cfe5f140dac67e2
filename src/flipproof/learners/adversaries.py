"""What a described adversary can do to the labels of one fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.certificates import Adversary, changes_in_words
from flipproof.exact import Powers, Scope
from flipproof.rounding import Integers
from flipproof.values import as_values, distinct, positions


def powers_of(
    adversary: Adversary | None, codes: Integers, classes: NDArray[Any], labeled: NDArray[np.bool_]
) -> Powers:
    """Translate an adversary into class codes, and refuse one that does not fit the training rows.

    A label that is trusted, missing, or of a class that may not be changed into any other cannot be changed at all.
    """
    anything = ~np.eye(len(classes), dtype=bool)
    check_adversary(adversary, len(codes))
    if adversary is None:
        return Powers(labeled, anything, None)
    transitions = anything if adversary.allowed is None else possible_changes(adversary.allowed, classes)
    changeable = labeled & np.asarray(transitions.any(axis=1))[codes]
    if adversary.trusted is not None:
        changeable &= ~adversary.trusted
    groups = None if adversary.groups is None else distinct(adversary.groups)[1]
    return Powers(changeable, transitions, groups)


def check_adversary(adversary: Adversary | None, n_rows: int) -> None:
    """Refuse what is no adversary, or one that speaks of another number of training rows."""
    if adversary is None:
        return
    if not isinstance(adversary, Adversary):
        raise ValueError(f"adversary must be a flipproof.Adversary or None. Got {type(adversary).__name__} instead.")
    for name in ("trusted", "groups"):
        given = getattr(adversary, name)
        if given is not None and len(given) != n_rows:
            raise ValueError(
                f"Adversary({name}=...) must have one entry per training row, {n_rows}. Got {len(given)} instead."
            )


def adversary_assumptions(adversary: Adversary | None, scope: Scope, method: str) -> list[str]:
    """Say in words what the adversary cannot do, and what the radius counts."""
    if adversary is None:
        return []
    trusted = None if adversary.trusted is None else (int(np.count_nonzero(adversary.trusted)), len(adversary.trusted))
    return limits_in_words(trusted, adversary.allowed, scope, method)


def limits_in_words(
    trusted: tuple[int, int] | None, allowed: tuple[tuple[Any, Any], ...] | None, scope: Scope, method: str
) -> list[str]:
    """Say what an adversary cannot do; `trusted` is how many labels are, and of how many."""
    said: list[str] = []
    if trusted is not None:
        said.append(f"{trusted[0]} of the {trusted[1]} training labels are trusted: nobody can change them.")
    if allowed is not None:
        said.append(f"Labels can be changed in these ways only: {changes_in_words(allowed)}.")
        if method in ("kl", "tight"):
            said.append(
                f"The method {method!r} uses this only to leave out labels that cannot be changed at all; 'exact' uses "
                "all of it."
            )
    if scope.group_sizes is not None:
        said.append(
            f"The radius counts annotators: that many of {scope.n_touchable} may change all of their labels, and "
            "nobody else any."
        )
    return said


def possible_changes(allowed: tuple[tuple[Any, Any], ...], classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which changes from one class to another are among the allowed pairs."""
    # there may be many more pairs than classes; values of one kind that are equal are one key
    named, known = list(dict.fromkeys(one for pair in allowed for one in pair)), as_values(classes, "The classes")
    place = {}
    for one in named:
        position, is_known = positions(known, as_values([one], "Adversary(allowed=...)"))
        if not is_known[0]:
            raise ValueError(
                f"Adversary(allowed=...) names the class {one!r}, which the learner does not know: it knows "
                f"{classes.tolist()}."
            )
        place[one] = int(position[0])
    possible = np.zeros((len(classes), len(classes)), dtype=bool)
    possible[[place[old] for old, _ in allowed], [place[new] for _, new in allowed]] = True
    return possible
