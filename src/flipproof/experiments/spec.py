"""What an experiment consists of, read from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from flipproof.files import digest_of

#: What a run is for: a row of the paper's table, a line for comparison in figures only, or what goes beyond the paper.
GROUPS = ("paper", "reference", "beyond")
#: What a figure shows.
FIGURE_KINDS = ("certified", "attacked")


@dataclass(frozen=True)
class FeatureSpec:
    """A label-free feature map: its name in the spec, its kind, what it is applied to, and its parameters."""

    name: str
    kind: str
    of: str | None
    parameters: Mapping[str, Any]
    keep: bool


@dataclass(frozen=True)
class Run:
    """One classifier on one set of features, certified or attacked on every test row.

    Attributes
    ----------
    name : str
        As it stands in tables.
    group : {"paper", "reference", "beyond"}
        A row of the paper's table, a line for comparison, or what goes beyond.
    features : str
        Name of the features.
    learner : str
        A name of :data:`flipproof.experiments.runner.LEARNERS`.
    parameters : mapping
        Of the learner.
    methods : tuple of str
        Certificates to compute; none for an undefended model.
    attacked : bool
        Whether to attack as well.
    published : tuple of float
        The paper's figures at the numbers of flips of the table, if it has this row.
    note : str
        What differs from the paper's setting, for the caption.
    only_with : str
        What the run needs beyond the data of the experiment, in words. Such a run is left out, and the tables say so,
        where that is not there, and of quick runs; one without this is never left out.
    """

    name: str
    group: str
    features: str
    learner: str
    parameters: Mapping[str, Any]
    methods: tuple[str, ...]
    attacked: bool
    published: tuple[float, ...]
    note: str
    only_with: str

    @property
    def is_undefended(self) -> bool:
        """Whether there is nothing to certify."""
        return not self.methods

    @property
    def recorded(self) -> tuple[str, ...]:
        """The columns that its rows have."""
        return ("prediction", *self.methods, *(("flips_needed",) if self.attacked or self.is_undefended else ()))


@dataclass(frozen=True)
class Figure:
    """A figure of curves over the number of flips.

    Attributes
    ----------
    file, title : str
        Name of the file, without its ending, and what stands above.
    kind : {"certified", "attacked"}
        Certified accuracy with the clean one as a dashed line, or certified accuracy with the attacked one.
    runs : tuple of str
        Names of runs, in the order of the legend.
    method : str
        Which certificates.
    most_flips : int
        Where the axis ends.
    """

    file: str
    title: str
    kind: str
    runs: tuple[str, ...]
    method: str
    most_flips: int


@dataclass(frozen=True)
class Experiment:
    """Everything about one data set.

    Attributes
    ----------
    name, title : str
        For files and for people.
    data : mapping
        The loader's name, ``loader``, and its parameters.
    flips, more_flips : tuple of int
        The columns of the paper's table, and of the table beyond it.
    features : mapping of str to FeatureSpec
        By name, each after what it builds on.
    runs : tuple of Run
        In the order of the tables.
    figures : tuple of Figure
        To be drawn.
    peers : tuple of str
        Published figures of others, a sentence each.
    caption : str
        What must be said beside the table: where the setting is not the paper's.
    quick : mapping
        Numbers of rows of a short run, and parameters of features that change for it.
    fingerprint : str
        SHA-256 of the file.
    """

    name: str
    title: str
    data: Mapping[str, Any]
    flips: tuple[int, ...]
    more_flips: tuple[int, ...]
    features: Mapping[str, FeatureSpec]
    runs: tuple[Run, ...]
    figures: tuple[Figure, ...] = ()
    peers: tuple[str, ...] = ()
    caption: str = ""
    quick: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    def chain(self, features: str) -> list[FeatureSpec]:
        """Return the maps that lead to features, the last one first."""
        spec = self.features[features]
        return [spec, *(self.chain(spec.of) if spec.of is not None else ())]

    def other_form(self, features: str) -> str | None:
        """Return the form of the data that features start from, such as images; None if it is the experiment's own."""
        form: str | None = self.chain(features)[-1].parameters.get("kind_of_data")
        return form


def experiment_names() -> list[str]:
    """Return the names of all experiments."""
    return sorted(file.name.removesuffix(".toml") for file in _specs().iterdir() if file.name.endswith(".toml"))


def read_experiment(name: str) -> Experiment:
    """Return one of the experiments that come with the package."""
    if name not in experiment_names():
        raise ValueError(f"There is no experiment {name!r}. Known: {', '.join(experiment_names())}.")
    content = _specs().joinpath(f"{name}.toml").read_bytes()
    return parse_experiment(name, content)


def parse_experiment(name: str, content: bytes) -> Experiment:
    """Return the experiment that a TOML file describes."""
    try:
        table = tomllib.loads(content.decode())
        features = {key: _feature(key, dict(value)) for key, value in table["features"].items()}
        experiment = Experiment(
            name=name,
            title=table["title"],
            data=table["data"],
            flips=tuple(table["flips"]),
            more_flips=tuple(table.get("more_flips", table["flips"])),
            features=features,
            runs=tuple(_run(run) for run in table["runs"]),
            figures=tuple(Figure(**{**figure, "runs": tuple(figure["runs"])}) for figure in table.get("figures", ())),
            peers=tuple(table.get("peers", ())),
            caption=table.get("caption", ""),
            quick=table.get("quick", {}),
            fingerprint=digest_of(content),
        )
    except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"The experiment {name!r} is not well described: {error!r}.") from error
    _check(experiment)
    return experiment


def _feature(name: str, table: dict[str, Any]) -> FeatureSpec:
    return FeatureSpec(name, table.pop("kind"), table.pop("of", None), keep=table.pop("keep", False), parameters=table)


def _run(table: Mapping[str, Any]) -> Run:
    return Run(
        name=table["name"],
        group=table.get("group", "paper"),
        features=table["features"],
        learner=table["learner"],
        parameters=table.get("parameters", {}),
        methods=tuple(table.get("methods", ())),
        attacked=table.get("attacked", False),
        published=tuple(table.get("published", ())),
        note=table.get("note", ""),
        only_with=table.get("only_with", ""),
    )


def _check(experiment: Experiment) -> None:
    known: set[str] = set()
    for feature in experiment.features.values():
        if feature.of is not None and feature.of not in known:
            raise ValueError(f"{experiment.name}: features {feature.name!r} build on {feature.of!r}, not defined yet.")
        known.add(feature.name)
    names = [run.name for run in experiment.runs]
    if len(set(names)) < len(names):
        raise ValueError(f"{experiment.name}: two runs have the same name.")
    for run in experiment.runs:
        if run.features not in known or run.group not in GROUPS:
            raise ValueError(f"{experiment.name}: run {run.name!r} has unknown features or an unknown group.")
        if run.published and len(run.published) != len(experiment.flips):
            raise ValueError(f"{experiment.name}: run {run.name!r} needs one published figure per column.")
        if run.only_with and experiment.other_form(run.features) is None:
            raise ValueError(f"{experiment.name}: run {run.name!r} needs no other data, so it may not be left out.")
    for figure in experiment.figures:
        if not set(figure.runs) <= set(names) or figure.kind not in FIGURE_KINDS:
            raise ValueError(f"{experiment.name}: figure {figure.file!r} shows unknown runs, or is of an unknown kind.")


def _specs() -> Any:
    return resources.files("flipproof.experiments") / "specs"
