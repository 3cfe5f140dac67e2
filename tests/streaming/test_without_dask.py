"""Rows in files and blocks need no Dask; what needs it says so."""

import subprocess
import sys

WITHOUT_DASK = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("dask", "distributed"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
import numpy as np
import flipproof
from flipproof.streaming import StreamingKernelClassifier, StreamingRidgeClassifier

X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
for learner, given in ((StreamingRidgeClassifier, {}), (StreamingKernelClassifier, {"n_components": 5})):
    model = learner(**given).fit([(X[:7], y[:7]), (X[7:], y[7:])])
    memory = getattr(flipproof, learner.__name__)(**given).fit(X, y)
    assert (model.certify(X).radius == memory.certify(X).radius).all()
np.save("rows.npy", X)
StreamingRidgeClassifier().fit("rows.npy", y).certify(X)
try:
    StreamingRidgeClassifier().fit([(X, y)], client="tcp://127.0.0.1:8786")
except ImportError as error:
    print(error)
assert "dask" not in sys.modules and "distributed" not in sys.modules
"""


def test_dask_is_not_installed(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DASK], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout == "A client needs Dask: pip install 'flipproof[dask]'\n"
