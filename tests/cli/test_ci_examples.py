"""The GitHub action, the pre-commit hook and the GitLab job: valid, and their shell does what they say."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_tables import write_emails

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))


WORKFLOWS = [f".github/workflows/{one.name}" for one in sorted((ROOT / ".github" / "workflows").glob("*.yml"))]


@pytest.mark.parametrize(
    ("schema", "file"),
    [
        ("github-actions", "action.yml"),
        ("gitlab-ci", "docs/examples/gitlab-ci.yml"),
        *(("github-workflows", one) for one in WORKFLOWS),
    ],
)
def test_files_are_valid_by_the_vendors_schemas(schema, file):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(ROOT / file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_zizmor_finds_nothing_in_the_action_and_the_workflows():
    files = ["action.yml", ".github/workflows"]
    command = ["zizmor", "--offline", "--no-progress", "--config", "tests/cli/zizmor.yml", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "PATH": _tools()})
    assert done.returncode == 0, done.stdout + done.stderr


def _tools():
    """The path with the tools of this environment first, even if it is not activated."""
    return f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


def _run(shell, folder, **variables):
    """Run shell as GitHub's bash does, with the flipproof of this environment first in the path."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    (tools / "flipproof").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m flipproof "$@"\n')
    for tool in tools.iterdir():
        tool.chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "80", **variables}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", shell]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)


def _step(name):
    return next(step["run"] for step in ACTION["runs"]["steps"] if step.get("name") == name)


@pytest.mark.parametrize(("accuracy", "code"), [pytest.param("0.5@1", "0", marks=pytest.mark.slow), ("1@9", "1")])
def test_steps_of_the_action(tmp_path, accuracy, code):
    write_emails(tmp_path)
    (tmp_path / "train.csv").rename(tmp_path / "my train.csv")
    arguments = (
        f"--train=my train.csv\n--test=test.csv\n\n--label=kind\n--id=key\n--min-certified-accuracy={accuracy}\n"
    )
    files = {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    given = {"ARGUMENTS": arguments, "FOLDER": "the evidence", "SARIF": "true", **files}
    for name in ("Certify", "Verify the proof with a second program", "Report on the page of the job"):
        done = _run(_step(name), tmp_path, **given)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "output").read_text() == f"exit-code={code}\n"
    assert _run(_step("Fail if a requirement is not met"), tmp_path, CODE=code).returncode == int(code)
    assert (tmp_path / "summary.md").read_text("utf-8").startswith("# Label-flip report")
    assert {one.name for one in (tmp_path / "the evidence").iterdir()} == {
        *("certificates.csv", "report.json", "report.html", "report.md", "proof.flipproof", "flipproof.sarif"),
        *("junit.xml", "statement.intoto.json", "bom.cdx.json", "model-card.md"),
    }


@pytest.mark.parametrize(
    ("install", "installed"), [("", "/the action[cli]"), ("flipproof[cli]==1.0", "flipproof[cli]==1.0")]
)
def test_the_action_installs_its_own_version(tmp_path, install, installed):
    shell = 'python() { printf "%s\\n" "$@"; }\n' + _step("Install flipproof")
    done = _run(shell, tmp_path, INSTALL=install, ACTION="/the action")
    assert done.stdout.splitlines() == ["-m", "pip", "install", installed]
    step = next(step for step in ACTION["runs"]["steps"] if step.get("name") == "Install flipproof")
    assert (step["env"]["ACTION"], ACTION["inputs"]["install"]["default"]) == ("${{ github.action_path }}", "")


def test_evidence_is_kept_if_the_proof_is_refuted():
    names = [step.get("name", "") for step in ACTION["runs"]["steps"]]
    begin = names.index("Verify the proof with a second program") + 1
    after = {step["name"]: step.get("if", "") for step in ACTION["runs"]["steps"][begin:-1]}
    assert list(after) == ["Report on the page of the job", "Upload SARIF", "Upload the evidence"]
    assert all(condition.startswith("always()") for condition in after.values())


def test_nothing_in_the_arguments_is_run_by_the_shell(tmp_path):
    given = {"ARGUMENTS": "--train=$(touch owned)`touch owned`;touch owned", "FOLDER": "e", "SARIF": "false"}
    done = _run(_step("Certify"), tmp_path, GITHUB_OUTPUT=str(tmp_path / "output"), **given)
    assert done.returncode == 2
    assert not (tmp_path / "owned").exists()


def test_shell_of_the_action_takes_inputs_from_the_environment_alone():
    shells = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert not any("${{" in shell for shell in shells)
    named = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text("utf-8")))
    assert named == set(ACTION["inputs"])


@pytest.mark.slow
def test_script_of_the_gitlab_job(tmp_path):
    write_emails(tmp_path)
    job = yaml.safe_load((ROOT / "docs/examples/gitlab-ci.yml").read_text("utf-8"))["certified-robustness"]
    done = _run("\n".join(job["script"]), tmp_path, **job["variables"])
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "flipproof-evidence" / "junit.xml").exists()


@pytest.mark.slow
def test_pre_commit_hook(tmp_path):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert {"id", "name", "entry", "language"} <= set(hook)  # what pre-commit requires
    assert re.search(hook["files"], "data/train.csv")
    assert hook["pass_filenames"] is False
    options = shlex.join(write_emails(tmp_path))
    for accuracy, code in (("0.5@1", 0), ("1@9", 1)):
        done = _run(f"{hook['entry']} {options} --min-certified-accuracy {accuracy}", tmp_path)
        assert done.returncode == code, done.stderr
