"""`flipproof attack`: the named labels change the prediction, and no smaller set does."""

import json

import numpy as np
import pytest
from pyarrow import csv
from small_tables import FEATURES, N_TEST, N_TRAIN, emails, write_emails

from flipproof import CertifiedRidgeClassifier
from flipproof.attacks import labels_to_audit
from flipproof.cli.group import run
from flipproof.tables import TableEncoder


@pytest.fixture
def files(tmp_path):
    return write_emails(tmp_path)


def encoded():
    train, test = emails(N_TRAIN, 1), emails(N_TEST, 2)
    encoder = TableEncoder().fit(train.select(FEATURES))
    labels = np.array(train["kind"].to_pylist())
    return encoder.transform(train.select(FEATURES)), labels, encoder.transform(test.select(FEATURES))


def test_the_named_labels_overturn_the_prediction(files, capfd):
    X, y, X_test = encoded()
    certificates = CertifiedRidgeClassifier().fit(X, y).certify(X_test)
    assert run(["attack", *files, "--row", "mail-2-3", "--row", "mail-2-5,mail-2-3", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    for test_row in (3, 5):
        steps = [row for row in found["rows"] if row["id"] == f"mail-2-{test_row}"]
        assert len(steps) == certificates.radius[test_row] + 1
        assert [step["order"] for step in steps] == list(range(1, len(steps) + 1))
        poisoned = y.copy()
        for step in steps:
            train_row = int(step["train_id"].rsplit("-", 1)[1])
            assert y[train_row] == step["old_label"] != step["new_label"]
            poisoned[train_row] = step["new_label"]
        margin = CertifiedRidgeClassifier().fit(X, poisoned).decision_function(X_test)[test_row]
        assert margin >= 0 if certificates.prediction[test_row] == "ham" else margin <= 0
    assert len(found["sentences"]) == 2


def test_the_audit_matches_the_library(files, capfd, tmp_path):
    X, y, X_test = encoded()
    wanted = labels_to_audit(CertifiedRidgeClassifier().fit(X, y), X_test, top=7)
    out = tmp_path / "audit.csv"
    assert run(["attack", *files, "--top", "7", "-o", str(out)]) == 0
    written = csv.read_csv(out)
    assert written["train_id"].to_pylist() == [f"mail-1-{row}" for row in wanted.rows]
    assert written["label"].to_pylist() == y[wanted.rows].tolist()
    assert written["n_attacks"].to_pylist() == wanted.n_attacks.tolist()
    captured = capfd.readouterr()
    assert captured.err == ""
    assert "Of 80 training labels" in captured.out
    assert max(map(len, captured.out.splitlines()[:-1])) <= 80
    assert captured.out.splitlines()[-1] == f"Written: {out}"


def test_command_report_and_library_have_the_same_labels_to_audit(files, capfd, tmp_path, monkeypatch):
    monkeypatch.setattr("flipproof.attacks.label_audit.MOST_ATTACKED", 6)
    X, y, X_test = encoded()
    model = CertifiedRidgeClassifier().fit(X, y)
    library = labels_to_audit(model, X_test, top=20)
    assert [row for row in range(len(X_test)) if len(library.per_prediction[row])] == sorted(
        np.lexsort((model.certify(X_test).margin, model.certify(X_test).radius))[:6]
    )
    assert len(X_test) > library.n_attacked == 6
    assert run(["attack", *files, "--json"]) == 0
    command = json.loads(capfd.readouterr().out)
    assert run(["certify", *files, "--quiet", "--report", str(tmp_path / "report.json")]) == 0
    report = json.loads((tmp_path / "report.json").read_text())["audit"]
    scores = [library.n_attacks.tolist(), library.weight.tolist()]
    for rows, name in ((command["rows"], "train_id"), (report["rows"][:20], "row")):
        assert [row[name] for row in rows] == [f"mail-1-{row}" for row in library.rows]
        assert [[row[score] for row in rows] for score in ("n_attacks", "weight")] == scores
    assert command["n_attacked"] == report["n_attacked"] == 6


def test_predictions_that_cannot_be_overturned_are_reported(files, capfd):
    assert run(["attack", *files, "--row", "mail-2-3", "--max-flips", "1"]) == 0
    assert "No change of at most 1" in " ".join(capfd.readouterr().out.split())
    assert run(["attack", *files, "--row", "mail-2-3", "--allow", "ham:spam", "--json"]) == 0
    one = json.loads(capfd.readouterr().out)
    assert run(["attack", *files, "--row", "mail-2-3", "--allow", "spam:ham", "--json"]) == 0
    other = json.loads(capfd.readouterr().out)
    assert sorted([bool(one["rows"]), bool(other["rows"])]) == [False, True]
    unbroken = one if other["rows"] else other
    assert "No change of labels overturns it" in unbroken["sentences"][0]


def test_long_lists_are_truncated_only_on_the_terminal(files, capfd, tmp_path):
    out = tmp_path / "all.json"
    assert run(["attack", *files, "--top", "60", "-o", str(out)]) == 0
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) > 20
    assert f"... and {len(rows) - 20} more" in capfd.readouterr().out
