"""Progress of commands: a bar on a terminal, a line every ten seconds elsewhere, nothing if quiet."""

import io
import re

import numpy as np
import pytest
from rich.console import Console

from flipproof.cli import talk
from flipproof.cli.group import run
from flipproof.runtime import progress as counting
from flipproof.runtime.progress import CountedProgress


@pytest.fixture
def rows(tmp_path):
    """A table of 60 training and 20 test rows."""
    X = np.random.default_rng(0).normal(size=(80, 2))
    lines = [f"{a},{b},{int(a > 0)}" for a, b in X]
    for name, part in {"train": lines[:60], "test": lines[60:]}.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,y", *part]))
    return ["--train", str(tmp_path / "train.csv"), "--test", str(tmp_path / "test.csv"), "--label", "y"]


@pytest.mark.parametrize("learner", ["ridge", "partition"])
def test_without_a_terminal_steps_and_rows_are_lines(learner, rows, capfd, monkeypatch):
    assert run(["certify", *rows, "--learner", learner]) == 0
    assert capfd.readouterr().err == ""  # all within ten seconds
    monkeypatch.setattr(counting, "BETWEEN_LINES", 0.0)
    assert run(["certify", *rows, "--learner", learner]) == 0
    said = capfd.readouterr().err
    assert f"flipproof: Fitting {learner} to 60 rows\n" in said
    assert re.search(r"flipproof: Certifying 20 predictions: 20 of 20 test rows, \d+ s\n", said)
    assert run(["certify", *rows, "--learner", learner, "--quiet"]) == 0
    assert capfd.readouterr().err == ""


def test_on_a_terminal_a_bar_counts_rows(monkeypatch):
    screen = Console(stderr=True, width=80, record=True, force_terminal=True, file=io.StringIO())
    monkeypatch.setattr(talk, "Console", lambda stderr: screen)
    monkeypatch.setattr(talk.sys.stderr, "isatty", lambda: True, raising=False)
    with talk.progress(2) as step:
        step("Fitting")
        step("Certifying 300 predictions")
        counted = CountedProgress(300, "test rows", 1)
        counted.advance(100)
        screen.print("now")
    shown = screen.export_text()
    assert re.search(r"2/2 Certifying 300 predictions .* 100/300 about \d+ s left", shown)
