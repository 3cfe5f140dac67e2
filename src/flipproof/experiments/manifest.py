"""The record of how results were computed: versions, kernels, seeds, checksums and times."""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flipproof.experiments.spec import Experiment, Run
from flipproof.runtime.files import digest_of, write_whole
from flipproof.runtime.processor import kernels

MANIFEST = "manifest.json"

#: All numbers in a record are smaller than this.
LARGE = 2**53

#: Packages whose versions are recorded, if they are installed.
PACKAGES = ("flipproof", "numpy", "scipy", "scikit-learn", "torch", "umap-learn", "numba")

#: Names and descriptions of a run, which do not change its rows.
NOT_IN_SETTINGS = ("name", "group", "published", "note", "only_with", "in_quick")

#: Settings that were added later, with the values that earlier runs have: these do not change their digests.
ADDED_SETTINGS = {"changes": "labels", "reference_rows": 0, "one_in": 0}

#: Version of the definition of the exact radius: since 2, a tie counts as lost only if the prediction changes.
RADII = 2

#: The form of a record: a type, a table with these keys, a table with any keys ("*"), or a list.
ENVIRONMENT = {
    "python": str,
    "machine": str,
    "versions": {"*": str},
    "kernels": {"blas": [str], "variables": {"*": str}},
}
MADE_WITH = {"environment": ENVIRONMENT, "data": {"*": str}}
FORM: dict[str, Any] = {
    "experiment": str,
    "spec": str,
    "seed": int,
    "quick": bool,
    "n_train": int,
    "n_test": int,
    "data": {"provenance": str, "checksums": {"*": str}},
    "left_out": [str],
    "runs": {"*": {"settings": str, "fingerprint": str, "features": str, "seconds": float, "environments": [str]}},
    "features": {"*": {"recipe": str, "sha256": str, "environment": str, "data": {"*": str}}},
    "environments": {"*": ENVIRONMENT},
}


class Manifest:
    """The record of the rows in a folder.

    Rows and features keep the versions that they were computed with: a later call that finds them complete does not
    replace these with its own.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / MANIFEST
        self.content: dict[str, Any] = {"runs": {}, "features": {}, "environments": {}, "left_out": []}
        if self.path.exists():
            self.content = _read(self.path)

    @property
    def runs(self) -> dict[str, Any]:
        """The record of each run."""
        runs: dict[str, Any] = self.content["runs"]
        return runs

    def describe(
        self,
        experiment: str,
        fingerprint: str,
        sizes: tuple[int, int],
        seed: int,
        quick: bool,
        data: Mapping[str, Any],
    ) -> None:
        """Record the experiment, the digest of its spec, its numbers of training and test rows, options and data."""
        self.content |= {
            "experiment": experiment,
            "spec": fingerprint,
            "seed": seed,
            "quick": quick,
            "n_train": sizes[0],
            "n_test": sizes[1],
            "data": dict(data),
        }

    def leave_out(self, names: Collection[str]) -> None:
        """Record the runs that were skipped."""
        self.content["left_out"] = sorted(names)

    def start(self, run: str, settings: str, fingerprint: str, features: str) -> None:
        """Record a run that has no rows yet, and the checksum of its features, if they are stored."""
        about = {"settings": settings, "fingerprint": fingerprint, "features": features}
        self.runs[run] = {**about, "seconds": 0.0, "environments": []}

    def keep_runs(self, names: Collection[str]) -> None:
        """Remove all other runs."""
        self.content["runs"] = {name: record for name, record in self.runs.items() if name in names}

    def note_rows(self, run: str, seconds: float) -> None:
        """Record that rows of a run were computed in this environment, and the seconds it took."""
        record = self.runs[run]
        record["seconds"] = round(record["seconds"] + seconds, 1)
        record["environments"] = sorted({*record["environments"], self._named(environment())})
        self.save()

    def note_features(self, name: str, recipe: str, sha256: str, made_with: Mapping[str, Any]) -> None:
        """Record a file of features: how they were computed, and the file's checksum."""
        self.content["features"][name] = {
            "recipe": digest_of(recipe),
            "sha256": sha256,
            "environment": self._named(made_with["environment"]),
            "data": dict(made_with["data"]),
        }

    def keep_features(self, recipes: Mapping[str, str]) -> None:
        """Remove all features except those with these recipes; their files need not be in the folder."""
        self.content["features"] = {
            name: record
            for name, record in self.content["features"].items()
            if name in recipes and record["recipe"] == digest_of(recipes[name])
        }

    def save(self) -> None:
        """Write the record, without environments that are no longer used."""
        mentioned = _mentioned(self.content)
        environments = self.content["environments"]
        self.content["environments"] = {name: environments[name] for name in environments if name in mentioned}
        write_whole(self.path, (json.dumps(self.content, indent=1, sort_keys=True) + "\n").encode())

    def _named(self, described: Mapping[str, Any]) -> str:
        """Record an environment and return its short name."""
        name = digest_of(json.dumps(described, sort_keys=True))[:8]
        self.content["environments"][name] = dict(described)
        return name


def environment() -> dict[str, Any]:
    """Return the current environment: versions, and the kernels that determine the last bits."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
        "kernels": kernels(),
    }


def settings_of(experiment: Experiment, run: Run) -> str:
    """Return a digest of the settings of a run: of the classifier, its features, and the loader."""
    settings = {name: value for name, value in asdict(run).items() if name not in NOT_IN_SETTINGS}
    for name, usual in ADDED_SETTINGS.items():
        if settings[name] == usual:
            del settings[name]
    if not run.is_undefended:
        settings["radii"] = RADII
    maps = [asdict(spec) for spec in experiment.chain(run.features)]
    return digest_of(json.dumps([dict(experiment.data), settings, maps], sort_keys=True, default=str))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        wrong = misfit(content, FORM) or ", ".join(_mentioned(content) - set(content["environments"]))
        wrong = wrong or ("" if content["n_train"] > 0 else "no training rows")
    except (ValueError, RecursionError) as error:
        wrong = f"not JSON, {error}"
    if wrong:
        raise OSError(f"{path} is damaged ({wrong}). Delete it and the rows in the same folder to compute them again.")
    found: dict[str, Any] = content
    return found


def misfit(value: Any, form: Any, where: str = "the record") -> str:
    """Return the first difference between a record and its form; empty if there is none."""
    if isinstance(form, list) and isinstance(value, list):
        parts = [(str(place), part, form[0]) for place, part in enumerate(value)]
    elif isinstance(form, dict) and isinstance(value, dict):
        names = value if "*" in form else form
        parts = [(name, value.get(name), form.get("*", form.get(name))) for name in names]
    elif (form is type(value) or (form is float and type(value) is int)) and (form is str or abs(value) < LARGE):
        parts = []
    else:
        return f"{where} is {value!r:.40}"
    return next(filter(None, (misfit(part, inner, f"{where}, {name}") for name, part, inner in parts)), "")


def _mentioned(content: Mapping[str, Any]) -> set[str]:
    """Return the environments that rows and features were made with."""
    of_runs = {name for record in content["runs"].values() for name in record["environments"]}
    return of_runs | {record["environment"] for record in content["features"].values()}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
