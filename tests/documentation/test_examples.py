"""The scripts of the gallery run without warnings."""

import os
import subprocess
import sys

import pytest
from documentation.pages import ROOT

#: Seconds of computing, on all cores together. The slowest script takes a tenth of it.
LIMIT = 60

EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
QUICK = "01_first_certificates.py"


def _seconds_of_children():
    """Return the computing time of all processes that this one started and that have ended: no load changes it much."""
    times = os.times()
    return times.children_user + times.children_system


@pytest.mark.parametrize(
    "script", [pytest.param(one, marks=[] if one.name == QUICK else pytest.mark.slow, id=one.name) for one in EXAMPLES]
)
def test_an_example_runs_in_under_a_minute(script, tmp_path):
    paths = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    before = _seconds_of_children()
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(script)],
        cwd=tmp_path,
        env=os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert _seconds_of_children() - before < LIMIT


def test_there_are_enough_examples_and_they_are_short():
    assert len(EXAMPLES) >= 12
    assert all(30 <= len(one.read_text().splitlines()) <= 80 for one in EXAMPLES)
