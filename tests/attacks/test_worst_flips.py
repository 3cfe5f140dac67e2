"""The exact attack: as many flips as the certificate says, one fewer never suffices, and a refit confirms it."""

import numpy as np
import pytest
from enumeration import possible_attacks, random_powers, scores_after
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flipproof import Adversary, CertifiedRidgeClassifier, certified_accuracy
from flipproof.attacks import labels_to_audit, smoothed_attack, worst_flips


@pytest.mark.few(2)
@pytest.mark.parametrize("seed", range(6))
def test_the_attack_succeeds_and_no_smaller_attack_exists(seed):
    rng = np.random.default_rng(seed)
    kinds = set()
    for _ in range(15):
        n, K = int(rng.integers(3, 6)), int(rng.integers(2, 4))
        X, Z, y = np.rint(2 * rng.normal(size=(n, 2))), np.rint(2 * rng.normal(size=(5, 2))), rng.integers(K, size=n)
        powers = random_powers(rng, n, K)
        model = CertifiedRidgeClassifier(
            regularization=1.0,
            fit_intercept=bool(rng.random() < 0.5),
            precision=int(rng.choice([4, 10, 20])),
            classes=range(K),
        ).fit(X, y)
        who = Adversary(**powers)
        certificates, result = model.certify(Z, "exact", who), worst_flips(model, Z, who)
        alpha, offsets = model.vote_weights(Z)
        labellings, cost = possible_attacks(y, K, **powers)
        possible = {tuple(row) for row in labellings}
        for i in range(len(Z)):
            scores = scores_after(labellings, alpha[i], offsets[i])
            winner = certificates.prediction[i]
            overturned = cost[scores.argmax(axis=1) != winner]
            assert result.flips_needed[i] == (overturned.min() if overturned.size else -1)
            assert result.success[i] == (overturned.size > 0)
            kinds.add((overturned.size > 0, int(overturned.min()) if overturned.size else -1))
            poisoned = result.poisoned(y, i)
            assert tuple(poisoned) in possible
            assert np.array_equal(np.flatnonzero(poisoned != y), np.sort(result.rows[i]))
            if result.success[i]:
                after = scores_after(poisoned[None], alpha[i], offsets[i])[0]
                assert after.argmax() != winner
                assert result.flips_needed[i] == certificates.radius[i] + 1
    assert {(False, -1), (True, 1), (True, 2)} <= kinds


def test_refitting_on_the_attacked_labels_changes_the_prediction():
    X, y = load_digits(return_X_y=True)
    model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:1000], y[:1000])
    Z = X[1000:1030]
    result = worst_flips(model, Z)
    certificates = model.certify(Z)
    np.testing.assert_array_equal(result.flips_needed, certificates.radius + 1)
    assert result.success.all()
    for i in range(len(Z)):
        refitted = CertifiedRidgeClassifier(classes=range(10)).fit(X[:1000], result.poisoned(y[:1000], i))
        assert refitted.predict(Z[i : i + 1])[0] != certificates.prediction[i]
        fewer = y[:1000].copy()
        fewer[result.rows[i][:-1]] = result.new_labels[i][:-1]
        assert model.fit(X[:1000], fewer).predict(Z[i : i + 1])[0] == certificates.prediction[i]
        model.fit(X[:1000], y[:1000])


def test_accuracy_under_the_exact_attack_equals_certified_accuracy():
    X, y = load_digits(return_X_y=True)
    model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:1000], y[:1000])
    Z, truth, flips = X[1000:1200], y[1000:1200], np.arange(60)
    np.testing.assert_array_equal(
        worst_flips(model, Z).accuracy(truth, flips), certified_accuracy(truth, model.certify(Z), flips)
    )


@pytest.mark.few(1)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_smoothed_attack_equals_the_exact_one_and_the_bound_reaches_one_half_no_later(intercept):
    X, y = load_digits(return_X_y=True)
    kept = np.isin(y, (1, 7))
    X, y = X[kept], y[kept]
    model = CertifiedRidgeClassifier(0.1, fit_intercept=intercept, classes=[1, 7]).fit(X[:250], y[:250])
    Z, truth = X[250:], y[250:]
    result, exact = smoothed_attack(model, Z), worst_flips(model, Z)
    np.testing.assert_array_equal(result.flips_needed, exact.flips_needed)
    for one, two in zip(result.rows, exact.rows, strict=True):
        np.testing.assert_array_equal(one, two)
    assert np.all(result.flips_to_half <= result.flips_needed)
    assert np.all(result.flips_to_half >= 0)
    flips = np.arange(100)
    for method in ("tight", "kl", "exact"):
        certified = certified_accuracy(truth, model.certify(Z, method), flips)
        assert np.all(certified <= result.accuracy(truth, flips))
    # refits of the smoothed classifier: both thresholds are exactly at the reported numbers of flips
    for i in range(0, len(Z), 10):
        to_half, needed = result.flips_to_half[i], result.flips_needed[i]
        for flipped in sorted({max(to_half - 1, 0), to_half, max(needed - 1, 0), needed}):
            labels = y[:250].copy()
            labels[result.rows[i][:flipped]] = result.new_labels[i][:flipped]
            after = CertifiedRidgeClassifier(0.1, fit_intercept=intercept, classes=[1, 7]).fit(X[:250], labels)
            certificate = after.certify(Z[i : i + 1], "kl")
            overturned = certificate.prediction[0] != result.prediction[i] or certificate.margin[0] == 0
            assert overturned == (flipped >= needed)
            assert (overturned or certificate.log_failure[0] >= np.log(0.5)) == (flipped >= to_half)


def test_the_smoothed_attack_supports_many_classes_annotators_and_trusted_labels():
    X, y = load_digits(return_X_y=True)
    model = CertifiedRidgeClassifier(0.05, classes=range(10), precision=14).fit(X[:800], y[:800])
    who = Adversary(groups=np.arange(800) % 100, trusted=np.arange(800) < 100)
    result = smoothed_attack(model, X[800:840], who)
    np.testing.assert_array_equal(result.flips_needed, worst_flips(model, X[800:840], who).flips_needed)
    assert result.unit == "annotators"
    assert np.all(result.flips_to_half <= result.flips_needed)
    assert result.flips_to_half.max() > 0


def test_an_attack_on_trusted_labels_only_is_reported_as_impossible():
    X, y = load_digits(return_X_y=True)
    model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:200], y[:200])
    nobody = Adversary(trusted=np.ones(200, dtype=bool))
    for attack in (worst_flips, smoothed_attack):
        result = attack(model, X[200:210], nobody)
        assert not result.success.any()
        assert np.all(result.flips_needed == -1)
        assert all(rows.size == 0 for rows in result.rows)
        assert "0 of 10 predictions overturned" in repr(result)
    audit = labels_to_audit(model, X[200:210], nobody)
    assert audit.rows.size == 0
    assert "no label could help" in repr(audit)


def test_attacks_stay_within_max_flips():
    X, y = load_digits(return_X_y=True)
    model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:500], y[:500])
    free, limited = worst_flips(model, X[500:560]), worst_flips(model, X[500:560], max_flips=8)
    np.testing.assert_array_equal(limited.flips_needed, np.where(free.flips_needed <= 8, free.flips_needed, -1))
    smoothed = smoothed_attack(model, X[500:560], max_flips=8)
    np.testing.assert_array_equal(smoothed.flips_needed, limited.flips_needed)
    assert all(len(rows) <= 8 for rows in smoothed.rows)


def test_an_audit_counts_the_smallest_attacks_that_include_each_row():
    X, y = load_digits(return_X_y=True)
    model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:500], y[:500])
    attacks, audit = worst_flips(model, X[500:560]), labels_to_audit(model, X[500:560], top=20)
    counts = np.bincount(np.concatenate(attacks.rows), minlength=500)
    assert audit.n_attacks.tolist() == np.sort(counts)[::-1][:20].tolist()
    np.testing.assert_array_equal(counts[audit.rows], audit.n_attacks)
    assert len(audit.per_prediction) == 60
    for rows, attack in zip(audit.per_prediction, attacks.rows, strict=True):
        np.testing.assert_array_equal(rows, attack[:20])
    assert np.all((audit.weight > 0) & (audit.weight <= audit.n_attacks))


def test_pipelines_and_grid_searches_can_be_attacked():
    X, y = load_digits(return_X_y=True)
    learner = CertifiedRidgeClassifier(classes=range(10))
    pipeline = make_pipeline(StandardScaler(), learner).fit(X[:300], y[:300])
    search = GridSearchCV(learner, {"regularization": [1.0, 100.0]}, cv=2).fit(X[:300], y[:300])
    for model in (pipeline, search):
        result = worst_flips(model, X[300:310])
        np.testing.assert_array_equal(result.prediction, model.predict(X[300:310]))
        assert result.success.all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, Z: worst_flips(m, Z, max_flips=-1), "'max_flips' parameter of worst_flips .* Got -1"),
        (lambda m, Z: worst_flips(m, Z, max_flips=1.5), "Got 1.5"),
        (lambda m, Z: worst_flips(LogisticRegression(), Z), "needs a label-linear learner.*Got LogisticRegression"),
        (lambda m, Z: labels_to_audit(m, Z, top=0), "'top' parameter of labels_to_audit .* Got 0"),
        (lambda m, Z: worst_flips(m, Z).accuracy([0], [1]), r"one label per test row, shape \(3,\)"),
        (lambda m, Z: worst_flips(m, Z).accuracy([0, 0, 0], [-1]), r"flips must be numbers of at least 0"),
        (lambda m, Z: smoothed_attack(m.set_params(noise="auto").fit(Z, [0, 1, 0]), Z), "noise q to attack"),
        (
            lambda m, Z: smoothed_attack(m.set_params(fit_intercept=False).fit(Z, [0, 1, 0]), Z, noise=0.2),
            "Got noise=0.2",
        ),
    ],
)
def test_bad_input_raises_a_clear_error(call, message):
    Z = np.array([[0.0], [1.0], [2.0]])
    with pytest.raises(ValueError, match=message):
        call(CertifiedRidgeClassifier(0.1, classes=[0, 1]).fit(Z, [0, 1, 1]), Z)


def test_all_arrays_of_a_result_are_read_only():
    X, y = load_digits(return_X_y=True)
    model = CertifiedRidgeClassifier(0.1).fit(X[:200], y[:200])
    result = smoothed_attack(model, X[200:205])
    for array in (result.flips_needed, result.flips_to_half, result.success, *result.rows, *result.new_labels):
        assert not array.flags.writeable


def test_results_are_immutable_and_long_class_names_are_not_truncated():
    X, y = np.arange(6.0)[:, None], np.array(list("aaabbb"))
    model = CertifiedRidgeClassifier(classes=["a", "b", "long name"]).fit(X, y)
    result = worst_flips(model, X)
    with pytest.raises(AttributeError):
        result.success = None
    with pytest.raises(ValueError, match="read-only"):
        result.flips_needed[0] = 9
    assert set(result.poisoned(y, 0)) <= {"a", "b", "long name"}
    assert len(result) == 6
