"""Errors about parameters. Messages hold parameters as objects, so that the command line can name options instead."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """A parameter in a message: shown by its name in Python, and by its option on the command line.

    Attributes
    ----------
    name : str
        Name in Python.
    value : str
        The value, or an example of one.
    of_learner : bool
        Whether it belongs to the learner, not to the function that was called.
    """

    name: str
    value: str = ""
    of_learner: bool = False

    def __str__(self) -> str:
        return f"{self.name}={self.value}" if self.value else repr(self.name)


class InputError(ValueError):
    """Invalid input. The message is one line.

    Parameters
    ----------
    *parts : str or Parameter
        The message. Parameters are named when it is shown.
    """

    def __init__(self, *parts: str | Parameter) -> None:
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.worded(str)

    def worded(self, name: Callable[[Parameter], str]) -> str:
        """Return the message; `name` returns the text for each parameter."""
        return "".join(part if isinstance(part, str) else name(part) for part in self.args)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a suggestion such as " Did you mean 'label'?", or an empty string."""
    known = list(names)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if not close:  # difflib treats another case as another letter
        close = [one for one in known if one.lower() == name.lower()][:1]
    return f" Did you mean {close[0]!r}?" if close else ""
