"""Smoothed certificates of a Pipeline: what they state, and when they are refused."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flipproof import FeatureNoise, JointNoise, LabelFlip, SmoothedClassifier, certify


def problem():
    rng = np.random.default_rng(0)
    X = 1e-3 * rng.normal(size=(60, 2))
    X[:30, 0] += 3e-3
    return X, (np.arange(60) < 30).astype(int), np.array([[3e-3, 0.0], [0.0, 0.0]])


class CustomNoise:
    part = "both"

    def sample(self, data, rng):
        X, codes = data
        return X + rng.normal(size=X.shape), codes

    def divergence(self, data, other):
        return float(((data[0] - other[0]) ** 2).sum() / 2)


@pytest.mark.parametrize(
    ("noise", "method"),
    [(FeatureNoise(0.5), "tight"), (JointNoise(LabelFlip(0.3), FeatureNoise(0.5)), "tight"), (CustomNoise(), "kl")],
)
def test_pipeline_steps_before_feature_noise_are_refused(noise, method):
    X, y, Z = problem()
    smoothed = SmoothedClassifier(LogisticRegression(), noise, n_select=5, n_samples=20, method=method, random_state=0)
    with pytest.raises(ValueError, match=r"after the pipeline's steps 'standardscaler'.*Put them inside"):
        certify(make_pipeline(StandardScaler(), smoothed).fit(X, y), Z)
    assert len(certify(make_pipeline("passthrough", smoothed).fit(X, y), Z)) == 2


@pytest.mark.slow
def test_steps_inside_the_base_learner_are_smoothed_and_reduce_the_radius():
    X, y, Z = problem()
    inside = make_pipeline(StandardScaler(), LogisticRegression())
    smoothed = SmoothedClassifier(inside, FeatureNoise(0.5), n_select=20, n_samples=300, random_state=0).fit(X, y)
    assert smoothed.certify(Z).radius.max() < 0.033  # a change of that size moves all rows of a class


def test_pipeline_steps_before_label_noise_are_an_assumption_with_a_remedy():
    X, y, Z = problem()
    smoothed = SmoothedClassifier(LogisticRegression(), 0.3, n_select=5, n_samples=20, random_state=0)
    certificates = certify(make_pipeline(StandardScaler(), smoothed).fit(X, y), Z)
    last = certificates.assumptions[-1]
    assert (last.code, last.values["remedy"]) == ("pipeline-steps", "smoothing")
    assert "SmoothedClassifier(make_pipeline(...))" in str(last)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "array"),
        (np.zeros((0, 2)), "at least one test row"),
        ([0.1, 0.2], "Reshape your data"),
        (None, "array"),
        (5, "array"),
    ],
)
def test_bad_test_rows_raise_a_clear_error(rows, message):
    X, y, _ = problem()
    model = SmoothedClassifier(LogisticRegression(), 0.3, n_select=2, n_samples=5, random_state=0).fit(X, y)
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        model.certify(rows)
    assert "draw" not in str(caught.value)
