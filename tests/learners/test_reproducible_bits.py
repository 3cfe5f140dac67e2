"""The same bits for any block size, number of threads, order of rows and type of numbers."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import hadamard
from threadpoolctl import threadpool_info, threadpool_limits

from flipproof import CertifiedRidgeClassifier
from flipproof.core.linalg import halves

CASES = [(method, precision) for method in ("exact", "tight", "kl") for precision in (8, 10, 16)]
every_case = pytest.mark.parametrize(("method", "precision"), CASES)
every_rule = pytest.mark.parametrize("paper", [False, True], ids=["intercept, 3 classes", "the paper's rule"])


def data(paper, n=600, k=24, m=24):
    """Return rows that float32 can hold, and labels: of two classes for the paper's rule, else of three."""
    rng = np.random.default_rng(0)
    y = rng.integers(2 if paper else 3, size=n)
    X = rng.normal(size=(n + m, k)) * rng.uniform(0.1, 30, size=k) + 3
    X[:n, :3] += 2 * X[:, :3].std(axis=0) * np.eye(3)[y]
    X = X.astype(np.float32).astype(np.float64)
    return X[:n], y, X[n:]


def learner(paper, precision, **settings):
    return CertifiedRidgeClassifier(0.05, fit_intercept=not paper, precision=precision, **settings)


def assert_same_bits(one, two, rows=slice(None)):
    for name in ("prediction", "radius", "rival", "margin", "log_failure", "witness"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name)[rows], err_msg=name)


def test_jobs_do_not_use_more_threads_than_they_are(monkeypatch):
    X, y, Z = data(paper=False)
    model = learner(False, 10, n_jobs=2, block_size=4).fit(X, y)
    seen = []
    certify_block = model._certify_block

    def spy(*arguments):
        seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return certify_block(*arguments)

    monkeypatch.setattr(model, "_certify_block", spy)
    model.certify(Z)
    assert set(seen) == {1}


@pytest.mark.parametrize("n_rows", [0, 1, 2, 3, 7, 500, 5000])
@pytest.mark.parametrize("n_jobs", [1, 2, 3, 4])
def test_every_thread_gets_as_many_blocks_of_one_size(n_rows, n_jobs):
    X, y, _ = data(paper=False)
    blocks = list(learner(False, 10).fit(X, y).blocks(n_rows, n_jobs))
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(n_rows))
    sizes = [block.stop - block.start for block in blocks]
    if n_jobs > 1 and n_rows >= 500:
        assert len(blocks) % n_jobs == 0
        assert max(sizes) - min(sizes) <= len(blocks)
    assert all(sizes)


@pytest.mark.few(1)
@every_rule
@every_case
def test_blocks_and_jobs_do_not_change_a_bit(method, precision, paper):
    X, y, Z = data(paper)
    model = learner(paper, precision).fit(X, y)
    expected = model.certify(Z, method=method)
    assert len(set(expected.prediction)) > 1
    assert len(set(expected.radius)) > 1
    for block_size, n_jobs in ((None, 2), (1, 1), (2, 2), (7, 1), (7, 2), (100, 1)):
        again = model.set_params(block_size=block_size, n_jobs=n_jobs).certify(Z, method=method)
        assert_same_bits(again, expected)
        np.testing.assert_array_equal(model.predict(Z), expected.prediction)


@pytest.mark.few(3)
@every_rule
@every_case
def test_the_order_and_batch_of_test_rows_do_not_change_a_bit(method, precision, paper):
    X, y, Z = data(paper)
    model = learner(paper, precision).fit(X, y)
    expected = model.certify(Z, method=method)
    for row in range(0, len(Z), 4):
        assert_same_bits(model.certify(Z[[row]], method=method), expected, [row])
    order = np.random.default_rng(1).permutation(len(Z))
    assert_same_bits(model.certify(Z[order], method=method), expected, order)


@pytest.mark.few(5)
@every_rule
@every_case
def test_threads_do_not_change_a_bit(method, precision, paper):
    X, y, Z = data(paper)
    results = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            results.append(learner(paper, precision).fit(X, y).certify(Z, method=method))
    assert_same_bits(*results)


@pytest.mark.few(3)
@every_rule
@every_case
def test_float32_gives_the_same_bits_as_the_same_values_in_float64(method, precision, paper):
    X, y, Z = data(paper)
    expected = learner(paper, precision).fit(X, y).certify(Z, method=method)
    narrow = learner(paper, precision).fit(X.astype(np.float32), y).certify(Z.astype(np.float32), method=method)
    fortran = learner(paper, precision).fit(np.asfortranarray(X), y).certify(np.asfortranarray(Z), method=method)
    assert_same_bits(narrow, expected)
    assert_same_bits(fortran, expected)


@pytest.mark.few(2)
@pytest.mark.parametrize("precision", range(2, 9))
def test_weights_halfway_between_two_grid_points_go_the_same_way_in_any_block(precision):
    # X = H A with orthogonal H and test rows w A make every weight a multiple of 1/128: many lie exactly halfway
    # between two grid points, and the last bit of a sum would decide where they go
    rng = np.random.default_rng(0)
    A = np.eye(24) + np.triu(rng.integers(-1, 2, size=(24, 24)) * (rng.random((24, 24)) < 0.2), 1)
    X, Z = hadamard(128)[:, 1:25] @ A, rng.integers(-2, 3, size=(40, 24)) @ A
    settings = {"regularization": 0, "fit_intercept": False, "precision": precision}
    model = CertifiedRidgeClassifier(**settings).fit(X, rng.integers(3, size=128))
    expected, _ = model.vote_weights(Z)
    for size in (1, 2, 3, 7):
        pieces = [model.vote_weights(Z[start : start + size])[0] for start in range(0, len(Z), size)]
        np.testing.assert_array_equal(np.vstack(pieces), expected)
    np.testing.assert_array_equal(model.vote_weights(Z[::-1])[0], expected[::-1])
    order = rng.permutation(128)
    again, _ = CertifiedRidgeClassifier(**settings).fit(X[order], rng.integers(3, size=128)).vote_weights(Z)
    np.testing.assert_array_equal(again, expected[:, order])


@pytest.mark.few(1)
@every_rule
@pytest.mark.parametrize(("n", "k"), [(600, 24), (120, 300)])
def test_no_order_of_summation_can_round_a_product(n, k, paper):
    # what makes all the other tests true on other machines too, hence a look inside
    X, y, Z = data(paper, n, k)
    for precision in (2, 10, 24):
        model = learner(paper, precision).fit(X, y)
        source = model.votes_on(Z)
        assert_exact_in_any_order(source.coefficients, source.basis)
    rotation = model._whitening.rotation
    for half in halves(model._whitening.grid.integers(X[:20])):
        assert_exact_in_any_order(half, rotation.high.T)
        assert_exact_in_any_order(half, rotation.low.T)


def assert_exact_in_any_order(left, right):
    """Check that the sums of ``left @ right.T`` fit into 53 bits, whichever way they are added up."""
    widest = (np.abs(left) @ np.abs(right).T).argmax(axis=1)
    for a, b in zip(left, right[widest], strict=True):
        terms = [Fraction(x) * Fraction(y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        smallest_bit = Fraction(1, max(term.denominator for term in terms))
        assert sum(map(abs, terms)) <= 2**53 * smallest_bit


@every_rule
def test_the_order_of_training_rows_does_not_change_a_bit(paper):
    X, y, Z = data(paper)
    order = np.random.default_rng(2).permutation(len(X))
    for method in ("exact", "tight"):
        expected = learner(paper, 10).fit(X, y).certify(Z, method=method)
        assert_same_bits(learner(paper, 10).fit(X[order], y[order]).certify(Z, method=method), expected)


@every_rule
@pytest.mark.parametrize("method", ["exact", "kl"])
def test_more_features_than_rows_give_the_same_bits_too(method, paper):
    X, y, Z = data(paper, n=120, k=300)
    results = []
    for threads, block_size in ((1, None), (2, 3)):
        with threadpool_limits(limits=threads):
            results.append(learner(paper, 10, block_size=block_size).fit(X, y).certify(Z, method=method))
    assert_same_bits(*results)


@pytest.mark.slow
def test_automatic_noise_gives_the_same_bits_too():
    X, y, Z = data(paper=False)
    model = CertifiedRidgeClassifier("auto", method="tight").fit(X, y)
    expected = model.certify(Z)
    for block_size, n_jobs in ((1, 1), (4, 2)):
        again = model.set_params(block_size=block_size, n_jobs=n_jobs).certify(Z)
        assert_same_bits(again, expected)
        np.testing.assert_array_equal(again.noise, expected.noise)
