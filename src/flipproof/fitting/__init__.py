"""From training and test rows of any source to a fitted learner: read, choose columns, encode without labels, fit."""

from flipproof.fitting.choices import (
    FIT_STEPS,
    DataChoice,
    Fitted,
    ModelChoice,
    as_choices,
    comes_in_blocks,
    is_path,
    settable_parameters,
    source_name,
)
from flipproof.fitting.in_blocks import fit_in_blocks, training_files
from flipproof.fitting.memory import fit

__all__ = [
    "FIT_STEPS",
    "DataChoice",
    "Fitted",
    "ModelChoice",
    "as_choices",
    "comes_in_blocks",
    "fit",
    "fit_in_blocks",
    "is_path",
    "settable_parameters",
    "source_name",
    "training_files",
]
