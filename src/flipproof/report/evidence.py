"""Evidence: what an audit found, in the formats of continuous integration, bills of materials and attestations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flipproof.readable import four_decimals
from flipproof.report.facts import single_requirements
from flipproof.report.findings import Finding
from flipproof.report.words import flips_words

#: Formats, and the endings by which `Audit.save` knows them.
EVIDENCE_ENDINGS = {
    "junit": ".xml",
    "sarif": ".sarif",
    "attestation": ".intoto.json",
    "bom": ".cdx.json",
    "model_card": ".modelcard.md",
}

#: Name of the one test case of an audit without requirements.
NO_REQUIREMENT = "certify"


@dataclass(frozen=True)
class Artifact:
    """A file or a table that an audit read or wrote.

    Attributes
    ----------
    role : {"training", "test", "reference", "model", "certificates", "proof"}
        What it is.
    name : str
        Its path, or a description.
    sha256 : str or None
        SHA-256 of the file; None if there is no file, or it was not read whole.
    note : str
        What else is known, for people.
    """

    role: str
    name: str
    sha256: str | None = None
    note: str = ""

    def __post_init__(self) -> None:
        # a path may have bytes that are no text, which other programs refuse
        object.__setattr__(self, "name", self.name.encode("utf-8", "replace").decode("utf-8"))


@dataclass(frozen=True)
class Test:
    """A requirement as a test."""

    __test__ = False  # pytest would take it for a test case

    name: str
    passed: bool
    found: str


@dataclass(frozen=True)
class Figure:
    """How many test rows are certified at a number of changes."""

    changes: float
    count: int
    share: str
    measure: str
    at: str

    @property
    def says(self) -> str:
        """The measure and the number of changes, such as "certified accuracy at 20 changed labels"."""
        return f"{self.measure} at {self.at}"


@dataclass(frozen=True)
class Evidence:
    """What an audit found, and the files that it is about.

    Attributes
    ----------
    summary : mapping
        The content of the report.
    data : tuple of Artifact
        Files that were read.
    subjects : tuple of Artifact
        What the evidence is about: the model, if it is in a file, and the certificates.
    findings : tuple of Finding
        What to check first, for SARIF.
    is_compressed : bool
        Whether the training file is compressed.
    """

    summary: Mapping[str, Any]
    data: tuple[Artifact, ...]
    subjects: tuple[Artifact, ...]
    findings: tuple[Finding, ...] = ()
    is_compressed: bool = False

    @property
    def tests(self) -> list[Test]:
        """The requirements; if there are none, one test that passes."""
        required = single_requirements(self.summary["requirement"])
        names = _distinct([" ".join(str(one["text"]).split()) for one in required])
        found = [Test(name, bool(one["met"]), _found_words(one)) for name, one in zip(names, required, strict=True)]
        return found or [Test(NO_REQUIREMENT, True, self.summary["headline"]["text"])]

    @property
    def passed(self) -> bool:
        """Whether all requirements are met."""
        return all(one.passed for one in self.tests)

    @property
    def learner(self) -> Mapping[str, Any]:
        """Name and parameters of the learner."""
        return dict(self.summary["facts"].get("learner", {"name": "unknown"}))

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of Python and of the libraries that affect the results."""
        return dict(self.summary["software"])

    @property
    def measure(self) -> str:
        """What is counted: correct predictions that are certified, or all that are, if true classes are unknown."""
        return "certified accuracy" if self.summary["problem"]["truth_known"] else "certified predictions"

    @property
    def figures(self) -> list[Figure]:
        """Certified accuracy of the first method at each number of changes in the tables of a report."""
        return self._figures(self.summary, "table_flips", "table_")

    @property
    def curve(self) -> list[Figure]:
        """The same at each number of changes in the curves of a report."""
        return self._figures(self.summary, "flips", "")

    @property
    def against_rows(self) -> list[Figure]:
        """The same against changed rows, if they are certified beside changed labels."""
        about = self.summary["rows"]
        return [] if about is None or about["also"] is None else self._figures(about["also"], "table_flips", "table_")

    def _figures(self, of: Mapping[str, Any], flips: str, prefix: str) -> list[Figure]:
        problem, method = of["problem"], of["methods"][0]
        counts = method[f"{prefix}{'correct_certified' if problem['truth_known'] else 'certified'}"]
        total = problem["n_test"]
        return [
            Figure(
                changes,
                count,
                four_decimals(count / total) if total else "0.0000",
                self.measure,
                flips_words(changes, problem),
            )
            for changes, count in zip(of[flips], counts, strict=True)
        ]


def render(evidence: Evidence, form: str) -> str:
    """Return evidence as the text of a file.

    Parameters
    ----------
    evidence : Evidence
        What to show.
    form : {"junit", "sarif", "attestation", "bom", "model_card"}
        The format.
    """
    if form == "junit":
        from flipproof.report.junit import render_junit

        return render_junit(evidence)
    if form == "sarif":
        from flipproof.report.sarif import render_sarif

        return render_sarif(evidence)
    if form == "attestation":
        from flipproof.report.attestation import render_attestation

        return render_attestation(evidence)
    if form == "bom":
        from flipproof.report.bom import render_bom

        return render_bom(evidence)
    if form == "model_card":
        from flipproof.report.model_card import render_model_card

        return render_model_card(evidence)
    raise ValueError(f"Evidence must be one of {', '.join(EVIDENCE_ENDINGS)}. Got {form!r} instead.")


def json_text(content: object) -> str:
    """Return JSON as the text of a file, in ASCII: other readers may guess the encoding."""
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _found_words(requirement: Mapping[str, object]) -> str:
    found = requirement.get("found")
    share = four_decimals(found) if isinstance(found, int | float) else str(found)
    of_class = "" if requirement.get("class") is None else f" (class {requirement['class']})"
    return f"{share}{of_class}"


def _distinct(names: Sequence[str]) -> list[str]:
    """Return names; one that occurs again is numbered."""
    return [
        name if name not in names[:place] else f"{name} ({names[:place].count(name) + 1})"
        for place, name in enumerate(names)
    ]
