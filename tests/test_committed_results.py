"""docs/reproduction.md lists every committed result, with a command that exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
LISTED = (ROOT / "docs" / "reproduction.md").read_text().partition("## All committed results")[2]


def test_every_committed_result_is_listed():
    for found in (ROOT / "benchmarks" / "results").iterdir():
        assert f"| `benchmarks/results/{found.name}` |" in LISTED, found.name
    for found in (ROOT / "reproduction").iterdir():
        if found.is_dir() and not found.name.endswith("-quick"):
            assert re.search(rf"`(reproduction/)?{found.name}`", LISTED), found.name


def test_the_commands_and_pages_exist():
    for script in re.findall(r"`python (benchmarks/\w+\.py)`", LISTED):
        assert (ROOT / script).is_file(), script
    for page in re.findall(r"\]\(([\w-]+\.md)", LISTED):
        assert (ROOT / "docs" / page).is_file(), page
