"""docs/crowd-labels.md: its code runs, and its tables come from the committed results."""

import importlib.util
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "crowd-labels.md").read_text()


def test_the_code_runs_and_says_what_the_page_says():
    names = {}
    exec(compile("\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)), "crowd-labels.md", "exec"), names)
    model, adversary = names["model"], names["adversary"]
    assert model.certify([[0.1]]).radius.tolist() == [1]
    assert model.certify([[0.1]], adversary=adversary).radius.tolist() == [0]
    assert names["worst_flips"](model, [[0.1]], adversary).who(0) == {"ann": 3}


def test_the_tables_are_the_committed_results():
    file = ROOT / "benchmarks" / "crowds.py"
    spec = importlib.util.spec_from_file_location("crowds_benchmark", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = json.loads((ROOT / "benchmarks" / "results" / "crowds.json").read_text())
    assert module.tables(found).split("\n\n") == [
        block for block in PAGE.strip().split("\n\n") if block.startswith("|")
    ]
    assert f"Certified accuracy on {found['n_test']} test images" in PAGE
