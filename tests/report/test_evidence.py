"""Evidence in the formats of other programs: valid by their schemas, true to the certificates, the same bytes again."""

import gzip
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hostile_strings import HOSTILE
from junitparser import JUnitXml
from official_schemas import check_attestation, check_bom, check_junit, check_model_card, check_sarif
from pyarrow import csv

import flipproof
from flipproof.report.as_json import cut
from flipproof.report.evidence import EVIDENCE_ENDINGS, Artifact, Evidence, render
from flipproof.report.findings import Finding
from flipproof.runtime.files import digest_of_file

#: The training file, in a folder with a space in its name.
TRAIN = Path("my data/train.csv")

CHECKS = {
    "junit": check_junit,
    "sarif": check_sarif,
    "attestation": check_attestation,
    "bom": check_bom,
    "model_card": check_model_card,
}


def emails(n, seed):
    """Emails by length and sender; the names of rows are paths with spaces, and one holds a line break."""
    rng = np.random.default_rng(seed)
    spam = rng.random(n) < 0.5
    return pa.table(
        {
            "key": [f"mail {seed}/{i}" + ("\nsecond line" if i == 3 else "") for i in range(n)],
            "length": rng.normal(size=n) + 2 * spam,
            "who": rng.integers(0, 12, n),
            "known": rng.random(n) < 0.5,
            "kind": np.where(spam, "spam", "ham"),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("a folder")
    (found / "my data").mkdir()
    csv.write_csv(emails(60, 1), found / "my data" / "train.csv")
    csv.write_csv(emails(20, 2), found / "test.csv")
    return found


def audited(folder, train="my data/train.csv", **options):
    before = os.getcwd()
    os.chdir(folder)
    try:
        given = {"label": "kind", "id": "key", "drop": ["who", "known"], "error_rate": 0, **options}
        return flipproof.audit(train, "test.csv", **given)
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def audit(folder):
    return audited(folder, requirements=["accuracy >= 0.5 @ 1", "recall >= 0.99 @ 9", "accuracy >= 0.5 @ 1"])


@pytest.fixture(autouse=True)
def _in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


@pytest.mark.parametrize("form", CHECKS)
def test_every_format_is_valid_and_written_by_its_ending(audit, form, tmp_path):
    text = getattr(audit, f"to_{form}")()
    CHECKS[form](text)
    path = tmp_path / f"evidence{EVIDENCE_ENDINGS[form].upper()}"
    audit.save(path)
    assert path.read_text("utf-8") == text
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("form", CHECKS)
def test_same_audit_same_bytes(folder, audit, form):
    again = audited(folder, requirements=["accuracy >= 0.5 @ 1", "recall >= 0.99 @ 9", "accuracy >= 0.5 @ 1"])
    assert render(again.evidence(form), form) == render(audit.evidence(form), form)


def test_junit_has_a_case_per_requirement(audit, tmp_path):
    check_junit(audit.to_junit())
    audit.save(tmp_path / "junit.xml")
    (suite,) = JUnitXml.fromfile(str(tmp_path / "junit.xml"))
    assert [case.name for case in suite] == [
        "accuracy >= 0.5 @ 1",
        "recall >= 0.99 @ 9",
        "accuracy >= 0.5 @ 1 (2)",
    ]
    assert [case.is_passed for case in suite] == [True, False, True]
    assert "found 0." in list(suite)[1].result[0].message


def test_junit_without_requirements_has_one_case(folder):
    root = check_junit(audited(folder, attack=False).to_junit())
    assert [case.get("name") for case in root.iter("testcase")] == ["certify"]


def test_sarif_points_at_the_lines_of_the_labels_to_check(audit):
    run = check_sarif(audit.to_sarif())
    lines = TRAIN.read_text("utf-8").split("\n")
    assert len(run["results"]) == len(audit.labels_to_audit.rows) > 5
    for result, row in zip(run["results"], audit.labels_to_audit.rows, strict=True):
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "my%20data/train.csv"
        first_line = audit.train.ids[row].split("\n")[0]
        assert lines[place["region"]["startLine"] - 1].startswith(f'"{first_line}')
        assert "\n" not in result["message"]["text"]
    assert run["artifacts"][0]["hashes"]["sha-256"] == digest_of_file(TRAIN)


def test_sarif_level_says_whether_one_change_is_enough(audit):
    alone = {int(rows[0]) for rows in audit.attacks.rows if len(rows) == 1}
    run = check_sarif(audit.to_sarif())
    levels = [result["level"] for result in run["results"]]
    assert levels == ["warning" if int(row) in alone else "note" for row in audit.labels_to_audit.rows]


def _marks(audit):
    run = check_sarif(audit.to_sarif())
    names = [result["locations"][0]["logicalLocations"][0]["name"] for result in run["results"]]
    return dict(
        zip(names, (result["partialFingerprints"]["flipproofFinding/v1"] for result in run["results"]), strict=True)
    )


@pytest.mark.parametrize("named", [True, False])
def test_fingerprints_stay_when_rows_are_sorted(folder, audit, named):
    table = csv.read_csv("my data/train.csv", parse_options=csv.ParseOptions(newlines_in_values=True))
    csv.write_csv(table.take(list(range(table.num_rows))[::-1]), "sorted.csv")
    options = {"id": "key"} if named else {"id": None, "drop": ["who", "known", "key"]}
    first, second = (audited(folder, train, **options) for train in ("my data/train.csv", "sorted.csv"))
    marks, again = (set(_marks(one).values()) for one in (first, second))
    assert len(marks & again) > 0.8 * len(marks)  # ties at the end of the list may be resolved otherwise


def test_holdout_keeps_the_lines_of_the_file(folder):
    found = flipproof.audit("my data/train.csv", label="kind", id="key", holdout=0.3, error_rate=0)
    lines = TRAIN.read_text("utf-8").split("\n")
    for result in check_sarif(found.to_sarif())["results"]:
        place = result["locations"][0]
        name = place["logicalLocations"][0]["name"].split("\n")[0]
        assert lines[place["physicalLocation"]["region"]["startLine"] - 1].startswith(f'"{name}')


@pytest.mark.parametrize(("ending", "says"), [(".csv.gz", "decompressed"), (".parquet", "training row")])
def test_sarif_has_no_lines_where_the_file_has_none(folder, ending, says):
    from pyarrow import parquet

    if ending == ".parquet":
        parquet.write_table(emails(60, 1), "train.parquet")
    else:
        with gzip.open("train.csv.gz", "wb") as file:
            csv.write_csv(emails(60, 1), file)
    for result in check_sarif(audited(folder, f"train{ending}").to_sarif())["results"]:
        assert "region" not in result["locations"][0]["physicalLocation"]
        assert says in result["message"]["text"]


def test_sarif_names_annotators(folder):
    found = audited(folder, annotator="who", drop=["known"])
    run = check_sarif(found.to_sarif())
    people = [one for one in run["results"] if one["ruleId"] == "FLIP003"]
    assert people
    assert {one["ruleId"] for one in run["results"]} == {"FLIP001", "FLIP003"}
    whom = people[0]["locations"][0]["logicalLocations"][0]["name"]
    first = next(row for row, who in enumerate(emails(60, 1)["who"].to_pylist()) if str(who) == whom)
    assert people[0]["locations"][0]["physicalLocation"]["region"]["startLine"] == first + 2 + (first > 3)


def test_sarif_of_rows(folder):
    found = audited(folder, reference="test.csv", changes="rows", clip=0.9)
    run = check_sarif(found.to_sarif())
    assert {one["ruleId"] for one in run["results"]} == {"FLIP002"}


def test_path_outside_of_the_working_directory_is_not_told(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = flipproof.audit(folder / "my data" / "train.csv", folder / "test.csv", label="kind", id="key", error_rate=0)
    text = found.to_sarif()
    run = check_sarif(text)
    assert run["artifacts"][0]["location"] == {"uri": "train.csv", "uriBaseId": "DATA", "index": 0}
    assert "DATA" in run["originalUriBaseIds"]
    assert str(folder) not in text


def test_attestation_states_certified_accuracy_at_each_radius(audit):
    content = check_attestation(audit.to_attestation())
    (subject,) = content["subject"]
    told = subject["annotations"]
    found = flipproof.certified_accuracy(audit.test.labels, audit.main, told["radius"])
    assert [count / told["testRows"] for count in told["certifiedRows"]] == found.tolist()
    assert content["predicate"]["result"] == "FAILED"
    assert content["predicate"]["failedTests"] == ["recall >= 0.99 @ 9"]
    digests = {one["name"]: one.get("digest") for one in content["predicate"]["configuration"]}
    assert digests[audit.provenance.training] == {"sha256": digest_of_file(TRAIN)}


def test_model_in_a_file_is_the_subject(audit, tmp_path):
    path = tmp_path / "model.flipproof"
    flipproof.save(audit.deployed, path)
    found = flipproof.audit(model=path, test="test.csv", error_rate=0)
    content = check_attestation(found.to_attestation())
    assert content["subject"][0]["digest"]["sha256"] == digest_of_file(path)
    bom = check_bom(found.to_bom())
    assert bom["metadata"]["component"]["hashes"][0]["content"] == digest_of_file(path)
    run = check_sarif(found.to_sarif())  # the file is known by name only
    assert all("region" not in one["locations"][0]["physicalLocation"] for one in run["results"])


def test_bom_has_a_model_card_with_figures(audit, monkeypatch):
    component = check_bom(audit.to_bom())["metadata"]["component"]
    assert component["type"] == "machine-learning-model"
    metrics = component["modelCard"]["quantitativeAnalysis"]["performanceMetrics"]
    values = {one["type"]: one["value"] for one in metrics if "slice" not in one}
    at_one = flipproof.certified_accuracy(audit.test.labels, audit.main, [1])[0]
    assert float(values["certified accuracy at 1 changed label"]) == pytest.approx(at_one, abs=1e-4)
    assert {one["slice"] for one in metrics if "slice" in one} == {"class ham", "class spam"}
    assert "timestamp" not in check_bom(audit.to_bom())["metadata"]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    assert check_bom(audit.to_bom())["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(ValueError, match="SOURCE_DATE_EPOCH"):
        audit.to_bom()


def test_model_card_results(audit):
    card = check_model_card(audit.to_model_card())
    found = {one.metric_args["changes"]: one.metric_value for one in card.data.eval_results if one.metric_args}
    accuracy = flipproof.certified_accuracy(audit.test.labels, audit.main, list(found))
    assert list(found.values()) == pytest.approx(accuracy.tolist(), abs=1e-4)
    assert card.data.eval_results[0].metric_type == "accuracy"


def test_without_true_classes(folder):
    csv.write_csv(emails(20, 2).drop_columns(["kind"]), "unknown.csv")
    found = flipproof.audit("my data/train.csv", "unknown.csv", label="kind", id="key", error_rate=0)
    for form, check in CHECKS.items():
        check(getattr(found, f"to_{form}")())
    assert "certified_predictions" in found.to_model_card()


def test_arrays_have_no_places():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 3)), rng.integers(0, 2, 40)
    found = flipproof.audit((X[:30], y[:30]), (X[30:], y[30:]), error_rate=0)
    for form in ("junit", "attestation", "bom", "model_card"):
        CHECKS[form](getattr(found, f"to_{form}")())
    with pytest.raises(ValueError, match="places in a training file"):
        found.to_sarif()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"attack": False}, "attack=True"),
        ({"methods": ["tight"]}, "exact"),
        ({"learner": "partition"}, "partition"),
        ({"reference": "test.csv", "changes": "insertions"}, "insertions"),
    ],
)
def test_sarif_is_refused_where_nothing_is_known(folder, options, says):
    found = audited(folder, **options)
    with pytest.raises(ValueError, match=says):
        found.to_sarif()


#: Beyond markup: control characters, line breaks, half of a character, and a byte order mark.
STRANGE = (
    *HOSTILE,
    "a\x00b\x1b[31m\x0b",
    "two\nlines\r\n",
    "half \ud800",
    "\ufeff---\n: [}",
    "]]> <!-- -->",
    "\U0001f40d",
)


@pytest.mark.parametrize("strange", STRANGE)
def test_strange_strings_are_escaped(hostile_summary, strange):
    path, strange = strange, cut(strange, 1000)  # as `summarize` does; paths come as they are
    told = {
        **hostile_summary,
        "title": strange,
        "requirement": {"text": strange, "met": False, "found": 0.5, "class": strange},
        "facts": {"training_file": strange, "test_file": strange, "learner": {"name": strange}, "command": strange},
    }
    told = json.loads(json.dumps(told))
    data = (Artifact("training", f"folder/{path}", "ab" * 32), Artifact("test", strange, "cd" * 32))
    finding = Finding("label", strange, 0, strange, 2, 3, 1, "ef" * 32, 7)
    evidence = Evidence(told, data, (Artifact("certificates", path, "01" * 32),), (finding,))
    for form, check in CHECKS.items():
        text = render(evidence, form)
        text.encode()
        check(text)
    body = render(evidence, "model_card").split("---\n", 2)[2]
    assert not re.search(r"(?<!\\)<(script|img|h1|!--)", body)


def test_evidence_has_known_forms(audit):
    with pytest.raises(ValueError, match="one of junit"):
        render(audit.evidence("junit"), "pdf")
    with pytest.raises(ValueError, match="must end in"):
        audit.save("report.pdf")


def test_digest_of_unwritten_certificates_is_that_of_the_file(audit, tmp_path):
    from flipproof.cli.output import table_content

    (tmp_path / "certificates.csv").write_bytes(table_content(audit.to_arrow(), ".csv", {}))
    (subject,) = audit.evidence("junit").subjects
    assert subject.sha256 == digest_of_file(tmp_path / "certificates.csv")
    assert replace(subject, note="").name == "certificates.csv"
