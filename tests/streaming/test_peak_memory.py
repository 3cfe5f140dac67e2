"""Peak memory is a few blocks, however many rows there are in files."""

import tracemalloc

import numpy as np
import pytest
from tiers import mostly_slow

from flipproof import Adversary
from flipproof.streaming import StreamingRidgeClassifier
from flipproof.streaming import blocks as blocks_module

K = 16
#: Numbers of a block, which is 1 MiB in float64 then.
NUMBERS = 2**17


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks_module, "NUMBERS_IN_BLOCK", NUMBERS)


def saved_rows(folder, n, n_files):
    """Write rows and labels to files, and return their folders."""
    rng = np.random.default_rng(0)
    for name in ("X", "y"):
        (folder / name).mkdir(parents=True)
    rows, labels = rng.normal(size=(n // n_files, K)).astype(np.float32), rng.integers(2, size=n // n_files)
    for number in range(n_files):
        np.save(folder / "X" / f"{number}.npy", rows)
        np.save(folder / "y" / f"{number}.npy", labels.astype(np.int8))
    return folder / "X", folder / "y"


def peak(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("source", mostly_slow(["folder", "memmap"], fast=(1,)))
def test_rows_are_visited_a_block_at_a_time(small_blocks, tmp_path, source):
    peaks = []
    for n in (2**16, 2**19):
        X, y = saved_rows(tmp_path / str(n), n, 1 if source == "memmap" else 4)
        if source == "memmap":
            X, y = (np.load(one / "0.npy", mmap_mode="r") for one in (X, y))

        def work(X=X, y=y):
            model = StreamingRidgeClassifier(precision=8).fit(X, y)
            for adversary in (None, Adversary(allowed=[(0, 1)])):
                model.certify(np.eye(K), adversary=adversary)

        peaks.append(peak(work))
    assert peaks[1] < 1.2 * peaks[0]
    # the larger files hold 32 MiB, and features alone would be 64 MiB in float64
    assert peaks[1] < 24 * 2**20
