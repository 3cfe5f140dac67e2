"""The tests can fail: each known mistake, applied to a copy of the source, is noticed."""

import compileall
import importlib.util
import shutil
import tomllib
from pathlib import Path

import pytest
from other_source import errors_of
from tiers import mostly_slow

import flipproof
import flipproof_verify

MUTANTS = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())["mutant"]

#: Those of the first tier: the exact radius, the two noisy ones, a bound, rounding and votes in blocks.
A_FEW = (0, 6, 8, 9, 34, 70)

#: A mistake is noticed by a test that says what should be (Failed: "did not raise"), or by flipproof's own checks of
#: its results. Any other error may have nothing to do with it.
NOTICES = {"AssertionError", "Failed", "InvariantError"}


@pytest.fixture(scope="module")
def compiled_source(tmp_path_factory):
    """A copy of flipproof and of the program that verifies, compiled once for all mutants."""
    folder = tmp_path_factory.mktemp("source")
    for package in (flipproof, flipproof_verify):
        old = Path(package.__file__).parent
        shutil.copytree(old, folder / old.name, ignore=shutil.ignore_patterns("__pycache__"))
    assert compileall.compile_dir(folder, quiet=1)
    return folder


@pytest.fixture
def copied_source(compiled_source, tmp_path):
    shutil.copytree(compiled_source, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.slow
def test_the_unchanged_copy_passes(copied_source):
    errors, printed = errors_of(sorted({test for mutant in MUTANTS for test in mutant["noticed_by"]}), copied_source)
    assert not errors, printed


@pytest.mark.slow
def test_an_unrelated_error_does_not_count_as_noticing(copied_source):
    test = "tests/core/test_rounding.py::test_below_and_above_cover_the_relative_error"
    with (copied_source / "flipproof" / "core" / "rounding.py").open("a") as file:
        file.write("\n\ndef below(*given):\n    return 1 / 0\n")
    errors, _ = errors_of([test], copied_source)
    assert "ZeroDivisionError" in errors[test]
    assert not NOTICES & set(errors[test])


@pytest.mark.few(2)
@pytest.mark.parametrize("mutant", mostly_slow(MUTANTS, fast=A_FEW), ids=lambda mutant: mutant["name"])
def test_the_mistake_is_noticed(mutant, copied_source):
    file = copied_source / mutant.get("package", "flipproof") / mutant["file"]
    text = file.read_text()
    assert text.count(mutant["before"]) == 1, "the mutant no longer fits the source: bring it up to date"
    file.write_text(text.replace(mutant["before"], mutant["after"]))
    Path(importlib.util.cache_from_source(file)).unlink(missing_ok=True)
    errors, printed = errors_of(mutant["noticed_by"], copied_source)
    for test in mutant["noticed_by"]:
        assert NOTICES & set(errors.get(test, [])), f"{test} did not notice: {errors.get(test)}\n{printed}"
