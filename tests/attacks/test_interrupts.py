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
from flipproof.runtime.progress import StopSign, set_by_interrupt

#: Stop signs that the main thread has set on an interrupt, which may take a while.
NOTICED = []


def wait_until_noticed():
    until(lambda: NOTICED or signal.getsignal(signal.SIGINT) is signal.SIG_IGN)


def interrupt():
    """Send SIGINT to the process and wait until an attack has noticed it."""
    os.kill(os.getpid(), signal.SIGINT)
    wait_until_noticed()


class Interrupting(LogisticRegression):
    """Sends SIGINT to the process in the tenth fit; later fits wait until the attack has noticed it."""

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
    """Sends SIGINT twice in the tenth fit."""

    fits = 0

    @staticmethod
    def interrupt():
        interrupt()
        os.kill(os.getpid(), signal.SIGINT)


class AlwaysInterrupting(LogisticRegression):
    """Sends SIGINT in every fit except the first."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        if type(self).fits > 1:
            interrupt()
        return super().fit(X, y)


@pytest.fixture(autouse=True)
def _fresh_start(monkeypatch):
    """Reset the counters and enable SIGINT, which background processes ignore."""
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


@pytest.mark.few(2)
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("kind", [Interrupting, InterruptingTwice])
def test_ctrl_c_returns_the_attacks_found_so_far(kind, attack):
    X, y, Z = labelled_clusters(m=40)
    result = attack(kind().fit(X, y), X, y, Z)
    assert result.success.any()
    assert not result.attempted.all()
    assert not result.success[~result.attempted].any()
    assert (result.flips_needed[~result.attempted] == -1).all()
    assert_true(result, fitted(X, y, max_iter=100), X, y, Z)


@pytest.mark.parametrize("attack", ATTACKS)
def test_ctrl_c_before_the_first_result_reports_no_row_as_attempted(attack):
    X, y, Z = labelled_clusters()
    result = attack(AlwaysInterrupting().fit(X, y), X, y, Z)
    assert not result.attempted.any()
    assert not result.success.any()


def test_an_interrupted_row_keeps_its_best_attack_so_far():
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


def test_a_second_interrupt_raises_and_the_signal_handler_is_restored():
    before = signal.getsignal(signal.SIGINT)
    stopped = StopSign()
    with set_by_interrupt(stopped):
        signal.raise_signal(signal.SIGINT)
        assert stopped.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before is signal.default_int_handler


def test_an_attack_continues_if_the_process_ignores_interrupts():
    X, y, Z = labelled_clusters(m=12)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert InfluenceAttack().attack(Interrupting().fit(X, y), X, y, Z).attempted.all()


def test_custom_signal_handlers_are_kept_and_attacks_run_in_other_threads():
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


def test_an_error_in_a_worker_thread_is_raised():
    X, y, Z = labelled_clusters()

    def metric(a, b):
        raise RuntimeError("no such distance")

    with pytest.raises(RuntimeError, match="no such distance"):
        DistanceAttack(metric=metric).attack(fitted(X, y), X, y, Z)


class InterruptedRidge(CertifiedRidgeClassifier):
    """Sends SIGINT `times` times in the second call of `certify`."""

    times = 1
    calls = 0

    def certify(self, *arguments):
        type(self).calls += 1
        if type(self).calls == 2:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)
        return super().certify(*arguments)


@pytest.mark.few(1)
@pytest.mark.parametrize("attack", [worst_flips, smoothed_attack])
@pytest.mark.parametrize(("times", "n_found"), [(1, 2 * ROWS_AT_A_TIME), (2, ROWS_AT_A_TIME)])
def test_an_interrupted_attack_on_a_certified_learner_keeps_finished_slices(attack, times, n_found, monkeypatch):
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
    """Sends SIGINT in `certify`."""

    def certify(self, *arguments):
        signal.raise_signal(signal.SIGINT)
        return super().certify(*arguments)


@pytest.mark.parametrize("attack", [worst_flips, smoothed_attack])
def test_an_attack_on_few_test_rows_finishes_despite_an_interrupt(attack):
    X, y, Z = labelled_clusters(m=20)
    result = attack(InterruptedAtOnce().fit(X, y), Z)
    np.testing.assert_array_equal(result.flips_needed, attack(CertifiedRidgeClassifier().fit(X, y), Z).flips_needed)
