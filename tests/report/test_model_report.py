"""`model.report(X, y)`: a report in one line, with names from the index of data frames."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import flipproof
from flipproof import Adversary, CertifiedNeighborsClassifier, CertifiedRidgeClassifier
from flipproof.report.summary import summarize


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = pd.Series(np.where(np.arange(80) % 2, "spam", "ham"), index=[f"mail-{n}" for n in range(80)])
    X = pd.DataFrame(rng.normal(size=(80, 2)), columns=["links", "length"], index=y.index)
    return X + 2 * (y == "spam").to_numpy()[:, None], y


@pytest.mark.parametrize("ending", ["html", "md", "json"])
def test_one_line_writes_a_report(rows, ending, tmp_path):
    X, y = rows
    model = CertifiedRidgeClassifier(classes=["ham", "spam"]).fit(X[20:], y[20:])
    model.report(X[:20], y[:20], title="Emails").save(tmp_path / f"r.{ending}")
    text = (tmp_path / f"r.{ending}").read_text()
    assert "Emails" in text
    assert "mail-3" in text
    with pytest.raises(ValueError, match="must end in"):
        model.report(X[:20], y[:20]).save(tmp_path / "r.pdf")


def test_rows_are_called_by_the_index_of_their_frames(rows):
    X, y = rows
    report = CertifiedRidgeClassifier().fit(X[20:], y[20:]).report(X[:20], y[::-1])
    found = report.summary(data="emails of May")
    assert found["facts"]["data"] == "emails of May"
    assert found["facts"]["learner"]["name"] == "CertifiedRidgeClassifier"
    assert {one["id"] for one in found["predictions"]["rows"]} == set(X.index[:20])
    assert {one["row"] for one in found["audit"]["rows"]} <= set(X.index[20:])
    assert report.to_frame()["label"].tolist() == y[:20].tolist()
    assert "<svg" in report._repr_html_()
    json.dumps(found)


def test_summaries_take_ids_from_indexes(rows):
    X, y = rows
    model = CertifiedNeighborsClassifier(5).fit(X[20:].to_numpy(), y[20:].to_numpy())
    attack = flipproof.attacks.worst_flips(model, X[:20].to_numpy())
    found = summarize({"exact": model.certify(X[:20].to_numpy())}, y_train=y[20:], attack=attack)
    changed = [change["row"] for one in found["predictions"]["rows"] for change in one["attack"]["changes"]]
    assert set(changed) <= set(y.index[20:])
    assert changed


@pytest.mark.parametrize(
    "model",
    [
        flipproof.CertifiedPartitionClassifier(GaussianNB(), n_partitions=5),
        flipproof.SmoothedClassifier(GaussianNB(), n_select=5, n_samples=20, confidence=0.9),
        CertifiedRidgeClassifier(method="kl"),
    ],
)
def test_every_classifier_has_a_report(rows, model, tmp_path):
    X, y = rows
    report = model.fit(X[20:], y[20:]).report(X[:20])
    assert report.attacks is None
    report.save(tmp_path / "r.html")
    assert "mail-3" in (tmp_path / "r.html").read_text()


def test_blocks_pipelines_and_adversaries(rows):
    X, y = rows
    blocks = flipproof.StreamingRidgeClassifier().fit(X[20:].to_numpy(), y[20:].to_numpy())
    assert blocks.report(X[:20].to_numpy()).summary()["attack"] is None
    pipeline = make_pipeline(StandardScaler(), CertifiedRidgeClassifier()).fit(X[20:], y[20:])
    report = flipproof.Report.from_estimator(pipeline, X[:20], y[:20], adversary=Adversary(trusted=np.arange(60) < 30))
    assert report.certificates.n_touchable == 30
    assert report.attacks is not None


def test_an_audit_explains_by_the_columns_of_its_table(rows):
    X, y = rows
    table = X.assign(kind=np.where(np.arange(80) % 5, "letter", "card"), spam=y)
    result = flipproof.audit(table[20:], table[:20], label="spam")
    found = result.explain("mail-5", columns=["kind", "links"])
    assert found.contents["kind"][0] == "card"
    names = [change.row for change in found.changes]
    assert list(found.contents["links"])[1:] == X["links"][names].tolist()
    assert result.main.to_frame().index.tolist() == X.index[:20].tolist()
