"""`certify(X, at_least=r)`: the smaller of the exact radius and r, in every problem."""

import dataclasses
import itertools

import numpy as np
import pytest

import flipproof
from flipproof import Adversary, CertifiedKernelClassifier, CertifiedRidgeClassifier, certified_accuracy, metrics
from flipproof.core.exact import gain_factors
from flipproof.core.gains import GainBounds
from flipproof.core.votes import all_votes
from flipproof.report.markdown import render_markdown
from flipproof.report.summary import summarize

LIMITS = (0, 1, 2, 3, 5, 9, 17, 60, 10_000)


def same_but_cut(model, Z, limit, adversary=None):
    """Check one limit against the exact certificates; return how many rows reached it."""
    exact, cut = model.certify(Z, "exact", adversary), model.certify(Z, "exact", adversary, at_least=limit)
    assert np.array_equal(cut.prediction, exact.prediction)
    assert np.array_equal(cut.radius, np.minimum(exact.radius, limit))
    reached = (exact.radius >= limit) | exact.unlimited
    assert np.array_equal(cut.may_be_larger, (exact.radius >= limit) & ~cut.unlimited)
    assert np.array_equal(cut.unlimited, exact.unlimited & (exact.radius <= limit))
    assert np.array_equal(cut.rival[~reached], exact.rival[~reached])
    assert np.array_equal(cut.margin[~reached], exact.margin[~reached])
    assert np.array_equal(cut.rival[reached], cut.prediction[reached])
    assert np.isnan(cut.margin[reached]).all()
    assert (cut.radius_limit, cut.n_touchable, cut.unit) == (limit, exact.n_touchable, exact.unit)
    return int(np.count_nonzero(reached))


def random_problem(rng):
    """Draw a small problem: ties, scales from 1e-30 to 1e30, all numbers of bits, few or many rows."""
    n, k, K = int(rng.integers(2, 120)), int(rng.integers(1, 6)), int(rng.choice([2, 3, 5]))
    X = rng.normal(size=(n, k)) if rng.random() < 0.6 else rng.integers(-1, 2, size=(n, k)).astype(float)
    y = rng.integers(K, size=n)
    if rng.random() < 0.6:
        X += 2.0 * rng.normal(size=(K, k))[y]
    if rng.random() < 0.3:
        X[rng.integers(n)] *= 100
    Z = np.vstack([X[rng.integers(n, size=6)], rng.normal(size=(6, k)), np.zeros((1, k))])
    scale = 10.0 ** rng.integers(-30, 31, size=k) if rng.random() < 0.3 else 1.0
    model = CertifiedRidgeClassifier(
        float(rng.choice([0.01, 0.3])),
        precision=int(rng.choice([2, 3, 6, 10, 12, 16, 24])),
        fit_intercept=bool(rng.random() < 0.6),
        clip=rng.choice([None, None, None, "sign"]),
        regularization=rng.choice(["label-free", 0.0, 10.0]) if rng.random() < 0.5 else "label-free",
        classes=range(K),
    )
    if isinstance(model.regularization, str) and model.regularization != "label-free":
        model.regularization = float(model.regularization)
    return model.fit(X * scale, y), Z * scale, n, K


def random_adversary(rng, n, K):
    kind = rng.integers(6)
    if kind == 0:
        return Adversary(trusted=rng.random(n) < 0.5)
    if kind == 1:
        return Adversary(groups=rng.integers(max(n // 3, 1), size=n))
    if kind == 2:
        return Adversary(allowed=[(0, 1), (1, 0)])
    return None


@pytest.mark.parametrize("seed", range(10))
def test_random_problems(seed):
    rng = np.random.default_rng(seed)
    for _ in range(25):
        model, Z, n, K = random_problem(rng)
        adversary = random_adversary(rng, n, K)
        for limit in rng.choice(LIMITS, size=4, replace=False):
            same_but_cut(model, Z, int(limit), adversary)


def test_gains_are_not_above_their_bounds():
    rng = np.random.default_rng(1)
    for _ in range(80):
        model, Z, n, K = random_problem(rng)
        if model.clip is not None:
            continue
        source = model.votes_on(model.test_rows(Z))
        votes, codes = all_votes(source), model.label_codes_
        bounds = GainBounds.of(model._held, codes, K)
        winner = rng.integers(K, size=len(Z))
        for flips in (1, 2, 5, n):
            upper = bounds.gains_upper(source.coefficients, winner, flips)
            for row, rival in itertools.product(range(len(Z)), range(K)):
                if rival == winner[row]:
                    continue
                anything = ~np.eye(K, dtype=bool)
                factors = gain_factors(anything, winner[row : row + 1], rival)[0]
                gains = factors[codes, (votes[row] < 0).astype(int)] * np.abs(votes[row])
                assert np.sort(gains)[::-1][:flips].sum() <= upper[row, rival]


def blobs(n=3000, K=3, seed=0):
    rng = np.random.default_rng(seed)
    centres = 2.0 * rng.normal(size=(K, 8))
    y = rng.integers(K, size=n)
    return centres[y] + rng.normal(size=(n, 8)), y


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("learner", ["ridge", "paper", "landmarks"])
def test_rows_are_decided_without_votes(K, learner, monkeypatch):
    X, y = blobs(K=K)
    kinds = {
        "ridge": CertifiedRidgeClassifier(classes=range(K)),
        "paper": CertifiedRidgeClassifier(classes=range(K), fit_intercept=False),
        "landmarks": CertifiedKernelClassifier(n_components=40, classes=range(K)),
    }
    model = kinds[learner].fit(X[:2500], y[:2500])
    for limit in (1, 5, 20):
        same_but_cut(model, X[2500:], limit)
        same_but_cut(model, X[2500:], limit, Adversary(trusted=np.arange(2500) % 3 == 0))
    visited, votes_on = [], type(model).votes_on
    monkeypatch.setattr(type(model), "votes_on", lambda self, Z: visited.append(len(Z)) or votes_on(self, Z))
    model.certify(X[2500:], at_least=3)
    assert sum(visited) < 250


def test_results_do_not_depend_on_blocks_and_threads():
    X, y = blobs()
    model = CertifiedRidgeClassifier(classes=range(3)).fit(X[:2500], y[:2500])
    whole = model.certify(X[2500:], at_least=40)
    other = model.set_params(block_size=7, n_jobs=2).certify(X[2500:], at_least=40)
    for name in ("prediction", "radius", "rival", "margin", "unlimited"):
        assert np.array_equal(getattr(whole, name), getattr(other, name), equal_nan=name == "margin")


def test_other_learners_and_tables_cut_exact_radii():
    X, y = blobs(400)
    for model in (
        flipproof.CertifiedNeighborsClassifier(classes=range(3)),
        flipproof.CertifiedForestClassifier(classes=range(3)),
        flipproof.CertifiedPartitionClassifier(n_partitions=9, classes=range(3)),
        flipproof.StreamingRidgeClassifier(classes=range(3)),
    ):
        fitted = model.fit(X[:300], y[:300])
        exact, cut = flipproof.certify(fitted, X[300:]), flipproof.certify(fitted, X[300:], at_least=2)
        assert np.array_equal(cut.radius, np.minimum(exact.radius, 2))


def test_rows_are_cut_too():
    X, y = blobs(400)
    model = CertifiedRidgeClassifier(classes=range(3), clip=0.9).fit(X[:200], y[:200], reference=X[200:300])
    for limit in (0, 1, 3, 1000):
        same_but_cut(model, X[300:], limit, Adversary(changes="rows"))
        same_but_cut(model, X[300:], limit)


@pytest.fixture
def limited():
    X, y = blobs(500)
    model = CertifiedRidgeClassifier(classes=range(3)).fit(X[:400], y[:400])
    return model.certify(X[400:], at_least=4), y[400:], model.certify(X[400:])


def test_limits_are_named_wherever_radii_are_shown(limited):
    cut, _, exact = limited
    row = int(np.flatnonzero(cut.may_be_larger)[0])
    below = int(np.flatnonzero(~cut.may_be_larger)[0])
    assert "exact radius may be larger" in str(cut[row])
    assert "rival class is" in str(cut[below])
    assert "4 or more" in repr(cut)
    assert cut.to_frame()["may_be_larger"].tolist() == cut.may_be_larger.tolist()
    assert "may_be_larger" not in exact.to_frame()
    assert any("only up to 4" in str(one) for one in cut.assumptions)
    assert cut[[row]].radius_limit == 4
    assert "may be larger" in str(dataclasses.replace(cut)[row])


def test_what_needs_exact_radii_refuses_limits(limited, tmp_path):
    cut, truth, exact = limited
    assert certified_accuracy(truth, cut, [0, 4]).tolist() == certified_accuracy(truth, exact, [0, 4]).tolist()
    with pytest.raises(ValueError, match="only up to 4"):
        certified_accuracy(truth, cut, [5])
    with pytest.raises(ValueError, match="exact radii"):
        cut.save(tmp_path / "proof.flipproof")
    with pytest.raises(ValueError, match="needs method='exact'"):
        cut.origin.model.certify(cut.origin.X, "tight", at_least=3)
    with pytest.raises(ValueError, match="at_least"):
        cut.origin.model.certify(cut.origin.X, at_least=-1)
    assert cut.explain().note.startswith("The smallest attack")


def test_an_audit_up_to_a_limit():
    X, y = blobs(500)
    exact = flipproof.audit((X, y), holdout=0.4, requirements=["accuracy >= 0.5 @ 3"])
    cut = flipproof.audit((X, y), holdout=0.4, requirements=["accuracy >= 0.5 @ 3"], radius_up_to=3)
    assert [one.found for one in cut.requirements] == [one.found for one in exact.requirements]
    assert cut.attacks is None
    assert "or more" in str(cut.summary())
    with pytest.raises(ValueError, match="at least 3"):
        flipproof.audit((X, y), holdout=0.4, requirements=["accuracy >= 0.5 @ 3"], radius_up_to=2)
    with pytest.raises(ValueError, match="radius_up_to"):
        flipproof.audit((X, y), holdout=0.4, radius_up_to=-1)


def limited_problem():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = rng.normal(size=(300, 3)) + 2.0 * y[:, None]
    model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:200], y[:200])
    return model, X[200:], y[200:]


def test_reports_never_take_a_limit_for_a_radius():
    """Up to which number of flips is only known up to the limit, and the report says so."""
    model, Z, truth = limited_problem()
    limited = model.certify(Z, at_least=3)
    summary = summarize({"exact": limited}, y_true=truth)
    assert summary["headline"]["above_constant"] == {"ever": True, "flips": 3, "may_be_larger": True}
    said = " ".join(summary["headline"]["sentences"])
    assert "at least up to 3" in said
    text = render_markdown(summary)
    assert "a radius of 3 means 3 or more" in text
    assert "with one more flip" not in text
    assert metrics.table_flips([limited])[-1] == 3
    baseline = metrics.trusted_only(9, {"alone": np.where(np.arange(100) < 80, truth, -1)}, truth, limited, [])
    assert baseline.better_from is None


def test_curves_end_at_the_limit():
    model, Z, truth = limited_problem()
    display = flipproof.CertifiedAccuracyDisplay.from_certificates(model.certify(Z, at_least=3), truth)
    assert max(display.flips) == 3


def test_a_limit_beyond_64_bits_cuts_nothing():
    model, Z, _ = limited_problem()
    np.testing.assert_array_equal(model.certify(Z, at_least=2**70).radius, model.certify(Z).radius)
