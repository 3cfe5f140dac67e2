"""Every attack on training rows, for small problems: rows are added, removed and replaced, one change at a time."""

from __future__ import annotations

import itertools


def one_change_away(state, additions, changes):
    """Yield all states one change away; a state is a sorted tuple of rows (row, label, is_free)."""
    if changes != "removals":
        for new in additions:
            yield tuple(sorted((*state, new)))
    if changes == "insertions":
        return
    for at, (_, _, is_free) in enumerate(state):
        if is_free:
            rest = state[:at] + state[at + 1 :]
            yield rest
            if changes == "rows":
                for new in additions:
                    yield tuple(sorted((*rest, new)))


def fewest_changes(start, additions, changes, predict, most):
    """Return the least number of changes after which another class is predicted, and the rows then; None if > most."""
    first = predict(start)
    frontier, seen = {start}, {start}
    for n_changes in range(1, most + 1):
        frontier = {after for state in frontier for after in one_change_away(state, additions, changes)} - seen
        seen |= frontier
        for state in frontier:
            if predict(state) != first:
                return n_changes, state
    return None


def fewest_sources(rows, sources, additions, changes, predict, most):
    """The same for sources, each of which removes or replaces any of its free rows; `sources` has one name per row."""
    first = predict(tuple(sorted(rows)))
    names = sorted({name for name, row in zip(sources, rows, strict=True) if row[2]})
    for n_changes in range(1, min(most, len(names)) + 1):
        for chosen in itertools.combinations(names, n_changes):
            theirs = [at for at, row in enumerate(rows) if row[2] and sources[at] in chosen]
            others = [row for at, row in enumerate(rows) if at not in theirs]
            options = [[None, rows[at], *(additions if changes == "rows" else ())] for at in theirs]
            for new in itertools.product(*options):
                state = tuple(sorted(others + [row for row in new if row is not None]))
                if predict(state) != first:
                    return n_changes, state
    return None
