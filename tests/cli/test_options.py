"""Features of all commands: help, configuration files, completion."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from small_tables import write_emails

from flipproof.cli.group import commands, run

NAMES = list(commands.commands)


@pytest.mark.parametrize("name", NAMES)
def test_help_fits_80_columns_and_has_examples(name, capfd):
    assert run([name, "--help"]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    assert max(map(len, captured.out.splitlines())) <= 80
    assert f"flipproof {name}" in captured.out.split("Example", 1)[1]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "completion"])
def test_every_command_has_quiet_and_json_options(name, capfd):
    assert run([name, "--help"]) == 0
    said = capfd.readouterr().out
    for option in ("--json", "--quiet", "--config"):
        assert option in said


def test_the_docs_match_the_help(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    docs = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    printed = capfd.readouterr().out.replace("[OPTIONS] COMMAND ", "[OPTIONS] [COMMAND] ")  # as click 8.4 writes it
    assert f"```text\n{printed}```\n" in docs


def test_help_shows_options_in_groups(capfd):
    run(["certify", "--help"])
    said = capfd.readouterr().out
    places = [said.index(f"\n{group}:\n") for group in ("Data", "Learner", "Adversary", "Requirement", "Output")]
    assert places == sorted(places)


def options_of(files):
    return dict(zip([name.removeprefix("--") for name in files[::2]], files[1::2], strict=True))


def test_options_can_come_from_a_configuration_file(tmp_path, capfd):
    files = write_emails(tmp_path)
    lines = [f"{name} = {json.dumps(value)}" for name, value in options_of(files).items()]
    config = tmp_path / "flipproof.toml"
    config.write_text(
        "\n".join(lines) + '\n[certify]\nmin_radius = 79\nallow = ["ham:spam", "spam:ham"]\nquiet = true\njson = true\n'
        '[attack]\ntop = 3\nfeatures = "length"\n'
    )
    assert run(["certify", *files, "--json", "--min-radius", "79", "--allow", "ham:spam", "--allow", "spam:ham"]) == 1
    direct = json.loads(capfd.readouterr().out)
    assert run(["certify", "--config", str(config)]) == 1
    by_file = json.loads(capfd.readouterr().out)
    for entry in ("headline", "methods", "requirement", "assumptions", "predictions"):
        assert by_file[entry] == direct[entry]
    # the command line takes precedence, in any order
    assert run(["certify", "--min-radius", "0", "--config", str(config)]) == 0
    capfd.readouterr()
    assert run(["attack", "--config", str(config), "--json"]) == 0
    assert len(json.loads(capfd.readouterr().out)["rows"]) == 3


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "[certify]\nlabl = 'kind'\n",
            "contains 'labl', which is not an option of 'flipproof certify'. Did you mean 'label'?",
        ),
        ("labl = 'kind'\n", "contains 'labl'"),
        ("[certify\n", "is not a TOML file"),
        ("certify = 3\n", "certify must be a table"),
        ("[certify]\nlabel = ['a', 'b']\n", "'label' must be one value"),
        ("[certify]\nholdout = 'half'\n", "'half'"),
        ("[certify]\nlearner = 'bayes'\n", "'bayes' is not one of"),
    ],
)
def test_invalid_configuration_files_are_refused(tmp_path, capfd, content, words):
    (tmp_path / "bad.toml").write_text(content)
    files = write_emails(tmp_path)
    assert run(["certify", *files, "--config", str(tmp_path / "bad.toml")]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert words in captured.err


def test_a_missing_configuration_file_is_refused(capfd):
    assert run(["certify", "--config", "nowhere.toml"]) == 2
    assert "cannot read 'nowhere.toml'" in capfd.readouterr().err


@pytest.mark.parametrize("shell", ["zsh", "fish", "bash"])
def test_completion_scripts_are_printed(shell, capfd):
    assert run(["completion", shell]) == 0
    assert "_FLIPPROOF_COMPLETE" in capfd.readouterr().out


def test_the_shell_completes_options_and_values():
    done = subprocess.run(
        [sys.executable, "-c", "from flipproof.cli import main; main()"],
        env={
            **os.environ,
            "_FLIPPROOF_COMPLETE": "bash_complete",
            "COMP_WORDS": "flipproof certify --learner n",
            "COMP_CWORD": "3",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "plain,neighbors\n"
