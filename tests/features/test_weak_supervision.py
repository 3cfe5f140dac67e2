"""Rules teach a classifier; labels change nothing."""

from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier

import flipproof
from flipproof import Adversary, CertifiedClusterClassifier, CertifiedNeighborsClassifier, CertifiedRidgeClassifier
from flipproof.features import PatternRule, WeakSupervision


def rating(found):
    return "good" if int(found[1]) > 6 else "bad" if int(found[1]) < 5 else None


RATINGS = PatternRule(r"(\d+)/10", rating)
GOOD, BAD = ["superb", "lovely", "moving"], ["dull", "awful", "flat"]


def reviews(n, seed=0):
    """Return texts, half of them with a written rating, and their classes."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(2, size=n)
    texts = []
    for number, is_good in enumerate(classes):
        words = rng.choice(GOOD if is_good else BAD, size=3).tolist()
        written = [f"{rng.integers(7, 11) if is_good else rng.integers(1, 5)}/10"] if number % 2 else []
        texts.append(" ".join([*words, *written]))
    return texts, np.where(classes == 1, "good", "bad")


def test_what_a_rule_matches_is_removed_from_the_text():
    assert RATINGS("fun, 9/10!") == ("good", [(5, 9)])
    assert RATINGS("5/10") == (None, [(0, 4)])
    assert RATINGS("9/10 or 2/10") == (None, [(0, 4), (8, 12)])
    assert RATINGS("fun") is None
    weak = WeakSupervision([RATINGS]).fit(reviews(40)[0])
    words = weak.estimators_[0][0].vocabulary_
    assert "10" not in words
    assert "superb" in words


def test_scores_are_about_the_classes_that_rules_name():
    texts, labels = reviews(60)
    weak = WeakSupervision([RATINGS]).fit(texts)
    assert weak.classes_.tolist() == ["bad", "good"]
    assert weak.transform(texts).shape == (60, 1)
    assert (weak.predict(texts) == labels).all()
    np.testing.assert_allclose(weak.predict_proba(texts).sum(axis=1), 1)
    assert ((weak.transform(texts)[:, 0] > 0) == (labels == "good")).all()


def test_counts_of_rules():
    rules = [
        lambda row: 1 if row[0] > 2 else None,
        lambda row: 0 if row[0] < 4 else None,
        lambda row: 0 if row[0] == 3 else None,
    ]
    counts = WeakSupervision(rules).fit(np.arange(7.0)[:, None]).counts_
    assert (counts.n_rows, counts.by_rule, counts.n_conflicts) == (7, (4, 4, 1), 1)
    assert counts.n_decided == 7  # two of three rules say 0 about row 3
    assert counts.by_class == (4, 3)
    assert "1 conflicts" in repr(counts)
    frame = counts.to_frame()
    assert frame["rows"].tolist() == [4, 4, 1]
    assert frame["conflicts"].tolist() == [1, 1, 1]
    assert frame["coverage"].tolist() == [4 / 7, 4 / 7, 1 / 7]


def test_a_tie_of_rules_decides_nothing():
    rules = [lambda row: int(row[0] > 2), lambda row: int(row[0] > 3)]
    assert WeakSupervision(rules).fit(np.arange(7.0)[:, None]).counts_.n_decided == 6


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_rules_get_rows_of_frames_by_name(frame):
    X = frame({"links": np.arange(8.0), "length": np.ones(8)})
    weak = WeakSupervision([lambda row: "spam" if row.links > 5 else "ham" if row.links < 2 else None]).fit(X)
    assert weak.counts_.n_decided == 4
    assert weak.predict(X).tolist() == ["ham"] * 4 + ["spam"] * 4


def test_scores_of_several_classifiers_and_of_the_rules_are_added_up():
    X = np.linspace(-1, 1, 20)[:, None]
    rules = [lambda row: int(row[0] > 0) if abs(row[0]) > 0.5 else None]
    models = [LogisticRegression(), RidgeClassifier()]
    each = [WeakSupervision(rules, estimator=model).fit(X).transform(X) for model in models]
    both = WeakSupervision(rules, estimator=models).fit(X).transform(X)
    np.testing.assert_allclose(both, each[0] + each[1])
    with_rules = WeakSupervision(rules, estimator=models, rule_weight=3.0).fit(X).transform(X)
    np.testing.assert_allclose(with_rules - both, 3 * np.where(np.abs(X) > 0.5, np.sign(X), 0), atol=1e-12)
    squashed = WeakSupervision(rules, estimator=models, squash=True).fit(X).transform(X)
    np.testing.assert_allclose(squashed, np.tanh(both))


class Spreads(TransformerMixin, BaseEstimator):
    """Divides columns by their spread over the rows in `fit`, whose number it remembers."""

    fits = 0

    def fit(self, X, y=None):
        assert y is None
        Spreads.fits += 1
        self.n_, self.scale_ = len(X), np.std(X, axis=0)
        return self

    def transform(self, X):
        return np.asarray(X) / self.scale_


def test_features_are_fitted_to_all_rows_and_once():
    X = np.linspace(-1, 1, 20)[:, None]
    rules = [lambda row: int(row[0] > 0) if abs(row[0]) > 0.5 else None]
    shared, own = Spreads(), Spreads()
    models = [LogisticRegression(), RidgeClassifier(), LogisticRegression(C=10.0)]
    before = Spreads.fits
    weak = WeakSupervision(rules, estimator=models, features=[shared, shared, own]).fit(X, np.arange(20))
    assert Spreads.fits == before + 2
    assert [one.n_ for one in weak.features_] == [20, 20, 20]
    assert weak.features_[0] is weak.features_[1]
    assert len(weak.estimators_[0].coef_) == 1
    # rules see other numbers, but say the same
    rules_by_hand = [lambda row: rules[0](row * X.std())]
    by_hand = WeakSupervision(rules_by_hand, estimator=models).fit(X / X.std()).transform(X / X.std())
    np.testing.assert_allclose(weak.transform(X), by_hand)
    one = WeakSupervision(rules, estimator=models[:1], features=shared).fit(X)
    assert one.transform(X).shape == (20, 1)


def test_words_that_no_rule_decides_are_known():
    texts, _ = reviews(40)
    words = TfidfVectorizer()
    weak = WeakSupervision([RATINGS], estimator=LogisticRegression(), features=words).fit([*texts, "never rated"])
    assert {"never", "rated"} <= set(weak.features_[0].vocabulary_)
    assert "10" not in weak.features_[0].vocabulary_


def test_texts_without_the_words_of_a_rule_are_not_searched():
    rule = PatternRule(r"(\w+) stars", "good", words=("STARS",))
    assert rule("Five Stars") == ("good", [(0, 10)])
    assert rule("five") is None
    assert PatternRule("five", "good", words=("six",))("five") is None


def test_three_classes_of_which_one_is_never_named():
    X = np.linspace(-1, 1, 20)[:, None]
    weak = WeakSupervision([lambda row: "a" if row[0] < 0 else "c"], classes=["a", "b", "c"]).fit(X)
    assert weak.transform(X).shape == (20, 3)
    assert set(weak.predict(X)) == {"a", "c"}


def test_labels_change_nothing():
    texts, labels = reviews(60)
    test = reviews(20, seed=1)[0]
    plain = WeakSupervision([RATINGS]).fit(texts).transform(test)
    assert WeakSupervision([RATINGS]).fit(texts, labels[::-1]).transform(test).tobytes() == plain.tobytes()
    votes = []
    for given in (labels, np.random.default_rng(0).permutation(labels)):
        model = CertifiedClusterClassifier(features=WeakSupervision([RATINGS], squash=True), classes=["bad", "good"])
        votes.append(model.fit(texts, given).vote_weights(test)[0])
    assert votes[0].tobytes() == votes[1].tobytes()


def test_certificates_name_the_rules_as_used_as_given():
    texts, labels = reviews(40)
    model = CertifiedRidgeClassifier(features=WeakSupervision([RATINGS]), classes=["bad", "good"]).fit(texts, labels)
    certificates = model.certify(texts[:5])
    assert "used-as-given" in {one.code for one in certificates.assumptions}
    assert (certificates.radius > 0).all()


def test_a_reference_makes_certificates_about_rows_possible():
    texts, labels = reviews(60)
    model = CertifiedNeighborsClassifier(9, features=WeakSupervision([RATINGS]), classes=["bad", "good"])
    model.fit(texts[30:], labels[30:], reference=texts[:30])
    assert (model.certify(texts[:5], adversary=Adversary(changes="rows")).radius > 0).all()


def test_a_fitted_one_is_a_prior():
    texts, labels = reviews(60)
    numbers = np.array([[len(text)] for text in texts], dtype=float)
    rule = [lambda row: "good" if row[0] > 22 else "bad"]
    prior = WeakSupervision(rule, classes=["bad", "good"]).fit(numbers)
    with_prior = CertifiedRidgeClassifier(prior=prior, prior_weight=100.0, classes=["bad", "good"]).fit(numbers, labels)
    assert (with_prior.predict(numbers) == prior.predict(numbers)).all()
    assert "fitted-elsewhere" in {one.code for one in with_prior.certify(numbers[:2]).assumptions}


@pytest.mark.parametrize("changes", ["labels", "rows"])
def test_a_learner_fits_it_as_its_prior_without_labels(changes):
    texts, labels = reviews(60)
    numbers = np.array([[len(text), "superb" in text] for text in texts], dtype=float)
    weak = WeakSupervision([lambda row: "good" if row[1] else "bad" if row[0] < 17 else None], classes=["bad", "good"])
    reference = numbers[:30] if changes == "rows" else None
    rows, given = (numbers[30:], labels[30:]) if changes == "rows" else (numbers, labels)
    found = []
    for order in (slice(None), slice(None, None, -1)):  # other labels
        model = CertifiedRidgeClassifier(prior=weak, prior_weight=0.5, classes=["bad", "good"])
        model.fit(rows, given[order], reference=reference)
        found.append(model.prior_.transform(numbers).tobytes())
        certificates = model.certify(numbers[:5], adversary=Adversary(changes=changes))
        assert {"rules-counted", "fitted-without-labels"} <= {one.code for one in certificates.assumptions}
    by_hand = WeakSupervision(weak.rules, classes=weak.classes).fit(numbers if reference is None else reference)
    assert found == [by_hand.transform(numbers).tobytes()] * 2


def test_every_attack_leaves_certified_predictions_with_such_a_prior():
    X = np.linspace(-1, 1, 6)[:, None]
    weak = WeakSupervision([lambda row: int(row[0] > 0) if abs(row[0]) > 0.3 else None], classes=[0, 1])
    y, test = np.array([0, 1, 0, 1, 1, 0]), np.array([[-0.9], [0.1], [0.8]])
    learner = CertifiedRidgeClassifier(prior=weak, prior_weight=0.3, classes=[0, 1])
    certificates = learner.fit(X, y).certify(test)
    for attack in product((0, 1), repeat=6):
        n_changed = int((np.array(attack) != y).sum())
        safe = certificates.radius >= n_changed
        again = learner.fit(X, np.array(attack)).predict(test)
        assert (again[safe] == certificates.prediction[safe]).all()


def test_a_rule_that_fails_is_named_with_its_row():
    def shares(row):
        return int(1 / row[0] > 2)

    with pytest.raises(ValueError, match=r"The rule 'shares' failed on row 2: ZeroDivisionError: .*"):
        WeakSupervision([lambda row: 0, shares]).fit([[1.0], [0.5], [0], [0.1]])


def answering(answer):
    """Return a rule that gives texts with a rating another answer than RATINGS does."""

    def rule(text):
        return None if RATINGS(text) is None else answer(text, *RATINGS(text))

    return rule


@pytest.mark.parametrize(
    "answer",
    [
        lambda text, named, spans: (named, [(-3, len(text))]),
        lambda text, named, spans: (named, [(0, len(text) + 1)]),
        lambda text, named, spans: (named, [(5, 2)]),
        lambda text, named, spans: (named, [(0.0, 2.0)]),
        lambda text, named, spans: (named, [(1, 2, 3)]),
        lambda text, named, spans: (named, (1, 2)),
        lambda text, named, spans: (named, "ab"),
        lambda text, named, spans: (named, None),
    ],
)
def test_spans_that_are_not_in_the_text_are_a_line(answer):
    with pytest.raises(ValueError, match=r"The rule 'rule' returned the spans .* for row 1: expected a list of pairs"):
        WeakSupervision([answering(answer)]).fit(reviews(20)[0])


@pytest.mark.parametrize(
    "strange",
    [float("nan"), np.float64("nan"), pd.NA, pd.NaT, ["good"], ("good",), ("good", [], 1), np.array(["good"])],
)
def test_an_answer_that_is_no_class_is_a_line(strange):
    with pytest.raises(ValueError, match=r"The rule 'rule' returned .* for row 1: expected a class, None \(not NaN\)"):
        WeakSupervision([answering(lambda *_: strange)]).fit(reviews(20)[0])


def test_a_class_that_is_not_known_is_named_with_rule_and_row():
    weak = WeakSupervision([lambda row: "no" if row[0] > 5 else str(row[0] > 0)]).fit([[1.0], [0.5], [-1], [0.1]])
    with pytest.raises(ValueError, match=r"The rule '<lambda>' named the class 'no' for row 1, .* as classes="):
        weak.transform([[0.0], [6.0]])


def test_rules_that_do_not_depend_on_the_row_alone_are_refused():
    asked = []

    def counting(row):
        asked.append(row)
        return len(asked) % 3

    with pytest.raises(ValueError, match=r"The rule 'counting' said .* and then .* about row .* on the row alone"):
        WeakSupervision([counting]).fit(np.zeros((4, 1)))


def test_rules_cannot_change_the_given_rows():
    def overwriting(row):
        row[0] = 7
        return 1

    X = np.zeros((4, 1))
    with pytest.raises(ValueError, match=r"The rule 'overwriting' failed on row 0: .*read-only"):
        WeakSupervision([overwriting]).fit(X)
    assert not X.any()


@pytest.mark.parametrize(
    "column", [list, np.array, pd.Series, pl.Series, pa.array, lambda texts: pa.chunked_array([texts])]
)
def test_texts_may_come_in_any_column(column):
    texts = reviews(40)[0]
    expected = WeakSupervision([RATINGS]).fit(texts)
    found = WeakSupervision([RATINGS]).fit(column(texts))
    assert found.transform(column(texts[:5])).tobytes() == expected.transform(texts[:5]).tobytes()
    assert found.transform([]).shape == (0, 1)


def test_certificates_state_coverage_and_conflicts():
    texts, labels = reviews(40)
    model = CertifiedRidgeClassifier(features=WeakSupervision([RATINGS]), classes=["bad", "good"]).fit(texts, labels)
    said = next(one for one in model.certify(texts[:5]).assumptions if one.code == "rules-counted")
    assert dict(said.values) == {"n_decided": 20, "n_rows": 40, "n_conflicts": 0}
    assert "20 of 40 rows" in str(said)


def test_a_model_with_rules_is_refused_by_save(tmp_path):
    texts, labels = reviews(40)
    model = CertifiedRidgeClassifier(features=WeakSupervision([RATINGS]), classes=["bad", "good"]).fit(texts, labels)
    with pytest.raises(ValueError, match="WeakSupervision, which cannot be stored"):
        flipproof.save(model, tmp_path / "m.flipproof")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rules": []}, "rules"),
        ({"rules": "no"}, "rules"),
        ({"rules": [3]}, "rules"),
        ({"rules": {"name": RATINGS}}, "rules"),
        ({"rules": (one for one in [RATINGS])}, "rules"),
        ({"rules": [lambda row: None]}, "at least two classes"),
        ({"rules": [lambda row: "a"]}, "at least two classes"),
        ({"rules": [lambda row: row[0] > 1], "classes": ["a", "b"]}, "names the class|named the class"),
        ({"rules": [lambda row: row[0] > 1], "estimator": object()}, "estimator"),
        ({"rules": [lambda row: row[0] > 1], "rule_weight": -1.0}, "rule_weight"),
        ({"rules": [lambda row: row[0] > 1], "features": object()}, "features"),
        ({"rules": [lambda row: row[0] > 1], "features": []}, "features"),
        ({"rules": [lambda row: (row[0] > 1, [(0, 1)])]}, "spans"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        WeakSupervision(**parameters).fit(np.arange(4.0)[:, None])


@pytest.mark.parametrize("X", ["a text", 3])
def test_bad_rows(X):
    with pytest.raises(ValueError, match="must be a list of texts"):
        WeakSupervision([RATINGS]).fit(X)
