"""What the README shows is what happens."""

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_the_example_prints_what_the_readme_says():
    code, output = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", README, re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == output


def test_continuous_integration_runs_the_test_command_to_the_letter():
    command = re.search(r"pass the tests:\s+```bash\n(.*?)\n```", README, re.DOTALL).group(1)
    assert command in (ROOT / ".ci" / "run").read_text().splitlines()


def test_the_example_is_short():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
