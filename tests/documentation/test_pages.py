"""Every block of code in docs/ runs and prints what the page shows, or says why it is not run."""

import re

import pytest
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
