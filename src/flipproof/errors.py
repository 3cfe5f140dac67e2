"""Errors about parameters that keep the parameters apart from the words around them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """A parameter that a message names: Python code calls it by its name, the command line by its option.

    Attributes
    ----------
    name : str
        Its name in Python.
    value : str
        An example of a value, or the value that is meant.
    of_learner : bool
        Whether it is a parameter of the learner, not of the function that was called.
    """

    name: str
    value: str = ""
    of_learner: bool = False

    def __str__(self) -> str:
        return f"{self.name}={self.value}" if self.value else repr(self.name)


class InputError(ValueError):
    """Input that cannot be used, in one line.

    Parameters
    ----------
    *parts : str or Parameter
        The message. Parameters in it are named when it is shown.
    """

    def __init__(self, *parts: str | Parameter) -> None:
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.worded(str)

    def worded(self, name: Callable[[Parameter], str]) -> str:
        """Return the message with each parameter called as `name` says."""
        return "".join(part if isinstance(part, str) else name(part) for part in self.args)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a question that names what may have been meant, or nothing."""
    known = list(names)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if not close:  # letters of other case are farther away than other letters
        close = [one for one in known if one.lower() == name.lower()][:1]
    return f" Did you mean {close[0]!r}?" if close else ""
