"""`flipproof.compare`: several models on the same test rows, as one table and one plot.

The module is not called `compare`: importing it would replace the function `flipproof.compare` by the module.
"""

from __future__ import annotations

import html
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from flipproof.adversary import Adversary
from flipproof.assumptions import Assumption
from flipproof.certificate_words import COUNTED_UNITS, flips_name, method_name
from flipproof.certificates import Certificates
from flipproof.core.rounding import Values
from flipproof.displays.curves import CertifiedAccuracyDisplay
from flipproof.learners.baseline import TrustedOnlyPredictions, fit_with_trusted, trusted_only_predictions
from flipproof.learners.pipeline import certify, learner_in
from flipproof.metrics import certified_accuracy, constant_accuracy, table_flips, worst_class
from flipproof.origins import frame_library, make_frame
from flipproof.parameters import parameter_error
from flipproof.readable import html_table, percent, significant, text_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from flipproof.learners.selection import TrustedSelection

#: Default number of columns with flips, so that a table fits on a terminal of 80 columns.
MOST_FLIPS = 5

#: How the lines of trusted labels alone are drawn, in turn.
TRUSTED_STYLES = ("--", ":", "-.")

#: The method of lines of trusted labels alone.
TRUSTED_ONLY = "trusted only"

#: What makes predictions from trusted labels alone, in words, by kind.
KINDS_ALONE = {"learner": "trusted labels only", "prior": "prior alone"}

MODELS = "a dict of names and models, for example {'ridge': model}"


@dataclass(frozen=True)
class ComparedModel:
    """One line of a comparison.

    Attributes
    ----------
    name : str
        Name of the model.
    certificates : Certificates
        Its certificates for the test rows.
    accuracy : float
        Share of test rows predicted correctly if nothing is changed.
    certified : tuple of float
        Certified accuracy at each number of flips.
    worst_recall : tuple of float
        Lowest certified recall of any class, at each number of flips.
    median_radius : float
        Half of the predictions have at least this radius; abstentions have none.
    seconds : float
        Time to certify the test rows.
    fit_seconds : float or None
        Time to fit the model; None if it was fitted before.
    """

    name: str
    certificates: Certificates
    accuracy: float
    certified: tuple[float, ...]
    worst_recall: tuple[float, ...]
    median_radius: float
    seconds: float
    fit_seconds: float | None = None


@dataclass(frozen=True)
class TrustedBaseline:
    """Predictions that depend on trusted labels alone: their accuracy is the same at any number of other changes (M15).

    Attributes
    ----------
    name : str
        The model that it is compared with, and what was fitted to the trusted labels.
    accuracy : float
        Share of test rows that it predicts correctly.
    worst_recall : float
        Lowest recall of any class.
    """

    name: str
    accuracy: float
    worst_recall: float


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Result of :func:`flipproof.compare`.

    Attributes
    ----------
    models : tuple of ComparedModel
        The figures of each model, in the order given.
    flips : tuple of int, or of float
        Numbers of changed labels, or other units, at which models are compared.
    y_true : array of shape (m,)
        The true classes of the test rows.
    trusted_only : tuple of TrustedBaseline
        What the trusted labels alone achieve, if there are any: the same kinds of learners, and priors.
    selection : TrustedSelection or None
        The candidates and their scores, if the model was chosen on trusted labels.

    See Also
    --------
    flipproof.compare : Several models on the same test rows.
    flipproof.compare_learners : Several learners, fitted to the same rows.

    Examples
    --------
    >>> import flipproof
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> models = {"ridge": flipproof.CertifiedRidgeClassifier(), "clusters": flipproof.CertifiedClusterClassifier()}
    >>> fitted = {name: model.fit(X[:400], y[:400]) for name, model in models.items()}
    >>> result = flipproof.compare(fitted, X[400:], y[400:], flips=[0, 10])
    >>> result.to_frame().columns[:4].tolist()
    ['model', 'method', 'unit', 'n_units']
    """

    models: tuple[ComparedModel, ...]
    flips: tuple[float, ...]
    y_true: NDArray[Any]
    trusted_only: tuple[TrustedBaseline, ...] = ()
    selection: TrustedSelection | None = None
    _frames: str | None = field(default=None)

    @property
    def certificates(self) -> Mapping[str, Certificates]:
        """The certificates of each model."""
        return MappingProxyType({one.name: one.certificates for one in self.models})

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The assumptions that the certificates of all models share."""
        first, *others = (one.certificates.assumptions for one in self.models)
        return tuple(one for one in first if all(one in other for other in others))

    @property
    def own_assumptions(self) -> Mapping[str, tuple[Assumption, ...]]:
        """For each model, the assumptions of its certificates that not all models share."""
        shared = self.assumptions
        return MappingProxyType(
            {one.name: tuple(own for own in one.certificates.assumptions if own not in shared) for one in self.models}
        )

    @property
    def unit(self) -> str:
        """What the flips count or measure: the same for all models."""
        return self.models[0].certificates.unit

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the header and the lines of the comparison as text, with numbers rounded down.

        Every model has two lines: certified accuracy, and the certified recall of its worst class. What trusted labels
        alone achieve comes last.
        """
        has_fits = any(one.fit_seconds is not None for one in self.models)
        header = ["", *map(self._number, self.flips), "med. radius", *["fit s"] * has_fits, "certify s"]
        lines = []
        for one in self.models:
            fit = "" if one.fit_seconds is None else f"{one.fit_seconds:.1f}"
            more = [self._number(one.median_radius), *[fit] * has_fits, f"{one.seconds:.1f}"]
            lines.append([one.name, *map(percent, one.certified), *more])
            lines.append(["  worst class", *map(percent, one.worst_recall), *[""] * len(more)])
        for baseline in self.trusted_only:
            more = ["any", *[""] * (len(header) - 2 - len(self.flips))]
            lines.append([baseline.name, *[percent(baseline.accuracy)] * len(self.flips), *more])
            worst = [percent(baseline.worst_recall)] * len(self.flips)
            lines.append(["  worst class", *worst, *[""] * len(more)])
        return header, lines

    @property
    def headline(self) -> str:
        """What the columns of the table show."""
        first = self.models[0].certificates
        totals = {one.certificates.n_units for one in self.models}
        of = f" of {totals.pop():,}" if len(totals) == 1 and self.unit in COUNTED_UNITS else ""
        return f"Certified accuracy of {len(first):,} test rows, by {flips_name(first)}{of}:"

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about the table: the trusted labels, the constant classifier, and what differs between models."""
        found = [
            *self._about_trusted_only(),
            f"A constant classifier has an accuracy of {percent(constant_accuracy(self.y_true))}.",
        ]
        methods = {one.name: method_name(one.certificates) for one in self.models}
        if len(set(methods.values())) > 1:
            found.append(f"Methods differ: {', '.join(f'{name} by {how}' for name, how in methods.items())}.")
        totals = {one.name: one.certificates.n_units for one in self.models}
        if len(set(totals.values())) > 1:
            found.append(
                f"Training sets differ: {', '.join(f'{name} has {n:,} {self.unit}' for name, n in totals.items())}."
            )
        if any(one.fit_seconds is None for one in self.models):
            found.append("The seconds of models that were fitted before do not include the fit.")
        assumed_by: dict[str, list[str]] = {}
        for name, own in self.own_assumptions.items():
            for one in own:
                assumed_by.setdefault(str(one), []).append(name)
        for sentence, names in assumed_by.items():
            listed = ("; " if any("," in name for name in names) else ", ").join(names)
            found.append(f"Only {listed} {'assumes' if len(names) == 1 else 'assume'}: {sentence}")
        return tuple(found)

    @property
    def trusted_only_is_best_from(self) -> float | None:
        """The least of `flips` at which trusted labels alone exceed the certified accuracy of every model, or None."""
        most = max((one.accuracy for one in self.trusted_only), default=0.0)
        better = (at for place, at in enumerate(self.flips) if most > max(one.certified[place] for one in self.models))
        return next(better, None) if self.trusted_only else None

    def _about_trusted_only(self) -> list[str]:
        """Return where trusted labels alone are the better choice; nothing if no labels are trusted."""
        at, changed = self.trusted_only_is_best_from, flips_name(self.models[0].certificates)
        if at is None:
            return []
        best = max(self.trusted_only, key=lambda one: one.accuracy)
        return [
            f"From {self._number(at)} {changed} on, trusted labels alone are better than all certified models: "
            f"{best.name}, accuracy {percent(best.accuracy)} at any number of changes of the others."
        ]

    @property
    def choice(self) -> str | None:
        """The chosen learner and its parameters, in words; None without a selection."""
        if self.selection is None:
            return None
        chosen = ", ".join(f"{name}={value}" for name, value in self.selection.best_params.items())
        return f"Chosen: {self.selection.best_learner}" + f" ({chosen})" * bool(chosen)

    def __repr__(self) -> str:
        chosen = [] if self.selection is None else [repr(self.selection), "", str(self.choice), ""]
        return "\n".join([*chosen, self.headline, text_table(*self.table()), *self.notes])

    def _repr_html_(self) -> str:
        """Return the HTML for a notebook: the table, and what differs between models."""
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        chosen = "" if self.choice is None else f"<p>{html.escape(self.choice)}</p>"
        return f"{chosen}<p>{html.escape(self.headline)}</p>{html_table(*self.table())}<ul>{notes}</ul>"

    def facts(self) -> dict[str, object]:
        """Return what the table of figures does not contain, in JSON types."""
        own = {name: [one.to_dict() for one in some] for name, some in self.own_assumptions.items()}
        about: dict[str, object] = {
            "unit": self.unit,
            "flips": list(self.flips),
            "test_rows": len(self.y_true),
            "assumptions": [one.to_dict() for one in self.assumptions],
            "own_assumptions": own,
        }
        return about if self.selection is None else {**about, "selection": self.selection.facts()}

    def columns(self) -> dict[str, list[Any]]:
        """Return the figures by column, one line per model, in plain types; then one line per baseline."""
        found: dict[str, list[Any]] = {
            "model": [one.name for one in self.models],
            "method": [one.certificates.method for one in self.models],
            "unit": [self.unit for _ in self.models],
            "n_units": [one.certificates.n_units for one in self.models],
            "accuracy": [one.accuracy for one in self.models],
        }
        accuracies = [f"certified_accuracy_{flips:.15g}" for flips in self.flips]
        recalls = [f"worst_recall_{flips:.15g}" for flips in self.flips]
        for place, name in enumerate(accuracies):
            found[name] = [one.certified[place] for one in self.models]
        for place, name in enumerate(recalls):
            found[name] = [one.worst_recall[place] for one in self.models]
        found["median_radius"] = [one.median_radius for one in self.models]
        if any(one.fit_seconds is not None for one in self.models):
            found["fit_seconds"] = [one.fit_seconds for one in self.models]
        found["certify_seconds"] = [one.seconds for one in self.models]
        for one in self.trusted_only:
            own: dict[str, Any] = {"model": one.name, "method": TRUSTED_ONLY, "unit": self.unit}
            own |= dict.fromkeys(["accuracy", *accuracies], one.accuracy) | dict.fromkeys(recalls, one.worst_recall)
            for name, values in found.items():
                values.append(own.get(name))
        return found

    def to_frame(self) -> Any:
        """Return the figures as a data frame, one line per model.

        Returns
        -------
        data frame
            Of the same library as the test rows; for arrays, pandas, or another that is installed. Columns:
            ``model``, ``method``, ``unit``, ``n_units``, ``accuracy``; ``certified_accuracy_F`` and ``worst_recall_F``
            for each number of flips F; ``median_radius``; ``fit_seconds`` if a model was fitted here, and
            ``certify_seconds``. Lines of trusted labels alone have the method "trusted only".

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i)] for i in range(40)], [0] * 20 + [1] * 20
        >>> models = {"3": flipproof.CertifiedNeighborsClassifier(3), "15": flipproof.CertifiedNeighborsClassifier(15)}
        >>> result = flipproof.compare(models, [[5.0], [30.0]], [0, 1], flips=[0, 2], train=(X, y))
        >>> result.to_frame()[["model", "certified_accuracy_0", "certified_accuracy_2"]]
          model  certified_accuracy_0  certified_accuracy_2
        0     3                   1.0                   0.0
        1    15                   1.0                   1.0
        """
        return make_frame(self.columns(), self._frames)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Any:
        """Draw certified accuracy against the number of flips, one curve per model; trusted labels alone as lines.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        **kwargs
            Passed to matplotlib's `plot`.

        Returns
        -------
        dict of CertifiedAccuracyDisplay
            By model, with the attributes `ax_` and `figure_`.

        Examples
        --------
        >>> import flipproof
        >>> X, y = [[float(i)] for i in range(40)], [0] * 20 + [1] * 20
        >>> models = {"3": flipproof.CertifiedNeighborsClassifier(3), "15": flipproof.CertifiedNeighborsClassifier(15)}
        >>> result = flipproof.compare(models, [[5.0], [30.0]], [0, 1], flips=[0, 2], train=(X, y))
        >>> sorted(result.plot())
        ['15', '3']
        """
        shown = CertifiedAccuracyDisplay.from_certificates(self.certificates, self.y_true, ax=ax, **kwargs)
        if self.trusted_only:
            drawn = next(iter(shown.values())).ax_
            for place, one in enumerate(self.trusted_only):
                style = TRUSTED_STYLES[place % len(TRUSTED_STYLES)]
                drawn.axhline(one.accuracy, color="grey", linewidth=1, linestyle=style, label=one.name)
            drawn.legend(fontsize="small")
        return shown

    def _number(self, value: float) -> str:
        return f"{int(value):,}" if self.unit in COUNTED_UNITS else significant(value)


def compare(
    models: Mapping[str, object],
    X: object,
    y: ArrayLike,
    flips: Sequence[float] | None = None,
    *,
    method: str | None = None,
    adversary: Adversary | None = None,
    train: tuple[object, object] | None = None,
) -> Comparison:
    """Certify the same test rows by several models, and compare their certified accuracy.

    Parameters
    ----------
    models : dict of str to learner, Pipeline or search
        Names and models. Fitted models are used as they are. Models that are not fitted are cloned and fitted to
        `train`.
    X : array or data frame of shape (m, k)
        Test rows.
    y : array of shape (m,)
        Their true classes.
    flips : sequence of int, optional
        Numbers of changed labels, or of the unit of the adversary. Default: a few up to the largest radius.
    method : {"exact", "tight", "kl"}, optional
        Default: the `method` of each learner.
    adversary : Adversary, optional
        What an attacker can do, the same for all models. Default: change any label to any class.
    train : pair (X_train, y_train), optional
        Training rows and labels for the models that are not fitted yet. If labels are trusted, by the adversary or in
        the fit of a model, the same kinds of learners are also fitted to the trusted ones alone, as a baseline.

    Returns
    -------
    Comparison
        It prints as a table; :meth:`~Comparison.to_frame` returns the table, and :meth:`~Comparison.plot` draws it.
        Seconds are those of `certify`; those of `fit` are in a column of their own, for models that were fitted here.

    Raises
    ------
    ValueError
        If radii of models count different things, for example labels and a norm of features: these cannot be compared.

    See Also
    --------
    flipproof.compare_learners : Fit several learners to the same rows, and compare them.
    flipproof.select_on_trusted : Choose learner and parameters on trusted labels.
    flipproof.Comparison : Result of a comparison.
    flipproof.CertifiedAccuracyDisplay : Plot of certified accuracy.

    Notes
    -----
    Choosing a model by this table uses the labels `y`. If these are some of the labels that may be changed, the choice
    may change with them, which no certificate covers: use test rows that you trust, or :func:`select_on_trusted`.

    Examples
    --------
    >>> import flipproof
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> ridge = flipproof.CertifiedRidgeClassifier(classes=range(10)).fit(X[:1000], y[:1000])
    >>> forest = flipproof.CertifiedForestClassifier(classes=range(10)).fit(X[:1000], y[:1000])
    >>> result = flipproof.compare({"ridge": ridge, "forest": forest}, X[1000:], y[1000:], flips=[0, 5, 20])
    >>> result.to_frame()["certified_accuracy_5"].round(3).tolist()
    [0.755, 0.762]
    """
    _check(models)
    entries, alone = [], {}
    for name, model in models.items():
        model, fit_seconds = _fitted(str(name), model, train, None if adversary is None else adversary.trusted)
        began = time.perf_counter()
        certificates = certify(model, X, method, adversary)
        entries.append((str(name), certificates, time.perf_counter() - began, fit_seconds))
        alone[str(name)] = _from_trusted(model, train, adversary, X)
    return comparison_of(entries, y, flips, frame_library(X), alone)


def comparison_of(
    entries: Sequence[tuple[str, Certificates, float, float | None]],
    y_true: object,
    flips: Sequence[float] | None,
    frames: str | None = None,
    trusted_only: Mapping[str, Sequence[TrustedOnlyPredictions]] | None = None,
    selection: TrustedSelection | None = None,
) -> Comparison:
    """Compare certificates of the same test rows.

    Parameters
    ----------
    entries : sequence
        For each model its name, certificates, seconds to certify, and seconds to fit or None.
    y_true : array of shape (m,)
        The true classes.
    flips : sequence of float, optional
        As in :func:`compare`.
    frames : str, optional
        Library of the data frames that `to_frame` returns.
    trusted_only : mapping, optional
        For each model, predictions from trusted labels alone.
    selection : TrustedSelection, optional
        How the model was chosen.
    """
    (first, reference, _, _), *others = entries
    for name, one, _, _ in others:
        if (one.unit, one.changes) != (reference.unit, reference.changes):
            raise ValueError(
                f"Radii of {first!r} are in {flips_name(reference)}, but those of {name!r} in {flips_name(one)}: these "
                "cannot be compared in one table. Compare them separately."
            )
    truth = reference.true_classes(y_true)
    every = [one for _, one, _, _ in entries]
    chosen = _few(table_flips(every)) if flips is None else np.atleast_1d(flips).tolist()
    models = tuple(
        ComparedModel(
            name=name,
            certificates=one,
            accuracy=float(certified_accuracy(truth, one, [0])[0]),
            certified=tuple(certified_accuracy(truth, one, chosen).tolist()),
            worst_recall=tuple(worst_class(truth, one, number).recall for number in chosen),
            median_radius=_median_radius(one),
            seconds=seconds,
            fit_seconds=fit_seconds,
        )
        for name, one, seconds, fit_seconds in entries
    )
    return Comparison(models, tuple(chosen), truth, _baselines(trusted_only or {}, truth), selection, frames)


def _baselines(
    predictions: Mapping[str, Sequence[TrustedOnlyPredictions]], truth: Values
) -> tuple[TrustedBaseline, ...]:
    """Return the figures of trusted labels alone; those with the same predictions are shown once."""
    found: dict[tuple[Any, ...], TrustedBaseline] = {}
    classes, codes = np.unique(truth, return_inverse=True)
    for model, alone in predictions.items():
        for one in alone:
            correct = np.asarray(one.predictions == truth)
            recall = np.bincount(codes, correct, len(classes)) / np.bincount(codes, minlength=len(classes))
            baseline = TrustedBaseline(f"{model}: {KINDS_ALONE[one.kind]}", float(correct.mean()), float(recall.min()))
            found.setdefault((one.kind, *np.asarray(one.predictions).tolist()), baseline)
    return tuple(found.values())


def _from_trusted(
    model: object, train: tuple[Any, Any] | None, adversary: Adversary | None, X: object
) -> tuple[TrustedOnlyPredictions, ...]:
    """Return predictions from trusted labels alone; without the training rows, those of a prior."""
    learner = learner_in(model)
    mask = getattr(learner, "is_trusted_", None)
    if adversary is not None and adversary.trusted is not None:
        mask = adversary.trusted if mask is None or len(mask) != len(adversary.trusted) else mask | adversary.trusted
    is_possible = train is not None and mask is not None and np.any(mask) and len(train[1]) == len(mask)
    rows, labels = train if train is not None and is_possible else (X, np.zeros(0))
    trusted = np.asarray(mask) if is_possible and mask is not None else np.zeros(0, dtype=bool)
    return trusted_only_predictions(model, rows, labels, trusted, X)


def _few(flips: Sequence[float]) -> list[float]:
    """Return at most `MOST_FLIPS` of the numbers, including the first and the last."""
    places = np.unique(np.linspace(0, len(flips) - 1, MOST_FLIPS).round().astype(int))
    return [flips[place] for place in places]


def _check(models: object) -> None:
    if not isinstance(models, Mapping):
        raise parameter_error("compare", "models", MODELS, type(models).__name__)
    if not models:
        raise parameter_error("compare", "models", MODELS, models)


def _fitted(
    name: str, model: object, train: tuple[object, object] | None, trusted: NDArray[np.bool_] | None
) -> tuple[Any, float | None]:
    """Return a fitted model, and how long its fit took if it was fitted here."""
    try:
        check_is_fitted(learner_in(model) if hasattr(model, "steps") else model)
    except NotFittedError:
        if train is None:
            raise ValueError(
                f"The model {name!r} of compare is not fitted: fit it first, or give train=(X_train, y_train)."
            ) from None
    else:
        return model, None
    if not (isinstance(train, tuple) and len(train) == 2):
        raise parameter_error("compare", "train", "a pair (X_train, y_train)", type(train).__name__)
    model = clone(model)
    began = time.perf_counter()
    fit_with_trusted(model, *train, trusted)
    return model, time.perf_counter() - began


def _median_radius(certificates: Certificates) -> float:
    """Return the largest radius that at least half of the predictions reach; abstentions reach none."""
    radii = np.where(certificates.abstained, 0, certificates.radius)
    middle = np.sort(radii)[(len(radii) - 1) // 2]
    return int(middle) if certificates.unit in COUNTED_UNITS else float(middle)
