"""The paper's tables and figures with exact certificates on the same data, one spec each; and studies beyond it."""

from flipproof.experiments.runner import reproduce
from flipproof.experiments.spec import Experiment, experiment_names, read_experiment
from flipproof.experiments.studies import read_study, study_names
from flipproof.experiments.studies.study import Study
from flipproof.experiments.studies.study_runner import reproduce_study

__all__ = [
    "Experiment",
    "Study",
    "experiment_names",
    "read_experiment",
    "read_study",
    "reproduce",
    "reproduce_study",
    "study_names",
]
