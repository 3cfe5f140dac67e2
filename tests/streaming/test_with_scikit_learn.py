"""The learners over rows in blocks within scikit-learn: pipelines, searches, metadata routing."""

import numpy as np
import pytest
from same_certificates import assert_same, some_problem
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import flipproof
from flipproof.streaming import StreamingRidgeClassifier

N = 90
X, y, Z = some_problem(N, 4, 2)
BLOCKS, MEMORY = StreamingRidgeClassifier(classes=[0, 1]), flipproof.CertifiedRidgeClassifier(classes=[0, 1])


def test_in_a_pipeline():
    blocks, memory = (make_pipeline(StandardScaler(), clone(model)).fit(X, y) for model in (BLOCKS, MEMORY))
    assert_same(flipproof.certify(blocks, Z), flipproof.certify(memory, Z))
    blocks.fit(X[::-1], y[::-1])  # a second fit finds what scikit-learn left in the learner at the first one
    np.testing.assert_array_equal(blocks.predict(Z), memory.predict(Z))


def test_in_a_search():
    grid = {"regularization": [1.0, 1000.0]}
    blocks, memory = (GridSearchCV(clone(model), grid, cv=3).fit(X, y) for model in (BLOCKS, MEMORY))
    assert blocks.best_params_ == memory.best_params_
    assert_same(flipproof.certify(blocks, Z), flipproof.certify(memory, Z))
    np.testing.assert_array_equal(cross_val_score(BLOCKS, X, y), cross_val_score(MEMORY, X, y))


@pytest.mark.parametrize("n_fits", [1, 2])
def test_metadata_requests_survive_fit(n_fits):
    trusted = np.arange(N) % 3 == 0
    with config_context(enable_metadata_routing=True):
        model = clone(BLOCKS).set_fit_request(trusted=True, groups=False)
        pipeline = make_pipeline(StandardScaler(), model)
        for _ in range(n_fits):
            pipeline.fit(X, y, trusted=trusted)
        assert pipeline[-1].get_metadata_routing().fit.requests == {
            "reference": None, "reference_labels": None, "trusted": True, "groups": False, "client": None,
        }  # fmt: skip
        alone = clone(BLOCKS).fit(StandardScaler().fit_transform(X), y, trusted=trusted)
        assert_same(pipeline[-1].certify(pipeline[:-1].transform(Z)), alone.certify(pipeline[:-1].transform(Z)))
