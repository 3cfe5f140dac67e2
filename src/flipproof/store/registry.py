"""What a registered class is: its parameters, its fitted attributes with their kinds, and how an object is made."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from flipproof.parameters import check_parameters
from flipproof.store.archive import ModelFileError
from flipproof.store.kinds import Kind, Sizes

#: What to do about an object that cannot be stored.
REMEDY = (
    "docs/models.md lists what can be. Use one of those, or apply the step to the rows yourself, before the learner"
)


def _nothing_stale(value: object) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class Entry:
    """A class whose objects can be stored.

    Attributes
    ----------
    key : str
        Its name in files: module and class. Files name keys only; classes are imported from here.
    fitted : mapping of str to Kind
        The attributes that a fit sets; for a dataclass, its fields. Either all that are needed are there, or none.
    parameters : tuple of str, optional
        Parameters of the constructor. Default: those of `get_params`; none for a dataclass.
    left_out : tuple of str
        Attributes that are not stored: they are set again by the constructor or by `finish`, or belong to a process.
    stale : function
        Returns attributes of an earlier fit that an object no longer uses.
    check : function, optional
        Called with an object, before it is stored and after it is made: raises ModelFileError or ValueError if its
        attributes contradict each other.
    finish : function, optional
        Called with an object after it is made and checked, to compute attributes that follow from others.
    home : str, optional
        The module of the class, if it is no longer that of the key, which files keep.
    """

    key: str
    fitted: Mapping[str, Kind]
    parameters: tuple[str, ...] | None = None
    left_out: tuple[str, ...] = ()
    stale: Callable[[Any], tuple[str, ...]] = _nothing_stale
    check: Callable[[Any], None] | None = None
    finish: Callable[[Any], None] | None = None
    home: str | None = None

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.key.rpartition(".")[2]

    @property
    def type(self) -> type:
        """The class."""
        module, _, name = self.key.rpartition(".")
        return getattr(import_module(self.home or module), name)  # type: ignore[no-any-return]

    @property
    def is_plain(self) -> bool:
        """Whether it is a dataclass: all its fields are given to the constructor."""
        return dataclasses.is_dataclass(self.type)

    def parameter_names(self) -> tuple[str, ...]:
        """Return the parameters of the constructor, except fields of a dataclass."""
        if self.parameters is not None or self.is_plain:
            return self.parameters or ()
        signature = inspect.signature(self.type.__init__)  # type: ignore[misc]
        return tuple(name for name in list(signature.parameters)[1:])

    def state_of(self, value: Any, where: str) -> dict[str, Any]:
        """Return what is stored of an object."""
        state = {name: getattr(value, name) for name in self.parameter_names()}
        if self.is_plain:
            state |= {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        else:
            left_out = {*self.left_out, *self.stale(value)}
            state |= {name: one for name, one in vars(value).items() if name not in left_out}
        try:
            self.check_names(state, where)
            self._check_kinds(state, where)
            if self.check is not None and self._is_fitted(state):
                self.check(value)
        except ModelFileError as error:
            raise ModelFileError(f"{self.name} cannot be stored: {error}. {REMEDY}.") from None
        return state

    def check_names(self, state: Mapping[str, object], where: str) -> None:
        """Refuse attributes that are missing or unknown."""
        parameters, at = self.parameter_names(), f"{where}: " if where else ""
        unknown = [name for name in state if name not in self.fitted and name not in parameters]
        if unknown:
            raise ModelFileError(f"{at}{self.name} has an unknown attribute {unknown[0]!r}")
        needed = {name for name, kind in self.fitted.items() if kind.is_needed}
        wanted = {*parameters, *(needed if self._is_fitted(state) or self.is_plain else ())}
        missing = sorted(wanted.difference(state))
        if missing:
            raise ModelFileError(f"{at}{self.name} has no attribute {missing[0]!r}")

    def _is_fitted(self, state: Mapping[str, object]) -> bool:
        needed = [name for name, kind in self.fitted.items() if kind.is_needed]
        return not needed or any(name in state for name in needed)

    def _check_kinds(self, state: Mapping[str, Any], where: str) -> None:
        sizes: Sizes = {}
        for name, kind in self.fitted.items():
            if name in state and not kind.fits(state[name], sizes):
                place = f"{where}.{name}" if where else name
                if inspect.isroutine(state[name]):
                    raise ModelFileError(f"{place} of {self.name} is the function {state[name].__name__}")
                raise ModelFileError(f"{place} of {self.name} must be {kind.described}, of sizes that fit the others")

    def made(self, state: Mapping[str, object], where: str) -> Any:
        """Return an object with this state; refuse a state that contradicts itself."""
        self._check_kinds(state, where)
        names = tuple(self.fitted) if self.is_plain else self.parameter_names()
        given = {name: state[name] for name in names}
        try:
            value = self.type(**given)
            if not self.is_plain:
                vars(value).update({name: one for name, one in state.items() if name not in given})
                _check_parameters(value)
            if self._is_fitted(state):
                for step in (self.check, self.finish):
                    if step is not None:
                        step(value)
        except ModelFileError as error:
            raise ModelFileError(f"{where + ': ' if where else ''}{error}") from None
        return value


def _check_parameters(value: Any) -> None:
    """Refuse invalid parameters, by the rules of the class itself."""
    if hasattr(value, "validate_parameters"):
        value.validate_parameters()
    elif hasattr(value, "parameter_constraints"):
        check_parameters(value)
    elif hasattr(value, "_parameter_constraints"):  # scikit-learn
        value._validate_params()


#: All entries by key, and keys by the name of the class.
_ENTRIES: dict[str, Entry] = {}


def register(*entries: Entry) -> None:
    """Add entries to the registry."""
    for entry in entries:
        _ENTRIES[entry.key] = entry


def _all_entries() -> dict[str, Entry]:
    from flipproof.store import own_classes, sklearn_classes  # noqa: F401 - they fill the registry

    return _ENTRIES


def registered_classes() -> tuple[str, ...]:
    """Return the names of all classes whose objects can be stored: module and class.

    Returns
    -------
    tuple of str
        The names, sorted.

    See Also
    --------
    flipproof.save : Write a model to a file.

    Examples
    --------
    >>> from flipproof.store import registered_classes
    >>> "flipproof.learners.ridge.CertifiedRidgeClassifier" in registered_classes()
    True
    """
    return tuple(_all_entries())


def entry_named(key: object, where: str) -> Entry:
    """Return the entry with this key; refuse all other names."""
    found = _all_entries().get(key) if isinstance(key, str) else None
    if found is None:
        raise ModelFileError(f"{where or 'the model'} is of the class {str(key)[:100]!r}, which no model contains")
    return found


def entry_of(value: object, where: str) -> Entry:
    """Return the entry of an object's class; refuse other classes, and subclasses, which may compute differently."""
    kind = type(value)
    for entry in _all_entries().values():
        if entry.name == kind.__name__ and entry.type is kind:
            return entry
    what = f"the function {value.__name__}" if inspect.isroutine(value) else f"a {kind.__module__}.{kind.__qualname__}"
    raise ModelFileError(f"{where or 'the model'} is {what}, which cannot be stored: {REMEDY}.")
