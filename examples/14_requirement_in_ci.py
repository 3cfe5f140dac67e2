"""
A requirement in continuous integration
=======================================

Fail a build if too few predictions are certified: by the exit code of the command, or by an assertion in a test.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

import flipproof
from flipproof import CertifiedAccuracyDisplay

table = load_breast_cancer(as_frame=True).frame
table["target"] = table["target"].map({0: "malignant", 1: "benign"})
folder = Path(tempfile.mkdtemp())
table.to_csv(folder / "train.csv", index=False)

# %%
# On the command line: exit code 0 if the requirement is met, 1 if not, 2 on bad input.
command = [sys.executable, "-m", "flipproof", "certify", "--train", "train.csv"]
command += ["--label", "target", "--holdout", "0.25"]
for requirement in ("0.85@5", "0.99@50"):
    done = subprocess.run(
        [*command, "--min-certified-accuracy", requirement], cwd=folder, capture_output=True, text=True, check=False
    )
    print(f"--min-certified-accuracy {requirement}: exit code {done.returncode}")

# %%
# In a test.
requirements = ["accuracy >= 0.85 @ 5", "recall malignant >= 0.7 @ 5", "radius >= 1 @ 0.95"]
result = flipproof.audit(folder / "train.csv", label="target", holdout=0.25, requirements=requirements)
print(result)
assert result.passed

# %%
# The curve, and the requirement as a point below it.
certificates = result.certificates["exact"]
CertifiedAccuracyDisplay.from_certificates(certificates, result.test.labels, name="ridge")
plt.plot([5], [0.85], "ro", label="requirement")
plt.legend()
