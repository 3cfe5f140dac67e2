"""The paper's tables and figures, and the same data with exact certificates: one spec each, one row per test row."""

from flipproof.experiments.runner import reproduce
from flipproof.experiments.spec import Experiment, experiment_names, read_experiment

__all__ = ["Experiment", "experiment_names", "read_experiment", "reproduce"]
