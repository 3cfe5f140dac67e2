"""Explanations: the smallest attack on a prediction is real, and its rows are shown beside the test row."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import flipproof
from flipproof import Adversary, CertifiedNeighborsClassifier, CertifiedRidgeClassifier


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(1)
    y = pd.Series(np.array(["cod", "eel", "ray"])[np.arange(60) % 3], index=np.arange(100, 160))
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=list("abc"), index=y.index)
    X += 3 * np.eye(3)[np.arange(60) % 3]
    return X, y


def fitted(rows, model=None):
    X, y = rows
    model = CertifiedRidgeClassifier(classes=["cod", "eel", "ray"]) if model is None else model
    return model.fit(X[8:], y[8:])


@pytest.mark.parametrize("position", range(8))
def test_the_attack_changes_the_prediction_of_a_refit_as_it_says(rows, position):
    X, y = rows
    certified = fitted(rows).certify(X[:8])
    found = certified.explain(100 + position, X_train=X[8:])
    assert len(found.changes) == certified.radius[position] + 1
    poisoned = y[8:].copy()
    for change in found.changes:
        assert change.kind == "relabel"
        assert poisoned[change.row] == change.label  # by the names of the index
        poisoned[change.row] = change.new_label
    assert fitted((X, pd.concat([y[:8], poisoned]))).predict(X[[*X.index] == np.int64(100 + position)])[0] == (
        found.becomes
    )


def test_contents_are_those_of_the_rows(rows):
    X, _ = rows
    found = fitted(rows).certify(X[:8]).explain(102, X_train=X[8:], columns=["c", "a"])
    assert list(found.contents) == ["c", "a"]
    names = [102, *(change.row for change in found.changes)]
    assert list(found.contents["c"]) == X["c"][names].tolist()
    frame = found.to_frame()
    assert frame.columns.tolist() == ["row", "change", "label", "new label", "c", "a"]
    assert frame["row"].tolist() == names
    assert frame["label"][0] == found.certificate.prediction
    assert frame["new label"][0] == found.becomes
    text = str(found)
    assert text.startswith(f"Test row 102 is predicted as {found.certificate.prediction}. ")
    assert f"training row {found.changes[0].row}" in text
    assert re.search(r"^c +-?\d", text, re.MULTILINE)
    assert f"<th>training row {found.changes[0].row}</th>" in found._repr_html_()


def test_names_of_training_rows_are_known_without_them(rows):
    found = fitted(rows).certify(rows[0][:8]).explain()
    assert found.certificate.radius == fitted(rows).certify(rows[0][:8]).radius.min()
    assert found.contents == {}
    assert all(108 <= change.row < 160 for change in found.changes)
    assert "Give X_train=" in str(found)


def test_polars_frames_and_pipelines(rows):
    X, y = pl.from_pandas(rows[0]), rows[1].to_list()
    model = make_pipeline(StandardScaler(), CertifiedNeighborsClassifier(7)).fit(X[8:].to_pandas(), y[8:])
    found = flipproof.certify(model, X[:8].to_pandas()).explain(3, X_train=X[8:])
    frame = found.to_frame()
    assert frame["a"].to_list()[1:] == [X["a"][8 + change.row] for change in found.changes]
    alone = CertifiedNeighborsClassifier(7).fit(X[8:], y[8:]).certify(X[:8]).explain(3, X_train=X[8:])
    assert isinstance(alone.to_frame(), pl.DataFrame)


def test_annotators_and_other_methods(rows):
    X, _ = rows
    model = fitted(rows)
    by_annotators = model.certify(X[:8], adversary=Adversary(groups=np.arange(52) // 4)).explain(100)
    assert re.search(r"needs \d+ annotators?, and changes \d+ labels", by_annotators.note)
    assert len(model.certify(X[:8], method="kl").explain(100).changes) == model.certify(X[:8]).radius[0] + 1
    nobody = model.certify(X[:8], adversary=Adversary(trusted=np.ones(52, dtype=bool))).explain(100)
    assert nobody.changes == ()
    assert "No attack" in nobody.note


def test_rows_that_are_added_and_removed(rows):
    X, y = rows
    model = CertifiedRidgeClassifier(classes=["cod", "eel", "ray"], clip=0.9).fit(X[20:], y[20:], reference=X[:20])
    found = model.certify(X[:8], adversary=Adversary(changes="rows")).explain(101, X_train=X[20:])
    assert re.search(
        r"changes (\d+) rows: it removes \1 training rows and adds \1 copies of a row\. A refit", found.note
    )
    kinds = {change.kind for change in found.changes}
    assert kinds <= {"add", "remove"}
    assert kinds
    added = found.changes[0]
    assert added.kind == "add"  # the row to add comes first: there may be many to remove
    assert added.times == len(found.changes) - 1
    assert f"{added.times} added copies" in str(found)
    np.testing.assert_allclose([values[1] for values in found.contents.values()], list(X.loc[101]), err_msg="a copy")
    assert all(change.row in X.index[20:] for change in found.changes if change.kind == "remove")
    assert len(found.to_frame()) == 1 + len(found.changes) == len(found.contents["a"])
    assert "added" in str(found) or "removed row" in str(found)


def test_sources_that_change_rows_are_named(rows):
    X, y = rows
    model = CertifiedRidgeClassifier(classes=["cod", "eel", "ray"], clip=0.9).fit(X[20:], y[20:], reference=X[:20])
    shops = np.array([f"shop {number % 9}" for number in range(len(X) - 20)])
    for changes in ("rows", "removals"):
        adversary = Adversary(changes=changes, groups=shops)
        found = model.certify(X[:8], adversary=adversary).explain(101)
        named = set(re.findall(r"shop \d", found.note))
        assert named == {str(shops[X.index[20:].get_loc(one.row)]) for one in found.changes if one.kind == "remove"}
        assert f"changes {len(named)} source" in found.note
        assert ("adds" in found.note) == (changes == "rows")


def test_learners_without_a_known_attack_say_so(rows):
    X, _ = rows
    model = fitted(rows, flipproof.CertifiedPartitionClassifier(LogisticRegression(), n_partitions=5))
    found = model.certify(X[:8]).explain(100)
    assert found.changes == ()
    assert "CertifiedPartitionClassifier certifies a lower bound" in str(found)
    assert found.to_frame().shape == (1, 4)


def test_what_cannot_be_explained_is_refused(rows):
    X, y = rows
    model = fitted(rows)
    certified = model.certify(X[:8])
    with pytest.raises(ValueError, match="name of a test row, such as 100, 101"):
        certified.explain(3)
    with pytest.raises(ValueError, match=r"2 are called 100.*certificates\[\[0\]\]"):
        model.certify(X[:8].set_axis([100, 100, *range(6)])).explain(100)
    with pytest.raises(ValueError, match="X_train must be the 52 training rows"):
        certified.explain(100, X_train=X)
    with pytest.raises(ValueError, match=r"columns must be columns of the rows: a, b, c\. Got 'd'"):
        certified.explain(100, X_train=X[8:], columns=["d"])
    with pytest.raises(ValueError, match="no certificates to explain"):
        certified[:0].explain()
    model.fit(X[8:], y[8:].to_numpy()[::-1].copy())
    with pytest.raises(ValueError, match="have changed since"):
        certified.explain(100)
