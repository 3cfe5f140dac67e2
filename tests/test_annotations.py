"""Annotations: several labels per item, against every attack, with refits."""

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from enumeration import possible_attacks
from sklearn.naive_bayes import GaussianNB

import flipproof
from flipproof import (
    Adversary,
    Annotations,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedRidgeClassifier,
)
from flipproof.attacks import worst_flips


def relabelled(votes, labels):
    return Annotations(votes.item, np.asarray(labels), votes.annotator, votes.weight, votes.n_items)


LEARNERS = [
    CertifiedRidgeClassifier(classes=[0, 1, 2]),
    CertifiedRidgeClassifier(classes=[0, 1, 2], clip=0.7),
    CertifiedNeighborsClassifier(3, classes=[0, 1, 2]),
    CertifiedKernelClassifier(classes=[0, 1, 2]),
    CertifiedForestClassifier(n_estimators=3, classes=[0, 1, 2]),
    CertifiedRidgeClassifier(
        classes=[0, 1, 2], prior=GaussianNB().fit([[0, 0], [0, 1], [1, 0], [2, 2], [3, 3], [1, 3]], [0, 0, 1, 2, 2, 1])
    ),
]


@pytest.mark.few(1)
@pytest.mark.parametrize("weights", ["item", "annotation"])
@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: f"{type(one).__name__}-{one.clip}-{one.prior is None}")
def test_radii_are_exact_under_refits(learner, weights):
    """Annotations, annotators and windows, with trusted labels: every labelling of seven annotations of five items."""
    rng = np.random.default_rng(len(weights))
    X, Z = rng.normal(size=(6, 2)), rng.normal(size=(5, 2))
    item, who = [0, 0, 0, 1, 1, 3, 4], ["a", "b", "c", "a", "b", "c", "d"]  # items 2 and 5 have no labels
    codes = rng.integers(3, size=7)
    votes = Annotations.from_long(item, who, codes, items=6, weights=weights)
    stamps, trusted = np.array([0, 1, 5, 2, 6, 9, 7]), np.arange(7) == 3
    predictions = {}
    for labels in itertools.product(range(3), repeat=7):
        if len(predictions) % 3 == 0 or sum(a != b for a, b in zip(labels, codes, strict=True)) <= 3:
            predictions[labels] = None
    learner.fit(X, votes)
    weights_on, offsets = learner.vote_weights(Z)
    for labels in predictions:
        scores = np.stack([(weights_on * (np.array(labels) == c)).sum(axis=1) for c in range(3)], axis=1) + offsets
        predictions[labels] = scores.argmax(axis=1)
    some = list(predictions)[:: max(1, len(predictions) // 15)]
    for labels in some:  # what a refit predicts is what the weights say
        np.testing.assert_array_equal(learner.fit(X, relabelled(votes, labels)).predict(Z), predictions[labels])
    learner.fit(X, votes)
    for adversary in (
        None,
        Adversary(trusted=trusted),
        Adversary(groups=votes.annotator, trusted=trusted),
        Adversary(groups=votes.annotator, allowed=[(0, 1), (1, 0), (2, 0)]),
        Adversary(window=stamps, length=2),
    ):
        certificates = learner.certify(Z, adversary=adversary)
        given = {} if adversary is None else {"trusted": adversary.trusted, "allowed": adversary.allowed}
        groups = None if adversary is None else adversary.groups
        labellings, cost = possible_attacks(codes, 3, groups=None if groups is None else list(groups), **given)
        if adversary is not None and adversary.window is not None:
            cost = np.array([_windows(stamps[line != codes], 2) for line in labellings])
        scores = np.stack([weights_on @ (c == labellings.T) for c in range(3)], axis=2) + offsets[:, None, :]
        changed = scores.argmax(axis=2) != certificates.prediction[:, None]
        for row in range(len(Z)):
            least = cost[changed[row]].min(initial=99)
            if least == 99:
                assert certificates.unlimited[row]
            else:
                assert certificates.radius[row] == least - 1
        attack = worst_flips(learner, Z, adversary)
        for row in np.flatnonzero(attack.success)[:2]:
            poisoned = relabelled(votes, attack.poisoned(codes, row))
            assert learner.fit(X, poisoned).predict(Z)[row] != certificates.prediction[row]
            learner.fit(X, votes)


def _windows(stamps, length):
    count, end = 0, -1
    for stamp in sorted(set(stamps.tolist())):
        if stamp > end:
            count, end = count + 1, stamp + length
    return count


def test_one_annotation_per_item_is_the_same_as_plain_labels():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(3, size=60)
    order = rng.permutation(60)
    votes = Annotations.from_long(order, order, y[order], items=60)
    for learner in LEARNERS:
        plain = learner.fit(X, y).certify(X)
        crowd = learner.fit(X, votes).certify(X)
        np.testing.assert_array_equal(crowd.prediction, plain.prediction)
        np.testing.assert_array_equal(crowd.radius, plain.radius)
        np.testing.assert_array_equal(learner.predict(X), plain.prediction)


def test_noise_certificates_stay_below_exact_and_blocks_do_not_matter():
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(40, 2)), rng.normal(size=(9, 2))
    item = rng.integers(40, size=150)
    votes = Annotations.from_long(item, np.arange(150), (X[item, 0] > 0).astype(int), items=40)
    model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X, votes)
    exact = model.certify(Z)
    assert exact.n_train == 150
    for method in ("kl", "tight"):
        assert np.all(model.certify(Z, method).radius <= exact.radius)
    blocks = CertifiedRidgeClassifier(classes=[0, 1], block_size=2).fit(X, votes).certify(Z)
    np.testing.assert_array_equal(blocks.radius, exact.radius)
    assert np.all(model.random_error_bound(Z, 0.01) <= 1)
    assert any(one.code == "unlabelled-rows" for one in exact.assumptions) == (len(np.unique(item)) < 40)


def test_votes_of_an_item_are_shared():
    X = np.array([[0.0], [1.0], [2.0]])
    item, who = [0, 0, 0, 1, 2], ["a", "b", "c", "a", "a"]
    shares = Annotations.from_long(item, who, [0, 0, 1, 1, 1], items=3)
    np.testing.assert_allclose(shares.weight, [1 / 3, 1 / 3, 1 / 3, 1, 1])
    model = CertifiedNeighborsClassifier(3, classes=[0, 1])
    alpha, _ = model.fit(X, shares).vote_weights([[1.0]])
    np.testing.assert_allclose(alpha[0] / alpha[0, -1], shares.weight, atol=2**-9)
    alpha, _ = model.fit(
        X, Annotations.from_long(item, who, [0, 0, 1, 1, 1], items=3, weights="annotation")
    ).vote_weights([[1.0]])
    np.testing.assert_array_equal(alpha[0], np.ones(5))


def test_long_and_wide_tables_agree():
    frame = pd.DataFrame({"ann": ["x", None, "y"], "bob": ["y", "x", np.nan], "eve": ["", "x", None]})
    wide = Annotations.from_wide(frame)
    long = Annotations.from_long(
        ["i0", "i0", "i1", "i1", "i2"], ["ann", "bob", "bob", "eve", "ann"], list("xyxxy"), items=["i0", "i1", "i2"]
    )
    for name in ("item", "label", "annotator", "weight"):
        np.testing.assert_array_equal(getattr(wide, name), getattr(long, name))
    arrow = Annotations.from_wide(pa.table({name: [None if v != v else v for v in frame[name]] for name in frame}))
    np.testing.assert_array_equal(arrow.label, long.label)
    numbers = Annotations.from_wide(np.array([[0, np.nan], [1, 1]]))
    np.testing.assert_array_equal(numbers.label, [0, 1, 1])
    np.testing.assert_array_equal(numbers.annotator, [0, 0, 1])
    masked = Annotations.from_wide(np.ma.array([[0, 5], [1, 1]], mask=[[0, 1], [0, 0]]))
    np.testing.assert_array_equal(masked.item, [0, 1, 1])


@pytest.mark.parametrize("kind", ["pandas", "arrow", "array"])
def test_names_of_items_are_no_annotator(kind):
    columns = {"ticket": [f"T{i}" for i in range(12)], "ann": ["x", "y"] * 6, "bob": ["x", None] * 6}
    make = {"pandas": pd.DataFrame, "arrow": pa.table, "array": lambda of: np.array(list(of.values()), dtype=object).T}
    name = "0" if kind == "array" else "'ticket'"
    with pytest.raises(
        ValueError, match=rf"Column {name} has 12 different values in 12 rows: .* only the columns of ann"
    ):
        Annotations.from_wide(make[kind](columns))
    del columns["ticket"]
    assert len(Annotations.from_wide(make[kind](columns))) == 18
    few = pd.DataFrame({"ann": list(range(10)), "bob": list(range(10))})  # every item is its own class
    assert len(Annotations.from_wide(few)) == 20


def test_items_may_be_in_any_order():
    votes = Annotations.from_long(["q", "p", "q"], ["a", "a", "b"], [1, 0, 1], items=["p", "r", "q"])
    np.testing.assert_array_equal(votes.item, [2, 0, 2])
    assert "1 items without labels" in repr(votes)
    some = votes.of_items([2, 1])
    np.testing.assert_array_equal(some.item, [0, 0])
    assert some.n_items == 2
    np.testing.assert_array_equal(votes.of_items(np.array([False, False, True])).label, [1, 1])


def test_majority_and_ties():
    votes = Annotations.from_long([0, 0, 0, 1, 1, 3], list("abcabc"), ["x", "y", "y", "x", "y", "x"], items=4)
    labels, undecided = votes.majority()
    np.testing.assert_array_equal(undecided, [False, True, True, False])
    assert labels[0] == "y"
    assert labels[3] == "x"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"item": [0, 0], "annotator": ["a", "a"], "label": [0, 1]}, "1 of 2 annotations are repeated"),
        ({"item": [0, 7], "annotator": ["a", "a"], "label": [0, 1]}, "row numbers"),
        ({"item": ["x", "z"], "annotator": ["a", "a"], "label": [0, 1], "items": ["x", "y"]}, "unknown items"),
        ({"item": ["x"], "annotator": ["a"], "label": [0], "items": ["x", "x"]}, "different"),
        ({"item": [0], "annotator": ["a", "b"], "label": [0]}, "one entry"),
        ({"item": [0], "annotator": [None], "label": [0]}, "missing"),
        ({"item": [0], "annotator": ["a"], "label": [None]}, "missing"),
        ({"item": [0], "annotator": ["a"], "label": [0], "weights": "all"}, "weights"),
        ({"item": [], "annotator": [], "label": []}, "no annotations"),
    ],
)
def test_invalid_annotations_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Annotations.from_long(**{"items": 2, **given})


def test_repeated_annotations():
    given = [0, 0, 1], ["a", "a", "b"], [0, 1, 1]
    kept = Annotations.from_long(*given, items=2, repeated="keep")
    np.testing.assert_array_equal(kept.weight, [0.5, 0.5, 1])
    last = Annotations.from_long(*given, items=2, repeated="last")
    np.testing.assert_array_equal(last.label, [1, 1])


def test_annotations_that_do_not_fit_are_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 2))
    votes = Annotations.from_long([0, 1, 2], list("abc"), [0, 1, 1], items=4)
    model = CertifiedRidgeClassifier(classes=[0, 1])
    with pytest.raises(ValueError, match="5 rows"):
        model.fit(X, votes)
    with pytest.raises(ValueError, match="sample_weight"):
        model.fit(X[:4], votes, sample_weight=np.ones(4))
    with pytest.raises(ValueError, match="paper"):
        CertifiedRidgeClassifier(classes=[0, 1], regularization="paper").fit(X[:4], votes)
    with pytest.raises(ValueError, match="one entry per training row"):
        model.fit(X[:4], votes).certify(X, adversary=Adversary(groups=list("abcd")))
    with pytest.raises(ValueError, match="Annotations"):
        flipproof.CertifiedPartitionClassifier(n_partitions=2, classes=[0, 1]).fit(X[:4], votes)
    frozen = CertifiedNeighborsClassifier(3, classes=[0, 1]).fit(X[:4], votes, reference=X)
    with pytest.raises(ValueError, match="rows"):
        frozen.certify(X, adversary=Adversary(changes="rows"))
    with pytest.raises(ValueError, match="Annotations"):
        frozen.partial_fit(X, [0, 1, 0, 1, 1])
