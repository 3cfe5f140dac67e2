"""The examples in the README and the documentation are correct."""

import contextlib
import io
import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd

from flipproof import CertifiedRidgeClassifier

ROOT = Path(__file__).parents[1]
README, CONTRIBUTING = ((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))


def test_the_example_prints_the_output_in_the_readme():
    code, output = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", README, re.DOTALL).groups()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    assert printed.getvalue() == output


def test_continuous_integration_runs_the_documented_test_commands():
    """The command of the README runs first, in an environment without any packages."""
    quick = re.search(r"pass the tests.*?:\s+```bash\n(.*?)\n```", README, re.DOTALL).group(1)
    everything, browser = re.findall(r"```bash\n(.*?)\n```", CONTRIBUTING, re.DOTALL)
    assert quick == "pip install -e '.[test]' && pytest"
    before, after = (ROOT / ".ci" / "run").read_text().split(f"\n{quick} || exit\n")
    assert "install" not in before
    assert f"\n{browser} || exit\n" in after
    # tests of the README's command have just run
    assert f"\n{everything.replace('pytest --all', 'pytest --rest')} || exit\n" in after
    assert "pytest --all" in everything
    site = "pip install '.[docs]' && make -C docs html"
    assert f"`{site}`" in CONTRIBUTING
    assert f"\n{site} || exit\n" in after


def test_there_are_two_commands_to_try():
    section = re.search(r"## Try it\n(.*?)\n## ", README, re.DOTALL).group(1)
    commands = re.findall(r"```bash\n(.*?)\n```", section, re.DOTALL)
    assert len(commands) == 2
    assert not any("\n" in command for command in commands)


def test_the_example_is_short():
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL).group(1)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


def test_the_other_examples_run(tmp_path, monkeypatch):
    """The test defines the names that the text leaves to the reader."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 3)), np.where(np.arange(100) % 2, "spam", "ham")
    X[::2] += 1
    names = {
        "model": CertifiedRidgeClassifier(classes=["ham", "spam"]).fit(X, y),
        "X": X[:60],
        "y": y[:60],
        "X_archive": X[60:80],
        "X_new": X[80:],
        "y_new": y[80:],
        "X_test": X[:5],
        "checked_by_us": np.arange(100) < 20,
        "annotator_of_row": np.arange(100) // 10,
        "train": pd.DataFrame({"length": X[:80, 0], "links": X[:80, 1], "spam": y[:80] == "spam"}),
        "test": pd.DataFrame({"length": X[80:, 0], "links": X[80:, 1], "spam": y[80:] == "spam"}),
    }
    names |= {"X_train": X, "y_test": y[:5], "certificates": names["model"].certify(X[:5])}
    monkeypatch.chdir(tmp_path)
    _, *others = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(others) == 6
    for code in others:
        exec(compile(code, "README.md", "exec"), names)
    assert names["attack"].success.all()
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_commands_run(tmp_path, monkeypatch):
    """All commands of the README but those that install, on small files with the names and columns that it uses."""
    from documentation.pages import blocks, commands
    from documentation.setups import readme

    from flipproof.cli.group import run

    monkeypatch.chdir(tmp_path)
    readme()
    lines = [line for one in blocks(README) if one.language == "bash" for line in commands(one.code)]
    lines = [line for line in lines if line.startswith("flipproof ")]
    assert [line.split()[1] for line in lines] == ["certify", "attack", "plan", "verify"]
    for line in lines:
        assert run(shlex.split(line, comments=True)[1:]) == 0, line
    for line in re.findall(r"`(flipproof fit [^`]*)`", README):
        assert run(shlex.split(line)[1:]) == 0, line


def test_the_spam_filter_of_the_documentation_runs():
    rng = np.random.default_rng(0)
    words = {
        "ham": ["lunch", "meeting", "report", "friday", "team", "notes", "agenda"],
        "spam": ["prize", "win", "cash", "offer", "free", "now"],
    }
    common = ["the", "a", "to", "of", "and", "you", "this", "we", "it", "for"]

    def some(n):
        labels = rng.choice(["ham", "spam"], size=n)
        texts = [" ".join([*rng.choice(words[label], 4), *rng.choice(common, 8)]) for label in labels]
        return texts, labels

    (archive, _), (messages, reports), (new_messages, checked) = map(some, (150, 200, 30))
    todays_messages, todays_reports = some(20)
    names = dict(locals())
    page = (ROOT / "docs" / "poisoned-rows.md").read_text()
    filters, _, updates = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code = filters.replace("TruncatedSVD(50", "TruncatedSVD(10")  # there are few words here
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code + updates, "poisoned-rows.md", "exec"), names)
    assert "30 predictions" in printed.getvalue()
    assert np.array_equal(names["certificates"].prediction, checked)
    assert names["model"].n_rows_ == 218


def test_the_page_about_results_prints_its_output(tmp_path, monkeypatch):
    import matplotlib as mpl

    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    names = {}
    page = (ROOT / "docs" / "results.md").read_text()
    for code, output in re.findall(r"```python\n(.*?)```(?:\s+```text\n(.*?)```)?", page, re.DOTALL):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, "results.md", "exec"), names)
        assert printed.getvalue() == output
    mpl.pyplot.close("all")
    assert {"curves.png", "radii.png", "report.html"} <= {file.name for file in tmp_path.iterdir()}


def test_the_custom_learner_passes_its_check():
    *_, code = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "learners.md").read_text(), re.DOTALL)
    exec(compile(code, "learners.md", "exec"), {})


def test_the_architecture_page_names_every_module():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    rooms = {room for layer in layers for room in re.findall(r"\w+", layer)} - {"__main__"}
    table = (ROOT / "docs" / "architecture.md").read_text().split("## Rooms")[1].split("\n## ")[0]
    named = {name for line in table.splitlines() for name in re.findall(r"`(\w+)`", line.split(" | ")[0])}
    assert rooms <= named


def test_links_point_to_existing_files():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
