"""On real features undefended models break as in the paper, and how early depends on the penalty."""

import numpy as np
import pytest
from real_data import dogfish, mnist
from sklearn.decomposition import PCA
from undefended_problems import assert_true, fitted

from flipproof.attacks.undefended.strategies import undefended_attack


@pytest.fixture(scope="module")
def one_against_seven(data_dir):
    (X, y), (Z, y_test) = (mnist(data_dir, part, (1, 7)) for part in ("train", "t10k"))
    pca = PCA(50, random_state=0).fit(X / 255)
    return pca.transform(X / 255), y, pca.transform(Z / 255)[::270], y_test[::270]


def test_mnist_accuracy_is_almost_unchanged_at_10_flips_and_halved_around_500(one_against_seven):
    X, y, Z, y_test = one_against_seven
    model = fitted(X, y, C=1e-3)
    result = undefended_attack(model, X, y, Z, max_flips=2000)
    assert_true(result, model, X, y, Z)
    assert len(y) == 13_007
    assert result.success.all()
    assert result.accuracy(y_test, flips=[10])[0] == model.score(Z, y_test) >= 0.9
    assert 350 <= np.median(result.flips_needed) <= 700
    assert result.n_refits <= 30 * len(Z)


def test_a_weaker_penalty_needs_a_tenth_of_the_flips(one_against_seven):
    X, y, Z, _ = one_against_seven
    model = fitted(X, y, C=1.0)
    result = undefended_attack(model, X, y, Z[:3], max_flips=150)
    assert_true(result, model, X, y, Z[:3])
    assert result.success.all()
    assert result.flips_needed.max() <= 120


def test_dogfish_accuracy_collapses_within_a_few_flips(data_dir):
    X, y, Z, y_test = dogfish(data_dir, "tinynet")
    Z, y_test = Z[::60], y_test[::60]
    model = fitted(X, y)
    result = undefended_attack(model, X, y, Z)
    assert_true(result, model, X, y, Z)
    assert result.accuracy(y_test, flips=[1])[0] >= 0.8
    assert result.accuracy(y_test, flips=[25])[0] == 0.0
