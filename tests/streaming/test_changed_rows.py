"""Rows that are not the same at every visit are noticed: a certificate speaks of one set of rows."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from flipproof import Adversary
from flipproof.streaming import RowBlocks, StreamingKernelClassifier, StreamingRidgeClassifier

RNG = np.random.default_rng(0)
N = 240
Y = np.sort(np.arange(N) % 2)
X = RNG.normal(size=(N, 4)) + Y[:, None]
Z = RNG.normal(size=(5, 4)) + 0.5
TRUSTED = RNG.random(N) < 0.3
GROUPS = RNG.integers(6, size=N)


def shuffled_within_classes(seed):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.permutation(np.flatnonzero(label == Y)) for label in (0, 1)])


class Visits:
    """A source of blocks that counts how often it was asked, and answers each time as `make` says."""

    def __init__(self, make):
        self.make, self.count = make, 0

    def __call__(self):
        self.count += 1
        return iter([self.make(self.count)])


@pytest.mark.parametrize("adversary", [Adversary(trusted=TRUSTED), Adversary(groups=GROUPS), None])
def test_rows_in_another_order_at_each_visit(adversary):
    # sums by class do not see it, but a mask of trusted rows goes by the number of a row
    def make(visit):
        order = shuffled_within_classes(visit)
        return X[order], Y[order]

    with pytest.raises(ValueError, match="blocks of Visits: the rows"):
        StreamingRidgeClassifier(classes=[0, 1]).fit(Visits(make)).certify(Z, adversary=adversary)


def test_files_in_another_order_since_the_fit(tmp_path):
    for label in (0, 1):
        np.save(tmp_path / f"X-{label}.npy", X[label == Y])
    rows = RowBlocks.from_npy(str(tmp_path / "X-*.npy"), Y)
    model = StreamingRidgeClassifier(classes=[0, 1]).fit(rows)
    model.certify(Z, adversary=Adversary(trusted=TRUSTED))
    for label in (0, 1):
        np.save(tmp_path / f"X-{label}.npy", X[label == Y][::-1])
    with pytest.raises(ValueError, match=r"X-0.npy', rows 0 to 119: the rows have changed since"):
        model.certify(Z, adversary=Adversary(trusted=TRUSTED))


@pytest.mark.parametrize("column", ["trusted", "groups"])
def test_trust_and_annotators_that_move_between_rows_of_one_class(column):
    def make(visit):
        order = shuffled_within_classes(visit)
        columns = {"trusted": TRUSTED, "groups": GROUPS}
        columns[column] = columns[column][order]
        return X, Y, columns["trusted"], columns["groups"]

    model = StreamingRidgeClassifier(classes=[0, 1]).fit(Visits(make))
    with pytest.raises(ValueError, match="have changed since the model was fitted"):
        model.certify(Z)


def calls_of(use):
    """Count how often a source of blocks is asked."""
    source = Visits(lambda visit: (X, Y))
    use(source)
    return source.count


def fitted_model(source, learner=StreamingRidgeClassifier, **parameters):
    return learner(classes=[0, 1], **parameters).fit(source)


@pytest.mark.parametrize(
    ("learner", "parameters"), [(StreamingRidgeClassifier, {}), (StreamingKernelClassifier, {"n_components": 20})]
)
def test_rows_that_change_at_any_visit(learner, parameters):
    # the least that can change is the last bit of one number: far below the grid that features are put on
    other = X.copy()
    other[17, 2] = np.nextafter(other[17, 2], 9)

    def fit(source):
        return fitted_model(source, learner, **parameters)

    n_looks, n_visits = calls_of(RowBlocks.from_blocks), calls_of(lambda source: fit(source).certify(Z))
    assert n_visits > n_looks + 5
    for changed in range(n_looks + 2, n_visits + 1):
        source = Visits(lambda visit, changed=changed: (X if visit < changed else other, Y))
        with pytest.raises(ValueError, match="blocks of Visits: the rows"):
            fit(source).certify(Z)
    for never in (0, n_visits + 1):
        fit(Visits(lambda visit, never=never: (X if visit < never else other, Y))).certify(Z)


def test_rows_whose_votes_may_not_fit_the_grid_are_refused():
    rows = [X]
    model = StreamingRidgeClassifier(classes=[0, 1]).fit(lambda: iter([(rows[0], Y)]))
    rows[0] = 3 * X
    with pytest.raises(ValueError, match=r"block 0.* has changed since"):
        model.certify(Z)


@pytest.mark.parametrize("visit_of_change", range(4, 8))
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_another_number_of_rows_in_the_middle_of_a_fit(visit_of_change, fit_intercept):
    source = Visits(lambda visit: (X, Y) if visit < visit_of_change else (np.vstack([X, X]), np.concatenate([Y, Y])))
    model = StreamingRidgeClassifier(classes=[0, 1], fit_intercept=fit_intercept)
    with pytest.raises(ValueError, match="changed"):
        model.fit(source).certify(Z)


def test_nan_that_appears_after_the_first_pass():
    def make(visit):
        broken = X.copy()
        broken[3, 1] = np.nan
        return (X, Y) if visit < 7 else (broken, Y)

    with pytest.raises(ValueError, match=r"block 0.* has NaN or infinity|changed"):
        StreamingRidgeClassifier(classes=[0, 1]).fit(Visits(make)).certify(Z)


def test_a_failed_fit_leaves_an_unfitted_model():
    model = StreamingRidgeClassifier(classes=[0, 1]).fit([(X, Y)])
    with pytest.raises(ValueError, match="for 2 classes"):
        model.set_params(noise=0.9).fit([(X, Y)])
    with pytest.raises(NotFittedError):
        model.certify(Z)
    with pytest.raises(NotFittedError):
        model.predict(Z)


@pytest.mark.slow
def test_kept_coordinates_are_recomputed_after_a_restart(client):
    model = StreamingRidgeClassifier(classes=[0, 1]).fit([(X[:100], Y[:100]), (X[100:], Y[100:])], client=client)
    radius = model.certify(Z).radius
    assert model._kept is not None
    client.restart()
    np.testing.assert_array_equal(model.certify(Z).radius, radius)
