"""Kernel ridge: true certificates, the same bits beside any other rows, and the weights of the textbook."""

import itertools
import tracemalloc

import numpy as np
import pytest
from enumeration import least_cost, possible_attacks, scores_after, touchable
from real_data import spambase
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Matern
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import laplacian_kernel, pairwise_kernels, rbf_kernel
from sklearn.preprocessing import KernelCenterer, StandardScaler
from threadpoolctl import threadpool_limits

from flipproof import Adversary, Assumption, CertifiedKernelClassifier, CertifiedRidgeClassifier, certified_accuracy
from flipproof.attacks import worst_flips
from flipproof.learners import kernel as kernel_module
from flipproof.learners.kernel_values import KERNELS, default_gamma, kernel_values
from flipproof.learners.label_linear import MEMORY_BUDGET

METHODS = ("exact", "tight", "kl")
SETTINGS = {
    "rbf": ("gamma",),
    "laplacian": ("gamma",),
    "poly": ("gamma", "degree", "coef0"),
    "linear": (),
    "cosine": (),
}

every_kernel = pytest.mark.parametrize("kernel", [*SETTINGS, rbf_kernel], ids=[*SETTINGS, "a function"])
both_ways = pytest.mark.parametrize("n_components", [None, 30], ids=["exact", "landmarks"])
with_and_without = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])


def toy(n=120, k=4, n_classes=3, seed=0, m=25):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, k)) + 1, rng.normal(size=(m, k)) + 1
    return X, (np.linalg.norm(X, axis=1) * n_classes / 5).astype(int) % n_classes, Z


def one_hot(y, n_classes):
    return (np.asarray(y)[:, None] == np.arange(n_classes)).astype(float)


def scikit_learns(model, A, B):
    """The kernel values by scikit-learn, with the settings that the model used."""
    if callable(model.kernel):
        return model.kernel(A, B)
    used = {"gamma": model.gamma_, "degree": model.degree, "coef0": model.coef0}
    return pairwise_kernels(A, B, metric=model.kernel, **{name: used[name] for name in SETTINGS[model.kernel]})


def random_adversary(rng, n, K):
    """Any combination of trusted, allowed and groups, or nothing at all."""
    pairs = list(itertools.permutations(range(K), 2))
    powers = {
        "trusted": rng.random(n) < 0.4,
        "allowed": [pairs[i] for i in rng.permutation(len(pairs))[: rng.integers(1, len(pairs) + 1)]],
        "groups": rng.choice(list("abc"), size=n).tolist(),
    }
    return {name: power for name, power in powers.items() if rng.random() < 0.5}


def random_problem(rng, largest_n):
    n, K, k = int(rng.integers(3, largest_n + 1)), int(rng.integers(2, 4)), int(rng.integers(1, 3))
    X, Z = rng.normal(size=(n, k)), rng.normal(size=(4, k))
    if rng.random() < 0.3:  # whole numbers make ties, and rows that are repeated
        X, Z = np.rint(X), np.rint(Z)
    model = CertifiedKernelClassifier(
        rng.choice(KERNELS) if rng.random() < 0.8 else laplacian_kernel,
        gamma=None if rng.random() < 0.5 else float(rng.choice([0.1, 1.0, 10.0])),
        degree=int(rng.integers(1, 4)),
        regularization="label-free" if rng.random() < 0.4 else float(rng.choice([0.0, 0.1, 1.0, 10.0])),
        n_components=None if rng.random() < 0.5 else int(rng.integers(1, n + 2)),
        fit_intercept=bool(rng.random() < 0.6),
        noise=float(rng.choice([1e-6, 0.05, 0.3])),
        precision=int(rng.choice([2, 6, 10, 16, 24])),
        classes=range(K),
    )
    return model, X, rng.integers(K, size=n), Z, K, random_adversary(rng, n, K)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_exact_is_attained_and_no_attack_within_a_radius_changes_the_argmax(seed):
    rng = np.random.default_rng(seed)
    seen, largest = set(), 0
    for _ in range(30):
        model, X, y, Z, K, powers = random_problem(rng, largest_n=6)
        model.fit(X, y)
        alpha, offsets = model.vote_weights(Z)
        certificates = [model.certify(Z, method, Adversary(**powers) if powers else None) for method in METHODS]
        labellings, cost = possible_attacks(y, K, **powers)
        for i, prediction in enumerate(model.predict(Z)):
            scores = scores_after(labellings, alpha[i], offsets[i])
            needed = least_cost(cost, scores.argmax(axis=1) != prediction)
            for certificate in certificates:
                assert certificate.prediction[i] == prediction
                assert certificate.radius[i] < needed
            exact = int(certificates[0].radius[i])
            assert exact == (touchable(y, **powers) if needed == np.inf else needed - 1)
            largest = max(largest, exact)
        seen.add((model.n_components is None, *powers))
    assert largest >= 2
    assert len(seen) >= 10  # of sixteen


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_no_possible_attack_within_the_radius_changes_a_refitted_model(seed):
    rng = np.random.default_rng(100 + seed)
    for _ in range(8):
        model, X, y, Z, K, powers = random_problem(rng, largest_n=4)
        model.fit(X, y)
        certificates = [model.certify(Z, method, Adversary(**powers) if powers else None) for method in METHODS]
        labellings, cost = possible_attacks(y, K, **powers)
        refitted = np.array([model.fit(X, attacked).predict(Z) for attacked in labellings])
        for certificate in certificates:
            for i in range(len(Z)):
                assert certificate.radius[i] < least_cost(cost, refitted[:, i] != certificate.prediction[i])


@pytest.mark.few(2)
@every_kernel
@both_ways
@with_and_without
def test_weights_never_read_a_label_and_their_majority_is_the_prediction(kernel, n_components, fit_intercept):
    X, y, Z = toy(n=60, m=8)
    model = CertifiedKernelClassifier(
        kernel, n_components=n_components, fit_intercept=fit_intercept, classes=range(3)
    ).fit(X, y)
    expected, offsets = model.vote_weights(Z)
    assert not offsets.any()
    rng = np.random.default_rng(1)
    for labels in (rng.permutation(y), np.zeros(len(y), dtype=int)):
        model.fit(X, labels)
        for block_size, n_jobs in ((1, 1), (3, 2), (None, 1)):
            model.set_params(block_size=block_size, n_jobs=n_jobs)
            np.testing.assert_array_equal(model.vote_weights(Z)[0], expected)
            winner = (expected @ one_hot(labels, 3)).argmax(axis=1)
            np.testing.assert_array_equal(model.predict(Z), winner)
            np.testing.assert_array_equal(model.certify(Z).prediction, winner)


@pytest.mark.few(4)
@every_kernel
@both_ways
def test_batches_and_threads_and_types_do_not_change_a_bit(kernel, n_components):
    X, y, Z = (part.astype(np.float32) for part in toy())
    settings = {"n_components": n_components, "precision": 24, "classes": range(3)}
    expected, _ = CertifiedKernelClassifier(kernel, **settings).fit(X, y).vote_weights(Z)
    with threadpool_limits(limits=2):
        model = CertifiedKernelClassifier(kernel, **settings)
        model.fit(np.asfortranarray(X, dtype=np.float64), y)
        wide = np.asfortranarray(Z, dtype=np.float64)
        np.testing.assert_array_equal(model.vote_weights(wide)[0], expected)
        for row in range(len(Z)):
            np.testing.assert_array_equal(model.vote_weights(wide[row : row + 1])[0], expected[[row]])
        np.testing.assert_array_equal(model.vote_weights(wide[::-1])[0], expected[::-1])


@pytest.mark.few(6)
@pytest.mark.parametrize("kernel", [*KERNELS, rbf_kernel], ids=[*KERNELS, "a function"])
@pytest.mark.parametrize("m", [1, 3, 129])
def test_kernel_values_are_bit_identical_at_any_position_of_a_row(kernel, m):
    rng = np.random.default_rng(0)
    compare = kernel_values(kernel, 0.37, 3, 1.0, rng.normal(size=(m, 7)))
    Z = rng.normal(size=(70, 7)) * 10.0 ** rng.uniform(-3, 3, size=(70, 1))
    expected = np.vstack([compare.rows(Z[row : row + 1]) for row in range(len(Z))])
    for size in (2, 7, 70):
        parts = [compare.rows(Z[start : start + size]) for start in range(0, len(Z), size)]
        np.testing.assert_array_equal(np.vstack(parts), expected)
    np.testing.assert_array_equal(compare.rows(np.asfortranarray(Z[::-1])), expected[::-1])
    np.testing.assert_allclose(compare.matrix(Z), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.few(9)
@every_kernel
@pytest.mark.parametrize("regularization", ["label-free", 1e-3, 3.0])
def test_without_an_intercept_it_is_scikit_learns_kernel_ridge(kernel, regularization):
    X, y, Z = toy()
    model = CertifiedKernelClassifier(
        kernel, regularization=regularization, fit_intercept=False, precision=24, classes=range(3)
    ).fit(X, y)
    plain = KernelRidge(alpha=model.regularization_, kernel="precomputed").fit(
        scikit_learns(model, X, X), one_hot(y, 3)
    )
    scores = plain.predict(scikit_learns(model, Z, X))
    np.testing.assert_allclose(model.vote_weights(Z)[0] @ one_hot(y, 3), scores, atol=2e-5)
    np.testing.assert_array_equal(model.predict(Z), scores.argmax(axis=1))


@pytest.mark.few(9)
@every_kernel
@pytest.mark.parametrize("regularization", ["label-free", 1e-3, 3.0])
def test_with_an_intercept_it_is_kernel_ridge_on_the_centred_kernel(kernel, regularization):
    X, y, Z = toy()
    model = CertifiedKernelClassifier(kernel, regularization=regularization, precision=24, classes=range(3)).fit(X, y)
    centre, K = KernelCenterer(), scikit_learns(model, X, X)
    shares = one_hot(y, 3).mean(axis=0)
    plain = KernelRidge(alpha=model.regularization_, kernel="precomputed")
    plain.fit(centre.fit_transform(K), one_hot(y, 3) - shares)
    scores = plain.predict(centre.transform(scikit_learns(model, Z, X))) + shares
    alpha, _ = model.vote_weights(Z)
    np.testing.assert_allclose(alpha @ one_hot(y, 3), scores, atol=2e-5)
    np.testing.assert_allclose(alpha.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(model.predict(Z), scores.argmax(axis=1))


@every_kernel
@with_and_without
def test_landmarks_are_kernel_ridge_with_nystroems_kernel(kernel, fit_intercept):
    X, y, Z = toy()
    model = CertifiedKernelClassifier(
        kernel, n_components=20, regularization=0.5, fit_intercept=fit_intercept, precision=24, classes=range(3)
    ).fit(X, y)
    chosen = X[model.component_indices_]
    assert len(np.unique(model.component_indices_)) == len(chosen) == 20
    to_landmarks, inverse = scikit_learns(model, X, chosen), np.linalg.pinv(scikit_learns(model, chosen, chosen), 1e-10)
    K = to_landmarks @ inverse @ to_landmarks.T
    values = scikit_learns(model, Z, chosen) @ inverse @ to_landmarks.T
    n, H = len(X), np.eye(len(X))
    if fit_intercept:
        H = H - 1 / n
        values = values - K.mean(axis=0)
    expected = fit_intercept / n + values @ H @ np.linalg.inv(H @ K @ H + 0.5 * np.eye(n)) @ H
    np.testing.assert_allclose(model.vote_weights(Z)[0], expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.few(5)
@every_kernel
@with_and_without
def test_all_rows_as_landmarks_are_exact(kernel, fit_intercept):
    X, y, Z = toy(n=60)
    exact, landmarks = (
        CertifiedKernelClassifier(kernel, n_components=number, fit_intercept=fit_intercept, precision=20).fit(X, y)
        for number in (None, 1000)
    )
    assert exact.component_indices_ is None
    np.testing.assert_array_equal(landmarks.component_indices_, np.arange(len(X)))
    assert landmarks.regularization_ == exact.regularization_
    alpha, _ = exact.vote_weights(Z)
    np.testing.assert_allclose(landmarks.vote_weights(Z)[0], alpha, atol=1e-5 * np.abs(alpha).max())
    np.testing.assert_array_equal(landmarks.predict(Z), exact.predict(Z))


def test_many_rows_get_landmarks_by_default(monkeypatch):
    monkeypatch.setattr(kernel_module, "LARGEST_EXACT", 100)
    monkeypatch.setattr(kernel_module, "DEFAULT_COMPONENTS", 17)
    X, y, Z = toy(n=101)
    model = CertifiedKernelClassifier()
    assert model.fit(X[:100], y[:100]).component_indices_ is None
    assert len(model.fit(X, y).component_indices_) == 17
    np.testing.assert_array_equal(model.predict(Z), model.certify(Z).prediction)


@pytest.mark.parametrize(
    ("kernel", "typical"),
    [
        ("rbf", lambda X: cdist(X, X, "sqeuclidean").mean()),
        ("laplacian", lambda X: cdist(X, X, "cityblock").mean()),
        ("poly", lambda X: (np.linalg.norm(X, axis=1) ** 2).mean()),
    ],
)
def test_gamma_follows_the_typical_distance_in_any_unit(kernel, typical):
    X, y, Z = toy()
    model = CertifiedKernelClassifier(kernel).fit(X, y)
    assert model.gamma_ == pytest.approx(0.5 / typical(X))
    radius = model.certify(Z).radius
    for unit in (3e-6, 1e6):
        np.testing.assert_array_equal(
            CertifiedKernelClassifier(kernel).fit(unit * X, y).certify(unit * Z).radius, radius
        )
    assert CertifiedKernelClassifier(kernel, gamma=0.25).fit(X, y).gamma_ == 0.25


@every_kernel
@with_and_without
def test_the_label_free_lambda_is_the_mean_eigenvalue_weighted_by_itself(kernel, fit_intercept):
    X, y, _ = toy()
    model = CertifiedKernelClassifier(kernel, fit_intercept=fit_intercept).fit(X, y)
    eigenvalues = np.linalg.eigvalsh(KernelCenterer().fit_transform(scikit_learns(model, X, X)))
    assert model.regularization_ == pytest.approx((eigenvalues**2).sum() / eigenvalues.sum())


def test_the_lambda_of_landmarks_estimates_that_of_all_rows():
    X, y, _ = toy(n=1000)
    exact, landmarks = (
        CertifiedKernelClassifier(n_components=number).fit(X, y).regularization_ for number in (None, 300)
    )
    assert landmarks == pytest.approx(exact, rel=0.1)


@both_ways
@with_and_without
def test_no_regularization_repeats_the_training_labels(n_components, fit_intercept):
    rng = np.random.default_rng(0)
    X, y = rng.permutation(30)[:, None] * 1.0, rng.integers(3, size=30)
    model = CertifiedKernelClassifier(
        gamma=1.0, regularization=0, n_components=n_components, fit_intercept=fit_intercept, precision=16
    ).fit(X, y)
    alpha, _ = model.vote_weights(X)
    np.testing.assert_allclose(alpha, np.eye(30), atol=1e-3)
    np.testing.assert_array_equal(model.predict(X), y)


@pytest.mark.few(1)
@both_ways
@with_and_without
@pytest.mark.parametrize("kernel", [lambda A, B: -rbf_kernel(A, B), lambda A, B: np.sin(3 * A @ B.T)])
def test_a_kernel_that_is_not_positive_is_certified_all_the_same(kernel, n_components, fit_intercept):
    X, y, Z = toy(n=40)
    for regularization in ("label-free", 0, 0.1):
        model = CertifiedKernelClassifier(
            kernel, regularization=regularization, n_components=n_components, fit_intercept=fit_intercept
        ).fit(X, y)
        certificates = model.certify(Z)
        np.testing.assert_array_equal(model.predict(Z), certificates.prediction)
        largest = np.abs(model.vote_weights(Z)[0]).max()
        assert np.isfinite(largest)
        if fit_intercept:
            assert largest >= 1 / 40 - 1e-3


def test_directions_in_which_a_kernel_is_negative_are_left_out():
    X, y, Z = toy(n=40)

    def kernel(A, B):
        return np.sin(3 * A @ B.T)

    model = CertifiedKernelClassifier(kernel, regularization=0.1, precision=24).fit(X, y)
    eigenvalues, vectors = np.linalg.eigh(KernelCenterer().fit_transform(kernel(X, X)))
    assert eigenvalues[0] < -0.1
    positive = eigenvalues > 1e-9
    inverse = (vectors[:, positive] / (eigenvalues[positive] + 0.1)) @ vectors[:, positive].T
    expected = 1 / 40 + (kernel(Z, X) - kernel(X, X).mean(axis=0)) @ inverse
    np.testing.assert_allclose(model.vote_weights(Z)[0], expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", KERNELS)
@both_ways
@pytest.mark.parametrize("value", [0.0, 5.0])
def test_constant_features_predict_the_majority(kernel, n_components, value):
    y = np.arange(40) % 3 % 2
    model = CertifiedKernelClassifier(kernel, n_components=n_components).fit(np.full((40, 2), value), y)
    certificates = model.certify(np.full((1, 2), value))
    assert certificates.prediction[0] == 0
    assert certificates.radius[0] == 7  # 27 against 13: the seventh flip makes it 20 against 20, which class 0 wins


@pytest.mark.few(5)
@pytest.mark.parametrize("kernel", KERNELS)
@both_ways
@pytest.mark.parametrize("size", [1e9, 1e300])
def test_test_rows_far_outside_the_training_range_work(kernel, n_components, size):
    X, y, Z = toy()
    model = CertifiedKernelClassifier(kernel, degree=5, n_components=n_components, classes=range(3)).fit(X, y)
    far = np.sign(Z) * size
    for method in METHODS:
        certificates = model.certify(far, method)
        np.testing.assert_array_equal(certificates.prediction, model.predict(far))
    if kernel in ("rbf", "laplacian"):  # nobody is near: the weights no longer depend on where it is
        np.testing.assert_array_equal(
            model.vote_weights(far)[0], model.vote_weights(2 * far[:1] * np.ones((len(Z), 1)))[0]
        )
    if kernel == "cosine":
        np.testing.assert_array_equal(model.vote_weights(far)[0], model.vote_weights(np.sign(Z))[0])
        np.testing.assert_array_equal(model.vote_weights(np.sign(Z) / size)[0], model.vote_weights(np.sign(Z))[0])
    assert np.isfinite(kernel_values(kernel, 1.0, 5, 1.0, X).rows(far)).all()


def test_circles_are_told_apart_where_a_plane_cannot():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    angle, radius = rng.uniform(0, 2 * np.pi, 300), 1 + y + rng.normal(scale=0.1, size=300)
    X = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    for n_components in (None, 50):
        model = CertifiedKernelClassifier(gamma=1.0, n_components=n_components, classes=[0, 1]).fit(X[:200], y[:200])
        certificates = model.certify(X[200:])
        assert certified_accuracy(y[200:], certificates, [5])[0] >= 0.9
        assert CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:200], y[:200]).score(X[200:], y[200:]) < 0.7


def test_landmarks_are_as_good_as_all_rows_and_quicker_to_predict_with():
    X, y, Z = toy(n=600, m=150)
    exact, landmarks = (CertifiedKernelClassifier(n_components=number).fit(X, y) for number in (None, 150))
    one, two = exact.certify(Z), landmarks.certify(Z)
    assert (one.prediction == two.prediction).mean() >= 0.98
    assert np.median(one.radius) >= 20
    assert np.abs(one.radius - two.radius).max() <= 2
    assert landmarks._estimated_scores(Z).decided()[1].mean() > 0.5
    np.testing.assert_array_equal(landmarks.predict(Z), two.prediction)


def test_the_model_keeps_a_copy_of_the_rows():
    X, y, Z = toy()
    model = CertifiedKernelClassifier().fit(X, y)
    expected, _ = model.vote_weights(Z)
    X += 1
    np.testing.assert_array_equal(model.vote_weights(Z)[0], expected)


def test_automatic_noise_works_with_and_without_an_intercept():
    X, y, Z = toy(n_classes=2)
    for fit_intercept in (True, False):
        model = CertifiedKernelClassifier(noise="auto", fit_intercept=fit_intercept).fit(X, y)
        exact, tight = model.certify(Z), model.certify(Z, "tight")
        assert (tight.radius <= exact.radius).all()
        assert tight.radius.max() > 0


def test_kernels_of_gaussian_processes_are_functions_too():
    X, y, Z = toy()
    one, two = (
        clone(CertifiedKernelClassifier(kernel, precision=20)).fit(X, y)
        for kernel in (Matern(2.0, nu=0.5), lambda A, B: np.exp(-cdist(A, B) / 2))
    )
    np.testing.assert_allclose(one.vote_weights(Z)[0], two.vote_weights(Z)[0], atol=1e-6)


def test_a_function_is_named_in_the_assumptions():
    X, y, Z = toy()
    with_function = CertifiedKernelClassifier(laplacian_kernel).fit(X, y).certify(Z).assumptions
    said = Assumption("custom-function", {"parameter": "kernel", "function": "function laplacian_kernel"})
    assert said in with_function
    named = CertifiedKernelClassifier("laplacian").fit(X, y).certify(Z).assumptions
    assert all(one.code != "custom-function" for one in named)


@both_ways
def test_a_block_of_test_rows_is_certified_within_the_budget(n_components):
    X, y, Z = toy(n=1000, m=2000)
    model = CertifiedKernelClassifier(n_components=n_components).fit(X, y)
    block = Z[next(model.blocks(len(Z)))]
    assert 50 < len(block) < 2000
    tracemalloc.start()
    model.certify(block)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY_BUDGET


BAD_SETTINGS = {
    "an unknown kernel": ({"kernel": "gauss"}, "'kernel' .* 'rbf', .* or a function. Got 'gauss' instead"),
    "a kernel that is no name": ({"kernel": 3}, "'kernel' .* Got 3 instead"),
    "precomputed": ({"kernel": "precomputed"}, "'kernel' .* Got 'precomputed' instead"),
    "gamma 0": ({"gamma": 0}, "'gamma' .* must be None or a number above 0. Got 0 instead"),
    "gamma a word": ({"gamma": "scale"}, "'gamma' .* Got 'scale' instead"),
    "gamma infinite": ({"gamma": np.inf}, "'gamma' .* Got inf instead"),
    "degree a fraction": ({"degree": 2.5}, "'degree' .* must be an integer of at least 1. Got 2.5 instead"),
    "degree 0": ({"degree": 0}, "'degree' .* Got 0 instead"),
    "coef0 NaN": ({"coef0": np.nan}, "'coef0' .* must be a finite number. Got nan instead"),
    "coef0 infinite": ({"coef0": -np.inf}, "'coef0' .* must be a finite number. Got -inf instead"),
    "regularization negative": ({"regularization": -1}, "'regularization' .* at least 0. Got -1 instead"),
    "regularization a word": ({"regularization": "paper"}, "'label-free' or a number .* Got 'paper' instead"),
    "regularization NaN": ({"regularization": np.nan}, "'regularization' .* Got nan instead"),
    "no landmark": ({"n_components": 0}, "'n_components' .* None or an integer of at least 1. Got 0 instead"),
    "landmarks a fraction": ({"n_components": 0.5}, "'n_components' .* Got 0.5 instead"),
    "landmarks a boolean": ({"n_components": True}, "'n_components' .* Got True instead"),
    "fit_intercept a word": ({"fit_intercept": "no"}, "'fit_intercept' .* must be True or False. Got 'no' instead"),
    "precision": ({"precision": 25}, "'precision' parameter of CertifiedKernelClassifier .* Got 25 instead"),
    "a function of two rows": (
        {"kernel": lambda a, b: np.sum(a * b[0])},
        r"two matrices .* \(40, 40\) here. Got shape \(\)",
    ),
    "a function that makes NaN": ({"kernel": lambda A, B: np.nan * A @ B.T}, "must return finite values"),
    "a kernel that explodes": (
        {"kernel": "poly", "degree": 300, "gamma": 1e3},
        "Kernel values of training rows must be between .* rescale",
    ),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_bad_settings_are_refused(name):
    settings, message = BAD_SETTINGS[name]
    X, y, _ = toy(n=40)
    with pytest.raises(ValueError, match=message) as error:
        CertifiedKernelClassifier(**settings).fit(X, y)
    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 300


def test_features_that_would_overflow_are_refused():
    X, y, _ = toy(n=40)
    with pytest.raises(ValueError, match=r"Training features must be between -1e\+100 and 1e\+100"):
        CertifiedKernelClassifier().fit(X * 1e120, y)


def attacked(codes, alpha, winner, rival, flips):
    """Return the labels after the best attack of so many flips."""
    gain = alpha * ((codes == winner).astype(float) - (codes == rival)) + np.abs(alpha)
    largest = np.argsort(-gain, kind="stable")[:flips]
    poisoned = codes.copy()
    poisoned[largest] = np.where(alpha > 0, rival, winner)[largest]
    return poisoned


@pytest.mark.parametrize("n_components", [None, 200], ids=["exact", "landmarks"])
def test_spam_is_certified_better_than_by_ridge_and_the_radius_is_exact(n_components, data_dir):
    X, y = spambase(data_dir)
    order = np.random.default_rng(0).permutation(len(y))
    X, codes = X[order], (y[order] == "spam").astype(int)
    train, test = slice(0, 1000), slice(1000, 1300)
    settings = {"features": StandardScaler(), "classes": [0, 1]}
    model = CertifiedKernelClassifier("laplacian", n_components=n_components, **settings).fit(X[train], codes[train])
    certificates = model.certify(X[test])
    ridge = CertifiedRidgeClassifier(**settings).fit(X[train], codes[train])
    flips = [0, 5, 10, 20]
    ours, theirs = (certified_accuracy(codes[test], model.certify(X[test]), flips) for model in (model, ridge))
    assert (ours - theirs >= [0.02, 0.05, 0.08, 0.05]).all()

    for i in range(2):
        row, radius = X[test][[i]], int(certificates.radius[i])
        alpha, winner = model.vote_weights(row)[0][0], int(certificates.prediction[i])
        held, fallen = (attacked(codes[train], alpha, winner, 1 - winner, flips) for flips in (radius, radius + 1))
        again = CertifiedKernelClassifier("laplacian", n_components=n_components, **settings)
        assert again.fit(X[train], held).predict(row) == winner
        assert again.fit(X[train], fallen).predict(row) != winner or again.certify(row).margin == 0


# ---- scales at which squares, products and their reciprocals leave the range of float64

TINY = [-324, -316, -309, -308, -164, -162, -161, -160, -158, -155, -154, -110, -101, -99]


@pytest.mark.few(1)
@pytest.mark.parametrize("kernel", SETTINGS)
@both_ways
@pytest.mark.parametrize("settings", [{}, {"gamma": 1.0}, {"regularization": 1e-300}], ids=str)
def test_features_of_any_small_scale_are_certified_soundly(kernel, n_components, settings):
    rng = np.random.default_rng(0)
    X, Z, y = rng.normal(size=(12, 2)), rng.normal(size=(4, 2)), np.arange(12) % 2
    for exponent in TINY:
        # two factors, since 1e-324 is no float
        small_X, small_Z = (rows * 10.0 ** (exponent // 2) * 10.0 ** (exponent - exponent // 2) for rows in (X, Z))
        model = CertifiedKernelClassifier(kernel, n_components=n_components, classes=[0, 1], **settings)
        model.fit(small_X, y)
        assert np.isfinite([model.gamma_, model.regularization_]).all()
        for rows in (small_Z, Z, 1e300 * np.sign(Z)):
            attack = worst_flips(model, rows)
            certificates = model.certify(rows)
            np.testing.assert_array_equal(certificates.prediction, model.predict(rows))
            assert np.isfinite(model.vote_weights(rows)[0]).all()
            assert ((certificates.radius >= 0) & (certificates.radius <= 12)).all()
            for row in np.flatnonzero(attack.success)[:1]:
                assert len(attack.rows[row]) == certificates.radius[row] + 1
                refitted = clone(model).fit(small_X, attack.poisoned(y, row))
                assert refitted.predict(rows[row : row + 1])[0] != certificates.prediction[row]


@pytest.mark.parametrize("kernel", KERNELS)
@both_ways
def test_a_small_power_of_two_changes_no_vote(kernel, n_components):
    X, y, Z = toy()
    votes = []
    for size in (1.0, 2.0**-400):
        settings = {"coef0": 0.0, "gamma": 1 / size**2} if kernel in ("poly", "polynomial") else {}
        model = CertifiedKernelClassifier(kernel, n_components=n_components, classes=range(3), **settings)
        votes.append(model.fit(size * X, y).vote_weights(size * Z)[0])
    np.testing.assert_allclose(*votes, atol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e9])
def test_the_default_gamma_of_a_constant_column_is_not_made_of_rounding_errors(value):
    assert default_gamma("laplacian", np.full((40, 2), value)) == 1.0


def test_the_default_gamma_of_the_laplacian_kernel_is_that_of_all_pairs():
    X = np.random.default_rng(0).normal(size=(30, 3))
    pairs = np.abs(X[:, None] - X).sum(axis=2)
    assert default_gamma("laplacian", X) == pytest.approx(1 / (2 * pairs.mean()))


@pytest.mark.parametrize("degree", [1, 3])
def test_a_kernel_that_is_negative_on_rows_that_are_all_alike(degree):
    model = CertifiedKernelClassifier("poly", coef0=-0.5, degree=degree, classes=[0, 1])
    assert model.fit(np.zeros((3, 1)), [0, 1, 1]).certify([[0.0]]).prediction[0] == 1
