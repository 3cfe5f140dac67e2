"""Every spec is valid; an invalid one gives a clear error."""

import pytest

from flipproof.experiments import experiment_names, read_experiment
from flipproof.experiments.feature_store import BUILDERS
from flipproof.experiments.runner import LEARNERS
from flipproof.experiments.spec import parse_experiment

#: Experiments on data that the paper does not have.
BEYOND_THE_PAPER = ("sms", "enron")

GOOD = """
title = "T"
data = { loader = "mnist" }
flips = [1, 2]
[features.a]
kind = "given"
[[runs]]
name = "one"
features = "a"
learner = "ridge"
methods = ["exact"]
"""


@pytest.mark.parametrize("name", experiment_names())
def test_specs_in_the_package_are_valid(name):
    experiment = read_experiment(name)
    assert {run.learner for run in experiment.runs} <= set(LEARNERS)
    assert {feature.kind for feature in experiment.features.values()} <= set(BUILDERS)
    assert any(run.published for run in experiment.runs) == (name not in BEYOND_THE_PAPER)
    assert any(run.group == "beyond" for run in experiment.runs)
    assert experiment.caption
    assert {"train_rows", "test_rows"} <= set(experiment.quick)
    assert {figure.file for figure in experiment.figures} >= {"certified"}
    used = {run.features for run in experiment.runs}
    assert used | {feature.of for feature in experiment.features.values()} >= set(experiment.features)


def test_all_data_sets_are_there():
    assert experiment_names() == ["cifar10", "dogfish", "enron", "imdb", "mnist", "mnist17", "sms"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("title", "name"), "is invalid"),
        (("features = ", "feature = "), "is invalid"),
        (('features = "a"', 'features = "b"'), "unknown features"),
        (('kind = "given"', 'kind = "given"\nof = "b"'), "not defined yet"),
        (('learner = "ridge"', 'learner = "ridge"\ngroup = "mine"'), "unknown group"),
        (('learner = "ridge"', 'learner = "ridge"\npublished = [0.5]'), "one published value per column"),
        (('learner = "ridge"', 'learner = "ridge"\nonly_with = "the images"'), "must not be skipped"),
        (("[[runs]]", "[[runs]"), "is invalid"),
        (('learner = "ridge"', 'learner = "ridge"\nchanges = "rows"'), "cannot be certified against changed rows"),
        (('learner = "ridge"', 'learner = "ridge"\nchanges = "names"'), "cannot be certified against changed names"),
    ],
)
def test_an_invalid_spec_is_refused(change, message):
    assert parse_experiment("t", GOOD.encode()).title == "T"
    with pytest.raises(ValueError, match=message):
        parse_experiment("t", GOOD.replace(*change).encode())


def test_an_unknown_experiment_is_refused_with_the_known_names():
    with pytest.raises(ValueError, match="Known: cifar10"):
        read_experiment("imagenet")
