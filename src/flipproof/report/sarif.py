"""Labels, rows and annotators to check as SARIF 2.1.0: code review shows them beside lines of the training file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from flipproof.report.evidence import Artifact, Evidence, json_text
from flipproof.report.findings import ANNOTATOR, LABEL, ROW, Finding

SCHEMA = "https://raw.githubusercontent.com/oasis-tcs/sarif-spec/master/Schemata/sarif-schema-2.1.0.json"

#: Folder that a relative path starts from, by convention the root of the sources.
SOURCE_ROOT = "%SRCROOT%"

#: Folder of a training file that is outside of the working directory.
DATA_FOLDER = "DATA"

#: Key of the fingerprint of a result.
FINGERPRINT = "flipproofFinding/v1"

NOT_AN_ERROR = "It is useful to an attacker; this does not say that it is wrong."
NOT_MALICE = "They are useful to an attacker; this does not say that they are wrong."

RULES: Mapping[str, Mapping[str, str]] = {
    LABEL: {
        "id": "FLIP001",
        "name": "LabelToCheck",
        "short": "A training label to check first",
        "full": "This label is part of the smallest attacks on the most fragile predictions: an attacker who could "
        f"change few labels would change this one. {NOT_AN_ERROR}",
    },
    ROW: {
        "id": "FLIP002",
        "name": "RowToCheck",
        "short": "A training row to check first",
        "full": "This row is removed or replaced by the smallest attacks on the most fragile predictions. "
        f"{NOT_AN_ERROR}",
    },
    ANNOTATOR: {
        "id": "FLIP003",
        "name": "AnnotatorToCheck",
        "short": "An annotator to check first",
        "full": "This annotator takes part in the smallest attacks on the most fragile predictions. The location is "
        f"the first of their labels. {NOT_MALICE}",
    },
}

#: Levels of findings: whether they overturn a prediction without any other change.
ALONE, WITH_OTHERS = "warning", "note"


def render_sarif(evidence: Evidence) -> str:
    """Return what to check first as SARIF 2.1.0: results with locations in the training file.

    Soundness: a result says how many attacks a label is part of. It never says that a label is wrong.
    """
    training = next(one for one in evidence.data if one.role == "training")
    location, bases = _location(training)
    kinds = [kind for kind in RULES if any(one.kind == kind for one in evidence.findings)]
    run = {
        "tool": {
            "driver": {
                "name": "flipproof",
                "version": evidence.versions["flipproof"],
                "rules": [_rule(RULES[kind]) for kind in kinds],
            }
        },
        "invocations": [{"executionSuccessful": True, **_command(evidence)}],
        **({"originalUriBaseIds": bases} if bases else {}),
        "artifacts": [
            {
                "location": location,
                "roles": ["analysisTarget"],
                **({"hashes": {"sha-256": training.sha256}} if training.sha256 else {}),
            }
        ],
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, kinds, location, evidence) for one in evidence.findings],
    }
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(rule: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": rule["id"],
        "name": rule["name"],
        "shortDescription": {"text": rule["short"]},
        "fullDescription": {"text": rule["full"]},
        "help": {"text": rule["full"]},
        "defaultConfiguration": {"level": WITH_OTHERS},
    }


def _command(evidence: Evidence) -> dict[str, str]:
    command = evidence.summary["facts"].get("command")
    return {} if command is None else {"commandLine": command}


def _location(training: Artifact) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the place of the training file, relative to a folder, and that folder unless it is the usual one."""
    path = PurePath(training.name)
    is_below = not path.is_absolute() and ".." not in path.parts and path.parts[:1] != ("~",)
    if is_below:
        return {"uri": quote(path.as_posix()), "uriBaseId": SOURCE_ROOT, "index": 0}, {}
    where = {"text": "The folder of the training file, outside of the working directory."}
    return {"uri": quote(path.name), "uriBaseId": DATA_FOLDER, "index": 0}, {DATA_FOLDER: {"description": where}}


def _result(finding: Finding, kinds: list[str], location: Mapping[str, object], evidence: Evidence) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": dict(location)}
    if finding.line is not None and not evidence.is_compressed:  # lines of a compressed file are those of its content
        physical["region"] = {"startLine": finding.line}
    return {
        "ruleId": RULES[finding.kind]["id"],
        "ruleIndex": kinds.index(finding.kind),
        "level": ALONE if finding.n_alone else WITH_OTHERS,
        "rank": round(100 * finding.n_attacks / max(finding.n_attacked, 1), 1),
        "message": {"text": _message(finding, evidence.is_compressed)},
        "locations": [
            {
                "physicalLocation": physical,
                "logicalLocations": [{"name": finding.name, "kind": finding.kind}],
            }
        ],
        "partialFingerprints": {FINGERPRINT: finding.fingerprint},
        "properties": {"attacks": finding.n_attacks, "attacked": finding.n_attacked, "alone": finding.n_alone},
    }


def _message(finding: Finding, is_compressed: bool) -> str:
    """Say what to check, and why, in one line."""
    of_file = " of the decompressed file" if is_compressed else ""
    place = "" if finding.line is None else f" (line {finding.line:,}{of_file})"
    label = "" if finding.label is None else f" {finding.label!r}"
    what = {
        LABEL: f"Check the label{label} of training row {finding.name}{place}: it",
        ROW: f"Check training row {finding.name}{place}: it",
        ANNOTATOR: f"Check the labels by annotator {finding.name}: they",
    }[finding.kind]
    is_part = "take part in" if finding.kind == ANNOTATOR else "is part of"
    alone = f"; {finding.n_alone:,} of them need no other change" if finding.n_alone else ""
    said = (
        f"{what} {is_part} {finding.n_attacks:,} of the smallest attacks on the {finding.n_attacked:,} most fragile "
        f"predictions{alone}."
    )
    return " ".join(said.split())
