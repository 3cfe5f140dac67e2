"""The claims of a file, and the checks that all rules share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from flipproof_verify.container import ProofFile, UnreadableFileError
from flipproof_verify.verdicts import Findings

Integers = NDArray[np.int64]

#: More than the exponent of any weight in float64.
LARGEST_EXPONENT = 4096

#: Larger offsets are refused: sums of votes and offsets would not fit into 64 bits.
LARGEST_OFFSET = 2**60 - 1

#: The largest radius of 64 bits.
LARGEST_RADIUS = 2**63 - 1


class Attack(Protocol):
    """What an adversary can do to the prediction of one test row; `undecided` is the reason if that is not known."""

    undecided: str

    def wins(self, rival: int, n_changes: int | None) -> bool | None:
        """Tell whether the rival wins after `n_changes` changes (None: any number); None if that is not decided."""


@dataclass(frozen=True)
class Claims:
    """What a file claims about its test rows, in class codes."""

    prediction: Integers
    rival: Integers
    radius: NDArray[np.int64] | NDArray[np.float64]
    unlimited: NDArray[np.bool_]
    abstained: NDArray[np.bool_]
    margin: NDArray[np.float64]
    n_classes: int
    is_measured: bool
    can_add: bool

    @classmethod
    def of(cls, file: ProofFile) -> Claims:
        """Read and check the tensors of the claims."""
        m, n_classes = file.document["n_test"], len(file.document["classes"])
        is_measured = file.document["unit"] in ("l2", "divergence")
        claims = cls(
            prediction=file.codes("claim.prediction", (m,), n_classes),
            rival=file.codes("claim.rival", (m,), n_classes),
            radius=np.asarray(file.tensor("claim.radius", "f", (m,))) if is_measured else read_radii(file),
            unlimited=file.flags("claim.unlimited", (m,)),
            abstained=file.flags("claim.abstained", (m,)),
            margin=np.asarray(file.tensor("claim.margin", "f", (m,))),
            n_classes=n_classes,
            is_measured=is_measured,
            can_add=file.document["changes"] in ("rows", "insertions") and file.document["unit"] == "rows",
        )
        if not ((claims.radius >= 0) & np.isfinite(claims.radius)).all():
            raise UnreadableFileError("tensor-values", "A radius is negative, or not a number.")
        if not np.isfinite(claims.margin).all():
            raise UnreadableFileError("margin-size", "A margin is not a finite number.")
        if (claims.rival == claims.prediction).any():
            raise UnreadableFileError("tensor-values", "A rival class is the predicted class.")
        return claims

    def check_flags(self, n_touchable: int, found: Findings) -> None:
        """Check what needs no votes: no radius exceeds what can be changed, and abstained rows claim nothing."""
        radius, rows = self.radius[found.rows], found.rows
        if not self.is_measured and not self.can_add:
            found.refute(rows[radius > n_touchable], "radius")
        found.refute(rows[self.abstained[rows] & ((radius != 0) | self.unlimited[rows])], "abstained")
        if self.is_measured:
            found.refute(rows[self.unlimited[rows]], "unlimited")
        elif not self.can_add:
            found.refute(rows[self.unlimited[rows] & (radius != n_touchable)], "unlimited")

    def check_scores(
        self, rows: Integers, scores: Integers, found: Findings, exponents: Integers | None = None
    ) -> Integers:
        """Check predictions and margins by integer scores, and return the leads over all classes."""
        at, winner, rival = np.arange(len(rows)), self.prediction[rows], self.rival[rows]
        found.refute(rows[np.argmax(scores, axis=1) != winner], "prediction")
        margin = (scores[at, winner] - scores[at, rival]).astype(np.float64)
        if exponents is not None:
            margin = scaled(margin, -exponents)
        found.refute(rows[margin != self.margin[rows]], "margin")
        sorts_after = np.arange(self.n_classes) > winner[:, None]
        return np.asarray(scores[at, winner][:, None] - scores + sorts_after)

    def check_radius(self, row: int, attack: Attack, found: Findings) -> None:
        """Check that no rival wins within the radius."""
        radius = None if self.unlimited[row] else int(self.radius[row])
        for rival in range(self.n_classes):
            if rival != self.prediction[row]:
                wins = attack.wins(rival, radius)
                if wins is None:
                    found.doubt([row], attack.undecided)
                else:
                    found.expect(row, not wins, "unlimited" if radius is None else "radius")

    def check_exact_row(self, row: int, attack: Attack, found: Findings) -> None:
        """Check a radius, and that no other class wins with fewer changes than the rival class."""
        self.check_radius(row, attack, found)
        if self.unlimited[row]:
            return
        rival, radius = int(self.rival[row]), int(self.radius[row])
        next_wins = attack.wins(rival, radius + 1)
        if next_wins:
            return  # together with the radius, which holds for every rival, this is what is claimed
        if next_wins is None:
            found.doubt([row], attack.undecided)
            return
        # the most changes that are too few for the rival: surely, and as far as is decided
        surely = _most(lambda n: attack.wins(rival, n) is False, radius + 1)
        perhaps = _most(lambda n: not attack.wins(rival, n), radius + 1)
        others = [one for one in range(self.n_classes) if one not in (rival, self.prediction[row])]
        if any(attack.wins(one, surely) for one in others):
            found.refute([row], "rival")
        elif any(attack.wins(one, perhaps) is not False for one in others):
            found.doubt([row], attack.undecided)


def _most(are_too_few: Callable[[int | None], bool], low: int) -> int | None:
    """Return the largest number of changes, at least `low`, that are too few; None if any number is."""
    if are_too_few(None):
        return None
    high = low + 1
    while are_too_few(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if are_too_few(middle) else (low, middle)
    return low


def read_offsets(file: ProofFile, n_classes: int, optional: bool = False) -> Integers:
    """Return the offsets of all test rows; 0 if they are optional and there are none."""
    m = file.document["n_test"]
    if optional and "test.offset" not in file.tensors:
        return np.zeros((m, n_classes), dtype=np.int64)
    return file.integers("test.offset", (m, n_classes), -LARGEST_OFFSET, LARGEST_OFFSET, "offset")


def read_exponents(file: ProofFile) -> Integers:
    """Return the exponents of all test rows."""
    return file.integers("test.exponent", (file.document["n_test"],), -LARGEST_EXPONENT, LARGEST_EXPONENT, "exponent")


def read_radii(file: ProofFile) -> Integers:
    """Return the radii of all test rows, which are numbers of changes."""
    return file.integers("claim.radius", (file.document["n_test"],), 0, LARGEST_RADIUS)


def scaled(x: NDArray[np.float64] | float, exponent: Integers | int) -> NDArray[np.float64]:
    """Multiply by a power of two in two halves, so that no intermediate result leaves the range of float64."""
    exponent = np.asarray(exponent)
    half = exponent // 2
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(np.ldexp(x, half.astype(np.int32)), (exponent - half).astype(np.int32)))
