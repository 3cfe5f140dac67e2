"""The kernels of numerical libraries are set only before the libraries are loaded."""

import json
import os
import subprocess
import sys

import numpy as np

from flipproof.runtime import processor
from flipproof.runtime.processor import SAME_KERNELS, kernels, use_same_kernels

WITHOUT = {name: value for name, value in os.environ.items() if name not in SAME_KERNELS}
LOADED = """
import json
from flipproof.runtime.processor import kernels, use_same_kernels
use_same_kernels()
import numpy, scipy.linalg
print(json.dumps(kernels()))
"""


def loaded(**variables):
    script = [sys.executable, "-W", "error", "-W", "ignore::ImportWarning", "-c", LOADED]
    return json.loads(subprocess.run(script, env=WITHOUT | variables, capture_output=True, check=True).stdout)


def architectures(found):
    return {blas.split()[-1] for blas in found["blas"] if blas.startswith("openblas")}


def test_all_libraries_use_the_avx2_kernels():
    found = loaded()
    assert found["blas"]
    if processor._has_avx2():
        assert found["variables"] == SAME_KERNELS
        assert architectures(found) <= {"Haswell"}
    else:
        assert found["variables"] == {}


def test_existing_variables_are_kept():
    chosen = {"OPENBLAS_CORETYPE": "SANDYBRIDGE"} if processor._has_avx2() else {"OPENBLAS_VERBOSE": "0"}
    found = loaded(**chosen)
    assert found["variables"].items() >= {name: chosen[name] for name in chosen if name in SAME_KERNELS}.items()
    if processor._has_avx2():
        assert architectures(found) <= {"Sandybridge"}


def test_nothing_is_changed_once_numpy_is_loaded():
    assert sys.modules["numpy"] is np
    before = dict(os.environ)
    use_same_kernels()
    assert os.environ == before
    assert kernels()["blas"]


def test_nothing_is_changed_without_avx2(monkeypatch):
    monkeypatch.setattr(processor, "_has_avx2", lambda: False)
    monkeypatch.delitem(sys.modules, "numpy")
    before = dict(os.environ)
    use_same_kernels()
    assert os.environ == before


def test_the_command_sets_the_variables_before_numpy_is_loaded():
    script = "import sys, flipproof.cli.group; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)
