"""Interrupting an attack returns what was found so far."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from undefended_problems import assert_true, fitted, labelled_clusters

from flipproof.attacks.any_classifier import AnyClassifierAttack
from flipproof.attacks.distance import DistanceAttack
from flipproof.attacks.influence import InfluenceAttack
from flipproof.attacks.logistic_target import logistic_target
from flipproof.attacks.runner import attack_row
from flipproof.attacks.strongest import undefended_attack
from flipproof.attacks.victim import NO_FLIPS


class Interrupting(LogisticRegression):
    """Sends the process the signal of Ctrl-C in its tenth fit, and is slow from then on."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        if type(self).fits == 10:
            os.kill(os.getpid(), signal.SIGINT)
        if type(self).fits >= 10:
            time.sleep(0.3)
        return super().fit(X, y)


class AlwaysInterrupting(LogisticRegression):
    """Sends the signal in every fit but the first."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        if type(self).fits > 1:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)
        return super().fit(X, y)


@pytest.fixture(autouse=True)
def _count_from_zero():
    Interrupting.fits = AlwaysInterrupting.fits = 0


ATTACKS = [
    InfluenceAttack().attack,
    InfluenceAttack(n_jobs=2).attack,
    DistanceAttack().attack,
    undefended_attack,
    AnyClassifierAttack().attack,
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_was_found_before_ctrl_c_is_returned(attack):
    X, y, Z = labelled_clusters(m=40)
    result = attack(Interrupting().fit(X, y), X, y, Z)
    assert result.success.any()
    assert not result.attempted.all()
    assert not result.success[~result.attempted].any()
    assert (result.flips_needed[~result.attempted] == -1).all()
    assert_true(result, fitted(X, y, max_iter=100), X, y, Z)


@pytest.mark.parametrize("attack", ATTACKS)
def test_interrupted_before_anything_was_found(attack):
    X, y, Z = labelled_clusters()
    result = attack(AlwaysInterrupting().fit(X, y), X, y, Z)
    assert not result.attempted.any()
    assert not result.success.any()


def test_a_row_that_is_being_attacked_keeps_what_it_has():
    X, y, Z = labelled_clusters()
    target = logistic_target(fitted(X, y), X, y, Z, None, "attack")
    stopped = threading.Event()

    def interrupted(search):
        stopped.set()
        search.refit(NO_FLIPS, None)
        raise AssertionError("not stopped")

    never = attack_row(target, [interrupted], 0, None, stopped)
    assert (never.outcome.flips, never.outcome.attempted) == (None, False)
    stopped.clear()
    report = attack_row(target, [DistanceAttack().strategy, interrupted], 0, None, stopped)
    assert report.outcome.attempted
    alone = attack_row(target, [DistanceAttack().strategy], 0, None, threading.Event())
    np.testing.assert_array_equal(report.outcome.flips.rows, alone.outcome.flips.rows)
    assert report.n_refits == alone.n_refits


def test_an_error_inside_a_thread_is_raised():
    X, y, Z = labelled_clusters()

    def metric(a, b):
        raise RuntimeError("no such distance")

    with pytest.raises(RuntimeError, match="no such distance"):
        DistanceAttack(metric=metric).attack(fitted(X, y), X, y, Z)
