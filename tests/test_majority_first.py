"""Majority first, then one label per item: certificates against every labelling of the annotations, with refits."""

import numpy as np
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

PRIOR = GaussianNB().fit([[0, 0], [0, 1], [1, 0], [2, 2], [3, 3], [1, 3]], [0, 0, 1, 2, 2, 1])

LEARNERS = {
    "ridge": CertifiedRidgeClassifier(),
    "ridge, clipped": CertifiedRidgeClassifier(clip=0.7),
    "ridge, prior": CertifiedRidgeClassifier(prior=PRIOR, prior_weight=0.2),
    "kernel": CertifiedKernelClassifier(),
    "neighbours": CertifiedNeighborsClassifier(3),
    "neighbours by distance, prior": CertifiedNeighborsClassifier(4, weights="distance", prior=PRIOR, prior_weight=0.3),
    "forest": CertifiedForestClassifier(n_estimators=3),
}


def refits(learner, X, votes, labellings, Z):
    """Predictions of a refit to each labelling; those that give the same majorities share a refit."""
    known, found = {}, []
    for labels in labellings:
        given = Annotations(votes.item, labels, votes.annotator, votes.weight, votes.n_items, "majority")
        label, is_tied = given.majority()
        key = tuple(np.where(is_tied, -1, label).tolist())
        if key not in known:
            known[key] = learner.fit(X, given).predict(Z)
        found.append(known[key])
    return np.array(found)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", LEARNERS)
def test_radii_are_exact_under_refits(name, n_classes):
    """Annotations and annotators: trusted ones, allowed changes, a prior, clipped votes, a person twice on an item."""
    rng = np.random.default_rng([n_classes, list(LEARNERS).index(name)])
    X, Z = rng.normal(size=(6, 2)), rng.normal(size=(5, 2))
    item, who = [0, 0, 0, 1, 1, 3, 4, 4], ["a", "b", "c", "a", "b", "c", "d", "d"]  # items 2 and 5 have no labels
    if n_classes == 3:
        item, who = item[:7], who[:7]
    codes = rng.integers(n_classes, size=len(item))
    options = {"items": 6, "repeated": "keep", "aggregate": "majority"}
    votes = Annotations.from_long(item, who, codes, **options)
    learner = LEARNERS[name].set_params(classes=[0, 1, 2])
    if n_classes == 2 and learner.prior is None:
        learner.set_params(classes=[0, 1])
    n_known = len(learner.classes)
    labellings, _ = possible_attacks(codes, n_classes)
    predictions = refits(learner, X, votes, labellings, Z)
    learner.fit(X, votes)
    trusted = np.arange(len(item)) == 3
    pairs = [(old, new) for old in range(n_classes) for new in range(n_classes) if old != new]
    for given in (
        {},
        {"trusted": trusted},
        {"groups": votes.annotator},
        {"groups": votes.annotator, "trusted": trusted},
    ):
        limits = {"allowed": pairs} if n_known > n_classes else {}
        adversary = Adversary(**given, **limits)
        certificates = learner.certify(Z, adversary=adversary)
        np.testing.assert_array_equal(certificates.prediction, learner.predict(Z))
        groups = given.get("groups")
        reached, cost = possible_attacks(
            codes, n_classes, trusted=given.get("trusted"), groups=None if groups is None else list(groups)
        )
        number = {tuple(line): place for place, line in enumerate(labellings.tolist())}
        after = predictions[[number[tuple(line)] for line in reached.tolist()]]
        for row in range(len(Z)):
            least = cost[after[:, row] != certificates.prediction[row]].min(initial=99)
            if least == 99:
                assert certificates.unlimited[row]
            else:
                assert certificates.radius[row] == least - 1
        assert "majority-lower-bound" not in [one.code for one in certificates.assumptions]
        assert certificates.unit == ("labels" if groups is None else "annotators")


def test_one_annotation_per_item_is_the_same_as_plain_labels():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(3, size=60)
    order = rng.permutation(60)
    people = rng.integers(9, size=60)
    votes = Annotations.from_long(order, people[order], y[order], items=60, aggregate="majority")
    for learner in (one.set_params(classes=[0, 1, 2]) for one in LEARNERS.values()):
        plain = learner.fit(X, y)
        expected = plain.certify(X), plain.certify(X, adversary=Adversary(groups=people))
        crowd = learner.fit(X, votes)
        found = crowd.certify(X), crowd.certify(X, adversary=Adversary(groups=votes.annotator))
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours.prediction, theirs.prediction)
            np.testing.assert_array_equal(ours.radius, theirs.radius)


def test_blocks_do_not_matter_and_annotators_are_below_annotations():
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(80, 3)), rng.normal(size=(30, 3))
    item = np.repeat(np.arange(80), 3)
    labels = np.where(rng.random(240) < 0.7, (X[item, 0] > 0).astype(int), rng.integers(3, size=240))
    who = np.concatenate([rng.permutation(12)[:3] for _ in range(80)])
    votes = Annotations.from_long(item, who, labels, items=80, aggregate="majority")
    assert "majority first" in repr(votes)
    model = CertifiedRidgeClassifier(classes=[0, 1, 2]).fit(X, votes)
    by_labels, by_people = model.certify(Z), model.certify(Z, adversary=Adversary(groups=votes.annotator))
    assert by_labels.n_train == 240
    assert np.all(by_people.radius <= by_labels.radius)
    in_blocks = CertifiedRidgeClassifier(classes=[0, 1, 2], block_size=1).fit(X, votes)
    np.testing.assert_array_equal(in_blocks.certify(Z).radius, by_labels.radius)
    np.testing.assert_array_equal(
        in_blocks.certify(Z, adversary=Adversary(groups=votes.annotator)).radius, by_people.radius
    )
    again = model.fit(X, votes.of_items(np.arange(80)))  # keeps what votes
    assert again.majority_first
    assert not model.fit(X, rng.integers(3, size=80)).majority_first


def test_what_majorities_do_not_cover_is_refused():
    X = np.arange(8.0).reshape(4, 2)
    votes = Annotations.from_long([0, 0, 1, 2, 3], list("abaab"), [0, 1, 1, 0, 1], items=4, aggregate="majority")
    model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X, votes)
    for refused in (
        lambda: model.certify(X, "kl"),
        lambda: model.certify(X, adversary=Adversary(window=[1, 2, 3, 4, 5], length=1)),
        lambda: model.random_error_bound(X),
        lambda: worst_flips(model, X),
        lambda: flipproof.collective_certify(model, X, 1),
    ):
        with pytest.raises(ValueError, match="majorit"):
            refused()
    with pytest.raises(ValueError, match="aggregate"):
        Annotations.from_wide([["a", "b"]], aggregate="mean")
