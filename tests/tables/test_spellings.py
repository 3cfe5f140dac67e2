"""Words in columns of numbers are reported, in files and in data frames."""

import pandas as pd
import pyarrow as pa
import pytest

import flipproof
from flipproof.tables import TableEncoder, TextLayout
from flipproof.tables.spellings import strange_words


def column(*words):
    return pa.chunked_array([list(words)], pa.string())


@pytest.mark.parametrize(
    ("words", "decimal", "expected"),
    [
        (["1", "2", "x", None], ".", (1, 3, "x", 2, "")),
        (["x", "1", "x", "2", "3"], ".", (2, 5, "x", 0, "")),
        (["1,5", "2,5", "x"], ".", (3, 3, "1,5", 0, "decimal commas")),
        (["1.5", "2.5"], ",", (2, 2, "1.5", 0, "decimal points")),
        (["1,5", "2", "1.5"], ",", (1, 3, "1.5", 2, "")),
        (["$5", "12 %", "1,234,567.8"], ".", (3, 3, "$5", 0, "other signs")),
        (["none", *["none"] * 40, *map(str, range(30))], ".", (41, 71, "none", 0, "")),
    ],
)
def test_words_in_columns_of_numbers(words, decimal, expected):
    found = strange_words(column(*words), decimal)
    assert (found.count, found.total, found.example, found.row, found.notation) == expected


@pytest.mark.parametrize(
    "words", [["a", "b"], ["1", "2"], ["1", "a"], ["4 rooms", "5"], [None, None], ["1.2.3", "1.2.4"], ["-", "1e5"]]
)
def test_other_columns(words):
    assert strange_words(column(*words)) is None


FRAME = pd.DataFrame({"age": ["17", "41", "N/A?", "33"] * 4, "kind": ["a", "b", "b", "a"] * 4})


def test_data_frames():
    with pytest.raises(ValueError, match=r"column 'age': 4 of 16 values are not numbers: 'N/A\?' in row 2") as error:
        TableEncoder().fit(FRAME[["age"]])
    assert "Replace them by missing values" in str(error.value)
    assert TableEncoder(categories=["age"]).fit(FRAME[["age"]]).kinds_ == {"age": "words"}
    assert TableEncoder().fit(FRAME[["age"]].astype("category")).kinds_ == {"age": "words"}
    with pytest.raises(ValueError, match="of the training table"):
        flipproof.audit(FRAME, holdout=0.5, label="kind")
    found = flipproof.audit(FRAME, holdout=0.5, label="kind", categories="age", attack=False)
    assert found.encoder.kinds_ == {"age": "words"}


def test_files(tmp_path):
    path = tmp_path / "a.csv"
    FRAME.to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"in line 4 of '.*a.csv'\. If"):
        flipproof.audit(path, holdout=0.5, label="kind")
    found = flipproof.audit(path, holdout=0.5, label="kind", layout=TextLayout(na="N/A?"), attack=False)
    assert found.encoder.kinds_ == {"age": "numbers"}
    found = flipproof.audit(path, holdout=0.5, label="kind", categories=["age"], attack=False)
    assert found.encoder.kinds_ == {"age": "words"}


def test_numbers_as_categories():
    frame = pd.DataFrame({"code": [7, 8, 7], "size": [1.0, 2.0, 3.0]})
    encoder = TableEncoder(categories=["code"]).fit(frame)
    assert encoder.kinds_ == {"code": "words", "size": "numbers"}
    assert encoder.transform(frame)[:, 1:].tolist() == [[1, 0], [0, 1], [1, 0]]
    assert encoder.transform(frame.astype({"code": float}))[:, 1:].tolist() == [[1, 0], [0, 1], [1, 0]]
    with pytest.raises(ValueError, match="must hold words or numbers to be categories"):
        TableEncoder(categories=["v"]).fit(pa.table({"v": [[1.0], [2.0]]}))
