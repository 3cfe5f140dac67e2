"""docs/crowd-labels.md: its code runs."""

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
