"""Rows are placed by their nearest reference rows, each by itself."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from flipproof import Adversary, CertifiedNeighborsClassifier
from flipproof.assumptions import Assumption
from flipproof.checks import check_certifier
from flipproof.features import FrozenMap, UMAPFeatures

RNG = np.random.default_rng(0)
REFERENCE = RNG.integers(-3, 4, size=(40, 3)).astype(float)
ROWS = np.vstack([RNG.normal(size=(60, 3)), REFERENCE[:10], RNG.integers(-3, 4, size=(30, 3))])


def by_hand(frozen, row, k):
    """Return the place of a row, with exact distances on the grid."""
    grid = [[Fraction(value) for value in one] for one in frozen._reference]
    own = [Fraction(value) for value in frozen._on_grid(frozen._scaled(row[None]))[0]]
    squared = [sum((a - b) ** 2 for a, b in zip(own, one, strict=True)) for one in grid]
    nearest = sorted(range(len(grid)), key=lambda number: (squared[number], number))[:k]
    if squared[nearest[0]] == 0:
        weights = [float(squared[number] == 0) for number in nearest]
    else:
        weights = [1 / np.sqrt(float(squared[number])) for number in nearest]
    return np.average(frozen.places_[nearest], axis=0, weights=weights)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_a_row_has_the_weighted_mean_of_its_nearest_rows(metric, k):
    frozen = FrozenMap(PCA(2), n_neighbors=k, metric=metric).fit(REFERENCE)
    expected = [by_hand(frozen, row, k) for row in ROWS]
    np.testing.assert_allclose(frozen.transform(ROWS), expected, rtol=1e-12, atol=1e-12)


def test_reference_rows_keep_their_places():
    rows = np.unique(REFERENCE, axis=0)
    frozen = FrozenMap(PCA(2)).fit(rows)
    np.testing.assert_array_equal(frozen.transform(rows), frozen.places_)
    np.testing.assert_array_equal(frozen.places_, PCA(2).fit(rows).transform(rows))


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_company_changes_no_bit(metric):
    frozen = FrozenMap(PCA(2), metric=metric).fit(REFERENCE)
    together = frozen.transform(np.tile(ROWS, (4, 1)))
    assert together[100:200].tobytes() == together[:100].tobytes()
    for number in range(0, 100, 7):
        assert frozen.transform(ROWS[number : number + 1]).tobytes() == together[number : number + 1].tobytes()
    order = RNG.permutation(100)
    assert frozen.transform(ROWS[order]).tobytes() == together[order].tobytes()


def test_fewer_reference_rows_than_neighbors_and_extreme_rows():
    step = FunctionTransformer(np.tanh)
    frozen = FrozenMap(step, n_neighbors=5).fit([[0.0, 0.0], [1.0, 1.0]])
    assert np.isfinite(frozen.transform([[1e308, -1e308], [5e-324, 0.0], [0.5, 0.5]])).all()
    same = FrozenMap(step, n_neighbors=2).fit(np.zeros((3, 2)))
    assert not same.transform([[1.0, 1.0], [7.0, 0.0]]).any()
    cosine = FrozenMap(step, metric="cosine").fit([[0.0, 0.0], [1e300, 2.0]])
    assert np.isfinite(cosine.transform([[0, 1e308], [0, 0]])).all()


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_extreme_scales(scale):
    frozen, plain = (FrozenMap(FunctionTransformer(np.tanh)).fit(REFERENCE * factor) for factor in (scale, 1.0))
    frozen.places_ = plain.places_
    np.testing.assert_allclose(frozen.transform(ROWS * scale), plain.transform(ROWS), atol=1e-4)


def test_certificates_cover_rows():
    y = RNG.integers(2, size=30)
    model = CertifiedNeighborsClassifier(5, features=FrozenMap(PCA(2)), classes=[0, 1])
    model.fit(ROWS[:30], y, reference=REFERENCE)
    certificates = model.certify(ROWS[30:], adversary=Adversary(changes="rows"))
    assert certificates.unit == "rows"
    assert certificates.radius.max() > 0


class Together(PCA):
    """A map that says that it places rows together."""

    places_rows_together = True
    rests_on = Assumption("test-rows-together")


def test_a_map_of_rows_together_is_accepted_only_frozen():
    y = RNG.integers(2, size=30)
    for features in (FrozenMap(Together(2)), make_pipeline(StandardScaler(), FrozenMap(Together(2)))):
        model = CertifiedNeighborsClassifier(5, features=features, classes=[0, 1])
        certificates = model.fit(ROWS[:30], y, reference=REFERENCE).certify(ROWS[30:])
        assert "test-rows-together" not in {one.code for one in certificates.assumptions}
    both = make_pipeline(Together(3), FrozenMap(Together(2)))
    with pytest.raises(ValueError, match="FrozenMap"):
        CertifiedNeighborsClassifier(5, features=both).fit(ROWS[:30], y, reference=REFERENCE)
    codes = {one.code for one in CertifiedNeighborsClassifier(5, features=both).fit(ROWS, ROWS[:, 0] > 0).assumptions_}
    assert "test-rows-together" in codes


@pytest.mark.slow
def test_attacks_by_rows_do_not_exceed_certificates():
    check_certifier(CertifiedNeighborsClassifier(5, features=FrozenMap(PCA(2, random_state=0), n_neighbors=3)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"transformer": 3}, "transformer"),
        ({"n_neighbors": 0}, "n_neighbors"),
        ({"metric": "manhattan"}, "metric"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        FrozenMap(**{"transformer": PCA(1), **parameters}).fit(REFERENCE)


def test_rows_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        FrozenMap(PCA(1)).fit(REFERENCE).transform([[0.0, np.nan, 0.0]])


@pytest.mark.deep("umap")
def test_umap_can_be_frozen():
    reference = np.vstack([RNG.normal(size=(30, 4)), 20 + RNG.normal(size=(30, 4))])
    frozen = FrozenMap(UMAPFeatures(2, n_neighbors=5)).fit(reference)
    near = frozen.transform(reference + 0.01)
    assert np.abs(near - frozen.places_).max() < 0.5 * np.ptp(frozen.places_)
    assert FrozenMap(UMAPFeatures(2, n_neighbors=5)).fit(reference).transform(reference + 1).tobytes() == (
        frozen.transform(reference + 1).tobytes()
    )
