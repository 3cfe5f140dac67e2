"""Arrays that grow: the same as concatenation, whoever else uses the memory."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from threading import Barrier

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from flipproof import CertifiedClusterClassifier, CertifiedForestClassifier, CertifiedRidgeClassifier
from flipproof.core.growth import GrowingLines, appended, joined_lines


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_those_of_concatenate_for_any_sharing_of_memory(seed):
    """A tree of arrays: each grows from any earlier one, and none ever changes."""
    rng = np.random.default_rng(seed)
    dtype = rng.choice([np.int64, np.float32, bool, np.uint64])
    width = () if seed % 2 else (int(rng.integers(0, 4)),)

    def rows(n):
        return rng.integers(0, 2, size=(n, *width)).astype(dtype)

    arrays = [rows(3)]
    expected = [arrays[0].copy()]
    for _ in range(60):
        place, more = int(rng.integers(len(arrays))), rows(int(rng.integers(0, 5)))
        first, before = arrays[place], expected[place]
        if rng.random() < 0.2:
            first, before = first[: len(first) // 2], before[: len(before) // 2]
        elif rng.random() < 0.1:
            first, before = first[1:], before[1:]
        elif rng.random() < 0.1:
            first = deepcopy(first)
        elif rng.random() < 0.1:
            more = more.astype(np.float64)
        found = appended(first, more)
        arrays.append(found)
        expected.append(np.concatenate([before, more]))
        assert found.dtype == expected[-1].dtype
        if rng.random() < 0.5:
            found.setflags(write=False)
        assert all(np.array_equal(one, other) for one, other in zip(arrays, expected, strict=True))


def test_appending_does_not_copy_rows_and_pickles_are_small():
    rows = appended(np.zeros((1000, 3)), np.ones((1, 3)))
    more = appended(rows, np.ones((10, 3)))
    assert np.shares_memory(rows, more)
    assert len(pickle.dumps(more)) < more.nbytes + 500


def test_lines_are_joined_when_needed():
    rng = np.random.default_rng(0)
    parts = [csr_array(random_array((4, n), density=0.5, rng=rng)) for n in (3, 0, 5)]
    lines = parts[0]
    for one in parts[1:]:
        lines = GrowingLines.of(lines, one)
    expected = np.hstack([one.toarray() for one in parts])
    np.testing.assert_array_equal(joined_lines(lines).toarray(), expected)
    np.testing.assert_array_equal(joined_lines(GrowingLines.of(lines, parts[0])).toarray()[:, :8], expected)
    assert joined_lines(parts[0]) is parts[0]


@pytest.mark.parametrize(
    "learner", [CertifiedRidgeClassifier(), CertifiedForestClassifier(4), CertifiedClusterClassifier()]
)
def test_copies_of_a_model_that_grow_differently_do_not_disturb_each_other(learner):
    rng = np.random.default_rng(0)
    X, y, reference, Z = rng.normal(size=(60, 3)), np.arange(60) % 2, rng.normal(size=(20, 3)), rng.normal(size=(9, 3))

    def fit(rows):
        return type(learner)(**learner.set_params(classes=[0, 1]).get_params()).fit(
            X[rows], y[rows], reference=reference
        )

    base = fit(range(20)).partial_fit(X[20:30], y[20:30])
    one, other = copy(base), copy(base)
    one.partial_fit(X[30:40], y[30:40]).partial_fit(X[40:42], y[40:42])
    other.partial_fit(X[50:], y[50:])
    for model, rows in ((base, [*range(30)]), (one, [*range(42)]), (other, [*range(30), *range(50, 60)])):
        assert np.array_equal(model.decision_function(Z), fit(rows).decision_function(Z))
        assert np.array_equal(model.label_codes_, y[rows])


def test_copies_that_grow_in_several_threads_share_nothing():
    """Room is claimed by one of them: the others copy."""
    first = appended(appended(np.zeros(200_000), np.zeros(1)), np.zeros(1))
    starts = Barrier(8)

    def grown(number):
        starts.wait()
        return appended(first, np.full(50_000, number))

    for _ in range(20):
        first = appended(first.copy(), np.zeros(1))
        with ThreadPoolExecutor(8) as pool:
            for number, one in enumerate(pool.map(grown, range(1, 9)), 1):
                assert set(one[len(first) :]) == {number}


def test_arrays_of_objects_are_concatenated():
    first, more = np.array(["a", None], dtype=object), np.array(["b"], dtype=object)
    found = appended(first, more)
    assert found.tolist() == ["a", None, "b"]
    assert not np.shares_memory(found, first)
