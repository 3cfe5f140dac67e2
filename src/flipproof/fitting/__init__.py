"""Read training and test rows from any source, select columns, encode them without labels, and fit a learner."""

from flipproof.fitting.arguments import (
    FitArguments,
    FitArgumentsWithPrior,
    as_step,
    check_arguments_of,
    refuse_blocks,
    require_pyarrow,
)
from flipproof.fitting.choices import FIT_STEPS, DataChoice, Fitted, ModelChoice, as_choices, settable_parameters
from flipproof.fitting.deployed import refuse_beside_model, table_model, with_test_rows
from flipproof.fitting.in_blocks import fit_in_blocks, training_files
from flipproof.fitting.memory import fit, prepare, select
from flipproof.fitting.sources import comes_in_blocks, is_path, source_name

__all__ = [
    "FIT_STEPS",
    "DataChoice",
    "FitArguments",
    "FitArgumentsWithPrior",
    "Fitted",
    "ModelChoice",
    "as_choices",
    "as_step",
    "check_arguments_of",
    "comes_in_blocks",
    "fit",
    "fit_in_blocks",
    "is_path",
    "prepare",
    "refuse_beside_model",
    "refuse_blocks",
    "require_pyarrow",
    "select",
    "settable_parameters",
    "source_name",
    "table_model",
    "training_files",
    "with_test_rows",
]
