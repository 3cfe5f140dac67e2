"""Studies: trusted labels, labels of several people, numbers instead of classes, graphs; one module each."""

from __future__ import annotations

from importlib import import_module

from flipproof.experiments.studies.study import Study

#: From the name of a study to the module that defines it, in the order in which commands list them.
MODULES = {
    "trust": "trusted_label_study",
    "crowds": "crowd_study",
    "regression": "regression_study",
    "graphs": "graph_study",
}


def study_names() -> list[str]:
    """Return the names of all studies.

    Returns
    -------
    list of str
        The names, as `flipproof reproduce` takes them.

    See Also
    --------
    flipproof.experiments.read_study : Return a study by its name.
    flipproof.experiments.experiment_names : Names of the experiments on one data set.

    Examples
    --------
    >>> from flipproof.experiments import study_names
    >>> study_names()
    ['trust', 'crowds', 'regression', 'graphs']
    """
    return list(MODULES)


def read_study(name: str) -> Study:
    """Return one of the studies in the package.

    Parameters
    ----------
    name : str
        One of :func:`study_names`.

    Returns
    -------
    Study
        Its data sets, runs and tables.

    See Also
    --------
    flipproof.experiments.study_names : Names of all studies.
    flipproof.experiments.reproduce_study : Run a study.

    Examples
    --------
    >>> from flipproof.experiments import read_study
    >>> read_study("trust").title
    'What trusted labels buy'
    """
    if name not in MODULES:
        raise ValueError(f"Unknown study {name!r}. Known: {', '.join(MODULES)}.")
    study: Study = import_module(f"flipproof.experiments.studies.{MODULES[name]}").STUDY
    return study
