"""
Verify a file
=============

Certificates are saved with their proofs. A second program, which shares no code with flipproof, repeats every proof,
and refutes a file that claims too much.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

import flipproof_verify
from flipproof import Certificates, CertifiedRidgeClassifier

X, y = load_breast_cancer(return_X_y=True)
model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:400], y[:400])
folder = Path(tempfile.mkdtemp())

# %%
# Votes as integers for ``exact``; for ``tight`` and ``kl``, ball arithmetic.
for method in ("exact", "tight", "kl"):
    path = folder / f"{method}.flipproof"
    model.certify(X[400:], method=method).save(path)
    print(method, path.stat().st_size // 1000, "kB", flipproof_verify.verify(path).verdict)

# %%
# A file whose bytes were changed is not accepted.
data = bytearray((folder / "exact.flipproof").read_bytes())
data[-1] ^= 1
(folder / "changed.flipproof").write_bytes(data)
try:
    print(flipproof_verify.verify(folder / "changed.flipproof").verdict)
except flipproof_verify.UnreadableFileError as error:
    print("unreadable:", error)

# %%
# Files can be loaded again, without the model.
for method in ("exact", "tight", "kl"):
    radius = Certificates.load(folder / f"{method}.flipproof").radius
    plt.step(sorted(radius, reverse=True), range(len(radius)), label=method)
plt.xlabel("radius")
plt.ylabel("predictions with at least that radius")
plt.legend()
