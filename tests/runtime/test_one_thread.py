"""The eigenvalue problem runs on one BLAS thread, independent of the rest of the process."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import threadpoolctl

from flipproof import CertifiedRidgeClassifier
from flipproof.runtime import determinism as one_thread
from flipproof.runtime.determinism import on_one_thread


def blas_threads():
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}


def test_one_thread_is_used_even_if_another_thread_sets_the_number():
    with threadpoolctl.threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(on_one_thread, blas_threads).result() == {1}


def test_fits_in_threads_give_the_same_model():
    """Singular values at the rank tolerance and no regularization: the last bits decide the rank."""
    rng = np.random.default_rng(0)
    n, k = 400, 300
    U = np.linalg.qr(rng.standard_normal((n, k)))[0]
    U = np.linalg.qr(U - U.mean(axis=0))[0]
    s = np.ones(k)
    s[150:] = np.sqrt(n * 2.0**-52 * np.linspace(0.99, 1.01, 150))
    X = U * s @ np.linalg.qr(rng.standard_normal((k, k)))[0].T
    y, Z = rng.integers(0, 2, n), rng.standard_normal((20, k))

    def weights(_=None):
        return CertifiedRidgeClassifier(classes=[0, 1], regularization=0.0).fit(X, y).vote_weights(Z)[0]

    expected = weights()
    with threadpoolctl.threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(3) as pool:
        for found in pool.map(weights, range(6)):
            np.testing.assert_array_equal(found, expected)


def test_more_than_one_blas_thread_is_an_error(monkeypatch):
    monkeypatch.setattr(one_thread, "_blas_threads", lambda pools: {2})
    with pytest.raises(RuntimeError, match="OPENBLAS_NUM_THREADS=1"):
        on_one_thread(lambda: None)
