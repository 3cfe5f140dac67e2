"""Chernoff tails against high-precision arithmetic."""

import mpmath
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from flipproof.core.histograms import VoteHistogram
from flipproof.core.noise import LabelFlip
from flipproof.core.tails import find_witness, log_failures_upper, mean_offset_lower

NOISES = [1e-10, 1e-4, 0.1, 0.475]


def histogram_of(votes, labels, K):
    """One test row, with a separate level for each vote: no binning."""
    counts = np.zeros((1, K, len(votes)), dtype=np.int64)
    counts[0, labels, np.arange(len(votes))] = 1
    order = np.argsort(votes)
    return VoteHistogram(np.asarray(votes)[None, order], counts[:, :, order], len(votes))


def leader(votes, labels, K):
    return int(np.argmax([votes[labels == c].sum() for c in range(K)]))


def search(votes, labels, K, q, offset=0):
    """Winner, closest rival, t and the bound of one test row."""
    noise = LabelFlip(q, K)
    histogram = histogram_of(votes, labels, K)
    winner = leader(votes, labels, K)
    totals = np.array([votes[labels == c].sum() for c in range(K)], dtype=float)
    totals[winner] = -np.inf
    rival = int(np.argmax(totals))
    offsets = mean_offset_lower(np.full((1, K), offset), noise)
    t = find_witness(histogram, np.array([winner]), np.array([rival]), offsets[:, rival], noise)
    bound = log_failures_upper(histogram, np.array([winner]), offsets, t, noise)[0, rival]
    return winner, rival, float(t[0]), float(bound)


def log_b(votes, labels, K, q, winner, rival, t, offset=0):
    """M1 term by term, at the current precision of mpmath."""
    q, t = mpmath.mpf(q), mpmath.mpf(t)
    own, other = 1 - q, q / (K - 1)
    total = -t * (1 - K * q / (K - 1)) * offset
    cache = {}
    for vote, label in zip(votes.tolist(), labels.tolist(), strict=True):
        kind = 0 if label == winner else 1 if label == rival else 2
        if (vote, kind) not in cache:
            up, down = [(own, other), (other, own), (other, other)][kind]
            x = t * vote
            cache[vote, kind] = mpmath.log(up * mpmath.exp(-x) + (1 - up - down) + down * mpmath.exp(x))
        total += cache[vote, kind]
    return total


def problem(K, n=5000, seed=0, bits=10):
    rng = np.random.default_rng(seed)
    labels = rng.integers(K, size=n)
    votes = rng.normal(size=n) * 2 ** (bits - 3) + np.where(labels == 0, 1, -1 / K) * 2 ** (bits - 5)
    return np.clip(np.rint(votes), -(2**bits) + 1, 2**bits - 1).astype(np.int64), labels


@pytest.mark.few(2)
@pytest.mark.parametrize("q", NOISES)
@pytest.mark.parametrize("K", [2, 3, 10])
@pytest.mark.parametrize("bits", [10, 24])
def test_the_bound_is_an_upper_bound_to_nine_digits(q, K, bits):
    votes, labels = problem(K, bits=bits)
    winner, rival, t, bound = search(votes, labels, K, q)
    with mpmath.workdps(40):
        true = log_b(votes, labels, K, q, winner, rival, t)
        assert bound < -0.1
        assert bound >= true
        assert bound == pytest.approx(float(true), rel=1e-9)


@pytest.mark.parametrize("q", NOISES)
@pytest.mark.parametrize(("K", "bits"), [(2, 10), (10, 10), (2, 24)])
def test_the_witness_is_nearly_optimal(q, K, bits):
    votes, labels = problem(K, bits=bits, seed=1)
    winner, rival, t, bound = search(votes, labels, K, q)
    other = q / (K - 1)

    def plain(t):
        x = t * votes.astype(float)
        total = 0.0
        for kind, up, down in ((winner, 1 - q, other), (rival, other, 1 - q), (None, other, other)):
            at = x[labels == kind] if kind is not None else x[(labels != winner) & (labels != rival)]
            stay = np.full(len(at), np.log(max(1 - up - down, 1e-300)))
            total += np.logaddexp(np.logaddexp(np.log(up) - at, stay), np.log(down) + at).sum()
        return total

    best = minimize_scalar(plain, bounds=(t / 2, 2 * t), method="bounded", options={"xatol": 1e-9 * t})
    assert t / 1.9 < best.x < 1.9 * t
    assert best.fun * (1 + 1e-9) <= bound < best.fun * (1 - 1e-4)


@pytest.mark.few(12)
@pytest.mark.parametrize("q", [*NOISES, 1e-12, 0.4999])
@pytest.mark.parametrize("seed", range(5))
def test_two_classes_are_the_papers_algorithm_1(q, seed):
    """Algorithm 1 written out directly: minimise over t, unconstrained, with the threshold 1/2 and no intercept."""
    rng = np.random.default_rng(seed)
    n, s = 40, 12
    k = rng.integers(-(2**8), 2**8, size=n)
    k[: n // 2] = np.abs(k[: n // 2])
    y = (np.arange(n) < n // 2).astype(int)
    alpha = k / 2.0**s * 1.7
    alpha = np.rint(alpha * 2**s) / 2**s
    votes = np.rint(alpha * 2**s).astype(np.int64)

    def objective(t):
        ones = mpmath.fsum(mpmath.log(q + (1 - mpmath.mpf(q)) * mpmath.exp(-t * a)) for a in alpha[y == 1])
        zeros = mpmath.fsum(mpmath.log((1 - mpmath.mpf(q)) + q * mpmath.exp(-t * a)) for a in alpha[y == 0])
        return mpmath.mpf(t) / 2 + ones + zeros

    # the deployed rule's mean margin for class 1: (1 - 2q) alpha'y + q sum(alpha) - 1/2; its sign is that of t*
    signal = 1 - 2 * q
    mean_margin = signal * alpha[y == 1].sum() + q * alpha.sum() - 0.5
    winner = int(mean_margin > 0)
    # b_1 - b_0 = sum(alpha) - 1, in grid units, as a float bound on the noisy margin's offset
    offset = (alpha.sum() - 1) * 2**s * (1 if winner == 1 else -1)
    noise = LabelFlip(q, 2)
    histogram = histogram_of(votes, y, 2)
    t = find_witness(histogram, np.array([winner]), np.array([1 - winner]), np.array([offset]), noise)
    bound = log_failures_upper(histogram, np.array([winner]), np.full((1, 2), offset), t, noise)[0, 1 - winner]
    with mpmath.workdps(30):
        # t of the paper = 2 s of the K-class form, negative for class 0
        paper_t = 2 * mpmath.mpf(float(t[0])) * 2**s * (1 if winner == 1 else -1)
        assert float(bound) == pytest.approx(float(objective(paper_t)), rel=1e-9, abs=1e-12)
        slope = mpmath.diff(objective, 0)
    assert (slope < 0) == (winner == 1)


def test_one_vote_and_no_vote():
    winner, _, t, bound = search(np.array([3]), np.array([1]), 2, 0.1)
    # M <= 0 exactly if the label is flipped; the best Chernoff bound of one Bernoulli is 2 sqrt(q (1 - q))
    assert winner == 1
    assert bound == pytest.approx(np.log(2 * np.sqrt(0.1 * 0.9)), rel=1e-6)
    assert t > 0
    _, _, t, bound = search(np.zeros(5, dtype=np.int64), np.array([0, 1, 0, 1, 1]), 2, 0.1)
    assert t == 0
    assert bound == 0


@pytest.mark.parametrize("q", [1e-12, 0.3, np.nextafter(0.5, 0)])
def test_predictions_that_no_labels_can_overturn_have_failure_zero(q):
    votes, labels = np.array([5, -3, 1]), np.array([0, 1, 0])
    enough = int(np.ceil(10 / LabelFlip(q, 2).signal)) if q < 0.4 else 2**62
    _, _, t, bound = search(votes, labels, 2, q, offset=enough)
    assert t == np.inf
    assert bound == -np.inf


@pytest.mark.parametrize("q", [1e-12, 1e-6, 0.2, 0.49, 0.4999999])
def test_zeros_huge_and_tiny_votes(q):
    rng = np.random.default_rng(3)
    size = 2 ** rng.integers(0, 24, size=3000)
    size[:500] = 0
    labels = rng.integers(2, size=3000)
    votes = np.where(labels == 1, size, -size) * np.where(rng.random(3000) < 0.05, -1, 1)
    winner, rival, t, bound = search(votes, labels, 2, q)
    with mpmath.workdps(30):
        true = log_b(votes, labels, 2, q, winner, rival, t)
    assert bound >= true
    assert np.isfinite(bound)
    assert bound <= 0
    if q < 0.49:
        assert bound == pytest.approx(float(true), rel=1e-9)


def test_a_million_votes():
    votes, labels = problem(2, n=10**6, bits=8)
    noise = LabelFlip(1e-4, 2)
    levels = np.arange(-256, 256)
    counts = np.stack([np.bincount(votes[labels == c] + 256, minlength=512) for c in range(2)])[None]
    histogram = VoteHistogram(levels[None], counts, 512)
    t = find_witness(histogram, np.array([0]), np.array([1]), np.zeros(1), noise)
    bound = log_failures_upper(histogram, np.array([0]), np.zeros((1, 2)), t, noise)[0, 1]
    assert -1e7 < bound < -1e4


def test_noise_close_to_its_limit_certifies_nothing():
    votes, labels = problem(3, n=500)
    q = np.nextafter(2 / 3, 0)
    *_, bound = search(votes, labels, 3, q)
    assert -1e-6 < bound <= 0
