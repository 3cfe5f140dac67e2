"""`flipproof certify`: its output matches the library in every file format."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet
from small_tables import FEATURES, N_TEST, N_TRAIN, emails, write, write_emails

from flipproof import Adversary, CertifiedNeighborsClassifier, CertifiedRidgeClassifier, certified_accuracy
from flipproof.cli.group import run
from flipproof.tables import TableEncoder


@pytest.fixture
def files(tmp_path):
    return write_emails(tmp_path)


@pytest.fixture
def certify(tmp_path, capfd):
    """Return a function that runs the command, and returns the written rows and its summary."""

    def check(*arguments, code=0):
        out = tmp_path / "certificates.parquet"
        assert run(["certify", *map(str, arguments), "-o", str(out), "--json"]) == code
        captured = capfd.readouterr()
        assert code or captured.err == ""
        return parquet.read_table(out), json.loads(captured.out)

    return check


def arrays(table):
    return np.array(table["kind"].to_pylist()), table.select(FEATURES)


def expected(learner=None, method="exact", adversary=None, train=None):
    y, X = arrays(emails(N_TRAIN, 1) if train is None else train)
    encoder = TableEncoder().fit(X)
    learner = (learner or CertifiedRidgeClassifier()).fit(encoder.transform(X), y)
    return learner.certify(encoder.transform(arrays(emails(N_TEST, 2))[1]), method=method, adversary=adversary)


def test_the_output_matches_the_library(files, certify):
    written, _ = certify(*files)
    wanted, truth = expected(), emails(N_TEST, 2)
    names = ["id", "prediction", "radius", "rival", "margin", "label", "correct", "method", "unit"]
    assert written.column_names == names
    assert written["id"].to_pylist() == truth["key"].to_pylist()
    for name in ("prediction", "radius", "rival", "margin"):
        assert written[name].to_pylist() == getattr(wanted, name).tolist()
    assert written["label"].to_pylist() == truth["kind"].to_pylist()
    assert written["correct"].to_pylist() == (wanted.prediction == np.array(truth["kind"].to_pylist())).tolist()
    assert set(written["method"].to_pylist()) == {"exact"}
    assert set(written["unit"].to_pylist()) == {"labels"}
    assert sum(written["correct"].to_pylist()) > 14


def test_the_summary_is_a_complete_report(files, certify, tmp_path):
    _, summary = certify(*files)
    assert summary["format"] == "flipproof-report"
    facts = summary["facts"]
    assert facts["training_rows"] == N_TRAIN
    assert facts["test_rows"] == N_TEST
    assert facts["columns_used"] == FEATURES
    assert facts["learner"]["name"] == "ridge"
    assert len(facts["encoding"]) == 3
    assert {len(checksum) for checksum in facts["sha256"].values()} == {64}
    [encoded] = [one["values"] for one in summary["assumptions"] if one["code"] == "columns-encoded"]
    assert encoded == {"n_encoded": N_TRAIN, "n_rows": N_TRAIN}


def test_every_input_format_gives_the_same_results(certify, tmp_path, files):
    wanted, _ = certify(*files)
    for name, n, seed in (("train", N_TRAIN, 1), ("test", N_TEST, 2)):
        table = emails(n, seed)
        parquet.write_table(table, tmp_path / f"{name}.parquet")
        feather.write_feather(table, tmp_path / f"{name}.feather")
        with pa.ipc.new_stream(tmp_path / f"{name}.arrow", table.schema) as stream:
            stream.write_table(table)
        csv.write_csv(table, tmp_path / f"{name}.tsv", csv.WriteOptions(delimiter="\t"))
        csv.write_csv(table, tmp_path / f"{name}.semicolons.csv", csv.WriteOptions(delimiter=";"))
        np.savez(
            tmp_path / f"{name}.npz", **{column: np.array(table[column].to_pylist()) for column in table.column_names}
        )
    for ending in (".parquet", ".feather", ".arrow", ".tsv", ".semicolons.csv", ".npz"):
        other = [value.replace(".csv", ending) for value in files]
        assert certify(*other)[0].equals(wanted), ending


def test_every_output_format_holds_the_same_results(files, certify, tmp_path):
    wanted, _ = certify(*files)
    for ending in ("csv", "tsv", "json", "arrow", "feather"):
        assert run(["certify", *files, "-o", str(tmp_path / f"out.{ending}"), "--quiet"]) == 0
    as_csv = csv.read_csv(tmp_path / "out.csv")
    as_tsv = csv.read_csv(tmp_path / "out.tsv", parse_options=csv.ParseOptions(delimiter="\t"))
    assert as_csv.equals(wanted.replace_schema_metadata(None))
    assert as_tsv.equals(as_csv)
    assert feather.read_table(tmp_path / "out.arrow").equals(wanted)
    assert feather.read_table(tmp_path / "out.feather").equals(wanted)
    stored = json.loads((tmp_path / "out.json").read_text())
    assert stored["rows"] == wanted.to_pylist()
    assert stored["n_train"] == N_TRAIN
    [about] = stored["methods"].values()
    assert about["noise"] == 0.1
    assert [one["code"] for one in about["assumptions"]] == ["labels-only", "classes-read", "columns-encoded"]
    assert json.loads(wanted.schema.metadata[b"flipproof"])["n_train"] == N_TRAIN


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--noise", "0.9", "--method", "kl"], "--noise must be in (0, 0.5)"),
        (["--set", "precision=1"], "--set precision must be"),
        (["--clip", "7"], "--clip"),
    ],
)
def test_a_refused_parameter_of_the_learner_is_named_by_its_option(options, named, files, tmp_path, capsys):
    assert run(["certify", *files, *options, "-o", str(tmp_path / "out.csv")]) == 2
    assert named in capsys.readouterr().err


def test_results_of_several_methods_are_written_in_order(files, certify):
    written, summary = certify(*files, "--method", "exact", "--method", "kl", "--noise", "0.2")
    assert written.num_rows == 2 * N_TEST
    radii = np.array(written["radius"].to_pylist())
    assert (radii[N_TEST:] <= radii[:N_TEST]).all()
    assert radii[N_TEST:].tolist() == expected(CertifiedRidgeClassifier(noise=0.2), "kl").radius.tolist()
    assert [one["method"] for one in summary["methods"]] == ["exact", "kl"]
    assert summary["methods"][1]["noise"] == 0.2


def test_assumptions_are_reported_per_method(files, certify, capfd, tmp_path):
    options = [*files, "--method", "exact", "--method", "kl", "--allow", "ham:spam"]
    written, summary = certify(*options)
    of_method = {one["method"]: [assumed["code"] for assumed in one["assumptions"]] for one in summary["methods"]}
    common = [assumed["code"] for assumed in summary["assumptions"]]
    assert common == of_method["exact"]
    assert set(of_method["kl"]) - set(common) == {"changes-partly-used"}
    stored = json.loads(written.schema.metadata[b"flipproof"])["methods"]
    assert {name: [one["code"] for one in about["assumptions"]] for name, about in stored.items()} == of_method
    assert run(["certify", *options]) == 0
    assert "Additional assumptions of kl (q = 0.1):" in capfd.readouterr().out


def test_the_learner_and_its_parameters_can_be_chosen(files, certify):
    written, summary = certify(*files, "--learner", "neighbors", "--set", "n_neighbors=9", "--classes", "ham,spam")
    learner = CertifiedNeighborsClassifier(9, classes=["ham", "spam"])
    assert written["radius"].to_pylist() == expected(learner).radius.tolist()
    assert summary["facts"]["learner"]["n_neighbors"] == 9
    assert all(one["code"] != "classes-read" for one in summary["assumptions"])


@pytest.mark.parametrize("learner", ["kernel", "cluster", "forest", "partition"])
def test_every_learner_works(files, certify, learner):
    extra = ["--set", "n_partitions=9"] if learner == "partition" else []
    written, _ = certify(*files, "--learner", learner, *extra)
    assert max(written["radius"].to_pylist()) > 0


def test_adversary_options_match_the_library(tmp_path, certify, files):
    table = emails(N_TRAIN, 1)
    trusted = np.arange(N_TRAIN) % 3 == 0
    who = np.array(["ann", "bob", "eve", "joe"])[np.arange(N_TRAIN) % 4]
    described = table.append_column("checked", [["yes" if one else "No" for one in trusted]])
    write(described.append_column("who", [who]), tmp_path / "train.csv")
    options = {
        "trusted": (["--trusted", "checked", "--drop", "who"], Adversary(trusted=trusted)),
        "groups": (["--annotator", "who", "--drop", "checked"], Adversary(groups=who)),
        "allowed": (["--drop", "checked,who", "--allow", "ham:spam"], Adversary(allowed=[("ham", "spam")])),
    }
    for name, (extra, adversary) in options.items():
        written, _ = certify(*files, *extra)
        assert written["radius"].to_pylist() == expected(adversary=adversary).radius.tolist(), name
        assert set(written["unit"].to_pylist()) == {"annotators" if name == "groups" else "labels"}


def test_columns_can_be_selected_by_patterns(certify, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, 60)
    X[:, 0] += 2 * y
    table = pa.table({**{f"emb_{j}": X[:, j] for j in range(3)}, "leak": y * 3.0, "y": y})
    write(table.slice(0, 40), tmp_path / "a.csv")
    write(table.slice(40), tmp_path / "b.csv")
    chosen = ["--train", tmp_path / "a.csv", "--test", tmp_path / "b.csv", "--label", "y"]
    by_pattern, summary = certify(*chosen, "--features", "emb_*")
    assert summary["facts"]["columns_used"] == ["emb_0", "emb_1", "emb_2"]
    assert certify(*chosen, "--drop", "leak")[0].equals(by_pattern)
    assert certify(*chosen, "--features", "emb_0,emb_1", "--features", "emb_2")[0].equals(by_pattern)


def test_a_column_of_vectors_gives_the_same_results_as_an_array(certify, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    X = rng.normal(size=(90, 4)) + 2 * np.eye(4)[y]
    np.savez(tmp_path / "both.npz", X_train=X[:60], y_train=y[:60], X_test=X[60:], y_test=y[60:])
    for name, part in (("a", slice(0, 60)), ("b", slice(60, 90))):
        parquet.write_table(pa.table({"X": list(X[part]), "y": y[part]}), tmp_path / f"{name}.parquet")
    one = certify("--train", tmp_path / "both.npz", "--test", tmp_path / "both.npz", "--label", "y")[0]
    other = certify("--train", tmp_path / "a.parquet", "--test", tmp_path / "b.parquet", "--label", "y")[0]
    assert one.equals(other)
    learner = CertifiedRidgeClassifier().fit(X[:60], y[:60])
    assert np.array_equal(learner.predict(X[60:]), one["prediction"].to_pylist())


def test_text_columns_are_encoded(certify, tmp_path):
    rng = np.random.default_rng(0)
    good, bad = ["lunch", "meeting", "thanks", "tomorrow"], ["win", "free", "cash", "prize"]
    y = rng.integers(0, 2, 80)
    texts = [" ".join([*rng.choice(bad if one else good, 3), *rng.choice(good + bad, 2)]) for one in y]
    lines = "".join(f'{"spam" if one else "ham"}\tdear " {text}\n' for one, text in zip(y, texts, strict=True))
    (tmp_path / "texts").write_text(lines)
    written, summary = certify(
        *("--train", tmp_path / "texts", "--names", "kind,body", "--no-quotes", "--label", "kind"),
        *("--text", "body", "--text-dimensions", "5", "--holdout", "0.25", "--seed", "3"),
    )
    assert written.num_rows == 20
    assert np.mean(written["correct"].to_pylist()) > 0.8
    assert "5 features" in summary["facts"]["encoding"][0]
    ids = written["id"].to_pylist()
    assert ids == sorted(set(ids))  # line numbers in the file, from 0
    assert written["label"].to_pylist() == ["spam" if y[one] else "ham" for one in ids]


def test_held_out_rows_are_random_and_independent_of_labels(certify, tmp_path):
    table = emails(100, 1)
    flipped = pa.array([{"ham": "spam", "spam": "ham"}[one] for one in table["kind"].to_pylist()])
    write(table, tmp_path / "a.csv")
    write(table.set_column(4, "kind", flipped), tmp_path / "b.csv")
    chosen = ["--label", "kind", "--drop", "key", "--holdout", "0.3"]
    one, other = (certify("--train", tmp_path / name, *chosen)[0] for name in ("a.csv", "b.csv"))
    assert one["id"].equals(other["id"])
    assert one.num_rows == 30
    assert one["id"].to_pylist() != certify("--train", tmp_path / "a.csv", *chosen, "--seed", "1")[0]["id"].to_pylist()


def test_test_rows_need_no_labels(files, certify, tmp_path):
    wanted, _ = certify(*files)
    write(emails(N_TEST, 2).drop_columns(["kind"]), tmp_path / "test.csv")
    written, summary = certify(*files)
    assert written.equals(wanted.drop_columns(["label", "correct"]).cast(written.schema))
    assert not summary["problem"]["truth_known"]


def test_a_column_of_words_may_look_numeric_in_the_test_rows(certify, tmp_path):
    train = "zip,y\n" + "01234,0\nA1,1\n" * 10
    (tmp_path / "train.csv").write_text(train)
    (tmp_path / "test.csv").write_text("zip,y\n01234,0\n01234,0\n")
    files = ["--train", tmp_path / "train.csv", "--test", tmp_path / "test.csv", "--label", "y"]
    assert certify(*files)[0]["prediction"].to_pylist() == [0, 0]


def test_requirements_decide_the_exit_code(files, certify, capfd):
    radii = expected().radius
    truth = emails(N_TEST, 2)["kind"].to_pylist()
    least, accuracy = int(radii.min()), float(certified_accuracy(truth, expected(), [3])[0])
    share = float(np.mean(radii >= least + 3))
    for requirement, met in [
        (["--min-radius", least], True),
        (["--min-radius", least + 1], False),
        (["--min-radius", f"{least + 3}@{share}"], True),
        (["--min-radius", f"{least + 3}@{share + 0.01}"], False),
        (["--min-certified-accuracy", f"{accuracy}@3"], True),
        (["--min-certified-accuracy", f"{accuracy + 0.01}@3"], False),
    ]:
        written, summary = certify(*files, *requirement, code=0 if met else 1)
        assert written.num_rows == N_TEST  # results are written in any case
        assert summary["requirement"]["met"] is met
        assert summary["requirement"]["text"].startswith(requirement[0])


def test_requirements_are_combined_and_repeated(files, tmp_path, capfd):
    met = ["--min-radius", "0", "--min-certified-accuracy", "0@79", "--min-certified-recall", "0.1@0"]
    assert run(["certify", *files, *met, "--quiet"]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    assert captured.out.count("\nMet: --min-") == 3
    unmet = ["--min-certified-recall", "spam:1@79", "--min-radius", "79", "--min-certified-recall", "1@79"]
    report = tmp_path / "report.json"
    assert run(["certify", *files, *met, *unmet, "--quiet", "--report", str(report)]) == 1
    captured = capfd.readouterr()
    lines = captured.err.splitlines()
    assert [line.split(", found")[0] for line in lines] == [
        "flipproof: not met: --min-radius 79",
        "flipproof: not met: --min-certified-recall spam:1@79",
        "flipproof: not met: --min-certified-recall 1@79",
    ]
    assert lines[2].endswith(" (class ham).")
    assert (captured.out.count("\nMet: "), captured.out.count("\nNOT MET: ")) == (3, 3)
    parts = json.loads(report.read_text())["requirement"]["parts"]
    assert [part["met"] for part in parts] == [True, False, True, True, False, False]
    assert [part.get("class") for part in parts] == [None, None, None, "ham", None, "ham"]


def test_names_of_classes_may_contain_colons_and_at_signs(tmp_path, capfd):
    for name, n, seed in (("train", N_TRAIN, 1), ("test", N_TEST, 2)):
        table = emails(n, seed)
        kinds = [{"ham": "a:b@c", "spam": "0.5@3"}[kind] for kind in table["kind"].to_pylist()]
        write(table.set_column(4, "kind", [kinds]), tmp_path / f"{name}.csv")
    files = ["--train", str(tmp_path / "train.csv"), "--test", str(tmp_path / "test.csv"), "--label", "kind"]
    for label in ("a:b@c", "0.5@3"):
        assert run(["certify", *files, "--drop", "key", "--min-certified-recall", f"{label}:1@79", "--quiet"]) == 1
        assert f"not met: --min-certified-recall {label}:1@79, found 0." in capfd.readouterr().err


def test_the_worst_class_and_the_constant_classifier_are_beside_the_headline(files, tmp_path, capfd):
    assert run(["certify", *files, "--report", str(tmp_path / "report.md")]) == 0
    printed = " ".join(capfd.readouterr().out.split())
    written = (tmp_path / "report.md").read_text()
    truth, found = np.array(emails(N_TEST, 2)["kind"].to_pylist()), expected()
    most = max(("ham", "spam"), key=lambda kind: np.count_nonzero(truth == kind))
    share = f"Always predicting {most} is correct on {100 * np.mean(truth == most):.1f}%"
    above = np.sort(found.radius[truth == found.prediction])[::-1][np.count_nonzero(truth == most)]
    sentence = f"{share} of the test rows under any changes; certified accuracy is higher up to {above} changed labels."
    for text in (printed, written):
        assert sentence in text
        assert text.count("The worst class at") == 1


def test_a_report_has_a_title_and_shows_chosen_contents(files, tmp_path, capfd):
    paths = [tmp_path / f"report.{ending}" for ending in ("json", "html", "md")]
    for path in paths:
        assert (
            run(["certify", *files, "-q", "--report", str(path), "--title", "<Mail> 4", "--show", "country,len*"]) == 0
        )
    saved, page, text = json.loads(paths[0].read_text()), paths[1].read_text(), paths[2].read_text()
    assert saved["title"] == "<Mail> 4"
    assert "<h1>&lt;Mail&gt; 4</h1>" in page
    assert text.startswith("# &lt;Mail&gt; 4")
    assert saved["shown"] == {"test": ["country", "length"], "training": ["country", "length"]}
    rows = {seed: {row["key"]: row for row in emails(n, seed).to_pylist()} for n, seed in ((N_TRAIN, 1), (N_TEST, 2))}
    fragile = saved["predictions"]["rows"]
    changes = [change for row in fragile for change in row["attack"]["changes"]]
    for seed, name, entries in ((2, "id", fragile), (1, "row", saved["audit"]["rows"]), (1, "row", changes)):
        for entry in entries:
            if "content" in entry:
                country, length = entry["content"]
                assert country == rows[seed][entry[name]]["country"]
                assert float(length) == pytest.approx(rows[seed][entry[name]]["length"])
    assert all(
        ("content" in one) == (place < 5) for row in fragile for place, one in enumerate(row["attack"]["changes"])
    )
    for shown in (page, text):
        assert f"country: {fragile[0]['content'][0]}; length: {fragile[0]['content'][1]}" in shown.replace("\\-", "-")


def test_contents_are_not_shown_by_default(files, tmp_path):
    for ending in ("json", "html", "md"):
        assert run(["certify", *files, "-q", "--report", str(tmp_path / f"report.{ending}")]) == 0
        assert "elsewhere" not in (tmp_path / f"report.{ending}").read_text()


def test_reports_have_no_folders_of_this_machine(tmp_path, monkeypatch):
    (tmp_path / "home" / "data").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    inside, at_home = tmp_path / "here" / "train.csv", tmp_path / "home" / "data" / "my test.csv"
    write(emails(N_TRAIN, 1), inside)
    write(emails(N_TEST, 2), at_home)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    arguments = ["certify", f"--train={inside}", "--test", str(at_home), "--label", "kind", "--id", "key", "-q"]
    for ending in ("json", "html", "md"):
        given = [*arguments, "--report", str(tmp_path / "here" / f"report.{ending}")]
        monkeypatch.setattr(sys, "argv", ["flipproof", *given])
        assert run(given) == 0
        assert str(tmp_path) not in (tmp_path / "here" / f"report.{ending}").read_text()
    facts = json.loads((tmp_path / "here" / "report.json").read_text())["facts"]
    assert (facts["training_file"], facts["test_file"]) == ("train.csv", "~/data/my test.csv")
    assert list(facts["sha256"]) == ["train.csv", "~/data/my test.csv"]
    assert "--train=train.csv --test ~/'data/my test.csv' --label kind" in facts["command"]


def test_an_unmet_requirement_is_one_line_on_stderr(files, capfd):
    assert run(["certify", *files, "--min-radius", "79", "--quiet"]) == 1
    captured = capfd.readouterr()
    assert captured.err.startswith("flipproof: not met: --min-radius 79, found 0.")
    assert captured.err.count("\n") == 1
    assert "NOT MET" in captured.out


def test_the_printed_summary_is_complete_plain_text_of_80_columns(files, capfd):
    assert run(["certify", *files]) == 0
    captured = capfd.readouterr()
    assert captured.err == ""
    for words in ("of 80 training labels", "certified accuracy", "certified predictions", "recall of spam"):
        assert words in captured.out
    assert "1 column of words (country)" in captured.out
    assert "Assumptions:" in captured.out
    assert max(map(len, captured.out.splitlines())) <= 80
    assert "\x1b" not in captured.out


def test_reports_are_written_in_every_format(files, tmp_path, capfd):
    for ending in ("html", "md", "json"):
        assert run(["certify", *files, "--report", str(tmp_path / f"report.{ending}")]) == 0
    saved = json.loads((tmp_path / "report.json").read_text())
    assert saved["predictions"]["rows"][0]["attack"]["changes"]
    assert saved["audit"]["rows"]
    assert saved["attack"]["n_contradictions"] == 0
    assert saved["headline"]["text"] in (tmp_path / "report.md").read_text()
    assert "<html" in (tmp_path / "report.html").read_text()
    capfd.readouterr()
    assert run(["report", str(tmp_path / "report.json"), "-o", str(tmp_path / "again.html")]) == 0
    assert "<html" in (tmp_path / "again.html").read_text()
    capfd.readouterr()
    assert run(["report", str(tmp_path / "report.json")]) == 0
    assert saved["headline"]["text"] in capfd.readouterr().out
    assert run(["report", str(tmp_path / "report.json"), "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == saved


def test_html_in_the_data_stays_text(tmp_path, capfd):
    evil = "<script>alert(1)</script>"
    table = emails(60, 1)
    labels = [evil if one == "spam" else one for one in table["kind"].to_pylist()]
    table = table.set_column(4, "kind", [labels]).rename_columns(["key", f"<b>{evil}", "country", "answered", "kind"])
    keys = [f"{evil}{i}" for i in range(60)]
    write(table.set_column(0, "key", [keys]), tmp_path / "a.csv")
    chosen = ["--train", str(tmp_path / "a.csv"), "--holdout", "0.3", "--label", "kind", "--id", "key"]
    assert run(["certify", *chosen, "--report", str(tmp_path / "r.html")]) == 0
    assert evil not in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("extra", [[], ["-o", "out.csv", "--report", "report.json"]])
def test_an_interrupt_leaves_no_files_behind(files, tmp_path, capfd, monkeypatch, extra):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())

    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    for place in ("flipproof.attacks.label_audit.useful_changes", "flipproof.report.summary.summarize", "os.replace"):
        with monkeypatch.context() as patched:
            patched.setattr(place, interrupted)
            code = run(["certify", *files, *extra])
        if not extra and place != "flipproof.report.summary.summarize":
            assert code == 0
            continue
        assert code == 130
        assert capfd.readouterr().err.strip() == "flipproof: interrupted"
        assert sorted(tmp_path.iterdir()) == before


def test_an_interrupted_attack_is_not_reported_as_complete(files, monkeypatch):
    from dataclasses import replace

    from flipproof import attacks

    whole = attacks.worst_flips

    def cut_short(*arguments, **options):
        found = whole(*arguments, **options)
        return replace(found, attempted=np.arange(len(found)) < 3)

    monkeypatch.setattr("flipproof.auditing.attack_search.worst_flips", cut_short)
    assert run(["attack", *files, "--row", "mail-2-0,mail-2-1,mail-2-2,mail-2-3"]) == 130


def test_a_warning_is_one_line_on_stderr_unless_quiet(files, capfd):
    chosen = ["certify", *files, "--set", "regularization=paper", "--json"]
    assert run(chosen) == 0
    captured = capfd.readouterr()
    json.loads(captured.out)
    assert captured.err.startswith("flipproof: warning: ")
    assert captured.err.count("\n") == 1
    assert run([*chosen, "--quiet"]) == 0
    assert capfd.readouterr().err == ""


@pytest.mark.few(1)
@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".feather"])
def test_the_pandas_index_is_a_column_only_if_named(certify, tmp_path, ending):
    def save(name, table, index):
        whole = pa.Table.from_pandas(table.to_pandas().set_index(index))
        if ending == ".parquet":
            parquet.write_table(whole, tmp_path / f"{name}{ending}")
        else:
            feather.write_feather(whole, tmp_path / f"{name}{ending}", compression="uncompressed")

    files = write_emails(tmp_path, ending)[:-2]  # without --id
    numbered = emails(N_TRAIN, 1).append_column("number", [range(N_TRAIN)])
    save("train", numbered, ["key", "number"])
    save("test", emails(N_TEST, 2), "key")
    wanted = expected()
    for options in ([], ["--id", "key"], ["--features", "*"], ["--drop", "number"]):
        written, summary = certify(*files, *options)
        assert summary["facts"]["columns_used"] == FEATURES
        assert written["radius"].to_pylist() == wanted.radius.tolist()
    save("test", emails(N_TEST, 2).append_column("number", [range(N_TEST)]), ["key", "number"])
    _, summary = certify(*files, "--features", "length,number")
    assert summary["facts"]["columns_used"] == ["length", "number"]
    _, summary = certify(*files, "--text", "key")
    assert set(summary["facts"]["columns_used"]) == {*FEATURES, "key"}
    certify(*files, "--annotator", "number")


def test_test_rows_of_unseen_classes_are_reported(files, capfd, tmp_path):
    table = emails(N_TEST, 2)
    labels = ["eggs", *table["kind"].to_pylist()[1:]]
    write(table.set_column(4, "kind", [labels]), tmp_path / "test.csv")
    assert run(["certify", *files, "--json"]) == 0
    captured = capfd.readouterr()
    assert "1 test row has a class that does not occur in the training rows, 'eggs'" in captured.err
    first = next(row for row in json.loads(captured.out)["predictions"]["rows"] if row["id"] == "mail-2-0")
    assert not first["correct"]


def test_the_command_runs_in_a_new_process(files, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "flipproof", "certify", *files, "-o", "out.csv"],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == b""
    assert b"Written: out.csv" in done.stdout
    assert csv.read_csv(io.BytesIO((tmp_path / "out.csv").read_bytes())).num_rows == N_TEST


def test_random_errors_are_bounded_by_default(files, certify, capfd):
    _, summary = certify(*files)
    errors = summary["random_errors"]
    assert errors["rate"] == 0.05
    assert 0 < errors["uniform_mean"] <= errors["worst_mean"] <= 1
    _, summary = certify(*files, "--error-rate", "0")
    assert summary["random_errors"] is None
    assert run(["certify", *files, "--error-rate", "2"]) == 2
    assert "--error-rate must be" in capfd.readouterr().err


def test_windows_of_time(tmp_path, capfd):
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + rng.integers(0, 60, size=80)
    lines = [f"{rng.normal():.3f},{rng.normal():.3f},{rng.integers(2)},{day}" for day in days]
    file = tmp_path / "rows.csv"
    file.write_text("\n".join(["a,b,y,day", *lines]))
    common = ["certify", "--train", str(file), "--holdout", "0.2", "--label", "y", "--quiet"]
    assert run([*common, "--window", "day", "--length", "7d", "--json"]) == 0
    summary = json.loads(capfd.readouterr().out)
    assert summary["problem"]["unit"] == "windows"
    assert summary["problem"]["n_units"] <= 8  # sixty days
    report = tmp_path / "report.md"
    assert run([*common, "--window", "day", "--length", "7d", "--report", str(report)]) == 0
    assert "windows of time of length 7d" in report.read_text()
    for refused in (["--window", "day"], ["--window", "a", "--length", "7d"], ["--window", "day", "--length", "x"]):
        assert run([*common, *refused]) == 2
        said = capfd.readouterr().err
        assert said.count("\n") == 1
    assert "--length: it must be a length of time" in said


def test_radii_up_to_a_limit_are_cut_and_say_so(files, certify, tmp_path, capfd):
    whole, _ = certify(*files)
    cut, summary = certify(*files, "--radius-up-to", 3, "--min-radius", "3@0.1")
    radius = np.array(whole["radius"])
    assert cut["radius"].to_pylist() == np.minimum(radius, 3).tolist()
    assert cut["may_be_larger"].to_pylist() == (radius >= 3).tolist()
    assert "only up to 3" in json.dumps(summary)
    report, rows = tmp_path / "report.html", tmp_path / "rows.json"
    assert run(["certify", *files, "--radius-up-to", "3", "--report", str(report), "-o", str(rows)]) == 0
    assert "3 or more" in report.read_text()
    assert "NaN" not in rows.read_text()
    for refused in (["--proof", str(tmp_path / "p.flipproof")], ["--min-radius", "4"], ["--method", "kl"]):
        assert run(["certify", *files, "--radius-up-to", "3", *refused]) == 2
    assert "Traceback" not in capfd.readouterr().err
