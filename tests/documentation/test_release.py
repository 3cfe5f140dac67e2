"""What is published agrees with itself: addresses, versions, and links of the README on the package index."""

import re
import tomllib

from documentation.pages import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SOURCE = PYPROJECT["project"]["urls"]["Source"]


def published_readme():
    """Return the README as the build writes it into the package's metadata."""
    text = (ROOT / "README.md").read_text()
    for one in PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)
    return text


def test_links_of_the_readme_work_on_the_package_index():
    targets = re.findall(r"\]\(([^)]+)\)", published_readme())
    assert len(targets) > 10
    assert [one for one in targets if not one.startswith(("https://", "#"))] == []


def test_addresses_are_in_one_repository():
    owner = SOURCE.removeprefix("https://github.com/")
    assert all(one.startswith(SOURCE) for one in PYPROJECT["project"]["urls"].values())
    for name in ("CITATION.cff", "pyproject.toml", ".github/ISSUE_TEMPLATE/config.yml"):
        text = (ROOT / name).read_text()
        assert set(re.findall(r"https://(?:github|raw\.githubusercontent)\.com/([\w-]+/[\w-]+)", text)) == {owner}, name


def test_the_next_release_is_the_same_in_changelog_and_citation():
    latest = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE).group(1)
    assert f"\nversion: {latest}" in (ROOT / "CITATION.cff").read_text()


def test_classifiers_name_the_versions_of_python_that_workflows_test():
    classifiers = PYPROJECT["project"]["classifiers"]
    named = re.findall(r"Python :: (3\.\d+)", " ".join(classifiers))
    (matrix,) = re.findall(r"python: \[(.*)\]", (ROOT / ".github/workflows/tests.yml").read_text())
    assert named == re.findall(r"3\.\d+", matrix)
    assert PYPROJECT["project"]["requires-python"] == f">={named[0]}"


def _lower_bounds(requirements):
    """Return the lowest version of each package that these requirements name, extras of flipproof included."""
    extras = PYPROJECT["project"]["optional-dependencies"]
    bounds = {}
    for one in requirements:
        name, parts, version = re.fullmatch(r"([\w.-]+)(?:\[([^]]*)\])?(?:>=([\w.]+))?", one).groups()
        if name == "flipproof":
            bounds |= _lower_bounds([each for part in parts.split(",") for each in extras[part]])
        else:
            bounds[name] = version
    return bounds


def test_the_lowest_versions_that_are_tested_are_those_that_are_declared():
    declared = _lower_bounds([*PYPROJECT["project"]["dependencies"], "flipproof[test]"])
    tested = re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / ".ci" / "lowest.txt").read_text(), re.MULTILINE)
    assert dict(tested) == declared
    assert ".ci/lowest " in (ROOT / ".github" / "workflows" / "tests.yml").read_text()
