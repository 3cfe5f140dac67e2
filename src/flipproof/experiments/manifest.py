"""What a set of results was made from: versions, seeds, checksums, and how long it took."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from flipproof.datasets import Dataset
from flipproof.experiments.spec import Experiment, Run
from flipproof.files import write_whole

MANIFEST = "manifest.json"

#: Packages whose versions are on record, if they are installed.
PACKAGES = ("flipproof", "numpy", "scipy", "scikit-learn", "torch", "umap-learn")

#: What a run is called and what is said of it does not change its rows.
TALK = ("name", "group", "published", "note", "only_with")


class Manifest:
    """The record beside the rows, read from and written to a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / MANIFEST
        self.content: dict[str, Any] = json.loads(self._path.read_text()) if self._path.exists() else {}
        self.content.setdefault("runs", {})

    @property
    def runs(self) -> dict[str, Any]:
        """What is known of each run."""
        runs: dict[str, Any] = self.content["runs"]
        return runs

    def describe(
        self, experiment: Experiment, data: Dataset, n_train: int, seed: int, quick: bool, features: Mapping[str, str]
    ) -> None:
        """Record what everything is made from."""
        self.content |= {
            "experiment": experiment.name,
            "spec": experiment.fingerprint,
            "seed": seed,
            "quick": quick,
            "n_train": n_train,
            "data": {"provenance": data.provenance, "checksums": dict(data.checksums)},
            "features": dict(features),
            "python": platform.python_version(),
            "machine": platform.machine(),
            "versions": {name: found for name in PACKAGES if (found := _version(name))},
        }

    def save(self) -> None:
        """Write the record."""
        write_whole(self._path, (json.dumps(self.content, indent=1, sort_keys=True) + "\n").encode())


def fingerprint(run: Run, recipe: str) -> str:
    """Return what identifies the rows of a run: the classifier, and how its features came about."""
    settings = {name: value for name, value in asdict(run).items() if name not in TALK}
    return hashlib.sha256(json.dumps([settings, recipe], sort_keys=True, default=str).encode()).hexdigest()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
