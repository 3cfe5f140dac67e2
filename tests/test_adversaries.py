"""Restricted adversaries and adversarial annotators: all their attacks on small problems."""

import itertools
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from enumeration import least_cost, possible_attacks, random_powers, scores_after, touchable
from hypothesis import given, settings
from hypothesis import strategies as st
from tiers import mostly_slow

from flipproof import Adversary, Assumption, CertifiedRidgeClassifier, LabelLinearClassifier, certify
from flipproof.core.exact import gain_factors
from flipproof.core.powers import Powers

METHODS = ("exact", "tight", "kl")


class GivenVotes(LabelLinearClassifier):
    """Given votes, independent of the features: one test row per row of `votes`."""

    def __init__(self, votes=None, offsets=None, noise=0.1, *, precision=10, classes=None):
        super().__init__(noise, precision=precision, classes=classes)
        self.votes = votes
        self.offsets = offsets

    def fit_without_labels(self, X):
        pass

    def label_free_weights(self, Z):
        row = int(Z[0, 0])
        return np.asarray(self.votes, dtype=float)[row : row + 1], np.asarray(self.offsets, dtype=float)[row : row + 1]


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", mostly_slow(range(8), fast=range(3)))
def test_radii_are_sound_and_exact_is_attained_on_random_votes(seed):
    rng = np.random.default_rng(seed)
    seen = set()
    for _ in range(40):
        n, K, m = int(rng.integers(2, 6)), int(rng.integers(2, 5)), 4
        y, powers = rng.integers(K, size=n), random_powers(rng, n, K, which=rng.integers(1, 8))
        model = GivenVotes(
            rng.integers(-9, 10, size=(m, n)),
            rng.integers(-12, 1, size=(m, K)) if rng.random() < 0.5 else np.zeros((m, K)),
            float(rng.choice([1e-6, 0.1, 0.4])),
            precision=int(rng.choice([5, 10, 20])),
            classes=range(K),
        ).fit(np.zeros((n, 1)), y)
        Z = np.arange(m, dtype=float)[:, None]
        certificates = {method: model.certify(Z, method, Adversary(**powers)) for method in METHODS}
        alpha, offsets = model.vote_weights(Z)
        labellings, cost = possible_attacks(y, K, **powers)
        for i in range(m):
            scores = scores_after(labellings, alpha[i], offsets[i])
            winner = certificates["exact"].prediction[i]
            changed = least_cost(cost, scores.argmax(axis=1) != winner)
            for certificate in certificates.values():
                assert certificate.prediction[i] == winner
                assert certificate.radius[i] < changed
                assert certificate.n_touchable == touchable(y, **powers)
            exact = int(certificates["exact"].radius[i])
            assert exact == (touchable(y, **powers) if changed == np.inf else changed - 1)
            assert all(certificate.radius[i] <= exact for certificate in certificates.values())
            seen.add((frozenset(powers), changed == np.inf, exact > 0))
    assert {names for names, *_ in seen} == {
        frozenset(some) for r in (1, 2, 3) for some in itertools.combinations(("trusted", "allowed", "groups"), r)
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_slow(range(4), fast=(0,)))
def test_no_possible_attack_within_the_radius_changes_a_refitted_ridge(seed):
    rng = np.random.default_rng(seed)
    largest = 0
    for _ in range(12):
        n, K = int(rng.integers(3, 6)), int(rng.integers(2, 4))
        X, Z, y = rng.normal(size=(n, 2)), rng.normal(size=(5, 2)), rng.integers(K, size=n)
        powers = random_powers(rng, n, K, which=rng.integers(1, 8))
        model = CertifiedRidgeClassifier(
            noise=float(rng.choice([1e-6, 0.05, 0.3])),
            regularization=float(rng.choice([0.1, 1.0, 10.0])),
            fit_intercept=bool(rng.random() < 0.5),
            classes=range(K),
        ).fit(X, y)
        certificates = [model.certify(Z, method, Adversary(**powers)) for method in METHODS]
        labellings, cost = possible_attacks(y, K, **powers)
        refitted = np.array([model.fit(X, attacked).predict(Z) for attacked in labellings])
        for certificate in certificates:
            for i in range(len(Z)):
                assert certificate.radius[i] < least_cost(cost, refitted[:, i] != certificate.prediction[i])
            largest = max(largest, int(certificate.radius.max()))
    assert largest >= 2


@settings(max_examples=200)
@given(st.data())
def test_factors_are_the_largest_loss_from_any_possible_label(data):
    K = data.draw(st.integers(2, 5))
    transitions = np.array(data.draw(st.lists(st.booleans(), min_size=K * K, max_size=K * K))).reshape(K, K)
    np.fill_diagonal(transitions, False)
    factors = np.stack([gain_factors(transitions, np.arange(K), rival) for rival in range(K)], axis=1)
    for c, d, a in itertools.product(range(K), repeat=3):
        if c == d:
            continue

        def lead(e, c=c, d=d):
            return int(e == c) - int(e == d)

        possible = np.flatnonzero(transitions[a])
        for side, sign in enumerate((1, -1)):
            assert factors[c, d, a, side] == max([0, *(sign * (lead(a) - lead(e)) for e in possible)])


def test_weaker_adversaries_give_larger_certificates():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)
    model = CertifiedRidgeClassifier(0.05, classes=range(3)).fit(X, y)
    Z, groups = rng.normal(size=(60, 3)), rng.integers(30, size=400)
    for method in METHODS:
        anyone = model.certify(Z, method)
        some_trusted = model.certify(Z, method, Adversary(trusted=np.arange(400) < 200))
        annotators = model.certify(Z, method, Adversary(groups=groups))
        assert np.all(some_trusted.radius >= anyone.radius)
        assert some_trusted.radius.mean() > anyone.radius.mean()
        assert np.all(annotators.radius <= anyone.radius)
        assert annotators.unit == "annotators"
        assert annotators.n_touchable == 30
    only = model.certify(Z, adversary=Adversary(allowed=[(0, 1)]))
    assert np.all(only.radius >= model.certify(Z).radius)
    assert only.radius.mean() > model.certify(Z).radius.mean()


def test_trusted_labels_get_no_noise_but_still_vote():
    """Without offsets, the noisy margin contains only noisy votes and trusted labels."""
    rng = np.random.default_rng(5)
    for _ in range(60):
        n, m = 7, 6
        y, trusted = rng.integers(2, size=n), rng.random(n) < 0.6
        model = GivenVotes(rng.integers(0, 10, size=(m, n)), np.zeros((m, 2)), 0.4, classes=[0, 1])
        model.fit(np.zeros((n, 1)), y)
        Z = np.arange(m, dtype=float)[:, None]
        alpha, offsets = model.vote_weights(Z)
        labellings, cost = possible_attacks(y, 2, trusted=trusted)
        for method in ("tight", "kl"):
            certificates = model.certify(Z, method, Adversary(trusted=trusted))
            for i in range(m):
                predictions = scores_after(labellings, alpha[i], offsets[i]).argmax(axis=1)
                assert certificates.radius[i] < least_cost(cost, predictions != certificates.prediction[i])


@pytest.mark.slow
def test_a_class_removed_by_an_attack_is_still_a_class():
    """A class without labels has score 0, and wins where all others are negative: a refit must know it."""
    rng = np.random.default_rng(6)
    for _ in range(3):
        X, Z, y = rng.normal(size=(5, 1)), 3 * rng.normal(size=(6, 1)), np.array([0, 0, 1, 1, 2])
        model = CertifiedRidgeClassifier(regularization=0.1, fit_intercept=False, classes=range(3)).fit(X, y)
        certificates = model.certify(Z)
        labellings, cost = possible_attacks(y, 3)
        refitted = np.array([model.fit(X, attacked).predict(Z) for attacked in labellings])
        scores = [scores_after(labellings, *one) for one in zip(*model.vote_weights(Z), strict=True)]
        for i, prediction in enumerate(certificates.prediction):
            np.testing.assert_array_equal(refitted[:, i], scores[i].argmax(axis=1))
            assert certificates.radius[i] < least_cost(cost, refitted[:, i] != prediction)


def test_groups_within_counts_the_largest_first():
    groups = np.array([0, 0, 0, 1, 1, 2, 3])
    powers = Powers(np.array([True] * 6 + [False]), ~np.eye(2, dtype=bool), groups)
    assert powers.scope.n_touchable == 3
    assert powers.scope.groups_within(np.arange(8)).tolist() == [0, 0, 0, 1, 1, 2, 3, 3]


def test_one_annotator_per_label_is_the_same_as_no_annotators():
    rng = np.random.default_rng(1)
    X, y, Z = rng.normal(size=(200, 2)), rng.integers(3, size=200), rng.normal(size=(30, 2))
    model = CertifiedRidgeClassifier(0.1, classes=range(3)).fit(X, y)
    for method in METHODS:
        by_label, by_group = (model.certify(Z, method, who) for who in (None, Adversary(groups=np.arange(200))))
        np.testing.assert_array_equal(by_label.radius, by_group.radius)
        np.testing.assert_array_equal(by_label.rival, by_group.rival)


@pytest.mark.few(1)
@pytest.mark.parametrize("method", METHODS)
def test_results_are_independent_of_blocks_and_threads(method):
    rng = np.random.default_rng(2)
    X, y, Z = rng.normal(size=(500, 4)), rng.integers(3, size=500), rng.normal(size=(40, 4))
    who = Adversary(trusted=rng.random(500) < 0.3, groups=rng.integers(50, size=500), allowed=[(0, 1), (1, 0), (2, 0)])
    model = CertifiedRidgeClassifier(0.1, classes=range(3)).fit(X, y)
    first = model.certify(Z, method, who)
    for options in ({"block_size": 1}, {"block_size": 7}, {"n_jobs": 2}):
        other = model.set_params(**options).certify(Z, method, who)
        for name in ("prediction", "radius", "rival", "margin", "log_failure", "witness"):
            np.testing.assert_array_equal(getattr(first, name), getattr(other, name))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("noise", [0.1, "auto"])
def test_the_radius_is_0_if_all_labels_are_trusted(method, noise):
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    model = CertifiedRidgeClassifier(noise, classes=[0, 1]).fit(X, y)
    for who in (Adversary(trusted=np.ones(6, dtype=bool)), Adversary(trusted=np.ones(6, dtype=bool), groups=y)):
        certificates = model.certify(X, method, who)
        assert certificates.n_touchable == 0
        assert np.all(certificates.radius == 0)


def test_the_best_noise_per_row_with_trusted_labels_stays_below_exact():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    model = CertifiedRidgeClassifier("auto", classes=[0, 1]).fit(X, y)
    who = Adversary(trusted=rng.random(300) < 0.5)
    exact, tight = model.certify(X[:50], "exact", who).radius, model.certify(X[:50], "tight", who).radius
    assert np.all(tight <= exact)
    assert tight.mean() > 0.5 * exact.mean()


def test_assumptions_state_the_limits_of_the_adversary():
    X, y = np.arange(6.0)[:, None], np.array(list("hhhsss"))
    model = CertifiedRidgeClassifier(classes=["h", "s"]).fit(X, y)
    who = Adversary(trusted=[True] + [False] * 5, groups=[1, 1, 2, 2, 3, 3], allowed=[("h", "s")])
    assert model.certify(X, "kl", who).assumptions == (
        Assumption("labels-only"),
        Assumption("trusted-labels", {"n_trusted": 1, "n_labels": 6}),
        Assumption("changes-allowed", {"changes": [("h", "s")], "n_changes": 1}),
        Assumption("changes-partly-used", {"method": "kl"}),
        Assumption("annotators", {"n_annotators": 2}),
    )
    assert certify(model, X, adversary=who).adversary is who


@pytest.mark.parametrize(
    ("powers", "message"),
    [
        ({"trusted": [0, 1, 0]}, r"trusted=\.\.\.\) must be a mask of booleans.*Got int64 of shape \(3,\)"),
        ({"trusted": [[True]]}, r"must be a mask of booleans.*shape \(1, 1\)"),
        ({"groups": ["a", None]}, "must not be missing"),
        ({"groups": [1.0, np.nan]}, "must not be missing"),
        ({"groups": np.array([1, "a"], dtype=object)}, "of one kind"),
        ({"groups": [[1], [2]]}, "one name per training row"),
        ({"allowed": []}, "pass None to allow any change"),
        ({"allowed": [(1, 1)]}, r"two different classes.*Got \(1, 1\)"),
        ({"allowed": [1, 0]}, "Got 1 among them"),
        ({"allowed": ["ab"]}, "Got 'ab' among them"),
        ({"allowed": "ab"}, "Got 'ab' instead"),
        ({"allowed": 3}, "Got 3 instead"),
    ],
)
def test_invalid_adversaries_are_refused(powers, message):
    with pytest.raises(ValueError, match=message):
        Adversary(**powers)


@pytest.mark.parametrize(
    ("adversary", "message"),
    [
        (Adversary(trusted=[True, False]), r"trusted=\.\.\.\) must have one entry per training row, 6. Got 2"),
        (Adversary(groups=["a"]), r"groups=\.\.\.\) must have one entry per training row, 6. Got 1"),
        (Adversary(allowed=[(0, 2)]), r"contains the class 2, .* classes are \[0, 1\]"),
        (Adversary(allowed=[("0", 1)]), "the class '0'"),
        ({"trusted": None}, r"must be a flipproof.Adversary or None. Got dict instead"),
    ],
)
def test_an_adversary_that_does_not_match_the_training_set_is_refused(adversary, message):
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match=message):
        CertifiedRidgeClassifier(classes=[0, 1]).fit(X, y).certify(X, adversary=adversary)


def test_an_adversary_is_frozen_and_copies_its_mask():
    mask = np.array([True, False])
    who = Adversary(trusted=mask)
    mask[1] = True
    assert who.trusted.tolist() == [True, False]
    with pytest.raises(ValueError, match="read-only"):
        who.trusted[0] = False
    with pytest.raises(AttributeError):
        who.trusted = None
    assert repr(Adversary()) == "<Adversary: may change any label to any class>"
    assert repr(who) == "<Adversary: 1 labels trusted>"


@pytest.mark.parametrize("unknown", [np.ma.masked, None, pd.NA, float("nan")], ids=["masked", "None", "NA", "NaN"])
@pytest.mark.parametrize("name", ["trusted", "groups"])
def test_missing_values_are_refused(name, unknown):
    given = [True, True, False, False] if name == "trusted" else ["a", "b", "a", "b"]
    if unknown is np.ma.masked:
        hidden = np.ma.array(given, mask=[False, True, False, False])
    elif unknown is pd.NA:
        hidden = pd.Series(given, dtype="boolean" if name == "trusted" else "string")
        hidden[1] = unknown
    else:
        hidden = [given[0], unknown, *given[2:]]
    with pytest.raises(ValueError, match=rf"Adversary\({name}=\.\.\.\) must not be missing"):
        Adversary(**{name: hidden})
    known = Adversary(**{name: np.ma.array(given, mask=False)})
    assert getattr(known, name).tolist() == given
    assert type(getattr(known, name)) is np.ndarray


def test_annotators_may_exceed_64_bits():
    rng = np.random.default_rng(2)
    X, y, who = rng.normal(size=(40, 3)), rng.integers(3, size=40), rng.integers(7, size=40)
    model, Z = CertifiedRidgeClassifier().fit(X, y), rng.normal(size=(9, 3))
    wanted = model.certify(Z, adversary=Adversary(groups=who))
    for names in ([2**70 + int(one) for one in who], [2**63 - 3 + int(one) for one in who], (who - 3.0).tolist()):
        adversary = Adversary(groups=names)
        np.testing.assert_array_equal(model.certify(Z, adversary=adversary).radius, wanted.radius)
        assert "labels of 7 annotators" in repr(adversary)


def test_later_changes_of_the_inputs_have_no_effect():
    names, trusted = np.array(["a", "b"], dtype=object), np.array([True, False])
    adversary = Adversary(trusted=trusted, groups=names)
    names[:], trusted[:] = "c", True
    assert (adversary.groups.tolist(), adversary.trusted.tolist()) == (["a", "b"], [True, False])


@pytest.mark.parametrize("pair", [(1, 1.0), (True, 1), (Decimal("1.0"), np.uint8(1)), (0.0, -0.0)])
def test_a_class_is_not_changed_into_itself_in_another_type(pair):
    with pytest.raises(ValueError, match="two different classes"):
        Adversary(allowed=[pair])
