"""Findings of an audit: the labels, rows and annotators to check first, each with its place in the training file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flipproof.adversary import Adversary
from flipproof.attacks.annotator_audit import rank_annotators
from flipproof.attacks.label_audit import LabelAudit
from flipproof.attacks.result import AttackResult, RowAttackResult
from flipproof.report.as_json import plain_label
from flipproof.report.summary import MOST_AUDITED
from flipproof.runtime.files import digest_of
from flipproof.tables.roles import Rows
from flipproof.values import distinct

#: What a finding is about.
LABEL, ROW, ANNOTATOR = "label", "row", "annotator"


@dataclass(frozen=True)
class Finding:
    """A label, a row or an annotator to check.

    Attributes
    ----------
    kind : {"label", "row", "annotator"}
        What to check.
    name : str
        Name of the training row, or of the annotator.
    row : int
        Number of the training row; for an annotator, the first row with a label of theirs.
    label
        The label of the row; None for annotators.
    n_attacks, n_attacked : int
        Number of attacks that it is part of, and number of predictions that were attacked.
    n_alone : int
        Number of predictions that it overturns without any other change.
    fingerprint : str
        SHA-256 that stays the same when other rows are added or removed, or the file is sorted.
    line : int or None
        Line of the row in a text file, the first line being 1.
    """

    kind: str
    name: str
    row: int
    label: Any
    n_attacks: int
    n_attacked: int
    n_alone: int
    fingerprint: str = ""
    line: int | None = None


def findings(
    train: Rows, attacks: AttackResult | RowAttackResult, audit: LabelAudit | None, adversary: Adversary | None
) -> tuple[Finding, ...]:
    """Return what to check first, at most 100 of each kind.

    Parameters
    ----------
    train : Rows
        The training rows.
    attacks : AttackResult or RowAttackResult
        The smallest attacks on the most fragile predictions.
    audit : LabelAudit or None
        The labels to check first; None for attacks by rows.
    adversary : Adversary or None
        The adversary of these attacks, which knows the annotators.
    """
    if isinstance(attacks, RowAttackResult):
        found = _rows(train, attacks)
    else:
        found = _labels(train, attacks, audit) if audit is not None else []
        if attacks.unit == "annotators" and adversary is not None and adversary.groups is not None:
            found = _annotators(attacks, adversary) + found
    lines = {} if train.places is None else train.places.lines([one.row for one in found])
    marks = _distinct(_mark(train, one) for one in found)
    return tuple(
        replace(one, fingerprint=digest_of(mark), line=lines.get(one.row))
        for one, mark in zip(found, marks, strict=True)
    )


def _labels(train: Rows, attacks: AttackResult, audit: LabelAudit) -> list[Finding]:
    alone = _counts((rows for rows in attacks.rows if len(rows) == 1), len(train))
    listed = zip(audit.rows[:MOST_AUDITED].tolist(), audit.n_attacks[:MOST_AUDITED].tolist(), strict=True)
    return [_finding(train, LABEL, row, n_attacks, audit.n_attacked, alone[row]) for row, n_attacks in listed]


def _rows(train: Rows, attacks: RowAttackResult) -> list[Finding]:
    removed = [attacks.removed[row] for row in np.flatnonzero(attacks.success)]
    needed = attacks.changes_needed[attacks.success]
    n_attacks = _counts(removed, len(train))
    alone = _counts((rows for rows, n in zip(removed, needed, strict=True) if n == 1 and len(rows) == 1), len(train))
    n_attacked = int(np.count_nonzero(attacks.attempted))
    order = np.lexsort((np.arange(len(train)), -alone, -n_attacks))[:MOST_AUDITED]
    return [
        _finding(train, ROW, row, n_attacks[row], n_attacked, alone[row]) for row in order.tolist() if n_attacks[row]
    ]


def _annotators(attacks: AttackResult, adversary: Adversary) -> list[Finding]:
    audit = rank_annotators(attacks, adversary.groups, MOST_AUDITED)
    names, of_label = distinct(adversary.groups)
    first = dict(zip(names.tolist(), np.unique(of_label, return_index=True)[1].tolist(), strict=True))
    listed = zip(audit.names.tolist(), audit.n_attacks.tolist(), audit.n_alone.tolist(), strict=True)
    return [
        Finding(ANNOTATOR, str(plain_label(name)), first[name], None, n_attacks, audit.n_attacked, alone)
        for name, n_attacks, alone in listed
    ]


def _finding(train: Rows, kind: str, row: int, n_attacks: Any, n_attacked: int, alone: Any) -> Finding:
    label = None if train.labels is None else plain_label(train.labels[row])
    return Finding(kind, str(plain_label(train.ids[row])), row, label, int(n_attacks), n_attacked, int(alone))


def _counts(attacks: Iterable[Any], n_rows: int) -> Any:
    """Return for each row the number of attacks that it is part of."""
    parts = [np.unique(rows) for rows in attacks]
    return np.bincount(np.concatenate(parts), minlength=n_rows) if parts else np.zeros(n_rows, dtype=np.int64)


def _mark(train: Rows, finding: Finding) -> str:
    """Return what identifies a finding in any order of the file: names, or else the contents of the row."""
    if finding.kind == ANNOTATOR:
        return json.dumps([ANNOTATOR, finding.name])
    has_names = train.places is not None and train.places.ids is not None
    if has_names or not hasattr(train.features, "slice"):
        own: Any = str(train.ids[finding.row])
    else:
        own = train.features.slice(finding.row, 1).to_pylist()
    return json.dumps([finding.kind, own, finding.label], default=str, sort_keys=True)


def _distinct(marks: Iterable[str]) -> Sequence[str]:
    """Return the marks; those of equal rows are numbered."""
    seen: dict[str, int] = {}
    found = []
    for mark in marks:
        seen[mark] = seen.get(mark, 0) + 1
        found.append(mark if seen[mark] == 1 else f"{mark} {seen[mark]}")
    return found
