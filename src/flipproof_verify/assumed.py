"""The assumptions of a document: the codes that there are, their values, and which of them the proof decides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof_verify.container import ProofFile, UnreadableFileError
from flipproof_verify.votes_rule import FIXED, Training

#: Possible changes that an assumption lists at most; if there are more, it lists the first ones.
MOST_CHANGES_LISTED = 20

#: Attoseconds of the units of a length of time, and of timestamps.
ATTOSECONDS = {
    "w": 604_800 * 10**18,
    "d": 86_400 * 10**18,
    "h": 3_600 * 10**18,
    "min": 60 * 10**18,
    "s": 10**18,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}


def is_class(given: Any) -> bool:
    """Tell whether a value can be a class."""
    return isinstance(given, (str, int, float))


def _is_number(given: Any) -> bool:
    return isinstance(given, (int, float)) and not isinstance(given, bool)


def _is_list(given: Any, of: Callable[[Any], bool]) -> bool:
    return isinstance(given, list) and all(map(of, given))


def _is_text(given: Any) -> bool:
    return isinstance(given, str)


#: What a value of each type is.
TYPES: dict[str, Callable[[Any], bool]] = {
    "text": _is_text,
    "flag": lambda given: isinstance(given, bool),
    "count": lambda given: type(given) is int and given >= 0,
    "integer": lambda given: type(given) is int,
    "number": _is_number,
    "texts": lambda given: _is_list(given, _is_text),
    "pairs": lambda given: _is_list(given, lambda one: _is_list(one, _is_text) and len(one) == 2),
    "changes": lambda given: _is_list(given, lambda one: _is_list(one, is_class) and len(one) == 2),
}


@dataclass(frozen=True)
class Code:
    """The names and types of the values of a code, and the names of those that the proof decides.

    `is_checked`: whether nothing is left that must be taken as it is stated.
    """

    values: Mapping[str, str]
    checked: tuple[str, ...] = ()
    is_checked: bool = False


def _checked(**values: str) -> Code:
    return Code(values, tuple(values), True)


def _stated(*checked: str, **values: str) -> Code:
    return Code(values, checked)


#: All codes. Each of the checked ones occurs at most once.
CODES: dict[str, Code] = {
    "labels-only": _checked(),
    "features-only": _checked(),
    "divergence-only": _checked(),
    "rows-changed": _checked(changes="text", by_sources="flag"),
    "trusted-labels": _checked(n_trusted="count", n_labels="count"),
    "trusted-rows": _checked(n_trusted="count", n_rows="count", can_add="flag"),
    "sources": _checked(n_sources="count", changes="text"),
    "annotators": _checked(n_annotators="count"),
    "windows": _checked(length="text", n_windows="count"),
    "changes-allowed": _checked(changes="changes", n_changes="count"),
    "changes-partly-used": _checked(method="text"),
    "unlabelled-rows": _checked(n_unlabelled="count", n_rows="count"),
    "majority-first": _checked(n_labels="count", n_labelled="count", n_tied="count"),
    "confidence": _checked(confidence="number", over="text"),
    "smoothed-decision": _checked(),
    "noise-on-all-labels": _checked(),
    "trusted-at-fit": _stated("n_trusted", "n_labels", n_trusted="count", n_labels="count", readers="texts"),
    "annotations": _stated("n_labels", n_labels="count", n_labelled="count"),
    "classes-read": _stated("n_classes", n_classes="count"),
    "reference-shared": _stated("n_rows", n_shared="count", n_rows="count"),
    "equal-rows-by-order": _stated("n_rows", n_equal="count", n_rows="count"),
    "reference-fixed": _stated(n_reference="count"),
    "reference-labels-read": _stated(n_reference="count", n_labels="count", of_reference="flag", readers="texts"),
    "features-separately": _stated(step="text"),
    "features-any-rows": _stated(step="text"),
    "graph-fixed": _stated(n_nodes="count", n_edges="count"),
    "rows-lower-bound": _stated(),
    "annotators-bounded": _stated(),
    "sources-bounded": _stated(),
    "majority-lower-bound": _stated(),
    "sample-weights": _stated(),
    "columns-encoded": _stated(n_encoded="count", n_rows="count"),
    "columns-encoded-by-reference": _stated(n_reference="count"),
    "fitted-without-labels": _stated(role="text", step="text", but="texts"),
    "fitted-on-trusted": _stated(role="text", step="text", n_trusted="count"),
    "fitted-elsewhere": _stated(role="text", step="text", path="text", part="text", data="text"),
    "used-as-given": _stated(role="text", step="text", parts="pairs", data="text"),
    "clustered-without-labels": _stated(step="text", n_clusters="count"),
    "trees-without-labels": _stated(n_trees="count", random_state="integer"),
    "trees-on-trusted": _stated(n_trees="count", n_trusted="count", random_state="integer"),
    "prior-weight": _stated(step="text", weight="number"),
    "custom-function": _stated(parameter="text", function="text"),
    "lambda-from-labels": _stated(regularization="number"),
    "base-learner-reproducible": _stated(step="text"),
    "base-learner-any-rows": _stated(step="text"),
    "partitions-chosen": _stated(),
    "pipeline-steps": _stated(steps="pairs", remedy="text"),
    "chosen-by-search": _stated(search="text", parameters="pairs"),
    "chosen-on-trusted": _stated(parameters="pairs", n_trusted="count"),
    "learner-chosen-on-trusted": _stated(learner="text", parameters="pairs", n_trusted="count"),
    "auxiliary-labels": _stated(),
    "pretrained-weights": _stated(),
    "pretrained-encoder": _stated(step="text", encoder="text", digest="text", has_cache="flag"),
    "rules-counted": _stated(n_decided="count", n_rows="count", n_conflicts="count"),
    "test-rows-together": _stated(),
    "base-learner-chosen": _stated(step="text"),
    "labels-or-features": _stated(),
    "truth-from-annotations": _stated(n_test="count"),
    "stated": _stated(text="text"),
    "targets-only": _checked(),
    "target-rows-changed": _checked(changes="text", by_sources="flag"),
    "target-range": _checked(low="number", high="number", step="number"),
    "trusted-targets": _checked(n_trusted="count", n_targets="count"),
    "target-annotators": _checked(n_annotators="count"),
    "targets-moved": _checked(max_change="number"),
    "target-range-read": _stated(),
    "target-weights": _stated(),
    "target-rows-bounded": _stated(),
}

#: Only certificates about numbers assume these.
OF_TARGETS = {code for code in CODES if code.startswith("target") or code == "trusted-targets"}

#: Units of groups of labels or rows; the assumption of the same name says so.
GROUPED_UNITS = ("annotators", "windows", "sources")

#: What may be changed: exactly one of these is assumed.
SCOPES = {"labels-only", "features-only", "divergence-only", "rows-changed"}

#: One of these is assumed where rows may be changed.
REFERENCES = {"reference-fixed", "reference-labels-read"}

#: An adversary is limited or has other powers if and only if one of these is assumed.
OF_ADVERSARIES = {"rows-changed", "trusted-labels", "trusted-rows", "changes-allowed", *GROUPED_UNITS}

#: Only certificates by samples assume these.
OF_SAMPLES = {"confidence", "smoothed-decision", "noise-on-all-labels", "base-learner-chosen", "labels-or-features"}

#: Only certificates about classes assume these.
OF_CLASSES = {
    *SCOPES,
    *OF_SAMPLES,
    *("trusted-labels", "trusted-at-fit", "annotators", "windows", "changes-allowed", "changes-partly-used"),
    *("unlabelled-rows", "majority-first", "majority-lower-bound", "annotators-bounded", "annotations"),
    *("classes-read", "sample-weights", "rows-lower-bound", "sources-bounded", "base-learner-any-rows"),
}

#: Only certificates against changed rows assume these, in addition to those above.
OF_ROWS = {"rows-changed", "trusted-rows", "sources", "sources-bounded", "rows-lower-bound", "base-learner-any-rows"}


def taken_as_stated(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the codes of the assumptions that a proof cannot decide, in their order, each once."""
    return tuple(dict.fromkeys(one["code"] for one in document["assumptions"] if not CODES[one["code"]].is_checked))


def check_assumptions(file: ProofFile, training: Training) -> None:
    """Refuse assumptions that are unknown, not well formed, or contradict the proof."""
    document = file.document
    stated = Stated(document.get("assumptions"))
    codes, unit, changes_rows = stated.codes, document["unit"], document["changes"] != "labels"
    expected = {"l2": "features-only", "divergence": "divergence-only"}
    scope = "rows-changed" if changes_rows else expected.get(unit, "labels-only")
    needed = {scope} | ({unit} if unit in GROUPED_UNITS else set())
    needed |= {"reference-fixed"} if changes_rows and not codes & REFERENCES else set()
    needed |= {"confidence", "smoothed-decision"} if document["rule"] == "samples" else set()
    if not needed <= codes or len(codes & SCOPES) != 1:
        missing = ", ".join(sorted(needed - codes)) or "exactly one about what may be changed"
        raise UnreadableFileError("assumptions", f"The document lacks assumptions: {missing}.")
    _refuse_of_others(codes, document, changes_rows)
    if document["has_adversary"] != bool(codes & OF_ADVERSARIES):
        raise UnreadableFileError("adversary", "'has_adversary' contradicts the assumptions.")
    n, n_labels = document["n_rows"], document["n_train"]
    by_sources = unit == "sources"
    stated.expect("rows-changed", changes=document["changes"], by_sources=by_sources)
    stated.expect("sources", changes=document["changes"], n_sources=document["n_touchable"])
    stated.expect("annotators", n_annotators=document["n_touchable"])
    stated.expect("windows", n_windows=document["n_touchable"])
    stated.expect("trusted-labels", n_labels=n)
    stated.expect("trusted-rows", n_rows=n, can_add=training.can_add)
    stated.expect("trusted-at-fit", n_labels=n_labels)
    stated.expect("changes-partly-used", method=document["method"])
    stated.expect("annotations", n_labels=n_labels)
    stated.expect("classes-read", n_classes=len(document["classes"]))
    for code in ("reference-shared", "equal-rows-by-order"):
        stated.expect(code, n_rows=stated.n_items(n))
    _check_unlabelled(stated, document)
    _check_changes(stated, training, document["classes"])
    _check_fixed(stated, training)
    if "windows" in codes:
        _check_windows(file, training, stated.values("windows")[0]["length"])


def check_target_assumptions(document: Mapping[str, Any], changeable: NDArray[np.bool_]) -> None:
    """Refuse assumptions about numbers that are unknown, not well formed, or contradict the proof."""
    stated, about = Stated(document["assumptions"]), document["targets"]
    codes, unit, changes, n = stated.codes, document["unit"], document["changes"], document["n_rows"]
    changes_rows = changes != "targets"
    needed = {"target-rows-changed" if changes_rows else "targets-only", "target-range"}
    needed |= {"target-annotators"} if unit == "annotators" else {"sources"} if unit == "sources" else set()
    needed |= {"targets-moved"} if about["max_change"] is not None else set()
    needed |= {"reference-fixed"} if changes_rows and not codes & REFERENCES else set()
    others = OF_CLASSES | (
        {"targets-only", "trusted-targets"} if changes_rows else {"target-rows-changed", "trusted-rows"}
    )
    others |= {"target-rows-bounded"} if not changes_rows else set()
    others |= {"target-annotators", "sources", "targets-moved"} - needed
    if not needed <= codes or codes & others:
        wrong = ", ".join(sorted(needed - codes | codes & others))
        raise UnreadableFileError("assumptions", f"The document lacks assumptions, or has other ones: {wrong}.")
    stated.expect("target-range", low=about["low"], high=about["high"], step=about["step"])
    stated.expect("target-rows-changed", changes=changes, by_sources=unit == "sources")
    stated.expect("targets-moved", max_change=about["max_change"])
    stated.expect("target-annotators", n_annotators=document["n_touchable"])
    stated.expect("sources", n_sources=document["n_touchable"], changes=changes)
    stated.expect("trusted-targets", n_targets=n)
    stated.expect("trusted-rows", n_rows=n, can_add=changes in ("rows", "insertions") and unit == "rows")
    for code in ("reference-shared", "equal-rows-by-order"):
        stated.expect(code, n_rows=n)
    listed = [one["n_trusted"] for code in ("trusted-targets", "trusted-rows") for one in stated.values(code)]
    n_fixed = int((~changeable).sum())
    if max(listed, default=0) > n_fixed or n_fixed > sum(listed):
        raise UnreadableFileError("fixed", f"{n_fixed} targets or rows are fixed, but the assumptions say otherwise.")


class Stated:
    """The assumptions of a document, all of them well formed."""

    def __init__(self, listed: Any):
        if not isinstance(listed, list) or not all(map(_is_assumption, listed)):
            raise UnreadableFileError("assumptions", "The document must list assumptions: a code and its values.")
        self._listed = listed
        self.codes = {one["code"] for one in listed}
        for one in listed:
            code, values = CODES.get(one["code"]), one["values"]
            if code is None:
                raise UnreadableFileError("assumption-code", f"There is no assumption {one['code']!r}.")
            if set(values) != set(code.values) or not all(TYPES[code.values[name]](values[name]) for name in values):
                raise UnreadableFileError("assumption-values", f"The assumption {one['code']!r} has other values.")
        once = {code for code in self.codes if CODES[code].checked or CODES[code].is_checked}
        once -= {"trusted-targets"}  # in the fit, and by the adversary
        if any(len(self.values(code)) > 1 for code in once):
            raise UnreadableFileError("assumption-twice", "An assumption that is compared with the proof occurs twice.")

    def values(self, code: str) -> list[Mapping[str, Any]]:
        """Return the values of a code, once for each time that it occurs."""
        return [one["values"] for one in self._listed if one["code"] == code]

    def n_items(self, n_rows: int) -> int:
        """Return how many rows have features: items, with and without annotations, or all training rows."""
        of_items = self.values("majority-first") + self.values("annotations")
        n_unlabelled = sum(one["n_unlabelled"] for one in self.values("unlabelled-rows"))
        return int(of_items[0]["n_labelled"] + n_unlabelled) if of_items else n_rows

    def expect(self, code: str, **expected: Any) -> None:
        """Refuse other values than those of the proof, if the assumption is present."""
        for values in self.values(code):
            for name, value in expected.items():
                if values[name] != value:
                    raise UnreadableFileError(
                        "assumption-lies", f"The assumption {code!r} says {name} = {values[name]!r}; it is {value!r}."
                    )


def _is_assumption(given: Any) -> bool:
    return (
        isinstance(given, dict)
        and set(given) == {"code", "values"}
        and isinstance(given["code"], str)
        and isinstance(given["values"], dict)
    )


def _refuse_of_others(codes: set[str], document: Mapping[str, Any], changes_rows: bool) -> None:
    """Refuse assumptions that belong to another unit, rule, or kind of changes."""
    others: set[str] = set(GROUPED_UNITS) - {document["unit"]}
    others |= set() if document["rule"] == "samples" else OF_SAMPLES
    others |= OF_TARGETS | ({"trusted-labels", "changes-allowed"} if changes_rows else OF_ROWS)
    others |= {*FIXED, "changes-allowed"} if document["unit"] in ("l2", "divergence") else set()
    others |= set() if "changes-allowed" in codes else {"changes-partly-used"}
    others |= {"changes-partly-used"} if document["method"] == "exact" else set()
    if codes & others or ("majority-first" in codes) != (document["rule"] == "majority"):
        wrong = min(codes & others, default="majority-first")
        raise UnreadableFileError("assumptions", f"The assumption {wrong!r} is about another unit, rule or method.")


def _check_unlabelled(stated: Stated, document: Mapping[str, Any]) -> None:
    """Refuse a wrong number of unlabelled rows. Those of annotations have no votes, and are not in the file."""
    n_missing = document["n_rows"] - document["n_train"]
    if n_missing and (document["rule"] != "votes" or "unlabelled-rows" not in stated.codes):
        raise UnreadableFileError("assumptions", "'n_train' is not the number of rows that have a label.")
    if n_missing:
        stated.expect("unlabelled-rows", n_unlabelled=n_missing, n_rows=document["n_rows"])
        return
    for given in stated.values("unlabelled-rows"):
        of_items = stated.values("majority-first") + stated.values("annotations")
        if [given["n_rows"] - one["n_labelled"] for one in of_items] != [given["n_unlabelled"]]:
            raise UnreadableFileError("assumption-lies", "All rows have a label, but an assumption says otherwise.")


def _check_changes(stated: Stated, training: Training, classes: list[Any]) -> None:
    """Refuse possible changes that no assumption states, and stated ones that are not those of the proof."""
    n_possible, n_all = int(training.transitions.sum()), len(classes) * (len(classes) - 1)
    if n_possible < n_all and "changes-allowed" not in stated.codes:
        raise UnreadableFileError("assumptions", "Some changes are not possible, but no assumption says which are.")
    codes = {(isinstance(one, bool), one): code for code, one in enumerate(classes)}  # equal numbers are one key
    for values in stated.values("changes-allowed"):
        pairs = [tuple(codes.get((isinstance(one, bool), one), -1) for one in pair) for pair in values["changes"]]
        are_possible = all(min(pair) >= 0 and training.transitions[pair] for pair in pairs)
        n_listed = min(n_possible, MOST_CHANGES_LISTED)
        n_distinct = len(set(pairs)) if len(set(pairs)) == len(pairs) else -1
        if values["n_changes"] != n_possible or not are_possible or n_distinct != n_listed:
            raise UnreadableFileError("assumption-lies", "The changes that are said to be possible are others.")


def _check_fixed(stated: Stated, training: Training) -> None:
    """Refuse numbers of trusted labels or rows that exceed those that are fixed."""
    n_fixed = int((~training.changeable).sum())
    for code in FIXED:
        if any(values["n_trusted"] > n_fixed for values in stated.values(code)):
            raise UnreadableFileError("assumption-lies", "More labels or rows are said to be fixed than are.")


def _check_windows(file: ProofFile, training: Training, length: str) -> None:
    """Refuse windows that do not have the stated length."""
    assert training.window_end is not None
    n, ticks = len(training.window_end), file.document.get("tick")
    times = file.tensor("window.time", "if", (n,))
    most = _length_in_ticks(length, ticks)
    if times.dtype.kind == "i":
        if n and (int(times.min()) < 0 or int(times.max()) >= 2**62):
            raise UnreadableFileError("windows", "Timestamps must be from 0 to 2**62 - 1.")
        last = np.asarray(times, dtype=np.int64) + min(int(most), 2**62)
        fits = bool((np.searchsorted(times, last, side="right") == training.window_end).all())
    else:
        if not np.isfinite(times).all():
            raise UnreadableFileError("windows", "A timestamp is not a number.")
        exact = [Fraction(time) for time in times.tolist()]
        fits = all(_ends_at(exact, i, int(end), most) for i, end in enumerate(training.window_end))
    if not (np.diff(times) > 0).all() or not fits:
        raise UnreadableFileError("windows", "The windows do not have the stated length.")


def _ends_at(times: list[Fraction], begin: int, end: int, length: Fraction) -> bool:
    return times[end - 1] - times[begin] <= length and (end == len(times) or times[end] - times[begin] > length)


def _length_in_ticks(text: str, tick: Any) -> Fraction:
    """Return a length in the units of the timestamps."""
    found = re.fullmatch(r"([0-9]{1,30})([a-z]{1,3})", text)
    if tick is None and re.fullmatch(r"[0-9]{1,30}(\.[0-9]{1,30})?(e[+-]?[0-9]{1,3})?", text):
        number = Fraction(text) if text.isdigit() else float(text)  # digits of a float mean the nearest one
        if isfinite(number):
            return Fraction(number)
    if isinstance(tick, str) and tick in ATTOSECONDS and found is not None and found[2] in ATTOSECONDS:
        return Fraction(int(found[1]) * ATTOSECONDS[found[2]], ATTOSECONDS[tick])
    raise UnreadableFileError("windows", "The length of the windows is not a number of the unit of the timestamps.")


def are_classes(given: Iterable[Any]) -> bool:
    """Tell whether these can be the classes of a document: two or more, all of one type, each once."""
    classes = list(given)
    kinds = {type(one) for one in classes}
    short = all(len(one) <= 1_000 for one in classes if isinstance(one, str))
    return len(kinds) == 1 and kinds <= {str, int, float, bool} and short and len(set(classes)) == len(classes) > 1
