"""Nearest neighbours and changed rows: every small attack, by refits, and an order that no file decides."""

from collections import Counter

import numpy as np
import pytest
from every_row_attack import fewest_sources
from tiers import mostly_slow

from flipproof import Adversary, CertifiedNeighborsClassifier
from flipproof.core.contents import row_hashes
from flipproof.core.exact import UNREACHABLE
from flipproof.learners.nearest_rows import in_order, nearest_piles
from flipproof.learners.neighbor_rows import Electorate

REFERENCE = np.array([[-4.0, -4.0], [4.0, 4.0], [0.0, 0.0], [1.0, -2.0]])
ROW_CHANGES = ("rows", "insertions", "removals")


# ---- every attack on small problems, by refits. States are sorted tuples of rows: (point, label, is_trusted).


def attacks(state, additions, changes):
    """Yield all states one change away."""
    if changes != "removals":
        for new in additions:
            yield tuple(sorted((*state, new)))
    if changes != "insertions":
        for at, (_, _, is_trusted) in enumerate(state):
            if not is_trusted:
                rest = state[:at] + state[at + 1 :]
                yield rest
                if changes == "rows":
                    for new in additions:
                        yield tuple(sorted((*rest, new)))


def fitted(model, state):
    points = np.array([point for point, _, _ in state], dtype=float).reshape(-1, 2)
    return model.fit(points, np.array([label for _, label, _ in state], dtype=int), reference=REFERENCE)


def fewest(model, start, additions, changes, Z, most):
    """Return for each test row how many changes let a refit predict another class; most + 1 if none found do."""
    first = fitted(model, start).predict(Z)
    found = np.full(len(Z), most + 1)
    frontier, seen = {start}, {start}
    for steps in range(1, most + 1):
        frontier = {after for state in frontier for after in attacks(state, additions, changes)} - seen
        seen |= frontier
        for state in frontier:
            changed = fitted(model, state).predict(Z) != first
            found[changed] = np.minimum(found[changed], steps)
    return found


#: Places of rows. On a line there are equal distances; each place is also a test row, so that rows can be added there.
PLACES = {
    "euclidean": [(-1.0, 0.0), (0.0, 0.0), (1.0, 0.0)],
    "cosine": [(1.0, 0.0), (0.0, 2.0), (-1.0, 0.0), (0.0, 0.0)],
}


@pytest.mark.slow
@pytest.mark.parametrize("changes", ROW_CHANGES)
@pytest.mark.parametrize("n_classes", mostly_slow([2, 3], fast=(0,)))
@pytest.mark.parametrize("metric", mostly_slow(["euclidean", "cosine"], fast=(0,)))
def test_every_row_attack_by_refits(metric, n_classes, changes):
    rng = np.random.default_rng(10 * n_classes + len(metric))
    places, found = PLACES[metric], 0
    n_cases, largest_n, most = {"rows": (6, 5, 2), "insertions": (10, 6, 3), "removals": (40, 6, 3)}[changes]
    if changes == "rows" and (metric, n_classes) == ("euclidean", 2):
        largest_n, most = 4, 3
    if changes == "insertions" and n_classes == 3:
        most = 2
    for case in range(n_cases):
        n = largest_n - (case - 1) % 3 if case else 0
        rows = []
        for _ in range(n):
            place, label = places[rng.integers(len(places))], int(rng.integers(n_classes))
            rows.append((place, label, bool(rng.random() < 0.25)))
        state, model = tuple(sorted(rows)), CertifiedNeighborsClassifier(1 + (case + n_classes) % 4, metric=metric)
        model.set_params(classes=range(n_classes))
        additions = [(place, label, False) for place in places for label in range(n_classes)]
        adversary = Adversary(changes=changes, trusted=np.array([row[2] for row in state], dtype=bool))
        fit = fitted(model, state)
        of_each = [fit.certify([z], adversary=adversary) for z in places]
        truth = fewest(model, state, additions, changes, places, most)
        for z, certificate, needed in zip(places, of_each, truth, strict=True):
            claimed = most + 1 if certificate.unlimited[0] else min(certificate.radius[0] + 1, most + 1)
            is_bound = any(one.code == "rows-lower-bound" for one in certificate.assumptions)
            assert is_bound == (metric == "cosine" and z == (0.0, 0.0) and changes != "removals")
            assert claimed <= needed if is_bound else claimed == needed, (state, z, model.n_neighbors)
            found += needed <= most
    assert found >= 3


def drawn_state(rng, places, n, n_classes):
    """Draw training rows, some of them trusted."""
    rows = [
        (places[rng.integers(len(places))], int(rng.integers(n_classes)), bool(rng.random() < 0.25)) for _ in range(n)
    ]
    return tuple(sorted(rows))


@pytest.mark.parametrize("changes", ROW_CHANGES)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("case", mostly_slow(range(5), fast=()))
def test_every_sequence_of_three_changes_by_refits(case, metric, n_classes, changes):
    rng = np.random.default_rng([case, n_classes, len(metric)])
    places, n = PLACES[metric][:3], 4 if changes == "removals" else 2 + case % 2
    state, model = drawn_state(rng, places, n, n_classes), CertifiedNeighborsClassifier(1 + case % 3, metric=metric)
    model.set_params(classes=range(n_classes))
    additions = [(place, label, False) for place in places for label in range(n_classes)]
    adversary = Adversary(changes=changes, trusted=np.array([row[2] for row in state]))
    certificates = fitted(model, state).certify(places, adversary=adversary)
    claimed = np.where(certificates.unlimited, 4, np.minimum(certificates.radius + 1, 4))
    np.testing.assert_array_equal(claimed, fewest(model, state, additions, changes, places, 3), err_msg=str(state))


@pytest.mark.parametrize("changes", ["rows", "removals"])
@pytest.mark.parametrize("n_classes", mostly_slow([2, 3], fast=(0,)))
@pytest.mark.parametrize("case", mostly_slow(range(6), fast=(0,)))
def test_no_sources_within_the_radius_change_a_prediction(case, n_classes, changes):
    """Every way in which up to three sources remove or replace their rows, by refits."""
    rng, places = np.random.default_rng([case, n_classes]), PLACES["euclidean"]
    n = (3, 4)[changes == "removals"]
    model = CertifiedNeighborsClassifier(1 + case % 3, classes=range(n_classes))
    state, sources = drawn_state(rng, places, n, n_classes), rng.integers(3, size=n)
    rows = [(place, label, not is_trusted) for place, label, is_trusted in state]  # that is: free to be changed
    additions = [(place, label, True) for place in places for label in range(n_classes)]
    adversary = Adversary(changes=changes, trusted=np.array([row[2] for row in state]), groups=sources)
    certificates = fitted(model, state).certify(places, adversary=adversary)
    for at in range(len(places)):
        predict = lambda after, at=at: fitted(model, after).predict(places)[at]  # noqa: E731
        found = fewest_sources(rows, sources.tolist(), additions, changes, predict, 3)
        assert found is None or certificates.radius[at] < found[0]


# ---- far and tiny rows


EXTREMES = (1e150, -1e150, 1e-150, 1e308, -1.7e308, 5e-324, -1e-310, 0.0)


@pytest.mark.filterwarnings("ignore:invalid value encountered in reduce")  # scikit-learn sums all numbers
@pytest.mark.parametrize("metric", mostly_slow(["euclidean", "cosine"], fast=(0,)))
@pytest.mark.parametrize("changes", ["rows", "insertions"])
def test_no_added_rows_of_any_size_change_a_prediction_within_the_radius(metric, changes):
    rng = np.random.default_rng(3)
    X, y = np.round(rng.normal(size=(40, 3)), 1), rng.integers(0, 2, 40)
    y[X[:, 0] > 0] = 1
    Z = np.vstack([rng.normal(size=(4, 3)), X[:2], [[1e308, 1.0, -1.0], [0.0, 0.0, 0.0], [5e-324, 0, 0]]])
    model = CertifiedNeighborsClassifier(9, metric=metric, classes=[0, 1])
    certificates = model.fit(X, y, reference=X[::4]).certify(Z, adversary=Adversary(changes=changes))
    assert certificates.radius.max() >= 3
    for i, radius in enumerate(certificates.radius):
        other = 1 - certificates.prediction[i]
        for attempt in range(12):
            kept = np.ones(len(X), dtype=bool)
            if changes == "rows":
                of_winner = np.flatnonzero(y == certificates.prediction[i])
                near = of_winner[np.argsort(np.abs(X[of_winner] - Z[i]).max(axis=1))]
                kept[near[:radius]] = False
            added = np.tile(Z[i], (radius, 1)) if attempt < 3 else rng.choice(EXTREMES, size=(radius, 3))
            if attempt in (1, 2):
                added = added * (1, 1 + 1e-9, 1 - 1e-9)[attempt]
            X_after, y_after = np.vstack([X[kept], added]), np.concatenate([y[kept], np.full(radius, other)])
            after = model.fit(X_after, y_after, reference=X[::4])
            assert after.predict(Z[i : i + 1])[0] == certificates.prediction[i]


def test_copies_of_the_test_row_or_of_a_voter_attain_the_radius_against_insertions():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] > 0).astype(int)
    model = CertifiedNeighborsClassifier(11, metric="cosine").fit(X, y, reference=X[:10])
    Z = rng.normal(size=(10, 4))
    certificates = model.certify(Z, adversary=Adversary(changes="insertions"))
    for z, prediction, radius in zip(Z, certificates.prediction, certificates.radius, strict=True):
        voters = np.argsort(-(X @ z) / np.linalg.norm(X, axis=1))[:11]
        changed = False
        for place in (z, *X[voters]):
            many = np.tile(place, (radius + 1, 1))
            X_after, y_after = np.vstack([X, many]), np.concatenate([y, np.full(radius + 1, 1 - prediction)])
            changed |= model.fit(X_after, y_after, reference=X[:10]).predict([z])[0] != prediction
        assert changed


# ---- the order of the file


def many_ties(seed=0, n=150):
    rng = np.random.default_rng(seed)
    return rng.integers(-2, 3, size=(n, 2)).astype(float), rng.integers(0, 3, n), rng.integers(-2, 3, size=(30, 2)) / 2


def by_place(distances):
    """Weights that depend on the place in the list of neighbours."""
    return 5.0 - np.arange(distances.shape[1])[None]


@pytest.mark.few(2)
@pytest.mark.parametrize("with_reference", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"metric": "cosine"},
        {"metric": "cityblock"},
        {"metric": lambda u, v: np.abs(u - v).max()},
        {"weights": "distance"},
        {"weights": by_place},
    ],
    ids=["euclidean", "cosine", "cityblock", "own metric", "distance", "by place"],
)
def test_the_order_of_the_training_rows_changes_nothing(settings, with_reference):
    X, y, Z = many_ties()
    reference = {"reference": X[:20]} if with_reference else {}
    model = CertifiedNeighborsClassifier(13, classes=range(3), **settings)
    model.fit(X, y, **reference)
    expected = [model.certify(Z, method) for method in ("exact", "tight")]
    scores = model.decision_function(Z)
    against_rows = {}
    if with_reference and settings in ({}, {"metric": "cosine"}):
        against_rows = {changes: model.certify(Z, adversary=Adversary(changes=changes)) for changes in ROW_CHANGES}
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(X))
        model.fit(X[order], y[order], **reference)
        np.testing.assert_array_equal(model.decision_function(Z), scores)
        for method, before in zip(("exact", "tight"), expected, strict=True):
            after = model.certify(Z, method)
            for name in ("prediction", "radius", "rival", "margin", "log_failure"):
                np.testing.assert_array_equal(getattr(after, name), getattr(before, name), err_msg=name)
        for changes, before in against_rows.items():
            after = model.certify(Z, adversary=Adversary(changes=changes))
            for name in ("prediction", "radius", "rival", "margin", "unlimited"):
                np.testing.assert_array_equal(getattr(after, name), getattr(before, name), err_msg=name)


def test_a_pile_at_the_cut_votes_whole():
    X = [[0.0], [1.0], [1.0], [1.0], [2.0]]
    model = CertifiedNeighborsClassifier(2, classes=[0, 1]).fit(X, [0, 1, 1, 0, 1])
    np.testing.assert_array_equal(model.vote_weights([[0.0]])[0], [[1, 1, 1, 1, 0]])
    np.testing.assert_array_equal(model.vote_weights([[2.0]])[0], [[0, 1, 1, 1, 1]])


def test_rows_as_far_but_of_other_content_are_not_one_pile():
    model = CertifiedNeighborsClassifier(1, classes=[0, 1]).fit([[-1.0], [1.0], [-1.0], [1.0]], [0, 1, 0, 1])
    [votes] = model.vote_weights([[0.0]])[0]
    assert votes.tolist() in ([1, 0, 1, 0], [0, 1, 0, 1])


@pytest.mark.parametrize("seed", range(3))
def test_piles_and_lists_are_those_of_plain_sorting(seed):
    rng = np.random.default_rng(seed)
    for levels, kinds in ((1, 3), (3, 2), (4, 10), (10**6, 10**6)):
        values, contents = (
            rng.integers(levels, size=(20, 23)).astype(float),
            rng.integers(kinds, size=23, dtype=np.uint64),
        )
        keys = [sorted((value, int(contents[j]), j) for j, value in enumerate(row)) for row in values]
        for k in (1, 2, 11, 22, 23, 40):
            starts, columns = nearest_piles(values, contents, k)
            listed = in_order(values, contents, min(k, 23))
            for i, key in enumerate(keys):
                last = key[min(k, 23) - 1][:2]
                assert columns[starts[i] : starts[i + 1]].tolist() == sorted(
                    j for *both, j in key if tuple(both) <= last
                )
                shown = [(values[i, j], int(contents[j])) for j in listed.rows[i]]
                assert shown == [one[:2] for one in key[:k]]
                assert len(set(listed.rows[i].tolist())) == min(k, 23)
                ends = [at + 1 == 23 or key[at][:2] != key[at + 1][:2] for at in range(min(k, 23))]
                assert listed.ends_pile[i].tolist() == ends


# ---- a reference


def test_with_a_reference_nothing_depends_on_other_training_rows():
    X, y, Z = many_ties()
    model = CertifiedNeighborsClassifier(classes=range(3)).fit(X, y, reference=X[:20])
    assert model.n_neighbors_ == 15
    few = CertifiedNeighborsClassifier(classes=range(3)).fit(X[:3], y[:3], reference=X[:20])
    assert few.n_neighbors_ == 15
    many = np.random.default_rng(0).integers(0, 3, size=(399, X.shape[1]))
    for n in (0, 3, len(X)):  # the reference alone decides
        assert CertifiedNeighborsClassifier(classes=range(3)).fit(X[:n], y[:n], reference=many).n_neighbors_ == 20
    np.testing.assert_array_equal(few.vote_weights(Z)[0], 1)
    for n in (0, 1):
        certificates = few.fit(X[:n], y[:n], reference=X[:20]).certify(Z, adversary=Adversary(changes="rows"))
        assert (certificates.prediction == (y[0] if n else 0)).all()
        assert (certificates.radius == few.certify(Z[:1], adversary=Adversary(changes="rows")).radius[0]).all()
        removed = few.certify(Z, adversary=Adversary(changes="removals"))
        np.testing.assert_array_equal(removed.unlimited, n == 0 or y[0] == 0)  # without rows, class 0 is predicted
        np.testing.assert_array_equal(removed.radius, n if y[0] == 0 else 0)


@pytest.mark.parametrize(
    "settings", [{}, {"metric": "cosine"}, {"metric": "cityblock", "weights": "distance"}], ids=str
)
def test_rows_that_join_and_leave_give_the_bits_of_a_fit(settings):
    X, y, Z = many_ties()
    model = CertifiedNeighborsClassifier(9, classes=range(3), **settings)
    model.fit(X[:60], y[:60], reference=X[:20]).partial_fit(X[60:], y[60:])
    whole = CertifiedNeighborsClassifier(9, classes=range(3), **settings).fit(X, y, reference=X[:20])
    np.testing.assert_array_equal(model.vote_weights(Z)[0], whole.vote_weights(Z)[0])
    gone = np.arange(20, len(X), 3)
    with pytest.warns(UserWarning, match="reference"):
        model.forget(gone)
    kept = np.delete(np.arange(len(X)), gone)
    whole.fit(X[kept], y[kept], reference=X[:20])
    np.testing.assert_array_equal(model.vote_weights(Z)[0], whole.vote_weights(Z)[0])
    np.testing.assert_array_equal(model.certify(Z).radius, whole.certify(Z).radius)
    if not settings.get("weights"):
        adversary = Adversary(changes="rows")
        np.testing.assert_array_equal(
            model.certify(Z, adversary=adversary).radius, whole.certify(Z, adversary=adversary).radius
        )


@pytest.mark.parametrize("changes", ROW_CHANGES)
def test_blocks_and_short_lists_do_not_change_a_radius(changes, monkeypatch):
    X, y, Z = many_ties(n=200)
    y[:150] = 0  # removals need long lists
    adversary = Adversary(changes=changes, trusted=np.arange(200) % 3 == 0)
    model = CertifiedNeighborsClassifier(8, classes=range(3)).fit(X, y, reference=X[:20])
    expected = model.certify(Z, adversary=adversary)
    monkeypatch.setattr("flipproof.learners.neighbor_rows.SPARE_ROWS", 0)
    monkeypatch.setattr("flipproof.learners.neighbor_rows.NUMBERS_AT_A_TIME", 1)
    for block_size, n_jobs in ((1, 1), (7, 2)):
        again = model.set_params(block_size=block_size, n_jobs=n_jobs).certify(Z, adversary=adversary)
        for name in ("prediction", "radius", "rival", "margin", "unlimited"):
            np.testing.assert_array_equal(getattr(again, name), getattr(expected, name), err_msg=name)
    monkeypatch.setattr("flipproof.learners.neighbor_rows.SPARE_ROWS", 1000)
    np.testing.assert_array_equal(model.certify(Z, adversary=adversary).radius, expected.radius)


def listed_at_random(rng):
    """Draw training rows with piles and ties, and their distances from eight test rows."""
    n, n_classes = int(rng.integers(3, 60)), int(rng.integers(2, 5))
    pile = np.arange(n) if rng.random() < 0.4 else rng.integers(rng.integers(1, n + 1), size=n)
    relative = rng.integers(0, rng.choice([5, 30, 1000, 10**6]), size=(8, n)).astype(float)[:, pile]
    own_squares = np.where(rng.random(8) < 0.5, -relative.min(axis=1), 1e7)
    removable = np.ones(n, dtype=bool) if rng.random() < 0.6 else rng.random(n) < 0.7
    codes = rng.choice(n_classes, size=n, p=rng.dirichlet(np.full(n_classes, rng.choice([0.3, 1.0, 5.0]))))
    contents = rng.permutation(1000)[:n].astype(np.uint64)[pile]
    order = np.lexsort((removable, codes))
    changes, k = str(rng.choice(ROW_CHANGES)), int(rng.integers(1, n // 2 + 2))
    electorate = Electorate(contents[order], codes[order], removable[order], k, n_classes, changes, True)
    return electorate, relative[:, order], own_squares


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_slow(range(8), fast=(0,)))
def test_short_lists_decide_as_long_ones_do(seed, monkeypatch):
    rng, n_short, short_lists = np.random.default_rng(seed), Counter(), Electorate._by_short_lists
    monkeypatch.setattr("flipproof.learners.neighbor_rows.ENTRIES_AT_A_TIME", 40)

    def counting(self, *given):
        found = short_lists(self, *given)
        n_short[self.changes] += np.count_nonzero(found[2])
        return found

    monkeypatch.setattr(Electorate, "_by_short_lists", counting)
    for _ in range(250):
        electorate, relative, own_squares = listed_at_random(rng)
        scores, needed = electorate.changes_needed(relative, own_squares)
        expected_scores, expected = electorate._by_long_lists(relative, own_squares, np.arange(8))
        np.testing.assert_array_equal(scores, expected_scores)
        np.testing.assert_array_equal(needed.min(axis=1), expected.min(axis=1))
        is_reached = expected.min(axis=1) < UNREACHABLE
        np.testing.assert_array_equal(needed.argmin(axis=1)[is_reached], expected.argmin(axis=1)[is_reached])
    assert min(n_short[changes] for changes in ROW_CHANGES) > 50


@pytest.mark.parametrize("changes", ["rows", "removals"])
def test_sources_are_bounded_by_their_rows(changes):
    X, y, Z = many_ties()
    model = CertifiedNeighborsClassifier(40, classes=range(3)).fit(X, y, reference=X[:20])
    sources = np.repeat(np.arange(50), 3)
    by_row = model.certify(Z, adversary=Adversary(changes=changes))
    by_source = model.certify(Z, adversary=Adversary(changes=changes, groups=sources))
    np.testing.assert_array_equal(by_source.radius, np.minimum(by_row.radius // 3, 50))
    assert by_source.assumptions[-1].code in ("rows-lower-bound", "sources")
    assert any(one.code == "rows-lower-bound" for one in by_source.assumptions)
    assert all(one.code != "rows-lower-bound" for one in by_row.assumptions)
    one_source = model.certify(Z, adversary=Adversary(changes=changes, groups=np.zeros(150)))
    assert not one_source.radius.any()


REFUSED = {
    "a share": ({"n_neighbors": 0.1}, None, "'n_neighbors' .* integer where reference"),
    "an index": ({"index": "KNeighborsTransformer"}, None, "'index' .* None where reference"),
    "distance weights": ({"weights": "distance"}, "rows", "'weights' .* 'uniform' against changed rows"),
    "own weights": ({"weights": by_place}, "removals", "'weights' .* 'uniform' against changed rows"),
    "other metrics": ({"metric": "cityblock"}, "insertions", "'metric' .* 'euclidean' or 'cosine' against"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_certificate_against_rows_is_refused(name):
    from sklearn.neighbors import KNeighborsTransformer

    settings, changes, message = REFUSED[name]
    X, y, Z = many_ties()
    if "index" in settings:
        settings = {"index": KNeighborsTransformer(mode="distance")}
    model = CertifiedNeighborsClassifier(classes=range(3)).set_params(**settings)
    with pytest.raises(ValueError, match=message) as error:
        model.fit(X, y, reference=X[:20]).certify(Z, adversary=Adversary(changes=changes or "rows"))
    assert len(str(error.value).splitlines()) == 1
    if changes is not None:
        assert len(model.certify(Z).radius) == len(Z)  # labels are fine


def test_only_the_reference_must_be_of_moderate_size():
    X, y = np.array([[1e308], [-1e308], [5e-324], [1.0]]), [0, 1, 0, 1]
    model = CertifiedNeighborsClassifier(1, classes=[0, 1]).fit(X, y, reference=[[0.0], [1.0], [2.0]])
    np.testing.assert_array_equal(model.predict([[1e200], [-5.0], [0.1], [1.2]]), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="rescale"):
        model.fit(X, y, reference=[[0.0], [1e200]])


def test_rows_equal_on_the_grid_are_hashed_alike():
    assert row_hashes(np.array([[0.0, 1.0]]))[0] == row_hashes(np.array([[-0.0, 1.0]]))[0]
    model = CertifiedNeighborsClassifier(1, classes=[0, 1])
    model.fit([[0.5], [0.5 + 1e-14], [3.0]], [0, 1, 1], reference=[[-1.0], [0.0], [1.0]])
    np.testing.assert_array_equal(model.vote_weights([[0.4]])[0], [[1, 1, 0]])
