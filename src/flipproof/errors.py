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
    of_learner, of_layout : bool
        Whether it belongs to the learner, or to the TextLayout of text files, not to the function that was called.
    owner : str
        The class or function that refuses its value, at the start of a message.
    """

    name: str
    value: str = ""
    of_learner: bool = False
    of_layout: bool = False
    owner: str = ""

    def __str__(self) -> str:
        if self.owner:
            return f"The {self.name!r} parameter of {self.owner}"
        if self.of_layout:
            return f"layout=TextLayout({self.name}={self.value or '...'})"
        return f"{self.name}={self.value}" if self.value else repr(self.name)


@dataclass(frozen=True)
class RowNumber:
    """A row in a message: shown by its number, or by its line or id where these are known.

    Attributes
    ----------
    number : int
        Number of the row in its table, from 0 on.
    """

    number: int

    def __str__(self) -> str:
        return f"row {self.number}"


@dataclass(frozen=True)
class Way:
    """What to call instead, in a message: a function in Python, a command on the command line.

    Attributes
    ----------
    in_python, in_a_shell : str
        The call, and the command.
    """

    in_python: str
    in_a_shell: str

    def __str__(self) -> str:
        return self.in_python


class InputError(ValueError):
    """Invalid input. The message is one line.

    Parameters
    ----------
    *parts : str, Parameter, Way or RowNumber
        The message. Parameters, ways and rows are named when it is shown.
    """

    def __init__(self, *parts: str | Parameter | Way | RowNumber) -> None:
        super().__init__(*parts)

    def __str__(self) -> str:
        return self.worded(str)

    def worded(self, name: Callable[[Parameter | Way], str]) -> str:
        """Return the message; `name` returns the text for each parameter and each way."""
        return "".join(name(part) if isinstance(part, Parameter | Way) else str(part) for part in self.args)

    def with_rows(self, named: Callable[[int], str]) -> InputError:
        """Return the same error; `named` returns the text for each row number."""
        return type(self)(*(named(part.number) if isinstance(part, RowNumber) else part for part in self.args))


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a suggestion such as " Did you mean 'label'?", or an empty string if no name is similar."""
    known = list(names)
    close = difflib.get_close_matches(name, known, n=1)
    if not close:  # difflib treats another case as another letter
        close = [one for one in known if one.lower() == name.lower()][:1]
    return f" Did you mean {close[0]!r}?" if close else ""
