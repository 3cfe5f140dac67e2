"""Every public name has a numpydoc docstring: parameters, returns, an example, and See Also."""

import importlib
import inspect
import re

import pytest

import flipproof
import flipproof_verify

#: Findings that count: no docstring, summaries, order of sections, parameters, returns, See Also, examples.
CODES = {
    "GL07",
    "GL08",
    "SS01",
    "SS03",
    "PR01",
    "PR02",
    "PR03",
    "PR07",
    "RT01",
    "RT03",
    "SA01",
    "SA02",
    "SA03",
    "SA04",
    "EX01",
}


def public_names():
    names = [f"flipproof.{name}" for name in flipproof.PUBLIC_NAMES]
    for room in flipproof.PUBLIC_SUBPACKAGES:
        own = getattr(importlib.import_module(f"flipproof.{room}"), "__all__", ())
        names += [f"flipproof.{room}.{name}" for name in own if name not in flipproof.PUBLIC_NAMES]
    return [*names, *(f"flipproof_verify.{name}" for name in flipproof_verify.__all__ if not name.isupper())]


def _attributes(thing):
    """Return the words in the sections "Attributes" of a class and its bases: results describe their fields there."""
    docs = [inspect.getdoc(one) or "" for one in thing.__mro__] if inspect.isclass(thing) else []
    sections = [doc.split("Attributes\n----------\n")[1] for doc in docs if "Attributes\n---" in doc]
    return set(re.findall(r"\w+", " ".join(sections)))


def findings(name):
    from numpydoc.validate import validate

    module, _, last = name.rpartition(".")
    thing = getattr(importlib.import_module(module), last)
    is_exception = inspect.isclass(thing) and issubclass(thing, BaseException)
    for code, message in validate(name)["errors"]:
        if code not in CODES or (is_exception and code in {"EX01", "PR01"}):
            continue
        missing = re.findall(r"'(\w+)'", message) if code == "PR01" else []
        if code == "PR01" and all(one.startswith("_") or one in _attributes(thing) for one in missing):
            continue
        yield f"{name}: {code} {message}"


@pytest.mark.deep("numpydoc")
def test_docstrings_of_public_names_are_complete():
    assert [found for name in public_names() for found in findings(name)] == []
