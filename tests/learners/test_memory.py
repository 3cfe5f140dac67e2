"""A million training rows, certified in little more memory than they take."""

import subprocess
import sys

import pytest
from tiers import mostly_slow

SCRIPT = """
import resource, sys
import numpy as np
from flipproof import CertifiedRidgeClassifier

rng = np.random.default_rng(0)
y = np.arange(10**6) % 2
X = rng.normal(size=(10**6, 8)).astype(np.float32)
X[:, 0] += 2 * y
Z = rng.normal(size=(300, 8))
model = CertifiedRidgeClassifier(noise=0.01, classes=[0, 1], precision=int(sys.argv[2])).fit(X, y)
model.certify(Z[:2], sys.argv[1])  # threads and tables are there
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + int(sys.argv[3]) * 2**20, resource.RLIM_INFINITY))
print(np.median(model.certify(Z[: int(sys.argv[4])], sys.argv[1]).radius))
"""


def certify(method, precision, mebibytes, rows):
    command = [sys.executable, "-c", SCRIPT, method, str(precision), str(mebibytes), str(rows)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "precision", "rows"), mostly_slow([("exact", 10, 300), ("tight", 10, 300), ("exact", 20, 3)], fast=(0,))
)
def test_a_million_rows_within_the_budget(method, precision, rows):
    """All votes of 300 rows would be 2.3 GiB."""
    result = certify(method, precision, mebibytes=384, rows=rows)
    assert result.returncode == 0, result.stderr
    assert float(result.stdout) > 1000


@pytest.mark.slow
def test_the_limit_is_one():
    result = certify("exact", 10, mebibytes=2, rows=300)
    assert result.returncode != 0
    assert "MemoryError" in result.stderr or "Unable to allocate" in result.stderr
