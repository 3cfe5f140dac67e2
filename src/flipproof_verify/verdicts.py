"""Verdicts about rows and files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

VERIFIED, REFUTED, INCONCLUSIVE = "VERIFIED", "REFUTED", "INCONCLUSIVE"

#: What each reason means. REFUTED: the claim is false. INCONCLUSIVE: this program cannot decide it.
REASONS = {
    "prediction": "the prediction is not what the votes decide",
    "rival": "the rival class is not the one that wins with the fewest changes",
    "radius": "an attack within the radius does what the radius excludes",
    "interval": "an attack with the stated number of changes leads out of the interval",
    "unlimited": "the prediction is claimed to be beyond any attack, but is not",
    "margin": "the margin is not the lead of the prediction over the rival class",
    "log_failure": "the failure probability is larger than claimed",
    "abstained": "a row is certified although its votes do not decide it",
    "precision": "the numbers are too close to decide with this precision",
    "depth": "the list of nearest rows is too short to decide",
    "search": "there are too many sets of annotators or of changes to try them all",
}


class Findings:
    """The verdict on each checked row; the first reason against a row is kept."""

    def __init__(self, rows: NDArray[np.int64]):
        self.rows = rows
        self._reasons: dict[int, tuple[str, str]] = {}

    def refute(self, rows: Iterable[Any], reason: str) -> None:
        """Say that the claims about some rows are false."""
        for row in rows:
            if self._reasons.get(int(row), (INCONCLUSIVE,))[0] != REFUTED:
                self._reasons[int(row)] = REFUTED, reason

    def is_refuted(self, row: int) -> bool:
        """Tell whether a claim about this row is known to be false."""
        return self._reasons.get(row, (VERIFIED,))[0] == REFUTED

    def doubt(self, rows: Iterable[Any], reason: str) -> None:
        """Say that the claims about some rows could not be decided."""
        for row in rows:
            self._reasons.setdefault(int(row), (INCONCLUSIVE, reason))

    def expect(self, row: int, holds: bool | None, reason: str) -> None:
        """Record the result of one check: True, False, or None if it could not be decided."""
        if holds is None:
            self.doubt([row], "precision")
        elif not holds:
            self.refute([row], reason)

    @property
    def reasons(self) -> dict[int, tuple[str, str]]:
        """Verdict and reason of the rows that are not verified, by row."""
        return dict(sorted(self._reasons.items()))


@dataclass(frozen=True)
class Verification:
    """The result of checking a file.

    Attributes
    ----------
    verdict : {"VERIFIED", "REFUTED", "INCONCLUSIVE"}
        REFUTED if any row is; otherwise INCONCLUSIVE if any row is.
    n_rows, n_checked : int
        Number of rows in the file, and of those that were checked.
    reasons : dict
        Verdict and reason (a key of `REASONS`) of the rows that are not verified, by row.
    document : dict
        The document of the file: method, adversary, assumptions, digests.
    as_stated : tuple of str
        Codes of the assumptions that no proof can decide: they are taken as the file states them. What each says is
        in docs/verifying.md, and ``flipproof verify`` prints it.

    See Also
    --------
    flipproof_verify.verify : Check a certificate file.

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
    ...     result = flipproof_verify.verify(path)
    >>> result.verdict, result.n_checked
    ('VERIFIED', 5)
    """

    n_rows: int
    n_checked: int
    reasons: dict[int, tuple[str, str]]
    document: dict[str, Any]
    as_stated: tuple[str, ...] = ()

    @property
    def is_sample(self) -> bool:
        """Whether some rows were not checked."""
        return self.n_checked < self.n_rows

    @property
    def verdict(self) -> str:
        """The verdict on the whole file."""
        found = {verdict for verdict, _ in self.reasons.values()}
        return REFUTED if REFUTED in found else INCONCLUSIVE if found else VERIFIED

    @property
    def digests(self) -> set[str]:
        """The digests of the model, data files and outputs that the certificates are about."""
        listed = self.document["digests"]
        found = {*listed.get("files", {}).values(), *listed.get("outputs", {}).values()}
        return found | ({listed["model"]} if listed.get("model") else set())

    def __str__(self) -> str:
        checked = f"{self.n_checked:,} of {self.n_rows:,} rows checked"
        if self.is_sample:
            checked += " (a sample: the verdict says nothing about the other rows)"
        if self.as_stated:
            n_stated = len(self.as_stated)
            checked += f"; {n_stated} {'assumptions' if n_stated > 1 else 'assumption'} taken as stated: "
            checked += ", ".join(self.as_stated)
        if not self.reasons:
            return f"{self.verdict}: {checked}"
        row, (_, reason) = next(iter((r, w) for r, w in self.reasons.items() if w[0] == self.verdict))
        return f"{self.verdict}: {checked}; {len(self.reasons):,} not verified; row {row}: {REASONS[reason]}"
