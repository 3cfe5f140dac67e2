"""Problems with fixed seeds in every run, fresh ones on request, and tests of the judge itself."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from patience import SECONDS
from tiers import mostly_slow

import flipproof
from fuzz.judge import judge
from fuzz.problems import LEARNERS, MOST_LABELLINGS, Labels, Problem, n_attacks, problem_of
from fuzz.run import main
from fuzz.tally import ADVERSARIES, Tally, judge_seeds

#: Twice every learner with every adversary; 11 has no factor in common with that, so that each part has some of all.
CASES, CHUNKS = 330, 11

#: The smallest share of problems that learners must accept.
LEAST_ACCEPTED = 0.65


def judged(seeds, record_property, **options):
    tally, scripts = Tally(), []
    for seed, findings in judge_seeds(seeds, tally, **options):
        scripts += [f"# seed {seed}: {one.kind}\n{one.script}" for one in findings]
    record_property("fuzz", json.dumps({"table": str(tally), "cases": tally.n_cases}))
    assert not scripts, f"{len(scripts)} findings, the first of them:\n{scripts[0]}\n{tally}"
    return tally


@pytest.mark.parametrize("chunk", mostly_slow(range(CHUNKS), fast=(2,)))
def test_the_judge_finds_nothing_wrong_with_fixed_seeds(chunk, record_property):
    tally = judged(range(chunk, CASES, CHUNKS), record_property)
    assert tally.n_cases == CASES // CHUNKS
    assert tally.accepted_share >= LEAST_ACCEPTED
    assert tally.n_listed >= tally.n_cases / 3
    assert tally.n_refits >= 5 * tally.n_cases


def test_the_judge_finds_nothing_wrong_with_fresh_seeds(fuzz_minutes, record_property, capsys):
    first = time.time_ns() // 1000
    with capsys.disabled():
        sys.stderr.write(f"\nfresh problems: seeds from {first} on\n")
    tally = judged(range(first, first + 10**12), record_property, seconds=60 * fuzz_minutes)
    assert tally.accepted_share >= LEAST_ACCEPTED


def test_fixed_seeds_reach_every_learner_and_adversary():
    problems = [problem_of(seed) for seed in range(CASES)]
    reached = Counter((problem.learner, problem.adversary) for problem in problems)
    missing = [
        (learner, adversary) for learner in LEARNERS for adversary in ADVERSARIES if not reached[learner, adversary]
    ]
    assert not missing
    assert sum(n_attacks(problem) <= 20_000 for problem in problems) > 0.7 * CASES
    assert sum(problem.cuts is not None for problem in problems) > 0.05 * CASES
    assert max(problem.n_classes for problem in problems) > 100
    assert max(len(problem.codes) for problem in problems) >= 200
    sizes = [np.abs(problem.X[problem.X != 0]) for problem in problems if problem.learner == "ridge"]
    assert min(one.min() for one in sizes if one.size) < 1e-300
    assert max(one.max() for one in sizes if one.size) > 1e300


def test_a_seed_always_gives_the_same_problem():
    for seed in range(50):
        one, other = problem_of(seed), problem_of(seed)
        assert one.code == other.code
        assert one.X.tobytes() == other.X.tobytes()
        assert one.adversary_source == other.adversary_source


def test_small_problems_have_few_enough_attacks_to_try_all():
    problems = [problem_of(seed, small=True) for seed in range(200)]
    assert max(len(problem.codes) - sum(problem.unlabeled or ()) for problem in problems) == 7
    assert 1000 < max(map(n_attacks, problems)) <= MOST_LABELLINGS


PLAIN = Problem(
    seed=0,
    learner="ridge",
    code="CertifiedRidgeClassifier(regularization=0.1, classes=['a', 'b', 'c'])",
    X=np.array([[0.0, 0.1], [0.3, 0.2], [0.1, 0.4], [2.1, 0.0], [2.3, 0.3], [0.2, 2.2], [0.0, 2.5]]),
    Z=np.array([[0.2, 0.3], [1.3, 0.1]]),
    labels=Labels(("'a'", "'b'", "'c'")),
    codes=(0, 0, 0, 1, 1, 2, 2),
)


def with_learner(name):
    return replace(PLAIN, code=PLAIN.code.replace("CertifiedRidgeClassifier", name))


def run_script(script, folder):
    (folder / "counterexample.py").write_text(script)
    path = os.pathsep.join([os.path.dirname(os.path.dirname(flipproof.__file__))])
    return subprocess.run(
        [sys.executable, "counterexample.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.slow
def test_the_judge_accepts_a_sound_learner():
    verdict = judge(PLAIN, all_refits=True)
    assert verdict.findings == []
    assert verdict.n_refits == 3**7
    assert verdict.is_listed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "kind", "mended"),
    mostly_slow(
        [
            ("RadiusTooLarge", "radius too large (exact)", ("found.radius + 1", "found.radius")),
            ("RadiusTooSmall", "radius too small (exact)", ("found.radius - 1", "found.radius")),
            (
                "WrongPrediction",
                "form: certificates.prediction",
                ("prediction=last, rival=first", "method=found.method"),
            ),
            ("WrongRival", "rival", ("rival=np.array([other[-1] for other in others])", "method=found.method")),
            ("ReadsLabels", "weights", ("1e-3 if", "1e3 if")),
        ],
        fast=(0,),
    ),
)
def test_the_judge_notices_wrong_certificates(learner, kind, mended, tmp_path):
    found = [one for one in judge(with_learner(learner)).findings if one.kind.startswith(kind)]
    assert found
    script = found[0].script
    failed = run_script(script, tmp_path)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "AssertionError" in failed.stderr
    assert mended[0] in script
    passed = run_script(script.replace(*mended), tmp_path)
    assert passed.returncode == 0, passed.stdout + passed.stderr


@pytest.mark.slow
@pytest.mark.parametrize("method", ["kl", "tight"])
def test_the_judge_notices_radii_that_the_failure_probability_does_not_prove(method, tmp_path):
    """Even if the exact radius is larger."""
    problem = replace(PLAIN, code=PLAIN.code.replace("0.1,", "0.1, noise='auto', precision=16,"))
    assert judge(problem).findings == []
    problem = replace(problem, code=problem.code.replace("CertifiedRidgeClassifier", "RadiusTooLarge"))
    found = [one for one in judge(problem).findings if one.kind == f"not proved ({method})"]
    assert found
    assert run_script(found[0].script, tmp_path).returncode == 1
    assert run_script(found[0].script.replace("found.radius + 1", "found.radius"), tmp_path).returncode == 0


def test_the_judge_notices_understated_failure_probabilities():
    kinds = {one.kind for one in judge(with_learner("FailureTooSmall")).findings}
    assert kinds == {"log_failure (kl)", "log_failure (tight)"}


@pytest.mark.slow
def test_the_judge_notices_overconfident_partitions(monkeypatch):
    problem = replace(
        PLAIN,
        learner="partition",
        code="CertifiedPartitionClassifier(DecisionTreeClassifier(), 5, classes=['a', 'b', 'c'])",
    )
    assert judge(problem).findings == []
    certify = flipproof.CertifiedPartitionClassifier.certify

    def too_sure(self, X, method=None, adversary=None):
        found = certify(self, X, method, adversary)
        return replace(found, radius=found.radius + 2)

    monkeypatch.setattr(flipproof.CertifiedPartitionClassifier, "certify", too_sure)
    assert "radius too large (gap)" in {one.kind for one in judge(problem).findings}


def test_refusals_are_counted_and_other_exceptions_are_findings(monkeypatch):
    refused = judge(replace(PLAIN, X=np.full_like(PLAIN.X, np.nan)))
    assert "NaN" in refused.refused
    assert not refused.findings
    assert not refused.judged

    def breaks(self, X, y):
        raise ZeroDivisionError("nothing to divide by")

    monkeypatch.setattr(flipproof.CertifiedRidgeClassifier, "fit", breaks)
    assert [one.kind for one in judge(PLAIN).findings] == ["exception"]


def test_warnings_from_the_library_are_findings(monkeypatch):
    source = compile("import warnings\nwarnings.warn('odd', RuntimeWarning)", flipproof.__file__, "exec")
    predict = flipproof.CertifiedRidgeClassifier.predict
    monkeypatch.setattr(
        flipproof.CertifiedRidgeClassifier, "predict", lambda self, X: (exec(source), predict(self, X))[1]
    )
    assert {one.kind for one in judge(PLAIN).findings} == {"warning"}


@pytest.mark.slow
def test_the_command_prints_the_table_and_the_scripts(capsys, monkeypatch, tmp_path):
    assert main(["--cases", "3", "--seed", "1", "--small"]) in (0, 1)
    assert "3 problems" in capsys.readouterr().out
    monkeypatch.setattr("fuzz.tally.problem_of", lambda seed, small: replace(with_learner("RadiusTooLarge"), seed=seed))
    assert main(["--cases", "2", "--seed", "7", "--folder", str(tmp_path)]) == 1
    printed = capsys.readouterr().out
    assert "# seed 7: radius too large (exact)" in printed
    assert "class RadiusTooLarge" in printed
    assert list(tmp_path.glob("7_*.py"))


def test_an_interrupt_still_prints_the_table(capsys, monkeypatch):
    def interrupted(problem, all_refits):
        raise KeyboardInterrupt

    monkeypatch.setattr("fuzz.tally.judge", interrupted)
    assert main(["--minutes", "1"]) == 0
    printed = capsys.readouterr().out
    assert "interrupted" in printed
    assert "0 problems" in printed
