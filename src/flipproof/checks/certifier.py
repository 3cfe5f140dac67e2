"""Soundness checks of a certified classifier: every attack on small problems.

Written from the definition of a certificate; the code under test, like :mod:`flipproof.core.exact`, is not used.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import warnings
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import _safe_indexing as rows_of

from flipproof.adversary import Adversary
from flipproof.certificates import METHODS, Certificates
from flipproof.checks.row_attacks import check_row_attacks
from flipproof.core.provider import refuse_regressors
from flipproof.core.rounding import Floats, Integers, Values
from flipproof.errors import Parameter
from flipproof.learners.base import LabelLinearClassifier
from flipproof.learners.ridge import LabelDependenceWarning
from flipproof.parameters import parameter_error
from flipproof.values import as_mask

#: Largest number of labellings that are tried, with one fit each.
MOST_LABELLINGS = 20_000

#: Noise low enough for "kl" and "tight" to certify a few labels.
SMALL_NOISE = 1e-6

#: Largest size of an array that is printed in a finding.
PRINTED_NUMBERS = 60


@dataclass(frozen=True)
class Problem:
    """A few training rows X and test rows Z; labels are positions in `classes`.

    Attributes
    ----------
    labellings : integers of shape (labellings, n)
        Every way to label the training rows; trusted ones have the labels of `first`.
    first : integers of shape (n,)
        The initial labelling.
    noise : float or None
        Replaces the noise of the estimator, if it has one.
    rng : Generator
        Random generator for choices during the check.
    origin : str
        How to reproduce this problem.
    trusted : booleans of shape (n,), optional
        Training rows whose labels are trusted in every fit.
    """

    X: Any
    Z: Any
    classes: NDArray[Any]
    labellings: Integers
    first: Integers
    noise: float | None
    rng: np.random.Generator
    origin: str
    trusted: NDArray[np.bool_] | None = None

    def trusting(self, trusted: object) -> Problem:
        """Return the problem in which the labels of these rows are trusted in the fit, and never attacked."""
        wanted = f"{len(self.first)} booleans, one per training row, True for at least one and False for another"
        mask = as_mask(trusted, str(Parameter("trusted", owner="check_certifier")), f"{wanted}.")
        if mask.shape != self.first.shape or mask.all() or not mask.any():
            raise parameter_error("check_certifier", "trusted", wanted, mask.tolist())
        possible = (self.labellings == self.first)[:, mask].all(axis=1)
        said = f"{self.origin}, trusted={mask.tolist()}"
        return replace(self, labellings=self.labellings[possible], origin=said, trusted=mask)

    def other_labels(self) -> Integers:
        """Return labels that all differ from the initial ones, except trusted ones."""
        others = (self.first + 1) % len(self.classes)
        return others if self.trusted is None else np.where(self.trusted, self.first, others)

    @property
    def test_rows(self) -> Integers:
        """Numbers of the test rows."""
        return np.arange(np.shape(self.Z)[0])

    def named(self, codes: Integers) -> list[Any]:
        """Return labels as class names."""
        return list(self.classes[codes].tolist())

    def some_labellings(self, size: int) -> Integers:
        """Return `size` labellings: those of one class only, and random others."""
        of_one_class = np.all(self.labellings == self.labellings[:, :1], axis=1)
        others = self.rng.permutation(self.labellings[~of_one_class])
        return np.vstack([self.labellings[of_one_class], others])[:size]

    def adversary(self, number: int) -> Adversary:
        """Return a random adversary; the kinds take turns, and the last combines all."""
        changes = list(itertools.permutations(self.classes.tolist(), 2))
        n = len(self.first)
        powers: dict[str, Any] = {
            "trusted": self.rng.random(n) < 0.4,
            "allowed": [changes[i] for i in self.rng.permutation(len(changes))[: len(changes) // 2]],
            "groups": self.rng.integers(n // 2 + 1, size=n),
        }
        kind = [*powers, "all"][number % 4]
        return Adversary(**powers) if kind == "all" else Adversary(**{kind: powers[kind]})

    def prices(self, base: Integers, adversary: Adversary | None) -> Floats:
        """Return how many labels (annotators) an attack needs to turn `base` into each labelling; inf if impossible."""
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
        """Say how to reproduce this problem, and which test row is concerned."""
        said = f"Found with {self.origin}"
        if isinstance(self.X, np.ndarray) and self.X.size <= PRINTED_NUMBERS:
            said += f"; training rows {self.X.tolist()}"
        if row is not None and isinstance(self.Z, np.ndarray) and self.Z[row].size <= PRINTED_NUMBERS:
            said += f", test row {self.Z[row].tolist()}"
        return said


def random_problems(
    n_rows: int, n_features: int, n_problems: int, n_classes: Sequence[int], random_state: int
) -> Iterator[Problem]:
    """Yield problems with real and with integer features, with and without a small noise, in turn."""
    for seed in range(random_state, random_state + n_problems):
        K = int(n_classes[seed % len(n_classes)])
        rng = np.random.default_rng([seed, K])
        X, Z = rng.normal(size=(n_rows, n_features)), rng.normal(size=(5, n_features))
        # few digits, so that a finding can be copied; integers give ties and equal gains
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


def given_problem(X: Any, y: Any, X_test: object, known_classes: object) -> Problem:
    """Return the problem of the rows that the user has given."""
    labels = np.asarray(y)
    classes = np.unique(labels if known_classes is None else np.asarray(known_classes))
    if labels.shape != np.shape(X)[:1] or len(classes) < 2 or not np.isin(labels, classes).all():
        raise ValueError(
            f"y must have one label for each of the {np.shape(X)[0]} rows of X, from at least two classes that are in "
            f"the estimator's 'classes' (if set). Got {labels.tolist()} instead."
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
            f"{n_rows} training rows of {n_classes} classes have {n_classes**n_rows} labellings, each of which is "
            f"fitted. At most {MOST_LABELLINGS} are supported: use fewer rows."
        )
    return np.array(list(itertools.product(range(n_classes), repeat=n_rows)))


#: Number of labellings whose weights are checked.
WEIGHED = 27

#: Number of labellings whose certificates are checked: two for each kind of adversary.
CERTIFIED = 8


def check_certifier(
    estimator: Any,
    X: object = None,
    y: ArrayLike | None = None,
    X_test: object = None,
    *,
    n_rows: int = 5,
    n_features: int = 2,
    n_problems: int = 4,
    n_classes: Sequence[int] = (2, 3),
    random_state: int = 0,
    trusted: ArrayLike | None = None,
) -> None:
    """Try every attack on small problems; fail unless the certificates are sound and the weights read no label.

    Each problem has a few training rows, and clones of the estimator are fitted to *every* labelling of them.

    - Within a certified radius no refitted model makes another prediction, for any method and all kinds of adversaries.
      For label-linear learners the exact radius is attained: with one more flip, some labelling changes the prediction.
    - The weights are bitwise identical for all labellings, and for a test row alone or together with others.
    - ``argmax(alpha @ onehot(y) + offsets)``, `predict` and ``certify(...).prediction`` agree, with ties to the lowest
      class.
    - Fitting twice gives the same model, labels that lack a class can be fitted, and no input is modified.
    - If it supports ``fit(X, y, reference=...)``: no bit of a row's vote depends on other training rows, and adding,
      removing and replacing rows within a radius in rows changes no prediction, trusted rows and sources included. For
      label-linear learners the radius against removals is attained.

    Parameters
    ----------
    estimator : classifier with `fit`, `predict` and `certify`
        A :class:`flipproof.LabelLinearClassifier`, any other learner of flipproof, or one with the same interface.
        Weights are checked only if it has a method `vote_weights`. A learner that is not a LabelLinearClassifier may
        refuse methods and adversaries with a ValueError. A parameter `classes` is set to the classes of the problem. A
        number as `noise` is replaced by a very small one in half of the problems: with more noise, ``"kl"`` and
        ``"tight"`` certify nothing with few labels.
    X, y, X_test : arrays of shape (n, k), (n,) and (m, k), optional
        A few training rows, their labels and test rows (default: the training rows), instead of random problems.
    n_rows, n_features : int, default=5 and 2
        Size of the random problems, with ``K ** n_rows`` fits each.
    n_problems : int, default=4
        Number of random problems.
    n_classes : sequence of int, default=(2, 3)
        Numbers of classes K, taken in turn.
    random_state : int, default=0
        Seed of the first problem; each further one adds 1.
    trusted : booleans of shape (n_rows,), optional
        Training rows whose labels are given to every fit as ``trusted=...``, for learners with a prior, supervised
        trees or steps that need labels (M15). Only the other labels are attacked, and no bit of weights and offsets may
        depend on them. Changed rows are then not tried.

    Raises
    ------
    AssertionError
        With the finding, the labels and rows concerned, and how to reproduce it.

    See Also
    --------
    flipproof.LabelLinearClassifier : Base class of learners, for custom ones.

    Examples
    --------
    >>> import numpy as np
    >>> from flipproof import LabelLinearClassifier
    >>> from flipproof.checks import check_certifier
    >>> class ParzenWindow(LabelLinearClassifier):
    ...     def fit_without_labels(self, X):
    ...         self.rows_ = X
    ...     def label_free_weights(self, Z):
    ...         return np.exp(-np.abs(Z[:, None, :] - self.rows_).sum(axis=2))
    >>> check_certifier(ParzenWindow(), n_rows=3, n_problems=1)
    >>> class Balanced(ParzenWindow):
    ...     def _fit_with_labels(self, codes):
    ...         self.rows_ = self.rows_ * np.mean(codes)
    >>> check_certifier(Balanced(), n_rows=3, n_problems=1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    AssertionError: Balanced has weights that depend on labels: fitted to y = [0, 0, 0], alpha of training row ...
    """
    refuse_regressors(estimator, "check_certifier")
    missing = [name for name in ("fit", "predict", "certify") if not callable(getattr(estimator, name, None))]
    if missing:
        raise ValueError(
            f"check_certifier needs a classifier with fit, predict and certify. {estimator!r} has no {missing[0]}."
        )
    if (X is None) != (y is None) or (X is None and X_test is not None):
        raise ValueError("check_certifier takes X and y together, with or without X_test, or none of them.")
    if X is not None:
        problems = iter([given_problem(X, y, X_test, getattr(estimator, "classes", None))])
    else:
        if n_problems < 1 or min(n_classes) < 2 or n_rows < max(n_classes):
            raise ValueError(
                "check_certifier needs at least one problem, two classes and as many rows as classes. Got "
                f"n_problems={n_problems!r}, n_classes={n_classes!r} and n_rows={n_rows!r} instead."
            )
        problems = random_problems(n_rows, n_features, n_problems, n_classes, random_state)
    if trusted is not None and "trusted" not in inspect.signature(estimator.fit).parameters:
        raise ValueError(
            f"check_certifier(trusted=...) needs a classifier with fit(X, y, trusted=...). Got {estimator!r}."
        )
    for problem in problems if trusted is None else (one.trusting(trusted) for one in problems):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LabelDependenceWarning)  # the check itself detects this
            _check_problem(_Trial(estimator, problem))


class _Trial:
    """One estimator on one problem: checked fits and reproducible findings."""

    def __init__(self, estimator: object, problem: Problem):
        self.problem = problem
        self.X, self.Z = deepcopy(problem.X), deepcopy(problem.Z)
        self.estimator = clone(estimator)
        self.is_label_linear = isinstance(estimator, LabelLinearClassifier)
        parameters = self.estimator.get_params(deep=False)
        if "classes" in parameters:
            self.estimator.set_params(classes=problem.classes)
        if problem.noise is not None and self.is_label_linear and isinstance(parameters.get("noise"), float):
            self.estimator.set_params(noise=problem.noise)

    def finding(self, what: str, row: int | None = None) -> AssertionError:
        """Return the error that says what was found, and where."""
        return AssertionError(f"{type(self.estimator).__name__} {what}\n{self.problem.where(row)}")

    def fit(self, codes: Integers, model: Any = None) -> Any:
        """Fit a new clone (or a given model) to a labelling; check that it knows all classes and modified no input."""
        model = clone(self.estimator) if model is None else model
        classes, named = self.problem.classes, self.problem.named(codes)
        y = classes[codes]
        given = {} if self.problem.trusted is None else {"trusted": self.problem.trusted.copy()}
        try:
            model.fit(self.X, y, **given)
        except Exception as error:
            lacking = sorted(set(classes.tolist()) - set(named))
            if not lacking:
                raise
            raise self.finding(
                f"cannot be fitted to y = {named}, so an attack could prevent training; a parameter 'classes' must "
                f"tell it the classes {lacking}. {type(error).__name__}: {error}"
            ) from error
        if not _same(y, classes[codes]):
            raise self.finding(f"modifies the labels that it is fitted to: {named} became {y.tolist()}")
        self.check_rows()
        found = np.asarray(getattr(model, "classes_", classes))
        if not np.array_equal(found, classes):
            raise self.finding(
                f"reads its class set from the labels: fitted to y = {named}, classes_ is {found.tolist()} instead of "
                f"{classes.tolist()}"
            )
        return model

    def check_rows(self) -> None:
        """Check that training and test rows are unchanged."""
        for what, mine, given in (("training", self.X, self.problem.X), ("test", self.Z, self.problem.Z)):
            if not _same(mine, given):
                raise self.finding(f"modifies the {what} rows that it is given")


def _same(one: object, other: object) -> bool:
    """Tell whether two arrays or data frames are equal; missing values count as equal."""
    a, b = np.asarray(one), np.asarray(other)
    return a.shape == b.shape and bool(np.all((a == b) | ((a != a) & (b != b))))


def _check_problem(trial: _Trial) -> None:
    problem = trial.problem
    model = trial.fit(problem.first)
    answers = _answers(model, trial.Z)
    trial.check_rows()
    _check_fitted_twice(trial, answers)
    _check_company(trial, model, answers)
    predictions = _predictions_of_refits(trial, answers)
    scores = None
    if answers.alpha is not None and answers.offsets is not None:
        scores = _scores(problem, answers.alpha, answers.offsets)
        _check_argmax(trial, predictions, scores)
    methods = METHODS if trial.is_label_linear else _methods(model, trial.Z)
    for number, base in enumerate([problem.first, *problem.some_labellings(CERTIFIED - 1)]):
        model = trial.fit(base)
        for adversary in (None, problem.adversary(number)):
            for certificates in _certificates(trial, model, methods, adversary):
                _check_certificates(trial, base, adversary, certificates, predictions, scores)
    if problem.trusted is None:
        check_row_attacks(trial)


@dataclass(frozen=True)
class _Answers:
    """The answers of a fitted model for some test rows; alpha and offsets only if it has weights."""

    alpha: Floats | None
    offsets: Floats | None
    prediction: NDArray[Any] | None = None
    radius: Integers | None = None


def _weights(model: Any, Z: Any) -> _Answers:
    return _Answers(*(model.vote_weights(Z) if callable(getattr(model, "vote_weights", None)) else (None, None)))


def _answers(model: Any, Z: Any) -> _Answers:
    weights = _weights(model, Z)
    return _Answers(weights.alpha, weights.offsets, model.predict(Z), model.certify(Z).radius)


def _difference(expected: _Answers, found: _Answers, rows: Integers) -> tuple[str, int] | None:
    """Say how answers for some of the test rows differ from the expected ones, and for which row."""
    for name, column_name in (("alpha", "training row"), ("offsets", "class"), ("prediction", ""), ("radius", "")):
        before, now = getattr(expected, name), getattr(found, name)
        if before is None or now is None:
            continue
        before = before[rows]
        if np.shape(now) != before.shape:
            return f"{name} has the shape {np.shape(now)}, not {before.shape}", int(rows[0])
        for at in map(tuple, np.argwhere(before != now)[:1]):  # NaN differs from itself
            column = f" of {column_name} {at[1]}" if column_name else ""
            said = f"{name}{column} for test row {rows[at[0]]} is {now[at].item()}, not {before[at].item()}"
            return said, int(rows[at[0]])
    return None


def _check_fitted_twice(trial: _Trial, answers: _Answers) -> None:
    problem = trial.problem
    other = trial.fit(problem.other_labels())
    for model, how in ((None, ""), (other, ", the second time after other labels")):
        told = _difference(answers, _answers(trial.fit(problem.first, model), trial.Z), problem.test_rows)
        if told:
            y = problem.named(problem.first)
            raise trial.finding(f"gives different results when fitted twice to y = {y}{how}: {told[0]}", told[1])


def _check_company(trial: _Trial, model: object, answers: _Answers) -> None:
    rows = trial.problem.test_rows
    for company, how in [(rows[::-1], "in reverse order"), *((rows[i : i + 1], "alone") for i in rows)]:
        told = _difference(answers, _answers(model, rows_of(trial.Z, company)), company)
        if told:
            raise trial.finding(f"treats a test row differently with other rows: asked {how}, {told[0]}", told[1])


def _predictions_of_refits(trial: _Trial, answers: _Answers) -> NDArray[Any]:
    """Fit every labelling and return the predictions, shape (labellings, test rows); check that weights are equal."""
    problem = trial.problem
    weighed = {tuple(codes) for codes in problem.some_labellings(WEIGHED)}
    predictions = []
    for codes in problem.labellings:
        model = trial.fit(codes)
        told = tuple(codes) in weighed and _difference(answers, _weights(model, trial.Z), problem.test_rows)
        if told:
            raise trial.finding(
                f"has weights that depend on labels: fitted to y = {problem.named(codes)}, {told[0]} as with y = "
                f"{problem.named(problem.first)}",
                told[1],
            )
        predictions.append(model.predict(trial.Z))
    return np.array(predictions)


def _scores(problem: Problem, alpha: Floats, offsets: Floats) -> Floats:
    """Return alpha @ onehot(y) + offsets for every labelling, shape (labellings, test rows, classes)."""
    one_hot = problem.labellings[:, None, :, None] == np.arange(len(problem.classes))
    return np.asarray((alpha[:, :, None] * one_hot).sum(axis=2) + offsets)


def _check_argmax(trial: _Trial, predictions: Values, scores: Floats) -> None:
    """Compare predictions with their definition; np.argmax takes the lowest of equal classes."""
    problem = trial.problem
    for at, row in np.argwhere(problem.classes[np.argmax(scores, axis=2)] != predictions)[:1]:
        raise trial.finding(
            f"does not predict what its weights say: fitted to y = {problem.named(problem.labellings[at])}, it "
            f"predicts {predictions[at, row]} for test row {row}, but alpha @ onehot(y) + offsets is "
            f"{scores[at, row].tolist()} (ties go to the lowest class)",
            int(row),
        )


def _methods(model: Any, Z: Any) -> Sequence[str | None]:
    """Return the methods of a learner that is not label-linear: its default, and all others that it supports."""
    known: list[str | None] = [None]
    for method in METHODS:
        with contextlib.suppress(ValueError):
            model.certify(Z, method=method)
            known.append(method)
    return known


def _certificates(
    trial: _Trial, model: Any, methods: Sequence[str | None], adversary: Adversary | None
) -> Iterator[Certificates]:
    """Yield certificates by every method; a learner that is not label-linear may refuse an adversary."""
    for method in methods:
        try:
            yield model.certify(trial.Z, method=method, adversary=adversary)
        except ValueError:
            if trial.is_label_linear or adversary is None:
                raise


def _check_certificates(
    trial: _Trial,
    base: Integers,
    adversary: Adversary | None,
    certificates: Certificates,
    predictions: Values,
    scores: Floats | None,
) -> None:
    """Compare the certificates of a fit to `base` with the refits that an adversary can cause."""
    problem = trial.problem
    prices = problem.prices(base, adversary)
    told = _false_prediction(predictions[prices == 0][0], certificates)
    told = told or _false_promise(problem, predictions, prices, certificates)
    if scores is not None and certificates.method == "exact":
        told = told or _inexact(problem, scores, prices, certificates)
    if told:
        how = f"method {certificates.method!r}, fitted to y = {problem.named(base)}, {_spoken(adversary)}"
        raise trial.finding(f"{told[0]} ({how})", told[1])


def _spoken(adversary: Adversary | None) -> str:
    powers: dict[str, Any] = {} if adversary is None else vars(adversary)
    given = ", ".join(f"{name}={np.asarray(value).tolist()}" for name, value in powers.items() if value is not None)
    return f"Adversary({given})"


def _false_prediction(predicted: Values, certificates: Certificates) -> tuple[str, int] | None:
    for row in np.flatnonzero((certificates.prediction != predicted) & ~certificates.abstained)[:1]:
        said = f"certifies {certificates.prediction[row]} for test row {row}, but predicts {predicted[row]}"
        return said, int(row)
    return None


def _false_promise(
    problem: Problem, predictions: Values, prices: Floats, certificates: Certificates
) -> tuple[str, int] | None:
    broken = (prices[:, None] <= certificates.radius) & (predictions != certificates.prediction)
    for at, row in np.argwhere(broken & ~certificates.abstained)[:1]:
        return (
            f"breaks a certificate: test row {row} is predicted as {certificates.prediction[row]} with a radius of "
            f"{certificates.radius[row]} {certificates.unit}, but fitted to {problem.named(problem.labellings[at])}, "
            f"{prices[at]:.0f} away, it predicts {predictions[at, row]}"
        ), int(row)
    return None


def _inexact(problem: Problem, scores: Floats, prices: Floats, certificates: Certificates) -> tuple[str, int] | None:
    """Compare an exact radius with the cheapest labelling that makes another class win."""
    for row, radius in enumerate(certificates.radius):
        code = int(np.flatnonzero(problem.classes == certificates.prediction[row])[0])
        overturned = scores[:, row].argmax(axis=1) != code  # the first of equal scores, as in `predict`
        cheapest = prices[overturned].min(initial=np.inf)
        # if nothing can overturn the prediction, the radius is the number of labels that can be changed
        exact = prices[np.isfinite(prices)].max() if cheapest == np.inf else cheapest - 1
        if radius != exact:
            how = "too large" if radius > exact else "not attained"
            return f"has an exact radius that is {how}: {radius} for test row {row}, which should be {exact:.0f}", row
    return None
