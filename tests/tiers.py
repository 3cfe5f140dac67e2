"""Which values of a parametrized test run by default, and which with `pytest --all` only."""

import pytest


def mostly_slow(values, fast):
    """Return the values of a parameter, all marked slow except those at the positions `fast`."""
    values = list(values)
    return [
        value
        if place in fast
        else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
        for place, value in enumerate(values)
    ]
