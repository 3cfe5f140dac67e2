"""Options for evidence: files are written whole, reproducibly, and never over an input; bad input is one line."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest
from small_tables import emails, write, write_emails

from flipproof.cli.group import run
from flipproof.runtime.files import digest_of_file

FILES = {
    "--junit": "junit.xml",
    "--sarif": "found.sarif",
    "--attestation": "statement.intoto.json",
    "--bom": "bom.cdx.json",
    "--model-card": "README.md",
}
EVERYTHING = [part for pair in FILES.items() for part in pair]
TABLE = ["--train", "train.csv", "--test", "test.csv", "--label", "kind", "--id", "key"]


@pytest.fixture(autouse=True)
def _tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_emails(Path())


@pytest.fixture
def refused(capfd):
    """Return a function that runs the command, and returns its one line of refusal; no file is written."""

    def check(*arguments):
        before = sorted(os.listdir())
        assert run(["certify", "--quiet", *arguments]) == 2
        said = capfd.readouterr().err.strip()
        assert "Traceback" not in said
        assert sorted(os.listdir()) == before
        return said

    return check


def test_all_files_are_written_and_the_same_again():
    options = [*TABLE, *EVERYTHING, "--min-certified-accuracy", "1@9", "-o", "certificates.csv"]
    assert run(["certify", "--quiet", *options, "--proof", "proof.flipproof"]) == 1
    first = {name: Path(name).read_bytes() for name in FILES.values()}
    statement = json.loads(first["statement.intoto.json"])
    named = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    assert named == {name: digest_of_file(Path(name)) for name in ("certificates.csv", "proof.flipproof")}
    assert statement["predicate"]["failedTests"] == ["--min-certified-accuracy 1@9"]
    assert run(["certify", "--quiet", *options, "--proof", "proof.flipproof"]) == 1
    assert first == {name: Path(name).read_bytes() for name in FILES.values()}


def test_evidence_about_a_model_in_a_file(capfd):
    assert run(["fit", "--quiet", *TABLE[:2], *TABLE[4:], "--model", "model.flipproof"]) == 0
    assert run(["certify", "--quiet", "--model", "model.flipproof", "--test", "test.csv", *EVERYTHING]) == 0
    statement = json.loads(Path("statement.intoto.json").read_bytes())
    assert statement["subject"][0]["digest"]["sha256"] == digest_of_file(Path("model.flipproof"))


def test_command_of_the_page():
    page = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text("utf-8")
    command = re.search(r"```bash\n(flipproof certify .*?)```", page, re.DOTALL)[1]
    assert run([*shlex.split(command.replace("\\\n", " "))[1:], "--quiet"]) == 0
    assert all(Path(name).exists() for name in FILES.values())
    assert run(["verify", "proof.flipproof"]) == 0


@pytest.mark.parametrize("option", FILES)
def test_wrong_endings_and_places(refused, option):
    assert "must end in" in refused(*TABLE, option, "evidence.pdf")
    assert "no folder" in refused(*TABLE, option, f"nowhere/{FILES[option]}")
    Path(FILES[option]).mkdir()
    assert "is a folder" in refused(*TABLE, option, FILES[option])


def test_two_options_cannot_name_one_file(refused):
    assert "two options" in refused(*TABLE, "--attestation", "a.json", "--bom", "./a.json")
    assert "two options" in refused(*TABLE, "--report", "a.md", "--model-card", "a.md")
    assert "given twice" in refused(*TABLE, "--bom", "a.json", "--bom", "b.json")


def test_an_input_is_never_overwritten(refused):
    Path("test.csv").rename("test.json")
    content = Path("test.json").read_bytes()
    given = ["--train", "train.csv", "--test", "test.json", "--format", "csv", "--label", "kind"]
    assert "input file" in refused(*given, "--bom", "test.json")
    assert Path("test.json").read_bytes() == content


def test_unwritable_folder(refused, monkeypatch):
    def full(*_arguments, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", full)  # root may write anywhere
    assert "Permission denied" in refused(*TABLE, "--junit", "junit.xml")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--method", "tight"], "exact as the first --method"),
        (["--changes", "insertions", "--reference", "test.csv"], "insertions"),
        (["--learner", "partition"], "exact attacks"),
    ],
)
def test_sarif_is_refused_where_there_is_nothing_to_locate(refused, options, says):
    assert says in refused(*TABLE, *options, "--sarif", "found.sarif", "--proof", "proof.flipproof")


def test_sarif_of_standard_input_and_blocks(refused):
    assert "standard input" in refused("--train", "-", *TABLE[2:], "--sarif", "found.sarif")
    Path("folder").mkdir()
    write(emails(40, 1), Path("folder/part.parquet"))
    assert "in memory" in refused("--train", "folder", *TABLE[2:], "--sarif", "found.sarif")
