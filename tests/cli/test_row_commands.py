"""`flipproof certify --reference FILE --changes rows`: the same as the library, and refusals in one line."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv
from sklearn.base import clone
from small_tables import FEATURES, emails, write, write_emails

import flipproof
from flipproof import Adversary, CertifiedNeighborsClassifier, CertifiedRidgeClassifier
from flipproof.cli.group import run
from flipproof.runtime.files import digest_of_file
from flipproof.tables import TableEncoder


@pytest.fixture
def files(tmp_path):
    write(emails(40, 7).select(FEATURES), tmp_path / "reference.csv")
    return [*write_emails(tmp_path), "--reference", str(tmp_path / "reference.csv")]


@pytest.fixture
def refused(tmp_path, capfd):
    """Return a function that runs a command that fails, and returns its message."""

    def check(*arguments, command="certify"):
        assert run([command, *map(str, arguments), "-o", str(tmp_path / "out.csv")]) == 2
        captured = capfd.readouterr()
        assert (captured.out, captured.err.count("\n")) == ("", 1)
        assert not (tmp_path / "out.csv").exists()
        return captured.err

    return check


@pytest.mark.few(1)
@pytest.mark.parametrize("changes", ["rows", "insertions", "removals"])
def test_the_output_matches_the_library(files, tmp_path, capfd, changes):
    out = tmp_path / "out.csv"
    assert run(["certify", *files, "--changes", changes, "--clip", "0.9", "--json", "-o", str(out)]) == 0
    summary, written = json.loads(capfd.readouterr().out), csv.read_csv(out)
    wanted = flipproof.audit(
        *(tmp_path / f"{name}.csv" for name in ("train", "test")),
        label="kind",
        id="key",
        reference=tmp_path / "reference.csv",
        changes=changes,
        clip=0.9,
    )
    assert written["radius"].to_pylist() == wanted.main.radius.tolist()
    assert written["unlimited"].to_pylist() == wanted.main.unlimited.tolist()
    assert (summary["problem"]["unit"], summary["problem"]["changes"]) == ("rows", changes)
    assert summary["facts"]["reference_rows"] == 40
    assert digest_of_file(tmp_path / "reference.csv") in summary["facts"]["sha256"].values()


def test_requirements_and_the_printed_summary(files, capfd):
    required = ["--changes", "rows", "--clip", "sign", "--min-radius", "1000"]
    assert run(["certify", *files, *required]) == 1
    printed = capfd.readouterr().out
    assert "40 reference rows:" in printed
    assert "changed rows" in printed
    assert run(["certify", *files]) == 0
    printed = capfd.readouterr().out
    assert "changed labels" in printed
    assert "changed rows" in printed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "tight"], "--method: only exact"),
        (["--allow", "ham:spam"], "--allow cannot be combined with --changes rows"),
        (["--clip", "1.5"], "above 0 and at most 1"),
        (["--clip", "loud"], "above 0 and at most 1"),
        (["--learner", "cluster", "--clip", "0.9"], "--clip: the learner 'cluster'"),
        (["--clip", "0.9", "--set", "clip=0.5"], "give --clip only once"),
    ],
)
def test_options_that_do_not_fit_are_refused(files, refused, options, said):
    assert said in refused(*files, "--changes", "rows", *options)


def test_changes_of_rows_require_a_reference(files, refused):
    assert "--changes rows requires --reference" in refused(*files[:-2], "--changes", "rows")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (emails(1, 7).select(FEATURES), "at least 2 are required"),
        (emails(9, 7).select(["length", "country"]), "no feature column 'answered'"),
        (emails(9, 7).select(FEATURES).append_column("more", [np.arange(9)]), "no feature column 'more'"),
        (emails(9, 7).select(FEATURES).set_column(0, "length", pa.array(["a"] * 9)), "holds words in the reference"),
        (emails(9, 7).select(FEATURES).set_column(0, "length", pa.nulls(9)), "in the reference, column 'length'"),
    ],
)
def test_references_that_do_not_fit_are_refused(files, refused, tmp_path, table, said):
    csv.write_csv(table, tmp_path / "reference.csv")
    if "holds words" in said:  # words are read as words, so that the training rows fit: in Parquet they do not
        write(table, tmp_path / "reference.parquet")
        write(emails(80, 1), tmp_path / "train.parquet")
        files = ["--train", tmp_path / "train.parquet", *files[2:-1], tmp_path / "reference.parquet"]
    assert said in refused(*files, "--changes", "rows")


def test_unreadable_references_are_refused(files, refused, tmp_path):
    assert "there is no such file" in refused(*files[:-1], tmp_path / "nowhere.csv")
    (tmp_path / "reference.csv").write_bytes(b"")
    assert "the file is empty" in refused(*files)


def test_the_reference_is_not_overwritten(files, capfd):
    assert run(["certify", *files, "-o", files[-1]]) == 2
    assert "it is also an input file" in capfd.readouterr().err


def attacked(files, capfd, *options):
    assert run(["attack", *files, *map(str, options), "--json", "--quiet"]) == 0
    return json.loads(capfd.readouterr().out)


def without_and_with(found, name, X, y):
    """Return the training rows and labels after the attack on one test row."""
    changes = [row for row in found["rows"] if row["id"] == name]
    removed = [int(row["train_id"].rsplit("-", 1)[1]) for row in changes if row["change"] == "remove"]
    X, y = np.delete(X, removed, axis=0), np.delete(y, removed)
    for row in changes:
        if row["change"] == "add":
            added = np.array([[row[f"feature_{i}"] for i in range(X.shape[1])]] * row["copies"])
            X, y = np.concatenate([X, added]), np.append(y, [row["label"]] * row["copies"])
    return X, y, len(removed)


@pytest.mark.few(1)
@pytest.mark.parametrize("clip", [[], ["--clip", "0.9"]])
@pytest.mark.parametrize("changes", ["rows", "insertions", "removals"])
def test_attacks_by_rows_overturn_predictions_after_a_refit(files, capfd, changes, clip):
    found = attacked(files, capfd, "--changes", changes, *clip)
    encoder = TableEncoder().fit(emails(40, 7).select(FEATURES))
    X, Z, R = (encoder.transform(emails(n, seed).select(FEATURES)) for n, seed in ((80, 1), (20, 2), (40, 7)))
    y = np.array(emails(80, 1)["kind"].to_pylist())
    fresh = CertifiedRidgeClassifier(clip=0.9 if clip else None, classes=["ham", "spam"])
    certificates = clone(fresh).fit(X, y, reference=R).certify(Z, adversary=Adversary(changes=changes))
    assert (found["unit"], found["changes"], len(found["predictions"])) == ("rows", changes, 20)
    assert found["n_confirmed"] == sum(one["needed"] is not None for one in found["predictions"]) > 10
    for one in found["predictions"]:
        row = int(one["id"].rsplit("-", 1)[1])
        assert (one["radius"], one["unlimited"]) == (certificates.radius[row], certificates.unlimited[row])
        if one["needed"] is None:
            assert not [change for change in found["rows"] if change["id"] == one["id"]]
            continue
        X_new, y_new, n_removed = without_and_with(found, one["id"], X, y)
        again = clone(fresh).fit(X_new, y_new, reference=R).predict(Z[row : row + 1])
        assert again[0] != one["prediction"] == certificates.prediction[row]
        assert one["needed"] == max(n_removed, len(y_new) - len(y) + n_removed)
        assert one["is_smallest"] == (one["needed"] == one["radius"] + 1)
    radii = [one["radius"] for one in found["predictions"]]
    assert radii == sorted(radii)


@pytest.mark.parametrize("changes", ["rows", "insertions", "removals"])
def test_attacks_by_rows_on_neighbours_are_the_smallest(files, capfd, changes):
    options = ["--learner", "neighbors", "--set", "n_neighbors=5", "--classes", "ham,spam"]
    found = attacked(files, capfd, "--changes", changes, *options, "--top", "4")
    assert found["n_confirmed"] == 4
    assert all(one["is_smallest"] and one["needed"] == one["radius"] + 1 for one in found["predictions"])
    encoder = TableEncoder().fit(emails(40, 7).select(FEATURES))
    X, Z, R = (encoder.transform(emails(n, seed).select(FEATURES)) for n, seed in ((80, 1), (20, 2), (40, 7)))
    y = np.array(emails(80, 1)["kind"].to_pylist())
    for one in found["predictions"]:
        X_new, y_new, _ = without_and_with(found, one["id"], X, y)
        row = int(one["id"].rsplit("-", 1)[1])
        model = CertifiedNeighborsClassifier(5, classes=["ham", "spam"]).fit(X_new, y_new, reference=R)
        assert model.predict(Z[row : row + 1])[0] != one["prediction"]
    origins = {row["copy_of"].split(" row ")[0] for row in found["rows"] if row["change"] == "add"}
    assert origins <= {"test", "reference", "training"}


def test_attacks_by_rows_on_chosen_rows_and_their_file(files, tmp_path, capfd):
    out = tmp_path / "rows.csv"
    options = ["--changes", "rows", "--clip", "0.9", "--row", "mail-2-3,mail-2-5"]
    assert run(["attack", *files, *options, "-o", str(out)]) == 0
    printed, written = capfd.readouterr().out, csv.read_csv(out)
    assert "confirmed by a refit" in printed
    assert set(written["id"].to_pylist()) == {"mail-2-3", "mail-2-5"}
    assert written.column_names[:7] == ["id", "prediction", "change", "train_id", "label", "copies", "copy_of"]
    added = [row for row in written.to_pylist() if row["change"] == "add"]
    assert all(row["copy_of"].startswith(("test row mail-2-", "reference row ")) for row in added)
    assert max(map(len, printed.splitlines()[:-1])) <= 80
    found = attacked(files, capfd, *options, "--max-flips", "1")
    assert (found["n_confirmed"], found["rows"]) == (0, [])
    assert "with at most 1 changed row." in found["sentences"][0]
    assert len(attacked(files, capfd, *options[:4], "--top", "3")["predictions"]) == 3


def test_attacks_by_sources_and_trusted_rows(files, tmp_path, capfd):
    table = emails(80, 1).append_column("who", [[f"w{i % 9}" for i in range(80)]])
    csv.write_csv(table.append_column("sure", [[i % 9 == 0 for i in range(80)]]), tmp_path / "train.csv")
    columns = ["--annotator", "who", "--trusted", "sure", "--clip", "sign"]
    found = attacked(files, capfd, "--changes", "rows", *columns)
    assert found["unit"] == "sources"
    assert found["n_confirmed"]
    removed = [row for row in found["rows"] if row["change"] == "remove"]
    assert {row["source"] for row in removed} <= {f"w{i}" for i in range(1, 9)}
    assert all(row["source"] == f"w{int(row['train_id'].rsplit('-', 1)[1]) % 9}" for row in removed)
    for one in found["predictions"]:
        theirs = {row["source"] for row in removed if row["id"] == one["id"]}
        assert len(theirs) == (one["needed"] or 0)
    one = next(one for one in found["predictions"] if one["needed"] == 1)
    single = attacked(files, capfd, "--changes", "rows", *columns, "--row", one["id"])
    name = single["rows"][0]["source"]
    assert f"In the order of the attack, with their numbers of rows: {name} (" in single["sentences"][1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--learner", "neighbors", "--annotator", "country"], "no attack by sources on nearest neighbours"),
        (["--learner", "partition"], "'partition' is not one of"),
        (["--allow", "ham:spam"], "--allow cannot be combined"),
        (["--row", "nobody"], "no test row 'nobody'"),
        (["--clip", "2"], "above 0 and at most 1"),
    ],
)
def test_attacks_by_rows_that_are_impossible_are_refused(files, refused, options, said):
    assert said in refused(*files, "--changes", "rows", *options, command="attack")


def test_attacks_by_rows_require_a_reference(files, refused):
    assert "--changes rows requires --reference" in refused(*files[:-2], "--changes", "rows", command="attack")
