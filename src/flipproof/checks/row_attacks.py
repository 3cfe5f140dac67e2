"""Attacks on training rows of small problems: rows are added, removed and replaced, and the learner is fitted again.

Written from the definition of a certificate, with public names only.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from flipproof.adversary import Adversary
from flipproof.core.rounding import Floats, Integers

#: Ways to change rows.
CHANGES = ("rows", "insertions", "removals")

#: Number of random attacks with two and three changes.
RANDOM_ATTACKS = 40

#: Added rows are this far from the others, in units of their size.
FAR = 1e6

#: Attacks at the certified radius are tried up to this many changes.
MOST_CHANGES = 30


class Trial(Protocol):
    """One estimator on one problem."""

    estimator: Any
    problem: Any
    is_label_linear: bool

    def finding(self, what: str, row: int | None = None) -> AssertionError:
        """Return the error that says what was found, and where."""
        ...


@dataclass(frozen=True)
class Attack:
    """Numbers of the training rows to remove, and (candidate, class code) of the rows to add."""

    removed: tuple[int, ...] = ()
    added: tuple[tuple[int, int], ...] = ()

    def price(self, adversary: Adversary) -> float:
        """Return how many rows (sources) an adversary must change; infinity if that is impossible for it."""
        if adversary.trusted is not None and any(adversary.trusted[row] for row in self.removed):
            return np.inf
        if (adversary.changes == "insertions" and self.removed) or (adversary.changes == "removals" and self.added):
            return np.inf
        if adversary.groups is None:
            return max(len(self.removed), len(self.added))
        if len(self.added) > len(self.removed):
            return np.inf
        return len({adversary.groups[row] for row in self.removed})


def check_row_attacks(trial: Trial) -> None:
    """Fail if rows change the votes of others, or if changed rows within a radius change a prediction.

    A learner that has no `fit(X, y, reference=...)`, refuses it, or does not cover changed rows, is not checked.
    """
    problem = trial.problem
    numeric = all(isinstance(one, np.ndarray) and one.dtype.kind in "fiu" for one in (problem.X, problem.Z))
    if not numeric or "reference" not in inspect.signature(trial.estimator.fit).parameters:
        return
    rows = _Rows(trial)
    try:
        model = rows.fit(Attack())
    except ValueError:
        return
    if not getattr(model, "covers_rows", True):
        return
    if getattr(trial.estimator, "rows_vote_separately", True) and callable(getattr(model, "vote_weights", None)):
        rows.check_votes()
    rows.check_certificates(model)


class _Rows:
    """Fits of one estimator to changed rows of one problem, with a reference."""

    def __init__(self, trial: Trial):
        problem = trial.problem
        self.trial, self.Z, self.classes = trial, problem.Z, problem.classes
        self.X, self.codes, self.rng = np.asarray(problem.X, dtype=np.float64), problem.first, problem.rng
        size = max(float(np.abs(self.X).max(initial=0.0)), 1.0)
        other = (size * self.rng.normal(size=(4, self.X.shape[1]))).round(1)
        self.reference = np.vstack([self.X[:2], other])
        far = FAR * size * self.rng.choice([-1.0, 1.0], size=(2, self.X.shape[1]))
        self.pool = np.unique(np.vstack([self.X[:2], self.Z[:2], other[:2], far, -far]), axis=0)
        self._predictions: dict[Attack, NDArray[Any]] = {}

    def after(self, attack: Attack) -> tuple[Floats, Integers]:
        """Return rows and class codes after an attack."""
        kept = np.delete(np.arange(len(self.codes)), attack.removed)
        new = self.pool[[row for row, _ in attack.added]].reshape(-1, self.X.shape[1])
        codes = np.array([code for _, code in attack.added], dtype=np.int64)
        return np.vstack([self.X[kept], new]), np.concatenate([self.codes[kept], codes])

    def fit(self, attack: Attack) -> Any:
        """Fit to the rows after an attack."""
        return self.fit_rows(*self.after(attack))

    def fit_rows(self, X: Floats, codes: Integers) -> Any:
        """Fit to rows, with the reference."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return clone(self.trial.estimator).fit(X, self.classes[codes], reference=self.reference.copy())

    def predict(self, attack: Attack) -> NDArray[Any]:
        """Return the predictions of a fit after an attack."""
        if attack not in self._predictions:
            self._predictions[attack] = np.asarray(self.refit(*self.after(attack)).predict(self.Z))
        return self._predictions[attack]

    def refit(self, X: Floats, codes: Integers) -> Any:
        """Fit to changed rows, which no learner may refuse."""
        try:
            return self.fit_rows(X, codes)
        except ValueError as error:
            raise self.trial.finding(
                "cannot be fitted after changes of rows, so an attack could prevent training: "
                f"{self.told_rows(X, codes)}. {type(error).__name__}: {error}"
            ) from error

    def told(self, attack: Attack) -> str:
        """Say what the rows are after an attack."""
        return self.told_rows(*self.after(attack))

    def told_rows(self, X: Floats, codes: Integers) -> str:
        """Say what a model is fitted to."""
        labels = self.classes[codes].tolist()
        return f"fitted to rows {X.tolist()} with labels {labels} and the reference {self.reference.tolist()}"

    # votes

    def check_votes(self) -> None:
        """Adding, removing and reordering rows must not change any bit of another row's vote, nor an offset."""
        rows, codes = np.vstack([self.X, self.pool]), np.zeros(len(self.X) + len(self.pool), dtype=np.int64)
        alpha, offsets = self.refit(rows, codes).vote_weights(self.Z)
        n = len(rows)
        choices = [np.arange(n)[::-1], np.arange(0), *(np.array([row]) for row in range(n))]
        choices += [self.rng.permutation(n)[: self.rng.integers(2, n)] for _ in range(6)]
        for chosen in choices:
            now, offsets_now = self.refit(rows[chosen], codes[chosen]).vote_weights(self.Z)
            for what, one, other in (("a vote", alpha[:, chosen], now), ("an offset", offsets, offsets_now)):
                for at in map(tuple, np.argwhere(one != other)[:1]):
                    raise self.trial.finding(
                        f"has {what} that depends on other training rows: {self.told_rows(rows, codes)}, it is "
                        f"{one[at].item()} for test row {at[0]}, but with rows {chosen.tolist()} of these only it is "
                        f"{other[at].item()}",
                        int(at[0]),
                    )

    # certificates

    def check_certificates(self, model: Any) -> None:
        """Compare certificates against changed rows with refits."""
        method = "exact" if self.trial.is_label_linear else None
        attacks = [*self.single_changes(), *self.removals(), *self.random_attacks()]
        for adversary in self.adversaries():
            try:
                found = model.certify(self.Z, method=method, adversary=adversary)
            except ValueError:
                if self.trial.is_label_linear:
                    raise
                continue
            prices = [attack.price(adversary) for attack in attacks]
            for attack, price in zip(attacks, prices, strict=True):
                if price <= found.radius.max(initial=0) or price == 0:
                    self.check_attack(found, adversary, attack, price)
            for row in range(len(found)):
                for attack in self.loud_attacks(model, adversary, int(found.radius[row]), row):
                    self.check_attack(found, adversary, attack, attack.price(adversary))
            is_bound = any(one.code == "rows-lower-bound" for one in found.assumptions)
            is_exact = self.trial.is_label_linear and found.method == "exact" and not is_bound
            if adversary.changes == "removals" and is_exact:
                self.check_exact(found, adversary, [one for one in attacks if not one.added])

    def check_attack(self, found: Any, adversary: Adversary, attack: Attack, price: float) -> None:
        after = self.predict(attack)
        broken = (price <= found.radius) & (after != found.prediction) & ~found.abstained
        for row in np.flatnonzero(broken)[:1]:
            raise self.trial.finding(
                f"breaks a certificate against changed rows: test row {row} is predicted as {found.prediction[row]} "
                f"with a radius of {found.radius[row]} {found.unit}, but {self.told(attack)}, {price:.0f} away, it "
                f"predicts {after[row]} ({spoken(adversary)}; before, {self.told(Attack())})",
                int(row),
            )

    def check_exact(self, found: Any, adversary: Adversary, attacks: list[Attack]) -> None:
        """A radius against removals is exact: with one more, some set of rows changes the prediction."""
        prices = np.array([attack.price(adversary) for attack in attacks], dtype=np.float64)
        after = np.array([self.predict(attack) for attack in attacks])
        for row in range(len(found)):
            changed = prices[after[:, row] != found.prediction[row]].min(initial=np.inf)
            exact = found.n_touchable if changed == np.inf else changed - 1
            if found.radius[row] != exact:
                raise self.trial.finding(
                    f"has a radius against removed rows that is not exact: {found.radius[row]} for test row {row}, "
                    f"which should be {exact:.0f} ({spoken(adversary)}; {self.told(Attack())})",
                    row,
                )

    def adversaries(self) -> list[Adversary]:
        n = len(self.codes)
        trusted, groups = self.rng.random(n) < 0.4, self.rng.integers(max(n // 2, 1), size=n)
        found = [Adversary(changes=changes) for changes in CHANGES]
        found += [Adversary(changes=changes, trusted=trusted) for changes in CHANGES]
        return [*found, *(Adversary(changes=changes, groups=groups) for changes in ("rows", "removals"))]

    def additions(self) -> list[tuple[int, int]]:
        return list(itertools.product(range(len(self.pool)), range(len(self.classes))))

    def single_changes(self) -> list[Attack]:
        """Return all attacks with one change."""
        rows, new = range(len(self.codes)), self.additions()
        return [
            Attack(),
            *(Attack((), (one,)) for one in new),
            *(Attack((row,), (one,)) for row in rows for one in new[:: max(len(new) // 6, 1)]),
        ]

    def removals(self) -> list[Attack]:
        """Return all attacks that only remove rows."""
        rows = range(len(self.codes))
        return [Attack(some) for size in rows for some in itertools.combinations(rows, size + 1)]

    def random_attacks(self) -> list[Attack]:
        """Return some attacks with a few changes."""
        new, n, found = self.additions(), len(self.codes), []
        for _ in range(RANDOM_ATTACKS):
            removed = self.rng.permutation(n)[: self.rng.integers(0, min(n, 3) + 1)]
            added = self.rng.integers(len(new), size=self.rng.integers(0, 4))
            found.append(Attack(tuple(sorted(removed.tolist())), tuple(new[one] for one in added)))
        return found

    def loud_attacks(self, model: Any, adversary: Adversary, radius: int, row: int) -> list[Attack]:
        """Return attacks with as many changes as are certified: copies of one loud row, and rows of the winner."""
        found: list[Attack] = []
        if not 0 < radius <= MOST_CHANGES or adversary.groups is not None or adversary.changes == "removals":
            return found
        votes, own = self.votes(row)
        free = np.ones(len(own), dtype=bool) if adversary.trusted is None else ~adversary.trusted
        for at, code in itertools.product({int(votes.argmax()), int(votes.argmin())}, range(len(self.classes))):
            removed: tuple[int, ...] = ()
            if adversary.changes == "rows":
                order = np.argsort(-np.abs(own), kind="stable")
                named = model.predict(self.Z[row : row + 1])[0]
                useful = [j for j in order if free[j] and (self.classes[self.codes[j]] == named) == (own[j] > 0)]
                removed = tuple(sorted(int(j) for j in useful[:radius]))
            found.append(Attack(removed, ((at, code),) * radius))
        return found

    def votes(self, row: int) -> tuple[Floats, Floats]:
        """Return votes of all candidates and of the training rows on a test row; 1 if the learner does not tell."""
        everybody = np.vstack([self.pool, self.X])
        model = self.fit_rows(everybody, np.zeros(len(everybody), dtype=np.int64))
        if not callable(getattr(model, "vote_weights", None)):
            return np.ones(len(self.pool)), np.ones(len(self.X))
        alpha = model.vote_weights(self.Z[row : row + 1])[0][0]
        return alpha[: len(self.pool)], alpha[len(self.pool) :]


def spoken(adversary: Adversary) -> str:
    """Return an adversary as source code."""
    given = [f"{name}={np.asarray(value).tolist()!r}" for name, value in vars(adversary).items() if value is not None]
    return f"Adversary({', '.join(given)})"
