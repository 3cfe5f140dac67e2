"""Certificates, attacks and printed output do not change unintentionally."""

import json
import math

import pytest

from golden.record import FILE, recorded, versions

GOLDEN = json.loads(FILE.read_text())


@pytest.fixture(scope="module")
def now():
    return recorded()


def test_every_value_equals_the_recorded_one(now):
    """Exactly with the recorded versions; with others, the last bits of weights may differ."""
    assert list(now) == list(GOLDEN["values"])
    different = [name for name, value in GOLDEN["values"].items() if not same(json.loads(json.dumps(now[name])), value)]
    allowed = 0 if versions() == GOLDEN["versions"] else len(now) // 20
    assert len(different) <= allowed, f"{len(different)} of {len(now)} values are different: {different[:10]}"


def test_a_change_is_noticed():
    first = next(iter(GOLDEN["values"].values()))
    assert same(first, json.loads(json.dumps(first)))
    assert not same(first, first | {"radius": [first["radius"][0] + 1, *first["radius"][1:]]})
    assert not same(
        first, first | {"margin": [math.nextafter(float.fromhex(first["margin"][0]), 9).hex(), *first["margin"][1:]]}
    )


def same(one, two):
    """Compare values; failure probabilities, sums of logarithms, to nine digits: processors differ in them."""
    if isinstance(one, dict) and isinstance(two, dict) and "log_failure" in one:
        logs = ([float.fromhex(value) for value in each["log_failure"]] for each in (one, two))
        close = all(
            math.isclose(a, b, rel_tol=1e-9) or (math.isnan(a) and math.isnan(b)) for a, b in zip(*logs, strict=True)
        )
        return close and {**one, "log_failure": 0} == {**two, "log_failure": 0}
    return one == two
