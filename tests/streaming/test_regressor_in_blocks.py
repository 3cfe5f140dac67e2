"""Ridge regression over rows in blocks: the same numbers, intervals and radii as in memory, to the last bit."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from same_certificates import assert_same, cut
from sklearn.base import clone
from tiers import mostly_slow

from flipproof import Adversary, CertifiedRidgeRegressor, StreamingRidgeClassifier, StreamingRidgeRegressor
from flipproof.core import target_sums
from flipproof.streaming import RowBlocks, numbers_in_blocks

N, RANGE = 90, (-4.0, 11.0)
SIZES = [0, 31, 1, 0, 17, 40, 0]
FLIPS = [0, 1, 2, 7, 40, N, N + 5]
NUMBERS = np.arange(N) % 7
WORDS = np.array(["ann", "bob", "christine", "d"])[np.arange(N) % 4]
TRUSTED = np.arange(N) % 3 == 0
ADVERSARIES = {
    "anybody": None,
    "trusted": Adversary(trusted=TRUSTED),
    "all trusted": Adversary(trusted=np.ones(N, dtype=bool)),
    "annotators": Adversary(groups=WORDS),
    "annotators and trust": Adversary(groups=NUMBERS, trusted=TRUSTED),
    "small moves": Adversary(max_change=0.7),
    "no moves": Adversary(max_change=0),
    "all limits": Adversary(groups=WORDS, trusted=TRUSTED, max_change=2),
}
PARAMETERS = {
    "usual": {},
    "without intercept": {"fit_intercept": False},
    "clipped": {"clip": 0.5},
    "signs": {"clip": "sign"},
    "few bits": {"precision": 3},
    "many bits": {"precision": 24, "regularization": 0.0},
}


def some_numbers(n=N, k=3, m=6, seed=0):
    """Return training rows with different sizes, targets in RANGE with ties and ends, and test rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + m, k)) * [1, 100, 1e-6][:k]
    y = np.clip(rng.normal(3, 4, size=n), *RANGE)
    y[:: max(n // 5, 1)] = 2.5
    return X[:n], y, X[n:]


def fitted(parameters, X, y, sizes=SIZES):
    """Return the regressor on blocks, and the one in memory."""
    settings = {"target_range": RANGE, **parameters}
    blocks = StreamingRidgeRegressor(**settings).fit(cut(sizes, X, y))
    return blocks, CertifiedRidgeRegressor(**settings).fit(X, y)


def assert_same_answers(blocks, memory, Z, adversary):
    np.testing.assert_array_equal(blocks.predict(Z), memory.predict(Z), strict=True)
    for about in ({}, {"tolerance": 0.0}, {"tolerance": 0.8}, {"tolerance": 1e9}, {"threshold": 3.0}):
        found, wanted = (one.certify(Z, FLIPS, adversary=adversary, **about) for one in (blocks, memory))
        assert_same(found, wanted)


@pytest.mark.parametrize("name", mostly_slow(PARAMETERS, fast={0, 2}))
@pytest.mark.parametrize("limits", mostly_slow(ADVERSARIES, fast={0, 7}))
def test_the_same_as_in_memory(name, limits):
    X, y, Z = some_numbers()
    blocks, memory = fitted(PARAMETERS[name], X, y)
    adversary = ADVERSARIES[limits]
    assert_same_answers(blocks, memory, Z, adversary)
    if "clip" not in PARAMETERS[name]:
        assert_same(
            blocks.certify_coefficients(FLIPS, adversary=adversary),
            memory.certify_coefficients(FLIPS, adversary=adversary),
        )
        np.testing.assert_array_equal(blocks.coef_, memory.coef_)


@pytest.mark.parametrize(
    "sizes", [[], [1] * (N - 1), [N - 1], [0, 0, 50]], ids=["one block", "one row each", "two", "empty"]
)
def test_the_division_into_blocks_does_not_matter(sizes):
    X, y, Z = some_numbers(seed=1)
    assert_same_answers(*fitted({}, X, y, sizes), Z, None)


@pytest.mark.parametrize("name", mostly_slow(["anybody", "trusted", "small moves"], fast={0}))
def test_moves_that_are_not_kept_are_counted_by_size(monkeypatch, name):
    monkeypatch.setattr(numbers_in_blocks, "MOST_KEPT", 2)
    monkeypatch.setattr(numbers_in_blocks, "USUAL_DEPTH", 1)
    monkeypatch.setattr(target_sums, "ROWS_COUNTED", 4)
    X, y, Z = some_numbers(seed=2)
    X[10:40], y[10:40] = X[9], y[9]  # equal moves
    counted = []
    tally = target_sums.SizesOfMoves.tally
    monkeypatch.setattr(target_sums.SizesOfMoves, "tally", lambda *given: counted.append(1) or tally(*given))
    assert_same_answers(*fitted({}, X, y), Z, ADVERSARIES[name])
    assert counted


def test_what_is_trusted_in_the_fit_is_trusted_by_every_adversary():
    X, y, Z = some_numbers(seed=3)
    given = [(*rows, None) for rows in cut(SIZES, X, y, TRUSTED)]
    blocks = StreamingRidgeRegressor(target_range=RANGE).fit(given)
    memory = CertifiedRidgeRegressor(target_range=RANGE).fit(X, y, trusted=TRUSTED)
    for adversary in (None, Adversary(trusted=np.arange(N) % 5 == 1), Adversary(groups=WORDS)):
        assert_same_answers(blocks, memory, Z, adversary)


def test_annotators_of_the_fit_are_those_of_certificates():
    X, y, Z = some_numbers(seed=4)
    given = [(*rows[:2], None, rows[2]) for rows in cut(SIZES, X, y, WORDS)]
    blocks = StreamingRidgeRegressor(target_range=RANGE).fit(given)
    memory = CertifiedRidgeRegressor(target_range=RANGE).fit(X, y)
    found, wanted = (
        blocks.certify(Z, 2, tolerance=1),
        memory.certify(Z, 2, tolerance=1, adversary=Adversary(groups=WORDS)),
    )
    assert_same(found, wanted, same_adversary=False)
    assert found.unit == "annotators"


@pytest.mark.parametrize("seed", mostly_slow(range(8), fast={0}))
def test_no_change_of_targets_leaves_an_interval_and_the_ends_are_attained(seed):
    X, y, Z = some_numbers(n=5, k=2, m=3, seed=seed)
    sizes, model = [2, 1], StreamingRidgeRegressor(target_range=RANGE, regularization=0.1)
    found = clone(model).fit(cut(sizes, X, y)).certify(Z, [1, 2], tolerance=1.5)
    after = {1: [found.prediction], 2: [found.prediction]}
    for one in range(5):
        for other in range(one, 5):
            for ends in np.array(np.meshgrid(RANGE, RANGE)).reshape(2, -1).T:
                changed = y.copy()
                changed[[one, other]] = ends
                if one != other or ends[0] == ends[1]:
                    after[1 if one == other else 2].append(clone(model).fit(cut(sizes, X, changed)).predict(Z))
    after[2] += after[1]
    for place, flips in enumerate((1, 2)):
        np.testing.assert_array_equal(np.min(after[flips], axis=0), found.low[:, place])
        np.testing.assert_array_equal(np.max(after[flips], axis=0), found.high[:, place])
        moved = np.max(np.abs(np.array(after[flips]) - found.prediction), axis=0) > 1.5
        np.testing.assert_array_equal(moved, found.radius < flips)


def test_sources_threads_and_runs_of_test_rows_do_not_matter(tmp_path):
    X, y, Z = some_numbers(seed=5)
    wanted = CertifiedRidgeRegressor(target_range=RANGE).fit(X, y).certify(Z, FLIPS, tolerance=1)
    np.save(tmp_path / "X-0.npy", X[:50])
    np.save(tmp_path / "X-1.npy", X[50:])
    np.save(tmp_path / "y-0.npy", y[:50])
    np.save(tmp_path / "y-1.npy", y[50:])
    sources = [
        (X, y),
        (str(tmp_path / "X-*.npy"), str(tmp_path / "y-*.npy")),
        (lambda: iter(cut(SIZES, X, y)), None),
        (RowBlocks.from_arrays(X, y).map(np.copy), None),
    ]
    for rows, targets in sources:
        model = StreamingRidgeRegressor(target_range=RANGE, n_jobs=2, block_size=4).fit(rows, targets)
        assert_same(model.certify(Z, FLIPS, tolerance=1), wanted)
    again = pickle.loads(pickle.dumps(StreamingRidgeRegressor(target_range=RANGE).fit(X, y)))
    assert_same(again.certify(Z, FLIPS, tolerance=1), wanted)


def test_a_range_that_is_not_given_is_read_from_all_blocks():
    X, y, Z = some_numbers(seed=6)
    blocks, memory = fitted({"target_range": None}, X, y)
    assert blocks.target_range_ == memory.target_range_ == (y.min(), y.max())
    assert_same(blocks.certify(Z), memory.certify(Z))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": [np.nan]}, "block 1: Input y contains NaN"),
        ({"y": [np.inf]}, "block 1: Input y contains infinity"),
        ({"y": ["high"]}, "block 1: .*needs numbers as targets"),
        ({"y": [True]}, "needs numbers as targets"),
        ({"y": [12.0]}, "block 1: Targets must be within target_range.*Got 12 in row 0"),
        ({"X": [[np.nan, 0.0, 0.0]]}, "block 1 has NaN"),
        ({"X": [[0.0, 0.0]]}, "block 1 has 2 columns"),
    ],
)
def test_bad_blocks_are_refused_by_name(change, message):
    X, y, _ = some_numbers()
    block = {"X": np.zeros((1, 3)), "y": np.array([1.0]), **{name: np.array(one) for name, one in change.items()}}
    with pytest.raises(ValueError, match=message):
        StreamingRidgeRegressor(target_range=RANGE).fit([(X, y), (block["X"], block["y"])])


def test_other_bad_input_is_refused_in_one_line():
    X, y, Z = some_numbers()
    model = StreamingRidgeRegressor(target_range=RANGE)
    with pytest.raises(TypeError, match=r"does not take sample_weight\. Use the regressor in memory"):
        model.fit(X, y, sample_weight=y)
    with pytest.raises(ValueError, match="target_range"):
        clone(model).set_params(target_range=(1, 0)).fit(X, y)
    with pytest.raises(ValueError, match="At least two training rows"):
        clone(model).fit(X[:1], y[:1])
    model.fit(X, y)
    with pytest.raises(ValueError, match=r"does not cover .*changes='rows'"):
        model.certify(Z, adversary=Adversary(changes="rows"))
    with pytest.raises(ValueError, match="allowed"):
        model.certify(Z, adversary=Adversary(allowed=[(0, 1)]))
    with pytest.raises(ValueError, match="tolerance"):
        model.certify(Z, tolerance=-1.0)
    with pytest.raises(ValueError, match="trusted"):
        model.certify(Z, adversary=Adversary(trusted=[True]))
    with pytest.raises(ValueError, match="NaN"):
        model.certify(Z * np.nan)


def test_intervals_have_no_proof(tmp_path):
    X, y, Z = some_numbers()
    found = StreamingRidgeRegressor(target_range=RANGE).fit(X, y).certify(Z)
    with pytest.raises(ValueError, match="no proof of intervals of StreamingRidgeRegressor"):
        found.save(tmp_path / "proof.flipproof")


@pytest.mark.parametrize("what", ["features", "targets"])
def test_rows_that_change_after_the_fit_are_noticed(what):
    X, y, Z = some_numbers()
    model = StreamingRidgeRegressor(target_range=RANGE).fit(lambda: iter([(X, y)]))
    if what == "features":
        X[3, 0] += 1e-9
    else:
        y[[3, 4]] = y[[4, 3]]
    with pytest.raises(ValueError, match="changed since"):
        model.certify(Z)


def test_the_geometry_gets_no_targets():
    X, y, _ = some_numbers()
    model, other = (StreamingRidgeRegressor(target_range=RANGE).fit(X, targets) for targets in (y, y[::-1].copy()))
    one, two = (m._geometry._rule for m in (model, other))
    np.testing.assert_array_equal(one.labels.sums, two.labels.sums)
    assert not isinstance(model, StreamingRidgeClassifier)


COLUMNS = ["a", "b", "c"]


def test_parquet_files_have_a_column_of_targets(tmp_path):
    X, y, Z = some_numbers(seed=7)
    table = pa.table({**dict(zip(COLUMNS, X.T, strict=True)), "price": y, "who": WORDS, "checked": TRUSTED})
    pq.write_table(table.slice(0, 50), tmp_path / "0.parquet", row_group_size=20)
    pq.write_table(table.slice(50), tmp_path / "1.parquet")
    model = StreamingRidgeRegressor(target_range=RANGE).fit(str(tmp_path), "price", trusted="checked", groups="who")
    memory = CertifiedRidgeRegressor(target_range=RANGE).fit(pd.DataFrame(X, columns=COLUMNS), y, trusted=TRUSTED)
    test = pd.DataFrame(Z, columns=COLUMNS)
    wanted = memory.certify(test, [1, 2], tolerance=1, adversary=Adversary(groups=WORDS))
    assert_same(model.certify(test, [1, 2], tolerance=1), wanted, same_adversary=False)
    assert model.certify_coefficients(2).origin.names == COLUMNS


def test_parquet_files_without_numbers_are_refused(tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0], "price": ["x", "y"]}), tmp_path / "words.parquet")
    with pytest.raises(ValueError, match="holds string: targets must be numbers"):
        StreamingRidgeRegressor().fit(str(tmp_path), "price")
    pq.write_table(pa.table({"a": [1.0, 2.0], "price": [0.5, None]}), tmp_path / "words.parquet")
    with pytest.raises(ValueError, match="missing targets in column 'price', the first in row 1"):
        StreamingRidgeRegressor().fit(str(tmp_path), "price")


def test_rows_in_dask():
    da = pytest.importorskip("dask.array")
    X, y, Z = some_numbers(seed=8)
    model = StreamingRidgeRegressor(target_range=RANGE).fit(
        da.from_array(X, chunks=(37, 3)), da.from_array(y, chunks=50)
    )
    wanted = CertifiedRidgeRegressor(target_range=RANGE).fit(X, y).certify(Z, FLIPS, tolerance=1)
    assert_same(model.certify(Z, FLIPS, tolerance=1), wanted)
    np.testing.assert_array_equal(model.predict(da.from_array(Z, chunks=2)), wanted.prediction)
