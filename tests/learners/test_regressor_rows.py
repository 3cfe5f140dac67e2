"""Regressors against added, removed and replaced rows: every sequence of up to three changes, by real refits."""

import itertools
import tracemalloc

import numpy as np
import pytest
from every_row_attack import one_change_away
from sklearn.base import clone

from flipproof import (
    Adversary,
    CertifiedForestRegressor,
    CertifiedKernelRegressor,
    CertifiedNeighborsRegressor,
    CertifiedRidgeRegressor,
)
from flipproof.learners import neighbors_regressor

RANGE = (-1.0, 3.0)

REGRESSORS = {
    "ridge": CertifiedRidgeRegressor(regularization=1.0, target_range=RANGE, precision=5),
    "ridge without intercept": CertifiedRidgeRegressor(target_range=RANGE, fit_intercept=False, precision=5),
    "clipped ridge": CertifiedRidgeRegressor(target_range=RANGE, clip=0.5),
    "ridge by signs": CertifiedRidgeRegressor(target_range=RANGE, clip="sign"),
    "kernel": CertifiedKernelRegressor(target_range=RANGE, precision=5),
    "clipped kernel": CertifiedKernelRegressor(target_range=RANGE, clip=0.8),
    "mean of neighbours": CertifiedNeighborsRegressor(2, target_range=RANGE),
    "mean of three": CertifiedNeighborsRegressor(3, target_range=RANGE),
    "mean by angle": CertifiedNeighborsRegressor(2, metric="cosine", target_range=RANGE),
    "median of two": CertifiedNeighborsRegressor(2, average="median", target_range=RANGE),
    "median of three": CertifiedNeighborsRegressor(3, average="median", target_range=RANGE),
    "forest": CertifiedForestRegressor(2, min_samples_leaf=2, target_range=RANGE, precision=6),
    "clipped forest": CertifiedForestRegressor(3, min_samples_leaf=1, target_range=RANGE, clip=0.7),
}

#: Bounds, not exact: no row is known that attains the ends.
BOUNDS = ("kernel", "ridge without intercept")

REFERENCE = np.array([[0, 0], [1, 2], [-2, 1], [2, -1], [1, 1], [-1, -2]], dtype=float)
TESTS = np.array([[1, 1], [-1, 0], [2, 2]], dtype=float)


class Problem:
    """Small integer rows, some of them equal; a few rows to add, among them the loudest and the nearest ones."""

    def __init__(self, name, changes, seed):
        rng = np.random.default_rng([seed, len(name), len(changes)])
        self.model, self.changes = REGRESSORS[name], changes
        n = {"rows": 3, "insertions": 4, "removals": 6}[changes] - seed % 2
        X = rng.integers(-1, 3, size=(n, 2)).astype(float)
        y = rng.choice([-1.0, 0.0, 1.25, 3.0], size=n)
        self.rows = [(tuple(x), float(t), bool(rng.random() < 0.75)) for x, t in zip(X.tolist(), y, strict=True)]
        fit = self.refit(self.rows)
        pool = [*map(tuple, TESTS.tolist()), *map(tuple, X.tolist()[:1])]
        if "ridge" in name or "kernel" in name:
            loudest = fit._geometry.loudest_rows(TESTS)
            pool += [tuple(row) for row in loudest.tolist()] + [tuple(row) for row in (-loudest).tolist()]
            pool += [tuple(row) for row in REFERENCE.tolist()]
        self.pool = [(row, end, True) for row in dict.fromkeys(pool) for end in (*RANGE, 0.5)[: 2 + seed % 2]]
        self.fit = fit

    def refit(self, state):
        X = np.array([row[0] for row in state], dtype=float).reshape(-1, 2)
        return clone(self.model).fit(X, np.array([row[1] for row in state], dtype=float), reference=REFERENCE)

    def every(self, most, z):
        """Return the lowest and highest prediction after each number of changes, for one test row."""
        additions = self.additions(z)
        frontier = {tuple(sorted(self.rows))}
        seen, found = set(frontier), []
        for n_changes in range(most + 1):
            if n_changes:
                frontier = {s for state in frontier for s in one_change_away(state, additions, self.changes)} - seen
                seen |= frontier
            values = [self.refit(state).predict(z[None])[0] for state in frontier]
            before = found[-1] if found else (np.inf, -np.inf)
            found.append((min([before[0], *values]), max([before[1], *values])))
        return np.array(found)

    def additions(self, z):
        """Return the additions that move the prediction on a test row farthest by themselves, and two others."""
        if isinstance(self.model, CertifiedNeighborsRegressor):  # with copies of training rows, which join their piles
            places = dict.fromkeys([tuple(z.tolist()), *(row[0] for row in self.rows)])
            return [(place, end, True) for place in list(places)[:3] for end in RANGE]
        reach = [self.refit([one]).predict(z[None])[0] for one in self.pool]
        order = np.argsort(reach, kind="stable")
        copies = [one for one in self.pool if one[0] == tuple(z.tolist()) and one[1] in RANGE]
        return list(dict.fromkeys([self.pool[order[0]], self.pool[order[-1]], *copies]))


def is_exact(found):
    return "target-rows-bounded" not in {one.code for one in found.assumptions}


@pytest.mark.parametrize("changes", ["rows", "insertions", "removals"])
@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("seed", range(2))
def test_intervals_and_radii_are_those_of_every_attack(name, changes, seed):
    problem, most = Problem(name, changes, seed), 2 if changes == "rows" else 3
    trusted = np.array([not row[2] for row in problem.rows])
    adversary = Adversary(changes=changes, trusted=trusted)
    for z in TESTS[: 1 + (changes == "removals")]:
        every = problem.every(most, z)
        found = problem.fit.certify(z[None], range(most + 1), adversary=adversary)
        assert found.unit == "rows"
        assert found.n_touchable == np.count_nonzero(~trusted)
        if is_exact(found):
            np.testing.assert_array_equal(found.low[0], every[:, 0])
            np.testing.assert_array_equal(found.high[0], every[:, 1])
        else:
            assert name in BOUNDS or "without" in name
            assert (found.low[0] <= every[:, 0]).all()
            assert (found.high[0] >= every[:, 1]).all()
        assert is_exact(found) or changes != "removals"
        value = found.prediction[0]
        moved = np.maximum(found.high[0] - value, value - found.low[0])
        for tolerance in (0.0, 0.3, 1.0, float(moved[1]), 100.0):
            one = problem.fit.certify(z[None], tolerance=tolerance, adversary=adversary)
            first = np.flatnonzero(moved > tolerance + 1e-9)
            radius = int(one.radius[0]) if not one.unlimited[0] else 10**9
            if len(first):
                assert radius <= first[0] - 1
                assert abs(moved - tolerance).min() < 1e-9 or radius == first[0] - 1
            else:
                assert radius >= most or abs(moved - tolerance).min() < 1e-9
        for threshold in (-0.5, 0.4, 1.0, float(value), 2.9):
            one = problem.fit.certify(z[None], threshold=threshold, adversary=adversary)
            crossed = found.low[0] < threshold if value >= threshold else found.high[0] >= threshold
            first = np.flatnonzero(crossed)
            assert one.certified_at(most)[0] == (not len(first))
            if len(first):
                assert one.radius[0] == first[0] - 1


@pytest.mark.parametrize("changes", ["rows", "removals"])
@pytest.mark.parametrize("name", ["ridge", "mean of neighbours", "median of three", "forest"])
def test_sources_are_bounded_by_as_many_rows(name, changes):
    """No choice of sources, each replacing or removing its rows, reaches beyond."""
    rng = np.random.default_rng(len(name))
    X, y = rng.integers(-1, 3, size=(4, 2)).astype(float), rng.choice([-1.0, 0.5, 3.0], size=4)
    names, model = np.array(["a", "b", "a", "c"]), REGRESSORS[name]
    fit = clone(model).fit(X, y, reference=REFERENCE)
    adversary = Adversary(changes=changes, groups=names, trusted=[False, False, False, True])
    found = fit.certify(TESTS, [0, 1, 2, 9], adversary=adversary, tolerance=0.5)
    assert (found.unit, found.n_touchable) == ("sources", 2)
    np.testing.assert_array_equal(found.low[:, 2], found.low[:, 3])
    np.testing.assert_array_equal(found.high[:, 0], found.prediction)
    fresh = [(z, end) for z in TESTS for end in RANGE]
    for r, chosen in ((1, ["a"]), (1, ["b"]), (2, ["a", "b"])):
        theirs = np.flatnonzero(np.isin(names, chosen) & ~adversary.trusted)
        options = [None, *(fresh if changes == "rows" else [])]
        for new in itertools.product(options, repeat=len(theirs)):
            rows = [(X[j], y[j]) for j in range(4) if j not in theirs] + [one for one in new if one is not None]
            refit = clone(model).fit(np.array([row for row, _ in rows]), [t for _, t in rows], reference=REFERENCE)
            after = refit.predict(TESTS)
            assert (found.low[:, r] <= after).all()
            assert (after <= found.high[:, r]).all()
            broken = np.abs(after - found.prediction) > 0.5 + 1e-9
            assert not (broken & found.certified_at(r)).any()


@pytest.mark.parametrize("name", REGRESSORS)
def test_rows_join_and_leave_as_if_they_had_been_fitted(name):
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(9, 2)), rng.uniform(*RANGE, size=9)
    whole = clone(REGRESSORS[name]).fit(X, y, reference=REFERENCE)
    grown = clone(REGRESSORS[name]).fit(X[:4], y[:4], reference=REFERENCE).partial_fit(X[4:], y[4:])
    more = clone(REGRESSORS[name]).fit(np.r_[X, X[:2]], np.r_[y, y[:2]], reference=REFERENCE).forget([9, 10])
    for model in (grown, more):
        for adversary in (None, Adversary(changes="rows")):
            one, other = (m.certify(TESTS, [0, 2], tolerance=0.2, adversary=adversary) for m in (model, whole))
            for part in ("prediction", "low", "high", "radius"):
                np.testing.assert_array_equal(getattr(one, part), getattr(other, part))
    before = whole.predict(TESTS)
    with pytest.raises(ValueError, match="within target_range"):
        whole.partial_fit(X[:1], [99.0])
    np.testing.assert_array_equal(whole.predict(TESTS), before)
    empty = clone(whole).fit(X[:0], y[:0], reference=REFERENCE)
    np.testing.assert_array_equal(
        empty.predict(TESTS), RANGE[0] if "median" in name else 0.0 if "without" in name else 1.0
    )
    assert empty.certify(TESTS, 3, tolerance=0.0).unlimited.all()
    added = empty.certify(TESTS, [0, 9], tolerance=0.5, adversary=Adversary(changes="insertions"))
    assert (added.high[:, 1] > added.high[:, 0]).all()
    np.testing.assert_array_equal(whole.forget(np.arange(9)).predict(TESTS), empty.predict(TESTS))


MEANS = [name for name in REGRESSORS if "median" not in name]
GROUPS = np.array(["old", "young", "old"])


def means(predictions):
    old, young = (predictions[name == GROUPS].mean() for name in ("old", "young"))
    return np.array([old, young, old - young])


def every_mean(problem, most):
    """Return the lowest and highest means and gap after each number of changes, over all changes of a few kinds."""
    additions = list(dict.fromkeys(one for z in TESTS for one in problem.additions(z)))[:7]
    frontier = {tuple(sorted(problem.rows))}
    seen, found = set(frontier), []
    for n_changes in range(most + 1):
        if n_changes:
            frontier = {s for state in frontier for s in one_change_away(state, additions, problem.changes)} - seen
            seen |= frontier
        values = np.array([means(problem.refit(state).predict(TESTS)) for state in frontier]).reshape(-1, 3)
        ends = np.concatenate([values, *found[-1:]])
        found.append(np.stack([ends.min(axis=0), ends.max(axis=0)]))
    return np.array(found)


@pytest.mark.few(9)
@pytest.mark.parametrize("changes", ["rows", "insertions", "removals"])
@pytest.mark.parametrize("name", MEANS)
def test_means_and_gaps_hold_against_every_attack_of_rows(name, changes):
    problem, most = Problem(name, changes, 1), 2 if changes == "rows" else 3
    adversary = Adversary(changes=changes, trusted=[not row[2] for row in problem.rows])
    every = every_mean(problem, most)
    asked = {"adversary": adversary}
    mean = problem.fit.certify_means(TESTS, GROUPS, range(most + 1), **asked)
    gap = problem.fit.certify_gaps(TESTS, GROUPS, range(most + 1), **asked)
    low, high = np.r_[mean.low, gap.low].T, np.r_[mean.high, gap.high].T
    np.testing.assert_allclose([*mean.prediction, *gap.prediction], every[0, 0], rtol=1e-12, atol=1e-14)
    assert (low <= every[:, 0] + 1e-12).all()
    assert (high >= every[:, 1] - 1e-12).all()
    assert mean.unit == "rows"
    is_exact_one = changes == "removals" and ("ridge" in name or "kernel" in name)
    assert is_exact(mean) == is_exact(gap) == is_exact_one
    if is_exact_one:
        np.testing.assert_allclose(low, every[:, 0], rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(high, every[:, 1], rtol=1e-12, atol=1e-14)
    for certify, found in ((problem.fit.certify_means, mean), (problem.fit.certify_gaps, gap)):
        value = found.prediction[:, None]
        for tolerance in (0.01, 0.3, 1.0, 100.0):
            moved = np.maximum(found.high - value, value - found.low)
            one = certify(TESTS, GROUPS, tolerance=tolerance, **asked)
            expected = np.where((moved > tolerance).any(1), (moved > tolerance).argmax(1) - 1, 10**9)
            np.testing.assert_array_equal(np.where(one.certified_at(most), 10**9, one.radius), expected)
        for threshold in (-0.5, 0.0, 0.4, 1.0):
            crossed = np.where(value >= threshold, found.low < threshold, found.high >= threshold)
            one = certify(TESTS, GROUPS, threshold=threshold, **asked)
            expected = np.where(crossed.any(1), crossed.argmax(1) - 1, 10**9)
            np.testing.assert_array_equal(np.where(one.certified_at(most), 10**9, one.radius), expected)


@pytest.mark.parametrize("name", MEANS)
def test_the_mean_of_one_row_moves_like_its_prediction(name):
    rng = np.random.default_rng(5)
    X, y = rng.integers(-1, 3, size=(9, 2)).astype(float), rng.uniform(*RANGE, size=9)
    model = clone(REGRESSORS[name]).fit(X, y, reference=REFERENCE)
    sources = Adversary(changes="removals", groups=np.arange(9) // 2)
    for adversary in (*(Adversary(changes=one) for one in ("rows", "insertions", "removals")), sources):
        alone = model.certify_means(TESTS, ["c", "a", "b"], [0, 1, 4], tolerance=0.37, adversary=adversary)
        usual = model.certify(TESTS[[1, 2, 0]], [0, 1, 4], tolerance=0.37, adversary=adversary)
        for part in ("prediction", "low", "high"):
            np.testing.assert_allclose(getattr(alone, part), getattr(usual, part), rtol=1e-13, atol=1e-15)
        np.testing.assert_array_equal(alone.radius, usual.radius)
        np.testing.assert_array_equal(alone.unlimited, usual.unlimited)
        parts = clone(model).set_params(block_size=1).fit(X, y, reference=REFERENCE)
        blocks = parts.certify_means(TESTS, ["c", "a", "b"], [0, 1, 4], tolerance=0.37, adversary=adversary)
        np.testing.assert_array_equal(alone.low, blocks.low)


def test_neighbours_are_put_in_order_within_a_budget_of_memory(monkeypatch):
    """All distances, row numbers and contents of 100 test rows would be 67 MiB; searching for neighbours takes 17."""
    rng = np.random.default_rng(1)
    X, y, Z = rng.integers(0, 50, size=(20_000, 2)).astype(float), rng.uniform(*RANGE, size=20_000), np.ones((100, 2))
    Z += rng.integers(0, 50, size=Z.shape)
    model = CertifiedNeighborsRegressor(5, target_range=RANGE).fit(X, y, reference=X[:50])
    few = model.certify(Z[:10], 3, adversary=Adversary(changes="rows"))
    monkeypatch.setattr(neighbors_regressor, "MEMORY_BUDGET", 8 * 2**20)
    tracemalloc.start()
    found = model.certify(Z, 3, adversary=Adversary(changes="rows"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 24 * 2**20
    np.testing.assert_array_equal(found.low[:10], few.low)
    np.testing.assert_array_equal(found.high[:10], few.high)


def test_rows_that_join_or_leave_keep_what_the_fit_assumes():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(6, 2)), rng.uniform(*RANGE, size=6)
    model = clone(REGRESSORS["ridge"]).fit(X[:4], y[:4], reference=REFERENCE)
    model.also_assume("Columns are in metres.")
    for changed in (model, model.partial_fit(X[4:], y[4:]), model.forget([0])):
        found = changed.certify(TESTS, adversary=Adversary(changes="rows"))
        assert [str(one) for one in found.assumptions].count("Columns are in metres.") == 1
    refit = model.fit(X, y, reference=REFERENCE)
    assert "Columns are in metres." not in map(str, refit.assumptions_)


def test_rows_trusted_in_the_fit_are_trusted_in_every_certificate():
    rng = np.random.default_rng(3)
    X, y, trusted = rng.normal(size=(6, 2)), rng.uniform(*RANGE, size=6), np.arange(6) < 4
    for name in ("ridge", "mean of neighbours", "median of three", "forest"):
        model, plain = clone(REGRESSORS[name]), clone(REGRESSORS[name]).fit(X, y, reference=REFERENCE)
        model.fit(X, y, reference=REFERENCE, trusted=trusted)
        for changes in ("labels", "rows", "removals"):
            adversary = None if changes == "labels" else Adversary(changes=changes)
            same = plain.certify(TESTS, [1, 3], tolerance=0.1, adversary=Adversary(changes=changes, trusted=trusted))
            found = model.certify(TESTS, [1, 3], tolerance=0.1, adversary=adversary)
            for part in ("low", "high", "radius", "n_touchable"):
                np.testing.assert_array_equal(getattr(found, part), getattr(same, part))
        for changes in model.worst_changes(TESTS, 6):
            assert not trusted[changes.rows].any()
        assert model.certify(TESTS).n_touchable == 2
    with pytest.raises(ValueError, match="one per training row"):
        model.fit(X, y, trusted=[True])


def test_predictions_do_not_grow_with_the_number_of_rows():
    """A frozen ridge predicts a mean over rows: twice the same rows predict the same."""
    rng = np.random.default_rng(5)
    reference, X = rng.normal(size=(200, 3)), rng.normal(size=(400, 3))
    y = np.clip(X @ [1.0, -0.5, 0.2] + rng.normal(scale=0.1, size=400), -3, 3)
    for model in (
        CertifiedRidgeRegressor(target_range=(-3, 3), regularization=1e-3),
        CertifiedKernelRegressor("linear"),
    ):
        model.set_params(target_range=(-3, 3), regularization=1e-3)
        found = clone(model).fit(X, y, reference=reference)
        assert found.score(X, y) > 0.9
        twice = clone(model).fit(np.r_[X, X], np.r_[y, y], reference=reference)
        np.testing.assert_allclose(twice.predict(X), found.predict(X), rtol=1e-12)


def test_what_has_no_certificate_against_rows_is_refused_in_one_line():
    rng = np.random.default_rng(1)
    X, y, rows = rng.normal(size=(8, 2)), rng.uniform(*RANGE, size=8), Adversary(changes="rows")
    plain = clone(REGRESSORS["ridge"]).fit(X, y)
    frozen = clone(REGRESSORS["ridge"]).fit(X, y, reference=REFERENCE)
    weighted = clone(REGRESSORS["ridge"]).fit(X, y, np.arange(1.0, 9), reference=REFERENCE)
    far = CertifiedNeighborsRegressor(2, weights="distance", target_range=RANGE).fit(X, y, reference=REFERENCE)
    median = clone(REGRESSORS["median of two"]).fit(X, y, reference=REFERENCE)
    calls = {
        "reference=": lambda: plain.certify(X, adversary=rows),
        "sample_weight": lambda: weighted.certify(X, adversary=rows),
        "'weights'": lambda: far.certify(X, adversary=rows),
        "certify_gaps of": lambda: frozen.worst_changes(X, adversary=rows),
        "use average='mean'": lambda: median.certify_means(X, adversary=rows),
        "from the training rows": lambda: plain.certify_gaps(X, np.arange(8) % 2, adversary=rows),
        "must be 'uniform'": lambda: far.certify_means(X, adversary=rows),
        "without reference=": lambda: frozen.certify_coefficients(),
        "must be at most": lambda: frozen.certify(X, 10**30, adversary=rows),
        "target_range": lambda: CertifiedRidgeRegressor().fit(X, y, reference=REFERENCE),
        "clip=None": lambda: clone(REGRESSORS["clipped ridge"]).fit(X, y).certify_coefficients(),
    }
    for fragment, call in calls.items():
        with pytest.raises(ValueError, match=fragment) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert not hasattr(plain, "partial_fit")
    with pytest.raises(AttributeError, match="reference="):
        plain.forget([0])
    removed = frozen.certify(X, 10**30, adversary=Adversary(changes="removals"))
    np.testing.assert_allclose([removed.low.max(), removed.high.min()], 1, atol=2)
    assert "changed rows" in repr(removed)


@pytest.mark.parametrize("name", ["ridge", "clipped ridge", "kernel"])
@pytest.mark.parametrize("reference", [None, REFERENCE])
def test_weights_multiply_votes(name, reference):
    """Intervals with weights are those of refits with changed targets; equal weights change nothing."""
    rng = np.random.default_rng(2)
    X, y, weights = rng.normal(size=(5, 2)), rng.uniform(*RANGE, size=5), np.array([1.0, 0.0, 2.5, 1.0, 4.0])
    model = clone(REGRESSORS[name]).fit(X, y, weights, reference=reference)
    found = model.certify(TESTS, [1, 2])
    for r, place in ((1, 0), (2, 1)):
        after = []
        for chosen in itertools.combinations(range(5), r):
            for ends in itertools.product(RANGE, repeat=r):
                changed = y.copy()
                changed[list(chosen)] = ends
                after.append(clone(model).fit(X, changed, weights, reference=reference).predict(TESTS))
        np.testing.assert_array_equal(found.low[:, place], np.min([found.prediction, *after], axis=0))
        np.testing.assert_array_equal(found.high[:, place], np.max([found.prediction, *after], axis=0))
    same = clone(model).fit(X, y, np.full(5, 3.0), reference=reference).predict(TESTS)
    np.testing.assert_array_equal(same, clone(model).fit(X, y, reference=reference).predict(TESTS))
    scaled = clone(model).fit(X, y, 7 * weights, reference=reference).predict(TESTS)
    np.testing.assert_array_equal(scaled, found.prediction)
    means = model.certify_means(TESTS, flips=[1, 2])
    np.testing.assert_allclose(means.prediction[0], found.prediction.mean(), rtol=1e-12)
    if name == "ridge" and reference is None:
        slopes = model.certify_coefficients(flips=[1])
        line = model.predict([[1.0, 0.0]]) - model.predict([[0.0, 0.0]])
        np.testing.assert_allclose(slopes.prediction[0], line[0], atol=0.2)


def test_the_mask_of_trusted_targets_is_copied():
    """A later change of the caller's array changes no certificate, and the array stays the caller's own."""
    rng = np.random.default_rng(0)
    X, y, mask = rng.normal(size=(6, 2)), rng.uniform(*RANGE, size=6), np.zeros(12, dtype=bool)
    model = clone(REGRESSORS["ridge"]).fit(X, y, trusted=mask[:6])
    width = model.certify(TESTS, 2).width
    mask[:] = True
    np.testing.assert_array_equal(model.certify(TESTS, 2).width, width)


def test_a_given_range_stays_given():
    """Rows that join do not make the range of the fit one that was read from the targets."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 2)), rng.uniform(*RANGE, size=6)
    model = clone(REGRESSORS["ridge"]).fit(X, y, reference=REFERENCE).set_params(target_range=None).partial_fit(X, y)
    assert "target-range-read" not in [one.code for one in model.assumptions_]


def test_a_range_without_a_step_is_refused():
    X, y = np.arange(4.0)[:, None], np.array([1e-300, 2e-300, 1e-300, 2e-300])
    with pytest.raises(ValueError, match="rescale"):
        CertifiedRidgeRegressor(target_range=(1e-300, 2e-300)).fit(X, y)
