"""Parameters and limits of all label-linear learners, in memory and in blocks."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import ArrayLike

from flipproof.certificates import METHODS
from flipproof.core.noise import LabelFlip
from flipproof.core.votes import (
    LARGEST_PRECISION,
)
from flipproof.learners.prior import (
    PRIOR_CONSTRAINTS,
)
from flipproof.learners.trusted_part import LearnsFromTrusted
from flipproof.parameters import (
    NONE,
    Constraints,
    instance,
    integer,
    number,
    one_of,
    share,
)

#: Memory that `certify` and `predict` may use on top of the data.
MEMORY_BUDGET = 256 * 2**20

SMALLEST_PRECISION = 2

#: More training rows than this have no exact sums of votes; offsets that this many votes cannot make up are clipped.
MOST_ROWS = 2**29


class LabelLinearParameters(LearnsFromTrusted):
    """A certified classifier with the parameters of all label-linear learners, in memory and in blocks."""

    parameter_constraints: ClassVar[Constraints] = {
        "noise": number(closed="both") | instance(LabelFlip, "a LabelFlip") | one_of("auto"),
        "method": one_of(*METHODS),
        "precision": integer(SMALLEST_PRECISION, LARGEST_PRECISION, "the bits per vote"),
        "clip": NONE | one_of("sign") | share(includes_all=True),
        "block_size": NONE | integer(1),
        **PRIOR_CONSTRAINTS,
    }

    # defaults for custom learners with an `__init__` that does not set them
    clip: str | float | None = None
    prior: Any = None
    prior_weight: float = 1.0

    def __init__(
        self,
        noise: Any = 0.1,
        *,
        clip: str | float | None = None,
        prior: Any = None,
        prior_weight: float = 1.0,
        method: str = "exact",
        precision: int = 10,
        features: Any = None,
        classes: ArrayLike | None = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ):
        self.noise = noise
        self.clip = clip
        self.prior = prior
        self.prior_weight = prior_weight
        self.method = method
        self.precision = precision
        self.features = features
        self.classes = classes
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.verbose = verbose
