"""Check a file: the container, the document, then every row by the rule of the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof_verify.assumed import GROUPED_UNITS, are_classes, check_assumptions, taken_as_stated
from flipproof_verify.claimed import Claims
from flipproof_verify.container import ProofFile, UnreadableFileError, read
from flipproof_verify.majority_rule import check_majority
from flipproof_verify.noise_rule import check_noise
from flipproof_verify.other_rules import check_neighbors, check_partitions, check_samples
from flipproof_verify.targets_rule import check_targets
from flipproof_verify.verdicts import Findings, Verification
from flipproof_verify.votes_rule import Training, check_exact, refuse_fixed_votes

Check = Callable[[ProofFile, Claims, Findings], Iterator[int]]

#: The check for each rule and method about classes; `targets` is about numbers.
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

#: The keys that every document has; it may also have `tick`, and those of its rule.
KEYS = {
    *("format", "version", "producer", "rule", "method", "changes", "unit", "n_test", "n_rows", "n_train"),
    *("n_touchable", "assumptions", "digests", "blocks"),
}

#: The keys of documents about classes.
KEYS_OF_CLASSES = {"classes", "has_adversary"}

#: The other keys of each rule; another one would be a claim that nobody checks.
KEYS_OF_RULES = {
    "votes": {"votes"},
    "majority": {"votes", "n_items"},
    "neighbors": {"k"},
    "partitions": {"n_partitions"},
    "samples": {"sampling"},
    "targets": {"votes", "targets"},
}

#: What radii may count or measure, for each rule and kind of changes.
OF_LABELS, OF_ROWS = ("labels", "annotators"), ("rows", "sources")
CERTIFY_ROWS = ("votes", "neighbors", "partitions", "targets")
UNITS: dict[tuple[str, str], tuple[str, ...]] = {
    ("votes", "labels"): (*OF_LABELS, "windows"),
    ("majority", "labels"): OF_LABELS,
    ("partitions", "labels"): OF_LABELS,
    ("samples", "labels"): (*OF_LABELS, "l2", "divergence"),
    ("targets", "targets"): ("targets", "annotators"),
    **{(rule, changes): OF_ROWS for rule in CERTIFY_ROWS for changes in ("rows", "removals")},
    **{(rule, "insertions"): ("rows",) for rule in CERTIFY_ROWS},
}

#: Methods that certify windows, distances of features, and divergences.
METHODS_OF_UNITS = {"windows": ("exact",), "l2": ("kl", "gaussian"), "divergence": ("kl",)}


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
    found = Findings(chosen)
    for n_done in _check_rows(file, found):
        if progress is not None:
            progress(n_done, len(chosen))
    file.refuse_unused()
    return Verification(m, len(chosen), found.reasons, dict(file.document), taken_as_stated(file.document))


def _check_rows(file: ProofFile, found: Findings) -> Iterator[int]:
    """Check the claims about the chosen rows; yield the number of rows done."""
    if file.document["rule"] == "targets":
        yield from check_targets(file, found)
        return
    claims = Claims.of(file)
    claims.check_flags(file.document["n_touchable"], found)
    yield from CHECKS[file.document["rule"], file.document["method"]](file, claims, found)


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


def _check_document(file: ProofFile) -> None:
    """Refuse a document that lacks a key, has another one, or contradicts itself."""
    document = file.document
    rule, method, changes, unit = (str(document.get(key)) for key in ("rule", "method", "changes", "unit"))
    if (rule, method) not in {*CHECKS, ("targets", "exact")}:
        raise UnreadableFileError("document", "The document names an unknown rule or method.")
    wanted = KEYS | KEYS_OF_RULES[rule] | ({"tick"} if unit == "windows" else set())
    wanted |= KEYS_OF_CLASSES if rule != "targets" else {"k"} if document.get("votes") == "nearest" else set()
    if set(document) != wanted:
        wrong = min(set(document) ^ wanted)
        raise UnreadableFileError("document", f"The document lacks a key, or has another one: {wrong!r}.")
    _check_producer(document["producer"])
    for key in ("n_test", "n_train", "n_rows", "n_touchable"):
        if type(document[key]) is not int or document[key] < 0:
            raise UnreadableFileError("document", f"The document's {key!r} must be an integer of at least 0.")
    if document["n_test"] == 0 or document["n_train"] > document["n_rows"]:
        raise UnreadableFileError("document", "The file has no test rows, or more training labels than rows.")
    if unit not in UNITS.get((rule, changes), ()) or method not in METHODS_OF_UNITS.get(unit, (method,)):
        raise UnreadableFileError("document", f"This rule and method certify no {unit} where {changes} may be changed.")
    if method == "gaussian" and unit != "l2":
        raise UnreadableFileError("document", "The method 'gaussian' certifies distances of features, 'l2'.")
    blocks = document["blocks"]
    ascend = isinstance(blocks, list) and all(type(one) is int for one in blocks) and blocks == sorted(set(blocks))
    if not isinstance(blocks, list) or not ascend or blocks[-1:] != [document["n_test"]] or blocks[0] <= 0:
        raise UnreadableFileError("document", "The blocks must ascend to the number of test rows.")
    has_groups = "train.group" in file.tensors
    if has_groups != (unit in GROUPED_UNITS) or ("window.end" in file.tensors) != (unit == "windows"):
        raise UnreadableFileError("document", "Groups of rows and the unit of the radius contradict each other.")
    if rule != "targets":
        _check_classes(file)


def _check_classes(file: ProofFile) -> None:
    """Refuse a document about classes that contradicts itself."""
    document = file.document
    if type(document["has_adversary"]) is not bool:
        raise UnreadableFileError("document", "The document must say whether its adversary is limited.")
    if not isinstance(document["classes"], list) or not are_classes(document["classes"]):
        raise UnreadableFileError("classes", "The document must list at least two classes of one type, each once.")
    training = Training.of(file)
    check_assumptions(file, training)
    if document["n_rows"] == document["n_train"]:  # else the rule also looks for votes of rows without a label
        refuse_fixed_votes(file, training)
    if training.n_touchable != document["n_touchable"]:
        raise UnreadableFileError("touchable", "'n_touchable' is not the number that can be changed by the proof.")


def _check_producer(producer: Any) -> None:
    is_named = isinstance(producer, dict) and set(producer) == {"name", "version"}
    if not is_named or not all(isinstance(one, str) and len(one) <= 100 for one in producer.values()):
        raise UnreadableFileError("producer", "The producer must have a name and a version, and nothing else.")
