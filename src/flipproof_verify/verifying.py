"""Check a file: the container, the document, then every row by the rule of the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof_verify.claimed import Claims
from flipproof_verify.container import ProofFile, UnreadableFileError, read
from flipproof_verify.majority_rule import check_majority
from flipproof_verify.noise_rule import check_noise
from flipproof_verify.other_rules import check_neighbors, check_partitions, check_samples
from flipproof_verify.verdicts import Findings, Verification
from flipproof_verify.votes_rule import Training, check_exact

Check = Callable[[ProofFile, Claims, Findings], Iterator[int]]

#: The check for each rule and method.
CHECKS: dict[tuple[str, str], Check] = {
    ("votes", "exact"): check_exact,
    ("votes", "tight"): check_noise,
    ("votes", "kl"): check_noise,
    ("neighbors", "exact"): check_neighbors,
    ("majority", "exact"): check_majority,
    ("partitions", "gap"): check_partitions,
    ("samples", "tight"): check_samples,
    ("samples", "kl"): check_samples,
    ("samples", "gaussian"): check_samples,
}

#: The keys of a document; another one would be a claim that nobody checks.
KEYS = {
    *("format", "version", "producer", "rule", "method", "changes", "unit", "n_test", "n_rows", "n_train"),
    *("n_touchable", "classes", "assumptions", "has_adversary", "digests", "blocks"),
    *("votes", "k", "n_items", "n_partitions", "sampling"),
}

#: What radii may count or measure, for each rule and kind of changes.
OF_LABELS, OF_ROWS = ("labels", "annotators"), ("rows", "sources")
UNITS: dict[tuple[str, str], tuple[str, ...]] = {
    ("votes", "labels"): (*OF_LABELS, "windows"),
    ("majority", "labels"): OF_LABELS,
    ("partitions", "labels"): OF_LABELS,
    ("samples", "labels"): (*OF_LABELS, "l2", "divergence"),
    **{(rule, changes): OF_ROWS for rule in ("votes", "neighbors", "partitions") for changes in ("rows", "removals")},
    **{(rule, "insertions"): ("rows",) for rule in ("votes", "neighbors", "partitions")},
}

#: Methods that certify windows, distances of features, and divergences.
METHODS_OF_UNITS = {"windows": ("exact",), "l2": ("kl", "gaussian"), "divergence": ("kl",)}

#: Units of groups of labels or rows; the assumption of the same name says so.
GROUPED_UNITS = ("annotators", "windows", "sources")

#: Assumptions that say how many labels or rows cannot be changed because they are trusted.
FIXED = ("trusted-labels", "trusted-rows", "trusted-at-fit")

#: What may be changed: exactly one of these is assumed.
SCOPES = {"labels-only", "features-only", "divergence-only", "rows-changed"}

#: One of these is assumed where rows may be changed.
REFERENCES = {"reference-fixed", "reference-labels-read"}


def verify(
    path: str | os.PathLike[str],
    rows: Sequence[int] | int | None = None,
    *,
    seed: int = 0,
    progress: Callable[[int, int], Any] | None = None,
) -> Verification:
    """Check a certificate file.

    Parameters
    ----------
    path : path
        A certificate file of format 1.
    rows : sequence of int, or int, optional
        The rows to check, or how many to draw at random. Default: all.
    seed : int, default=0
        Random seed for rows that are drawn.
    progress : callable, optional
        Called with the number of rows done since the last call, and the number of all rows to check.

    Returns
    -------
    Verification
        The verdict, and the reasons for rows that are not verified.

    Raises
    ------
    UnreadableFileError
        If the file is not a certificate file of format 1, is damaged, or contradicts itself.
    OSError
        If the file cannot be read.

    See Also
    --------
    flipproof.save_certificates : Write certificates and their proof.
    flipproof_verify.Verification : Result of a check.

    Examples
    --------
    >>> import os, tempfile
    >>> import flipproof_verify
    >>> from flipproof import CertifiedRidgeClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "proof.flipproof")
    ...     model.certify(X[400:405]).save(path)
    ...     print(flipproof_verify.verify(path))
    VERIFIED: 5 of 5 rows checked
    """
    file = read(path)
    _check_document(file)
    m = file.document["n_test"]
    chosen = _chosen(rows, m, seed)
    if chosen.size and (chosen[0] < 0 or chosen[-1] >= m):
        raise ValueError(f"Rows to check must be numbers from 0 to {m - 1}.")
    claims, found = Claims.of(file), Findings(chosen)
    claims.check_flags(file.document["n_touchable"], found)
    check = CHECKS[file.document["rule"], file.document["method"]]
    for n_done in check(file, claims, found):
        if progress is not None:
            progress(n_done, len(chosen))
    file.refuse_unused()
    return Verification(m, len(chosen), found.reasons, dict(file.document))


def _chosen(rows: Sequence[int] | int | None, m: int, seed: int) -> NDArray[np.int64]:
    if rows is None:
        return np.arange(m)
    if isinstance(rows, int) and rows < 1:
        raise ValueError("At least one row must be checked.")
    if isinstance(rows, int):
        return np.sort(np.random.default_rng(seed).permutation(m)[:rows])
    if not len(rows):
        raise ValueError("At least one row must be checked.")
    return np.unique(np.asarray(rows, dtype=np.int64))


def is_class(given: Any) -> bool:
    """Tell whether a value can be a class."""
    return isinstance(given, (str, int, float))


def _check_document(file: ProofFile) -> None:
    """Refuse a document that lacks a key, has another one, or contradicts itself."""
    document = file.document
    if not set(document) <= KEYS:
        raise UnreadableFileError("document", f"The document has an unknown key: {min(set(document) - KEYS)!r}.")
    if type(document.get("has_adversary")) is not bool:
        raise UnreadableFileError("document", "The document must say whether its adversary is limited.")
    for key in ("n_test", "n_train", "n_rows", "n_touchable"):
        if type(document.get(key)) is not int or document[key] < 0:
            raise UnreadableFileError("document", f"The document's {key!r} must be an integer of at least 0.")
    if document["n_test"] == 0 or document["n_train"] > document["n_rows"]:
        raise UnreadableFileError("document", "The file has no test rows, or more training labels than rows.")
    classes = document.get("classes")
    if not isinstance(classes, list) or not all(map(is_class, classes)) or len(set(classes)) < max(len(classes), 2):
        raise UnreadableFileError("document", "The document must list at least two classes, each once.")
    rule, method, changes, unit = (str(document.get(key)) for key in ("rule", "method", "changes", "unit"))
    if (rule, method) not in CHECKS:
        raise UnreadableFileError("document", "The document names an unknown rule or method.")
    if unit not in UNITS.get((rule, changes), ()) or method not in METHODS_OF_UNITS.get(unit, (method,)):
        raise UnreadableFileError("document", f"This rule and method certify no {unit} where {changes} may be changed.")
    if method == "gaussian" and unit != "l2":
        raise UnreadableFileError("document", "The method 'gaussian' certifies distances of features, 'l2'.")
    blocks = document.get("blocks")
    ascend = isinstance(blocks, list) and all(type(one) is int for one in blocks) and blocks == sorted(set(blocks))
    if not isinstance(blocks, list) or not ascend or blocks[-1:] != [document["n_test"]] or blocks[0] <= 0:
        raise UnreadableFileError("document", "The blocks must ascend to the number of test rows.")
    _check_assumptions(file)


def _is_assumption(given: Any) -> bool:
    return (
        isinstance(given, dict)
        and set(given) == {"code", "values"}
        and isinstance(given["code"], str)
        and isinstance(given["values"], dict)
    )


def _check_assumptions(file: ProofFile) -> None:
    document = file.document
    listed = document.get("assumptions")
    if not isinstance(listed, list) or not all(map(_is_assumption, listed)):
        raise UnreadableFileError("assumptions", "The document must list assumptions: a code and its values, no more.")
    codes = {one["code"] for one in listed}
    changes_rows, unit = document["changes"] != "labels", document["unit"]
    expected = {"l2": "features-only", "divergence": "divergence-only"}
    scope = "rows-changed" if changes_rows else expected.get(unit, "labels-only")
    needed = {scope} | ({unit} if unit in GROUPED_UNITS else set())
    needed |= {"reference-fixed"} if changes_rows and not codes & REFERENCES else set()
    if not needed <= codes or len(codes & SCOPES) != 1:
        missing = ", ".join(sorted(needed - codes)) or "exactly one about what may be changed"
        raise UnreadableFileError("assumptions", f"The document lacks assumptions: {missing}.")
    if codes & set(GROUPED_UNITS) - {unit} or ("majority-first" in codes) != (document["rule"] == "majority"):
        raise UnreadableFileError("assumptions", "An assumption is about another unit or rule than the document.")
    if changes_rows and _values(listed, "rows-changed", "changes") != [document["changes"]]:
        raise UnreadableFileError("assumptions", "An assumption is about other changes than the document.")
    has_groups = "train.group" in file.tensors
    if has_groups != (unit in GROUPED_UNITS) or ("window.end" in file.tensors) != (unit == "windows"):
        raise UnreadableFileError("document", "Groups of rows and the unit of the radius contradict each other.")
    training = Training.of(file)
    if unit in ("l2", "divergence"):
        return  # no labels are changed
    n_unlabelled = document["n_rows"] - document["n_train"]
    if n_unlabelled and _values(listed, "unlabelled-rows", "n_unlabelled") != [n_unlabelled]:
        raise UnreadableFileError("assumptions", "'n_train' is not the number of rows that have a label.")
    _check_limits(training, listed, document["classes"], n_unlabelled)
    if training.n_touchable != document["n_touchable"]:
        raise UnreadableFileError("document", "'n_touchable' is not the number that can be changed by the proof.")
    if unit in GROUPED_UNITS and _values(listed, unit, f"n_{unit}") != [document["n_touchable"]]:
        raise UnreadableFileError("assumptions", f"The assumption {unit!r} states another number than the proof has.")


def _check_limits(training: Training, listed: list[dict[str, Any]], classes: list[Any], n_unlabelled: int) -> None:
    """Refuse limits of the adversary that no assumption states: fixed labels, and changes that are not possible."""
    n_possible, n_all = int(training.transitions.sum()), len(classes) * (len(classes) - 1)
    can_leave: NDArray[np.bool_] = np.ones(len(classes), dtype=bool)
    if n_possible < n_all:
        codes = {one: code for code, one in enumerate(classes)}  # equal numbers are one key, of any type
        pairs = [pair for pairs in _values(listed, "changes-allowed", "changes") for pair in pairs]
        stated = [(codes.get(old, -1), codes.get(new, -1)) for old, new in pairs]
        n_stated = _values(listed, "changes-allowed", "n_changes")
        if training.changes != "labels" or n_stated != [n_possible] or min(map(min, stated), default=0) < 0:
            raise UnreadableFileError("assumptions", "Some changes are not possible, but no assumption says which are.")
        if not all(training.transitions[pair] for pair in stated):
            raise UnreadableFileError("assumptions", "A change that is said to be possible is not covered.")
        can_leave = np.asarray(training.transitions.any(axis=1))
    n_fixed = int((~training.changeable & can_leave[training.label]).sum())
    stated_fixed = [count for code in FIXED for count in _values(listed, code, "n_trusted")]
    if n_fixed > sum(stated_fixed) + n_unlabelled:
        raise UnreadableFileError("assumptions", f"{n_fixed} labels or rows are fixed, but no assumption says so.")
    if not all(0 <= count <= int((~training.changeable).sum()) for count in stated_fixed):
        raise UnreadableFileError("assumptions", "More labels or rows are said to be fixed than are.")


def _values(listed: list[dict[str, Any]], code: str, name: str) -> list[Any]:
    """Return the values of a name in the assumptions of a code; refuse a value of another type."""
    kind = {"changes": (str, list)}.get(name, (int,))
    values: list[Any] = [one["values"].get(name) for one in listed if one["code"] == code]
    well_formed = all(isinstance(value, kind) and not isinstance(value, bool) for value in values)
    if well_formed and code == "changes-allowed" and name == "changes":
        pairs = [pair for value in values for pair in value]
        well_formed = all(isinstance(pair, list) and len(pair) == 2 and all(map(is_class, pair)) for pair in pairs)
    if not well_formed:
        raise UnreadableFileError("assumptions", f"The assumption {code!r} lacks its value {name!r}.")
    return values
