"""`flipproof certify`: labels, annotators and classes are compared by value, for any file format and type."""

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from small_tables import emails, write

from flipproof.cli.group import run
from flipproof.tables.labels import allowed_changes, typed_classes

N_TRAIN, N_TEST = 80, 20
WHO = np.arange(N_TRAIN) * 7 % 80 % 9


def written(folder, labels, who=None, ending=".csv", test_labels=None):
    """Write emails with the given labels and annotators, and return the options that name them."""
    for name, n, seed, named in (("train", N_TRAIN, 1, labels), ("test", N_TEST, 2, test_labels or labels)):
        table = emails(n, seed)
        spam = np.array(table["kind"].to_pylist()) == "spam"
        table = table.set_column(4, "kind", [pa.array(np.array(named)[spam.astype(int)])])
        if who is not None and name == "train":
            table = table.append_column("who", [pa.array(who)])
        write(table, folder / f"{name}{ending}")
    options = ["--train", folder / f"train{ending}", "--test", folder / f"test{ending}", "--label", "kind"]
    return [str(one) for one in (*options, "--drop", "key", *(["--annotator", "who"] if who is not None else []))]


@pytest.fixture
def certified(tmp_path, capfd):
    def check(*arguments, code=0):
        out = tmp_path / "certificates.parquet"
        assert run(["certify", *map(str, arguments), "-o", str(out), "--json"]) == code
        captured = capfd.readouterr()
        if code:
            assert captured.err.count("\n") == 1
            return captured.err
        json.loads(captured.out)
        return parquet.read_table(out).to_pydict()

    return check


@pytest.mark.slow
def test_numeric_labels_in_text_files_are_compared_by_value(tmp_path, certified):
    wanted = certified(*written(tmp_path, ["0", "1"]))
    assert set(wanted["prediction"]) <= {0, 1}
    for labels, test_labels in ((["0.0", "1.0"], ["0", "1"]), (["0", "1"], ["0.0", "1.0"]), (["00", "01"], ["0", "1"])):
        files = written(tmp_path, labels, test_labels=test_labels)
        for more in ([], ["--classes", "0,1.0"], ["--allow", "0:1", "--allow", "1.0:0"]):
            found = certified(*files, *more)
            assert {name: found[name] for name in ("prediction", "radius", "correct")} == {
                name: wanted[name] for name in ("prediction", "radius", "correct")
            }


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_large_labels_are_exact(tmp_path, certified, ending):
    wanted = certified(*written(tmp_path, [0, 1], ending=ending))
    large = [2**63 + 2**53, 2**63 + 2**53 + 1]
    files = written(tmp_path, large, ending=ending)
    for more in (
        [],
        ["--classes", f"{large[1]},{large[0]}"],
        ["--allow", f"{large[0]}:{large[1]}", "--allow", f"{large[1]}:{large[0]}"],
    ):
        found = certified(*files, *more)
        assert found["prediction"] == [large[one] for one in wanted["prediction"]]
        assert found["radius"] == wanted["radius"]
        assert found["correct"] == wanted["correct"]


def test_large_labels_and_ids_are_exact_in_attacks(tmp_path, capfd):
    files = written(tmp_path, [2**63, 2**63 + 1], ending=".parquet")
    for name in ("train", "test"):
        table = parquet.read_table(tmp_path / f"{name}.parquet")
        ids = pa.array([2**64 - 1 - one for one in range(len(table))], pa.uint64())
        parquet.write_table(table.set_column(0, "key", ids), tmp_path / f"{name}.parquet")
    for more in ([], ["--row", f"{2**64 - 3}"]):
        assert run(["attack", *files[:6], "--id", "key", "--json", *more]) == 0
        for line in json.loads(capfd.readouterr().out)["rows"]:
            assert line["train_id"] > 2**63
            assert line["old_label" if more else "label"] in (2**63, 2**63 + 1)


def test_large_labels_are_exact_across_files_of_different_types(tmp_path, certified):
    files = written(tmp_path, [2**63 + 1, 2**63 + 2], ending=".parquet")
    wanted = certified(*files)
    whole = parquet.read_table(tmp_path / "train.parquet")
    (tmp_path / "rows").mkdir()
    for number, kind in enumerate([pa.uint64(), pa.decimal128(38, 0), pa.decimal128(38, 2)]):
        part = whole.slice(30 * number, 30)
        numbers = part["kind"].to_pylist()
        labels = pa.array(numbers if kind == pa.uint64() else [Decimal(one) for one in numbers], kind)
        parquet.write_table(part.set_column(4, "kind", labels), tmp_path / "rows" / f"{number}.parquet")
    found = certified("--train", tmp_path / "rows", *files[2:])
    assert {name: found[name] for name in found if name != "id"} == {
        name: wanted[name] for name in wanted if name != "id"
    }


def test_annotators_may_be_of_any_type(tmp_path, certified):
    wanted = certified(*written(tmp_path, ["ham", "spam"], WHO, ".parquet"))
    assert set(wanted["unit"]) == {"annotators"}
    for who, ending in (
        (WHO, ".csv"),
        ([f"{2**65 + int(one)}" for one in WHO], ".csv"),
        ([f"0{one}" for one in WHO], ".csv"),
        ([f"1.{one}" for one in WHO], ".csv"),
        ([b"%d" % one for one in WHO], ".parquet"),
        (WHO.astype(np.float32), ".parquet"),
        (pa.array(WHO).cast(pa.decimal128(38, 2)), ".parquet"),
        (pa.array(WHO).dictionary_encode(), ".parquet"),
    ):
        assert certified(*written(tmp_path, ["ham", "spam"], who, ending))["radius"] == wanted["radius"]


@pytest.mark.parametrize("where", ["--label", "--annotator"])
def test_a_number_spelled_in_two_ways_is_refused(tmp_path, certified, where):
    spelled = [f"{'0' * (place % 2)}{one}" for place, one in enumerate(WHO)]
    files = written(tmp_path, ["ham", "spam"], spelled)
    if where == "--label":
        files = [*files[:4], "--label", "who", "--drop", "key,kind"]
    said = certified(*files, code=2)
    assert "column 'who' holds " in said
    assert "one number in two spellings" in said


def test_a_copy_of_the_label_in_another_type_is_refused(tmp_path, certified):
    files = written(tmp_path, ["0.0", "1.0"])
    table = csv.read_csv(tmp_path / "train.csv")
    for copy in (table["kind"].cast(pa.int8()), table["kind"].cast(pa.bool_()), table["kind"]):
        write(table.append_column("copy", copy), tmp_path / "train.csv")
        assert "column 'copy' is a copy of the label column 'kind'" in certified(*files, code=2)


NAMES = np.array(["a", "a:b", "b:c", "c", "d"])


@pytest.mark.parametrize(
    ("typed", "pair"),
    [
        ("a:c", ("a", "c")),
        ("a:b:d", ("a:b", "d")),
        ("d:b:c", ("d", "b:c")),
        (r"a\:b:c", ("a:b", "c")),
        (r"a:b\:c", ("a", "b:c")),
        (r"a\:b:b\:c", ("a:b", "b:c")),
    ],
)
def test_class_names_with_colons_are_parsed(typed, pair):
    assert allowed_changes([typed], NAMES) == [pair]


def test_ambiguous_changes_are_refused(tmp_path, certified):
    said = r"'a:b:c' is ambiguous. Escape the colons that belong to names: a:b\:c or a\:b:c."
    with pytest.raises(ValueError, match="is ambiguous") as error:
        allowed_changes(["a:b:c"], NAMES)
    assert str(error.value) == f"'allowed': {said}"
    with pytest.raises(ValueError, match="Got 'x'"):
        allowed_changes(["x:a:b"], NAMES)


def test_numeric_changes_and_classes_are_compared_by_value():
    numbers = np.array([-1, 0, 2**53 + 1])
    assert allowed_changes(["-1:0.0", "9007199254740993:-1.0"], numbers) == [(-1, 0), (2**53 + 1, -1)]
    assert typed_classes(["1.0", "18446744073709551615"], numbers) == [1, 2**64 - 1]
    with pytest.raises(ValueError, match="Got '9007199254740992'"):
        allowed_changes(["9007199254740992:0"], numbers)
    with pytest.raises(ValueError, match=r"classes must be numbers.* Got 1\.5"):
        typed_classes(["1.5"], numbers)
