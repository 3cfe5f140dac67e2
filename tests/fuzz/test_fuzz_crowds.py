"""Trusted labels, priors, weights, annotations, groups and windows at once: fixed seeds, and fresh ones on request."""

import time
from dataclasses import replace

import numpy as np
import pytest
from tiers import mostly_slow

import flipproof
from fuzz.crowds import FORMS, LEARNERS, crowd_problem, judge_crowds, main

#: Problems with fixed seeds.
CASES, CHUNKS = 260, 20


@pytest.mark.parametrize("chunk", mostly_slow(range(CHUNKS), fast=(1,)))
def test_radii_are_exact_with_everything_at_once(chunk):
    findings, counts, _ = judge_crowds(range(chunk, CASES, CHUNKS))
    assert not findings, findings[0]
    assert counts["judged"] >= 5


def test_radii_are_exact_with_fresh_seeds(fuzz_minutes):
    first = time.time_ns() // 1000
    findings, counts, _ = judge_crowds(range(first, first + 10**12), 60 * fuzz_minutes)
    assert not findings, f"{findings[0]}\n{counts}"


def test_fixed_seeds_reach_every_kind_of_problem():
    problems = [crowd_problem(seed) for seed in range(CASES)]
    assert {one.name for one in problems} == set(LEARNERS)
    assert {one.form for one in problems} == set(FORMS)
    assert {one.power for one in problems} == {"labels", "annotators", "windows"}
    together = [
        one
        for one in problems
        if one.learner.prior is not None and one.power != "labels" and one.powers.get("trusted") is not None
    ]
    assert {one.form for one in together} == set(FORMS)
    assert any("trusted" in one.fit_with and "sample_weight" in one.fit_with for one in together)


@pytest.mark.slow
@pytest.mark.parametrize(("by", "kind"), [(1, "radius too large"), (-1, "radius too small")])
def test_the_judge_notices_wrong_radii(monkeypatch, by, kind):
    certify = flipproof.CertifiedRidgeClassifier.certify

    def wrong(self, X, method=None, adversary=None):
        found = certify(self, X, method, adversary)
        return replace(found, radius=np.where(found.unlimited, found.radius, np.maximum(found.radius + by, 0)))

    monkeypatch.setattr(flipproof.CertifiedRidgeClassifier, "certify", wrong)
    findings, _, _ = judge_crowds(range(0, 40 * len(LEARNERS), len(LEARNERS)), 30)
    assert kind in {found for found, _ in findings}


@pytest.mark.slow
def test_the_command_prints_counts(capsys):
    assert main(["--cases", "3", "--seed", "0"]) == 0
    assert "refits" in capsys.readouterr().out
