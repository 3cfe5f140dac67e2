"""Run tests on another copy of flipproof's source, each time in a new process that has not imported flipproof yet."""

import json
import multiprocessing
import os
import sys
from pathlib import Path
from unittest import mock

import pytest

ROOT = Path(__file__).parents[2]

#: What tests import besides flipproof. Where processes can be forked, this is done once for all of them.
FROM_ELSEWHERE = [
    "pytest",
    "distributed",
    "hypothesis.extra.numpy",
    "mpmath",
    "pandas",
    "pyarrow",
    "scipy.optimize",
    "scipy.sparse",
    "scipy.stats",
    "sklearn.datasets",
    "sklearn.decomposition",
    "sklearn.ensemble",
    "sklearn.linear_model",
    "sklearn.model_selection",
    "sklearn.neighbors",
    "sklearn.pipeline",
    "sklearn.preprocessing",
]

#: One thread each, and no plugins: those that are there already could not be loaded as pytest wants them.
SETTINGS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CI": ""}

#: A test that takes longer than this, in seconds, is not waited for.
PATIENCE = 300


def errors_of(tests, source):
    """Return the first error of each of these tests that fails, as the names of its classes, and what pytest printed.

    `source` is the folder that holds the package. A test with parameters goes by its name, with or without them.
    """
    has_server = "forkserver" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if has_server else "spawn")
    if has_server:
        context.set_forkserver_preload(FROM_ELSEWHERE)
    process = context.Process(target=_run, args=(str(source), list(tests)))
    with mock.patch.dict(os.environ, SETTINGS):
        process.start()
    process.join(PATIENCE)
    if process.is_alive():
        process.kill()
        process.join()
    printed = (source / "printed.txt").read_text()
    assert process.exitcode == 0, f"no result (exit code {process.exitcode})\n{printed}"
    return json.loads((source / "errors.json").read_text()), printed


def _run(source, tests):
    os.chdir(ROOT)
    with (Path(source) / "printed.txt").open("w") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
    assert not {"flipproof", "flipproof_verify"} & set(sys.modules)
    # what hypothesis finds in a wrong source is no example for the right one
    os.environ.update(SETTINGS, HYPOTHESIS_STORAGE_DIRECTORY=source)
    sys.path.insert(0, source)
    errors = FirstErrors(tests)
    options = ["-q", "--all", "--no-header", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers --strict-config"]
    code = pytest.main([*options, *tests], plugins=[errors])
    packages = [sys.modules[name] for name in ("flipproof", "flipproof_verify") if name in sys.modules]
    found = [Path(package.__file__) for package in packages]
    are_copies = found and all(file.is_relative_to(source) for file in found)
    if not are_copies or code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"{found}, pytest returned {code}")
    (Path(source) / "errors.json").write_text(json.dumps(errors.found))


class FirstErrors:
    """A plugin of pytest: runs each of some tests up to its first failure, and keeps the classes of the error."""

    def __init__(self, tests):
        self.tests, self.found = tests, {}

    def _names(self, item):
        return [name for name in self.tests if item.nodeid == name or item.nodeid.startswith(f"{name}[")]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item):
        if all(name in self.found for name in self._names(item)):
            pytest.skip("one failure is enough")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        if call.excinfo is not None:
            classes = sorted(_classes(call.excinfo.value)) if call.when == "call" else [call.when]
            for name in self._names(item):
                self.found.setdefault(name, classes)


def _classes(error):
    """Return the names of an error's classes; those of all errors that it is a group of, as those of hypothesis are."""
    if isinstance(error, BaseExceptionGroup):
        return set().union(*(_classes(one) for one in error.exceptions))
    return {one.__name__ for one in type(error).__mro__}
