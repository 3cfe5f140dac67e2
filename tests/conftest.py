"""Shared by all tests: where the real data is, how long to fuzz; nothing is skipped unseen, and no clock decides."""

import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# the same examples in every run, however long they take and whatever was found in earlier ones
settings.register_profile(
    "flipproof", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("flipproof")

if "PYTEST_XDIST_WORKER" in os.environ:
    # a process for each core: more threads inside of products would only get in each other's way
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config):
    # distributed leaves connections to what was killed to the garbage collector, which may come in any later test
    config.addinivalue_line("filterwarnings", r"ignore:unclosed (<socket|<ssl|transport):ResourceWarning")


@pytest.fixture(autouse=True, scope="session")
def _no_lines_between():
    """Let a log have the last line of each progress only: on a slow machine, there would be more of them."""
    from flipproof import progress  # not before the number of threads is set

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "BETWEEN_LINES", float("inf"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _interrupts_arrive():
    """Let Ctrl-C raise, also where a shell started the tests in the background and made them ignore it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def data_dir():
    """Folder of the real data sets; tests that need it are skipped where it is not there."""
    folder = os.environ.get("FLIPPROOF_DATA")
    if not folder:
        pytest.skip("no real data: set FLIPPROOF_DATA to the folder that holds spambase/, german_credit/ and mnist/")
    if not Path(folder).is_dir():
        pytest.skip(f"no real data: set FLIPPROOF_DATA to the folder with it; {folder!r} is no folder")
    return Path(folder)


def pytest_addoption(parser):
    parser.addoption(
        "--fuzz-minutes", type=float, default=0, help="judge fresh random problems for this long (tests/fuzz)"
    )


def pytest_collection_modifyitems(config, items):
    """Leave out tests on fresh random problems, unless they are asked for: they may fail by chance."""
    if config.getoption("--fuzz-minutes") <= 0:
        fresh = [item for item in items if "fuzz_minutes" in item.fixturenames]
        items[:] = [item for item in items if item not in fresh]
        config.hook.pytest_deselected(items=fresh)


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
