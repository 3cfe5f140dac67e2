"""`flipproof.compare`: the figures of each model, and refusals."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import flipproof
from flipproof import (
    Adversary,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedRidgeClassifier,
    FeatureNoise,
    SmoothedClassifier,
    certified_accuracy,
    certified_recall,
    compare,
)

FLIPS = [0, 2, 10]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300], y[:300], X[300:400], y[300:400]


@pytest.fixture(scope="module")
def models(digits):
    X, y, _, _ = digits
    tree = CertifiedPartitionClassifier(DecisionTreeClassifier(random_state=0), 9, classes=range(10))
    return {"ridge": CertifiedRidgeClassifier(classes=range(10)).fit(X, y), "trees": tree.fit(X, y)}


def test_the_figures_are_those_of_the_certificates(models, digits):
    _, _, Z, truth = digits
    result = compare(models, Z, truth, flips=FLIPS)
    assert list(result.certificates) == ["ridge", "trees"]
    assert result.flips == (0, 2, 10)
    for one in result.models:
        own = models[one.name].certify(Z)
        np.testing.assert_array_equal(result.certificates[one.name].radius, own.radius)
        np.testing.assert_array_equal(one.certified, certified_accuracy(truth, own, FLIPS))
        np.testing.assert_array_equal(one.worst_recall, certified_recall(truth, own, FLIPS).min(axis=1))
        assert one.accuracy == one.certified[0] == models[one.name].score(Z, truth)
        assert np.mean(own.radius >= one.median_radius) >= 0.5
        assert one.seconds > 0
        assert one.fit_seconds is None


def test_it_prints_as_a_table_that_says_what_differs(models, digits):
    _, _, Z, truth = digits
    text = repr(compare(models, Z, truth, flips=FLIPS))
    lines = text.splitlines()
    assert lines[0] == "Certified accuracy of 100 test rows, by changed labels of 300:"
    assert lines[1].split() == ["0", "2", "10", "med.", "radius", "certify", "s"]
    assert [line.split()[0] for line in lines[2:6]] == ["ridge", "worst", "trees", "worst"]
    assert "Methods differ: ridge by exact, trees by gap." in text
    assert "Only trees assumes: The base learner (DecisionTreeClassifier)" in text
    assert "do not include the fit" in text


def test_what_some_models_assume_is_said_once_and_of_all_of_them(models, digits):
    X, y, Z, truth = digits
    models = {**models, "bush": CertifiedPartitionClassifier(DecisionTreeClassifier(max_depth=3), 9).fit(X, y)}
    notes = compare(models, Z, truth, flips=FLIPS).notes
    chosen = [one for one in notes if "its settings and the number of partitions are assumed" in one]
    assert len(chosen) == 1
    assert chosen[0].startswith("Only trees, bush assume: The base learner")


def test_assumptions_are_shared_or_belong_to_one_model(models, digits):
    _, _, Z, truth = digits
    result = compare(models, Z, truth)
    for name, certificates in result.certificates.items():
        assert set(certificates.assumptions) == {*result.assumptions, *result.own_assumptions[name]}
    assert result.own_assumptions["ridge"] == ()


def test_models_that_are_not_fitted_are_fitted_to_train(models, digits):
    X, y, Z, truth = digits
    given = CertifiedNeighborsClassifier(5, classes=range(10))
    result = compare({**models, "new": given}, Z, truth, [1], train=(X, y))
    assert not hasattr(given, "classes_")
    assert [one.fit_seconds is None for one in result.models] == [True, True, False]
    expected = CertifiedNeighborsClassifier(5, classes=range(10)).fit(X, y).certify(Z)
    np.testing.assert_array_equal(result.certificates["new"].radius, expected.radius)
    assert "fit s" in repr(result)
    with pytest.raises(ValueError, match=r"model 'new' of compare is not fitted: .*train=\(X_train, y_train\)"):
        compare({"new": given}, Z, truth)
    with pytest.raises(ValueError, match="'train' parameter of compare"):
        compare({"new": given}, Z, truth, train=X)


def test_pipelines_and_frames(digits):
    X, y, Z, truth = digits
    names = [f"p{i}" for i in range(64)]
    pipeline = make_pipeline(StandardScaler(), CertifiedRidgeClassifier())
    frame = pd.DataFrame(X, columns=names)
    result = compare({"pipeline": pipeline}, pd.DataFrame(Z, columns=names), pd.Series(truth), [0, 1], train=(frame, y))
    found = result.to_frame()
    assert isinstance(found, pd.DataFrame)
    assert found["model"].tolist() == ["pipeline"]
    assert found["certified_accuracy_1"][0] == result.models[0].certified[1]
    assert {"accuracy", "worst_recall_0", "median_radius", "fit_seconds", "certify_seconds"} <= set(found.columns)


def test_polars_in_polars_out(digits):
    polars = pytest.importorskip("polars")
    X, y, Z, truth = digits
    names = [f"p{i}" for i in range(64)]
    model = CertifiedRidgeClassifier().fit(polars.DataFrame(X, schema=names), y)
    assert isinstance(compare({"a": model}, polars.DataFrame(Z, schema=names), truth, [0]).to_frame(), polars.DataFrame)


def test_the_plot_has_a_curve_for_each_model(models, digits):
    figures = pytest.importorskip("matplotlib.figure")
    _, _, Z, truth = digits
    ax = figures.Figure().subplots()
    drawn = compare(models, Z, truth).plot(ax=ax)
    assert list(drawn) == ["ridge", "trees"]
    assert drawn.ax_ is ax
    assert {"ridge", "trees"} <= {text.get_text() for text in ax.get_legend().get_texts()}


def test_html_is_escaped(models, digits):
    _, _, Z, truth = digits
    view = compare({"<b>ridge</b>": models["ridge"]}, Z, truth, [0])._repr_html_()
    assert "&lt;b&gt;ridge" in view
    assert "<b>" not in view


def test_the_adversary_is_the_same_for_all(models, digits):
    _, _, Z, truth = digits
    annotators = np.arange(300) % 30
    result = compare(models, Z, truth, [0, 1], adversary=Adversary(groups=annotators))
    assert result.unit == "annotators"
    assert repr(result).startswith("Certified accuracy of 100 test rows, by malicious annotators of 30:")


def test_other_units_are_refused(models, digits):
    X, y, Z, truth = digits
    smoothed = SmoothedClassifier(DecisionTreeClassifier(), FeatureNoise(5.0), n_select=2, n_samples=20)
    smoothed.set_params(random_state=0, confidence=0.9, classes=range(10))
    with pytest.raises(ValueError, match=r"Radii of 'ridge' are in changed labels, but those of 'other' in .*l2"):
        compare({"ridge": models["ridge"], "other": smoothed.fit(X[:60], y[:60])}, Z[:5], truth[:5])


def test_different_training_sets_are_said(models, digits):
    X, y, Z, truth = digits
    fewer = CertifiedRidgeClassifier(classes=range(10)).fit(X[:200], y[:200])
    text = repr(compare({"all": models["ridge"], "fewer": fewer}, Z, truth, [0, 1]))
    assert "Training sets differ: all has 300 labels, fewer has 200 labels." in text


@pytest.mark.parametrize("models", [[], {}, "ridge"])
def test_models_come_with_names(models):
    with pytest.raises(ValueError, match="'models' parameter of compare must"):
        compare(models, [[0.0]], [0])


def test_it_is_public():
    assert {"compare", "Comparison"} <= set(dir(flipproof))


def test_trusted_labels_alone_are_compared_with_the_models_and_named_first_where_better():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(120, 3)), rng.normal(size=(60, 3))
    y, truth = (np.where(rows[:, 0] > 0, "a", "b") for rows in (X, Z))
    trusted = np.arange(120) < 40
    prior = DecisionTreeClassifier(max_depth=1, random_state=0)
    models = {"plain": CertifiedRidgeClassifier(), "prior": CertifiedRidgeClassifier(prior=prior, prior_weight=0.2)}
    adversary = Adversary(trusted=trusted)
    found = flipproof.compare(models, Z, truth, [0, 60], adversary=adversary, train=(X, y))
    assert [one.name for one in found.trusted_only] == ["plain: trusted labels only", "prior: prior alone"]
    alone = CertifiedRidgeClassifier().fit(X[trusted], y[trusted]).score(Z, truth)
    of_prior = clone(prior).fit(X[trusted], y[trusted]).score(Z, truth)
    assert [one.accuracy for one in found.trusted_only] == pytest.approx([alone, of_prior])
    assert found.trusted_only_is_best_from in (0, 60)
    assert "trusted labels alone are better" in found.notes[0]
    frame = found.to_frame()
    assert frame["model"].tolist() == ["plain", "prior", "plain: trusted labels only", "prior: prior alone"]
    assert frame["certified_accuracy_60"].tolist()[2:] == pytest.approx([alone, of_prior])
    legend = found.plot()["plain"].ax_.get_legend().get_texts()
    assert "prior: prior alone" in [one.get_text() for one in legend]
    without = flipproof.compare({"plain": CertifiedRidgeClassifier()}, Z, truth, [0, 60], train=(X, y))
    assert without.trusted_only == ()
    fitted = CertifiedRidgeClassifier(prior=prior, classes=["a", "b"]).fit(X, y, trusted=trusted)
    by_fit = flipproof.compare({"fitted": fitted}, Z, truth, [0])
    assert [one.name for one in by_fit.trusted_only] == ["fitted: prior alone"]  # needs no training rows
