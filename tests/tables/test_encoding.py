"""Columns as numbers: what comes out, and that no label goes in."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin

import flipproof
from flipproof import Assumption, CertifiedRidgeClassifier
from flipproof.tables import TableEncoder
from flipproof.tables.encoding import is_heavy_tailed


def test_columns_with_heavy_tails_are_mapped_by_rank():
    rng = np.random.default_rng(0)
    normal, income = rng.normal(size=500), rng.lognormal(sigma=2, size=500)
    rare = np.arange(500) == 7  # kurtosis 498, but two values
    mostly = np.where(np.arange(500) % 20 == 0, income, 0)
    table = pa.table({"income": income, "size": normal, "rare": rare.astype(float), "gain": [None, *mostly[1:]]})
    auto = TableEncoder().fit(table)
    assert auto.heavy_tailed_ == ("income", "gain")
    standard = TableEncoder(scale="standard").fit_transform(table.select(["size", "rare"]))
    by_rank = TableEncoder(scale="rank").fit_transform(table.select(["income", "gain"]))
    np.testing.assert_array_equal(auto.transform(table), np.concatenate([standard, by_rank], axis=1))
    np.testing.assert_array_equal(auto.fit_transform(table), auto.transform(table))
    assert auto.describe() == [
        "2 columns of numbers (size, rare): standardised; missing values become the median; 2 features",
        "2 columns of heavy-tailed numbers (income, gain): by rank, as if normally distributed; missing values become "
        "the median; 3 features",
    ]
    assert TableEncoder(scale="standard").fit(table).heavy_tailed_ == ()


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e308])
def test_heavy_tails_do_not_depend_on_units(scale):
    rng = np.random.default_rng(0)
    for values, heavy in ((rng.normal(size=999), False), (rng.standard_t(2, size=999), True)):
        scaled = scale * np.append(values / np.abs(values).max(), np.nan)
        assert is_heavy_tailed(scaled) is heavy
    assert not is_heavy_tailed(np.full(5, scale))
    assert not is_heavy_tailed(np.array([np.nan]))


def test_test_rows_do_not_decide_on_tails():
    train = pa.table({"a": np.arange(100.0)})
    wild = pa.table({"a": [*range(99), 1e9]})
    encoder = TableEncoder().fit(train)
    np.testing.assert_array_equal(encoder.transform(wild)[:99], encoder.transform(train)[:99])


def test_numbers_are_standardised_and_missing_ones_marked():
    table = pa.table({"x": [1.0, 3.0, None, 5.0], "n": [10, 20, 30, 40]})
    encoded = TableEncoder().fit_transform(table)
    assert encoded.shape == (4, 3)
    present = encoded[[0, 1, 3], 0]
    assert np.allclose([present.mean(), present.std()], [0, 1])
    assert encoded[2, 0] == np.median(present)
    assert encoded[:, 2].tolist() == [0, 0, 1, 0]


def test_scales():
    x = np.exp(np.linspace(0, 10, 50))
    table = pa.table({"x": x})
    assert np.array_equal(TableEncoder(scale="none").fit_transform(table)[:, 0], x)
    ranked = TableEncoder(scale="rank").fit_transform(table)[:, 0]
    assert np.array_equal(np.argsort(ranked), np.arange(50))
    assert np.allclose(ranked, -ranked[::-1], atol=1e-6)
    with pytest.raises(ValueError, match="'scale' parameter of TableEncoder"):
        TableEncoder(scale="log").fit(table)


def test_booleans_are_0_and_1():
    encoded = TableEncoder().fit_transform(pa.table({"b": [True, False, None, True]}))
    assert encoded.tolist() == [[1, 0], [0, 0], [1, 1], [1, 0]]


def test_words_are_one_hot_encoded_and_new_ones_ignored():
    encoder = TableEncoder().fit(pa.table({"w": ["a", "b", None, "a"]}))
    assert encoder.transform(pa.table({"w": ["b", "a", None, "c"]})).tolist() == [
        [0, 1, 0],
        [1, 0, 0],
        [0, 0, 1],
        [0, 0, 0],
    ]


def test_rare_words_share_a_column():
    words = ["a"] * 50 + ["b"] * 40 + [f"w{i}" for i in range(30)]
    encoder = TableEncoder(max_categories=3).fit(pa.table({"w": words}))
    assert encoder.transform(pa.table({"w": ["a", "b", "w3", "new"]})).tolist() == [
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
        [0, 0, 1],
    ]


def test_words_may_be_dictionaries_or_numbers_in_test_rows():
    words = pa.array(["1", "2", "x"]).dictionary_encode()
    encoder = TableEncoder().fit(pa.table({"w": words}))
    assert encoder.transform(pa.table({"w": [2, 1]})).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_vectors_have_one_common_scale():
    X = np.random.default_rng(0).normal(size=(40, 3)) * [1, 10, 100]
    encoded = TableEncoder().fit_transform(pa.table({"v": list(X)}))
    ratio = encoded / X
    assert np.allclose(ratio, ratio[0, 0])
    assert np.isclose(encoded.var(axis=0).mean(), 1)
    same = TableEncoder().fit_transform(pa.table({"v": [[2.0, 1.0]] * 3}))
    assert same.tolist() == [[2.0, 1.0]] * 3


def test_similar_texts_have_similar_vectors():
    texts = ["free cash prize", "win free cash", "lunch tomorrow", "lunch meeting tomorrow", None]
    encoder = TableEncoder(["t"], text_dimensions=2)
    encoded = encoder.fit_transform(pa.table({"t": texts}))
    assert encoded.shape == (5, 2)
    assert encoded[0] @ encoded[1] > 10 * abs(encoded[0] @ encoded[2])
    assert encoded[4].tolist() == [0, 0]
    again = encoder.transform(pa.table({"t": texts}))
    assert np.allclose(again, encoded)
    assert "text (t)" in encoder.describe()[0]


class Lengths(TransformerMixin, BaseEstimator):
    """Encodes a text as its number of letters and of spaces, and refuses labels."""

    rests_on = Assumption("stated", {"text": "Letters are counted correctly."})

    def fit(self, X, y=None):
        assert y is None
        self.n_seen_ = len(X)
        return self

    def transform(self, X):
        return np.array([[len(text), text.count(" ")] for text in X], dtype=np.float32)


def test_a_given_encoder_encodes_every_column_of_texts():
    table = pa.table({"t": ["a b c", None, "abc"], "n": [1.0, 2.0, 3.0], "u": ["", "x", " "]})
    encoder = TableEncoder(["t", "u"], scale="none", text_encoder=Lengths())
    assert encoder.fit_transform(table).tolist() == [[1, 5, 2, 0, 0], [2, 0, 0, 1, 0], [3, 3, 0, 1, 1]]
    assert encoder.transform(table.slice(2)).tolist() == [[3, 3, 0, 1, 1]]
    assert "encoded by Lengths; 4 features" in encoder.describe()[1]
    assert not hasattr(encoder.text_encoder, "n_seen_")
    with pytest.raises(ValueError, match="'text_encoder' parameter of TableEncoder must"):
        TableEncoder(["t"], text_encoder="all-MiniLM-L6-v2").fit(table)


def test_an_audit_names_the_encoder_of_texts():
    table = pa.table({"t": ["a b", "abc", "a b c d", "abcdefg"] * 5, "y": ["yes", "no"] * 10})
    result = flipproof.audit(table, holdout=0.2, label="y", text=["t"], text_encoder=Lengths(), learner="neighbors")
    assert Lengths.rests_on in result.main.assumptions
    given = {"learner": "neighbors", "reference": table.slice(0, 4), "changes": "rows", "classes": ["no", "yes"]}
    result = flipproof.audit(table, holdout=0.2, label="y", text=["t"], text_encoder=Lengths(), **given)
    assert Lengths.rests_on in result.main.assumptions
    with pytest.raises(ValueError, match="'text_encoder' requires 'text'"):
        flipproof.audit(table, holdout=0.2, label="y", text_encoder=Lengths())


@pytest.mark.parametrize("texts", [["a"], ["...", "!", "--"], ["one", "two"]])
def test_texts_with_hardly_a_word(texts):
    with pytest.raises(ValueError, match="column 't' has too few"):
        TableEncoder(["t"]).fit(pa.table({"t": texts}))


def test_texts_that_are_all_the_same():
    assert np.isfinite(TableEncoder(["t"]).fit_transform(pa.table({"t": ["hello world"] * 5}))).all()


def test_frames_of_any_library():
    values = {"x": [1.0, 2.0, 3.0], "w": ["a", "b", "a"]}
    wanted = TableEncoder().fit_transform(pa.table(values))
    assert np.array_equal(TableEncoder().fit_transform(pd.DataFrame(values)), wanted)
    with pytest.raises(ValueError, match=r"X must be a pyarrow table or a data frame\. Got list instead"):
        TableEncoder().fit([[1.0]])
    with pytest.raises(ValueError, match="no columns"):
        TableEncoder().fit(pa.table({}))


def test_as_features_of_a_learner():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 60)
    frame = pd.DataFrame({"x": rng.normal(size=60) + 2 * y, "w": np.where(rng.random(60) < 0.5, "a", "b")})
    model = CertifiedRidgeClassifier(features=TableEncoder(), classes=[0, 1]).fit(frame, y)
    encoded = TableEncoder().fit_transform(frame)
    direct = CertifiedRidgeClassifier(classes=[0, 1]).fit(encoded, y)
    assert np.array_equal(model.certify(frame).radius, direct.certify(encoded).radius)


def test_labels_are_ignored():
    table = pa.table({"x": np.arange(20.0), "w": ["a", "b"] * 10})
    one, other = (TableEncoder().fit(table, y).transform(table) for y in (np.zeros(20), np.arange(20) % 2))
    assert np.array_equal(one, other)


def test_encoding_does_not_depend_on_test_rows():
    table = pa.table({"x": [1.0, 2.0, 6.0], "w": ["a", "b", "a"]})
    encoder = TableEncoder().fit(table)
    alone = encoder.transform(table.slice(0, 1))
    assert np.array_equal(encoder.transform(table)[:1], alone)


def test_all_values_of_a_test_column_may_be_missing():
    encoder = TableEncoder().fit(pa.table({"x": [1.0, 2.0, 6.0], "w": ["a", "b", "a"]}))
    nothing = pa.table({"x": pa.nulls(2), "w": pa.nulls(2)})
    assert np.isfinite(encoder.transform(nothing)).all()
    with pytest.raises(ValueError, match="column 'w' is missing"):
        encoder.transform(pa.table({"x": [1.0]}))


def test_every_feature_has_a_name_and_its_scale():
    n = 40
    words = ["cook", "nurse", "cook", None, "judge", "cook", "judge", "cook"] * 5
    notes = ["good bread", "bad bread", "good rolls", "bad rolls", "", None, "bad rolls", "good"] * 5
    table = pa.table(
        {
            "age": [None, *(float(i * i % 61) for i in range(1, n))],
            "gain": [1e9, *(float(i % 3) for i in range(1, n))],
            "size": [i * 7 % 11 for i in range(n)],
            "member": [None, *(i % 3 == 0 for i in range(1, n))],
            "job": words,
            "place": [[float(i), 2.0 * i * i] for i in range(n)],
            "colour": [[1.0, 0.5 * i, -float(i)] for i in range(n)],
            "note": notes,
        }
    )
    encoder = TableEncoder(text=["note"], max_categories=3).fit(table)
    features = encoder.encoded_features()
    names = [one.name for one in features]
    assert names[:6] == ["age", "size", "age is missing", "gain (by rank)", "member", "member is missing"]
    assert names[6:9] == ["job = cook", "job = judge", "job = another word"]
    assert names[9:15] == ["place[0]", "place[1]", "colour[0]", "colour[1]", "colour[2]", "note[0]"]
    assert encoder.get_feature_names_out().tolist() == names
    assert len(names) == encoder.n_features_out_
    # if a column of numbers moves by 1, its features move by their scales, and no others
    plain = encoder.transform(table)
    for place, (column, kind) in enumerate(zip(table.column_names, table.schema.types, strict=True)):
        if column in ("gain", "member", "job", "note"):
            continue
        plus = {True: lambda one: [x + 1 for x in one], False: lambda one: one and one + 1}[pa.types.is_list(kind)]
        moved = [plus(one) for one in table[column].to_pylist()]
        ways = encoder.transform(table.set_column(place, column, pa.array(moved, kind)))[1] - plain[1]
        for one, way in zip(features, ways, strict=True):
            is_own = one.name == column or one.name.startswith(f"{column}[")
            np.testing.assert_allclose(way, one.scale if is_own else 0, rtol=1e-6)
    for word, name in {"cook": "job = cook", "nurse": "job = another word", None: "job = another word"}.items():
        row = encoder.transform(table.slice(words.index(word), 1))[0]
        assert [names[place] for place in np.flatnonzero(row) if names[place].startswith("job")] == [name]


def test_columns_of_data_frames_are_no_output_of_the_encoder():
    """Learners need arrays, also where scikit-learn is told to return data frames."""
    table = pa.table({"a": [1.0, 2.0, 4.0]})
    with config_context(transform_output="pandas"):
        assert isinstance(TableEncoder().fit_transform(table), np.ndarray)
