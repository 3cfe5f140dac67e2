"""Clones of user-defined steps: unfitted, with fixed random numbers; and the assumptions about what they keep.

A certificate is about what a refit on changed labels would predict. So a step that is fitted here must start unfitted,
share nothing with other fits, and draw the same random numbers in every fit. scikit-learn's `clone` does most of that.
This module does the rest: random states inside parameters, random generators that the whole process shares, steps whose
clone is the step itself. What cannot be checked becomes an assumption.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from numbers import Integral, Number
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator

from flipproof.assumptions import Assumption, as_assumption
from flipproof.runtime.determinism import FIXED_SEED, with_seeds

#: Types that hold no other objects and cannot be fitted.
PLAIN = (type(None), Number, str, bytes, ModuleType, np.dtype, np.generic, slice, range)
#: Packages whose tables are data.
TABLES = ("pandas", "polars", "pyarrow")

#: Packages whose functions, and whose objects that are not callable, cannot contain labels.
LIBRARIES = frozenset({*sys.stdlib_module_names, "numpy", "scipy", "sklearn", "joblib", "flipproof"})

COLLECTIONS = (Mapping, list, tuple, set, frozenset, deque, np.ndarray)


@dataclass(frozen=True)
class Part:
    """An object inside a step, and its name as in `set_params`: ``pipeline__pca``; empty for the step itself."""

    path: str
    value: Any

    @cached_property
    def settings(self) -> dict[str, Any] | None:
        """Its parameters, without those of nested steps; None if it is not a step."""
        return _settings(self.value)

    @property
    def is_step(self) -> bool:
        """Whether it has parameters, like an estimator."""
        return self.settings is not None


def own_clone(step: object, next_seed: Callable[[], int] = lambda: FIXED_SEED) -> Any:
    """Return a clone that shares only frozen parts with the step, and whose random states are fixed.

    Random states that are not integers are set to `next_seed()`, also in nested steps, in the folds of a search, and in
    lists and dicts. The step itself is not changed, even if it returns itself as its clone.
    """
    made, own_parts = _unshared(step)
    for part in own_parts:
        _fix_random_states(part, next_seed)
    return made


def unshared_clone(step: object) -> Any:
    """Return a clone that shares only frozen parts with the step; its random states are unchanged."""
    return _unshared(step)[0]


def _unshared(step: object) -> tuple[Any, list[Part]]:
    """Return a clone that shares only frozen parts with the step, and the parts that it does not share."""
    given = parts_of(step)  # kept alive, so that no other object gets the id of one of them
    theirs = {id(part.value) for part in given}
    made = _cloned(step)
    parts = parts_of(made)
    shared = [part.value for part in parts if id(part.value) in theirs and part.is_step]
    frozen = [value for value in shared if _is_frozen(value)]
    if len(frozen) < len(shared):  # fitting one clone would change all clones
        made = deepcopy(made, {id(value): value for value in frozen})
        parts = parts_of(made)
    return made, [part for part in parts if id(part.value) not in theirs]


def _cloned(step: object) -> Any:
    try:
        return clone(step)
    except Exception as error:
        raise ValueError(
            f"{type(step).__name__} must be cloned before it is fitted, but cannot be cloned: {error}. If one of its "
            "parameters is a generator or an open file, give a list instead."
        ) from error


def fit_label_free(step: object, X: object) -> Any:
    """Fit a clone of a step without labels, with the same random numbers in every fit; return the clone."""

    def fit() -> Any:
        fitted = own_clone(step)
        if _is_frozen(fitted):
            fitted.fit(X, None)  # requires y, but does not use it
        else:
            fitted.fit(fresh(X))
        return fitted

    return with_seeds(fit)


def fit_to_trusted(step: object, X: Any, labels: Any) -> Any:
    """Fit a clone of a step to trusted rows and their labels, with the same random numbers in every fit (M15)."""

    def fit() -> Any:
        fitted = own_clone(step)
        fitted.fit(fresh(X), labels.copy())
        return fitted

    return with_seeds(fit)


def fresh(X: object) -> Any:
    """Return a copy of the data, so that writes by a step or by the caller do not affect others.

    Lists, dicts and arrays of objects are copied deeply, since a shallow copy would share their rows.
    """
    holds_others = isinstance(X, (list, dict)) or getattr(getattr(X, "dtype", None), "kind", None) == "O"
    return X.copy() if hasattr(X, "copy") and not holds_others else deepcopy(X)


def parts_of(step: object, enters: Callable[[Any], bool] = lambda value: True) -> list[Part]:
    """List the step and all objects inside it that can be reached through parameters, each of them once.

    Objects inside those that `enters` declines are listed only if they can be reached in another way.
    """
    found: dict[int, Part] = {}
    waiting = [Part("", step)]
    while waiting:
        part = waiting.pop()
        if id(part.value) in found or _is_plain(part.value):
            continue
        found[id(part.value)] = part
        if enters(part.value):
            waiting += [Part(_joined(part.path, label), value) for label, value in _inside(part)][::-1]
    return list(found.values())


def places_rows_together(step: object) -> bool:
    """Tell whether the features of a row depend on other rows that are asked for with it.

    A step that says so of itself, `places_rows_together`, does not count inside one that asks it for no rows but those
    that it was fitted to, `freezes_places`.
    """
    reached = parts_of(step, lambda value: not getattr(value, "freezes_places", False))
    return any(getattr(part.value, "places_rows_together", False) for part in reached)


def stated_assumptions(step: object) -> list[Assumption]:
    """Return the assumptions that a step and its parts state themselves, `rests_on`."""
    stated = (getattr(part.value, "rests_on", None) for part in parts_of(step))
    found = [as_assumption(one) for one in stated if isinstance(one, (str, Assumption))]
    together = places_rows_together(step)
    return [one for one in found if together or one.code != "test-rows-together"]


def loose_random_states(part: Part) -> dict[str, Any]:
    """Return the random states of a part that are not integers, without those of nested parts."""
    settings = part.settings
    if settings is None:
        own = getattr(part.value, "__dict__", {})
        settings = {"random_state": own["random_state"]} if "random_state" in own else {}
    states = {name: state for name, state in settings.items() if name.endswith("random_state")}
    return {name: state for name, state in states.items() if not isinstance(state, Integral)}


def label_free_assumptions(step: object, role: str) -> list[Assumption]:
    """Return the assumptions of certificates about a step that was fitted without labels.

    Unlike for base learners, there is no check that a refit gives the same result: a second fit of a network or of UMAP
    could take as long as everything else. Random numbers are fixed, and the rest is an assumption.
    """
    kept, foreign = brought_along(step)
    found = _assumed(kept, foreign, role, step, "labels")
    if any(part.path == "" for part in kept):  # the whole step is kept as it is
        return found
    values = {"role": role, "step": name_of(step), "but": tuple(part.path for part in kept)}
    return [Assumption("fitted-without-labels", values), *found]


def assumptions_about(step: object, role: str, data: str = "labels") -> list[Assumption]:
    """Return assumptions about what a clone of the step keeps: it must not depend on these labels (or other data)."""
    return _assumed(*brought_along(step), role, step, data)


def _assumed(kept: list[Part], foreign: list[Part], role: str, step: object, data: str) -> list[Assumption]:
    common = {"role": role, "step": name_of(step), "data": data}
    found = [
        Assumption("fitted-elsewhere", {**common, "path": part.path, "part": name_of(part.value)}) for part in kept
    ]
    if foreign:
        parts = tuple((part.path, name_of(part.value)) for part in foreign)
        found.append(Assumption("used-as-given", {**common, "parts": parts}))
    return found


def brought_along(step: object) -> tuple[list[Part], list[Part]]:
    """Return the parts that a clone of the step keeps from earlier fits, and user-defined parts that may hold anything.

    A part is kept if the clone shares it with the step, as it does a FrozenEstimator; if it is already fitted in the
    clone; or if it defines its own cloning, which may keep anything. User-defined parts are custom functions, methods
    and objects among the parameters, which are copied as they are.
    """
    given = parts_of(step)
    theirs = {id(part.value) for part in given}
    kept: list[Part] = []
    foreign: list[Part] = []
    try:
        made = clone(step)
    except Exception:  # its parts cannot be inspected
        return kept, foreign
    for part in parts_of(made):
        if any(_is_below(part.path, outer.path) for outer in (*kept, *foreign)):
            continue
        if part.is_step:
            if id(part.value) in theirs or _looks_fitted(part) or _clones_in_its_own_way(part.value):
                kept.append(part)
        elif _is_foreign(part.value):
            foreign.append(part)
    return kept, foreign


def keeps_all(step: object) -> bool:
    """Tell whether a clone of the step is as fitted as the step itself."""
    return any(part.path == "" for part in brought_along(step)[0])


def name_of(value: object) -> str:
    """Return a short description of a step or an object."""
    if isinstance(value, FrozenEstimator):
        return f"{type(value).__name__} of {type(value.estimator).__name__}"
    if isinstance(value, (MethodType, BuiltinFunctionType)):
        return f"method {value.__name__} of {type(value.__self__).__name__}"
    return f"function {value.__name__}" if isinstance(value, FunctionType) else type(value).__name__


def _inside(part: Part) -> Iterator[tuple[str, Any]]:
    """Yield the objects inside a part, with their names."""
    value = part.value
    if _is_frozen(value):
        return
    if part.settings is not None:
        for name, setting in part.settings.items():
            if _are_named_steps(setting):
                yield from ((named[0], one) for named in setting for one in named[1:])
            else:
                yield name, setting
    elif isinstance(value, Mapping):
        yield from ((f"[{key!r}]", one) for key, one in value.items())
    elif isinstance(value, COLLECTIONS):
        items = value.ravel() if isinstance(value, np.ndarray) else value
        yield from ((f"[{number}]", one) for number, one in enumerate(items))
    elif isinstance(value, partial):
        yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    elif isinstance(value, (MethodType, BuiltinFunctionType)):
        yield "__self__", value.__self__
    elif not isinstance(value, FunctionType):
        yield from ((str(name), one) for name, one in getattr(value, "__dict__", {}).items())


def _joined(path: str, label: str) -> str:
    return f"{path}__{label}" if path and not label.startswith("[") else path + label


def _is_below(path: str, outer: str) -> bool:
    return outer == "" or path.startswith((f"{outer}__", f"{outer}["))


def _are_named_steps(setting: Any) -> bool:
    """Tell whether these are steps as in a Pipeline or a ColumnTransformer: tuples that begin with a name."""
    is_list = isinstance(setting, (list, tuple)) and len(setting) > 0
    return is_list and all(isinstance(one, tuple) and one and isinstance(one[0], str) for one in setting)


def _has_params(value: object) -> bool:
    return not isinstance(value, type) and hasattr(value, "get_params")


def _settings(value: Any) -> dict[str, Any] | None:
    if not _has_params(value):
        return None
    try:
        return dict(value.get_params(deep=False))
    except Exception:  # an unrelated method of this name
        return None


def _is_frozen(value: object) -> bool:
    """Tell whether fitting the step does nothing, so that many models can share it."""
    return isinstance(value, FrozenEstimator) and type(value).fit is FrozenEstimator.fit


def _looks_fitted(part: Part) -> bool:
    names = [name for name in getattr(part.value, "__dict__", {}) if name.endswith("_") and not name.startswith("__")]
    return any(name not in (part.settings or {}) for name in names)


def _clones_in_its_own_way(value: object) -> bool:
    usual = BaseEstimator.__sklearn_clone__
    return getattr(type(value), "__sklearn_clone__", usual) is not usual


def _is_plain(value: object) -> bool:
    if isinstance(value, PLAIN) or issparse(value) or _package(type(value)) in TABLES:
        return True
    if isinstance(value, np.ndarray):
        return bool(value.dtype.kind != "O")
    if isinstance(value, type):
        return type(value).__call__ is type.__call__
    return callable(value) and not isinstance(value, MethodType) and _is_of_a_library(value)


def _is_of_a_library(value: object) -> bool:
    """Tell whether a library has this function under its name; wrappers and functions of the same name do not count."""
    name = getattr(value, "__qualname__", getattr(value, "__name__", ""))
    module = getattr(value, "__module__", None)
    homes = [module] if isinstance(module, str) else ["numpy", "scipy.special"]  # ufuncs do not name their module
    return any(
        home.partition(".")[0] in LIBRARIES and getattr(sys.modules.get(home), name, None) is value for home in homes
    )


def _is_foreign(value: object) -> bool:
    if isinstance(value, COLLECTIONS):
        return False
    return _package(type(value)) not in LIBRARIES or (callable(value) and not _has_params(value))


def _package(value: object) -> str:
    return str(getattr(value, "__module__", "")).partition(".")[0]


def _fix_random_states(part: Part, next_seed: Callable[[], int]) -> None:
    fixed = {name: _fixed(given, next_seed(), part.is_step) for name, given in loose_random_states(part).items()}
    if part.is_step and fixed:
        part.value.set_params(**fixed)  # its return value is not used: not all steps return themselves
    elif fixed:
        vars(part.value).update(fixed)


def _fixed(given: object, seed: int, is_step: bool) -> Any:
    """Return a random state that starts from the seed, of a type that the part can use."""
    if isinstance(given, np.random.Generator):
        return np.random.default_rng(seed)
    # an integer gives a step the same numbers in every call; objects that are not steps may call methods of the state
    return seed if is_step or not isinstance(given, np.random.RandomState) else np.random.RandomState(seed)
