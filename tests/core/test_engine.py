"""With several noises, each test row has the certificate of the noise with the largest radius."""

import numpy as np
import pytest

from flipproof.core.engine import certify_smoothed
from flipproof.core.histograms import VoteHistogram
from flipproof.core.noise import LabelFlip
from flipproof.core.powers import Scope

NOISES = [LabelFlip(q, 3) for q in (0.3, 1e-4, 0.05)]
N_LABELS = 600

#: Labels by class and vote, one line per test row: unanimous, clear, close, tied, and decided by one label.
ROWS = [
    {(0, 1): 600},
    {(0, 7): 20, (0, 1): 480, (1, 1): 100},
    {(0, 1): 310, (2, 1): 290},
    {(0, 7): 300, (1, 7): 300},
    {(2, 7): 1, (0, 0): 599},
]


def histogram_of_rows():
    counts = np.zeros((len(ROWS), 3, 16), dtype=np.int64)
    for row, labels in zip(counts, ROWS, strict=True):
        for (label, vote), count in labels.items():
            row[label, vote + 8] = count
    return VoteHistogram(np.arange(-8, 8)[None], counts, 16)


@pytest.mark.parametrize("method", ["tight", "kl"])
def test_each_row_uses_its_best_noise(method):
    histogram, scope = histogram_of_rows(), Scope(~np.eye(3, dtype=bool), N_LABELS)
    offsets = np.zeros((len(histogram.counts), 3), dtype=np.int64)
    alone = [certify_smoothed(histogram, offsets, method, [noise], scope) for noise in NOISES]
    best = certify_smoothed(histogram, offsets, method, NOISES, scope)
    np.testing.assert_array_equal(best.radius, np.max([one.radius for one in alone], axis=0))
    assert best.noise.tolist() == [1e-4, 1e-4, 1e-4, 0.3, 0.3]  # the first noise if none has a larger radius
    for row, q in enumerate(best.noise):
        of_row = alone[[noise.q for noise in NOISES].index(q)]
        for name, values in vars(best).items():
            np.testing.assert_array_equal(values[row], getattr(of_row, name)[row])


def test_histograms_of_some_rows():
    histogram = histogram_of_rows()
    some = histogram.rows(np.array([1, 4]))
    np.testing.assert_array_equal(some.counts, histogram.counts[[1, 4]])
    np.testing.assert_array_equal(some.scores, histogram.scores[[1, 4]])
    assert histogram.rows(np.arange(len(histogram.counts))) is histogram
