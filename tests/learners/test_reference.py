"""Geometry from a reference: no training row can change the vote of another, and rows can join and leave the vote."""

import warnings

import numpy as np
import pandas as pd
import polars
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.decomposition import NMF, PCA, TruncatedSVD
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, Normalizer, StandardScaler
from sklearn.random_projection import GaussianRandomProjection
from tiers import mostly_slow

from flipproof import (
    Adversary,
    CertifiedClusterClassifier,
    CertifiedForestClassifier,
    CertifiedKernelClassifier,
    CertifiedNeighborsClassifier,
    CertifiedPartitionClassifier,
    CertifiedPropagationClassifier,
    CertifiedRidgeClassifier,
    LabelLinearClassifier,
    SmoothedClassifier,
    certify,
)
from flipproof.learners.certified import ReferenceWarning

CLASSES = [0, 1, 2]
CHANGES = ("labels", "rows", "insertions", "removals")


class Parzen(LabelLinearClassifier):
    """The weight of a training row decays with its distance from the test row."""

    def fit_without_labels(self, X):
        self.width_ = np.abs(X - X.mean(axis=0)).mean()

    def weight_of_row(self, x, z):
        with np.errstate(over="ignore"):
            return np.exp(-np.abs(z - x).sum() / self.width_)


class EqualWeights(LabelLinearClassifier):
    """All training rows vote with weight 1; it does not know the weight of a single row."""

    def fit_without_labels(self, X):
        self.n_ = len(X)

    def label_free_weights(self, Z):
        return np.ones((len(Z), self.n_))


LEARNERS = {
    "ridge": CertifiedRidgeClassifier(classes=CLASSES),
    "ridge clipped": CertifiedRidgeClassifier(classes=CLASSES, clip=0.8, precision=6),
    "ridge by sign": CertifiedRidgeClassifier(classes=CLASSES, clip="sign", fit_intercept=False),
    "ridge 24 bits": CertifiedRidgeClassifier(classes=CLASSES, precision=24, clip=0.9),
    "kernel": CertifiedKernelClassifier(classes=CLASSES),
    "kernel laplacian": CertifiedKernelClassifier("laplacian", classes=CLASSES, n_components=10, clip=0.9),
    "kernel cosine": CertifiedKernelClassifier("cosine", classes=CLASSES, n_components=7),
    "kernel poly": CertifiedKernelClassifier("poly", classes=CLASSES, n_components=7, clip=1.0),
    "forest": CertifiedForestClassifier(20, classes=CLASSES, min_samples_leaf=4),
    "forest clipped": CertifiedForestClassifier(20, classes=CLASSES, min_samples_leaf=4, clip=0.7),
    "clusters": CertifiedClusterClassifier(classes=CLASSES),
    "custom": Parzen(classes=CLASSES),
    "custom clipped": Parzen(classes=CLASSES, clip=0.5),
}
STEPS = {
    "none": None,
    "PCA": PCA(3, random_state=0),
    "scaler and projection": make_pipeline(StandardScaler(), GaussianRandomProjection(4, random_state=0)),
    "length 1": Normalizer(),
}

each_learner = pytest.mark.parametrize("name", LEARNERS)
each_step = pytest.mark.parametrize("step", mostly_slow(STEPS, fast=(0, 1)))


def problem(seed=0, n=60, n_reference=40):
    rng = np.random.default_rng(seed)
    X, reference, Z = (rng.normal(size=(rows, 5)) for rows in (n, n_reference, 9))
    return X, rng.integers(3, size=n), reference, Z


def extreme_rows(Z):
    """Return rows that an attacker might add: of any finite size, and copies of test rows."""
    rng = np.random.default_rng(1)
    scales = [1e-320, 1e-150, 1e150, 1e308]
    signs = np.sign(rng.normal(size=(len(scales), Z.shape[1])))
    return np.vstack([signs * np.array(scales)[:, None], np.zeros((1, Z.shape[1])), Z[:3], Z[:3] * 1e100])


@pytest.mark.few(3)
@each_step
@each_learner
def test_no_training_row_changes_the_vote_of_another(name, step):
    X, y, reference, Z = problem()
    model = LEARNERS[name].set_params(features=STEPS[step])
    alpha, offsets = model.fit(X, y, reference=reference).vote_weights(Z)
    rng = np.random.default_rng(2)

    order = rng.permutation(len(X))
    kept = np.flatnonzero(rng.random(len(X)) < 0.7)
    more = extreme_rows(Z)
    changed = X.copy()
    changed[::3] = more[rng.integers(len(more), size=len(changed[::3]))]
    others = np.setdiff1d(np.arange(len(X)), np.arange(0, len(X), 3))
    for rows, labels, old, new in (
        (X[order], y[order], order, np.arange(len(X))),
        (X[kept], y[kept], kept, np.arange(len(kept))),
        (
            np.vstack([more, X]),
            np.append(np.zeros(len(more), int), y),
            np.arange(len(X)),
            len(more) + np.arange(len(X)),
        ),
        (changed, 2 - y, others, others),
        (X[:1], y[:1], [0], [0]),
    ):
        again, same_offsets = model.fit(rows, labels, reference=reference).vote_weights(Z)
        assert np.array_equal(again[:, new], alpha[:, old])
        assert np.array_equal(same_offsets, offsets)


@each_learner
def test_no_vote_exceeds_the_limit(name):
    X, y, reference, Z = problem()
    model = (
        LEARNERS[name]
        .set_params(features=None)
        .fit(np.vstack([X, extreme_rows(Z)]), np.append(y, [0] * 11), reference=reference)
    )
    source = model.votes_on(model.test_features(Z))
    votes = np.rint(source.unrounded(0, source.n_train))
    assert np.all(np.abs(votes) <= source.limit[:, None])
    assert source.limit.min() >= 1


def test_a_row_beyond_the_reference_has_the_largest_vote():
    """Without `clip`, the radius against insertions is exact: so many copies of this row overturn the prediction."""
    X, y, reference, Z = problem()
    for learner in (CertifiedRidgeClassifier(classes=CLASSES), CertifiedRidgeClassifier(classes=CLASSES, clip="sign")):
        model = learner.fit(X, y, reference=reference)
        found = model.certify(Z, adversary=Adversary(changes="insertions"))
        assert "rows-lower-bound" not in [one.code for one in found.assumptions]
        for row, (loud, radius, rival) in enumerate(zip(model.loudest_rows(Z), found.radius, found.rival, strict=True)):
            for n_added, overturned in ((radius, False), (radius + 1, True)):
                rows, labels = np.vstack([X, *[loud] * n_added]), np.append(y, [rival] * n_added)
                prediction = model.fit(rows, labels, reference=reference).predict(Z[row : row + 1])
                assert (prediction != found.prediction[row]) == overturned


@pytest.mark.few(4)
@each_step
@each_learner
def test_rows_join_and_leave_as_if_by_a_fit(name, step):
    X, y, reference, Z = problem()
    made = LEARNERS[name].set_params(features=STEPS[step])
    whole = made.fit(X, y, reference=reference)
    expected = {changes: whole.certify(Z, adversary=Adversary(changes=changes)) for changes in CHANGES}
    alpha = whole.vote_weights(Z)[0]

    model = made.fit(X[:0], y[:0], reference=reference)
    model.partial_fit(X[:25], y[:25])
    model.partial_fit(np.vstack([X[:4], X[25:]]), np.append(2 - y[:4], y[25:]))
    model.forget(range(25, 29))
    assert np.array_equal(model.vote_weights(Z)[0], alpha)
    for changes, certificates in expected.items():
        found = model.certify(Z, adversary=Adversary(changes=changes))
        for field in ("prediction", "radius", "rival", "margin", "unlimited"):
            assert np.array_equal(getattr(found, field), getattr(certificates, field))
        assert found.assumptions == certificates.assumptions
        assert np.array_equal(found.prediction, model.predict(Z))


@pytest.mark.few(2)
@each_learner
def test_fits_on_no_row_or_one_row(name):
    X, y, reference, Z = problem()
    model = LEARNERS[name].set_params(features=None).fit(X[:0], y[:0], reference=reference)
    assert np.array_equal(model.predict(Z), np.zeros(len(Z)))
    assert np.all(model.certify(Z, adversary=Adversary(changes="insertions")).radius == 0)
    removals = model.certify(Z, adversary=Adversary(changes="removals"))
    assert removals.unlimited.all()
    assert np.all(model.certify(Z).radius == 0)
    model.partial_fit(X[:1], y[:1])
    for changes in CHANGES:
        assert np.array_equal(model.certify(Z, adversary=Adversary(changes=changes)).prediction, model.predict(Z))


def test_numbers_of_another_type_vote_the_same():
    X, y, reference, Z = problem()
    X = X.astype(np.float32)
    for step in STEPS.values():
        model = CertifiedRidgeClassifier(classes=CLASSES, features=step)
        wide = model.fit(X.astype(np.float64), y, reference=reference).vote_weights(Z)[0]
        narrow = model.fit(X, y, reference=reference).vote_weights(Z)[0]
        assert np.array_equal(wide, narrow)


@pytest.mark.parametrize("container", [np.array, pd.DataFrame, polars.DataFrame, csr_array])
def test_no_row_decides_on_the_type_of_numbers(container):
    """A row of wider numbers would widen an array or a column, and a step computes other bits from other types."""
    X, y, reference, Z = problem()
    reference, X = container(reference.astype(np.float32)), X.astype(np.float32)
    step = TruncatedSVD(3, random_state=0)
    model = CertifiedRidgeClassifier(classes=CLASSES, features=step, precision=24)
    narrow = model.fit(container(X), y, reference=reference).vote_weights(container(Z))[0]
    wide = model.fit(container(X.astype(np.float64)), y, reference=reference).vote_weights(container(Z))[0]
    assert np.array_equal(wide, narrow)


def test_a_fraction_in_a_list_does_not_change_other_rows():
    model = CertifiedRidgeClassifier(classes=CLASSES, features=FunctionTransformer(np.reciprocal))
    rows, labels, reference = [[2, 4], [4, 5]], [0, 1], [[1, 2], [2, 3], [5, 8]]
    votes = model.fit(rows, labels, reference=reference).vote_weights([[3, 3]])[0]
    more = model.fit([*rows, [2.5, 1]], [*labels, 2], reference=reference).vote_weights([[3, 3]])[0]
    assert np.array_equal(more[:, :2], votes)


@pytest.mark.parametrize("container", [np.array, pd.DataFrame, csr_array])
def test_a_reference_of_integers_counts_as_floats(container):
    whole, rows = np.arange(20, dtype=np.int32).reshape(10, 2), np.array([[0.5, 1.0], [1.0, 2.0**40], [3.0, 4.0]])
    model = CertifiedRidgeClassifier(classes=CLASSES, features=TruncatedSVD(1, random_state=0), precision=24)
    votes = []
    for reference in (whole, whole.astype(np.float64)):
        model.fit(container(rows), [0, 1, 2], reference=container(reference))
        votes.append(model.vote_weights(container(rows))[0])
        model.fit(container(rows[2:].astype(np.int64)), [2], reference=container(reference))  # no fractions
        assert np.array_equal(model.vote_weights(container(rows))[0][:, 0], votes[-1][:, 2])
        model.partial_fit(container(rows[:1]), [0])
        assert np.array_equal(model.vote_weights(container(rows))[0][:, 1], votes[-1][:, 0])
    assert np.array_equal(*votes)


@pytest.mark.parametrize("row", [[0.5, 1.0], [1.0, 2.0**40]])
def test_numbers_are_not_truncated_if_the_step_needs_integers(row):
    reference, table = np.arange(20, dtype=np.int32).reshape(10, 2), np.random.default_rng(0).normal(size=20)
    model = CertifiedRidgeClassifier(classes=CLASSES, features=FunctionTransformer(lambda X: table[X]))
    model.fit(np.array([[3.0, 4.0]]), [0], reference=reference)
    with pytest.raises(ValueError, match="cannot represent"):
        model.predict(np.array([row]))


def test_integers_of_polars_are_not_truncated():
    reference = polars.DataFrame(np.arange(20, dtype=np.int32).reshape(10, 2))
    model = CertifiedRidgeClassifier(classes=CLASSES, features=TruncatedSVD(1, random_state=0))
    model.fit(polars.DataFrame(np.array([[3.0, 4.0]])), [0], reference=reference)
    with pytest.raises(ValueError, match="cannot represent"):
        model.predict(polars.DataFrame(np.array([[0.5, 1.0]])))


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(lambda X: X - X.mean(axis=0)),
        FunctionTransformer(lambda X: X + np.random.default_rng(0).normal(size=X.shape)),
        make_pipeline(StandardScaler(), FunctionTransformer(lambda X: X / np.abs(X).max())),
        make_pipeline(MinMaxScaler(clip=True), NMF(2, init="nndsvda", tol=0.01)),
    ],
)
def test_features_that_depend_on_other_rows_are_refused(step):
    X, y, reference, _ = problem()
    with pytest.raises(ValueError, match="transforms each row separately"):
        CertifiedRidgeClassifier(classes=CLASSES, features=step).fit(X, y, reference=reference)


def test_rows_that_join_or_leave_keep_what_the_fit_assumes():
    X, y, reference, _ = problem()
    model = CertifiedRidgeClassifier().fit(X, y, reference=reference)
    model.also_assume("Columns are in metres.")
    before = model.assumptions_
    model.set_params(classes=CLASSES, regularization="paper")
    model.partial_fit(reference[:2], y[:2])
    assert [one for one in model.assumptions_ if one.code != "reference-shared"] == list(before)
    assert [one.values["n_shared"] for one in model.assumptions_ if one.code == "reference-shared"] == [2]
    with pytest.warns(ReferenceWarning):
        assert model.forget([len(y), len(y) + 1]).assumptions_ == before


def test_rows_join_the_model_that_was_fitted():
    X, y, reference, Z = problem()
    model = CertifiedRidgeClassifier(classes=CLASSES).fit(X[:10], y[:10], reference=reference)
    model.set_params(regularization=1e6, fit_intercept=False, precision=3, clip="sign").partial_fit(X[10:], y[10:])
    whole = CertifiedRidgeClassifier(classes=CLASSES).fit(X, y, reference=reference)
    assert np.array_equal(model.decision_function(Z), whole.decision_function(Z))


@pytest.mark.parametrize("learner", [CertifiedRidgeClassifier(), CertifiedPartitionClassifier(n_partitions=3)])
def test_a_fit_that_fails_leaves_the_model_as_it_was(learner):
    X, y, reference, Z = problem()
    model = clone(learner).set_params(classes=CLASSES).fit(X, y)
    before = model.decision_function(Z)
    with pytest.raises(ValueError, match="not in classes"):
        model.fit(X, y + 7, reference=100 * reference)
    assert np.array_equal(model.decision_function(Z), before)
    with pytest.raises(ValueError, match="reference"):
        model.certify(Z, adversary=Adversary(changes="rows"))


def test_a_pipeline_whose_steps_saw_all_rows_has_no_certificates_against_rows():
    X, y, reference, Z = problem()
    pipeline = Pipeline([("scale", StandardScaler()), ("ridge", CertifiedRidgeClassifier(classes=CLASSES))])
    pipeline.fit(X, y, ridge__reference=reference)
    certify(pipeline, Z)
    with pytest.raises(ValueError, match="impossible after the pipeline's steps 'scale'"):
        certify(pipeline, Z, adversary=Adversary(changes="rows"))


@pytest.mark.parametrize("kind", ["frozen", "stateless"])
def test_a_pretrained_encoder_needs_only_a_few_reference_rows(kind):
    X, y, reference, Z = problem()
    step = FunctionTransformer(np.tanh) if kind == "stateless" else FrozenEstimator(PCA(3).fit(reference))
    model = CertifiedRidgeClassifier(classes=CLASSES, features=step, clip=0.9).fit(X, y, reference=reference[:5])
    found = model.certify(Z, adversary=Adversary(changes="rows"))
    assert np.array_equal(found.prediction, model.predict(Z))
    codes = [one.code for one in found.assumptions]
    assert "features-separately" in codes
    assert "features-any-rows" in codes
    removals = model.certify(Z, adversary=Adversary(changes="removals")).assumptions
    assert "features-any-rows" not in [one.code for one in removals]  # nobody adds a row
    assert ("fitted-elsewhere" in codes) == (kind == "frozen")


def test_frames_and_their_columns():
    X, y, reference, Z = (pd.DataFrame(part) if np.ndim(part) == 2 else part for part in problem())
    X, reference, Z = (part.rename(columns=str) for part in (X, reference, Z))
    model = CertifiedRidgeClassifier(classes=CLASSES).fit(X, y, reference=reference)
    plain = CertifiedRidgeClassifier(classes=CLASSES).fit(X.values, y, reference=reference.values)
    assert np.array_equal(model.predict(Z), plain.predict(Z.values))
    with pytest.raises(ValueError, match="has a column '1' where"):
        CertifiedRidgeClassifier().fit(X.rename(columns={"1": "other"}), y, reference=reference)


def test_certificates_say_what_they_assume():
    X, y, reference, Z = problem()
    model = CertifiedKernelClassifier().fit(X, y, reference=reference)

    def codes(adversary):
        return [one.code for one in model.certify(Z, adversary=adversary).assumptions]

    assert codes(None) == ["labels-only", "classes-read", "reference-fixed"]
    rows = Adversary(changes="rows", trusted=y == 0, groups=np.arange(60) // 5)
    assert codes(rows) == [
        *("rows-changed", "classes-read", "reference-fixed", "rows-lower-bound", "trusted-rows", "sources")
    ]
    assert codes(Adversary(changes="removals")) == ["rows-changed", "classes-read", "reference-fixed"]
    shared = CertifiedKernelClassifier().fit(X, y, reference=X[:20])
    assert "20 of the 60 training rows have the same features" in str(shared.assumptions_[-1])


def test_a_withdrawn_row_that_is_in_the_reference_is_named():
    X, y, reference, _ = problem()
    model = CertifiedRidgeClassifier(classes=CLASSES).fit(
        np.vstack([X, reference[:3]]), [*y, 0, 1, 2], reference=reference
    )
    with pytest.warns(ReferenceWarning, match=r"2 of the 3 withdrawn rows \(60, 62\)"):
        model.forget([62, 0, 60])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.forget(np.arange(model.n_rows_) < 5)
    assert model.n_rows_ == 55


@pytest.mark.parametrize("rows", [[-1], [60], [0.5], ["a"], np.ones(59, bool)], ids=str)
def test_rows_that_cannot_be_forgotten_are_refused(rows):
    X, y, reference, _ = problem()
    with pytest.raises(ValueError, match="to forget must"):
        CertifiedRidgeClassifier().fit(X, y, reference=reference).forget(rows)


def with_nan(X):
    X = X.copy()
    X[1, 1] = np.nan
    return X


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p | {"reference": p["reference"][:, :3]}, "has 3 columns"),
        (lambda p: p | {"reference": p["reference"][:1]}, "minimum of 2"),
        (lambda p: p | {"reference": p["reference"][0]}, "2D array"),
        (lambda p: p | {"reference": with_nan(p["reference"])}, "NaN"),
        (lambda p: p | {"reference": "rows.parquet"}, "needs the reference in memory"),
        (lambda p: p | {"reference": np.ma.masked_array(p["reference"], p["reference"] > 1)}, "mask"),
        (lambda p: p | {"X": with_nan(p["X"])}, "NaN"),
        (lambda p: p | {"X": p["X"] * np.inf}, "infinity"),
        (lambda p: p | {"y": p["y"][:-1]}, "inconsistent numbers"),
        (lambda p: p | {"X": p["X"][:0], "y": p["y"][:0]}, "needs the class set"),
    ],
)
def test_bad_references_and_rows_are_refused(change, message):
    X, y, reference, _ = problem()
    given = change({"X": X, "y": y, "reference": reference})
    with pytest.raises(ValueError, match=message), np.errstate(invalid="ignore"):
        CertifiedRidgeClassifier().fit(**given)


@pytest.mark.parametrize("clip", [0, 0.0, -0.5, 1.5, "signs", True, 1, np.nan])
def test_a_clip_out_of_range_is_refused(clip):
    X, y, _, _ = problem()
    with pytest.raises(ValueError, match="'clip' parameter of CertifiedRidgeClassifier must be"):
        CertifiedRidgeClassifier(clip=clip).fit(X, y)


def test_without_a_reference_rows_are_refused():
    X, y, reference, Z = problem()
    rows = Adversary(changes="rows")
    model = CertifiedRidgeClassifier().fit(X, y)
    with pytest.raises(ValueError, match=r"fit\(X, y, reference="):
        model.certify(Z, adversary=rows)
    for method in ("partial_fit", "forget"):
        assert not hasattr(model, method)
        with pytest.raises(AttributeError, match=rf"{method} of CertifiedRidgeClassifier needs .* reference="):
            getattr(model, method)
    with pytest.raises(ValueError, match="covers changed labels only"):
        CertifiedPropagationClassifier().fit(X, y).certify(Z, adversary=rows)
    with pytest.raises(ValueError, match="covers changed labels only"):
        SmoothedClassifier(n_samples=10).fit(X, y).certify(Z, adversary=rows)
    with pytest.raises(ValueError, match="does not support reference="):
        EqualWeights().fit(X, y, reference=reference)


@pytest.mark.parametrize("method", ["kl", "tight"])
def test_noise_on_labels_certifies_no_rows(method):
    X, y, reference, Z = problem()
    model = CertifiedRidgeClassifier().fit(X, y, reference=reference)
    model.certify(Z, method)
    with pytest.raises(ValueError, match=r"noise on labels.*method='exact'"):
        model.certify(Z, method, Adversary(changes="rows"))


def test_the_papers_rule_needs_all_rows():
    X, y, reference, _ = problem()
    with pytest.raises(ValueError, match="the paper's rule"):
        CertifiedRidgeClassifier(fit_intercept=False).fit(X, y > 0, reference=reference)


def test_new_classes_are_refused():
    X, y, reference, _ = problem()
    model = CertifiedRidgeClassifier().fit(X, y, reference=reference)
    with pytest.raises(ValueError, match="not in classes"):
        model.partial_fit(X, y + 1)
    assert model.n_rows_ == 60


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"changes": "features"}, "'changes' parameter of Adversary"),
        ({"changes": "rows", "allowed": [(0, 1)]}, "may have any label"),
        ({"changes": "insertions", "groups": [1, 2]}, "no limit"),
    ],
)
def test_adversaries_that_make_no_sense_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        Adversary(**given)


@pytest.mark.parametrize("learner", [CertifiedRidgeClassifier, CertifiedNeighborsClassifier])
@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (np.full((4, 2), np.nan), "The reference cannot be used. Input X contains NaN in row 0, column 0"),
        (np.zeros((1, 2)), "The reference cannot be used. Found array with 1 sample"),
        (np.zeros(4), r"The reference cannot be used. Expected 2D array, got 1D array instead\.$"),
        (np.arange(12.0).reshape(4, 3), "The reference has 3 columns, but the training rows have 2"),
    ],
)
def test_errors_about_the_reference_name_it_in_one_line(learner, reference, said):
    X, y = np.arange(12.0).reshape(6, 2), [0, 1] * 3
    with pytest.raises(ValueError, match=said) as error:
        learner(classes=[0, 1]).fit(X, y, reference=reference)
    assert "\n" not in str(error.value)


def test_names_of_columns_are_those_of_the_reference():
    import pandas as pd

    X, y = pd.DataFrame(np.arange(12.0).reshape(6, 2), columns=["a", "b"]), [0, 1] * 3
    with pytest.raises(ValueError, match="The reference has a column 'c' where the training rows have 'b'"):
        CertifiedRidgeClassifier(classes=[0, 1]).fit(X, y, reference=X.set_axis(["a", "c"], axis=1))
    model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X, y, reference=X)
    with pytest.raises(ValueError, match="The reference has 2 columns, but the training rows have 1"):
        model.partial_fit(X[["a"]], y)
