"""Assumptions of certificates, each a code with values. All their sentences are written here.

Results, reports and files carry codes and values, and compare those. The sentence is for people: no code parses it,
so its wording can change.

A new assumption is one entry in `WORDINGS`: its code, and either a template that names its values or a function of
them. The meaning of a code never changes; new ones are added instead.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from string import Formatter
from types import MappingProxyType
from typing import Any

import numpy as np

from flipproof.parameters import check_parameter, one_of, parameter_error

#: What a value may be: a JSON type, lists as tuples.
Value = str | int | float | bool | tuple[Any, ...]

#: How many possible label changes an assumption lists.
MOST_CHANGES = 20

#: What to do about Pipeline steps that flipproof cannot check, by the kind of the learner that follows them.
STEP_REMEDIES = {
    "features": "Pass them to the learner as features=... to have them fitted without labels.",
    "smoothing": "Put them inside SmoothedClassifier(make_pipeline(...)) to have them smoothed too.",
}


@dataclass(frozen=True, repr=False)
class Assumption:
    """One assumption of a certificate: if it does not hold, the certificate need not hold either.

    Two assumptions are equal if their codes and values are equal. ``str(assumption)`` is the sentence for people.

    Parameters
    ----------
    code : str
        Which assumption it is: a key of ``flipproof.assumptions.WORDINGS``. ``"stated"`` is for assumptions from
        outside the library, given as a sentence.
    values : mapping of str to str, number, bool, or a list or tuple of these
        The details of the assumption. Each code requires specific names.

    See Also
    --------
    flipproof.Certificates : One certificate per test row.

    Examples
    --------
    >>> from flipproof import Assumption
    >>> trusted = Assumption("trusted-labels", {"n_trusted": 20, "n_labels": 100})
    >>> trusted.values["n_trusted"]
    20
    >>> print(trusted)
    20 of the 100 training labels are trusted: nobody can change them.
    >>> print(Assumption("stated", {"text": "The sensor was calibrated before the rows were recorded."}))
    The sensor was calibrated before the rows were recorded.
    """

    code: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_parameter("Assumption", "code", self.code, one_of(*WORDINGS))
        if not isinstance(self.values, Mapping):
            raise parameter_error("Assumption", "values", "a mapping", found=type(self.values).__name__)
        wanted = _value_names(WORDINGS[self.code])
        if set(self.values) != set(wanted):
            names, given = (", ".join(map(repr, one)) or "none" for one in (wanted, self.values))
            owner = f"Assumption({self.code!r}, ...)"
            raise parameter_error(owner, "values", f"a mapping with the names {names}", found=given)
        plain = {name: _plain(self.values[name], self.code) for name in wanted}
        object.__setattr__(self, "values", MappingProxyType(plain))
        str(self)  # refuse values that do not fit the sentence now, not when it is printed

    def __hash__(self) -> int:
        return hash((self.code, tuple(self.values.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, dict(self.values))

    def __repr__(self) -> str:
        return f"Assumption({self.code!r}, {dict(self.values)!r})"

    def __str__(self) -> str:
        wording = WORDINGS[self.code]
        try:
            return wording.format(**self.values) if isinstance(wording, str) else wording(**self.values)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"Assumption({self.code!r}, ...) cannot have these values: {error}.") from error

    def to_dict(self) -> dict[str, Any]:
        """Return code, values and sentence as JSON types.

        Returns
        -------
        dict
            With "code", "values" and "sentence".

        Examples
        --------
        >>> from flipproof import Assumption
        >>> Assumption("trusted-labels", {"n_trusted": 20, "n_labels": 100}).to_dict()["values"]
        {'n_trusted': 20, 'n_labels': 100}
        """
        values = {name: _listed(value) for name, value in self.values.items()}
        return {"code": self.code, "values": values, "sentence": str(self)}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Assumption:
        """Return the assumption that `to_dict` wrote; the sentence is ignored.

        Parameters
        ----------
        entry : mapping
            With a "code" and its "values".

        Returns
        -------
        Assumption
            The same code and values.

        Examples
        --------
        >>> from flipproof import Assumption
        >>> print(Assumption.from_dict({"code": "stated", "values": {"text": "The sensor was calibrated."}}))
        The sensor was calibrated.
        """
        if not isinstance(entry, Mapping) or "code" not in entry:
            raise ValueError(f"An assumption must be an object with a 'code' and its 'values'. Got {entry!r} instead.")
        return cls(entry["code"], entry.get("values", {}))


def as_assumption(given: object) -> Assumption:
    """Return an assumption unchanged, and a sentence as an assumption with the code "stated"."""
    if isinstance(given, Assumption):
        return given
    if isinstance(given, str):
        return Assumption("stated", {"text": given})
    raise ValueError(f"An assumption must be a flipproof.Assumption or a sentence. Got {type(given).__name__} instead.")


def check_assumptions(given: object, owner: str) -> tuple[Assumption, ...]:
    """Return assumptions as a tuple; refuse anything else."""
    found = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for one in found:
        if not isinstance(one, Assumption):
            raise ValueError(
                f"The 'assumptions' of {owner} must be flipproof.Assumption objects. Got {one!r} instead: "
                "Assumption('stated', {'text': ...}) holds a sentence."
            )
    return found


def parameter_values(parameters: object) -> tuple[tuple[str, str], ...]:
    """Return chosen parameters as (name, text) pairs, for the values of an assumption."""
    named = parameters if isinstance(parameters, Mapping) else {"best_params_": parameters}
    return tuple((str(name), repr(_scalar(value))) for name, value in named.items())


def change_values(allowed: Iterable[tuple[object, object]]) -> dict[str, Value]:
    """Return the values that describe the possible label changes, (old, new): their number and the first few."""
    pairs = tuple(dict.fromkeys(allowed))
    return {
        "changes": tuple((_class_value(old), _class_value(new)) for old, new in pairs[:MOST_CHANGES]),
        "n_changes": len(pairs),
    }


def changes_in_words(changes: Iterable[tuple[object, object]], n_changes: int) -> str:
    """List possible changes, followed by the number of those not listed."""
    listed = [f"{old} -> {new}" for old, new in changes]
    more = f" and {n_changes - len(listed):,} more" if n_changes > len(listed) else ""
    return ", ".join(listed) + more


def _plain(value: object, code: str) -> Value:
    """Return a value as JSON types, with lists as tuples; refuse anything else."""
    value = _scalar(value)
    if isinstance(value, (list, tuple)):
        return tuple(_plain(one, code) for one in value)
    if not isinstance(value, (str, int, float)) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(
            f"The values of Assumption({code!r}, ...) must be texts, finite numbers, booleans, or lists of these. "
            f"Got {value!r} instead."
        )
    return value


def _scalar(value: object) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _listed(value: Value) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value


def _class_value(label: Any) -> Value:
    """Return a class as a JSON type; other values, for example bytes or infinity, as text."""
    label = _scalar(label)
    is_plain = isinstance(label, (str, int)) or (isinstance(label, float) and math.isfinite(label))
    return label if is_plain else str(label)


def _value_names(wording: str | Callable[..., str]) -> tuple[str, ...]:
    """Return the names of the values that a sentence needs."""
    if isinstance(wording, str):
        return tuple(dict.fromkeys(name for _, name, _, _ in Formatter().parse(wording) if name is not None))
    return tuple(inspect.signature(wording).parameters)


def _fitted_without_labels(role: str, step: str, but: tuple[str, ...]) -> str:
    apart = f", except {', '.join(map(repr, but))}" if but else ""
    return (
        f"The {role} ({step}) was fitted without labels{apart}. Its settings are assumed to have been chosen without "
        "labels, and another fit to give the same result."
    )


def _fitted_elsewhere(role: str, step: str, path: str, part: str, data: str) -> str:
    what = f"In the {role} ({step}), {path!r} ({part})" if path else f"The {role} ({step})"
    return f"{what} was fitted elsewhere. It is assumed not to have read these {data}, and not to change."


def _used_as_given(role: str, step: str, parts: tuple[tuple[str, str], ...], data: str) -> str:
    named = ", ".join(f"{path!r} ({part})" for path, part in parts)
    return f"In the {role} ({step}), {named} is used as given. It is assumed not to contain anything from these {data}."


def _pretrained_encoder(step: str, encoder: str, digest: str, has_cache: bool) -> str:
    changed = "it, or the cache of its vectors" if has_cache else "it"
    return (
        f"The features are those of the pretrained encoder {encoder} (SHA-256 {digest}...), which {step} uses as it "
        "is. It is assumed not to have been trained on the labels that are certified or, where rows can be changed, on "
        f"these rows. Nobody may have changed {changed}."
    )


def _partly_used(method: str) -> str:
    if method == "gap":
        why = "how a base learner responds to any other change is not known"
    else:
        why = "the method 'exact' uses it in full"
    return f"The method {method!r} uses this only to leave out labels that cannot be changed at all; {why}."


def _columns_encoded(n_encoded: int, n_rows: int) -> str:
    rows = "the training rows" if n_encoded == n_rows else f"a sample of {n_encoded:,} of the {n_rows:,} training rows"
    return (
        f"The columns were encoded without using labels, from {rows} alone; the encoding is assumed to be reproducible."
    )


def _confidence(confidence: float, over: str) -> str:
    each = "for each prediction separately" if over == "prediction" else "for all predictions of one batch together"
    return (
        f"The certificate is true with probability {confidence} over the random draws, {each}, provided that the "
        "attacker did not know the seed."
    )


def _pipeline_steps(steps: tuple[tuple[str, str], ...], remedy: str) -> str:
    named = ", ".join(f"{name!r} ({step})" for name, step in steps)
    return (
        f"The pipeline's steps {named} are assumed not to have used the labels when they were fitted: flipproof cannot "
        f"see whether they did. {STEP_REMEDIES[remedy]}"
    )


def _chosen_by_search(search: str, parameters: tuple[tuple[str, str], ...]) -> str:
    return (
        f"The parameters ({_assignments(parameters)}) were chosen by {search} on the training data that these "
        "certificates protect, and are assumed to be fixed: after an attack, the search might choose others. "
        "flipproof.select_on_trusted chooses on trusted rows only."
    )


def _chosen_on_trusted(parameters: tuple[tuple[str, str], ...], n_trusted: int) -> str:
    return _were_chosen(f"The parameters ({_assignments(parameters)})", n_trusted)


def _learner_chosen_on_trusted(learner: str, parameters: tuple[tuple[str, str], ...], n_trusted: int) -> str:
    found = f" ({_assignments(parameters)})" if parameters else ""
    return _were_chosen(f"The learner {learner!r} and its parameters{found}", n_trusted)


def _were_chosen(what: str, n_trusted: int) -> str:
    return (
        f"{what} were chosen on the labels of {n_trusted:,} trusted rows only, which are assumed to be unchanged: "
        "certify against Adversary(trusted=...) with these rows, as TrustedSelection.certify does."
    )


def _solver_stopped(n_changed: int, ran_out_of_time: bool) -> str:
    why = "ran out of time" if ran_out_of_time else "does not resolve differences this small"
    return f"The attack that was found changes {n_changed:,} predictions: the solver {why}."


def _changes_allowed(changes: tuple[tuple[object, object], ...], n_changes: int) -> str:
    return f"Labels can be changed only in these ways: {changes_in_words(changes, n_changes)}."


def _target_rows_changed(changes: str, by_sources: bool) -> str:
    return _whole_rows(changes, by_sources, "any target in the target range")


def _rows_changed(changes: str, by_sources: bool) -> str:
    return _whole_rows(changes, by_sources, "any of the classes")


def _whole_rows(changes: str, by_sources: bool, new_labels: str) -> str:
    if by_sources:
        others = "all other rows and the test row are as given."
        if changes == "removals":
            return f"Only rows of malicious sources may be removed: {others}"
        return (
            f"Only rows of malicious sources may be replaced or removed: {others} New contents may be any finite "
            f"features and {new_labels}."
        )
    added = f"Added rows may have any finite features and {new_labels}."
    if changes == "removals":
        return "Only whole training rows may be removed: all other rows and the test row are as given."
    if changes == "insertions":
        return f"Only whole training rows may be added: all given rows and the test row are as given. {added}"
    return f"Whole training rows may be added, removed or replaced; the test row is as given. {added}"


def _trusted_rows(n_trusted: int, n_rows: int, can_add: bool) -> str:
    others = " Other rows may still be added." if can_add else ""
    return f"{n_trusted:,} of the {n_rows:,} training rows are trusted: nobody can remove or replace them.{others}"


def _sources(n_sources: int, changes: str) -> str:
    power = "replace or remove" if changes == "rows" else "remove"
    return (
        f"The radius counts sources, of which {n_sources:,} have rows to change. A malicious source may {power} all of "
        "its own rows, and adds no further rows."
    )


def _reference_shared(n_shared: int, n_rows: int) -> str:
    return (
        f"{n_shared:,} of the {n_rows:,} training rows have the same features as a row of the reference. Their votes "
        "may be changed or removed; the reference is assumed to keep these rows."
    )


def _reference_labels_read(n_reference: int, n_labels: int, of_reference: bool, readers: tuple[str, ...]) -> str:
    if of_reference:
        learned = f"a reference of {n_reference:,} rows and its labels. Nobody may have changed either."
    else:
        learned = (
            f"a reference of {n_reference:,} rows, without labels, and from {n_labels:,} trusted training rows and "
            "their labels. Nobody may have changed any of these."
        )
    return f"Everything except the votes was learned from {learned}{_read_by(readers)}"


def _trusted_at_fit(n_trusted: int, n_labels: int, readers: tuple[str, ...]) -> str:
    return (
        f"{n_trusted:,} of the {n_labels:,} training labels were trusted in the fit: nobody can change them."
        f"{_read_by(readers)}"
    )


def _read_by(readers: tuple[str, ...]) -> str:
    return f" These labels were read by: {', '.join(readers)}." if readers else ""


def _assignments(parameters: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{name}={value}" for name, value in parameters)


#: The sentence of each code: a template with the names of its values, or a function of them.
WORDINGS: dict[str, str | Callable[..., str]] = {
    # what may be changed at all
    "labels-only": (
        "Only training labels may be changed: training features, the number of rows and the test row are as given."
    ),
    "targets-only": (
        "Only training targets may be changed: training features, the number of rows and the test row are as given."
    ),
    "features-only": (
        "Only training features may be changed: labels, the number of rows and the test row are as given."
    ),
    "divergence-only": "The training data may be changed only in ways that the divergence of the noise covers.",
    "rows-changed": _rows_changed,
    "target-rows-changed": _target_rows_changed,
    # what the geometry was learned from
    "reference-fixed": (
        "Everything except the votes was learned from a reference of {n_reference:,} rows, without labels. Nobody may "
        "have changed the reference."
    ),
    "reference-labels-read": _reference_labels_read,
    "reference-shared": _reference_shared,
    "features-separately": (
        "The features step ({step}) is assumed to transform each row separately, so that the features of a row do not "
        "depend on other rows. This was tested on some rows of the reference."
    ),
    "features-any-rows": (
        "The features step ({step}) is assumed to accept any finite rows: a fit that fails, because the step fails on "
        "a row or returns numbers that are not finite, is not covered."
    ),
    "graph-fixed": (
        "The graph is as given: nobody can add, remove or change its {n_nodes:,} nodes, their features, or its "
        "{n_edges:,} edges."
    ),
    "rows-lower-bound": ("The radius is a lower bound: it is not known whether an attack with one more change exists."),
    "target-rows-bounded": (
        "Intervals and radii are bounds: it is not known whether changed rows can attain every end of an interval."
    ),
    # what the adversary cannot do
    "trusted-labels": "{n_trusted:,} of the {n_labels:,} training labels are trusted: nobody can change them.",
    "trusted-targets": "{n_trusted:,} of the {n_targets:,} training targets are trusted: nobody can change them.",
    "trusted-rows": _trusted_rows,
    "trusted-at-fit": _trusted_at_fit,
    "sources": _sources,
    "changes-allowed": _changes_allowed,
    "changes-partly-used": _partly_used,
    "annotators": (
        "The radius counts annotators, of whom {n_annotators:,} have labels to change. A malicious annotator may "
        "change all of their own labels, and no others."
    ),
    "target-annotators": (
        "Changes are counted in annotators, of whom {n_annotators:,} have targets to change. A malicious annotator may "
        "change all of their own targets, and no others."
    ),
    "target-weights": (
        "The targets have weights (sample_weight). They are assumed to have been chosen without targets: weights that "
        "depend on targets would change with them."
    ),
    "targets-moved": "Each target can be moved by at most {max_change:,.15g}, up or down, within the target range.",
    "windows": (
        "The radius counts windows of time of length {length}, both ends included. An attacker may change all labels "
        "whose timestamps are in them; {n_windows:,} windows cover all labels that can be changed. The timestamps are "
        "as given."
    ),
    "annotators-bounded": (
        "The radius in annotators is a lower bound: a partition that holds labels of several annotators counts for "
        "each of them."
    ),
    "sources-bounded": (
        "The radius in sources is a lower bound: a partition that several sources could change counts for each of them."
    ),
    "noise-on-all-labels": (
        "The noise is on all labels: the certificate holds against any changed labels, and so against this adversary."
    ),
    # weights of labels, and several labels per item
    "sample-weights": (
        "The labels have weights (sample_weight). They are assumed to have been chosen without labels: weights that "
        "balance classes or measure agreement would change with the labels."
    ),
    "annotations": (
        "{n_labels:,} labels were given to {n_labelled:,} items, and each of them is a vote. Who labelled which items "
        "is as given: only the labels may be changed."
    ),
    "majority-first": (
        "{n_labels:,} labels were given to {n_labelled:,} items. Each item votes once, for the label that most of its "
        "annotations name; {n_tied:,} tied items do not vote. The radius counts changed annotations, or annotators. "
        "Who labelled which items is as given: only the labels may be changed."
    ),
    "majority-lower-bound": (
        "Some radii are lower bounds: no attack with one more change was found for them among the few that were tried. "
        "The true radius may be larger, never smaller."
    ),
    "radii-limited": (
        "Radii were computed only up to {limit:,}: where the radius is {limit:,}, the exact radius may be larger."
    ),
    # what was read from the training data
    "classes-read": (
        "The class set ({n_classes} classes) was read from the training labels and is assumed to be fixed; give the "
        "classes to remove this assumption."
    ),
    "target-range": (
        "Training targets, changed or not, are from {low:,.15g} to {high:,.15g}, and are rounded to a grid with steps "
        "of {step:g}, which only this range decides on."
    ),
    "target-range-read": (
        "The target range was read from the training targets and is assumed to be fixed; give the range to remove "
        "this assumption."
    ),
    "unlabelled-rows": ("{n_unlabelled:,} of the {n_rows:,} training rows have no label, and cannot be given one."),
    "equal-rows-by-order": (
        "{n_equal:,} of the {n_rows:,} training rows have the same features as an earlier row. They are assigned to "
        "partitions by their order, which is assumed not to depend on labels."
    ),
    "columns-encoded": _columns_encoded,
    "columns-encoded-by-reference": (
        "Types, categories, scales and words of the columns were learned from the {n_reference:,} rows of the "
        "reference alone, without using labels; the encoding is assumed to be reproducible."
    ),
    # what was fitted, chosen or given
    "fitted-without-labels": _fitted_without_labels,
    "fitted-on-trusted": (
        "The {role} ({step}) was fitted to {n_trusted:,} trusted rows and their labels. Its settings are assumed to "
        "have been chosen without other labels, and another fit to give the same result."
    ),
    "fitted-elsewhere": _fitted_elsewhere,
    "used-as-given": _used_as_given,
    "clustered-without-labels": (
        "The clusterer ({step}, {n_clusters:,} clusters) was fitted without labels. Its settings are assumed to have "
        "been chosen without labels, and another fit to give the same clusters."
    ),
    "trees-without-labels": (
        "The {n_trees:,} trees were grown without labels from random_state={random_state}; growing them again is "
        "assumed to give the same trees."
    ),
    "trees-on-trusted": (
        "The {n_trees:,} trees were grown with the labels of {n_trusted:,} trusted rows from "
        "random_state={random_state}; growing them again is assumed to give the same trees."
    ),
    "prior-weight": (
        "The prior ({step}) has a weight of {weight:g}, which is assumed to have been chosen without the labels that "
        "are certified. The prior is assumed to answer a row in the same way whenever it is asked."
    ),
    "custom-function": (
        "The {parameter} is user-supplied ({function}). It is assumed to have been chosen without labels, and to "
        "return the same values whenever it is called."
    ),
    "lambda-from-labels": (
        "lambda = {regularization:.6g} was estimated from the training labels (regularization='paper') and is assumed "
        "to be fixed: a fit to changed labels would estimate another value."
    ),
    "base-learner-reproducible": (
        "The base learner ({step}) is assumed to accept any labels, and to give the same model whenever it is fitted "
        "to the same rows and labels on one thread with fixed random states."
    ),
    "truth-from-annotations": (
        "The true labels of the {n_test:,} test items are the majority of their own annotations, which may be "
        "poisoned, too: accuracy is agreement with them."
    ),
    "base-learner-any-rows": (
        "The base learner ({step}) is assumed to accept any finite rows, few or many: a fit that fails is not covered. "
        "The base learner, its settings and the number of partitions are assumed to have been chosen without these "
        "rows."
    ),
    "partitions-chosen": (
        "The base learner, its settings and the number of partitions are assumed to have been chosen without these "
        "labels."
    ),
    "pipeline-steps": _pipeline_steps,
    "chosen-by-search": _chosen_by_search,
    "chosen-on-trusted": _chosen_on_trusted,
    "learner-chosen-on-trusted": _learner_chosen_on_trusted,
    # features
    "auxiliary-labels": (
        "CNNFeatures learned from the auxiliary labels y_aux. They are assumed to belong to other rows and to be "
        "trusted: nobody changes them."
    ),
    "pretrained-weights": (
        "The weights passed to SimCLRFeatures are assumed to have been trained without the labels that are certified."
    ),
    "pretrained-encoder": _pretrained_encoder,
    "rules-counted": (
        "The rules of WeakSupervision named a class for {n_decided:,} of {n_rows:,} rows, and different classes for "
        "{n_conflicts:,} of them or others. They are assumed to have been written without looking at the labels that "
        "are certified."
    ),
    "test-rows-together": (
        "UMAPFeatures embeds test rows together: a certificate holds for a prediction that is made with the same test "
        "rows."
    ),
    # smoothing by random draws
    "smoothed-decision": (
        "The certificate is about the smoothed decision: the class that the base learner predicts most often under the "
        "noise. `predict` estimates it from the selection sample."
    ),
    "confidence": _confidence,
    "base-learner-chosen": (
        "The base learner ({step}), its settings and the noise are assumed to have been chosen without these training "
        "data. What a fit learns from them is covered."
    ),
    "labels-or-features": (
        "The radius counts changed labels while the features are as given; feature_radius(flips) says how far the "
        "features may move in addition."
    ),
    # all predictions at once
    "one-attack": (
        "All predictions are made from the same training labels: one set of changed labels attacks all of them."
    ),
    "solver-claim": (
        "That no attack changes more than {most_changed:,} predictions is the claim of the solver, HiGHS."
    ),
    "solver-stopped": _solver_stopped,
    # from outside the library
    "stated": "{text}",
}
