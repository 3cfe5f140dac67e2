"""What a set of results was made from: versions, kernels, seeds, checksums, and how long it took."""

from __future__ import annotations

import json
import platform
from collections.abc import Collection, Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flipproof.experiments.spec import Experiment, Run
from flipproof.files import digest_of, write_whole
from flipproof.processor import kernels

MANIFEST = "manifest.json"

#: No number in a record is as large as this.
LARGE = 2**53

#: Packages whose versions are on record, if they are installed.
PACKAGES = ("flipproof", "numpy", "scipy", "scikit-learn", "torch", "umap-learn", "numba")

#: What a run is called and what is said of it does not change its rows.
NOT_IN_SETTINGS = ("name", "group", "published", "note", "only_with")

#: Which definition of the exact radius rows were computed by: 2 since a tie counts as lost only where it is.
RADII = 2

#: What a record consists of: a type, a table of these keys, a table of any names ("*"), or a list.
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
    """The record beside the rows, read from and written to a folder.

    Rows and features stay on record with what they were made with: a later call that finds them complete does not put
    its own versions in their place.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / MANIFEST
        self.content: dict[str, Any] = {"runs": {}, "features": {}, "environments": {}, "left_out": []}
        if self.path.exists():
            self.content = _read(self.path)

    @property
    def runs(self) -> dict[str, Any]:
        """What is known of each run."""
        runs: dict[str, Any] = self.content["runs"]
        return runs

    def describe(
        self, experiment: Experiment, sizes: tuple[int, int], seed: int, quick: bool, data: Mapping[str, Any]
    ) -> None:
        """Record what everything is made from."""
        self.content |= {
            "experiment": experiment.name,
            "spec": experiment.fingerprint,
            "seed": seed,
            "quick": quick,
            "n_train": sizes[0],
            "n_test": sizes[1],
            "data": dict(data),
        }

    def leave_out(self, names: Collection[str]) -> None:
        """Record the runs that are not completed here."""
        self.content["left_out"] = sorted(names)

    def start(self, run: str, settings: str, fingerprint: str, features: str) -> None:
        """Record a run whose rows are all still to be computed, and the checksum of its features, if they are kept."""
        about = {"settings": settings, "fingerprint": fingerprint, "features": features}
        self.runs[run] = {**about, "seconds": 0.0, "environments": []}

    def keep_runs(self, names: Collection[str]) -> None:
        """Forget all other runs."""
        self.content["runs"] = {name: record for name, record in self.runs.items() if name in names}

    def note_rows(self, run: str, seconds: float) -> None:
        """Record that rows of a run are computed here, in so many seconds."""
        record = self.runs[run]
        record["seconds"] = round(record["seconds"] + seconds, 1)
        record["environments"] = sorted({*record["environments"], self._named(environment())})
        self.save()

    def note_features(self, name: str, recipe: str, sha256: str, made_with: Mapping[str, Any]) -> None:
        """Record a file of features: how they came about, and the file's checksum."""
        self.content["features"][name] = {
            "recipe": digest_of(recipe),
            "sha256": sha256,
            "environment": self._named(made_with["environment"]),
            "data": dict(made_with["data"]),
        }

    def keep_features(self, recipes: Mapping[str, str]) -> None:
        """Forget all features but those that came about as is said; their files may be elsewhere."""
        self.content["features"] = {
            name: record
            for name, record in self.content["features"].items()
            if name in recipes and record["recipe"] == digest_of(recipes[name])
        }

    def save(self) -> None:
        """Write the record, with the environments that it mentions."""
        mentioned = _mentioned(self.content)
        environments = self.content["environments"]
        self.content["environments"] = {name: environments[name] for name in environments if name in mentioned}
        write_whole(self.path, (json.dumps(self.content, indent=1, sort_keys=True) + "\n").encode())

    def _named(self, described: Mapping[str, Any]) -> str:
        """Put an environment on record, and return its short name."""
        name = digest_of(json.dumps(described, sort_keys=True))[:8]
        self.content["environments"][name] = dict(described)
        return name


def environment() -> dict[str, Any]:
    """Return what rows and features are made with here: versions, and what decides about the last bits."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "versions": {name: found for name in PACKAGES if (found := _version(name))},
        "kernels": kernels(),
    }


def settings_of(experiment: Experiment, run: Run) -> str:
    """Return what identifies the settings of a run: those of the classifier, of its features, and of the loader."""
    settings = {name: value for name, value in asdict(run).items() if name not in NOT_IN_SETTINGS}
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
        wrong = f"no JSON, {error}"
    if wrong:
        raise OSError(f"{path} is damaged ({wrong}). Delete it and the rows beside it, and these are computed again.")
    found: dict[str, Any] = content
    return found


def misfit(value: Any, form: Any, where: str = "the record") -> str:
    """Return what is not as it should be in the record; empty if all is."""
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
