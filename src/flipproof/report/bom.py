"""A CycloneDX 1.6 bill of materials of a model (ML-BOM), with a model card.

The library of CycloneDX for Python has no model cards (its components have no `modelCard`), so the document is built
here. Tests validate it with the strict validator of that library, against the official schema.
"""

from __future__ import annotations

import datetime
import json
import os
import uuid
from typing import Any

from flipproof.errors import InputError
from flipproof.report.evidence import Artifact, Evidence, Figure, json_text

#: Environment variable with the time to state, in seconds since 1970: https://reproducible-builds.org
EPOCH = "SOURCE_DATE_EPOCH"

#: Namespace of serial numbers, which follow from the content.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://cyclonedx.org/schema/bom-1.6.schema.json#flipproof")


def render_bom(evidence: Evidence) -> str:
    """Return the bill of materials: the model with its model card, and the files that it was made of.

    The same audit writes the same bytes: the serial number follows from the content, and there is a timestamp only if
    the environment variable SOURCE_DATE_EPOCH states it.
    """
    data = [_data_component(one, place) for place, one in enumerate(evidence.data) if one.role != "model"]
    refs = [one["bom-ref"] for one in data]
    content = {
        "version": 1,
        "metadata": {
            **_timestamp(),
            "tools": {
                "components": [{"type": "application", "name": "flipproof", "version": evidence.versions["flipproof"]}]
            },
            "component": _model(evidence, refs),
        },
        "components": data,
        "dependencies": [{"ref": "model", "dependsOn": refs}, *({"ref": ref} for ref in refs)],
    }
    serial = uuid.uuid5(NAMESPACE, json.dumps(content, sort_keys=True))
    return json_text({"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{serial}", **content})


def _timestamp() -> dict[str, str]:
    given = os.environ.get(EPOCH)
    if not given:
        return {}
    try:
        moment = datetime.datetime.fromtimestamp(int(given), datetime.UTC)
    except (ValueError, OverflowError, OSError):
        raise InputError(f"{EPOCH} must be a number of seconds since 1970. Got {given!r} instead.") from None
    return {"timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _model(evidence: Evidence, refs: list[str]) -> dict[str, Any]:
    model = next((one for one in evidence.subjects if one.role == "model"), None)
    found: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": model.name if model else f"{evidence.learner['name']} of {evidence.summary['facts']['training_file']}",
    }
    if model is not None and model.sha256:
        found["hashes"] = _hashes(model)
    return {**found, "modelCard": _model_card(evidence, refs), "properties": _outputs(evidence)}


def _outputs(evidence: Evidence) -> list[dict[str, str]]:
    return [
        {"name": f"flipproof:sha256:{one.role}", "value": f"{one.sha256} {one.name}"}
        for one in evidence.subjects
        if one.role != "model"
    ]


def _model_card(evidence: Evidence, refs: list[str]) -> dict[str, Any]:
    summary, learner = evidence.summary, evidence.learner
    method = summary["methods"][0]
    limits = [*(one["sentence"] for one in method["assumptions"]), *summary["voids"]]
    return {
        "modelParameters": {
            "approach": {"type": "supervised"},
            "task": "classification",
            "architectureFamily": str(learner["name"]),
            "datasets": [{"ref": ref} for ref in refs],
        },
        "quantitativeAnalysis": {"performanceMetrics": [*_metrics(evidence), *_recalls(evidence)]},
        "considerations": {
            "technicalLimitations": limits,
            "ethicalConsiderations": [
                {"name": "Poisoned training data", "mitigationStrategy": summary["headline"]["text"]}
            ],
        },
        "properties": [
            {"name": "flipproof:method", "value": method["method"]},
            {"name": "flipproof:unit", "value": summary["problem"]["unit"]},
            *(
                {"name": f"flipproof:requirement:{'met' if one.passed else 'not met'}", "value": one.name}
                for one in evidence.tests
            ),
            *({"name": f"flipproof:parameter:{name}", "value": str(value)} for name, value in learner.items()),
        ],
    }


def _metrics(evidence: Evidence) -> list[dict[str, str]]:
    def metric(one: Figure) -> dict[str, str]:
        return {"type": one.says, "value": one.share}

    return [metric(one) for one in (*evidence.figures, *evidence.against_rows)]


def _recalls(evidence: Evidence) -> list[dict[str, str]]:
    """Return the certified recall of each class, a slice of the test rows, at the same numbers of changes."""
    summary = evidence.summary
    if not summary["problem"]["truth_known"]:
        return []
    from flipproof.readable import four_decimals

    return [
        {
            "type": f"certified recall at {figure.at}",
            "value": four_decimals(count / row["n"]),
            "slice": f"class {row['class']}",
        }
        for row in summary["by_class"]["rows"]
        if row["n"]
        for figure, count in zip(evidence.figures, row["table_certified"], strict=True)
    ]


def _data_component(artifact: Artifact, place: int) -> dict[str, Any]:
    described = f"{artifact.role} rows{f': {artifact.note}' if artifact.note else ''}"
    return {
        "type": "data",
        "bom-ref": f"data-{place}",
        "name": artifact.name,
        **({"hashes": _hashes(artifact)} if artifact.sha256 else {}),
        "data": [{"type": "dataset", "name": artifact.name, "description": described}],
    }


def _hashes(artifact: Artifact) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": str(artifact.sha256)}]
