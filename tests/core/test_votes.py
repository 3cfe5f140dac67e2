import numpy as np
import pytest
from scipy.sparse import csr_array

from flipproof.core import histograms
from flipproof.core.histograms import VoteHistogram, coarse_histogram, histogram
from flipproof.core.votes import (
    DenseVotes,
    EstimatedScores,
    ProductVotes,
    SparseVotes,
    all_votes,
    class_scores,
    class_sums,
    estimate_scores,
    group_votes,
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


def test_votes_halfway_between_levels_are_rounded_to_even():
    basis = np.arange(-13, 14).astype(np.float32)[:, None]
    source, codes = ProductVotes(np.array([[0.5], [-0.5], [0.25]]), basis, np.zeros(3, dtype=int)), np.arange(27) % 3
    assert as_dictionaries(histogram(source, codes, 3, 3)) == counted_plainly(source, codes, 3)


@pytest.mark.parametrize(("precision", "n"), [(6, 500), (12, 500)])
def test_changed_labels_are_counted_as_in_a_new_histogram(precision, n):
    source, codes = random_source(rows=3, n=n, precision=precision)
    attacked, changed = codes.copy(), np.arange(0, n, 3)
    attacked[changed] = (codes[changed] + 1) % 3
    counted, row = histogram(source, codes, 3, precision), np.repeat(np.arange(3), len(changed))
    votes = all_votes(source)[:, changed].astype(int).ravel()
    found = counted.with_changed_labels(row, votes, np.tile(codes[changed], 3), np.tile(attacked[changed], 3))
    assert as_dictionaries(found) == counted_plainly(source, attacked, 3)
    assert as_dictionaries(counted) == counted_plainly(source, codes, 3)


def test_counts_do_not_depend_on_tiles(monkeypatch):
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


def test_coarse_histogram_keeps_small_votes_exact():
    fine = VoteHistogram(np.arange(-1024, 1024)[None], np.ones((1, 2, 2048), dtype=np.int64), 2048)
    coarse = coarse_histogram(fine)
    small = np.abs(coarse.values[0]) <= 8
    assert coarse.values[0, small].tolist() == list(range(-8, 9))
    assert np.all(coarse.counts[0, :, small] == 1)
    assert coarse.counts.sum() == 2 * 2048


@pytest.mark.parametrize("precision", [2, 6, 12, 20])
def test_estimated_scores_are_within_their_error(precision):
    source, codes = random_source(rows=50, precision=precision)
    estimate = estimate_scores(source, class_sums(source.basis, codes, 3), np.bincount(codes))
    true = class_scores(source, codes, 3)
    assert np.all(np.abs(estimate.scores - true) <= estimate.error)
    leader, decided = estimate.decided()
    assert np.array_equal(leader[decided], true.argmax(axis=1)[decided])


def test_a_lead_within_the_error_is_undecided():
    scores, error = np.array([[5.0, 1.0], [5.0, 2.9], [2.0, 2.0], [np.inf, 0.0]]), np.ones((4, 2))
    error[3] = np.inf
    leader, decided = EstimatedScores(scores, error, np.zeros(4, dtype=int)).decided()
    assert decided.tolist() == [True, True, False, False]
    _, decided = EstimatedScores(scores[:2], error[:2] * 1.5, np.zeros(2, dtype=int)).decided()
    assert decided.tolist() == [True, False]
    assert leader[0] == 0


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_group_votes_are_sums_by_annotator_class_and_sign(kind):
    rng = np.random.default_rng(4)
    votes = (rng.integers(-9, 10, size=(5, 60)) * (rng.random((5, 60)) < 0.5)).astype(float)
    codes, groups, changeable = rng.integers(3, size=60), rng.integers(7, size=60), rng.random(60) < 0.8
    exponent = np.zeros(5, dtype=int)
    source = DenseVotes(votes, exponent) if kind == "dense" else SparseVotes(csr_array(votes), exponent, 60)
    found = group_votes(source, codes, 3, groups, changeable)
    cell, group = 0, np.repeat(np.unique(groups[changeable]), np.diff(found.first_cell, append=len(found.label)))
    for one in range(7):
        for label in range(3):
            members = changeable & (groups == one) & (codes == label)
            if members.any():
                assert (group[cell], found.label[cell]) == (one, label)
                assert found.positive[:, cell].tolist() == votes[:, members].clip(0).sum(axis=1).tolist()
                assert found.negative[:, cell].tolist() == (-votes[:, members]).clip(0).sum(axis=1).tolist()
                cell += 1
    assert cell == len(found.label) > 7


@pytest.mark.parametrize(("precision", "most"), [(4, 40), (10, 40), (10, 600), (20, 40)])
def test_sparse_votes_are_counted_like_dense_votes(precision, most):
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
