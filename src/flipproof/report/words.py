"""Sentences about certificates: headline, adversary, methods. Numbers are rounded so that they never overclaim."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from flipproof.assumptions import Assumption
from flipproof.certificate_words import COUNTED_UNITS, DONE_BY_SOURCES, ROW_UNITS, flips_name
from flipproof.certificates import Certificates
from flipproof.metrics import RandomErrors, TrustedOnly, least_change, n_certified, reach
from flipproof.readable import percent, probability_at_most, share_of, significant

#: Shares of predictions for the headline: the first with a positive radius is used.
HEADLINE_LEVELS = (0.9, 0.75, 0.5)


VOIDS = {
    "labels": (
        "Anything other than labels is changed: training features, the number of training rows, the set of classes, or "
        "the test row itself.",
        "Labels are used outside the classifier, for example to select features, parameters or rows. Every step that "
        "uses labels can change when labels change.",
        "The deployed model differs from the one described here, or was trained on other files: compare the checksums.",
        "The rows in production differ from the test rows. Each certificate holds for its own test row; shares "
        "describe this test set only.",
    ),
    "rows": (
        "The reference, the set of classes or the test row itself is changed.",
        "Training rows or labels are used outside the classifier, for example to select features, parameters or the "
        "reference. Every step that uses them can change when rows change.",
        "The deployed model differs from the one described here, or was trained on other files: compare the checksums.",
        "The rows in production differ from the test rows. Each certificate holds for its own test row; shares "
        "describe this test set only.",
    ),
    "features": (
        "Anything other than training features is changed: labels, the number of training rows, the set of classes, or "
        "the test row itself.",
        "The deployed model differs from the one described here, or was trained on other files: compare the checksums.",
        "The rows in production differ from the test rows: shares describe this test set only.",
    ),
}

#: Assumptions that describe the adversary.
LIMITS = ("trusted-labels", "changes-allowed", "annotators", "windows", "trusted-rows", "sources")

#: Assumptions about the reference.
ABOUT_REFERENCE = (
    "reference-fixed",
    "columns-encoded-by-reference",
    "reference-shared",
    "features-separately",
    "features-any-rows",
)

#: What an adversary who changes rows does, and what is done to the rows.
ROW_CHANGES = {
    "rows": ("adds, removes or replaces", "added, removed or replaced"),
    "insertions": ("adds", "added"),
    "removals": ("removes", "removed"),
}

METHOD_WORDS = {
    "exact": "exact: the true radius; with one more flip, an attack exists",
    "tight": "tight: proved with noise on the labels, by the best possible bound",
    "kl": "kl: proved with noise on the labels, by the bound of Rosenfeld et al. (2020)",
    "gap": "gap: proved by counting the votes of models that were trained on disjoint parts of the data",
    "gaussian": "gaussian: proved with noise on the training features",
}


def method_words(certificates: Certificates) -> str:
    """Return what a method proves."""
    is_bound = any(one.code == "majority-lower-bound" for one in certificates.assumptions)
    if certificates.method == "exact" and certificates.radius_limit is not None:
        return f"exact: {_exactness(certificates)}"
    if (certificates.unit in ROW_UNITS or is_bound) and certificates.method == "exact":
        return f"exact: {_exactness(certificates)}"
    return METHOD_WORDS.get(certificates.method, certificates.method)


def _exactness(certificates: Certificates) -> str:
    """Return whether radii in rows or sources, or of majorities, are the true ones."""
    if any(one.code in ("rows-lower-bound", "majority-lower-bound") for one in certificates.assumptions):
        return "a lower bound of the true radius; it may be larger, but not smaller"
    limit = certificates.radius_limit
    if limit is not None:
        return f"the true radius up to the limit of {limit}; a radius of {limit} means {limit} or more"
    more = {"insertions": "added row", "removals": "removed row"}.get(certificates.changes, "changed row")
    if certificates.unit == "sources":
        more = "malicious source"
    return f"the true radius; with one more {more}, an attack exists"


def least_words(flips_name: str, unit: str, changes: str = "labels") -> str:
    """Return the smallest change, as text; `flips_name` is what changes are called."""
    if unit == "rows":
        return f"one {ROW_CHANGES[changes][1]} row"
    return f"one {flips_name[:-1]}" if unit in COUNTED_UNITS else "any change"


#: What a certificate says, unless it holds only with some probability.
PROVED = (
    "A certified prediction is unchanged under any changes up to its radius. This is proved, not sampled: it holds for "
    "every attack, known or unknown."
)


def headline(certificates: Certificates) -> dict[str, Any]:
    """Return the headline: how much can be poisoned, and the share of predictions guaranteed unchanged."""
    total, counted = len(certificates), certificates.unit in COUNTED_UNITS
    if total == 0:
        return {"text": "There are no predictions to certify.", "flips": 0, "n_certified": 0}
    if counted and certificates.n_touchable == 0 and not certificates.rows_can_be_added:
        (n,) = n_certified(certificates, [0])
        what = "row" if certificates.unit in ROW_UNITS else certificates.labels_name[:-1]
        return {"text": f"This adversary cannot change any {what}.", "flips": 0, "n_certified": n}
    descending = -np.sort(-np.where(certificates.abstained, -1, reach(certificates)))
    for level in HEADLINE_LEVELS:
        flips = descending[math.ceil(level * total) - 1]
        if flips > 0:
            (n,) = n_certified(certificates, [flips])
            text = (
                f"Even if {_poisoned(certificates, flips)}, {level:.0%} of predictions are {_guaranteed(certificates)}."
            )
            return {"text": text, "flips": plain_flips(certificates, flips), "n_certified": n}
    (n,) = n_certified(certificates, [least_change(certificates)])
    name = flips_name(certificates)
    least = least_words(name, certificates.unit, certificates.changes) if counted else "the slightest change"
    text = f"{_only(n, total)} certified against {least}."
    return {"text": text, "flips": 1 if counted else 0, "n_certified": n}


def _only(n: int, total: int) -> str:
    """Begin a sentence about few predictions: as a share, or as a count if the share would be shown as 0.0%."""
    if not n:
        return "No prediction is"
    if percent(n / total) == percent(0.0):
        return f"Only {n:,} of {total:,} predictions {'is' if n == 1 else 'are'}"
    return f"Only {percent(n / total)} of predictions are"


#: With at most this number of annotators, each has a large share of the labels.
FEW_ANNOTATORS = 10


def about_few_annotators(certificates: Certificates) -> list[str]:
    """Say why few predictions are certified if few annotators gave all labels, and what to count instead."""
    n = certificates.n_touchable
    if certificates.unit != "annotators" or not 0 < n <= FEW_ANNOTATORS:
        return []
    if n_certified(certificates, [1])[0] >= HEADLINE_LEVELS[-1] * len(certificates):
        return []
    who = "One annotator has all labels." if n == 1 else f"With {n} annotators, each has a large share of the labels."
    if certificates.labels_name == "annotations":
        return [
            f"{who} To count single changed annotations, use --count annotations, or count='annotations' in Python."
        ]
    return [f"{who} To count single changed labels, leave out the annotators."]


def _is_proved(certificates: Certificates) -> bool:
    """Whether certificates hold with certainty, not only with the probability in their assumptions."""
    return certificates.method in ("exact", "gap") or not np.isnan(certificates.witness).all()


def _guaranteed(certificates: Certificates) -> str:
    proved = certificates.unit in COUNTED_UNITS and _is_proved(certificates)
    return "guaranteed unchanged" if proved else "certified unchanged"


def _poisoned(certificates: Certificates, flips: Any) -> str:
    """Return the condition of the headline: what is poisoned."""
    unit, touchable = certificates.unit, certificates.n_touchable
    if unit == "l2":
        return f"the training features change by {significant(flips)} in total (l2 norm)"
    if unit not in COUNTED_UNITS:
        return f"the training data change by a divergence of {significant(flips)} nats"
    if unit == "rows":
        return _poisoned_rows(certificates, flips)
    flips = int(flips)
    if unit == "sources":
        return _poisoned_sources(touchable, flips)
    if unit == "windows":
        return _poisoned_windows(certificates, flips)
    are = "is" if flips == 1 < touchable else "are"
    if unit == "labels":
        who, can_be_changed, verb = _labels(certificates), "that can be changed", f"{are} poisoned"
    else:
        who, can_be_changed, verb = "annotators", "whose labels can be changed", f"{are} malicious"
    if flips >= touchable:
        return f"all {touchable:,} {who} {can_be_changed} {verb}"
    if touchable < certificates.n_units:
        return (
            f"any {flips:,} of the {touchable:,} {who} {can_be_changed} "
            f"({share_of(flips, certificates.n_units)} of all {certificates.n_units:,}) {verb}"
        )
    return f"any {flips:,} of {touchable:,} {who} ({share_of(flips, touchable)}) {verb}"


def _labels(certificates: Certificates) -> str:
    """Name the training labels: items with several labels each have annotations."""
    return "annotations" if certificates.labels_name == "annotations" else "training labels"


def _poisoned_windows(certificates: Certificates, flips: int) -> str:
    if flips >= certificates.n_touchable:
        return "all labels that can be changed are poisoned"
    length = "" if certificates.adversary is None else f" of {certificates.adversary.length}"
    return f"all labels in any {flips:,} window{'' if flips == 1 else 's'}{length} are poisoned"


def _poisoned_sources(touchable: int, flips: int) -> str:
    if flips >= touchable:
        return f"all {touchable:,} sources whose rows can be changed are malicious"
    verb = "is" if flips == 1 else "are"
    return f"any {flips:,} of {touchable:,} sources ({share_of(flips, touchable)}) {verb} malicious"


def _poisoned_rows(certificates: Certificates, flips: Any) -> str:
    n, touchable, changes = certificates.n_train, certificates.n_touchable, certificates.changes
    is_are, flips = "is" if flips == 1 else "are", flips if math.isinf(flips) else int(flips)
    if changes == "removals":
        of_all = f"of {n:,} training rows ({share_of(flips, n)})"
        if touchable < n:
            of_all = f"of the {touchable:,} training rows that are not trusted ({share_of(flips, n)} of all {n:,})"
        return f"any {flips:,} {of_all} {is_are} removed"
    number = "any number of" if math.isinf(flips) else f"any {flips:,}"
    share = "" if math.isinf(flips) else f" ({share_of(flips, n)} of {n:,})"
    rows = f"{number} training {'row' if flips == 1 else 'rows'}{share}"
    if changes == "insertions":
        return f"{rows} {is_are} added"
    if touchable < n:
        return f"{rows} {is_are} added, or removed or replaced among the {touchable:,} that are not trusted"
    return f"{rows} {is_are} added, removed or replaced"


def flips_words(flips: Any, problem: Mapping[str, Any]) -> str:
    """Return a number of flips with its unit."""
    if not problem["counted"]:
        return f"{problem['flips_name']} of {significant(flips)}"
    name = problem["flips_name"]
    return f"{flips:,} {name[:-1] if flips == 1 else name}"


def beside_headline(headline: Mapping[str, Any], problem: Mapping[str, Any]) -> list[str]:
    """Return what a headline about all predictions does not tell: the worst class and the constant classifier.

    Parameters
    ----------
    headline, problem : mapping
        Entries of the summary. `headline` has the `worst_class` and `above_constant`.
    """
    worst, said = headline["worst_class"], []
    if worst is not None:
        number = headline["flips"]
        at = "under any changes" if number is None else f"at {flips_words(number, problem)}" if number else "now"
        share = percent(worst["n_certified"] / worst["n"])
        rows = f"{worst['n']:,} test row{'' if worst['n'] == 1 else 's'}"
        certified = "correct and certified" if number != 0 else "correct"
        said.append(f"The worst class {at} is {worst['class']}: {share} of its {rows} are {certified}.")
    constant = headline["above_constant"]
    if constant is not None:
        always = f"Always predicting {problem['constant_class']} is correct on {percent(problem['constant_accuracy'])}"
        said.append(f"{always} of the test rows under any changes; {_better(constant, problem)}.")
    return said


def _better(above: Mapping[str, object], problem: Mapping[str, object]) -> str:
    """Return up to which number of flips certified accuracy is higher than that of the constant classifier."""
    if not above["ever"]:
        return "this classifier is not more accurate, even if nothing is changed"
    if above["flips"] is None:
        return "certified accuracy is always higher"
    if above.get("may_be_larger"):
        limit = flips_words(above["flips"], problem)
        return f"certified accuracy is higher at least up to {limit}, the limit up to which radii were computed"
    if above["flips"] == 0:
        return "certified accuracy is higher only if nothing is changed"
    return f"certified accuracy is higher up to {flips_words(above['flips'], problem)}"


def threat(certificates: Certificates) -> list[str]:
    """Describe the adversary that the certificates cover."""
    if certificates.unit in ROW_UNITS:
        return _threat_to_rows(certificates)
    n, unit, adversary = certificates.n_train, certificates.unit, certificates.adversary
    if unit not in COUNTED_UNITS:
        return [
            "An adversary changes training features, in total by at most the radius. The adversary knows the data, the "
            "classifier and the test row.",
            "A certified prediction is unchanged under any change within its radius, with the probability stated in "
            "the assumptions.",
        ]
    if unit == "labels":
        who = f"An adversary changes some of the {n:,} {_labels(certificates)} before the classifier is trained."
    elif unit == "windows":
        who = (
            f"An adversary changes any of the {n:,} training labels that fall into some windows of time, before the "
            "classifier is trained."
        )
    else:
        who = (
            "Some annotators are malicious: they cooperate and change any number of their labels before the classifier "
            f"is trained on the {n:,} labels."
        )
    said = [
        f"{who} They know the data, the classifier and the test row, and choose the worst changes for this test row.",
        PROVED
        if _is_proved(certificates)
        else "A certified prediction is unchanged under any changes up to its radius, with the probability stated in "
        "the assumptions.",
    ]
    if adversary is None and certificates.n_touchable == certificates.n_units and unit == "labels":
        said.append(f"Any {certificates.labels_name[:-1]} may be changed to any class.")
        return said
    # rows in blocks carry their own trust column, so read limits from the assumptions, not from the adversary
    limits = [one for one in certificates.assumptions if one.code in LIMITS]
    said += map(str, limits)
    if all(one.code != "changes-allowed" for one in limits):
        said.append(f"Every {certificates.labels_name[:-1]} that can be changed may be changed to any class.")
    return said


def _threat_to_rows(certificates: Certificates) -> list[str]:
    n, changes = certificates.n_train, certificates.changes
    if certificates.unit == "sources":
        who = (
            f"Some sources are malicious: they cooperate and {DONE_BY_SOURCES[changes]} any number of their own rows "
            f"before the classifier is trained on the {n:,} rows."
        )
    else:
        any_row = "" if changes == "removals" else " New rows may have any features and any label."
        done = ROW_CHANGES[changes][0]
        who = f"An adversary {done} training rows before the classifier is trained. {n:,} are given.{any_row}"
    limits = [str(one) for one in certificates.assumptions if one.code in LIMITS]
    known = (
        "They know the data, the reference, the classifier and the test row, and choose the worst changes for this "
        "test row."
    )
    return [f"{who} {known}", PROVED, *limits]


def rows_title(certificates: Certificates) -> str:
    """Return the title of the section about rows."""
    if certificates.unit == "sources":
        return "If sources of rows were malicious"
    return f"If rows were {ROW_CHANGES[certificates.changes][1]}"


def rows_sentences(certificates: Certificates) -> list[str]:
    """Return what certificates against changed rows say: what a change is, what is trusted, how exact radii are."""

    def about(*codes: str) -> list[Assumption]:
        return [one for one in certificates.assumptions if one.code in codes]

    counted = f"Each row that is {ROW_CHANGES[certificates.changes][1]} counts as one change."
    if certificates.unit == "sources":
        counted = ""
    said = [" ".join([*map(str, about("rows-changed")), counted]).strip()]
    said += map(str, about("sources", "trusted-rows"))
    said += map(str, about(*ABOUT_REFERENCE))
    bound = about("rows-lower-bound")
    return [*said, *(map(str, bound) if bound else [f"A radius is exact: it is {_exactness(certificates)}."])]


def row_attack_sentence(entry: Mapping[str, Any], unit: str) -> str:
    """Say which rows an attack removes and adds, that a refit confirmed it, and whether a smaller one may exist."""
    steps = []
    if entry["n_removed"]:
        named = ", ".join(map(str, entry["removed"])) + (", ..." if entry["n_removed"] > len(entry["removed"]) else "")
        one = entry["n_removed"] == 1
        steps.append(
            f"remove training row {named}" if one else f"remove {entry['n_removed']:,} training rows ({named})"
        )
    if entry["n_added"]:
        what = "a row that is not a copy of an existing one" if entry["copy_of"] is None else entry["copy_of"]
        copies = f"a copy of {what}" if entry["n_added"] == 1 else f"{entry['n_added']:,} copies of {what}"
        steps.append(f"add {copies}, labelled {entry['added_label']}")
    count = f"{entry['needed']:,} changed {unit[:-1] if entry['needed'] == 1 else unit}"
    if entry["sources"]:
        count += f" ({', '.join(entry['sources'])}{', ...' if entry['needed'] > len(entry['sources']) else ''})"
    smallest = "no smaller attack exists" if entry["is_smallest"] else "it is not known whether a smaller attack exists"
    verb = "overturns" if entry["needed"] == 1 else "overturn"
    return (
        f"Test row {entry['id']}, predicted as {entry['prediction']}: {count} {verb} it. To do so, "
        f"{' and '.join(steps)}. Confirmed by a refit; {smallest}."
    )


def voids(certificates: Certificates, also_about_rows: bool = False) -> list[str]:
    """Return what would void the certificates, and those against changed rows, if there are some beside them."""
    if also_about_rows:
        (of_labels, *others), (of_rows, *_) = VOIDS["labels"], VOIDS["rows"]
        return [f"Figures about labels: {_lower(of_labels)}", f"Figures about rows: {_lower(of_rows)}", *others]
    if certificates.unit in ROW_UNITS:
        first, *others = VOIDS["rows"]
        not_covered = {
            "rows": "Training rows are added. " if certificates.unit == "sources" else "",
            "insertions": "Training rows are removed or replaced. ",
            "removals": "Training rows are added or replaced. ",
        }
        return [f"{not_covered[certificates.changes]}{first}", *others]
    return list(VOIDS["labels" if certificates.unit in COUNTED_UNITS else "features"])


def random_error_sentences(errors: RandomErrors) -> list[str]:
    """Say how likely random errors are to change predictions, and what that does not say."""
    rate = f"{100 * errors.rate:g}%"
    each = (
        f"each of the {errors.n_labels:,} labels that are not trusted"
        if errors.some_trusted
        else (f"each of these {errors.n_labels:,} labels")
    )

    def changed(mean: float, median: float) -> str:
        return (
            f"{probability_at_most(mean)} of {_predictions(errors)} would change in expectation. For half of them, the "
            f"probability of a change is {probability_at_most(median)}"
        )

    return [
        f"If {each} were changed at random with probability {rate}, independently and to any other class with equal "
        f"probability, {changed(errors.uniform_mean, errors.uniform_median)}.",
        f"If the errors could have any direction, and any probabilities of at most {rate}, "
        f"{changed(errors.worst_mean, errors.worst_median)}.",
        *_by_rate(errors),
        "These bounds are about independent random changes of the labels as given. They do not say what follows if "
        f"{rate} of the labels are wrong, and do not cover errors that depend on each other, such as the habits of an "
        "annotator: for these, count annotators.",
    ]


def _predictions(errors: RandomErrors) -> str:
    """Name the predictions that bounds are about: those of all test rows, or of some."""
    if errors.is_sample:
        return f"the predictions of {errors.n_test:,} evenly spaced test rows"
    return "predictions"


def _by_rate(errors: RandomErrors) -> list[str]:
    """Say how the expected share of changed predictions grows with the rate, if several rates were given."""
    if not errors.by_rate:
        return []
    each = [
        f"{100 * rate:g}%: {probability_at_most(uniform)} ({probability_at_most(worst)} in any direction)"
        for rate, uniform, worst in errors.by_rate
    ]
    shares = f"The share of {_predictions(errors)} that would change in expectation, by the probability"
    return [f"{shares}: {'; '.join(each)}."]


def trusted_only_sentences(baseline: TrustedOnly) -> list[str]:
    """Say how accurate models are that were fitted to trusted labels alone, and where they are the better choice."""
    said = [
        f"{name[0].upper()}{name[1:]}: accuracy {percent(accuracy)}, at any number of changes of the others."
        for name, accuracy in zip(baseline.names, baseline.accuracy, strict=True)
    ]
    best = percent(baseline.best)
    for text, found in baseline.required:
        said.insert(
            0,
            f"For the requirement {text}, the {baseline.n_trusted:,} trusted labels alone are better: accuracy {best} "
            f"at any number of changes of the others, against a certified accuracy of {percent(found)}.",
        )
    if baseline.better_from is not None:
        at = "at any number of changes" if baseline.better_from == 0 else f"from {_changes(baseline.better_from)} on"
        said.append(f"This is more than the certified accuracy {at}.")
    return said


def _changes(count: int) -> str:
    return "1 change" if count == 1 else f"{count:,} changes"


def _lower(sentence: str) -> str:
    """Return a sentence that follows a colon."""
    return sentence[0].lower() + sentence[1:]


def radius_words(radius: Any, unlimited: bool, unit: str) -> str:
    """Return a radius as text."""
    if unlimited:
        return "unlimited"
    return f"{radius:,}" if unit in COUNTED_UNITS else significant(radius)


def median_words(certificates: Certificates) -> str:
    """Return the median radius as text, rounded down: at least half of the predictions reach it."""
    if not len(certificates):
        return "none"
    median = float(np.median(reach(certificates)))
    if certificates.unit not in COUNTED_UNITS or certificates.rows_can_be_added:
        is_unlimited = math.isinf(median)
        return radius_words(median if is_unlimited else _floor(median, certificates), is_unlimited, certificates.unit)
    is_unlimited = median >= certificates.n_touchable
    text = radius_words(int(median), is_unlimited, certificates.unit)
    # of an even number of radii the median is between two: it may be larger if the upper one may be
    may_be_larger = np.median(certificates.may_be_larger) > 0 and not is_unlimited
    return f"{text} or more" if may_be_larger else text


def _floor(median: float, certificates: Certificates) -> int | float:
    return int(median) if certificates.unit in COUNTED_UNITS else median


def plain_flips(certificates: Certificates, flips: Any) -> int | float | None:
    """Return a number of flips in JSON types; None if there is no limit."""
    if not math.isfinite(flips):
        return None
    return int(flips) if certificates.unit in COUNTED_UNITS else float(flips)
