"""The specification of an experiment, read from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from flipproof.runtime.files import digest_of

#: Purposes of a run: a row of the paper's table, a line for comparison in figures only, beyond the paper, or for the
#: table about changed rows.
GROUPS = ("paper", "reference", "beyond", "rows")
#: What the adversary of a run can change.
CHANGES = ("labels", "rows")
#: What a figure shows.
FIGURE_KINDS = ("certified", "attacked")


@dataclass(frozen=True)
class FeatureSpec:
    """A label-free feature map: its name in the spec, its kind, its input features, and its parameters."""

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
        Name in the tables.
    group : {"paper", "reference", "beyond", "rows"}
        A row of the paper's table, a line for comparison, beyond the paper, or against changed rows.
    features : str
        Name of the features.
    learner : str
        A name of :data:`flipproof.experiments.runner.LEARNERS`.
    parameters : mapping
        Parameters of the learner.
    methods : tuple of str
        Certificates to compute; none for an undefended model.
    attacked : bool
        Whether to attack as well.
    published : tuple of float
        The paper's values at the numbers of flips of the table, if it has this row.
    note : str
        Differences from the paper's setting, for the caption.
    changes : {"labels", "rows"}
        What the radii of a run count: changed labels, or rows that are added, removed or replaced.
    reference_rows : int
        Number of training rows, evenly spaced, that are the reference: the geometry is learned from them alone, and
        they do not vote. 0: no reference.
    only_with : str
        What the run needs in addition to the data of the experiment, for messages. The run is skipped in quick runs and
        if this is missing, and the tables say so; a run without it is never skipped.
    in_quick : bool
        Whether a run with `only_with` is part of quick runs.
    one_in : int
        For runs against changed rows: the first of this many equal parts of the training rows is the reference, whose
        labels are not used. The others vote.
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
    changes: str = "labels"
    reference_rows: int = 0
    in_quick: bool = False
    one_in: int = 0

    @property
    def is_undefended(self) -> bool:
        """Whether the run has no certificates."""
        return not self.methods

    @property
    def recorded(self) -> tuple[str, ...]:
        """The columns of its rows."""
        return ("prediction", *self.methods, *(("flips_needed",) if self.attacked or self.is_undefended else ()))


@dataclass(frozen=True)
class Figure:
    """A figure of curves over the number of flips.

    Attributes
    ----------
    file, title : str
        Name of the file without its suffix, and title.
    kind : {"certified", "attacked"}
        Certified accuracy with clean accuracy as a dashed line, or certified and attacked accuracy.
    runs : tuple of str
        Names of runs, in the order of the legend.
    method : str
        Method of the certificates.
    most_flips : int
        End of the axis.
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
        Name in file names, and title in tables.
    data : mapping
        The loader's name, ``loader``, and its parameters.
    flips, more_flips, changed_rows : tuple of int
        The columns of the paper's table, of the table beyond it, and of the table about changed rows.
    features : mapping of str to FeatureSpec
        Features by name, each after the features that it builds on.
    runs : tuple of Run
        Runs in the order of the tables.
    figures : tuple of Figure
        The figures.
    peers : tuple of str
        Published results of others, one sentence each.
    caption : str
        Text above the table: where the setting differs from the paper's.
    recall_of : int or None
        A class whose certified recall the tables show in brackets.
    quick : mapping
        Numbers of rows of a quick run, and parameters of features that change for it.
    fingerprint : str
        SHA-256 of the file.

    See Also
    --------
    flipproof.experiments.read_experiment : Read an experiment.

    Examples
    --------
    >>> from flipproof.experiments import read_experiment
    >>> read_experiment("mnist17").title
    'MNIST 1/7'
    """

    name: str
    title: str
    data: Mapping[str, Any]
    flips: tuple[int, ...]
    more_flips: tuple[int, ...]
    changed_rows: tuple[int, ...]
    features: Mapping[str, FeatureSpec]
    runs: tuple[Run, ...]
    figures: tuple[Figure, ...] = ()
    peers: tuple[str, ...] = ()
    caption: str = ""
    recall_of: int | None = None
    quick: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    def chain(self, features: str) -> list[FeatureSpec]:
        """Return the chain of maps that compute the features, the last one first."""
        spec = self.features[features]
        return [spec, *(self.chain(spec.of) if spec.of is not None else ())]

    def other_form(self, features: str) -> str | None:
        """Return the form of the data that features start from, for example images; None for the experiment's form."""
        form: str | None = self.chain(features)[-1].parameters.get("kind_of_data")
        return form


def experiment_names() -> list[str]:
    """Return the names of all experiments.

    Returns
    -------
    list of str
        The names, as `flipproof reproduce` takes them.

    See Also
    --------
    flipproof.experiments.read_experiment : Read an experiment.

    Examples
    --------
    >>> from flipproof.experiments import experiment_names
    >>> experiment_names()
    ['cifar10', 'dogfish', 'enron', 'imdb', 'mnist', 'mnist17', 'sms']
    """
    return sorted(file.name.removesuffix(".toml") for file in _specs().iterdir() if file.name.endswith(".toml"))


def read_experiment(name: str) -> Experiment:
    """Return one of the experiments in the package.

    Parameters
    ----------
    name : str
        One of :func:`experiment_names`.

    Returns
    -------
    Experiment
        Its data, features, runs and figures.

    See Also
    --------
    flipproof.experiments.experiment_names : Names of all experiments.
    flipproof.experiments.reproduce : Run an experiment.

    Examples
    --------
    >>> from flipproof.experiments import read_experiment
    >>> read_experiment("mnist17").flips
    (1, 10, 100, 500, 1000, 1500, 2000)
    """
    if name not in experiment_names():
        raise ValueError(f"Unknown experiment {name!r}. Known: {', '.join(experiment_names())}.")
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
            changed_rows=tuple(table.get("changed_rows", ())),
            features=features,
            runs=tuple(_run(run) for run in table["runs"]),
            figures=tuple(Figure(**{**figure, "runs": tuple(figure["runs"])}) for figure in table.get("figures", ())),
            peers=tuple(table.get("peers", ())),
            caption=table.get("caption", ""),
            recall_of=table.get("recall_of"),
            quick=table.get("quick", {}),
            fingerprint=digest_of(content),
        )
    except (KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"The spec of the experiment {name!r} is invalid: {error!r}.") from error
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
        changes=table.get("changes", "labels"),
        reference_rows=table.get("reference_rows", 0),
        in_quick=table.get("in_quick", False),
        one_in=table.get("one_in", 0),
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
        has_reference = bool(run.reference_rows or run.one_in)
        if run.changes not in CHANGES or (run.changes == "rows" and (not has_reference or run.attacked)):
            raise ValueError(f"{experiment.name}: run {run.name!r} cannot be certified against changed {run.changes}.")
        if run.published and len(run.published) != len(experiment.flips):
            raise ValueError(f"{experiment.name}: run {run.name!r} needs one published value per column.")
        if run.group == "rows" and (run.changes != "rows" or run.one_in < 2 or run.methods != ("exact",)):
            raise ValueError(f"{experiment.name}: run {run.name!r} of the table about rows needs changes and one_in.")
        if run.only_with and experiment.other_form(run.features) is None:
            raise ValueError(f"{experiment.name}: run {run.name!r} needs no other data, so it must not be skipped.")
    for figure in experiment.figures:
        if not set(figure.runs) <= set(names) or figure.kind not in FIGURE_KINDS:
            raise ValueError(f"{experiment.name}: figure {figure.file!r} has unknown runs or an unknown kind.")


def _specs() -> Any:
    return resources.files("flipproof.experiments") / "specs"
