"""The certified ridge classifier: ridge regression, a scikit-learn classifier, true to its certificates."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import flipproof
from flipproof import Assumption, CertifiedRidgeClassifier, LabelDependenceWarning, LabelFlip
from flipproof.learners.statements import AUTO_NOISES


def toy(n=120, k=4, n_classes=2, seed=0, m=30):
    """Return overlapping classes: training rows and labels, test rows."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n + m)
    X = rng.normal(size=(n + m, k)) + 2 * rng.normal(size=(n_classes, k))[y] + 1
    return X[:n], y[:n], X[n:]


def digits(*wanted):
    X, y = load_digits(return_X_y=True)
    kept = np.isin(y, wanted) if wanted else np.full(len(y), True)
    X_train, X_test, y_train, _ = train_test_split(X[kept], y[kept], test_size=0.4, random_state=0)
    return X_train, y_train, X_test


def one_hot(y, n_classes):
    return (y[:, None] == np.arange(n_classes)).astype(float)


def plain_weights(X, Z, penalty, fit_intercept):
    """Return the weights of textbook ridge regression in floating point."""
    mean = X.mean(axis=0) if fit_intercept else np.zeros(X.shape[1])
    X, Z = X - mean, Z - mean
    inverse = np.linalg.solve(X.T @ X + penalty * np.eye(X.shape[1]), X.T) if penalty else np.linalg.pinv(X)
    return Z @ inverse + fit_intercept / len(X)


# the training rows are kept with 20 bits; the tolerance is a few times what that costs
def assert_is_plain_ridge(model, X, Z, penalty, tolerance=1e-5):
    alpha, _ = model.vote_weights(Z)
    expected = plain_weights(X, Z, penalty, model.fit_intercept)
    error = np.abs(alpha - expected).max(axis=1) / np.abs(expected).max(axis=1)
    assert error.max() <= tolerance


# ---- a scikit-learn classifier


def test_a_clone_has_the_same_parameters_and_is_not_fitted():
    X, y, _ = toy()
    model = CertifiedRidgeClassifier(
        LabelFlip(0.2),
        regularization=3.0,
        fit_intercept=False,
        method="kl",
        precision=12,
        classes=[0, 1, 2],
        block_size=5,
    )
    twin = clone(model.fit(X, y))
    assert repr(twin) == repr(model)
    assert not hasattr(twin, "classes_")


def test_cross_validation_and_grid_search_work():
    X, y, _ = digits()
    scores = cross_val_score(CertifiedRidgeClassifier(), X, y, cv=3)
    assert scores.min() > 0.85
    search = GridSearchCV(
        CertifiedRidgeClassifier(), {"precision": [2, 10], "regularization": [1e9, "label-free"]}, cv=3
    )
    search.fit(X, y)
    assert search.best_params_ == {"precision": 10, "regularization": "label-free"}
    assert search.best_estimator_.score(X, y) > 0.85


def test_a_pipeline_is_certified_and_its_foreign_steps_are_named():
    X, y, Z = toy()
    model = Pipeline([("scaling", StandardScaler()), ("same", "passthrough"), ("ridge", CertifiedRidgeClassifier())])
    cert = flipproof.certify(model.fit(X, y), Z)
    by_hand = CertifiedRidgeClassifier(features=StandardScaler()).fit(X, y).certify(Z)
    np.testing.assert_array_equal(cert.prediction, model.predict(Z))
    np.testing.assert_array_equal(cert.radius, by_hand.radius)
    [foreign] = set(cert.assumptions) - set(model[-1].certify(model[:-1].transform(Z)).assumptions)
    assert foreign == Assumption("pipeline-steps", {"steps": [("scaling", "StandardScaler")], "remedy": "features"})


def test_certify_takes_a_bare_learner_and_a_method():
    X, y, Z = toy()
    model = CertifiedRidgeClassifier().fit(X, y)
    cert = flipproof.certify(model, Z, method="kl")
    assert cert.method == "kl"
    assert cert.assumptions == model.certify(Z).assumptions
    np.testing.assert_array_equal(cert.radius, model.certify(Z, method="kl").radius)


@pytest.mark.parametrize("model", [StandardScaler(), make_pipeline(CertifiedRidgeClassifier(), Ridge())])
def test_certify_refuses_what_is_not_our_learner(model):
    with pytest.raises(ValueError, match="must be a flipproof learner, a scikit-learn Pipeline"):
        flipproof.certify(model, np.zeros((1, 2)))


@pytest.mark.parametrize("features", [None, StandardScaler()])
def test_data_frames_keep_their_feature_names(features):
    X, y, Z = toy()
    names = ["height", "width", "depth", "weight"]
    frame, test_frame = pd.DataFrame(X, columns=names), pd.DataFrame(Z, columns=names)
    model = CertifiedRidgeClassifier(features=features).fit(frame, pd.Series(y))
    assert model.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(
        model.predict(test_frame), CertifiedRidgeClassifier(features=features).fit(X, y).predict(Z)
    )
    with pytest.raises(ValueError, match="feature names"):
        model.predict(test_frame[names[::-1]])


@pytest.mark.parametrize(
    "words",
    [
        np.array(["ham", "spam"]),
        np.array(["ham", "spam"], dtype=object),
        np.array([False, True]),
        np.array([-1, 1]),
        np.array([0.5, 7.0]).round(),
        np.array([200, 255], dtype=np.uint8),
    ],
    ids=lambda words: str(words.dtype),
)
def test_predictions_have_the_type_of_the_labels(words):
    X, y, Z = toy()
    model = CertifiedRidgeClassifier().fit(X, words[y])
    expected = words[CertifiedRidgeClassifier().fit(X, y).predict(Z)]
    cert = model.certify(Z)
    for labels in (model.predict(Z), cert.prediction):
        np.testing.assert_array_equal(labels, expected)
        assert labels.dtype == words.dtype
    np.testing.assert_array_equal(cert.rival == cert.prediction, False)
    assert model.score(Z, expected) == 1


def test_labels_in_lists_and_categories_work():
    X, y, Z = toy()
    words = np.array(["ham", "spam"])[y]
    expected = CertifiedRidgeClassifier().fit(X, words).predict(Z)
    for labels in (words.tolist(), pd.Series(words), pd.Series(words).astype("category")):
        np.testing.assert_array_equal(CertifiedRidgeClassifier().fit(X.tolist(), labels).predict(Z.tolist()), expected)


def test_decision_function_agrees_with_predict():
    for n_classes in (2, 3):
        X, y, Z = toy(n_classes=n_classes)
        model = CertifiedRidgeClassifier(fit_intercept=False).fit(X, y)
        scores = model.decision_function(Z)
        winner = (scores > 0).astype(int) if n_classes == 2 else scores.argmax(axis=1)
        assert scores.shape == ((len(Z),) if n_classes == 2 else (len(Z), n_classes))
        np.testing.assert_array_equal(winner, model.predict(Z))


# ---- ridge regression


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n", "k"), [(200, 5), (30, 30), (40, 150)], ids=["primal", "square", "dual"])
@pytest.mark.parametrize("penalty", [0.5, 100.0])
def test_weights_are_those_of_plain_ridge(n, k, fit_intercept, penalty):
    X, y, Z = toy(n, k)
    model = CertifiedRidgeClassifier(regularization=penalty, fit_intercept=fit_intercept, precision=24).fit(X, y)
    assert model.regularization_ == pytest.approx(penalty)
    assert_is_plain_ridge(model, X, Z, penalty)
    alpha, _ = model.vote_weights(Z)
    by_sklearn = Ridge(alpha=penalty, fit_intercept=fit_intercept).fit(X, y).predict(Z)
    np.testing.assert_allclose(alpha @ y, by_sklearn, atol=1e-4)


@pytest.mark.parametrize("penalty", [0, 0.5, 100.0])
@pytest.mark.parametrize(("n", "k"), [(200, 5), (30, 30), (40, 150)], ids=["primal", "square", "dual"])
def test_with_an_intercept_the_weights_add_up_to_one(n, k, penalty):
    X, y, Z = toy(n, k)
    alpha, offsets = CertifiedRidgeClassifier(regularization=penalty, precision=24).fit(X, y).vote_weights(Z)
    assert (np.abs(alpha.sum(axis=1) - 1) <= 1e-5 * np.abs(alpha).sum(axis=1)).all()
    assert (offsets == 0).all()


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("n", "k"), [(200, 5), (20, 50)], ids=["least squares", "least norm"])
def test_zero_regularization_is_least_squares(n, k, fit_intercept):
    X, y, Z = toy(n, k)
    model = CertifiedRidgeClassifier(regularization=0, fit_intercept=fit_intercept, precision=24).fit(X, y)
    assert_is_plain_ridge(model, X, Z, 0)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("penalty", [0, 2.0])
def test_repeated_and_constant_columns_are_harmless(fit_intercept, penalty):
    X, y, Z = toy(k=3)
    wide, wide_test = (np.hstack([A, A, A.sum(axis=1, keepdims=True), np.full((len(A), 1), 7.0)]) for A in (X, Z))
    model = CertifiedRidgeClassifier(regularization=penalty, fit_intercept=fit_intercept, precision=24).fit(wide, y)
    assert_is_plain_ridge(model, wide, wide_test, penalty)


@pytest.mark.parametrize("precision", [16, 20, 24])
@pytest.mark.parametrize("wanted", [(1, 7), ()], ids=["1 against 7", "all digits"])
def test_digits_are_predicted_as_by_plain_ridge(wanted, precision):
    X, y, Z = digits(*wanted)
    model = CertifiedRidgeClassifier(precision=precision).fit(X, y)
    targets = (y[:, None] == model.classes_).astype(float)
    scores = plain_weights(X, Z, model.regularization_, True) @ targets
    second, first = np.sort(scores, axis=1)[:, -2:].T
    clear = first - second > 1e-9
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(model.predict(Z)[clear], model.classes_[scores.argmax(axis=1)][clear])


def test_float32_features_work():
    X, y, Z = digits(1, 7)
    wide = CertifiedRidgeClassifier(precision=24).fit(X, y)
    narrow = CertifiedRidgeClassifier(precision=24).fit(X.astype(np.float32), y)
    np.testing.assert_array_equal(narrow.vote_weights(Z.astype(np.float32))[0], wide.vote_weights(Z)[0])


# ---- lambda


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_label_free_lambda_is_the_mean_eigenvalue_of_the_centred_gram_matrix(fit_intercept):
    X, y, _ = toy()
    model = CertifiedRidgeClassifier(fit_intercept=fit_intercept).fit(X, y)
    centred = X - X.mean(axis=0)
    assert model.regularization_ == pytest.approx(np.linalg.eigvalsh(centred.T @ centred).mean(), rel=1e-9)


def test_the_label_free_lambda_counts_only_directions_that_vary():
    X, y, _ = toy()
    plain = CertifiedRidgeClassifier().fit(X, y)
    padded = CertifiedRidgeClassifier().fit(np.hstack([X, np.full((len(X), 9), 3.0)]), y)
    assert padded.regularization_ == pytest.approx(plain.regularization_, rel=1e-9)


@pytest.mark.parametrize("method", ["exact", "tight", "kl"])
@pytest.mark.parametrize("factor", [3, 1e-6, 1e6])
def test_the_unit_of_the_features_does_not_matter(factor, method):
    X, y, Z = toy(n=300, n_classes=3)
    cert = CertifiedRidgeClassifier().fit(X, y).certify(Z, method=method)
    scaled = CertifiedRidgeClassifier().fit(X * factor, y).certify(Z * factor, method=method)
    np.testing.assert_array_equal(scaled.prediction, cert.prediction)
    np.testing.assert_array_equal(scaled.radius, cert.radius)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("regularization", ["label-free", 0, 2.5])
def test_weights_never_read_a_label(regularization, fit_intercept):
    X, y, Z = toy()
    settings = {"regularization": regularization, "fit_intercept": fit_intercept, "classes": [0, 1]}
    alpha, offsets = CertifiedRidgeClassifier(**settings).fit(X, y).vote_weights(Z)
    for other in (np.random.default_rng(1).permutation(y), 1 - y, np.zeros_like(y)):
        again = CertifiedRidgeClassifier(**settings).fit(X, other).vote_weights(Z)
        np.testing.assert_array_equal(again[0], alpha)
        np.testing.assert_array_equal(again[1], offsets)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("q", [0.01, 0.3])
def test_the_paper_lambda_is_the_paper_formula(q, n_classes, fit_intercept):
    X, y, Z = toy(n_classes=n_classes)
    with pytest.warns(LabelDependenceWarning):
        model = CertifiedRidgeClassifier(q, regularization="paper", fit_intercept=fit_intercept, precision=24).fit(X, y)
    targets = y[:, None].astype(float) if n_classes == 2 else one_hot(y, n_classes)
    A = X
    if fit_intercept:
        A, targets = X - X.mean(axis=0), targets - targets.mean(axis=0)
    n, k = A.shape
    residuals = targets - A @ np.linalg.lstsq(A, targets, rcond=None)[0]
    variance = (residuals**2).sum(axis=0).mean() / (n - k)
    penalty = (1 + q) * variance * k / (2 * n) * np.linalg.cond(A.T @ A)
    assert model.regularization_ == pytest.approx(penalty, rel=1e-4)
    assert_is_plain_ridge(model, X, Z, penalty)


def test_the_paper_lambda_warns_once_where_fit_was_called_and_is_an_assumption():
    X, y, Z = toy()
    model = CertifiedRidgeClassifier(regularization="paper")
    with pytest.warns(LabelDependenceWarning, match="estimates lambda from the labels") as caught:
        model.fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    said = Assumption("lambda-from-labels", {"regularization": model.regularization_})
    assert said in model.certify(Z).assumptions  # and does not warn again
    plain = CertifiedRidgeClassifier().fit(X, y).certify(Z).assumptions
    assert all(one.code != "lambda-from-labels" for one in plain)


def test_assumptions_are_those_of_the_fit_even_if_parameters_change_afterwards():
    X, y, Z = toy()
    with pytest.warns(LabelDependenceWarning):
        model = CertifiedRidgeClassifier(regularization="paper", features=StandardScaler()).fit(X, y)
    expected = model.certify(Z).assumptions
    model.set_params(regularization="label-free", classes=[0, 1], features=None)
    assert model.certify(Z).assumptions == expected


def test_the_paper_lambda_ignores_constant_pixels():
    X, y, _ = digits(1, 7)
    assert (np.ptp(X, axis=0) == 0).any()
    with pytest.warns(LabelDependenceWarning):
        model = CertifiedRidgeClassifier(regularization="paper").fit(X, y)
    assert 0 < model.regularization_ < np.inf


# ---- classes and features


def test_absent_classes_get_no_votes_but_count_as_rivals():
    X, y, Z = toy(n_classes=3)
    seen = CertifiedRidgeClassifier().fit(X, y).certify(Z)
    model = CertifiedRidgeClassifier(classes=[4, 3, 2, 1, 0]).fit(X, y)
    cert = model.certify(Z)
    assert model.classes_.tolist() == cert.classes.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(cert.prediction, seen.prediction)
    assert (cert.radius <= seen.radius).all()
    assert Assumption("classes-read", {"n_classes": 3}) in seen.assumptions
    assert all(one.code != "classes-read" for one in cert.assumptions)


@pytest.mark.parametrize("method", ["exact", "tight", "kl"])
@pytest.mark.parametrize("classes", [["ham", "spam"], ["eggs", "ham", "spam"]])
def test_a_single_present_class_is_predicted_everywhere(classes, method):
    X, _, Z = toy()
    cert = CertifiedRidgeClassifier(classes=classes).fit(X, ["spam"] * len(X)).certify(Z, method=method)
    assert set(cert.prediction) == {"spam"}
    assert (cert.radius > 0).any()


class Spy(TransformerMixin, BaseEstimator):
    """Passes the features on and writes down what it was given."""

    seen: list = []  # noqa: RUF012 - shared with clones on purpose

    def fit(self, X, y=None, **more):
        self.seen.append((y, more))
        return self

    def fit_transform(self, X, y=None, **more):
        return self.fit(X, y, **more).transform(X)

    def transform(self, X):
        return X


def test_the_features_step_never_receives_labels_and_stays_unfitted_itself():
    X, y, Z = toy()
    Spy.seen.clear()
    inside = make_pipeline(Spy(), StandardScaler())
    model = CertifiedRidgeClassifier(features=inside).fit(X, y)
    model.certify(Z)
    assert Spy.seen == [(None, {})]
    assert not hasattr(inside[-1], "mean_")
    [said] = [one for one in model.certify(Z).assumptions if one.code == "fitted-without-labels"]
    assert said.values["step"] == "Pipeline"


def test_features_are_fitted_on_the_training_rows_only():
    X, y, Z = toy()
    scaler = StandardScaler().fit(X)
    by_hand = CertifiedRidgeClassifier().fit(scaler.transform(X), y)
    model = CertifiedRidgeClassifier(features=StandardScaler()).fit(X, y)
    for mine, theirs in zip(model.vote_weights(Z), by_hand.vote_weights(scaler.transform(Z)), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("reader", [SelectKBest(k=2), make_pipeline(StandardScaler(), SelectKBest(k=2))])
def test_a_features_step_that_wants_labels_is_refused(reader):
    X, y, _ = toy()
    with pytest.raises(ValueError, match=r"'features' parameter .* must"):
        CertifiedRidgeClassifier(features=reader).fit(X, y)


def test_features_may_read_what_is_not_a_matrix():
    texts = ["cheap pills", "cheap cheap pills", "see you at lunch", "lunch at noon"] * 5
    counts = FunctionTransformer(lambda rows: np.array([[r.count("cheap"), r.count("lunch")] for r in rows]))
    model = CertifiedRidgeClassifier(features=counts).fit(texts, ["spam", "spam", "ham", "ham"] * 5)
    assert model.predict(["pills cheap", "lunch?"]).tolist() == ["spam", "ham"]


# ---- what is predicted is what is certified


@pytest.mark.few(7)
@pytest.mark.parametrize("precision", [2, 6, 10, 16, 24])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_labels_vote_with_the_weights_and_the_majority_is_the_prediction(fit_intercept, n_classes, precision):
    X, y, Z = toy(n_classes=n_classes)
    model = CertifiedRidgeClassifier(fit_intercept=fit_intercept, precision=precision).fit(X, y)
    alpha, offsets = model.vote_weights(Z)
    assert alpha.shape == (len(Z), len(X))
    assert offsets.shape == (len(Z), n_classes)
    votes = alpha @ one_hot(y, n_classes) + offsets
    np.testing.assert_array_equal(votes.argmax(axis=1), model.predict(Z))
    for method in ("exact", "tight", "kl"):
        cert = model.certify(Z, method=method)
        np.testing.assert_array_equal(cert.prediction, model.predict(Z))
        lead = np.take_along_axis(votes, np.stack([cert.prediction, cert.rival], axis=1), axis=1)
        np.testing.assert_array_equal(cert.margin, lead[:, 0] - lead[:, 1])


def bits_of_grid(weights):
    """Return the least number of bits b such that the weights are integers below 2**b times one power of two."""
    fractions = [float(w).as_integer_ratio() for w in weights]
    denominator = max(below for _, below in fractions)
    integers = [abs(above) * (denominator // below) for above, below in fractions]
    if not any(integers):
        return 0
    common = math.gcd(*integers)
    return (max(integers) // (common & -common)).bit_length()


@pytest.mark.parametrize("precision", [2, 6, 10, 16, 24])
@pytest.mark.parametrize(("n", "k"), [(150, 4), (30, 80)])
def test_weights_lie_on_a_grid_of_the_given_precision(n, k, precision):
    X, y, Z = toy(n, k)
    Z = np.vstack([Z, 1e-9 * Z, 1e9 * Z, np.zeros(k)])
    for fit_intercept in (True, False):
        alpha, _ = CertifiedRidgeClassifier(precision=precision, fit_intercept=fit_intercept).fit(X, y).vote_weights(Z)
        used = [bits_of_grid(row) for row in alpha]
        assert max(used) <= precision
        assert max(used) >= precision - 2  # and the grid is not wasted


@pytest.mark.parametrize("q", [1e-3, 0.1, 0.3, 0.49])
def test_without_intercept_two_classes_are_told_apart_by_the_noisy_mean(q):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=100)
    X = np.column_stack([np.ones(100), y + rng.normal(size=100)])
    Z = np.column_stack([np.ones(200), rng.normal(size=200)]) * rng.uniform(0.8, 1.2, size=(200, 1))
    model = CertifiedRidgeClassifier(q, regularization=0.1, fit_intercept=False, precision=24).fit(X, y)
    alpha = plain_weights(X, Z, 0.1, False)
    mean = (1 - 2 * q) * alpha @ y + q * alpha.sum(axis=1)
    clear = np.abs(mean - 0.5) > 1e-4
    assert clear.mean() > 0.95
    assert 0.1 < (mean[clear] > 0.5).mean() < 0.9
    np.testing.assert_array_equal(model.predict(Z)[clear], mean[clear] >= 0.5)


REAL = {2: load_breast_cancer, 3: load_wine, 10: load_digits}


@pytest.mark.few(4)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3, 10])
@pytest.mark.parametrize("q", [1e-6, 0.02, 0.3])
def test_no_smoothed_radius_exceeds_the_exact_one(q, n_classes, fit_intercept):
    X, y = REAL[n_classes](return_X_y=True)
    X, Z, y, _ = train_test_split(X, y, test_size=40, random_state=0)
    model = CertifiedRidgeClassifier(q, fit_intercept=fit_intercept, features=StandardScaler()).fit(X, y)
    exact, tight, kl = (model.certify(Z, method=method).radius for method in ("exact", "tight", "kl"))
    assert (tight <= exact).all()
    assert (kl <= exact).all()
    assert (kl <= tight).all()
    assert exact.max() > 0


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["exact", "tight", "kl"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_refit_on_any_labels_within_the_radius_predicts_the_same(fit_intercept, method):
    X, y, Z = toy(n=150, n_classes=3, m=20)
    model = CertifiedRidgeClassifier(0.2, fit_intercept=fit_intercept, method=method, classes=[0, 1, 2]).fit(X, y)
    cert = model.certify(Z)
    rng = np.random.default_rng(0)
    assert cert.radius.max() > 0
    for row in np.flatnonzero(cert.radius > 0):
        for _ in range(3):
            flipped = rng.choice(len(y), size=cert.radius[row], replace=False)
            poisoned = y.copy()
            poisoned[flipped] = cert.rival[row]
            assert clone(model).fit(X, poisoned).predict(Z[[row]]) == cert.prediction[row]


# ---- noise


@pytest.mark.few(1)
@pytest.mark.parametrize("method", ["tight", "kl"])
@pytest.mark.parametrize(("n_classes", "fit_intercept"), [(2, True), (3, True), (3, False)])
def test_automatic_noise_is_at_least_as_good_as_any_noise_of_its_grid(n_classes, fit_intercept, method):
    X, y, Z = toy(n=300, n_classes=n_classes)
    model = CertifiedRidgeClassifier("auto", fit_intercept=fit_intercept).fit(X, y)
    cert = model.certify(Z, method=method)
    assert cert.noise.shape == cert.radius.shape
    for part in AUTO_NOISES:
        q = part * (n_classes - 1) / n_classes
        fixed = clone(model).set_params(noise=q).fit(X, y).certify(Z, method=method)
        assert (cert.radius >= fixed.radius).all()
        chosen = cert.noise == q
        np.testing.assert_array_equal(cert.radius[chosen], fixed.radius[chosen])
        np.testing.assert_array_equal(cert.log_failure[chosen], fixed.log_failure[chosen])
        np.testing.assert_array_equal(cert.prediction, fixed.prediction)
    assert (cert.radius <= model.certify(Z, method="exact").radius).all()
    assert (cert.radius > 0).any()


def test_automatic_noise_is_refused_where_the_prediction_depends_on_it():
    X, y, _ = toy()
    with pytest.raises(ValueError, match="noise='auto' needs a prediction"):
        CertifiedRidgeClassifier("auto", fit_intercept=False).fit(X, y)


@pytest.mark.parametrize(("n_classes", "fit_intercept"), [(2, True), (3, True), (3, False)])
def test_the_exact_certificate_does_not_depend_on_the_noise(n_classes, fit_intercept):
    X, y, Z = toy(n_classes=n_classes)
    first, *others = (
        CertifiedRidgeClassifier(q, fit_intercept=fit_intercept).fit(X, y).certify(Z)
        for q in (1e-9, 0.1, 0.499, LabelFlip(0.3), "auto")
    )
    for cert in others:
        for name in ("prediction", "radius", "rival", "margin"):
            np.testing.assert_array_equal(getattr(cert, name), getattr(first, name))


# ---- corners


@pytest.mark.few(4)
@pytest.mark.parametrize("method", ["exact", "tight", "kl"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("size", [1e9, 1e30, 1e300])
def test_test_rows_far_outside_the_training_range_work(size, fit_intercept, method):
    X, y, Z = toy()
    far = np.sign(Z) * size
    model = CertifiedRidgeClassifier(fit_intercept=fit_intercept, method=method).fit(X, y)
    cert = model.certify(far)
    alpha, offsets = model.vote_weights(far)
    assert np.isfinite(alpha).all()
    assert np.isfinite(cert.margin).all()
    votes = alpha @ one_hot(y, 2) + offsets
    np.testing.assert_array_equal(cert.prediction, votes.argmax(axis=1))
    np.testing.assert_array_equal(cert.prediction, model.predict(far))
    np.testing.assert_array_equal(model.certify(np.vstack([far, Z])).radius[len(far) :], model.certify(Z).radius)


@pytest.mark.parametrize(
    ("n_classes", "method", "expected_radius"),
    # with three classes it is a tie, which no label can undo; noise counts a tie as lost
    [(2, "exact", 120), (2, "tight", 120), (2, "kl", 120), (3, "exact", 120), (3, "tight", 0), (3, "kl", 0)],
)
def test_a_row_without_votes_is_certified_by_its_offsets_alone(n_classes, expected_radius, method):
    X, y, _ = toy(n_classes=n_classes)
    model = CertifiedRidgeClassifier(fit_intercept=False, method=method).fit(X, y)
    nothing = np.zeros((1, X.shape[1]))
    cert = model.certify(nothing)
    assert (model.vote_weights(nothing)[0] == 0).all()
    assert cert.prediction == model.predict(nothing) == 0
    assert cert.radius == expected_radius


@pytest.mark.parametrize("method", ["exact", "tight", "kl"])
@pytest.mark.parametrize("value", [0.0, 5.0])
def test_constant_features_predict_the_majority(value, method):
    y = np.array([0] * 20 + [1] * 30 + [2] * 70)
    X = np.full((len(y), 3), value)
    cert = CertifiedRidgeClassifier(method=method).fit(X, y).certify(np.vstack([X[:2], 2 * X[:2] + 1]))
    assert (cert.prediction == 2).all()
    assert (cert.rival == 1).all()
    if method == "exact":  # 19 of the 70 moved to class 1 leave 51 against 49, and 20 make a tie
        assert (cert.radius == 19).all()


def test_exact_radius_on_one_voter_per_label():
    # orthonormal rows without an intercept: a test row equal to one training row hears that one label alone
    X, y = np.eye(6) * 4, np.array([0, 1, 2, 0, 1, 2])
    cert = CertifiedRidgeClassifier(regularization=1.0, fit_intercept=False).fit(X, y).certify(X)
    np.testing.assert_array_equal(cert.prediction, y)
    np.testing.assert_array_equal(cert.radius, 0)
