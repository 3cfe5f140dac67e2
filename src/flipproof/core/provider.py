"""The provider of votes: the interface of a fitted learner for attacks and collective certificates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from numpy.typing import NDArray

from flipproof.core.noise import LabelFlip
from flipproof.core.powers import Powers
from flipproof.core.rounding import Integers
from flipproof.core.votes import VoteSource

#: Methods that a learner must have, fitted or not, to provide votes.
METHODS = ("test_rows", "votes_on", "offsets_on", "powers", "blocks", "rule_depends_on_noise")


class VoteProvider(Protocol):
    """A fitted label-linear learner that provides the votes of single training rows.

    :class:`flipproof.LabelLinearClassifier` and all learners derived from it implement it; they may override
    `votes_on`. A learner that does not hold its training rows has no `votes_on`; its `holds_training_rows` is False.

    Soundness: votes and offsets must not depend on any label, nor on which test rows are processed together.

    Attributes
    ----------
    classes_ : array of shape (K,)
        The classes.
    label_codes_ : integers of shape (n,)
        The training labels, as positions in `classes_`; 0 for rows without a label.
    precision_ : int
        Number of bits of a vote.
    noise_ : LabelFlip or None
        The noise of the learner; None if each test row has a different noise.
    """

    classes_: NDArray[Any]
    label_codes_: Integers
    precision_: int
    noise_: LabelFlip | None

    def test_rows(self, X: object) -> Any:
        """Return what the prediction of test rows depends on: features and, if any, what a prior says about them."""
        ...

    def votes_on(self, Z: object) -> VoteSource:
        """Return the votes of all training rows on a block of test rows, given as `test_rows` returns them."""
        ...

    def offsets_on(self, source: VoteSource, sums: Integers) -> Integers:
        """Return the offsets of the deployed rule, shape (rows, K), given the sum of all votes on each test row."""
        ...

    def powers(self, adversary: object) -> Powers:
        """Return how an adversary can change the training labels; None: any label to any class."""
        ...

    def blocks(self, n_rows: int, n_jobs: int = 1, powers: Powers | None = None) -> Iterator[slice]:
        """Yield blocks of test rows whose votes fit into memory together, for each of `n_jobs` threads."""
        ...

    def rule_depends_on_noise(self) -> bool:
        """Tell whether the prediction depends on the noise (M5)."""
        ...


def provides_votes(learner: object) -> bool:
    """Tell whether a learner, fitted or not, provides the votes of single training rows."""
    return all(callable(getattr(learner, name, None)) for name in METHODS)


def can_be_attacked(learner: object) -> bool:
    """Tell whether a learner provides votes of single labels, so that the smallest attack on a prediction is known."""
    is_held = getattr(learner, "holds_training_rows", True) and not getattr(learner, "majority_first", False)
    return provides_votes(learner) and is_held


def refuse_regressors(learner: object, what: str) -> None:
    """Refuse a learner that predicts numbers, where `what` is about classes."""
    if getattr(learner, "predicts_numbers", False):
        raise ValueError(
            f"{what} is about predicted classes, but {type(learner).__name__} predicts numbers: call its own methods, "
            "such as certify and worst_changes."
        )


def check_rows_in_memory(learner: object, what: str) -> None:
    """Refuse a learner without training rows, of majorities or of numbers: `what` needs votes of single labels."""
    refuse_regressors(learner, what)
    if not getattr(learner, "holds_training_rows", True):
        raise ValueError(
            f"{what} needs the training rows in memory, but {type(learner).__name__} does not hold them: use the "
            "learner for rows in memory."
        )
    if getattr(learner, "majority_first", False):
        raise ValueError(
            f"{what} does not cover models of majorities, Annotations(..., aggregate='majority'): certify does. Use "
            "aggregate='votes', where each annotation votes."
        )
