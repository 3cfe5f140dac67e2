import numpy as np
import pytest
from scipy.sparse import csr_array

from flipproof import histograms
from flipproof.histograms import VoteHistogram, coarse_histogram, histogram
from flipproof.votes import (
    EstimatedScores,
    ProductVotes,
    SparseVotes,
    all_votes,
    class_scores,
    class_sums,
    estimate_scores,
)


def random_source(rows=7, n=5000, precision=6, seed=0):
    rng = np.random.default_rng(seed)
    basis = rng.integers(-(2**10), 2**10, size=(n, 5)).astype(float)
    coefficients = rng.integers(-(2**10), 2**10, size=(rows, 5)) * 2.0 ** (precision - 23)
    return ProductVotes(coefficients, basis, np.full(rows, 3)), rng.integers(3, size=n)


def counted_plainly(source, codes, K):
    """(vote, label) -> count, one dictionary per test row."""
    result = []
    for row in all_votes(source).astype(int):
        cells, counts = np.unique(np.stack([row, codes]), axis=1, return_counts=True)
        result.append({(int(v), int(c)): int(k) for (v, c), k in zip(cells.T, counts, strict=True)})
    return result


def as_dictionaries(counted: VoteHistogram):
    values = np.broadcast_to(counted.values, (len(counted.counts), counted.values.shape[1]))
    result = []
    for row_values, row_counts in zip(values, counted.counts, strict=True):
        cells = {}
        for c, level in zip(*np.nonzero(row_counts), strict=True):
            cells[int(row_values[level]), int(c)] = cells.get((int(row_values[level]), int(c)), 0) + int(
                row_counts[c, level]
            )
        result.append(cells)
    return result


@pytest.mark.parametrize(("precision", "n"), [(2, 50), (6, 5000), (10, 700), (10, 300), (16, 1000), (24, 130)])
def test_histogram_counts_every_vote_and_label(precision, n):
    source, codes = random_source(precision=precision, n=n)
    counted = histogram(source, codes, 3, precision)
    assert as_dictionaries(counted) == counted_plainly(source, codes, 3)
    assert counted.n_labels == n
    assert np.array_equal(counted.scores, class_scores(source, codes, 3))
    assert np.array_equal(counted.vote_mass, np.abs(all_votes(source)).sum(axis=1))
    assert np.all(np.diff(counted.values, axis=1) >= 0)


def test_tiles_do_not_matter(monkeypatch):
    source, codes = random_source()
    whole = histogram(source, codes, 3, 6)
    monkeypatch.setattr(histograms, "TILE_ROWS", 7)
    monkeypatch.setattr(histograms, "tile_rows", lambda *sizes: 7)
    cut = histogram(source, codes, 3, 6)
    assert np.array_equal(whole.counts, cut.counts)
    assert np.array_equal(class_scores(source, codes, 3), whole.scores)


@pytest.mark.parametrize(("precision", "n"), [(10, 5000), (20, 700)])
def test_coarse_histogram_keeps_every_label_and_roughly_its_vote(precision, n):
    source, codes = random_source(precision=precision, n=n)
    fine = histogram(source, codes, 3, precision)
    coarse = coarse_histogram(fine)
    assert np.array_equal(coarse.counts.sum(axis=2), fine.counts.sum(axis=2))
    assert coarse.values.shape[1] < 400
    assert np.all(np.diff(coarse.values[0]) > 0)
    # a vote is within 1/16 of its size
    drift = (coarse.counts * coarse.values).sum(axis=2) - fine.scores
    assert np.all(np.abs(drift) <= (fine.counts * np.abs(fine.values)[:, None]).sum(axis=2) / 16)


def test_small_votes_keep_their_levels_in_a_coarse_histogram():
    fine = VoteHistogram(np.arange(-1024, 1024)[None], np.ones((1, 2, 2048), dtype=np.int64), 2048)
    coarse = coarse_histogram(fine)
    small = np.abs(coarse.values[0]) <= 8
    assert coarse.values[0, small].tolist() == list(range(-8, 9))
    assert np.all(coarse.counts[0, :, small] == 1)
    assert coarse.counts.sum() == 2 * 2048


@pytest.mark.parametrize("precision", [2, 6, 12, 20])
def test_estimated_scores_keep_their_error(precision):
    source, codes = random_source(rows=50, precision=precision)
    estimate = estimate_scores(source, class_sums(source.basis, codes, 3), np.bincount(codes))
    true = class_scores(source, codes, 3)
    assert np.all(np.abs(estimate.scores - true) <= estimate.error)
    leader, decided = estimate.decided()
    assert np.array_equal(leader[decided], true.argmax(axis=1)[decided])


def test_a_lead_within_the_error_decides_nothing():
    scores, error = np.array([[5.0, 1.0], [5.0, 2.9], [2.0, 2.0], [np.inf, 0.0]]), np.ones((4, 2))
    error[3] = np.inf
    leader, decided = EstimatedScores(scores, error, np.zeros(4, dtype=int)).decided()
    assert decided.tolist() == [True, True, False, False]
    _, decided = EstimatedScores(scores[:2], error[:2] * 1.5, np.zeros(2, dtype=int)).decided()
    assert decided.tolist() == [True, False]
    assert leader[0] == 0


@pytest.mark.parametrize(("precision", "most"), [(4, 40), (10, 40), (10, 600), (20, 40)])
def test_sparse_votes_count_as_their_dense_copies_do(precision, most):
    rng = np.random.default_rng(3)
    dense = np.zeros((6, 900))
    for row in dense[1:]:  # the first row has no votes at all
        voting = rng.choice(900, size=rng.integers(1, most + 1), replace=False)
        row[voting] = rng.integers(-(2**precision) + 1, 2**precision, size=len(voting))
    codes = rng.integers(3, size=900)
    source = SparseVotes(csr_array(dense), np.zeros(6, dtype=int), most)
    assert np.array_equal(all_votes(source), dense)
    counted = histogram(source, codes, 3, precision)
    assert as_dictionaries(counted) == counted_plainly(source, codes, 3)
    assert np.array_equal(counted.scores, class_scores(source, codes, 3))
    assert counted.n_labels == 900
    assert counted.counts.shape[2] <= max(2 ** (precision + 1), 64) if precision < 20 else counted.counts.shape[2] <= 64
