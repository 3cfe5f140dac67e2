"""Clipped votes (M14): the clip level is an order statistic, and every kind of votes is clipped alike."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from flipproof.core.histograms import clip_levels, histogram
from flipproof.core.votes import DenseVotes, ProductVotes, SparseVotes, all_votes, class_scores, clipped, has_votes


def sources(votes):
    """Return the same votes as products, in dense and in sparse form."""
    exponent = np.zeros(len(votes), dtype=np.int64)
    identity = np.eye(votes.shape[1], dtype=np.float32)
    return {
        "products": ProductVotes(votes + 0.25 * (votes % 2), identity, exponent),
        "dense": DenseVotes(votes, exponent),
        "sparse": SparseVotes(csr_array(votes), exponent, votes.shape[1]),
    }


def random_votes(seed, rows=7, n=40, bits=5):
    rng = np.random.default_rng(seed)
    votes = rng.integers(-(2**bits) + 1, 2**bits, size=(rows, n)).astype(np.float64)
    votes[rng.random(votes.shape) < 0.4] = 0
    votes[0] = 0
    return votes


@pytest.mark.parametrize("kind", ["products", "dense", "sparse"])
@pytest.mark.parametrize("precision", [5, 6, 12, 24])
@pytest.mark.parametrize("share", [1e-9, 0.1, 0.5, 0.9, 0.999, 1.0])
def test_the_level_is_an_order_statistic_of_votes_that_are_not_0(kind, precision, share):
    votes = random_votes(1)
    found = clip_levels(sources(votes)[kind], share, precision)
    for line, level in zip(votes, found, strict=True):
        sizes = np.sort(np.abs(line[line != 0]))
        expected = sizes[max(int(np.ceil(round(share * len(sizes), 6))), 1) - 1] if len(sizes) else 1
        assert level == expected


@pytest.mark.parametrize("kind", ["products", "dense", "sparse"])
def test_votes_are_clipped_everywhere(kind):
    votes, codes = random_votes(2), np.arange(40) % 3
    limit = np.array([1, 1, 2, 3, 7, 20, 31])
    source = clipped(sources(votes)[kind], limit)
    expected = np.clip(votes, -limit[:, None], limit[:, None])
    assert np.array_equal(source.limit, limit)
    assert np.array_equal(all_votes(source), expected)
    scores = np.stack([expected[:, codes == code].sum(axis=1) for code in range(3)], axis=1)
    assert np.array_equal(class_scores(source, codes, 3), scores)
    for precision in (5, 20):
        assert np.array_equal(histogram(source, codes, 3, precision).scores, scores)
    assert np.array_equal(has_votes(source), votes.any(axis=1))


def test_the_votes_that_are_clipped_are_not_changed_themselves():
    for source in sources(random_votes(3)).values():
        before = all_votes(source)
        clipped(source, np.ones(7, dtype=np.int64))
        assert np.array_equal(all_votes(source), before)


def test_no_training_rows_have_level_1():
    for source in sources(np.zeros((2, 0))).values():
        assert clip_levels(source, 0.9, 10).tolist() == [1, 1]
        assert not has_votes(source).any()


def test_unknown_votes_are_refused():
    with pytest.raises(TypeError, match="Votes must be"):
        clipped(None, np.ones(1, dtype=np.int64))
