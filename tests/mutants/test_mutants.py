"""The tests can fail: each known mistake, put into a copy of the source, is noticed."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import flipproof

ROOT = Path(__file__).parents[2]
MUTANTS = tomllib.loads((Path(__file__).parent / "mutants.toml").read_text())["mutant"]


def run_tests(source, tests):
    environment = {**os.environ, "PYTHONPATH": str(source), "CI": ""}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-n0", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def copied_source(tmp_path):
    shutil.copytree(Path(flipproof.__file__).parent, tmp_path / "flipproof")
    return tmp_path


def test_the_untouched_copy_passes(copied_source):
    noticing = sorted({test for mutant in MUTANTS for test in mutant["noticed_by"]})
    result = run_tests(copied_source, noticing)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant["name"])
def test_the_mistake_is_noticed(mutant, copied_source):
    file = copied_source / "flipproof" / mutant["file"]
    text = file.read_text()
    assert text.count(mutant["before"]) == 1, "the mutant no longer fits the source: bring it up to date"
    file.write_text(text.replace(mutant["before"], mutant["after"]))
    for test in mutant["noticed_by"]:
        result = run_tests(copied_source, [test])
        assert result.returncode == 1, f"{test} did not notice\n{result.stdout}"
        assert "AssertionError" in result.stdout or "assert" in result.stdout
