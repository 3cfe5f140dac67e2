"""What checking N labels buys: trusted votes, a prior, trusted geometry, or a model of the checked labels alone.

The simulation takes labels as they are: a checked label keeps its value and becomes trusted. The rows to check are
chosen as the labels that attacks use most, at random, or by the diversity of their features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from flipproof.attacks.label_audit import labels_to_audit
from flipproof.certificates import Certificates
from flipproof.core.rounding import Integers
from flipproof.learners.baseline import trusted_only_predictions
from flipproof.learners.certified import CertifiedClassifier
from flipproof.metrics import certified_accuracy, n_certified
from flipproof.parameters import (
    NONE,
    Constraint,
    Constraints,
    check_arguments,
    integer,
    number,
    parameter_error,
    with_methods,
)
from flipproof.values import encode_labels, label_values

#: Ways to choose the rows to check.
CHOICES = ("levers", "random", "diversity")

#: Default numbers of checked labels, and of changed labels.
BUDGET = (50, 100, 200)
FLIPS = (0, 10, 20, 50, 100)

CONSTRAINTS: Constraints = {
    "model": Constraint(lambda value: _is_fitted_learner(value), ("a fitted learner of flipproof that takes a prior",)),
    "prior": NONE | with_methods("fit", "predict", described="a classifier"),
    "prior_weight": number(0, 1e6, closed="both"),
    "error_rate": number(0, 1, closed="low"),
    "random_state": integer(0),
}


def _is_fitted_learner(value: Any) -> bool:
    is_fitted = isinstance(value, CertifiedClassifier) and hasattr(value, "is_trusted_")
    return is_fitted and "prior" in value.get_params(deep=False)


@dataclass(frozen=True)
class PlannedCheck:
    """What one way to check labels buys.

    Attributes
    ----------
    n_checked : int
        Number of checked labels.
    chosen : {"levers", "random", "diversity"}
        How the rows were chosen.
    used : {"votes", "prior", "geometry", "alone", "prior alone"}
        How their labels are used: trusted votes; votes and a prior; trees grown with them; only a model that is fitted
        to them, of the same kind or the prior.
    certified : tuple of float
        Certified accuracy at each number of flips; without labels of the test rows, the share of certified predictions.
    """

    n_checked: int
    chosen: str
    used: str
    certified: tuple[float, ...]


@dataclass(frozen=True, repr=False)
class AuditPlan:
    """Result of :func:`plan_audit`.

    Attributes
    ----------
    before : tuple of float
        Certified accuracy of the model as it is, at each number of flips.
    checks : tuple of PlannedCheck
        What each way to check labels buys.
    flips : tuple of int
        Numbers of changed labels.
    is_accuracy : bool
        Whether shares are certified accuracy; else they are shares of certified predictions.
    """

    before: tuple[float, ...]
    checks: tuple[PlannedCheck, ...]
    flips: tuple[int, ...]
    is_accuracy: bool

    def __repr__(self) -> str:
        at = len(self.flips) - 1
        best = max(self.checks, key=lambda one: one.certified[at], default=None)
        what = "certified accuracy" if self.is_accuracy else "share of certified predictions"
        said = f"<AuditPlan: {what} at {self.flips[at]} flips {self.before[at]:.3f}"
        if best is None:
            return f"{said}>"
        how = f"{best.n_checked} checked labels ({best.chosen}, {best.used})"
        return f"{said}; {how} make it {best.certified[at]:.3f}>"

    def cheapest(self, share: float, flips: int) -> PlannedCheck | None:
        """Return the way that reaches a share at a number of flips with the fewest checks; None if none does.

        Among ways with as many checks, it is the one with the highest share.
        """
        if flips not in self.flips:
            raise parameter_error("cheapest", "flips", f"one of {list(self.flips)}", flips)
        at = self.flips.index(flips)
        enough = [one for one in self.checks if one.certified[at] >= share]
        return min(enough, key=lambda one: (one.n_checked, -one.certified[at]), default=None)

    def to_frame(self) -> Any:
        """Return a pandas data frame: a line for each way to check labels, a column for each number of flips."""
        import pandas as pd  # type: ignore[import-untyped, unused-ignore]

        lines = [(0, "", "as it is", *self.before)]
        lines += [(one.n_checked, one.chosen, one.used, *one.certified) for one in self.checks]
        return pd.DataFrame(lines, columns=["n_checked", "chosen", "used", *self.flips])

    def plot(self, flips: int | None = None, ax: Any = None) -> Any:
        """Draw the share at a number of flips (default: the largest) by the number of checked labels."""
        import matplotlib.pyplot as plt

        at = len(self.flips) - 1 if flips is None else self.flips.index(flips)
        ax = plt.subplots()[1] if ax is None else ax
        ways = dict.fromkeys((one.used, one.chosen) for one in self.checks)
        for used, chosen in ways:
            own = [one for one in self.checks if (one.used, one.chosen) == (used, chosen)]
            ax.plot([one.n_checked for one in own], [one.certified[at] for one in own], "o-", label=f"{used}, {chosen}")
        ax.axhline(self.before[at], color="black", linestyle=":", label="no label checked")
        ax.set_xlabel("checked labels")
        kind = "certified accuracy" if self.is_accuracy else "certified predictions"
        ax.set_ylabel(f"{kind} at {self.flips[at]} flips")
        ax.legend(fontsize="small")
        return ax


def plan_audit(
    model: Any,
    X_test: Any,
    y_test: Any = None,
    budget: Sequence[int] = BUDGET,
    *,
    X: Any,
    y: Any,
    flips: Sequence[int] = FLIPS,
    prior: Any = None,
    prior_weight: float = 1.0,
    error_rate: float = 0.0,
    random_state: int = 0,
) -> AuditPlan:
    """Simulate what checking N training labels buys, by the way that they are chosen and used.

    Parameters
    ----------
    model : learner
        Label-linear and fitted to `X` and `y`, without trusted labels.
    X_test, y_test : array of shape (m, k), and (m,), optional
        Test rows and their labels. Without labels, shares count all certified predictions, correct or not.
    budget : sequence of int
        Numbers of labels to check.
    X, y : array of shape (n, k), and (n,)
        The training rows, as numbers, and their labels.
    flips : sequence of int
        Numbers of changed labels at which shares are reported.
    prior : classifier, optional
        Fitted to the checked labels. Default: a random forest.
    prior_weight : float, default=1.0
        Its weight.
    error_rate : float, default=0.0
        Share of the checked labels that the check gets wrong: they get another class, at random.
    random_state : int, default=0
        Seed of the random choices.

    Returns
    -------
    AuditPlan
        Ways that cannot be fitted to so few labels are left out. Trusted geometry needs a learner with trees.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from flipproof import CertifiedForestClassifier
    >>> from flipproof.attacks import plan_audit
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedForestClassifier(20).fit(X[:400], y[:400])
    >>> plan = plan_audit(model, X[400:], y[400:], [40], X=X[:400], y=y[:400], flips=[0, 50])
    >>> plan.cheapest(0.8, 50).n_checked
    40
    """
    check_arguments(
        "plan_audit",
        CONSTRAINTS,
        model=model,
        prior=prior,
        prior_weight=prior_weight,
        error_rate=error_rate,
        random_state=random_state,
    )
    n = len(model.label_codes_)
    sizes = _sizes(budget, n)
    if prior is None:
        from sklearn.ensemble import RandomForestClassifier

        prior = RandomForestClassifier(random_state=0)
    _, codes = encode_labels(label_values(y), model.classes_)
    if not np.array_equal(codes, model.label_codes_):
        raise ValueError("plan_audit needs the rows X and labels y that the model was fitted to. Got other labels.")
    columns = tuple(int(one) for one in flips)
    rng = np.random.default_rng(random_state)
    chosen = _chosen(model, X, X_test, max(sizes), rng)
    truth = None if y_test is None else np.asarray(label_values(y_test))

    def share(found: Certificates) -> tuple[float, ...]:
        if truth is None:
            return tuple(count / len(found) for count in n_certified(found, columns))
        return tuple(certified_accuracy(truth, found, columns).tolist())

    learner = clone(model).set_params(classes=model.classes_, prior=clone(prior), prior_weight=prior_weight)
    uses: dict[str, dict[str, Any]] = {"votes": {"prior": None}, "prior": {}}
    if "grow" in learner.get_params(deep=False):
        uses["geometry"] = {"prior": None, "grow": "supervised"}
    checks: list[PlannedCheck] = []
    for n_checked in sizes:
        for way, order in chosen.items():
            mask = np.isin(np.arange(n), order[:n_checked])
            labels = model.classes_[_with_errors(codes, mask, error_rate, len(model.classes_), rng)]
            for used, parameters in uses.items():
                fitted = clone(learner).set_params(**parameters).fit(X, labels, trusted=mask)
                checks.append(PlannedCheck(n_checked, way, used, share(fitted.certify(X_test))))
                if used == "prior" and truth is not None:
                    alone = trusted_only_predictions(fitted, X, labels, mask, X_test)
                    checks += _alone(alone, truth, n_checked, way, len(columns))
    return AuditPlan(share(model.certify(X_test)), tuple(checks), columns, truth is not None)


def _alone(
    found: dict[str, NDArray[Any]], truth: NDArray[Any], n_checked: int, chosen: str, n_columns: int
) -> Iterator[PlannedCheck]:
    """Yield the accuracy of models of the checked labels alone, which is the same at any number of flips."""
    for name, predictions in found.items():
        used = "prior alone" if name.startswith("the prior") else "alone"
        yield PlannedCheck(n_checked, chosen, used, (float(np.mean(predictions == truth)),) * n_columns)


def _sizes(budget: Sequence[int], n: int) -> list[int]:
    """Return the numbers of checks, ascending; refuse those that are not possible."""
    sizes = sorted({int(one) for one in np.atleast_1d(np.asarray(budget)).tolist()})
    if not sizes or sizes[0] < 1 or sizes[-1] > n:
        raise parameter_error("plan_audit", "budget", f"numbers from 1 to the number of labels, {n}", budget)
    return sizes


def _chosen(model: Any, X: Any, X_test: Any, most: int, rng: np.random.Generator) -> dict[str, Integers]:
    """Return the training rows in the order in which each way to choose checks them."""
    from sklearn.cluster import kmeans_plusplus
    from sklearn.preprocessing import StandardScaler

    at_random = rng.permutation(len(model.label_codes_))
    levers = labels_to_audit(model, X_test, top=most).rows
    others = at_random[~np.isin(at_random, levers)]  # where attacks use fewer labels
    features = StandardScaler().fit_transform(np.asarray(X, dtype=np.float64))
    diverse = kmeans_plusplus(features, most, random_state=int(rng.integers(2**31)))[1]
    return {"levers": np.concatenate([levers, others]), "random": at_random, "diversity": diverse}


def _with_errors(
    codes: Integers, checked: NDArray[np.bool_], error_rate: float, n_classes: int, rng: np.random.Generator
) -> Integers:
    """Return the labels after a check that gets some of them wrong."""
    rows = np.flatnonzero(checked)
    wrong = rng.permutation(rows)[: round(error_rate * len(rows))]
    changed = codes.copy()
    changed[wrong] = (changed[wrong] + rng.integers(1, n_classes, size=len(wrong))) % n_classes
    return changed
