"""What checking N labels buys: trusted votes, a prior, trusted geometry, or a model of the checked labels alone.

The simulation takes labels as they are: a checked label keeps its value and becomes trusted. The rows to check are
chosen as the labels that attacks use most, at random, or by the diversity of their features.

A plan is a measurement on the given test rows, not a certificate: the rows of "attacks" are chosen by attacks on these
test rows, and the other choices are one random draw. What it simulates is certified: certified accuracy is that of a
real fit in which the checked labels are trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from flipproof.adversary import Adversary
from flipproof.attacks.label_audit import labels_to_audit
from flipproof.attacks.plan_result import AuditPlan, PlannedCheck
from flipproof.certificates import Certificates
from flipproof.core.rounding import Floats, Integers, Values
from flipproof.learners.baseline import TrustedOnlyPredictions, trusted_only_predictions
from flipproof.learners.certified import CertifiedClassifier
from flipproof.learners.prior import fit_prior
from flipproof.metrics import certified_accuracy, n_certified
from flipproof.origins import frame_library
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
from flipproof.runtime.progress import CountedProgress
from flipproof.values import encode_labels, label_values

#: How checked labels are used by each kind of model that knows no others.
USED_ALONE = {"learner": "alone", "prior": "prior alone"}

#: Certificates with weights of labels or several labels per row: a plan would have to choose among those.
WEIGHTED = ("sample-weights", "annotations")

#: Margins of two fits that differ by a smaller share are those of the same rows.
MARGIN_TOLERANCE = 0.01

#: Number of trees of the default prior.
N_TREES = 100

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


def plan_audit(
    model: Any,
    X_test: Any,
    y_test: object = None,
    budget: Sequence[int] = BUDGET,
    *,
    X: Any,
    y: Any,
    flips: Sequence[int] = FLIPS,
    prior: Any = None,
    prior_weight: float = 1.0,
    error_rate: float = 0.0,
    random_state: int = 0,
    verbose: int = 0,
) -> AuditPlan:
    """Simulate what checking N training labels buys, by the way that they are chosen and used.

    Parameters
    ----------
    model : learner
        Label-linear and fitted to `X` and `y`. Labels that were trusted in the fit stay trusted; the budget counts
        others.
    X_test, y_test : array of shape (m, k), and (m,), optional
        Test rows and their labels. Without labels, shares count all certified predictions, correct or not.
    budget : sequence of int
        Numbers of labels to check.
    X, y : array or data frame of shape (n, k), and (n,)
        The training rows, as they were fitted, and their labels. Labels are compared with those of the fit. Of the
        rows the model keeps no copy: they are refused if fits to them certify most test rows differently.
    flips : sequence of int
        Numbers of changed labels at which shares are reported.
    prior : classifier, optional
        Fitted to the checked labels. It gets rows after the `features` step of the model. Default: a random forest.
    prior_weight : float, default=1.0
        Its weight.
    error_rate : float, default=0.0
        Share of the checked labels that the check gets wrong: they get another class, at random.
    random_state : int, default=0
        Seed of the random choices.
    verbose : int, default=0
        1: show progress and the time left on stderr.

    Returns
    -------
    AuditPlan
        Ways that cannot be fitted to so few labels are left out. Trusted geometry needs a learner with trees, or a
        features step that was fitted to trusted labels. If labels are trusted already, the first ways are what these
        buy without a check. Shares are measured on the given test rows, on which a target may be met by chance.

    See Also
    --------
    flipproof.attacks.labels_to_audit : Rank training labels.
    flipproof.select_on_trusted : Choose learner and parameters on trusted labels.
    flipproof.attacks.AuditPlan : Result of a plan.

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
    _refuse_other_fits(model)
    n, known = len(model.label_codes_), model.is_trusted_
    sizes = _sizes(budget, n - int(np.count_nonzero(known)))
    if prior is None:
        from sklearn.ensemble import RandomForestClassifier

        prior = RandomForestClassifier(N_TREES, random_state=0)
    _, codes = encode_labels(label_values(y), model.classes_)
    if not np.array_equal(codes, model.label_codes_):
        raise ValueError("plan_audit needs the rows X and labels y that the model was fitted to. Got other labels.")
    columns = _columns(flips)
    rng = np.random.default_rng(random_state)
    rows, rows_test = model.step_features(X), model.step_features(X_test)  # no label but trusted ones was read
    simulation = _Simulation.of(model, clone(prior), prior_weight, (X, X_test), (rows, rows_test))
    as_it_is = model.certify(X_test, "exact")
    _refuse_other_rows(simulation, as_it_is)
    chosen = _chosen(model, rows, X_test, max(sizes), rng)
    truth = None if y_test is None else np.asarray(label_values(y_test))

    def share(found: Certificates) -> tuple[float, ...]:
        # an attacker cannot change more labels than those that are not trusted
        possible = [min(one, found.n_touchable) for one in columns]
        if truth is None:
            return tuple(count / len(found) for count in n_certified(found, possible))
        return tuple(certified_accuracy(truth, found, possible).tolist())

    ways = [(0, "", chosen["random"])] if known.any() else []
    ways += [(n_checked, way, order) for n_checked, (way, order) in product(sizes, chosen.items())]
    checks: list[PlannedCheck] = []
    before = share(as_it_is)
    with CountedProgress(len(ways), "ways to check labels", verbose) as progress:
        for n_checked, way, order in ways:
            mask = np.isin(np.arange(n), order[:n_checked])
            labels = model.classes_[_with_errors(codes, mask, error_rate, len(model.classes_), rng)]
            found, alone = simulation.ways(labels, mask)
            if not n_checked:  # without a check, these are the model as it is
                found = {used: one for used, one in found.items() if used == "prior"}
            checks += [PlannedCheck(n_checked, way, used, share(one)) for used, one in found.items()]
            checks += [] if truth is None else _alone(alone, truth, n_checked, way, len(columns))
            progress.advance(1)
    n_known, library = int(np.count_nonzero(known)), frame_library(X_test)
    return AuditPlan(before, tuple(checks), columns, truth is not None, float(error_rate), n_known, _frames=library)


@dataclass(frozen=True)
class _Simulation:
    """Fits in which some labels are checked.

    A geometry that has read the labels that were trusted before is the same in all fits but those for "geometry": these
    labels alone are trusted in the fit, and checked ones in the certificates.

    Attributes
    ----------
    model : learner
        As it was fitted, to labels of which those in `known` were trusted.
    learner : learner
        Not fitted, and without a features step.
    prior : classifier
        Not fitted.
    prior_weight : float
        Its weight.
    given : pair of arrays
        Training rows and test rows.
    features : pair of arrays
        What the features step makes of them.
    """

    model: Any
    learner: Any
    prior: Any
    prior_weight: float
    given: tuple[Any, Any]
    features: tuple[Floats, Floats]

    @classmethod
    def of(
        cls, model: Any, prior: object, weight: float, given: tuple[object, object], features: tuple[Floats, Floats]
    ) -> _Simulation:
        """Prepare fits like that of a model."""
        learner = clone(model).set_params(classes=model.classes_, features=None)
        if "verbose" in learner.get_params(deep=False):
            learner.set_params(verbose=0)
        return cls(model, learner, prior, weight, given, features)

    def ways(
        self, labels: Values, checked: NDArray[np.bool_]
    ) -> tuple[dict[str, Certificates], tuple[TrustedOnlyPredictions, ...]]:
        """Return the certificates of fits by use, and the predictions of models of trusted labels alone.

        Fits that so few labels do not allow are left out.
        """
        (rows, rows_test), known = self.features, self.model.is_trusted_
        trusted, as_votes, before = checked | known, Adversary(trusted=checked), self._trusted_before
        fitted = clone(self.learner).fit(rows, labels, trusted=before)
        prior = FrozenEstimator(fit_prior("plan_audit", self.prior, rows[trusted], labels[trusted]))
        with_prior = clone(self.learner).set_params(prior=prior, prior_weight=self.prior_weight)
        with_prior.fit(rows, labels, trusted=before)
        found = {
            name: one.certify(rows_test, "exact", as_votes) for name, one in (("votes", fitted), ("prior", with_prior))
        }
        alone = trusted_only_predictions(with_prior, rows, labels, trusted, rows_test)
        given, given_test = self.features
        if self._step_reads_labels:
            own, (given, given_test) = clone(self.model).set_params(classes=self.model.classes_), self.given
            with_step = trusted_only_predictions(self.model, given, labels, trusted, given_test)
            alone = (*with_step, *(one for one in alone if one.kind == "prior"))
        elif "grow" in self.learner.get_params(deep=False):
            own = clone(self.learner).set_params(grow="supervised")
        else:
            return found, alone
        with suppress(ValueError):  # for instance labels of one class only, which features steps refuse
            found["geometry"] = own.fit(given, labels, trusted=trusted).certify(given_test, "exact")
        return found, alone

    def again(self) -> Certificates:
        """Return the certificates of a fit like that of the model, without a check."""
        rows, rows_test = self.features
        labels = self.model.classes_[self.model.label_codes_]
        fitted = clone(self.learner).fit(rows, labels, trusted=self._trusted_before)
        found: Certificates = fitted.certify(rows_test, "exact")
        return found

    @property
    def _trusted_before(self) -> NDArray[np.bool_] | None:
        known: NDArray[np.bool_] = self.model.is_trusted_
        return known if known.any() else None

    @property
    def _step_reads_labels(self) -> bool:
        """Tell whether the features step was fitted to trusted labels."""
        return any(
            one.code == "fitted-on-trusted" and one.values["role"] == "features step" for one in self.model.assumptions_
        )


def _refuse_other_fits(model: Any) -> None:
    """Raise ValueError for a fit that a simulation with X and y alone would not repeat."""
    if model.n_reference_ is not None:
        raise ValueError("plan_audit needs a model that was fitted without reference=...: fit it to X and y alone.")
    if any(one.code in WEIGHTED for one in model.assumptions_) or not model.is_labeled_.all():
        raise ValueError("plan_audit needs a model with one label of weight 1 per training row.")
    if model.prior is not None:
        raise ValueError("plan_audit needs a model without a prior: give the prior to plan_audit, which fits it.")


def _refuse_other_rows(simulation: _Simulation, as_it_is: Certificates) -> None:
    """Raise ValueError if the rows are clearly not those of the fit; a plan for them would say nothing of the model.

    A fit to the same rows gives the same margins; on another processor, a few votes may be rounded otherwise. Learners
    that draw at random without a seed differ from fit to fit: of these, nothing can be said.
    """
    if _are_others(simulation.again(), as_it_is) and not _are_others(simulation.again(), simulation.again()):
        raise ValueError(
            "plan_audit needs the rows X and labels y that the model was fitted to. Got other rows: the same learner, "
            "fitted to them, certifies most test rows differently."
        )


def _are_others(these: Certificates, those: Certificates) -> bool:
    """Tell whether most margins differ by more than a hundredth."""
    return float(np.mean(~np.isclose(these.margin, those.margin, rtol=MARGIN_TOLERANCE, atol=0, equal_nan=True))) > 0.5


def _alone(
    found: Sequence[TrustedOnlyPredictions], truth: Values, n_checked: int, chosen: str, n_columns: int
) -> Iterator[PlannedCheck]:
    """Yield the accuracy of models of the checked labels alone, which is the same at any number of flips."""
    for one in found:
        accuracy = float(np.mean(one.predictions == truth))
        yield PlannedCheck(n_checked, chosen, USED_ALONE[one.kind], (accuracy,) * n_columns)


def _sizes(budget: Sequence[int], n: int) -> list[int]:
    """Return the numbers of checks, ascending; refuse those that are not possible."""
    sizes = sorted(set(_whole_numbers("budget", budget)))
    if not sizes or sizes[0] < 1 or sizes[-1] > n:
        wanted = f"numbers from 1 to the number of labels that are not trusted yet, {n}"
        raise parameter_error("plan_audit", "budget", wanted, budget)
    return sizes


def _columns(flips: Sequence[int]) -> tuple[int, ...]:
    columns = tuple(sorted(set(_whole_numbers("flips", flips))))
    if not columns or min(columns) < 0:
        raise parameter_error("plan_audit", "flips", "numbers of changed labels, not negative", flips)
    return columns


def _whole_numbers(name: str, given: object) -> list[int]:
    values = np.atleast_1d(np.asarray(given))
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        raise parameter_error("plan_audit", name, "a sequence of whole numbers", given)
    return [int(one) for one in values.tolist()]


def _chosen(model: Any, rows: Floats, X_test: object, most: int, rng: np.random.Generator) -> dict[str, Integers]:
    """Return the training rows in the order in which each way to choose checks them."""
    from sklearn.cluster import kmeans_plusplus
    from sklearn.preprocessing import StandardScaler

    open_rows = np.flatnonzero(~model.is_trusted_)
    at_random = rng.permutation(open_rows)
    attacked = labels_to_audit(model, X_test, top=most).rows
    others = at_random[~np.isin(at_random, attacked)]  # where attacks use fewer labels
    features = StandardScaler().fit_transform(rows[open_rows])
    diverse = open_rows[kmeans_plusplus(features, most, random_state=int(rng.integers(2**31)))[1]]
    diverse = np.concatenate([diverse, at_random])  # where rows with equal features are drawn twice
    diverse = diverse[np.sort(np.unique(diverse, return_index=True)[1])]
    return {"attacks": np.concatenate([attacked, others]), "random": at_random, "diversity": diverse}


def _with_errors(
    codes: Integers, checked: NDArray[np.bool_], error_rate: float, n_classes: int, rng: np.random.Generator
) -> Integers:
    """Return the labels after a check that gets some of them wrong."""
    rows = np.flatnonzero(checked)
    wrong = rng.permutation(rows)[: round(error_rate * len(rows))]
    changed = codes.copy()
    changed[wrong] = (changed[wrong] + rng.integers(1, n_classes, size=len(wrong))) % n_classes
    return changed
