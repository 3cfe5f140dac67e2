"""Problems that are small enough to try every attack on them.

Written from the definition of the promise: what is judged here, such as :mod:`flipproof.exact`, is not used.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof.certificates import Adversary
from flipproof.rounding import Floats, Integers

#: Labellings that are tried at most: a fit each.
MOST_LABELLINGS = 20_000

#: Noise with which "kl" and "tight" can certify a handful of labels at all.
SMALL_NOISE = 1e-6

#: Numbers of an array that is still printed in a finding.
PRINTED_NUMBERS = 60


@dataclass(frozen=True)
class Problem:
    """A few training rows X and test rows Z; labels are positions in `classes`.

    Attributes
    ----------
    labellings : integers of shape (labellings, n)
        Every way to label the training rows.
    first : integers of shape (n,)
        The one to begin with.
    noise : float or None
        In place of that of the estimator, if it has any.
    rng : Generator
        For choices along the way.
    origin : str
        How to get this problem again.
    """

    X: Any
    Z: Any
    classes: NDArray[Any]
    labellings: Integers
    first: Integers
    noise: float | None
    rng: np.random.Generator
    origin: str

    @property
    def test_rows(self) -> Integers:
        """Numbers of the test rows."""
        return np.arange(np.shape(self.Z)[0])

    def named(self, codes: Integers) -> list[Any]:
        """Return labels as the user knows them."""
        return list(self.classes[codes].tolist())

    def some_labellings(self, size: int) -> Integers:
        """Return so many labellings: those of one class only, and others at random."""
        of_one_class = np.all(self.labellings == self.labellings[:, :1], axis=1)
        others = self.rng.permutation(self.labellings[~of_one_class])
        return np.vstack([self.labellings[of_one_class], others])[:size]

    def adversary(self, number: int) -> Adversary:
        """Return an adversary at random; the kinds take turns, and the last of them is a combination of all."""
        changes = list(itertools.permutations(self.classes.tolist(), 2))
        n = len(self.first)
        powers = {
            "trusted": self.rng.random(n) < 0.4,
            "allowed": [changes[i] for i in self.rng.permutation(len(changes))[: len(changes) // 2]],
            "groups": self.rng.integers(n // 2 + 1, size=n),
        }
        kind = [*powers, "all"][number % 4]
        return Adversary(**powers) if kind == "all" else Adversary(**{kind: powers[kind]})

    def prices(self, base: Integers, adversary: Adversary | None) -> Floats:
        """Return how many labels (annotators) it takes to turn `base` into each labelling; infinity: no number does."""
        changed = self.labellings != base
        if adversary is None:
            return np.asarray(changed.sum(axis=1), dtype=np.float64)
        possible = np.full(changed.shape, adversary.allowed is None)
        for old, new in adversary.allowed or ():
            possible |= (self.classes[base] == old) & (self.classes[self.labellings] == new)
        if adversary.trusted is not None:
            possible &= ~adversary.trusted
        owners = np.arange(len(base)) if adversary.groups is None else adversary.groups
        taken = np.sum([changed[:, owners == owner].any(axis=1) for owner in np.unique(owners)], axis=0)
        return np.where(np.all(possible | ~changed, axis=1), taken, np.inf)

    def where(self, row: int | None = None) -> str:
        """Say how to get to this problem, and to one of its test rows."""
        said = f"Found with {self.origin}"
        if isinstance(self.X, np.ndarray) and self.X.size <= PRINTED_NUMBERS:
            said += f"; training rows {self.X.tolist()}"
        if row is not None and isinstance(self.Z, np.ndarray) and self.Z[row].size <= PRINTED_NUMBERS:
            said += f", test row {self.Z[row].tolist()}"
        return said


def random_problems(
    n_rows: int, n_features: int, n_problems: int, n_classes: Sequence[int], random_state: int
) -> Iterator[Problem]:
    """Yield problems with real and with whole features, with and without a small noise, in turn."""
    for seed in range(random_state, random_state + n_problems):
        K = int(n_classes[seed % len(n_classes)])
        rng = np.random.default_rng([seed, K])
        X, Z = rng.normal(size=(n_rows, n_features)), rng.normal(size=(5, n_features))
        # few digits, so that a finding can be copied; whole numbers make ties and equal gains
        digits = 0 if seed % 4 in (1, 2) else 2
        X, Z = X.round(digits), Z.round(digits)
        Z[0], Z[1] = X[0], (X[0] + X[1]) / 2
        yield Problem(
            X=X,
            Z=Z,
            classes=np.arange(K),
            labellings=_all_labellings(n_rows, K),
            first=rng.permutation(np.arange(n_rows) % K),
            noise=SMALL_NOISE if seed % 4 >= 2 else None,
            rng=rng,
            origin=f"n_rows={n_rows}, n_features={n_features}, n_problems=1, n_classes=[{K}], random_state={seed}",
        )


def given_problem(X: Any, y: Any, X_test: Any, known_classes: Any) -> Problem:
    """Return the problem that a user's own few rows make."""
    labels = np.asarray(y)
    classes = np.unique(labels if known_classes is None else np.asarray(known_classes))
    if labels.shape != np.shape(X)[:1] or len(classes) < 2 or not np.isin(labels, classes).all():
        raise ValueError(
            f"y must have one label for each of the {np.shape(X)[0]} rows of X, from at least two classes which the "
            f"estimator's 'classes' names, if it names any. Got {labels.tolist()} instead."
        )
    return Problem(
        X=X,
        Z=X if X_test is None else X_test,
        classes=classes,
        labellings=_all_labellings(len(labels), len(classes)),
        first=np.searchsorted(classes, labels),
        noise=None,
        rng=np.random.default_rng(0),
        origin="the given X, y and X_test",
    )


def _all_labellings(n_rows: int, n_classes: int) -> Integers:
    if n_classes**n_rows > MOST_LABELLINGS:
        raise ValueError(
            f"{n_rows} training rows of {n_classes} classes have {n_classes**n_rows} labellings, a fit each. "
            f"At most {MOST_LABELLINGS} are tried: give fewer rows."
        )
    return np.array(list(itertools.product(range(n_classes), repeat=n_rows)))
