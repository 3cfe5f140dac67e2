"""Rows in Dask's arrays and data frames, visited by Dask's own threads: as in memory, or a line that says why not."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask.delayed import delayed
from same_certificates import assert_same, assert_same_model, some_problem
from scipy import sparse

import flipproof
from flipproof import Adversary
from flipproof.streaming import StreamingKernelClassifier, StreamingRidgeClassifier

N, K = 120, 5
X, y, Z = some_problem(N, K, 3)
TRUSTED = np.arange(N) % 4 == 0
WHO = np.array(["ann", "bob", "christine"])[np.arange(N) % 7 % 3]
NAMES = [f"x{number}" for number in range(K)]


@pytest.fixture(autouse=True)
def one_thread():
    """Leave the cores to other tests; the order of visits is another one at every run all the same."""
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture(scope="module")
def memory():
    return flipproof.CertifiedRidgeClassifier().fit(X, y)


def unknown_chunks(array):
    """Return a Dask array of which it is not known how many rows a partition has."""
    return array[da.from_array(np.ones(len(array), dtype=bool), chunks=array.chunks[0])]


def frame(labels=y):
    return pd.DataFrame(X, columns=NAMES).assign(label=labels, checked=TRUSTED, who=WHO)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "chunks",
    [(N, K), (13, K), (50, 2), ((0, 100, 0, 1, 19, 0), (3, 1, 1)), ((1,) * 20 + (100,), K)],
)
@pytest.mark.parametrize("labels", ["memory", "list", "same chunks", "other chunks"])
def test_arrays(memory, chunks, labels):
    rows = da.from_array(X, chunks=chunks)
    given = {
        "memory": y,
        "list": y.tolist(),
        "same chunks": da.from_array(y, chunks=(rows.chunks[0],)),
        "other chunks": da.from_array(y, chunks=35),
    }[labels]
    model = StreamingRidgeClassifier().fit(rows, given)
    assert_same_model(model, memory, Z, ["exact"], [None, Adversary(trusted=TRUSTED, groups=WHO)])


def test_chunks_of_unknown_size(memory):
    rows = unknown_chunks(da.from_array(X, chunks=(40, 2)))
    labels = unknown_chunks(da.from_array(y, chunks=40))
    model = StreamingRidgeClassifier().fit(rows, labels, trusted=da.from_array(TRUSTED, chunks=40))
    assert_same(model.certify(Z, "tight"), memory.certify(Z, "tight", Adversary(trusted=TRUSTED)), same_adversary=False)
    assert_same(
        model.certify(Z, adversary=Adversary(trusted=~TRUSTED, groups=WHO)),
        memory.certify(Z, adversary=Adversary(trusted=~TRUSTED, groups=WHO)),
        same_adversary=False,
    )


def test_trusted_rows_and_annotators(memory):
    rows = da.from_array(X, chunks=(50, K))
    wanted = memory.certify(Z, adversary=Adversary(trusted=TRUSTED, groups=WHO))
    for trusted, groups in [(TRUSTED, WHO), (da.from_array(TRUSTED, chunks=7), da.from_array(WHO, chunks=100))]:
        model = StreamingRidgeClassifier().fit(rows, y, trusted=trusted, groups=groups)
        assert_same(model.certify(Z), wanted, same_adversary=False)


@pytest.mark.few(2)
@pytest.mark.parametrize("n_partitions", [1, 4])
@pytest.mark.parametrize("convert", ["words", "category", "numbers"])
def test_data_frames(n_partitions, convert):
    labels = {"words": np.array(["no", "perhaps", "yes"])[y], "category": np.array(["a", "b", "c"])[y], "numbers": y}
    table = frame(labels[convert])
    if convert == "category":
        table["label"], table["who"] = table["label"].astype("category"), table["who"].astype("category")
    rows = dd.from_pandas(table, npartitions=n_partitions)
    model = StreamingRidgeClassifier().fit(rows, "label", trusted="checked", groups="who")
    memory = flipproof.CertifiedRidgeClassifier().fit(pd.DataFrame(X, columns=NAMES), labels[convert])
    wanted = memory.certify(pd.DataFrame(Z, columns=NAMES), adversary=Adversary(trusted=TRUSTED, groups=WHO))
    assert_same(model.certify(pd.DataFrame(Z, columns=NAMES)), wanted, same_adversary=False)
    in_dask = dd.from_pandas(pd.DataFrame(Z, columns=NAMES), npartitions=2)
    assert_same(model.certify(in_dask), wanted, same_adversary=False)
    np.testing.assert_array_equal(model.predict(in_dask), wanted.prediction)
    np.testing.assert_array_equal(model.feature_names_in_, memory.feature_names_in_)


def test_columns_of_several_kinds_of_numbers():
    columns = {"x0": X[:, 0], "x1": X[:, 1] > 0, "x2": pd.array(np.rint(X[:, 2]), dtype="Int64")}
    mixed = pd.DataFrame(columns).assign(x3=pd.array(X[:, 3] > 0, dtype="boolean"), label=y)
    blocks = StreamingRidgeClassifier().fit(dd.from_pandas(mixed, npartitions=3), "label")
    numbers = mixed.drop(columns="label").astype(np.float64)
    assert_same_model(blocks, flipproof.CertifiedRidgeClassifier().fit(numbers, y), numbers[:9])


def test_test_rows_with_columns_in_another_order():
    model = StreamingRidgeClassifier().fit(dd.from_pandas(frame()[[*NAMES, "label"]], npartitions=2), "label")
    with pytest.raises(ValueError, match="The feature names should match"):
        model.certify(pd.DataFrame(Z, columns=NAMES[::-1]))
    model.fit(da.from_array(X, chunks=50), y)
    assert not hasattr(model, "feature_names_in_")
    model.certify(Z)


def test_labels_beside_a_data_frame(memory):
    rows = dd.from_pandas(frame(), npartitions=3)
    model = StreamingRidgeClassifier().fit(rows[NAMES], rows["label"], trusted=rows["checked"], groups=rows["who"])
    wanted = memory.certify(Z, adversary=Adversary(trusted=TRUSTED, groups=WHO))
    assert_same(model.certify(pd.DataFrame(Z, columns=NAMES)), wanted, same_adversary=False)
    arrays = StreamingRidgeClassifier().fit(rows[NAMES].to_dask_array(), rows["label"].to_dask_array())
    assert_same(arrays.certify(Z), memory.certify(Z))


def test_test_rows_in_dask(memory):
    model = StreamingRidgeClassifier().fit(da.from_array(X, chunks=(50, K)), y)
    assert_same_model(model, memory, Z)
    assert_same(model.certify(da.from_array(Z, chunks=(5, 2))), memory.certify(Z))
    np.testing.assert_array_equal(model.predict(da.from_array(Z, chunks=5)), memory.predict(Z))


def test_kernel():
    rows = da.from_array(X.astype(np.float32), chunks=((0, 70, 1, 49), 2))
    found = StreamingKernelClassifier(n_components=20).fit(rows, y)
    memory = flipproof.CertifiedKernelClassifier(n_components=20).fit(X.astype(np.float32), y)
    assert_same_model(found, memory, Z, ["exact", "kl"])


def partition(**columns):
    return delayed(pd.DataFrame(columns))


class TestRefusals:
    def test_nan_in_block_17(self):
        rows = X.copy()
        rows[17 * 5 + 2, 3] = np.nan
        with pytest.raises(ValueError, match=r"^block 17, rows 0 to 4 has NaN in its row 2, column 3: omit these"):
            StreamingRidgeClassifier().fit(da.from_array(rows, chunks=(5, K)), y)

    def test_partitions_with_other_columns(self):
        pieces = [da.from_delayed(delayed(X[:10, : K - (i == 3)]), shape=(10, K), dtype=float) for i in range(5)]
        with pytest.raises(ValueError, match=r"^block 3, rows 0 to 9 has 4 columns, but block 0, rows 0 to 9 has 5"):
            StreamingRidgeClassifier().fit(da.concatenate(pieces), y[:50])

    @pytest.mark.parametrize(
        ("columns", "message"),
        [
            ({"a": [1.0], "label": [1]}, "^block 1 has no column 'b', unlike its data frame"),
            ({"a": [1.0], "b": [1.0], "c": [2.0], "label": [1]}, "^block 1 has a column 'c', unlike its data frame"),
            ({"a": [1.0], "b": ["x"], "label": [1]}, "^block 1 holds .* in column 'b': features must be numbers"),
            ({"a": [1.0], "b": [None], "label": [1]}, "^block 1 holds object in column 'b': features must be numbers"),
            ({"a": [1.0], "b": [np.nan], "label": [1]}, "^block 1, row 0 has NaN in its row 0, column 1"),
            ({"a": [1.0], "b": [2.0]}, "^block 1 has no column 'label'"),
        ],
    )
    def test_data_frames_whose_partitions_differ(self, columns, message):
        first = {"a": [1.0, 2.0], "b": [0.5, 3.0], "label": [0, 1]}
        meta = pd.DataFrame(first).iloc[:0]
        rows = dd.from_delayed([partition(**first), partition(**columns)], meta=meta, verify_meta=False)
        with pytest.raises(ValueError, match=message):
            StreamingRidgeClassifier().fit(rows, "label")

    def test_columns_in_another_order_are_the_same_columns(self):
        parts = [{"a": X[:60, 0], "b": X[:60, 1], "label": y[:60]}, {"label": y[60:], "b": X[60:, 1], "a": X[60:, 0]}]
        meta = pd.DataFrame(parts[0]).iloc[:0]
        rows = dd.from_delayed([partition(**one) for one in parts], meta=meta, verify_meta=False)
        found = StreamingRidgeClassifier().fit(rows, "label").certify(pd.DataFrame(Z[:, :2], columns=["a", "b"]))
        assert_same(found, flipproof.CertifiedRidgeClassifier().fit(X[:, :2], y).certify(Z[:, :2]))

    def test_a_partition_with_a_wrong_number_of_labels(self):
        labels = da.from_array(y, chunks=((40, 41, 39),))
        with pytest.raises(ValueError, match=r"^block 1 has 40 rows, but y has 41 entries there|^block 2 .* y has 39"):
            StreamingRidgeClassifier().fit(unknown_chunks(da.from_array(X, chunks=(40, K))), labels)

    @pytest.mark.parametrize(
        ("rows", "labels", "message"),
        [
            (da.from_array(X, chunks=40), None, "y must have a label for each row of X, or be the name"),
            (da.from_array(X, chunks=40), y[:50], r"y must have one entry per row of X, 120. Got shape \(50,\)"),
            (da.from_array(X, chunks=40), "label", "y must be an array if X is an array. Got the name 'label' instead"),
            (
                da.from_array(X, chunks=40),
                da.from_array(X, chunks=40),
                r"y must have one entry per row of X. Got a Dask",
            ),
            (da.from_array(X[:, 0], chunks=40), y, "X must have rows and columns. Got a Dask array of shape"),
            (
                da.from_array(X, chunks=40),
                da.from_array(y[:50], chunks=10),
                "y must have the partitions of X, 3. Got 5",
            ),
            (dd.from_pandas(frame(), npartitions=2), "labl", "The data frame X has no column 'labl': it has x0, x1,"),
            (
                dd.from_pandas(frame()[NAMES], npartitions=2),
                y,
                "y must be a Dask collection if",
            ),
            (dd.from_pandas(frame()["label"], npartitions=2), y, "X must be a Dask array or data frame. Got Series"),
            (delayed(X), y, "X must be a Dask array or data frame. Got Delayed"),
        ],
    )
    def test_labels_that_do_not_fit(self, rows, labels, message):
        with pytest.raises(ValueError, match=message):
            StreamingRidgeClassifier().fit(rows, labels)

    def test_words_among_the_features(self):
        with pytest.raises(ValueError, match=r"^block \d holds .* in column 'who'"):
            StreamingRidgeClassifier().fit(dd.from_pandas(frame(), npartitions=2), "label")

    def test_two_columns_of_one_name(self):
        frame = pd.DataFrame(np.hstack([X, X[:, :1]]), columns=[*NAMES, NAMES[0]])
        with pytest.raises(ValueError, match="The data frame X has two columns 'x0'"):
            StreamingRidgeClassifier().fit(dd.from_pandas(frame, npartitions=2), da.from_array(y, chunks=60))

    def test_a_data_frame_of_labels(self):
        rows = dd.from_pandas(frame(), npartitions=2)
        with pytest.raises(ValueError, match=r"y must be a series, or the name of a column. Got a data frame instead"):
            StreamingRidgeClassifier().fit(rows[NAMES], rows[["label"]])

    def test_trusted_as_numbers(self):
        with pytest.raises(ValueError, match=r"trusted must be a mask of booleans, one per row. Got int64"):
            StreamingRidgeClassifier().fit(da.from_array(X, chunks=40), y, trusted=TRUSTED.astype(int))

    def test_rows_that_are_not_matrices(self):
        pieces = [da.from_delayed(delayed(sparse.csr_array)(X[:20]), shape=(20, K), dtype=float) for _ in range(3)]
        with pytest.raises(ValueError, match=r"^block . must have rows and columns. Got"):
            StreamingRidgeClassifier().fit(da.concatenate(pieces), y[:60])

    def test_no_rows(self):
        with pytest.raises(ValueError, match=r"At least two training rows are needed. Got 0 instead"):
            StreamingRidgeClassifier().fit(da.zeros((0, 3)), da.zeros(0))
