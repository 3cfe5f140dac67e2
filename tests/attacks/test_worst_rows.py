"""The attack by rows: as many changes as the certificate says, confirmed by a fit on the changed rows."""

import os
import signal

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tiers import mostly_slow

from flipproof import (
    Adversary,
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedRidgeClassifier,
    LabelLinearClassifier,
    certified_accuracy,
    collective_certify,
)
from flipproof.attacks import (
    AnyClassifierAttack,
    DistanceAttack,
    labels_to_audit,
    smoothed_attack,
    undefended_attack,
    worst_flips,
    worst_rows,
)

CLASSES = ["ham", "none", "spam"]


class Parzen(LabelLinearClassifier):
    def fit_without_labels(self, X):
        pass

    def weight_of_row(self, x, z):
        return np.exp(-np.abs(z - x).sum()) - 0.1


def data(seed=0, n=70):
    rng = np.random.default_rng(seed)
    reference, Z = rng.normal(size=(40, 3)), rng.normal(size=(15, 3))
    y = rng.integers(3, size=n)
    X = rng.normal(size=(n, 3)) + np.eye(3)[y]
    return reference, X, np.array(CLASSES)[y], Z


ATTAINED = {
    "ridge": CertifiedRidgeClassifier(classes=CLASSES),
    "ridge clipped": CertifiedRidgeClassifier(classes=CLASSES, clip=0.8),
    "ridge by sign": CertifiedRidgeClassifier(classes=CLASSES, clip="sign", precision=5),
    "ridge on components, clipped": CertifiedRidgeClassifier(classes=CLASSES, clip=0.8, features=PCA(2)),
    "kernel clipped": CertifiedKernelClassifier(classes=CLASSES, clip=0.7),
    "forest": CertifiedForestClassifier(15, classes=CLASSES, min_samples_leaf=3),
    "forest clipped": CertifiedForestClassifier(15, classes=CLASSES, min_samples_leaf=3, clip=0.5),
    "clusters": CertifiedClusterClassifier(classes=CLASSES),
    "custom clipped": Parzen(classes=CLASSES, clip=0.9),
}
BOUNDS = {
    "ridge on components": CertifiedRidgeClassifier(classes=CLASSES, features=PCA(2)),
    "kernel": CertifiedKernelClassifier(classes=CLASSES),
    "custom": Parzen(classes=CLASSES),
}


def adversaries(n, seed=0):
    rng = np.random.default_rng(seed)
    trusted, groups = rng.random(n) < 0.3, rng.integers(12, size=n)
    for changes in ("rows", "insertions", "removals"):
        yield Adversary(changes=changes)
        yield Adversary(changes=changes, trusted=trusted)
        if changes != "insertions":
            yield Adversary(changes=changes, trusted=trusted, groups=groups)


def check_attack(learner, attack, certificates, adversary, X, y, reference, Z):
    """Check what is reported against the adversary's powers, and against new fits."""
    n = len(y)
    trusted = np.zeros(n, dtype=bool) if adversary.trusted is None else adversary.trusted
    for i in np.flatnonzero(attack.success):
        removed, n_added = attack.removed[i], len(attack.added_labels[i])
        assert len(attack.added[i]) == n_added
        assert len(set(removed.tolist())) == len(removed)
        assert not trusted[removed].any()
        if adversary.groups is None:
            assert attack.sources is None
            assert attack.changes_needed[i] == max(len(removed), n_added)
        else:
            assert attack.changes_needed[i] == len(attack.who(i))
            assert attack.who(i) == {one: np.count_nonzero(adversary.groups[removed] == one) for one in attack.who(i)}
            assert sum(attack.who(i).values()) == len(removed)
            assert n_added in (0, len(removed))
        assert adversary.changes != "insertions" or not len(removed)
        assert adversary.changes != "removals" or not n_added
        X_after, y_after = attack.changed(X, y, i)
        assert learner.fit(X_after, y_after, reference=reference).predict(Z[i : i + 1])[0] != certificates.prediction[i]
    np.testing.assert_array_equal(attack.changes_needed == -1, ~attack.success)
    assert np.all(attack.changes_needed[attack.success] > certificates.radius[attack.success])


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [*mostly_slow(ATTAINED, fast=(0, 1, 4, 7, 8)), *BOUNDS])
def test_a_fit_on_the_changed_rows_predicts_another_class(name):
    learner = {**ATTAINED, **BOUNDS}[name]
    reference, X, y, Z = data()
    for adversary in adversaries(len(y)):
        model = learner.fit(X, y, reference=reference)
        certificates = model.certify(Z, adversary=adversary)
        attack = worst_rows(model, Z, adversary, reference=reference)
        np.testing.assert_array_equal(model.predict(Z), certificates.prediction)  # the model itself is unchanged
        if name in ATTAINED or adversary.changes == "removals":
            assert attack.is_smallest.all()
            np.testing.assert_array_equal(attack.success, ~certificates.unlimited)
            needed = np.where(certificates.unlimited, -1, certificates.radius + 1)
            np.testing.assert_array_equal(attack.changes_needed, needed)
        else:
            codes = {one.code for one in certificates.assumptions}
            assert "rows-lower-bound" in codes
            assert attack.success.all() or adversary.groups is not None
            np.testing.assert_array_equal(
                attack.is_smallest, attack.success & (attack.changes_needed == certificates.radius + 1)
            )
        check_attack(learner, attack, certificates, adversary, X, y, reference, Z)


def test_accuracy_is_the_certified_accuracy_where_attacks_are_the_smallest():
    reference, X, y, Z = data(1)
    model = CertifiedRidgeClassifier(clip=0.9).fit(X, y, reference=reference)
    adversary = Adversary(changes="rows")
    truth = model.predict(Z)
    truth[::4] = "none"
    attack, certificates = worst_rows(model, Z), model.certify(Z, adversary=adversary)
    np.testing.assert_array_equal(attack.accuracy(truth, range(20)), certified_accuracy(truth, certificates, range(20)))
    assert "worst rows, 15 of 15 predictions overturned, median" in repr(attack)


def test_certificates_are_not_computed_again():
    reference, X, y, Z = data()
    model = CertifiedRidgeClassifier().fit(X, y, reference=reference)
    certificates = model.certify(Z, adversary=Adversary(changes="removals"))
    one, other = worst_rows(model, Z, certificates=certificates), worst_rows(model, Z, certificates.adversary)
    np.testing.assert_array_equal(one.changes_needed, other.changes_needed)
    with pytest.raises(ValueError, match="same model and test rows"):
        worst_rows(model, Z[::-1], certificates=certificates)
    with pytest.raises(ValueError, match="must be against its adversary"):
        worst_rows(model, Z, Adversary(changes="rows"), certificates=certificates)


def test_max_changes_gives_up():
    reference, X, y, Z = data()
    model = CertifiedForestClassifier(10).fit(X, y, reference=reference)
    needed = worst_rows(model, Z).changes_needed
    few = worst_rows(model, Z, max_changes=2)
    np.testing.assert_array_equal(few.changes_needed, np.where(needed <= 2, needed, -1))
    assert not few.is_smallest[needed > 2].any()


def test_rows_to_add_are_data_frames_if_the_test_rows_are():
    reference, X, y, Z = (pd.DataFrame(one, columns=["a", "b", "c"]) if one.ndim == 2 else one for one in data())
    for learner in (CertifiedRidgeClassifier(), CertifiedKernelClassifier(clip=0.5), CertifiedForestClassifier(10)):
        attack = worst_rows(learner.fit(X, y, reference=reference), Z, reference=reference)
        assert attack.is_smallest.all()
        assert list(attack.added[0].columns) == ["a", "b", "c"]
        joined = pd.concat([X.drop(index=attack.removed[0]), attack.added[0]])
        labels = np.concatenate([np.delete(y, attack.removed[0]), attack.added_labels[0]])
        assert learner.fit(joined, labels, reference=reference).predict(Z[:1])[0] != attack.prediction[0]


def test_a_model_without_training_rows_is_attacked_by_adding_some():
    reference, _, _, Z = data()
    model = CertifiedForestClassifier(5, classes=[0, 1]).fit(np.zeros((0, 3)), [], reference=reference)
    attack = worst_rows(model, Z)
    assert (attack.changes_needed == 1).all()
    assert all(labels.tolist() == [1] for labels in attack.added_labels)
    assert not worst_rows(model, Z, Adversary(changes="removals")).success.any()


@pytest.mark.few(1)
@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e140, 2e149])
def test_rows_at_extreme_scales(scale):
    reference, X, y, Z = (one * scale if one.ndim == 2 else one for one in data())
    for learner in (CertifiedRidgeClassifier(), CertifiedForestClassifier(5), CertifiedRidgeClassifier(clip=0.5)):
        model = learner.fit(X, y, reference=reference)
        certificates = model.certify(Z, adversary=Adversary(changes="rows"))
        attack = worst_rows(model, Z, reference=reference)
        assert attack.success.all()
        assert all(np.isfinite(rows).all() for rows in attack.added)
        if "rows-lower-bound" not in {one.code for one in certificates.assumptions}:
            assert attack.is_smallest.all()


@pytest.mark.slow
def test_an_interrupt_returns_what_was_found(monkeypatch):
    reference, X, y, _ = data()
    Z = np.random.default_rng(0).normal(size=(300, 3))
    model = CertifiedForestClassifier(5).fit(X, y, reference=reference)
    loudest = CertifiedForestClassifier.loudest_rows

    def interrupts(self, X):
        os.kill(os.getpid(), signal.SIGINT)
        return loudest(self, X)

    monkeypatch.setattr(CertifiedForestClassifier, "loudest_rows", interrupts)
    attack = worst_rows(model, Z)
    np.testing.assert_array_equal(attack.attempted, np.arange(300) < 128)
    assert attack.success[:128].all()
    assert not attack.success[128:].any()
    assert len(attack.added[200]) == len(attack.removed[200]) == 0
    np.testing.assert_array_equal(attack.prediction, model.predict(Z))


@pytest.mark.few(1)
@pytest.mark.parametrize("changes", ["rows", "insertions", "removals"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("k", mostly_slow([1, 4, 9], fast=(1,)))
def test_the_attack_on_neighbours_attains_the_radius(k, metric, changes):
    rng = np.random.default_rng(k)
    for seed in range(4):
        X = rng.integers(-2, 3, size=(25, 2)).astype(float)  # many equal rows and equal distances
        y, Z = rng.integers(3, size=25), rng.integers(-2, 3, size=(12, 2)) + 0.25
        trusted = rng.random(25) < (0.3 if seed % 2 else 0)
        model = CertifiedNeighborsClassifier(k, metric=metric, classes=[0, 1, 2]).fit(X, y, reference=X[:5])
        adversary = Adversary(changes=changes, trusted=trusted)
        certificates = model.certify(Z, adversary=adversary)
        attack = worst_rows(model, Z, adversary, X_train=X)
        np.testing.assert_array_equal(attack.success, ~certificates.unlimited)
        assert attack.is_smallest.all()
        for row in np.flatnonzero(attack.success):
            assert not trusted[attack.removed[row]].any()
            assert len(attack.removed[row]) <= attack.changes_needed[row]
            assert len(attack.added[row]) <= attack.changes_needed[row]
            changed = model.fit(*attack.changed(X, y, row), reference=X[:5])
            assert changed.predict(Z[row : row + 1])[0] != certificates.prediction[row]
        model.fit(X, y, reference=X[:5])
        by_copies = worst_rows(model, Z, adversary)  # without the training rows, only the test row is added
        assert np.all(by_copies.changes_needed[by_copies.success] > certificates.radius[by_copies.success])


def test_models_without_a_reference_and_other_adversaries_are_refused():
    reference, X, y, Z = data()
    with pytest.raises(ValueError, match="needs a fit with a reference"):
        worst_rows(CertifiedRidgeClassifier().fit(X, y), Z)
    with pytest.raises(ValueError, match="needs a fit with a reference"):
        worst_rows(CertifiedNeighborsClassifier().fit(X, y), Z)
    neighbours = CertifiedNeighborsClassifier(5).fit(X, y, reference=reference)
    with pytest.raises(ValueError, match="no attack by sources"):
        worst_rows(neighbours, Z, Adversary(changes="rows", groups=np.arange(len(X)) // 2))
    with pytest.raises(ValueError, match="label-linear learner"):
        worst_rows(LogisticRegression().fit(X, y), Z)
    model = CertifiedRidgeClassifier().fit(X, y, reference=reference)
    with pytest.raises(ValueError, match="Adversary\\(changes='rows'\\)"):
        worst_rows(model, Z, Adversary())
    with pytest.raises(ValueError, match="max_changes"):
        worst_rows(model, Z, max_changes=-1)


def test_attacks_on_labels_refuse_an_adversary_who_changes_rows():
    reference, X, y, Z = data()
    model = CertifiedRidgeClassifier().fit(X, y, reference=reference)
    undefended = LogisticRegression().fit(X, y)
    adversary = Adversary(changes="rows")
    certificates = model.certify(Z, adversary=adversary)
    for attack in (
        lambda: worst_flips(model, Z, adversary),
        lambda: worst_flips(model, Z, certificates=certificates),
        lambda: labels_to_audit(model, Z, adversary),
        lambda: labels_to_audit(model, Z, certificates=certificates),
        lambda: smoothed_attack(model, Z, adversary),
        lambda: collective_certify(model, Z, flips=2, adversary=adversary),
        lambda: undefended_attack(undefended, X, y, Z, adversary),
        lambda: DistanceAttack().attack(undefended, X, y, Z, adversary),
        lambda: AnyClassifierAttack().attack(undefended, X, y, Z, adversary),
    ):
        with pytest.raises(ValueError, match="covers changed labels only"):
            attack()


def test_a_pipeline_is_attacked_in_the_rows_of_its_learner():
    reference, X, y, Z = data()
    scaler = StandardScaler().fit(reference)
    learner = CertifiedRidgeClassifier().fit(scaler.transform(X), y, reference=scaler.transform(reference))
    one = worst_rows(make_pipeline(scaler, learner), Z)
    other = worst_rows(learner, scaler.transform(Z))
    np.testing.assert_array_equal(one.changes_needed, other.changes_needed)
