"""
Streaming and Dask
==================

Rows in blocks, in files or in Dask collections, with certificates that are identical to those in memory.
"""

import tempfile
from pathlib import Path

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np

from flipproof import CertifiedRidgeClassifier
from flipproof.streaming import RowBlocks, StreamingRidgeClassifier

rng = np.random.default_rng(0)
n = 20_000
y = rng.integers(0, 2, n)
X = rng.normal(size=(n, 16)).astype(np.float32) + 0.3 * y[:, None].astype(np.float32)
X_test = X[:200]
in_memory = CertifiedRidgeClassifier(classes=[0, 1]).fit(X, y).certify(X_test)

# %%
# NPY files: blocks are read one after the other.
folder = Path(tempfile.mkdtemp())
for i in range(4):
    part = slice(i * n // 4, (i + 1) * n // 4)
    np.save(folder / f"X-{i}.npy", X[part])
    np.save(folder / f"y-{i}.npy", y[part])
files = StreamingRidgeClassifier(classes=[0, 1]).fit(str(folder / "X-*.npy"), str(folder / "y-*.npy")).certify(X_test)
print("files:", np.array_equal(files.radius, in_memory.radius))

# %%
# Blocks from anywhere.
blocks = RowBlocks.from_blocks([(X[i : i + 5000], y[i : i + 5000]) for i in range(0, n, 5000)])
given = StreamingRidgeClassifier(classes=[0, 1]).fit(blocks).certify(X_test)
print("blocks:", np.array_equal(given.radius, in_memory.radius))

# %%
# Dask arrays, here with threads; a ``distributed.Client`` uses a cluster.
with dask.config.set(scheduler="threads"):
    rows, labels = da.from_array(X, chunks=(5000, 16)), da.from_array(y, chunks=5000)
    spread = StreamingRidgeClassifier(classes=[0, 1]).fit(rows, labels).certify(X_test)
print("Dask:", np.array_equal(spread.radius, in_memory.radius))

# %%
plt.scatter(in_memory.radius, spread.radius, s=8)
plt.xlabel("radius in memory")
plt.ylabel("radius on Dask")
