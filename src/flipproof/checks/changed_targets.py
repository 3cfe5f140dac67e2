"""A soundness check for certified regressors: attacks by changed targets, each followed by a refit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from flipproof.core.rounding import Floats
from flipproof.parameters import check_parameter, integer

#: Numbers of changed targets that are tried.
FLIPS = (0, 1, 2, 3)

#: Random problems have this many training rows, test rows and columns, and targets in this range.
N_ROWS, N_TEST, N_COLUMNS, LOW, HIGH = 8, 5, 2, -1.0, 3.0


def check_regressor(
    estimator: object,
    X: object = None,
    y: object = None,
    X_test: object = None,
    *,
    n_attacks: int = 200,
    n_problems: int = 3,
    random_state: int = 0,
) -> None:
    """Check that no attack on the targets moves a prediction out of its interval, and that both ends are attained.

    Targets are changed to the ends of the range and to random numbers within it, the regressor is fitted again, and its
    predictions are compared with the intervals and radii of the first fit, bit by bit. All choices of changed targets
    are tried if they are few, else `n_attacks` random ones. A check proves nothing about other data.

    Parameters
    ----------
    estimator : regressor
        A regressor with `certify` and `worst_changes` as in flipproof; it is cloned. Its `target_range` must contain
        the targets: for random problems, -1 to 3.
    X, y : arrays, optional
        Training features and targets. Default: small random problems.
    X_test : array, optional
        Test rows; needed with `X`.
    n_attacks : int, default=200
        Attacks of each size.
    n_problems : int, default=3
        Random problems, if `X` is not given.
    random_state : int, default=0
        Seed of problems and attacks.

    Raises
    ------
    AssertionError
        If an interval or a radius is wrong. The message names the test row and the attack.

    See Also
    --------
    flipproof.checks.check_certifier : The same for classifiers.
    flipproof.CertifiedRidgeRegressor : Ridge regression for numbers.

    Examples
    --------
    >>> from flipproof import CertifiedNeighborsRegressor
    >>> from flipproof.checks import check_regressor
    >>> check_regressor(CertifiedNeighborsRegressor(3, target_range=(-1, 3)), n_attacks=20)
    """
    check_parameter("check_regressor", "n_attacks", n_attacks, integer(1))
    check_parameter("check_regressor", "n_problems", n_problems, integer(1))
    if (X is None) != (y is None) or (X is None) != (X_test is None):
        raise ValueError("check_regressor needs X, y and X_test together, or none of them.")
    rng = np.random.default_rng(random_state)
    if X is not None:
        _check_problem(estimator, X, np.asarray(y, dtype=np.float64), X_test, n_attacks, rng)
        return
    for _ in range(n_problems):
        rows = rng.integers(-2, 3, size=(N_ROWS + N_TEST, N_COLUMNS)).astype(np.float64)
        targets = rng.choice([LOW, HIGH, 0.0, 0.625, 1.5], size=N_ROWS)
        _check_problem(estimator, rows[:N_ROWS], targets, rows[N_ROWS:], n_attacks, rng)


def _check_problem(
    estimator: object, X: object, y: Floats, Z: object, n_attacks: int, rng: np.random.Generator
) -> None:
    model = clone(estimator).fit(X, y)
    flips = [one for one in FLIPS if one <= len(y)]
    found = model.certify(Z, flips)
    low, high = found.target_range
    if model.get_params().get("target_range") is None:
        raise ValueError("check_regressor needs an estimator with a target_range, or attacks would change the range.")
    _expect(found.prediction == model.predict(Z), "certify and predict differ", "no attack")
    again = clone(estimator).fit(X, y)
    _expect(again.predict(Z) == found.prediction, "a second fit to the same rows predicts something else", "no attack")
    tolerance = float(np.median(found.high[:, -1] - found.low[:, -1])) / 3
    radius = model.certify(Z, 1, tolerance=tolerance)
    for place, r in enumerate(flips):
        holds = radius.certified_at(r)
        for rows, targets in _attacks(y, r, low, high, n_attacks, rng):
            changed = y.copy()
            changed[rows] = targets
            after = clone(estimator).fit(X, changed).predict(Z)
            attack = f"rows {rows.tolist()} get the targets {np.asarray(targets).tolist()}"
            is_within = (found.low[:, place] <= after) & (after <= found.high[:, place])
            _expect(is_within, f"a prediction leaves its interval at {r} changes", attack)
            # a float may be rounded away from a tolerance, but not by more than this
            slack = 1e-9 * (high - low)
            within = np.abs(after - found.prediction) <= tolerance + slack
            _expect(within | ~holds, f"a prediction moves by more than {tolerance:g}, within its radius", attack)
        for end in ("low", "high"):
            for row, one in enumerate(model.worst_changes(Z, r, end=end)):
                after = clone(estimator).fit(X, one.applied_to(y)).predict(Z)[row]
                if after != getattr(found, end)[row, place]:
                    raise AssertionError(
                        f"check_regressor: worst_changes do not attain the {end} end at {r} changes in test row {row}."
                    )


def _attacks(
    y: Floats, r: int, low: float, high: float, n_attacks: int, rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.int64], Floats]]:
    """Yield rows and new targets: all rows to all ends, if these are few, else random ones, and some between."""
    n_choices = comb(len(y), r) * 2**r
    if n_choices <= n_attacks:
        for chosen in combinations(range(len(y)), r):
            for code in range(2**r):
                yield np.array(chosen, dtype=np.int64), np.where([code >> bit & 1 for bit in range(r)], high, low)
    for _ in range(n_attacks // 10 if n_choices <= n_attacks else n_attacks):
        rows = rng.choice(len(y), size=r, replace=False).astype(np.int64)
        targets = rng.choice([low, high], size=r)
        yield rows, np.where(rng.random(r) < 0.2, rng.uniform(low, high, size=r), targets)


def _expect(holds: NDArray[np.bool_], what: str, attack: str) -> None:
    wrong = np.flatnonzero(~np.asarray(holds))
    if len(wrong):
        raise AssertionError(f"check_regressor: {what} in test row {wrong[0]}; {attack}.")
