"""`flipproof.compare_learners`: several learners fitted to the same rows, as `flipproof compare` does it."""

import numpy as np
import pytest

import flipproof
from flipproof.errors import InputError

pd = pytest.importorskip("pandas")

N_TRAIN = 100
RNG = np.random.default_rng(5)
X = RNG.normal(size=(150, 3))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=150) > 0, "spam", "ham")
TRAIN, TEST = (X[:N_TRAIN], Y[:N_TRAIN]), (X[N_TRAIN:], Y[N_TRAIN:])


def test_each_line_is_that_of_a_fit_by_hand():
    learners = {"few": flipproof.CertifiedNeighborsClassifier(5), "many": flipproof.CertifiedNeighborsClassifier(40)}
    result = flipproof.compare_learners(TRAIN, TEST, learners=learners, flips=[0, 2])
    assert [one.name for one in result.models] == ["few", "many"]
    for line, model in zip(result.models, learners.values(), strict=True):
        expected = model.fit(*TRAIN).certify(TEST[0])
        np.testing.assert_array_equal(line.certificates.radius, expected.radius)
        assert line.certified == tuple(flipproof.certified_accuracy(TEST[1], expected, [0, 2]))
    assert not hasattr(flipproof.CertifiedNeighborsClassifier(5), "classes_")


def test_parameters_belong_to_one_learner():
    result = flipproof.compare_learners(
        TRAIN, TEST, learners=["ridge", "neighbors"], parameters={"neighbors": {"n_neighbors": 5}}, flips=[1]
    )
    expected = flipproof.CertifiedNeighborsClassifier(5).fit(*TRAIN).certify(TEST[0])
    np.testing.assert_array_equal(result.certificates["neighbors"].radius, expected.radius)
    assert result.selection is None


def test_all_learners_that_take_the_arguments_are_compared():
    assert len(flipproof.compare_learners(TRAIN, TEST).models) == 6
    rows = pd.DataFrame(X, columns=list("pqr")).assign(kind=Y, day=np.arange(150))
    given = {"label": "kind", "window": "day", "length": 7}
    windows = flipproof.compare_learners(rows[:N_TRAIN], rows[N_TRAIN:], **given)
    assert "partition" not in windows.certificates
    assert len(windows.models) == 5


def test_both_ways_to_use_several_labels_per_item():
    items = pd.DataFrame(X, columns=list("pqr")).assign(key=np.arange(150), kind=Y)
    labels = pd.DataFrame({"key": np.repeat(np.arange(N_TRAIN), 3), "kind": np.repeat(Y[:N_TRAIN], 3)})
    given = {"label": "kind", "id": "key", "labels": labels, "item": "key", "learners": ["ridge"]}
    both = flipproof.compare_learners(items[:N_TRAIN].drop(columns="kind"), items[N_TRAIN:], **given)
    assert list(both.certificates) == ["ridge, annotations vote", "ridge, majority first"]
    one = flipproof.compare_learners(
        items[:N_TRAIN].drop(columns="kind"), items[N_TRAIN:], aggregate="majority", **given
    )
    assert list(one.certificates) == ["ridge"]
    np.testing.assert_array_equal(one.certificates["ridge"].radius, both.certificates["ridge, majority first"].radius)


def test_a_choice_on_trusted_labels_is_part_of_the_result():
    rows = pd.DataFrame(X, columns=list("pqr")).assign(kind=Y, sure=np.arange(150) % 3 == 0)
    given = {"label": "kind", "trusted": "sure", "drop": ["sure"]}
    learners, grid = ["ridge", "neighbors"], {"ridge": {"regularization": [1.0, 1e5]}}
    result = flipproof.compare_learners(
        rows[:N_TRAIN], rows[N_TRAIN:], learners=learners, parameters=grid, select=2, **given
    )
    assert len(result.selection.candidates) == 3
    assert list(result.certificates) == [result.selection.best_learner]
    assert result.facts()["selection"]["score"] == result.selection.best_score
    assert result.choice in repr(result)
    assert result.choice in result._repr_html_()
    swapped = rows.assign(kind=np.where(rows["sure"] | (rows.index >= N_TRAIN), Y, np.where(Y == "ham", "spam", "ham")))
    other = flipproof.compare_learners(
        swapped[:N_TRAIN], swapped[N_TRAIN:], learners=learners, parameters=grid, select=2, **given
    )
    assert other.selection.facts() == result.selection.facts()


def test_invalid_arguments_are_refused_with_a_remedy():
    with pytest.raises(TypeError, match=r"unexpected argument 'learner'. Did you mean 'learners'"):
        flipproof.compare_learners(TRAIN, TEST, learner="ridge")
    with pytest.raises(InputError, match="'forest' must be one of the learners, ridge"):
        flipproof.compare_learners(TRAIN, TEST, learners=["ridge"], parameters={"forest": {}})
    with pytest.raises(InputError, match="several values, which requires select"):
        flipproof.compare_learners(TRAIN, TEST, learners=["ridge"], parameters={"ridge": {"regularization": [1, 2]}})
    with pytest.raises(InputError, match="at least one learner"):
        flipproof.compare_learners(TRAIN, TEST, learners=[])
    with pytest.raises(InputError, match="a dict of names and learners"):
        flipproof.compare_learners(TRAIN, TEST, learners=[flipproof.CertifiedRidgeClassifier()])
    with pytest.raises(InputError, match="Did you mean 'ridge'"):
        flipproof.compare_learners(TRAIN, TEST, learners=["rigde"])
    with pytest.raises(ValueError, match="needs test rows with labels"):
        flipproof.compare_learners(TRAIN, TEST[0], learners=["ridge"])
    with pytest.raises(ValueError, match="'select' parameter of compare_learners"):
        flipproof.compare_learners(TRAIN, TEST, learners=["ridge"], select=-1)
