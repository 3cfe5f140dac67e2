"""Several labels per item in `flipproof.audit` and on the command line: long and wide files, and what is refused."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import flipproof
from flipproof import Adversary, Annotations, CertifiedRidgeClassifier
from flipproof.cli.group import run as run_command
from flipproof.learners.names import LEARNERS

N_ITEMS = 60
PEOPLE = [f"p{one}" for one in range(7)]
LONG = ["--labels", "votes.csv", "--item", "item", "--label", "label", "--annotator", "who"]


@pytest.fixture(scope="module")
def tables():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ITEMS, 3))
    items = pd.DataFrame(X, columns=list("abc")).assign(item=[f"i{row:02}" for row in range(N_ITEMS)])
    wide = items.assign(**dict.fromkeys(PEOPLE))
    lines = []
    for row in range(N_ITEMS - 2):  # the last two have no labels
        for who in rng.permutation(PEOPLE)[: 2 + row % 3]:
            label = "spam" if (X[row, 0] > 0) == (rng.random() < 0.85) else "ham"
            lines.append((f"i{row:02}", who, label))
            wide.loc[row, who] = label
    rng.shuffle(lines)
    test = pd.DataFrame(rng.normal(size=(9, 3)), columns=list("abc")).assign(label=["ham", "spam", "ham"] * 3)
    test["item"] = [f"t{row}" for row in range(9)]
    return items, pd.DataFrame(lines, columns=["item", "who", "label"]), wide, test


@pytest.fixture
def folder(tables, tmp_path, monkeypatch):
    for name, table in zip(("items", "votes", "wide", "test"), tables, strict=True):
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Return a function that runs a command, and returns what it prints."""

    def run(*arguments, code=0):
        assert run_command([*map(str, arguments), "--quiet"]) == code
        printed = capsys.readouterr()
        return printed.out if code == 0 else printed.err

    return run


def expected(tables, aggregate, count):
    """Prediction and radius by the library alone, on the features as the encoder makes them."""
    items, votes, _, test = tables
    annotations = Annotations.from_long(
        votes["item"], votes["who"], votes["label"], items=items["item"], aggregate=aggregate
    )
    encoder = flipproof.tables.TableEncoder()
    X = encoder.fit_transform(items[list("abc")])
    model = CertifiedRidgeClassifier().fit(X, annotations)
    adversary = Adversary(groups=annotations.annotator) if count == "annotators" else None
    return model.certify(encoder.transform(test[list("abc")]), adversary=adversary)


@pytest.mark.parametrize("aggregate", ["votes", "majority"])
@pytest.mark.parametrize("count", ["annotators", "annotations"])
def test_long_wide_frames_and_models_agree(folder, tables, run, aggregate, count):
    """The command, the model that was saved, and the library give the same certificates."""
    ways = {
        "long": ["--train", "items.csv", *LONG],
        "wide": ["--train", "wide.csv", "--annotators", ",".join(PEOPLE), "--id", "item", "--label", "label"],
    }
    wanted = expected(tables, aggregate, count)
    for name, way in ways.items():
        given = [*way, "--aggregate", aggregate, "--count", count]
        printed = run("certify", *given, "--test", "test.csv", "-o", f"of_{name}.csv")
        assert f"of {N_ITEMS} items" in printed
        found = pd.read_csv(f"of_{name}.csv")
        np.testing.assert_array_equal(found["prediction"], wanted.prediction)
        np.testing.assert_array_equal(found["radius"], wanted.radius)
        assert set(found["unit"]) == {"annotators" if count == "annotators" else "labels"}
        run("fit", *given, "--model", f"{name}.flipproof")
        run("certify", "--model", f"{name}.flipproof", "--test", "test.csv", "-o", "again.csv")
        assert (folder / "again.csv").read_bytes() == (folder / f"of_{name}.csv").read_bytes()
    items, votes, _, test = tables
    columns = {"item": "item", "annotator": "who", "label": "label"}
    audit = flipproof.audit(items, test, labels=votes, **columns, aggregate=aggregate, count=count)
    np.testing.assert_array_equal(audit.main.radius, wanted.radius)
    assert audit.provenance.n_items == N_ITEMS
    assert audit.explain().note


def test_annotators_can_be_given_by_a_pattern(folder, tables, run):
    _, _, wide, _ = tables
    wide.rename(columns={name: f"by_{name}" for name in PEOPLE}).to_csv("by.csv", index=False)
    given = ["--train", "by.csv", "--annotators", "by_*", "--id", "item", "--label", "label", "--test", "test.csv"]
    run("certify", *given, "-o", "out.csv")
    np.testing.assert_array_equal(pd.read_csv("out.csv")["radius"], expected(tables, "votes", "annotators").radius)


def test_test_rows_need_no_names_of_items(folder, tables, run):
    """The column of items joins the labels to the training rows; test rows without it are numbered."""
    _, _, _, test = tables
    test.drop(columns="item").to_csv("unnamed.csv", index=False)
    for given in ([], ["--id", "item"]):
        run("certify", "--train", "items.csv", *LONG, *given, "--test", "unnamed.csv", "-o", "out.csv")
        found = pd.read_csv("out.csv")
        assert found["id"].tolist() == list(range(len(test)))
        np.testing.assert_array_equal(found["radius"], expected(tables, "votes", "annotators").radius)
    run("fit", "--train", "items.csv", *LONG, "--model", "long.flipproof")
    run("certify", "--model", "long.flipproof", "--test", "unnamed.csv", "-o", "again.csv")
    np.testing.assert_array_equal(pd.read_csv("again.csv")["radius"], found["radius"])


def test_without_names_radii_count_annotations(folder, tables, run):
    run("certify", "--train", "items.csv", *LONG[:-2], "--test", "test.csv", "-o", "out.csv")
    np.testing.assert_array_equal(pd.read_csv("out.csv")["radius"], expected(tables, "votes", "annotations").radius)


def test_items_are_held_out_with_their_labels(folder, tables, run):
    """The truth of a held-out item is its majority, or the label column of the table of items."""
    items, votes, _, _ = tables
    says = "true labels of the {} test items are the majority of their own annotations"
    told = run("certify", "--train", "items.csv", *LONG, "--holdout", "0.25", "-o", "out.csv")
    found = pd.read_csv("out.csv")
    assert says.format(len(found)) in " ".join(told.split())
    counts = votes.groupby(["item", "label"]).size().unstack(fill_value=0)
    assert 10 <= len(found) <= 15  # without those that are tied
    assert len(found) == 14
    assert "; 1 of the 15 items held out has no clear majority and is left out" in " ".join(told.split())
    run("certify", "--train", "items.csv", *LONG, "--holdout", "0.25", "--report", "r.md")
    assert "Held out items without majority: 1\n" in (folder / "r.md").read_text()
    for name, label in zip(found["id"], found["label"], strict=True):
        assert counts.loc[name, label] > counts.loc[name].drop(label).max()
    items.assign(label=np.where(np.arange(N_ITEMS) % 2, "ham", "spam")).to_csv("items.csv", index=False)
    told = run("certify", "--train", "items.csv", *LONG, "--holdout", "0.25", "-o", "out.csv")
    assert "their own annotations" not in " ".join(told.split())
    assert "no clear majority" not in " ".join(told.split())
    found = pd.read_csv("out.csv")
    assert found["label"].tolist() == ["ham" if int(name[1:]) % 2 else "spam" for name in found["id"]]
    labels = Annotations.from_long(votes["item"], votes["who"], votes["label"], items=items["item"])
    audit = flipproof.audit((items[list("abc")].to_numpy(), labels), holdout=0.25)
    assert 10 <= len(audit.test) <= 15
    assert "truth-from-annotations" in [one.code for one in audit.main.assumptions]
    assert audit.provenance.n_items == 45
    assert audit.provenance.n_unclear == 15 - len(audit.test)


@pytest.mark.parametrize("aggregate", ["votes", "majority"])
def test_no_label_decides_which_items_are_held_out(tables, aggregate):
    """Ties among the training items come and go, and the same items are trained on."""
    items, votes, _, _ = tables
    X, given = items[list("abc")].to_numpy(), (votes["item"], votes["who"])
    options = {"items": items["item"], "aggregate": aggregate}

    def audited(labels):
        train = X, Annotations.from_long(*given, labels, **options)
        return flipproof.audit(train, holdout=0.25, classes=["ham", "spam"], attack=False)

    first = audited(votes["label"])
    tested = votes["item"].isin(items["item"].to_numpy()[first.test.ids])
    others = audited(np.where(tested, votes["label"], "spam"))  # no ties among the others
    assert set(first.test.ids) <= set(others.test.ids)
    n_tied_before = 15 - len(first.test.ids)  # of the items that are held out
    assert len(others.test.ids) == len(first.test.ids) + n_tied_before
    assert others.provenance.n_items == first.provenance.n_items


def test_trusted_annotations_and_windows(folder, tables, run):
    """Columns of the file of labels: a trusted annotation cannot be changed."""
    _, votes, _, _ = tables
    votes.assign(sure=[row % 2 for row in range(len(votes))], day=range(len(votes))).to_csv("votes.csv", index=False)
    usual = ["--train", "items.csv", "--test", "test.csv", *LONG[:-2], "-o", "out.csv"]
    run("certify", *usual)
    plain = pd.read_csv("out.csv")["radius"]
    run("certify", *usual, "--trusted", "sure")
    assert (pd.read_csv("out.csv")["radius"] >= plain).all()
    run("certify", *usual, "--window", "day", "--length", "5")
    windows = pd.read_csv("out.csv")
    assert set(windows["unit"]) == {"windows"}
    assert (windows["radius"] <= plain).all()


def test_annotators_are_named(folder, run):
    usual = ["--train", "items.csv", "--test", "test.csv", *LONG]
    said = " ".join(run("attack", *usual, "--row", "t0").split())
    assert "of 7 annotators" in said
    assert "with their numbers of labels: p" in said
    ranked = json.loads(run("attack", *usual, "--json"))
    assert {"annotator", "n_labels", "n_attacks", "n_alone"} <= set(ranked["rows"][0])
    run("certify", *usual, "--report", "report.md")
    report = (folder / "report.md").read_text()
    assert "## Annotators to check first" in report
    assert " by p" in report


@pytest.mark.parametrize("way", ["long", "wide"])
def test_attack_ranks_what_radii_count(folder, run, way):
    given = {
        "long": ["--train", "items.csv", *LONG],
        "wide": ["--train", "wide.csv", "--annotators", ",".join(PEOPLE), "--id", "item", "--label", "label"],
    }
    usual = ["attack", *given[way], "--test", "test.csv", "--json"]
    assert set(json.loads(run(*usual))["rows"][0]) == {"annotator", "n_labels", "n_attacks", "n_alone"}
    ranked = json.loads(run(*usual, "--count", "annotations"))["rows"]
    assert re.fullmatch(r"i\d\d by p\d", ranked[0]["train_id"])


def test_changed_annotations_are_called_so(folder, run):
    told = run("certify", "--train", "items.csv", *LONG, "--test", "test.csv", "--count", "annotations")
    assert "changed annotations" in told
    assert "changed label" not in told
    run("certify", "--train", "items.csv", *LONG, "--test", "test.csv", "--count", "annotations", "--report", "r.md")
    report = (folder / "r.md").read_text()
    assert "correct if no annotation is changed" in report
    assert "some of the 173 annotations" in report
    for words in ("changed label", "training labels before", "Any label"):
        assert words not in report


def test_few_annotators_are_the_reason_why_little_is_certified(folder, tables, run):
    items, votes, _, test = tables
    usual = ["--train", "items.csv", *LONG, "--test", "test.csv"]
    advice = "To count single changed annotations, use --count annotations, or count='annotations' in Python."
    votes.assign(who="p1").drop_duplicates("item").to_csv("votes.csv", index=False)
    told = " ".join(run("certify", *usual).split())
    assert told.startswith(
        f"No prediction is certified against one malicious annotator. One annotator has all labels. {advice}"
    )
    votes[votes["who"].isin(["p1", "p2"])].to_csv("votes.csv", index=False)
    told = " ".join(run("certify", *usual, "--report", "r.md").split())
    assert f"With 2 annotators, each has a large share of the labels. {advice}" in told
    assert advice in (folder / "r.md").read_text()
    assert advice not in " ".join(run("certify", *usual, "--count", "annotations").split())
    one_each = pd.DataFrame(items).assign(label=["ham", "spam"] * 30, who=["p1", "p2"] * 30)
    found = flipproof.audit(one_each.drop(columns="item"), test.drop(columns="item"), label="label", annotator="who")
    assert "To count single changed labels, leave out the annotators." in " ".join(
        found.summary()["headline"]["sentences"]
    )


FEW = pd.DataFrame({"item": ["i00"], "label": ["x"]})

WRONG = {
    "unknown item": (lambda v: [*v, ("i99", "p1", "ham")], [], "1 of .* unknown items, the first of 'i99'"),
    "twice": (lambda v: [*v, v[0]], [], "Keep one line per item and who"),
    "no column": (None, ["--item", "itm"], "--item: .* has no column 'itm'. Did you mean 'item'"),
    "missing label": (lambda v: [*v[:-1], (*v[-1][:2], None)], [], "label"),
    "both": (None, ["--annotators", "a"], "either --labels or --annotators"),
    "rows": (None, ["--changes", "rows", "--reference", "test.csv"], "--changes rows cannot be combined with --labels"),
    "blocks": (None, ["--train", "."], "memory|folder|Parquet"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_refused_in_a_line(name, folder, tables, run):
    change, more, message = WRONG[name]
    if change is not None:
        lines = change(list(tables[1].itertuples(index=False, name=None)))
        pd.DataFrame(lines, columns=["item", "who", "label"]).to_csv("votes.csv", index=False)
    pairs = ["--train", "items.csv", *LONG, "--test", "test.csv", "-o", "out.csv"]
    options = dict(zip(pairs[::2], pairs[1::2], strict=True)) | dict(zip(more[::2], more[1::2], strict=True))
    said = run("certify", *(word for pair in options.items() for word in pair), code=2)
    assert said.count("\n") == 1
    assert re.search(message, said)
    assert not (folder / "out.csv").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": 3, "item": "item"}, "path or a data frame"),
        ({"item": "item"}, "requires"),
        ({"aggregate": "majority"}, "requires"),
        ({"annotators": ["a"], "item": "item"}, "names a column"),
        ({"annotators": ["nobody"]}, "no column"),
        ({"annotators": ["a"], "aggregate": "mean"}, "one of"),
        (
            {"labels": pd.DataFrame({"item": ["i00"], "label": ["x"]}), "item": "item", "count": "annotators"},
            "requires",
        ),
        ({"labels": pd.DataFrame({"item": ["i00"], "label": ["x"]})}, "requires"),
    ],
)
def test_wrong_arguments_are_refused(tables, given, message):
    items, _, _, test = tables
    with pytest.raises(ValueError, match=message):
        flipproof.audit(items, test, label="label", **given)


def test_compare_shows_both_ways_and_leaves_out_learners_of_one_label(folder, capsys):
    given = ["compare", "--train", "items.csv", *LONG, "--test", "test.csv", "--flips", "0,1"]
    assert run_command([*given, "-o", "all.csv"]) == 0
    assert "Left out, because --labels needs a label-linear learner: partition." in capsys.readouterr().err
    found = pd.read_csv("all.csv")
    names = [one for one in LEARNERS if one != "partition"]
    assert found["model"].tolist() == [
        f"{one}, {way}" for way in ("annotations vote", "majority first") for one in names
    ]
    for way, line in (("votes", "ridge, annotations vote"), ("majority", "ridge, majority first")):
        assert run_command([*given, "--learner", "ridge", "--aggregate", way, "-o", "one.csv", "--quiet"]) == 0
        one = pd.read_csv("one.csv")
        assert one["model"].tolist() == ["ridge"]
        columns = [name for name in one if name.startswith("certified")]
        assert one[columns].iloc[0].tolist() == found.set_index("model").loc[line, columns].tolist()
