"""Problems with a reference: fixed seeds in every run, fresh ones on request, and tests of the judge itself."""

import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from patience import SECONDS
from tiers import mostly_slow

import flipproof
from fuzz.rows import LEARNERS, RowJudge, judge_rows, main, row_problem_of

#: Problems with fixed seeds; 5 has no factor in common with the number of learners.
CASES, CHUNKS = 175, 5


@pytest.mark.parametrize("chunk", mostly_slow(range(CHUNKS), fast=(0,)))
def test_no_attack_on_rows_beats_a_certificate_with_fixed_seeds(chunk):
    findings, counts, _ = judge_rows(range(chunk, CASES, CHUNKS))
    assert not findings, findings[0][-1]
    assert counts["refits"] > 300
    for learner in ("ridge", "kernel", "forest", "cluster", "own"):
        assert counts[learner, "judged"] >= 2


def test_no_attack_on_rows_beats_a_certificate_with_fresh_seeds(fuzz_minutes):
    first = time.time_ns() // 1000
    findings, counts, _ = judge_rows(range(first, first + 10**12), 60 * fuzz_minutes)
    assert not findings, f"seeds from {first} on: {findings[0][-1]}\n{counts}"


def test_fixed_seeds_reach_every_kind_of_problem():
    problems = [row_problem_of(seed) for seed in range(CASES)]
    assert {one.learner for one in problems} == set(LEARNERS)
    assert {one.changes for one in problems} == {"rows", "insertions", "removals"}
    assert {0, 1} <= {len(one.y) for one in problems}
    assert any(one.groups is not None for one in problems)
    assert any("clip=" in one.code for one in problems)


def judged_kinds(n=50, learner="ridge"):
    findings, _, _ = judge_rows(range(LEARNERS.index(learner), n, len(LEARNERS)))
    return {kind for _, kind, _, _ in findings}


def overstate(monkeypatch, by):
    certify = flipproof.CertifiedRidgeClassifier.certify

    def wrong(self, X, method=None, adversary=None):
        found = certify(self, X, method, adversary)
        return replace(found, radius=np.where(found.unlimited, found.radius, np.maximum(found.radius + by, 0)))

    monkeypatch.setattr(flipproof.CertifiedRidgeClassifier, "certify", wrong)


@pytest.mark.slow
def test_the_judge_notices_radii_that_are_too_large(monkeypatch, tmp_path):
    overstate(monkeypatch, by=1)
    assert "radius too large" in judged_kinds()
    problem = row_problem_of(0)
    script = problem.script("kind", "what", ["assert model.certify(Z, adversary=adversary).radius.min() >= 0"])
    (tmp_path / "script.py").write_text(script)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, timeout=SECONDS, check=False)
    assert done.returncode == 0


@pytest.mark.slow
def test_the_judge_notices_radii_that_are_not_attained(monkeypatch):
    overstate(monkeypatch, by=-1)
    assert "not attained" in judged_kinds()


@pytest.mark.slow
def test_the_judge_notices_votes_that_depend_on_other_rows(monkeypatch):
    place = flipproof.CertifiedForestClassifier.place
    monkeypatch.setattr(
        flipproof.CertifiedForestClassifier,
        "place",
        lambda self, X: place(self, X - X.mean(axis=0) if len(X) else X),
    )
    assert "votes" in judged_kinds(learner="forest")


@pytest.mark.slow
def test_the_judge_notices_rows_that_are_not_forgotten(monkeypatch):
    monkeypatch.setattr(flipproof.CertifiedForestClassifier, "forget", lambda self, rows: self)
    assert "join and leave" in judged_kinds(learner="forest")


def test_exceptions_are_findings(monkeypatch):
    def breaks(self, X):
        raise ZeroDivisionError("nothing to divide by")

    monkeypatch.setattr(flipproof.CertifiedForestClassifier, "loudest_rows", breaks)
    found = [RowJudge(row_problem_of(seed)).run().findings for seed in range(2, 30, 7)]
    assert "exception" in {kind for findings in found for kind, _, _ in findings}


@pytest.mark.slow
def test_the_command_prints_counts(capsys):
    assert main(["--minutes", "0.01", "--seed", "0"]) == 0
    assert "refits" in capsys.readouterr().out
