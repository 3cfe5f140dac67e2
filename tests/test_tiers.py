"""The first tier of tests needs only the extra `test`, and skips nothing."""

import ast
from pathlib import Path

import pytest
from tiers import mostly_slow

TESTS = Path(__file__).parent

#: Packages that only `pytest --all` needs.
OTHERS = {"selenium", "torch", "umap"}


def imported(node):
    """Return the packages that a top-level statement imports or requires with importorskip."""
    if isinstance(node, ast.Import):
        return {one.name.split(".")[0] for one in node.names}
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").split(".")[0]}
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call) and isinstance(node, ast.Assign | ast.Expr)]
    return {
        call.args[0].value.split(".")[0]
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "importorskip"
    }


def test_files_that_need_optional_packages_are_marked():
    for file in TESTS.rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        if set().union(*map(imported, tree.body)) & OTHERS:
            marks = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign)]
            assert {"pytestmark = pytest.mark.deep", "pytestmark = pytest.mark.browser"} & set(marks), file


def test_mostly_slow_marks_all_but_the_fast_values():
    first, second, third = mostly_slow(["a", ("b", 1), "c"], fast=(0,))
    assert first == "a"
    assert (second.values, third.values) == (("b", 1), ("c",))
    assert [mark.name for one in (second, third) for mark in one.marks] == ["slow", "slow"]


@pytest.mark.few(2)
@pytest.mark.parametrize("value", range(5))
def test_a_few_parameter_sets_are_spread_over_all(value, request):
    options = request.config.option
    with_all = options.all or options.markexpr
    name = request.function.__name__
    chosen = [item.callspec.params["value"] for item in request.session.items if item.name.startswith(f"{name}[")]
    assert value in chosen
    if len(chosen) > 1:  # else a single one was named on the command line
        assert chosen == ([0, 1, 2, 3, 4] if with_all else [1, 3, 4] if options.rest else [0, 2])
