"""Soundness: on problems small enough to enumerate, certificates hold with the stated confidence."""

from fractions import Fraction

import numpy as np
import pytest
from enumeration import all_labellings
from scipy.stats import binom
from table_learner import TableLearner, enumerated_votes, random_table
from tiers import mostly_slow

from flipproof import CertifiedRidgeClassifier
from flipproof.smoothing import SmoothedClassifier
from flipproof.smoothing import bounds as votes
from flipproof.smoothing.bounds import bound_votes
from flipproof.smoothing.bounds import log_share_upper as log_share

#: A correct program fails a test of coverage with at most this chance; the seed is fixed, so the outcome is too.
FALSE_ALARM = 1e-4


def allowed_failures(n_runs, alpha):
    return binom.isf(FALSE_ALARM, n_runs, alpha)


@pytest.mark.parametrize(
    "votes", [(0.5, 0.5), (0.7, 0.3), (0.4, 0.35, 0.25), (0.34, 0.33, 0.33), (0.46, 0.06) + (0.06,) * 8, (0.1,) * 10]
)
def test_bounds_hold_with_the_stated_confidence(votes):
    """Votes drawn 20,000 times. A coverage of 0.87 instead of 0.9 would be noticed with a chance of more than 0.999."""
    n_runs, n_samples, alpha = 20_000, 80, 0.1
    limit = allowed_failures(n_runs, alpha)
    assert binom.sf(limit, n_runs, 0.13) > 0.999
    rng = np.random.default_rng(len(votes))
    found = bound_votes(rng.multinomial(20, votes, size=n_runs), rng.multinomial(n_samples, votes, size=n_runs), alpha)
    true = np.tile(votes, (n_runs, 1))
    own = true[np.arange(n_runs), found.winner].copy()
    true[np.arange(n_runs), found.winner] = 0
    is_false = (np.exp(found.log_failure) < 1 - own) | (np.exp(found.log_rival) < true.max(axis=1))
    assert np.count_nonzero(is_false) <= limit
    wrong_decision = found.decided & (own <= true.max(axis=1))
    assert np.count_nonzero(wrong_decision) <= limit


def test_bounds_on_rivals_certify_a_plurality_without_a_majority():
    """Ten classes, 46 % of the vote for one of them: undecided against one half, decided against every rival."""
    votes = np.array([[460] + [60] * 9])
    found = bound_votes(votes // 10, votes, 0.001)
    assert found.decided.all()
    assert np.exp(found.log_failure) > 0.5
    assert np.exp(found.log_rival) < 0.1
    unanimous = np.array([[1000] + [0] * 9])
    np.testing.assert_array_equal(np.exp(bound_votes(unanimous // 10, unanimous, 0.001).log_failure).round(6), 0.006884)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("alpha", [0.1, 0.001, 0.3])
def test_all_bounds_on_a_prediction_together_spend_at_most_alpha(n_classes, alpha, monkeypatch):
    """For both ways to spend alpha: one bound on the winner alone, or bounds on the winner and each rival."""
    spent = []
    monkeypatch.setattr(votes, "log_share_upper", lambda *given: spent.append(Fraction(given[2])) or log_share(*given))
    counts = np.array([[46] + [54 // (n_classes - 1)] * (n_classes - 1)])
    bound_votes(counts, counts, alpha)
    one_bound, *two_bounds = [spent[i] for i in ([0, 1, 2] if n_classes > 2 else [0])]
    assert one_bound == Fraction(alpha)
    assert n_classes == 2 or two_bounds[0] + (n_classes - 1) * two_bounds[1] <= Fraction(alpha)
    assert (
        spent == [one_bound, *(two_bounds or [one_bound])] * 2
    )  # first to choose how to spend it, then for the result


def test_the_bound_covers_every_rival_not_only_the_selected_runner_up():
    selection = np.array([[50, 30, 20]])
    found = bound_votes(selection, np.array([[500, 200, 300]]), 0.01)
    assert found.rival == 2
    assert np.exp(found.log_rival) > 0.3


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "n", "q"), mostly_slow([(2, 6, 0.2), (3, 4, 0.4)], fast=(1,)))
def test_certificates_hold_with_the_stated_confidence(n_classes, n, q):
    """All draws, fits and votes, 120 times. A coverage of 0.5 instead of 0.8 would be noticed with a chance of 0.99."""
    n_runs, confidence = 120, 0.8
    limit = allowed_failures(n_runs, 1 - confidence)
    assert binom.sf(limit, n_runs, 0.5) > 0.99
    rng = np.random.default_rng(0)
    table = random_table(rng, 6, n, n_classes)
    labels = np.arange(n) % n_classes
    _, votes = enumerated_votes(table, q, n, n_classes)
    vote = votes[:, labels @ n_classes ** np.arange(n - 1, -1, -1)]
    failures = np.zeros(len(table), dtype=int)
    for seed in range(n_runs):
        model = SmoothedClassifier(
            TableLearner(table, n_classes), q, 9, 25, confidence, classes=range(n_classes), random_state=seed
        )
        cert = model.fit(np.zeros((n, 1)), labels).certify(np.arange(len(table))[:, None])
        own = vote[np.arange(len(table)), cert.prediction]
        failures += np.exp(cert.log_failure) < 1 - own
    assert failures.max() <= limit
    assert failures.max() > limit / 4  # bounds that never fail would prove too little


@pytest.mark.few(1)
@pytest.mark.parametrize(("n_classes", "n", "q"), mostly_slow([(2, 8, 0.3), (3, 4, 0.5)], fast=(0,)))
@pytest.mark.parametrize("method", ["tight", "kl"])
def test_no_certified_attack_changes_the_enumerated_decision(n_classes, n, q, method):
    """Every labelling of the training rows is tried on every certificate, at a confidence that rules out bad luck."""
    rng = np.random.default_rng(1)
    table = random_table(rng, 40, n, n_classes)
    distance, votes = enumerated_votes(table, q, n, n_classes)
    decisions = votes.argmax(axis=2)
    largest = 0
    for seed in range(3):
        labels = rng.integers(n_classes, size=n)
        base = labels @ n_classes ** np.arange(n - 1, -1, -1)
        model = SmoothedClassifier(
            TableLearner(table, n_classes), q, 50, 600, 1 - 1e-9, method, classes=range(n_classes), random_state=seed
        )
        cert = model.fit(np.zeros((n, 1)), labels).certify(np.arange(len(table))[:, None])
        for row in np.flatnonzero(~cert.abstained):
            within = distance[base] <= cert.radius[row]
            assert (decisions[row, within] == cert.prediction[row]).all()
        assert (cert.radius[cert.abstained] == 0).all()
        assert 0 < cert.abstained.sum() < len(table)
        largest = max(largest, cert.radius.max())
    assert largest >= 1


@pytest.mark.slow
def test_samples_bracket_the_exact_vote_of_a_label_linear_learner():
    """The exact vote by enumeration lies within the samples' bounds, and Chernoff's failure above the exact one."""
    n, q = 9, 0.3
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 2))
    Z = rng.normal(size=(12, 2))
    labels = (X[:, 0] > 0).astype(int)
    ridge = CertifiedRidgeClassifier(q, classes=[0, 1]).fit(X, labels)
    alpha, offsets = ridge.vote_weights(Z)
    labellings = all_labellings(n, 2)
    lead = (2 * labellings - 1) @ alpha.T + offsets[:, 1] - offsets[:, 0]
    chance = np.where(labellings == labels, 1 - q, q).prod(axis=1)
    vote_for_one = chance @ (lead > 0)  # a tie goes to class 0
    chernoff = ridge.certify(Z, method="tight")
    model = SmoothedClassifier(ridge, q, 50, 500, 1 - 1e-6, classes=[0, 1], random_state=0).fit(X, labels)
    cert = model.certify(Z)
    for row, one in enumerate(vote_for_one):
        failure = 1 - one if cert.prediction[row] == 1 else one
        assert np.exp(cert.log_failure[row]) >= failure
        assert abs(cert.margin[row] - (1 - 2 * failure)) < 5 * 2 * np.sqrt(0.25 / 500)
        if chernoff.prediction[row] == cert.prediction[row]:
            assert np.exp(chernoff.log_failure[row]) >= failure * (1 - 1e-9)
    assert (cert.log_failure < chernoff.log_failure).any()  # samples can be sharper than Chernoff
