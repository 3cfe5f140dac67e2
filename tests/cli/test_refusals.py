"""Bad input of every kind: one line on stderr, exit code 2, nothing on stdout, no file left behind."""

import gzip

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from small_tables import emails, write, write_emails

from flipproof.cli.group import run


@pytest.fixture
def refused(tmp_path, capfd):
    """Return a function that runs `flipproof certify`, checks that it fails, and returns the message."""

    def check(*arguments, command="certify"):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert run([command, *map(str, arguments)]) == 2
        captured = capfd.readouterr()
        assert captured.out == ""
        assert captured.err.count("\n") == 1
        assert captured.err.startswith("flipproof: error: ")
        assert len(captured.err) < 500
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
        return captured.err

    return check


@pytest.fixture
def files(tmp_path):
    return write_emails(tmp_path)


def changed(files, option, value):
    """Return the options with one value replaced."""
    place = files.index(option) + 1
    return [*files[:place], str(value), *files[place + 1 :]]


@pytest.mark.parametrize("option", ["--train", "--test"])
def test_missing_files_are_refused(files, refused, option):
    assert "cannot read 'nowhere.csv': there is no such file." in refused(*changed(files, option, "nowhere.csv"))


def test_folders_without_tables_are_refused(files, refused, tmp_path):
    assert "has no files that end in" in refused(*changed(files, "--train", tmp_path))
    assert "it is a folder" in refused(*changed(files, "--test", tmp_path))


@pytest.mark.parametrize("option", ["--label", "--id"])
def test_unknown_label_and_id_columns_suggest_the_nearest_name(files, refused, option):
    said = refused(*changed(files, option, "kynd" if option == "--label" else "kei"))
    assert f"{option}: " in said
    assert f"Did you mean {'kind' if option == '--label' else 'key'!r}?" in said


@pytest.mark.parametrize("option", ["--features", "--drop", "--text", "--trusted", "--annotator"])
def test_unknown_columns_suggest_the_nearest_name(files, refused, option):
    said = refused(*files, option, "lenqth")
    assert "has no column 'lenqth'. Did you mean 'length'?" in said


def test_many_columns_are_listed_if_none_is_similar(refused, tmp_path):
    """The label is often the last column."""
    names = [*(f"mean {one}" for one in ("radius", "texture", "area", "symmetry", "perimeter")), "worst area"]
    table = pa.table({name: [0.5, 1.5, 2.5] for name in (*names, "worst radius", "weight", "malignant")})
    write(table, tmp_path / "train.csv")
    said = refused("--train", tmp_path / "train.csv", "--holdout", "0.3", "--label", "target")
    assert "Did you mean" not in said
    assert "It has 9 columns: 'mean radius', 'mean texture', 'mean area', 'mean symmetry', ..., 'worst area'" in said
    assert "'malignant'." in said


def test_unmatched_column_patterns_are_refused(files, refused):
    assert "has no column 'emb_*'" in refused(*files, "--features", "emb_*")


def test_column_names_in_the_wrong_case_get_a_suggestion(files, refused):
    assert "Did you mean 'kind'?" in refused(*changed(files, "--label", "KIND"))


def test_the_label_cannot_be_a_feature(files, refused):
    assert "the label column 'kind' cannot be a feature" in refused(*files, "--features", "length,kind")


def test_a_copy_of_the_label_cannot_be_a_feature(refused, tmp_path):
    files = write_emails(tmp_path)
    for name in ("train", "test"):
        table = emails(60, 1)
        write(table.append_column("copied", table["kind"]), tmp_path / f"{name}.csv")
    assert "column 'copied' is a copy of the label column 'kind'" in refused(*files)


def test_a_column_cannot_be_both_label_and_id(files, refused):
    assert "column 'kind' cannot be both --label and --id" in refused(*changed(files, "--id", "kind"))


def test_dropping_every_feature_is_refused(files, refused):
    assert "no feature columns" in refused(*files, "--drop", "*")


def test_words_in_a_numeric_test_column_are_refused(files, refused, tmp_path):
    table = emails(20, 2)
    write(table.set_column(1, "length", [["long"] * 20]), tmp_path / "test.csv")
    assert "column 'length' holds numbers" in refused(*files)


def test_a_word_in_a_numeric_column_is_located(files, refused, tmp_path):
    table = emails(80, 1)
    words = [str(value) for value in table["length"].to_pylist()]
    words[7] = "1,5"
    write(table.set_column(1, "length", [words]), tmp_path / "train.csv")
    said = refused(*files)
    assert "column 'length': 1 of 80 values is not a number: '1,5' in line 9 of" in said
    assert "--na '1,5'" in said
    assert "--categories 'length'" in said


def test_numeric_columns_cannot_be_read_as_text(files, refused):
    parquet_files = [value.replace(".csv", ".parquet") for value in files]
    for name, seed in (("train", 1), ("test", 2)):
        write(emails(40, seed), pathlike(parquet_files, name))
    assert "column 'length' must hold words" in refused(*parquet_files, "--text", "length")


def pathlike(files, name):
    from pathlib import Path

    return Path(files[files.index(f"--{name}") + 1])


def test_columns_without_values_are_refused(files, refused, tmp_path):
    table = emails(80, 1)
    write(table.set_column(1, "length", [pa.nulls(80, pa.float64())]), tmp_path / "train.csv")
    assert "column 'length' has no values" in refused(*files)


def test_columns_of_distinct_words_are_refused(files, refused, tmp_path):
    write_emails(tmp_path, n_train=250)
    without_id = [value for value in files if value not in ("--id", "key")]
    said = refused(*without_id)
    assert "column 'key' holds 250 distinct words in 250" in said


def test_a_single_class_is_refused(files, refused, tmp_path):
    table = emails(80, 1)
    write(table.set_column(4, "kind", [["ham"] * 80]), tmp_path / "train.csv")
    said = refused(*files)
    assert "all labels in column 'kind' are 'ham'" in said
    assert "--classes" in said


def test_missing_labels_are_refused(files, refused, tmp_path):
    table = emails(80, 1)
    labels = table["kind"].to_pylist()
    labels[3] = labels[9] = None
    write(table.set_column(4, "kind", [labels]), tmp_path / "train.csv")
    assert "missing labels in column 'kind', the first in line 5 ('mail-1-3')" in refused(*files)


def test_labels_must_be_classes(files, refused):
    assert "is it the label" in refused(*changed(changed(files, "--label", "key"), "--id", "kind"))
    said = refused(*changed(files, "--label", "length"))
    assert "holds fractions" in said
    assert said.endswith("For a numeric target, use `flipproof certify --target length`.\n")


@pytest.mark.parametrize("label", [float("inf"), 1e300, -1e300])
@pytest.mark.parametrize("name", ["train", "test"])
def test_infinite_and_huge_labels_are_refused(refused, tmp_path, label, name):
    files = write_emails(tmp_path, ".parquet")
    for one, n, seed in (("train", 80, 1), ("test", 20, 2)):
        labels = np.arange(n) % 2.0
        labels[3] = label if one == name else labels[3]
        write(emails(n, seed).set_column(4, "kind", [labels]), tmp_path / f"{one}.parquet")
    assert (
        f"{name}.parquet' holds {label!r} in row 3 ('mail-{1 + (name == 'test')}-3'): labels must be words"
        in refused(*files)
    )


def test_test_labels_of_a_different_type_are_refused(files, refused, tmp_path):
    table = emails(80, 1)
    numbers = [int(label == "spam") for label in table["kind"].to_pylist()]
    write(table.set_column(4, "kind", [numbers]), tmp_path / "train.csv")
    assert "column 'kind' holds numbers" in refused(*files)


def test_test_labels_without_any_known_class_are_refused(files, refused, tmp_path):
    table = emails(20, 2)
    labels = [f"{one}." for one in table["kind"].to_pylist()]
    write(table.set_column(4, "kind", [labels]), tmp_path / "test.csv")
    assert "must contain classes" in refused(*files)


def test_test_rows_must_have_the_training_columns(files, refused, tmp_path):
    write(emails(20, 2).rename_columns(["key", "Length", "country", "answered", "kind"]), tmp_path / "test.csv")
    assert "has no column 'length', which the training rows have. Did you mean 'Length'?" in refused(*files)


def test_test_rows_must_have_the_id_column(files, refused, tmp_path):
    write(emails(20, 2).drop_columns(["key"]), tmp_path / "test.csv")
    assert "has no column 'key'" in refused(*files)


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_truncated_parquet_files_are_refused(refused, tmp_path, keep):
    files = write_emails(tmp_path, ".parquet")
    content = (tmp_path / "train.parquet").read_bytes()
    (tmp_path / "train.parquet").write_bytes(content[:keep])
    assert "cannot read" in refused(*files)


def test_corrupt_parquet_files_are_refused(refused, tmp_path):
    files = write_emails(tmp_path, ".parquet")
    content = bytearray((tmp_path / "train.parquet").read_bytes())
    content[4:400] = b"\xff" * 396
    (tmp_path / "train.parquet").write_bytes(content)
    assert "cannot read" in refused(*files)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"\n", "cannot read"),
        (b"kind,length\n", "has no rows"),
        (b"kind,length\nspam,1\nham\n", "line 3 has 1 column, but the first line has 2: 'ham'"),
        (b"kind,length,length\nspam,1,2\nham,1,3\n", "more than one column is called 'length'"),
        (b"kind,length\nspam,\xe9t\xe9\nham,x\n", "UTF-8"),
        ("kind,length\nspam,1\n".encode("utf-16-le"), "--encoding utf-16-le"),
        (b"\x00\x01\x02\x03", "cannot read"),
    ],
)
def test_invalid_csv_files_are_refused(refused, tmp_path, content, words):
    (tmp_path / "bad.csv").write_bytes(content)
    said = refused("--train", tmp_path / "bad.csv", "--holdout", "0.5", "--label", "kind")
    assert words in said or "has no column 'kind'" in said


@pytest.mark.parametrize("ending", [".arrow", ".npz", ".npy", ".parquet", ".csv.gz", ".csv.xz", ".tsv.bz2"])
def test_files_that_do_not_match_their_extension_are_refused(refused, tmp_path, ending):
    (tmp_path / f"bad{ending}").write_bytes(b"kind,length\nspam,1\nham,2\n")
    assert "cannot read" in refused("--train", tmp_path / f"bad{ending}", "--holdout", "0.5", "--label", "kind")


def test_truncated_gzip_files_are_refused(refused, tmp_path):
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"kind,length\n" + b"spam,1\n" * 5000)[:60])
    said = refused("--train", tmp_path / "cut.csv.gz", "--holdout", "0.5", "--label", "kind")
    assert "it is compressed, but damaged" in said


def test_a_pickle_is_never_loaded(refused, tmp_path):
    np.savez(tmp_path / "objects.npz", X=np.array([{}, {}], dtype=object), y=np.array([0, 1]))
    assert "cannot read" in refused("--train", tmp_path / "objects.npz", "--holdout", "0.5", "--label", "y")


@pytest.mark.few(10)
@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--learner", "bayes"], "'bayes' is not one of"),
        (["--method", "best"], "'best' is not one of"),
        (["--scale", "big"], "'big' is not one of"),
        (["--format", "xls"], "'xls' is not one of"),
        (["--noise", "much"], "must be a number between 0 and 1, or auto"),
        (["--noise", "1.5"], "1.5"),
        (["--noise", "nan"], "nan"),
        (["--holdout", "0.5"], "Give either --test FILE or --holdout SHARE."),
        (["--min-radius", "-3"], "must be a number of flips"),
        (["--min-radius", "3@2"], "must be a number of flips"),
        (["--min-certified-accuracy", "0.9"], "must be ACCURACY@FLIPS"),
        (["--min-certified-accuracy", "90@100"], "must be ACCURACY@FLIPS"),
        (["--show", "countryy", "--report", "r.html"], "Did you mean 'country'?"),
        (["--show", "country"], "--show requires --report or --json"),
        (["--title", "Mail"], "--title requires --report or --json"),
        (["--min-certified-recall", "0.9"], "must be RECALL@FLIPS"),
        (["--min-certified-recall", ":0.9@1"], "must be RECALL@FLIPS"),
        (["--min-certified-recall", "spam:1.1@1"], "must be RECALL@FLIPS"),
        (["--min-certified-recall", "spam:0.5@-1"], "must be RECALL@FLIPS"),
        (["--min-certified-recall", "spams:0.5@1"], "one of ham, spam. Got 'spams' instead. Did you mean 'spam'?"),
        (["--allow", "spam"], "must be OLD:NEW"),
        (["--allow", "spam:spam"], "two different classes"),
        (["--allow", "spam:eggs"], "one of ham, spam. Got 'eggs'"),
        (["--classes", "spam,eggs"], "'ham'"),
        (["--set", "n_neighbours=3"], "NAME=VALUE"),
        (["--learner", "neighbors", "--set", "n_neighbours=3"], "Did you mean 'n_neighbors'?"),
        (["--learner", "neighbors", "--set", "n_neighbors=-3"], "n_neighbors"),
        (["--learner", "partition", "--method", "tight"], "'gap'"),
        (["--learner", "partition", "--noise", "0.1"], "has no noise"),
        (["--trusted", "country"], "must say which rows are trusted: yes or no, true or false, 1 or 0. Got"),
        (["--separator", "ab"], "one character"),
        (["--text-dimensions", "0"], "--text-dimensions"),
        (["--text-encoder", "model"], "--text-encoder requires --text"),
        (["--text-cache", "vectors"], "--text-cache requires --text-encoder"),
        (["--text-encoder", "no/such/model", "--text", "country"], "flipproof downloads nothing"),
        (["--seed", "-1"], "--seed"),
        (["--bogus"], "--bogus"),
    ],
)
def test_invalid_options_are_refused(files, refused, extra, words):
    assert words in refused(*files, *extra)


def test_either_test_or_holdout_is_required(files, refused):
    without = [value for value in files if not value.startswith("--test") and not value.endswith("test.csv")]
    assert "Give either --test FILE or --holdout SHARE." in refused(*without)


def test_a_holdout_that_leaves_no_rows_is_refused(files, refused):
    without = [value for value in files if not value.startswith("--test") and not value.endswith("test.csv")]
    assert "leaves no training rows or no test rows" in refused(*without, "--holdout", "0.001")


@pytest.mark.parametrize("missing", ["--train", "--label"])
def test_missing_required_options_are_named(files, refused, missing):
    place = files.index(missing)
    assert missing in refused(*files[:place], *files[place + 2 :])


def test_accuracy_cannot_be_required_without_labels(files, refused, tmp_path):
    write(emails(20, 2).drop_columns(["kind"]), tmp_path / "test.csv")
    assert "requires labels of the test rows" in refused(*files, "--min-certified-accuracy", "0.9@1")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("out.xlsx", "its name must end in"),
        ("nowhere/out.csv", "there is no folder"),
        ("train.csv", "it is also an input file"),
        ("folder.csv", "it is a folder"),
    ],
)
def test_invalid_output_paths_are_refused(files, refused, tmp_path, name, words):
    (tmp_path / "folder.csv").mkdir()
    assert words in refused(*files, "-o", tmp_path / name)


def test_invalid_report_paths_are_refused(files, refused, tmp_path):
    assert "its name must end" in refused(*files, "--report", tmp_path / "report.pdf")
    same = tmp_path / "same.json"
    assert "two options name this file" in refused(*files, "-o", same, "--report", same)


def test_unwritable_folders_are_refused(files, refused):
    assert "cannot write '/proc/self/out.csv'" in refused(*files, "-o", "/proc/self/out.csv")


def test_invalid_vectors_are_refused(refused, tmp_path):
    def save(name, vectors):
        parquet.write_table(pa.table({"v": pa.array(vectors), "y": [0, 1] * (len(vectors) // 2)}), tmp_path / name)

    files = ["--train", tmp_path / "a.parquet", "--test", tmp_path / "b.parquet", "--label", "y"]
    save("a.parquet", [[1.0, 2.0]] * 10)
    save("b.parquet", [[1.0, 2.0, 3.0]] * 4)
    assert "as long as in the training rows" in refused(*files)
    save("b.parquet", [[1.0, 2.0], [3.0]] * 2)
    assert "vectors of the same length" in refused(*files)
    save("b.parquet", [[1.0, 2.0], None] * 2)
    assert "has no vector in row 1" in refused(*files)
    save("b.parquet", [[1.0, 2.0], [None, 1.0]] * 2)
    assert "missing or infinite number in row 1" in refused(*files)
    save("b.parquet", [["a", "b"]] * 4)
    assert "vectors of numbers" in refused(*files)


def test_infinite_numbers_are_refused(files, refused, tmp_path):
    table = emails(80, 1)
    numbers = table["length"].to_pylist()
    numbers[5] = float("inf")
    write(table.set_column(1, "length", [numbers]), tmp_path / "train.csv")
    assert "column 'length' holds infinity in line 7 ('mail-1-5')" in refused(*files)


def test_dates_are_refused(refused, tmp_path):
    files = write_emails(tmp_path, ".parquet")
    for name, n, seed in (("train", 80, 1), ("test", 20, 2)):
        table = emails(n, seed)
        when = pa.array(np.arange(n).astype("datetime64[D]"))
        parquet.write_table(table.append_column("when", when), tmp_path / f"{name}.parquet")
    assert "column 'when' holds date32" in refused(*files)


@pytest.mark.parametrize("command", ["attack", "report"])
def test_attack_and_report_refuse_invalid_input(files, refused, tmp_path, command):
    if command == "attack":
        assert "Did you mean 'kind'?" in refused(*changed(files, "--label", "kynd"), command=command)
        assert "there is no test row '99'" in refused(*files, "--row", "99", command=command)
        assert "'partition' is not one of" in refused(*files, "--learner", "partition", command=command)
        assert "its name must end in" in refused(*files, "-o", tmp_path / "out.txt", command=command)
    else:
        assert "there is no such file" in refused("nowhere.json", command=command)
        for content in (b"", b"{", b"[1]", b"{}", b"\xff\xfe"):
            (tmp_path / "saved.json").write_bytes(content)
            refused(tmp_path / "saved.json", command=command)
        (tmp_path / "saved.json").write_bytes(b'{"format": "flipproof-report", "version": 2}')
        assert "saved report" in refused(tmp_path / "saved.json", command=command)
