"""The general operator, and the three examples of the paper's Section 3, each with known answers."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from flipproof.core.guarantees import divergence_budget, gaussian_radius, tight_log_failure, tight_radius
from flipproof.core.noise import FeatureNoise, JointNoise, LabelFlip, Measure
from flipproof.smoothing import smoothed_decision, smoothed_value


@dataclass(frozen=True)
class Finite:
    """A custom measure: the data *are* its probabilities."""

    n_points: int

    def sample(self, data: Any, rng: np.random.Generator) -> int:
        return int(rng.choice(self.n_points, p=data))

    def divergence(self, data: Any, other: Any) -> float:
        data, other = np.asarray(data), np.asarray(other)
        return float(np.sum(other * np.log(other / data)))

    def support(self, data: Any) -> Any:
        return range(self.n_points), data


def test_example_1_gaussian_noise_and_a_half_space():
    """G of a half-space is Phi(distance / sigma), and the certified radius is the distance to the boundary."""
    sigma, point = 0.5, np.array([0.7, -0.2])
    direction = np.array([3.0, 4.0]) / 5
    distance = float(direction @ point)
    inside = lambda x: int(direction @ x > 0)  # noqa: E731
    value = smoothed_value(inside, FeatureNoise(sigma), point, n_samples=4000, random_state=0)
    true = norm.cdf(distance / sigma)
    assert value.lower[1] < true < value.upper[1]
    assert value.upper[1] - value.lower[1] < 0.06
    np.testing.assert_allclose(value.lower[0], 1 - value.upper[1], rtol=1e-9)
    exact_radius = float(gaussian_radius(norm.logsf(distance / sigma), sigma))
    assert exact_radius == pytest.approx(distance, rel=1e-9)
    assert exact_radius < distance
    found = smoothed_decision(inside, FeatureNoise(sigma), point, n_samples=4000, random_state=0)
    assert found.decision == 1
    assert found.decided
    assert 0.8 * distance < gaussian_radius(found.log_failure, sigma) < distance
    # d(mu, rho) = ||delta|| / sigma = sqrt(2 KL), and f(p) = |Phi^-1(p)|
    delta = np.array([0.3, -0.4])
    assert FeatureNoise(sigma).divergence(point, point + delta) == pytest.approx(0.5 * (0.5 / sigma) ** 2)


def test_example_2_discrete_noise_and_the_function_that_attains_the_bound():
    """G of "at least k of n labels are 1" is a binomial tail; the worst function is beaten at exactly m_r."""
    q, n = 0.2, 7
    noise = LabelFlip(q, 2)
    for k in range(n + 1):
        value = smoothed_value(lambda labels, k=k: int(labels.sum() >= k), noise, np.ones(n, dtype=int))
        assert value.value[1] == pytest.approx(binom.sf(k - 1, n, 1 - q), rel=1e-12)
        assert value.lower[1] <= binom.sf(k - 1, n, 1 - q) * (1 + 1e-12)
        assert value.n_samples is None
    # fails where most of the r changed labels are drawn as changed: that is Neyman and Pearson's event, for odd r
    for r in (1, 3, 5):
        fails = lambda labels, r=r: int(labels[:r].sum() > r / 2)  # noqa: E731
        old, new = np.zeros(n, dtype=int), np.arange(n) < r
        before = smoothed_value(fails, noise, old).value[1]
        after = smoothed_value(fails, noise, new.astype(int)).value[1]
        assert after > 0.5
        assert before > math.exp(tight_log_failure(r, noise))  # so it is not certified
        assert tight_radius(np.log(before), noise, n) < r


def test_example_2_with_more_than_two_classes():
    q, K = 0.3, 4
    first = smoothed_value(lambda labels: labels[0], LabelFlip(q, K), [2, 0, 1], n_classes=K)
    np.testing.assert_allclose(first.value, [0.1, 0.1, 0.7, 0.1], rtol=1e-12)
    decision = smoothed_decision(lambda labels: labels[0], LabelFlip(q, K), [2, 0, 1], n_classes=K)
    assert (decision.decision, decision.decided) == (2, True)
    assert decision.log_failure == pytest.approx(np.log(0.3))
    assert decision.log_rival == pytest.approx(np.log(0.1))
    assert decision.divergence_budget == pytest.approx(-np.log(1 - (np.sqrt(0.7) - np.sqrt(0.1)) ** 2), rel=1e-9)


def test_example_3_any_two_measures():
    """For any measures and function, the decision is unchanged within the budget, and the bound is attained."""
    rng = np.random.default_rng(0)
    measure, held = Finite(6), 0
    for _ in range(400):
        mu, rho = rng.dirichlet(np.full(6, 0.7), size=2) + 1e-9
        mu, rho = mu / mu.sum(), rho / rho.sum()
        rho = mu + rng.random() * (rho - mu)
        n_classes = int(rng.integers(2, 4))
        table = rng.integers(n_classes, size=6)
        here, there = (
            smoothed_decision(lambda point, table=table: table[point], measure, data, n_classes=n_classes)
            for data in (mu, rho)
        )
        if here.decided and measure.divergence(mu, rho) <= here.divergence_budget:
            held += 1
            assert there.decision == here.decision
    assert held > 50
    p = 0.8  # two points: moving to one half costs exactly the budget
    found = smoothed_decision(lambda point: point, Finite(2), [1 - p, p])
    cost = Finite(2).divergence([1 - p, p], [0.5, 0.5])
    assert found.divergence_budget == pytest.approx(cost, rel=1e-9)
    assert found.divergence_budget <= cost
    assert found.divergence_budget == pytest.approx(float(divergence_budget(np.log(1 - p))), rel=1e-9)


def test_bounds_from_samples_contain_the_enumerated_vote():
    noise, labels = LabelFlip(0.35, 3), [0, 1, 2, 2, 1]
    function = lambda noisy: int(np.bincount(noisy, minlength=3).argmax())  # noqa: E731
    exact = smoothed_value(function, noise, labels, n_classes=3)
    drawn = smoothed_value(function, noise, labels, n_classes=3, n_samples=2000, random_state=1)
    assert np.all((drawn.lower < exact.value) & (exact.value < drawn.upper))
    assert np.all(drawn.upper - drawn.lower < 0.1)
    assert exact.value.sum() == pytest.approx(1)
    np.testing.assert_allclose(exact.upper - exact.lower, 0, atol=1e-12)
    again = smoothed_value(function, noise, labels, n_classes=3, n_samples=2000, random_state=1)
    np.testing.assert_array_equal(again.value, drawn.value)


def test_a_tie_predicts_the_lowest_class_and_is_never_certified():
    found = smoothed_decision(lambda point: point, Finite(2), [0.5, 0.5])
    assert (found.decision, found.decided, found.divergence_budget) == (0, False, 0)
    few = smoothed_decision(lambda point: point, Finite(2), [0.4, 0.6], n_samples=20, random_state=0)
    assert not few.decided


def test_failure_probabilities_of_almost_certain_votes_keep_their_precision():
    noise = LabelFlip(1e-5, 2)
    found = smoothed_decision(lambda labels: int(labels.sum() > 1), noise, [1, 1, 1, 1])
    assert found.log_failure == pytest.approx(np.log(4e-15), rel=1e-4)


def test_measures_are_recognised_by_their_methods():
    assert all(isinstance(one, Measure) for one in (Finite(2), LabelFlip(0.1), FeatureNoise(1.0)))
    joint = JointNoise(LabelFlip(0.1, 2), FeatureNoise(1.0))
    X, y = np.zeros((3, 2)), np.array([0, 1, 1])
    moved, flipped = X + 0.5, np.array([1, 1, 1])
    expected = LabelFlip(0.1, 2).kl_per_flip + 6 * 0.25 / 2
    assert joint.divergence((X, y), (moved, flipped)) == pytest.approx(expected)
    assert joint.divergence((X, y), (moved, flipped)) >= expected
    noisy_X, noisy_y = joint.sample((X, y), np.random.default_rng(0))
    assert noisy_X.shape == (3, 2)
    assert set(noisy_y) <= {0, 1}
    assert FeatureNoise(2.0).sample(np.zeros((200, 50)), np.random.default_rng(0)).std() == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: smoothed_value(lambda x: 2, LabelFlip(0.1, 2), [0, 1]), "must return a class from 0 to 1. Got 2"),
        (lambda: smoothed_value(lambda x: 0.5, LabelFlip(0.1, 2), [0, 1]), r"Got 0.5 instead"),
        (lambda: smoothed_value(lambda x: 0, FeatureNoise(1.0), [0.0]), "use n_samples"),
        (lambda: smoothed_value(lambda x: 0, LabelFlip(0.1, 2), [0] * 30), "30 labels of 2 classes have 2.30 noisy"),
        (lambda: smoothed_value(lambda x: 0, LabelFlip(0.1), [0, 1]), "n_classes=K"),
        (lambda: smoothed_value(lambda x: 0, LabelFlip(0.1, 2), [0], n_samples=0), "'n_samples' parameter"),
        (lambda: smoothed_value(lambda x: 0, LabelFlip(0.1, 2), [0], n_classes=1), "'n_classes' parameter.* Got 1"),
        (lambda: smoothed_value(lambda x: 0, LabelFlip(0.1, 2), [0], confidence=1.0), "'confidence' parameter"),
        (lambda: smoothed_value(lambda x: 0, Finite(2), [0.2, 0.2]), "add up to 1"),
        (lambda: FeatureNoise(0.0), "'sigma' parameter of FeatureNoise .* above 0. Got 0.0"),
        (lambda: FeatureNoise("loud"), "'sigma' parameter of FeatureNoise"),
        (lambda: JointNoise(FeatureNoise(1.0), LabelFlip(0.1)), "a LabelFlip and a FeatureNoise, in this order"),
        (lambda: LabelFlip(0.1, 2).divergence([0, 1], [0]), "same shape"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("q", "n"), [(1e-30, 11), (1e-200, 2), (1e-100, 4)])
def test_tiny_probabilities_are_not_rounded_to_zero(q, n):
    noise, labels = LabelFlip(q, 2), np.zeros(n, dtype=int)
    all_ones = lambda noisy: int(noisy.all())  # noqa: E731
    found = smoothed_decision(all_ones, noise, labels)
    attacked = smoothed_decision(all_ones, noise, 1 - labels)
    assert (found.decision, attacked.decision) == (0, 1)
    assert found.divergence_budget < noise.divergence(labels, 1 - labels)


class Truncated:
    """A measure whose support omits a little of the probability."""

    def __init__(self, left_out):
        self.left_out = left_out

    def sample(self, data, rng):
        return data

    def divergence(self, data, other):
        return 0.0

    def support(self, data):
        return [0, 1], [1 - self.left_out, 0.0]


@pytest.mark.parametrize("left_out", [5e-7, 1e-14, 0.0])
def test_missing_probability_counts_against_every_class(left_out):
    found = smoothed_decision(lambda point: point, Truncated(left_out), 0)
    assert found.decided
    assert found.log_failure >= np.log(max(left_out, 2.0**-52))
    assert found.value.upper[1] >= left_out
    assert np.isfinite(found.divergence_budget)


@pytest.mark.parametrize("labels", [[0.7, 1], [0, 2], [-1, 0]])
def test_labels_that_are_not_class_codes_are_refused(labels):
    noise = LabelFlip(0.1, 2)
    for call in (lambda: noise.support(labels), lambda: noise.sample(labels, np.random.default_rng(0))):
        with pytest.raises(ValueError, match="codes"):
            call()
