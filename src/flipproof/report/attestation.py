"""An unsigned in-toto Statement, version 1, about a test result: sign it, and policies can require it."""

from __future__ import annotations

from typing import Any

from flipproof.report.evidence import Artifact, Evidence, json_text

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"


def render_attestation(evidence: Evidence) -> str:
    """Return an in-toto Statement: model and certificates by digest, what they rest on, and what was required.

    The predicate has the fields of its specification only. Certified accuracy at each radius is an annotation of the
    certificates, the learner's parameters are an annotation in the configuration.
    """
    tests = evidence.tests
    return json_text(
        {
            "_type": STATEMENT,
            "subject": [_subject(one, evidence) for one in evidence.subjects],
            "predicateType": TEST_RESULT,
            "predicate": {
                "result": "PASSED" if evidence.passed else "FAILED",
                "configuration": _configuration(evidence),
                "passedTests": [one.name for one in tests if one.passed],
                "warnedTests": [],
                "failedTests": [one.name for one in tests if not one.passed],
            },
        }
    )


def _subject(artifact: Artifact, evidence: Evidence) -> dict[str, Any]:
    found: dict[str, Any] = {"name": artifact.name, "digest": {"sha256": artifact.sha256}}
    annotations: dict[str, Any] = {"role": artifact.role}
    if artifact.note:
        annotations["note"] = artifact.note
    if artifact.role == "certificates":
        annotations |= _certified(evidence)
    return {**found, "annotations": annotations}


def _certified(evidence: Evidence) -> dict[str, Any]:
    """Return certified accuracy at each radius, as counts of test rows, and what it rests on."""
    problem, method = evidence.summary["problem"], evidence.summary["methods"][0]
    return {
        "measure": evidence.measure,
        "method": method["method"],
        "unit": problem["unit"],
        "changes": problem["changes"],
        "testRows": problem["n_test"],
        "radius": [one.changes for one in evidence.curve],
        "certifiedRows": [one.count for one in evidence.curve],
        "assumptions": [one["code"] for one in method["assumptions"]],
        "found": {one.name: one.found for one in evidence.tests},
    }


def _configuration(evidence: Evidence) -> list[dict[str, Any]]:
    data = [
        {
            "name": one.name,
            **({"digest": {"sha256": one.sha256}} if one.sha256 else {}),
            "annotations": {"role": one.role, **({"note": one.note} if one.note else {})},
        }
        for one in evidence.data
    ]
    learner = {"name": f"learner {evidence.learner['name']}", "annotations": {"parameters": dict(evidence.learner)}}
    software = {"name": "software", "annotations": {"versions": dict(evidence.versions)}}
    command = evidence.summary["facts"].get("command")
    ran = [] if command is None else [{"name": "command", "annotations": {"line": command}}]
    return [*data, learner, software, *ran]
