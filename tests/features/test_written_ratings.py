"""Ratings in reviews name a class; naive Bayes weights."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from flipproof.features import NaiveBayesWeights, PatternRule, WeakSupervision, rating_rules

RULES = rating_rules("bad", "good")


def said(text):
    """Return the classes that rules name, and what remains of the text."""
    answers = [answer for answer in (rule(text) for rule in RULES) if answer is not None]
    gone = {at for _, spans in answers for start, end in spans for at in range(start, end)}
    return {named for named, _ in answers if named}, "".join(x for at, x in enumerate(text) if at not in gone)


@pytest.mark.parametrize(
    ("text", "named", "left"),
    [
        ("I give it 9/10.", {"good"}, "I give it ."),
        ("8.5 out of 10!", {"good"}, "!"),
        ("EIGHT OUT OF TEN", {"good"}, ""),
        ("one and a half out of five", {"bad"}, ""),
        ("3 / 10 stars", {"bad"}, ""),
        ("a 5/10", set(), "a "),
        ("3 1/2 stars out of 4", {"good"}, ""),
        ("4 stars", {"good"}, ""),
        ("a two-star film", {"bad"}, "a  film"),
        ("My rating: 2.", {"bad"}, "My ."),
        ("rating: 250", set(), "rating: 250"),
        ("Two thumbs up, I say", {"good"}, ", I say"),
        ("thumbs down", {"bad"}, ""),
        ("Grade: B+", {"good"}, ""),
        ("grade: a lot of it", set(), "grade: a lot of it"),
        ("11/10", set(), ""),
        ("on 9/10/2004", set(), "on 9/10/2004"),
        ("it stars nobody, often", set(), "it stars nobody, often"),
    ],
)
def test_written_ratings(text, named, left):
    assert said(text) == (named, left)


def test_words_of_rules_lose_no_match():
    texts = ["7/10", "seven out of Ten", "2/5", "2 out of FIVE", "3/4", "1 Star", "VOTE: 9", "THUMBS up", "Grade: A"]
    for rule in RULES:
        searched = PatternRule(rule.pattern, rule.label)
        assert [rule(text) for text in texts] == [searched(text) for text in texts]


def test_naive_bayes_weights():
    X = np.array([[2.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 3.0, 1.0]])
    y = ["a", "a", "b"]
    weights = NaiveBayesWeights().fit(X, y)
    first, second = np.array([4.0, 2, 2]) / 8, np.array([1.0, 4, 2]) / 7
    np.testing.assert_allclose(weights.ratios_, np.log(second / first))
    np.testing.assert_allclose(weights.transform(X), X * weights.ratios_)
    scattered = NaiveBayesWeights().fit(sparse.csr_matrix(X), y).transform(sparse.csr_matrix(X))
    np.testing.assert_allclose(scattered.toarray(), X * weights.ratios_)
    several = NaiveBayesWeights(0.5).fit(X, ["a", "b", "c"])
    assert several.transform(X).shape == (3, 3)
    assert make_pipeline(NaiveBayesWeights(), LogisticRegression()).fit(X, y).predict(X).tolist() == y


@pytest.mark.parametrize(("X", "smoothing"), [([[-1.0], [1.0]], 1.0), ([[1.0], [1.0]], 0.0)])
def test_bad_input_of_naive_bayes_weights(X, smoothing):
    with pytest.raises(ValueError, match=r"Negative values|smoothing"):
        NaiveBayesWeights(smoothing).fit(X, [0, 1])


@pytest.mark.data
@pytest.mark.slow
def test_reviews_of_imdb(data_dir):
    from flipproof.datasets import load_imdb

    data = load_imdb(data_home=data_dir)
    few = np.random.default_rng(0).choice(25_000, 3000, replace=False)
    weak = WeakSupervision(rating_rules(0, 1), rule_weight=3.0).fit(data.X_train[few].tolist())
    assert 0.09 < weak.counts_.coverage < 0.14
    assert np.mean(weak.predict(data.X_test[::100].tolist()) == data.y_test[::100]) > 0.7
