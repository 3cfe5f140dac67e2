"""Every block of code in docs/ runs and prints what the page shows, or says why it is not run."""

import re
import subprocess
import sys
import tomllib

import pytest
import yaml
from documentation.pages import ROOT, blocks, pages, run_page

PAGES = {page.relative_to(ROOT).as_posix(): page for page in pages()}
WITH_CODE = [name for name, page in PAGES.items() if any(block.reason is None for block in blocks(page.read_text()))]

#: Pages that take more than about two seconds.
SLOW = {"docs/trusted-labels.md", "docs/how-to/what-checking-labels-buys.md", "docs/how-to/compare-learners.md"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in WITH_CODE])
@pytest.mark.filterwarnings("ignore:.*FigureCanvasAgg is non-interactive")
def test_the_code_of_a_page_runs_and_prints_its_output(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def check(block, printed):
        if block.output is not None and block.language == "python":
            assert printed == block.output, f"{name}:{block.line}"

    run_page(PAGES[name], check)


@pytest.mark.parametrize("name", PAGES)
def test_blocks_that_are_not_run_give_a_reason(name):
    for block in blocks(PAGES[name].read_text()):
        assert block.reason is None or len(block.reason) > 10, f"{name}:{block.line}"


@pytest.mark.parametrize("name", PAGES)
def test_code_is_in_blocks_that_run_and_not_indented(name):
    """Text that is indented by four spaces is shown as code, too; theory.md has its formulas there."""
    text = re.sub(r"^```.*?^```", "", PAGES[name].read_text(), flags=re.DOTALL | re.MULTILINE)
    indented = re.findall(r"^    (?:.*)$", text, re.MULTILINE)
    code = r"\s*(import|from \w+ import|pip|python|flipproof|git|make)\b|.*[.](fit|certify|predict)\("
    assert [line for line in indented if re.match(code, line)] == []


def test_blocks_are_found_with_output_and_reason():
    text = "```python\nprint(1)\n```\n\n```text\n2\n```\n\n"
    text += "<!-- not run: it would take an hour -->\n```bash\nsleep 3600\n```\n"
    ran, left_out = blocks(text)
    assert (ran.code, ran.output, ran.reason) == ("print(1)\n", "2\n", None)
    assert left_out.reason == "it would take an hour"


def test_every_statement_of_the_theory_has_tests_that_exist():
    text = (ROOT / "docs" / "theory.md").read_text()
    sections = re.split(r"^## (?=M\d)", text, flags=re.MULTILINE)[1:]
    numbers = [number for one in sections for number in re.findall(r"M(\d+)", one.split(".")[0])]
    assert sorted(map(int, numbers)) == list(range(1, 18))
    for section in sections:
        title, tests = section.splitlines()[0], section.partition("*Tests:*")[2]
        files = re.findall(r"`(tests/[\w./]+)(?:::(\w+))?`", tests)
        assert files, title
        for file, name in files:
            assert (ROOT / file).exists(), f"{title}: {file}"
            assert not name or f"def {name}(" in (ROOT / file).read_text(), f"{title}: {file}::{name}"


SETTINGS = [
    pytest.param(language, code, id=f"{name}-{number}")
    for name, page in PAGES.items()
    for number, (language, code) in enumerate(re.findall(r"^```(yaml|toml)\n(.*?)^```", page.read_text(), re.S | re.M))
]


@pytest.mark.parametrize(("language", "code"), SETTINGS)
def test_settings_are_valid(language, code, tmp_path, capfd):
    """Jobs follow GitHub's schema, alone or as part of a workflow; a file for `--config` names options that exist."""
    if language == "yaml":
        job = yaml.safe_load(code)
        workflow = job if "jobs" in job else {"on": "push", "jobs": {"certify": {"runs-on": "ubuntu-latest", **job}}}
        (tmp_path / "workflow.yml").write_text(
            yaml.safe_dump({str(k).replace("True", "on"): v for k, v in workflow.items()})
        )
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
        done = subprocess.run([*command, tmp_path / "workflow.yml"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
    else:
        from flipproof.cli.group import run

        settings = tomllib.loads(code)
        shared = {name for name, value in settings.items() if not isinstance(value, dict)}
        for command in ("certify", "attack"):
            assert run([command, "--help"]) == 0
            said = capfd.readouterr().out
            assert [one for one in shared | set(settings[command]) if f"--{one}" not in said] == []


def test_there_are_settings_to_check():
    assert {one.values[0] for one in SETTINGS} == {"yaml", "toml"}
