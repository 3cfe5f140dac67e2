"""The commands of docs/command-line.md on real files, some with fewer test rows: sensible results, no warnings."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from flipproof.cli.group import run
from flipproof.tables import TableEncoder, TextLayout, read_table

SMS = ["--train", "sms_spam/SMSSpamCollection.gz", "--names", "kind,text", "--no-quotes", "--label", "kind"]
SPAMBASE = ["--train", "spambase/spambase.data.gz", "--no-header", "--holdout", "0.25", "--label", "f57"]
COMMANDS = {
    "sms": ([*SMS, "--text", "text", "--holdout", "0.25"], 0.95, 5),
    "spambase": (
        [*SPAMBASE, "--scale", "rank", "--learner", "forest"],
        0.85,
        20,
    ),
    "adult": (["--train", "adult/adult.data.gz", "--holdout", "0.02", "--label", "classification"], 0.82, 80),
    "imdb": (["--train", "imdb/imdb_glove100_mean.npz", "--holdout", "0.02", "--label", "y"], 0.75, 30),
}


DOCS = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()


@pytest.mark.parametrize("section", ["SMS spam", "Spambase", "Adult"])
def test_the_docs_match_the_printed_output(section, data_dir, tmp_path, monkeypatch, capfd):
    pattern = rf"### {section}.*?```bash\n(.*?)```\s+```text\n(.*?)```"
    (command, output) = re.search(pattern, DOCS, re.DOTALL).groups()
    work_beside(data_dir, tmp_path, monkeypatch)
    assert run_line(command) == 0
    assert output.rstrip() in capfd.readouterr().out
    if section == "Adult":
        (head,) = re.findall(r"first lines of `adult.csv`:\s+```text\n(.*?)```", DOCS, re.DOTALL)
        assert (tmp_path / "adult.csv").read_text().startswith(head)


def work_beside(data_dir, tmp_path, monkeypatch):
    """Work in an empty folder with links to the data sets: commands may write files beside them."""
    for folder in data_dir.iterdir():
        (tmp_path / folder.name).symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def run_line(command):
    return run(shlex.split(command.replace("\\\n", " "))[1:])


def test_the_docs_match_the_printed_attacks_on_spam(data_dir, tmp_path, monkeypatch, capfd):
    pattern = r"```bash\n(flipproof attack --train sms_spam.*?)```\s+```text\n(.*?)```.*?```text\n(.*?)```"
    (command, of_one_row, most_used) = re.search(pattern, DOCS, re.DOTALL).groups()
    work_beside(data_dir, tmp_path, monkeypatch)
    assert run_line(command) == 0
    assert of_one_row.rstrip() in capfd.readouterr().out
    assert run_line(command.replace("--row 784", "--top 5")) == 0
    assert most_used.rstrip() in capfd.readouterr().out


def test_the_docs_match_the_requirement_that_is_not_met(data_dir, tmp_path, monkeypatch, capfd):
    pattern = r"one line for each that is not met:.*?```bash\n(.*?)```\s+```text\n(.*?)```"
    (command, said) = re.search(pattern, DOCS, re.DOTALL).groups()
    work_beside(data_dir, tmp_path, monkeypatch)
    assert run_line(command) == 1
    assert said.rstrip() in capfd.readouterr().err


def test_the_docs_match_the_printed_comparison(data_dir, tmp_path, monkeypatch, capfd):
    (command, output) = re.search(r"```bash\n(flipproof compare.*?)```\s+```text\n(.*?)```", DOCS, re.DOTALL).groups()
    work_beside(data_dir, tmp_path, monkeypatch)
    assert run_line(command) == 0
    printed = capfd.readouterr().out
    seconds = re.compile(r" +\d+\.\d +\d+\.\d$", re.MULTILINE)  # of fit and certify, which vary
    assert seconds.sub("", output).rstrip() in seconds.sub("", printed)


def test_text_features_do_not_depend_on_the_number_of_threads(data_dir):
    layout = TextLayout(names=("kind", "text"), quotes=False)
    texts = read_table(data_dir / "sms_spam" / "SMSSpamCollection.gz", layout).select(["text"]).slice(0, 1500)
    encoded = []
    for threads in (1, 2):
        with threadpool_limits(limits=threads):
            encoder = TableEncoder(["text"])
            encoded.append((encoder.fit_transform(texts), encoder.transform(texts.slice(0, 50))))
    assert np.array_equal(encoded[0][0], encoded[1][0])
    assert np.array_equal(encoded[0][1], encoded[1][1])


@pytest.mark.parametrize("name", COMMANDS)
def test_real_files(name, data_dir, monkeypatch, capfd):
    monkeypatch.chdir(data_dir)
    arguments, least_accuracy, least_flips = COMMANDS[name]
    assert run(["certify", *arguments, "--json"]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    summary = json.loads(captured.out)
    assert summary["methods"][0]["n_correct"] > least_accuracy * summary["problem"]["n_test"]
    assert summary["headline"]["flips"] > least_flips
    assert summary["headline"]["n_certified"] >= 0.9 * summary["problem"]["n_test"]
