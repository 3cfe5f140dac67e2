"""Check a file: the container, the document, then every row by the rule of the file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flipproof_verify.claimed import Claims
from flipproof_verify.container import ProofFile, UnreadableFileError, read
from flipproof_verify.noise_rule import check_noise
from flipproof_verify.other_rules import check_neighbors, check_partitions, check_samples
from flipproof_verify.verdicts import Findings, Verification
from flipproof_verify.votes_rule import check_exact

Check = Callable[[ProofFile, Claims, Findings], Iterator[int]]

#: The check for each rule and method.
CHECKS: dict[tuple[str, str], Check] = {
    ("votes", "exact"): check_exact,
    ("votes", "tight"): check_noise,
    ("votes", "kl"): check_noise,
    ("neighbors", "exact"): check_neighbors,
    ("partitions", "gap"): check_partitions,
    ("samples", "tight"): check_samples,
    ("samples", "kl"): check_samples,
    ("samples", "gaussian"): check_samples,
}

CHANGES = ("labels", "rows", "insertions", "removals")
UNITS = ("labels", "annotators", "windows", "rows", "sources", "l2", "divergence")

#: Units of groups of labels or rows; the assumption of the same name says so.
GROUPED_UNITS = ("annotators", "windows", "sources")

#: Assumptions that explain why some labels or rows cannot be changed.
LIMITS = {"trusted-labels", "trusted-rows", "trusted-at-fit", "unlabelled-rows", "changes-allowed"}

#: What may be changed: exactly one of these is assumed.
SCOPES = {"labels-only", "features-only", "divergence-only", "rows-changed"}


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

    Raises
    ------
    UnreadableFileError
        If the file is not a certificate file of format 1, is damaged, or contradicts itself.
    OSError
        If the file cannot be read.
    """
    file = read(path)
    _check_document(file)
    m = file.document["n_test"]
    chosen = _chosen(rows, m, seed)
    if chosen.size and (chosen[0] < 0 or chosen[-1] >= m):
        raise ValueError(f"Rows to check must be numbers from 0 to {m - 1}.")
    claims, found = Claims.of(file), Findings(chosen)
    check = CHECKS[file.document["rule"], file.document["method"]]
    for n_done in check(file, claims, found):
        if progress is not None:
            progress(n_done, len(chosen))
    return Verification(m, len(chosen), found.reasons, dict(file.document))


def _chosen(rows: Sequence[int] | int | None, m: int, seed: int) -> NDArray[np.int64]:
    if rows is None:
        return np.arange(m)
    if isinstance(rows, int):
        return np.sort(np.random.default_rng(seed).permutation(m)[:rows])
    return np.unique(np.asarray(rows, dtype=np.int64))


def _check_document(file: ProofFile) -> None:
    """Refuse a document that lacks a key or contradicts itself."""
    document = file.document
    for key in ("n_test", "n_train", "n_rows", "n_touchable"):
        if type(document.get(key)) is not int or document[key] < 0:
            raise UnreadableFileError("document", f"The document's {key!r} must be an integer of at least 0.")
    if not isinstance(document.get("classes"), list) or len(document["classes"]) < 2:
        raise UnreadableFileError("document", "The document must list at least two classes.")
    if (document.get("rule"), document.get("method")) not in CHECKS:
        raise UnreadableFileError("document", "The document names an unknown rule or method.")
    if document.get("changes") not in CHANGES or document.get("unit") not in UNITS:
        raise UnreadableFileError("document", "The document names unknown changes or an unknown unit.")
    blocks = document.get("blocks", [document["n_test"]])
    ascend = isinstance(blocks, list) and all(type(one) is int for one in blocks) and blocks == sorted(set(blocks))
    if not ascend or (blocks[-1:] or [0])[0] != document["n_test"] or (blocks and blocks[0] <= 0 < document["n_test"]):
        raise UnreadableFileError("document", "The blocks must ascend to the number of test rows.")
    _check_assumptions(file)


def _check_assumptions(file: ProofFile) -> None:
    document = file.document
    listed = document.get("assumptions")
    if not isinstance(listed, list) or not all(isinstance(one, dict) and "code" in one for one in listed):
        raise UnreadableFileError("assumptions", "The document must list assumptions with their codes.")
    codes = {one["code"] for one in listed}
    changes_rows, unit = document["changes"] != "labels", document["unit"]
    expected = {"l2": "features-only", "divergence": "divergence-only"}
    scope = "rows-changed" if changes_rows else expected.get(unit, "labels-only")
    needed = {scope} | ({"reference-fixed"} if changes_rows else set())
    needed |= {unit} if unit in GROUPED_UNITS else set()
    if not needed <= codes or len(codes & SCOPES) != 1:
        missing = ", ".join(sorted(needed - codes)) or "exactly one about what may be changed"
        raise UnreadableFileError("assumptions", f"The document lacks assumptions: {missing}.")
    is_limited = "train.changeable" in file.tensors and not file.flags("train.changeable", (document["n_rows"],)).all()
    if is_limited and not codes & LIMITS:
        raise UnreadableFileError("assumptions", "Some labels or rows cannot be changed, but no assumption says why.")
    has_groups = "train.group" in file.tensors
    if has_groups != (unit in GROUPED_UNITS) or ("window.end" in file.tensors) != (unit == "windows"):
        raise UnreadableFileError("document", "Groups of rows and the unit of the radius contradict each other.")
