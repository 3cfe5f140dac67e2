"""Interrupting an attack returns what was found so far."""

import os
import signal
import threading

import numpy as np
import pytest
from patience import until
from sklearn.linear_model import LogisticRegression
from undefended_problems import assert_true, fitted, labelled_clusters

from flipproof import CertifiedRidgeClassifier
from flipproof.attacks import smoothed_attack, worst_flips
from flipproof.attacks.undefended.any_classifier import AnyClassifierAttack
from flipproof.attacks.undefended.logistic_target import logistic_target
from flipproof.attacks.undefended.many_rows import attack_row
from flipproof.attacks.undefended.strategies import DistanceAttack, InfluenceAttack, undefended_attack
from flipproof.attacks.undefended.victim import NO_FLIPS
from flipproof.attacks.worst import ROWS_AT_A_TIME
from flipproof.progress import StopSign, set_by_interrupt

#: Signs that the main thread has set on an interrupt: it may be a while until it gets around to that.
NOTICED = []


def wait_until_noticed():
    until(lambda: NOTICED or signal.getsignal(signal.SIGINT) is signal.SIG_IGN)


def interrupt():
    """Send the process the signal of Ctrl-C, and wait until an attack has noticed."""
    os.kill(os.getpid(), signal.SIGINT)
    wait_until_noticed()


class Interrupting(LogisticRegression):
    """Sends the process the signal of Ctrl-C in its tenth fit; those after it wait until that was noticed."""

    fits, numbers = 0, threading.Lock()
    interrupt = staticmethod(interrupt)

    def fit(self, X, y):
        with self.numbers:
            type(self).fits += 1
            number = type(self).fits
        if number == 10:
            self.interrupt()
        if number > 10:
            wait_until_noticed()
        return super().fit(X, y)


class InterruptingTwice(Interrupting):
    """Sends the signal twice in its tenth fit."""

    fits = 0

    @staticmethod
    def interrupt():
        interrupt()
        os.kill(os.getpid(), signal.SIGINT)


class AlwaysInterrupting(LogisticRegression):
    """Sends the signal in every fit but the first."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        if type(self).fits > 1:
            interrupt()
        return super().fit(X, y)


@pytest.fixture(autouse=True)
def _fresh_start(monkeypatch):
    """Count from zero, and listen to Ctrl-C: a process that was started in the background ignores it."""
    Interrupting.fits = InterruptingTwice.fits = AlwaysInterrupting.fits = 0
    NOTICED.clear()
    set_sign = StopSign.set
    monkeypatch.setattr(StopSign, "set", lambda sign: (set_sign(sign), NOTICED.append(sign)))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


ATTACKS = [
    InfluenceAttack().attack,
    InfluenceAttack(n_jobs=2).attack,
    DistanceAttack().attack,
    undefended_attack,
    AnyClassifierAttack().attack,
]


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("kind", [Interrupting, InterruptingTwice])
def test_what_was_found_before_ctrl_c_is_returned(kind, attack):
    X, y, Z = labelled_clusters(m=40)
    result = attack(kind().fit(X, y), X, y, Z)
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
    stopped = StopSign()

    def interrupted(search):
        stopped.set()
        search.refit(NO_FLIPS, None)
        raise AssertionError("not stopped")

    never = attack_row(target, [interrupted], 0, None, stopped)
    assert (never.outcome.flips, never.outcome.attempted) == (None, False)
    stopped = StopSign()
    report = attack_row(target, [DistanceAttack().strategy, interrupted], 0, None, stopped)
    assert report.outcome.attempted
    alone = attack_row(target, [DistanceAttack().strategy], 0, None, StopSign())
    np.testing.assert_array_equal(report.outcome.flips.rows, alone.outcome.flips.rows)
    assert report.n_refits == alone.n_refits


def test_a_second_interrupt_raises_and_afterwards_all_is_as_before():
    before = signal.getsignal(signal.SIGINT)
    stopped = StopSign()
    with set_by_interrupt(stopped):
        signal.raise_signal(signal.SIGINT)
        assert stopped.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before is signal.default_int_handler


def test_a_process_that_ignores_interrupts_goes_on():
    X, y, Z = labelled_clusters(m=12)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert InfluenceAttack().attack(Interrupting().fit(X, y), X, y, Z).attempted.all()


def test_a_handler_of_ones_own_is_left_alone_and_other_threads_may_attack():
    X, y, Z = labelled_clusters(n=60, m=3)
    model, noted, results = fitted(X, y), [], []
    before = signal.signal(signal.SIGINT, lambda *_: noted.append(1))
    try:
        with set_by_interrupt(stopped := StopSign()):
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert noted == [1]
    assert not stopped.is_set()
    thread = threading.Thread(target=lambda: results.append(InfluenceAttack().attack(model, X, y, Z)))
    thread.start()
    thread.join()
    np.testing.assert_array_equal(results[0].flips_needed, InfluenceAttack().attack(model, X, y, Z).flips_needed)


def test_an_error_inside_a_thread_is_raised():
    X, y, Z = labelled_clusters()

    def metric(a, b):
        raise RuntimeError("no such distance")

    with pytest.raises(RuntimeError, match="no such distance"):
        DistanceAttack(metric=metric).attack(fitted(X, y), X, y, Z)


class InterruptedRidge(CertifiedRidgeClassifier):
    """Sends the signal of Ctrl-C when it certifies the second time, `times` times."""

    times = 1
    calls = 0

    def certify(self, *arguments):
        type(self).calls += 1
        if type(self).calls == 2:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)
        return super().certify(*arguments)


@pytest.mark.parametrize("attack", [worst_flips, smoothed_attack])
@pytest.mark.parametrize(("times", "n_found"), [(1, 2 * ROWS_AT_A_TIME), (2, ROWS_AT_A_TIME)])
def test_an_attack_on_a_certified_learner_keeps_the_slices_that_were_done(attack, times, n_found, monkeypatch):
    X, y, Z = labelled_clusters(m=3 * ROWS_AT_A_TIME + 5)
    whole = attack(CertifiedRidgeClassifier().fit(X, y), Z)
    assert whole.attempted.all()
    monkeypatch.setattr(InterruptedRidge, "calls", 0)
    monkeypatch.setattr(InterruptedRidge, "times", times)
    result = attack(InterruptedRidge().fit(X, y), Z)
    np.testing.assert_array_equal(result.attempted, np.arange(len(Z)) < n_found)
    np.testing.assert_array_equal(result.prediction, whole.prediction)
    np.testing.assert_array_equal(result.flips_needed, np.where(result.attempted, whole.flips_needed, -1))
    np.testing.assert_array_equal(result.success, result.attempted)
    assert all(np.array_equal(a, b) for a, b in zip(result.rows[:n_found], whole.rows, strict=False))
    assert not any(len(rows) for rows in result.rows[n_found:])


class InterruptedAtOnce(CertifiedRidgeClassifier):
    """Sends the signal of Ctrl-C when it certifies."""

    def certify(self, *arguments):
        signal.raise_signal(signal.SIGINT)
        return super().certify(*arguments)


@pytest.mark.parametrize("attack", [worst_flips, smoothed_attack])
def test_a_few_test_rows_are_finished_before_an_interrupt_ends_the_attack(attack):
    X, y, Z = labelled_clusters(m=20)
    result = attack(InterruptedAtOnce().fit(X, y), Z)
    np.testing.assert_array_equal(result.flips_needed, attack(CertifiedRidgeClassifier().fit(X, y), Z).flips_needed)
