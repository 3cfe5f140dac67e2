"""The paper's tables and figures, and exact certificates on the same data: one spec per data set."""

from flipproof.experiments.runner import reproduce
from flipproof.experiments.spec import Experiment, experiment_names, read_experiment

__all__ = ["Experiment", "experiment_names", "read_experiment", "reproduce"]
