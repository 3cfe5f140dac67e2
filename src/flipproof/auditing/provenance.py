"""Where the data and the model of an audit came from."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flipproof.certificates import Certificates
from flipproof.fitting import (
    DataChoice,
    Fitted,
    ModelChoice,
    is_path,
    source_name,
    table_model,
)
from flipproof.fitting.crowd import CrowdChoice
from flipproof.fitting.sources import Source
from flipproof.learners.table_model import TableModel
from flipproof.runtime.files import digest_of_file, portable_path

if TYPE_CHECKING:
    from flipproof.fitting.regressor import NumberChoice


@dataclass(frozen=True)
class Provenance:
    """Data, learner, checksums and versions of an audit.

    Attributes
    ----------
    training, test : str
        Paths, or types of the objects given.
    n_train, n_test : int
        Numbers of rows.
    label : str or None
        Label column.
    columns, encoding : tuple of str
        Feature columns, and descriptions of their encoding.
    learner : mapping
        Its name and parameters.
    digests : mapping of str
        SHA-256 of the files.
    versions : mapping of str
        Versions of Python and of the libraries that affect the results.
    seconds : float
        Duration of the audit.
    n_files, n_bytes : int, optional
        Number and total size of the training files, if there are several.
    reference : str, optional
        Path of the reference, or type of the object given.
    n_reference : int, optional
        Number of its rows.
    model, model_sha256 : str, optional
        Path of the file with the model, if it was fitted before, and SHA-256 of this file.
    n_items : int, optional
        Number of training items, if they have several labels; `n_train` is then the number of labels.
    labels : str, optional
        Path of the file of these labels, or type of the object given.
    aggregate : {"votes", "majority"}, optional
        What votes: each of these labels, or the majority of each item.
    n_unclear : int
        How many items that were held out are no test rows, because the majority of their labels is not clear.
    """

    training: str
    test: str
    n_train: int
    n_test: int
    label: str | None
    columns: tuple[str, ...]
    encoding: tuple[str, ...]
    learner: Mapping[str, Any]
    digests: Mapping[str, str]
    versions: Mapping[str, str]
    seconds: float
    n_files: int | None = None
    n_bytes: int | None = None
    reference: str | None = None
    n_reference: int | None = None
    model: str | None = None
    model_sha256: str | None = None
    n_items: int | None = None
    labels: str | None = None
    aggregate: str | None = None
    n_unclear: int = 0

    def facts(self, **more: object) -> dict[str, Any]:
        """Return the facts for a report, together with `more`."""
        files = {} if self.n_files is None else {"training_files": self.n_files, "training_bytes": self.n_bytes}
        reference = {"reference_file": self.reference, "reference_rows": self.n_reference}
        crowd = {"items": self.n_items, "labels_file": self.labels, "aggregate": self.aggregate}
        columns = {"label_column": self.label, "columns_used": list(self.columns), "encoding": list(self.encoding)}
        return {
            "training_file": self.training,
            **files,
            "training_rows": self.n_train,
            **{name: value for name, value in crowd.items() if value is not None},
            **({} if self.reference is None else reference),
            "test_file": self.test,
            "test_rows": self.n_test,
            **({"held_out_items_without_majority": self.n_unclear} if self.n_unclear else {}),
            **({} if self.label is None else columns),  # arrays have no columns
            "learner": dict(self.learner),
            "sha256": dict(self.digests),
            **more,
            "seconds": round(self.seconds, 1),
        }


def in_parts(name: str) -> str:
    """Return the key of the digest of files that are too large to be read once more: of parts of them."""
    return f"{name} (names, sizes and footers of its Parquet files)"


def provenance_of(
    data: DataChoice, choice: ModelChoice, fitted: Fitted, main: Certificates, began: float
) -> Provenance:
    """Return where the training and test rows of an audit came from, and the learner that was fitted."""
    from flipproof.report.summary import software
    from flipproof.tables.file_content import digest_of_source

    training = source_in_report(data.train)
    digests, n_files, n_bytes = _training_files(data, fitted)
    if data.crowd is not None and is_path(data.crowd.labels):
        digests[source_in_report(data.crowd.labels)] = digest_of_source(data.crowd.labels)
    if is_path(data.reference):
        digests[source_in_report(data.reference)] = digest_of_source(data.reference)
    if is_path(data.test):
        digests[source_in_report(data.test)] = digest_of_source(data.test)
    drawn_from = Path(training).name if is_path(data.train) else training
    test = (
        source_in_report(data.test) if data.test is not None else f"{data.holdout:g} of {drawn_from}, seed {data.seed}"
    )
    return Provenance(
        training=training,
        test=test,
        n_train=main.n_train,
        n_test=len(fitted.test),
        label=None if data.roles is None else data.roles.label,
        columns=fitted.columns,
        encoding=fitted.encoding,
        learner={"name": choice.name, **_parameters_of(fitted.model)},
        digests=digests,
        versions=software(),
        seconds=time.perf_counter() - began,
        reference=None if data.reference is None else source_in_report(data.reference),
        n_reference=fitted.n_reference,
        n_files=n_files,
        n_bytes=n_bytes,
        **_about_crowd(fitted, data.crowd),
        n_unclear=fitted.n_unclear,
    )


def provenance_of_numbers(data: DataChoice, numbers: NumberChoice, fitted: Fitted, began: float) -> Provenance:
    """Return the same for numeric targets."""
    from flipproof.report.summary import software
    from flipproof.tables.file_content import digest_of_source

    training = source_in_report(data.train)
    digests, n_files, n_bytes = _training_files(data, fitted)
    if is_path(data.test):
        digests[source_in_report(data.test)] = digest_of_source(data.test)
    held_out = f"{data.holdout:g} of {training}, seed {data.seed}" if data.holdout is not None else ""
    settings = fitted.model.get_params(deep=False)
    plain = json.loads(json.dumps({name: one for name, one in settings.items() if name != "features"}, default=str))
    return Provenance(
        training=training,
        test=held_out if data.test is None else source_in_report(data.test),
        n_train=fitted.model.n_rows_,
        n_test=len(fitted.test),
        label=None if data.roles is None else data.roles.label,
        columns=fitted.columns,
        encoding=fitted.encoding,
        learner={"name": numbers.name, **plain},
        digests=digests,
        versions=software(),
        seconds=time.perf_counter() - began,
        n_files=n_files,
        n_bytes=n_bytes,
    )


def _training_files(data: DataChoice, fitted: Fitted) -> tuple[dict[str, str], int | None, int | None]:
    """Return the digest of the training rows, if they are files, and number and size of files in blocks."""
    from flipproof.tables.file_content import digest_of_source

    training = source_in_report(data.train)
    if fitted.files:
        from flipproof.streaming.sample import fingerprint

        n_bytes = sum(file.stat().st_size for file in fitted.files)
        return {in_parts(training): fingerprint(fitted.files)}, len(fitted.files), n_bytes
    return ({training: digest_of_source(data.train)} if is_path(data.train) else {}), None, None


def _about_crowd(fitted: Fitted, crowd: CrowdChoice | None = None) -> dict[str, Any]:
    """Return what is known about several labels per item, if there are any."""
    from flipproof.learners.pipeline import learner_in

    learner = learner_in(fitted.model)
    if fitted.train is None or len(fitted.train) == learner.n_rows_:
        return {}
    aggregate = "majority" if getattr(learner, "majority_first", False) else "votes"
    labels = None if crowd is None or crowd.labels is None else source_in_report(crowd.labels)
    return {"n_items": learner.n_rows_, "aggregate": aggregate, "labels": labels}


def described_fit(
    data: DataChoice, choice: ModelChoice, fitted: Fitted, began: float, main: Certificates
) -> tuple[Provenance, TableModel | None]:
    """Return the provenance of a fit, and the model with its encoder if it reads tables."""
    provenance = provenance_of(data, choice, fitted, main, began)
    return provenance, table_model(data, choice, fitted, provenance.digests)


@dataclass(frozen=True)
class ModelBefore:
    """A model that was fitted before, its name in reports, and its digest."""

    model: Any
    name: str
    digest: str
    file_digest: str | None = None

    @classmethod
    def of(cls, given: object, n_jobs: int | None, verbose: int) -> ModelBefore:
        """Load a model from a file, or take a fitted one."""
        from flipproof.learners.pipeline import learner_in
        from flipproof.store import load, model_digest

        model = load(given) if is_path(given) else given
        digest = model_digest(given)
        learner = model.learner if isinstance(model, TableModel) else learner_in(model)
        if is_path(given):  # a model in memory belongs to the caller
            learner.set_params(n_jobs=n_jobs, verbose=verbose)
        if not is_path(given):
            return cls(model, type(learner).__name__, digest)
        return cls(model, source_in_report(given), digest, digest_of_file(Path(given)))

    def described(
        self, test: Source | None, fitted: Fitted, began: float, main: Certificates
    ) -> tuple[Provenance, TableModel | None]:
        """Return where the model and the test rows came from, and the model itself if it reads tables."""
        from flipproof.report.summary import software
        from flipproof.tables.file_content import digest_of_source

        deployed = self.model if isinstance(self.model, TableModel) else None
        source = {} if deployed is None else dict(deployed.source)
        digests = {**source.get("digests", {}), f"model {self.name}": self.digest}
        if is_path(test):
            digests[source_in_report(test)] = digest_of_source(test)
        learner = type(fitted.model).__name__ if deployed is None else source.get("learner")
        return (
            Provenance(
                training=source.get("training", "rows of the model"),
                test=source_in_report(test),
                n_train=main.n_train,
                n_test=len(fitted.test),
                label=None if deployed is None else deployed.roles.label,
                columns=fitted.columns,
                encoding=fitted.encoding,
                learner={"name": learner, **_parameters_of(fitted.model)},
                digests=digests,
                versions=software(),
                seconds=time.perf_counter() - began,
                reference=source.get("reference"),
                n_reference=fitted.n_reference,
                model=None if self.file_digest is None else self.name,
                model_sha256=self.file_digest,
                **_about_crowd(fitted),
            ),
            deployed,
        )


def source_in_report(given: object) -> str:
    """Return the name of a source of rows in a report, without folders of this machine that the caller did not name."""
    return portable_path(source_name(given)) if is_path(given) else source_name(given)


def _parameters_of(model: Any) -> dict[str, Any]:
    """Return a learner's parameters as plain values."""
    left_out = ("features", "verbose")
    own = {name: value for name, value in model.get_params(deep=False).items() if name not in left_out}
    return dict(json.loads(json.dumps(own, default=str)))
