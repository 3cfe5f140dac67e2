"""Options for evidence in the formats of other programs: JUnit, SARIF, in-toto, CycloneDX, Hugging Face."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli.options import EVIDENCE, Command, option, together

if TYPE_CHECKING:
    from flipproof.auditing.audit_result import Audit

#: Endings that each option takes.
ENDINGS = {
    "junit": (".xml",),
    "sarif": (".sarif", ".json"),
    "attestation": (".json",),
    "bom": (".json",),
    "model_card": (".md",),
}


def _file_option(name: str, says: str) -> Callable[[Command], Command]:
    return option(name, group=EVIDENCE, type=click.Path(path_type=Path), metavar="FILE", help=says)


evidence_options = together(
    _file_option("--junit", "Write JUnit XML, one test case per requirement (.xml)."),
    _file_option(
        "--sarif", "Write labels, rows or annotators to check, with their lines in the training file (.sarif)."
    ),
    _file_option("--attestation", "Write an unsigned in-toto Statement about the requirements (.json)."),
    _file_option("--bom", "Write a CycloneDX 1.6 bill of materials with a model card (.json; usually .cdx.json)."),
    _file_option("--model-card", "Write a model card for the Hugging Face Hub (.md; the Hub expects README.md)."),
)


@dataclass(frozen=True)
class EvidenceFiles:
    """Values of these options."""

    junit: Path | None
    sarif: Path | None
    attestation: Path | None
    bom: Path | None
    model_card: Path | None

    @classmethod
    def taken_from(cls, options: dict[str, object]) -> EvidenceFiles:
        """Remove these options from a command's options and return them."""
        # click has read values of the right types
        values: dict[str, Any] = {name: options.pop(name) for name in ENDINGS}
        return cls(**values)

    @property
    def given(self) -> dict[str, Path]:
        """The files to write, by format."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {form: path for form, path in values.items() if path is not None}

    def check(self, inputs: Iterable[Path | None], others: Iterable[Path | None]) -> None:
        """Raise ValueError or OSError if a file cannot be written, is an input, or is named twice."""
        from flipproof.cli.output import check_file

        taken = list(others)
        for form, path in self.given.items():
            check_file(path, ENDINGS[form], inputs, taken)
            taken.append(path)

    def check_sarif(self, in_blocks: bool, train: object, methods: Iterable[str], changes: str) -> None:
        """Raise UsageError if it is known before the computation that there is nothing to locate."""
        if self.sarif is None:
            return
        if in_blocks:
            raise click.UsageError("--sarif requires training rows in memory: give a single file.")
        if train is not None and str(train) == "-":
            raise click.UsageError("--sarif lists lines of the training file, but --train is standard input.")
        first = next(iter(methods), "exact")
        if first != "exact":
            raise click.UsageError(f"--sarif requires exact as the first --method. Got {first} instead.")
        if changes == "insertions":
            raise click.UsageError("--sarif lists training rows to check, but insertions change none of them.")

    def located(self, result: Audit, summary: Mapping[str, object]) -> dict[Path, bytes]:
        """Return the file with what to check; it may be refused, so call this before any file is written."""
        if self.sarif is None:
            return {}
        from flipproof.report.evidence import render

        return {self.sarif: render(result.evidence("sarif", summary=summary), "sarif").encode()}

    def contents(
        self, result: Audit, summary: Mapping[str, object], tables: Mapping[Path, bytes], proof: Path | None
    ) -> dict[Path, bytes]:
        """Return all other files; `tables` and the proof, which is written already, are named by digest."""
        forms = {form: path for form, path in self.given.items() if form != "sarif"}
        if not forms:
            return {}
        from flipproof.report.evidence import Artifact, render
        from flipproof.runtime.files import digest_of, digest_of_file, portable_path

        outputs = [Artifact("certificates", portable_path(path), digest_of(one)) for path, one in tables.items()]
        if proof is not None:
            outputs.append(Artifact("proof", portable_path(proof), digest_of_file(proof)))
        return {
            path: render(result.evidence(form, outputs=outputs, summary=summary), form).encode()
            for form, path in forms.items()
        }
