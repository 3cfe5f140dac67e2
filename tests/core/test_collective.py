"""One attack on many predictions: bounds against every possible attack, on small problems."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from enumeration import all_labellings, scores_after
from real_data import german_credit
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline

from flipproof import Adversary, Assumption, CertifiedRidgeClassifier, LabelLinearClassifier
from flipproof.core import collective
from flipproof.core.collective import most_by_linear_programs, promising, solve
from flipproof.core.inequalities import (
    Changes,
    CollectiveAttack,
    VoteTable,
    gains_and_losses,
    gains_beyond,
    gains_only,
    proved_bound,
)
from flipproof.core.powers import Powers
from flipproof.learners import collective_certificates
from flipproof.learners.collective_certificates import collective_certify, vote_table

NO_HURRY = float("inf")


class Dictated(LabelLinearClassifier):
    """A learner whose test rows contain the weight of each training row, followed by the offsets."""

    def fit_without_labels(self, X):
        pass

    def label_free_weights(self, Z):
        n = len(self.label_codes_)
        return (Z[:, :n], Z[:, n:]) if Z.shape[1] > n else Z


class Neighbours(LabelLinearClassifier):
    """Sparse votes: the nearest votes 3, the second 2, the third -1."""

    def fit_without_labels(self, X):
        self._index = NearestNeighbors(n_neighbors=3).fit(X)

    def label_free_weights(self, Z):
        nearest = self._index.kneighbors(Z, return_distance=False)
        votes = np.tile([3.0, 2.0, -1.0], len(Z))
        rows = np.repeat(np.arange(len(Z)), 3)
        return csr_array((votes, (rows, nearest.ravel())), shape=(len(Z), len(self.label_codes_)))


def dictated(votes, y, K, offsets=None, precision=10):
    """Return a model that has these votes, and the test rows that dictate them."""
    Z = np.asarray(votes, dtype=float) if offsets is None else np.hstack([votes, offsets]).astype(float)
    return Dictated(classes=range(K), precision=precision).fit(np.zeros((len(y), Z.shape[1])), y), Z


def random_model(rng, kind):
    n, K, m = int(rng.integers(3, 7)), int(rng.integers(2, 4)), int(rng.integers(4, 7))
    y = rng.integers(K, size=n)
    if kind == "votes":
        votes = rng.integers(-4, 8, size=(m, n)) * rng.choice([1, 1, 50])
        offsets = rng.integers(-3, 3, size=(m, K)) if rng.random() < 0.5 else None
        model, Z = dictated(votes, y, K, offsets, precision=int(rng.choice([2, 4, 10])))
        return model, np.zeros((n, Z.shape[1])), y, Z, K
    X, Z = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    if kind == "ridge":
        precision = int(rng.choice([2, 4, 10, 24]))
        model = CertifiedRidgeClassifier(
            regularization=1.0, fit_intercept=bool(rng.random() < 0.5), precision=precision, classes=range(K)
        )
    else:
        model = Neighbours(classes=range(K))
    return model.fit(X, y), X, y, Z, K


def random_adversary(rng, y, K, with_groups):
    given = {}
    if rng.random() < 0.4:
        given["trusted"] = rng.random(len(y)) < 0.3
    if rng.random() < 0.4:
        pairs = [(a, b) for a in range(K) for b in range(K) if a != b]
        given["allowed"] = [pairs[i] for i in rng.permutation(len(pairs))[: rng.integers(1, len(pairs) + 1)]]
    if with_groups:
        given["groups"] = rng.integers(3, size=len(y))
    return Adversary(**given) if given else None


def possible_labellings(y, K, adversary, flips):
    """Every labelling that the adversary can make of y."""
    labellings = all_labellings(len(y), K)
    changed = labellings != y
    possible = np.ones(len(labellings), dtype=bool)
    cost = changed.sum(axis=1)
    if adversary is not None and adversary.trusted is not None:
        possible &= ~changed[:, adversary.trusted].any(axis=1)
    if adversary is not None and adversary.allowed is not None:
        for j, old in enumerate(y):
            allowed = [old, *(new for a, new in adversary.allowed if a == old)]
            possible &= np.isin(labellings[:, j], allowed)
    if adversary is not None and adversary.groups is not None:
        cost = np.stack([changed[:, adversary.groups == g].any(axis=1) for g in np.unique(adversary.groups)]).sum(
            axis=0
        )
    return labellings[possible & (cost <= flips)]


def lost_predictions(model, Z, labellings):
    """Whether each prediction (column) is lost under each labelling (row)."""
    alpha, offsets = model.vote_weights(Z)
    prediction = np.searchsorted(model.classes_, model.predict(Z))
    lost = np.zeros((len(labellings), len(Z)), dtype=bool)
    for i, c in enumerate(prediction):
        scores = scores_after(labellings, alpha[i], offsets[i])
        lost[:, i] = scores.argmax(axis=1) != c
    return lost


def problem_of(model, Z, flips, adversary=None):
    powers = model.powers(adversary)
    table = vote_table(model, np.asarray(Z, dtype=float), powers)
    return CollectiveAttack.on(table, min(flips, powers.scope.n_touchable))


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["votes", "ridge", "neighbours"])
@pytest.mark.parametrize("with_groups", [False, True])
def test_no_attack_changes_more_than_the_bound_and_one_changes_the_exact_number(kind, with_groups):
    rng = np.random.default_rng([0, with_groups])
    better = 0
    for _ in range(24 if kind == "votes" else 10):
        model, _, y, Z, K = random_model(rng, kind)
        adversary = random_adversary(rng, y, K, with_groups)
        flips = int(rng.integers(1, 4))
        most = lost_predictions(model, Z, possible_labellings(y, K, adversary, flips)).sum(axis=1).max()
        n_touchable = model.powers(adversary).scope.n_touchable
        bound = collective_certify(model, Z, flips, adversary=adversary)
        exact = collective_certify(model, Z, flips, adversary=adversary, method="exact")
        pointwise = np.count_nonzero(model.certify(Z, adversary=adversary).radius < min(flips, n_touchable))
        assert bound.pointwise_changed == exact.pointwise_changed == pointwise
        assert most <= bound.most_changed <= pointwise
        assert exact.most_changed == most
        better += bound.most_changed < pointwise
        attacked = y.copy()
        attacked[exact.rows] = exact.new_labels
        assert (possible_labellings(y, K, adversary, flips) == attacked).all(axis=1).any()
        assert lost_predictions(model, Z, attacked[None]).sum() == most
    assert better >= (2 if kind == "votes" else 0)


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["votes", "ridge", "neighbours"])
@pytest.mark.parametrize("with_groups", [False, True])
def test_no_attack_changes_more_predictions_of_a_group(kind, with_groups):
    rng = np.random.default_rng([7, with_groups])
    smaller = 0
    for _ in range(12):
        model, _, y, Z, K = random_model(rng, kind)
        adversary, flips = random_adversary(rng, y, K, with_groups), int(rng.integers(1, 4))
        names = rng.choice(["old", "young", "b"], size=len(Z))
        lost = lost_predictions(model, Z, possible_labellings(y, K, adversary, flips))
        bound, exact = (
            collective_certify(model, Z, flips, groups=names, adversary=adversary, method=method)
            for method in ("bound", "exact")
        )
        alone = collective_certify(model, Z, flips, adversary=adversary)
        assert list(bound.by_group) == sorted(set(names))
        assert lost.sum(axis=1).max() == exact.most_changed <= bound.most_changed <= alone.most_changed
        assert bound.pointwise_changed == alone.pointwise_changed
        for name, one in bound.by_group.items():
            most = lost[:, names == name].sum(axis=1).max()
            assert most == exact.by_group[name].most_changed <= one.most_changed <= one.pointwise_changed
            assert one.n_predictions == np.count_nonzero(names == name)
            smaller += one.most_changed < one.n_predictions
    assert smaller


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["votes", "ridge", "neighbours"])
def test_no_attack_changes_more_predictions_of_a_refitted_model(kind):
    rng = np.random.default_rng(1)
    for _ in range(3):
        model, X, y, Z, K = random_model(rng, kind)
        while len(y) > 4:
            model, X, y, Z, K = random_model(rng, kind)
        bounds = [collective_certify(model, Z, flips).most_changed for flips in range(4)]
        before = model.predict(Z)
        for attacked in all_labellings(len(y), K):
            flips = np.count_nonzero(attacked != y)
            if flips <= 3:
                changed = np.count_nonzero(model.fit(X, attacked).predict(Z) != before)
                assert all(changed <= bound for bound in bounds[flips:])


@pytest.mark.parametrize("with_groups", [False, True])
def test_every_attack_satisfies_every_inequality(with_groups):
    rng = np.random.default_rng([2, with_groups])
    compared = 0
    for _ in range(30):
        model, _, y, Z, K = random_model(rng, "votes")
        adversary = random_adversary(rng, y, K, with_groups)
        problem = problem_of(model, Z, int(rng.integers(1, 4)), adversary)
        changes = problem.changes
        n_pairs = len(problem.leads)
        kinds = [gains_only(problem), gains_and_losses(problem)]
        for _ in range(10):
            theta = rng.integers(0, 2 * np.abs(problem.gains).max(initial=1), size=n_pairs) // 2 ** rng.integers(6)
            free = rng.random((n_pairs, changes.n_units)) < rng.choice([0, 0.2, 0.5])
            kinds.append(gains_beyond(problem, theta, free))
        inequalities = kinds[0].and_also(*kinds[1:])
        for labelling in possible_labellings(y, K, adversary, problem.budget):
            x = (labelling[changes.label] == changes.new).astype(int)
            level = problem.gains @ x >= problem.leads
            units = np.isin(np.arange(changes.n_units), changes.unit[x == 1]).astype(int)
            columns = np.concatenate([x, units]) if problem.grouped else x
            left_side = inequalities.coefficients @ columns + inequalities.raised
            assert np.all(left_side >= inequalities.reach * level[inequalities.pair])
            compared += np.count_nonzero(level)
    assert compared > 500


@pytest.mark.few(1)
@pytest.mark.parametrize("with_groups", [False, True])
def test_any_multipliers_give_a_valid_bound(with_groups):
    rng = np.random.default_rng([3, with_groups])
    tight = 0
    for _ in range(20):
        model, _, y, Z, K = random_model(rng, "votes")
        adversary = random_adversary(rng, y, K, with_groups)
        problem = problem_of(model, Z, int(rng.integers(1, 3)), adversary)
        labellings = possible_labellings(y, K, adversary, problem.budget)
        most = lost_predictions(model, Z, labellings).sum(axis=1).max()
        tight += most == most_by_linear_programs(problem, NO_HURRY)
        inequalities = gains_only(problem).and_also(gains_and_losses(problem))
        found = solve(problem, inequalities, NO_HURRY)
        if found is not None:
            inequalities = inequalities.and_also(promising(problem, found, False), promising(problem, found, True))
        size = len(inequalities.pair)
        for _ in range(20):
            multipliers = rng.random(size) ** rng.choice([1, 4, 16]) * (rng.random(size) < 0.7)
            assert proved_bound(problem, inequalities, multipliers) >= most
        for wild in (np.nan, np.inf, -np.inf, -1.0, 1e300):
            assert proved_bound(problem, inequalities, np.where(rng.random(size) < 0.5, wild, 0.3)) >= most
    assert tight >= 5


@pytest.mark.few(1)
@pytest.mark.parametrize("grouped", [False, True])
def test_the_bound_is_evaluated_without_rounding(grouped):
    rng = np.random.default_rng(4)
    n = 400
    votes = rng.integers(-(2**20), 2**24, size=(30, n))
    y = rng.integers(3, size=n)
    model, Z = dictated(votes, y, 3)
    model.precision_ = 24
    problem = problem_of(model, Z, 5, Adversary(groups=np.arange(n) // 10) if grouped else None)
    inequalities = gains_only(problem).and_also(gains_and_losses(problem))
    multipliers = rng.random(len(inequalities.pair))
    got = proved_bound(problem, inequalities, multipliers)
    exponents = [Fraction(float(u)) / int(reach) for u, reach in zip(multipliers, inequalities.reach, strict=True)]
    values = [
        sum((t * int(a) for t, a in zip(exponents, column, strict=True)), Fraction())
        for column in inequalities.coefficients.T
    ]
    of_label, of_unit = {}, {}
    for value, label, unit in zip(values, problem.changes.label, problem.changes.unit, strict=False):
        of_label[label, unit] = max(of_label.get((label, unit), 0), value)
    for (_, unit), value in of_label.items():
        of_unit[unit] = of_unit.get(unit, 0) + value
    covered = [Fraction()] * len(problem.leads)
    for pair, t, reach in zip(inequalities.pair, exponents, inequalities.reach, strict=True):
        covered[pair] += t * int(reach)
    left = {}
    for point, share in zip(problem.point, covered, strict=True):
        left[point] = max(left.get(point, 0), 1 - share)
    raised = sum(t * int(r) for t, r in zip(exponents, inequalities.raised, strict=True))
    true = raised + sum(left.values()) + sum(sorted(of_unit.values())[-5:])
    # multipliers are rounded downward to a grid of about 50 bits, nothing else is
    assert abs(got - true) <= 1 + Fraction(1, 2**10)
    assert problem.gains.max() > 2**24


def test_disjoint_neighbourhoods_share_the_budget():
    # each test row depends on one separate label: r flips change r predictions, although every radius is 0
    model, Z = dictated(np.eye(8), np.zeros(8, dtype=int), 2)
    for flips in range(9):
        cert = collective_certify(model, Z, flips)
        assert cert.most_changed == flips
        assert cert.pointwise_changed == (8 if flips else 0)
        exact = collective_certify(model, Z, flips, method="exact")
        assert exact.most_changed == len(exact.rows) == flips
        assert exact.new_labels.tolist() == [1] * flips
        assert all(one.code != "solver-claim" for one in exact.assumptions)  # the bound proves it


def test_changes_that_raise_a_margin_count_against_the_attack():
    # a label that supports the first prediction opposes the second: no change lowers both margins
    votes = [[2, 2, 0, 0, 3], [-2, -2, 8, 0, 0]]
    model, Z = dictated(votes, [0, 0, 0, 1, 0], 2)
    assert collective_certify(model, Z, 2).pointwise_changed == 2
    assert (
        collective_certify(model, Z, 2, adversary=Adversary(trusted=[False, False, True, True, True])).most_changed <= 1
    )


def test_on_real_data_one_attack_changes_far_fewer_than_the_radii_allow():
    X, y = load_digits(return_X_y=True)
    kept = np.isin(y, (1, 7))
    X, Z, y, _ = train_test_split(X[kept], y[kept], test_size=0.5, random_state=0)
    model = CertifiedRidgeClassifier(regularization=10.0).fit(X, y)
    cert = collective_certify(model, Z, 6)
    assert cert.pointwise_changed >= 100
    assert best_attack_found(problem_of(model, Z, 6)) <= cert.most_changed <= 0.6 * cert.pointwise_changed
    assert cert.n_predictions == len(Z)


def test_ten_classes():
    X, y = load_digits(return_X_y=True)
    X, Z, y, _ = train_test_split(X, y, train_size=150, test_size=25, random_state=0)
    model = CertifiedRidgeClassifier(regularization=10.0).fit(X, y)
    cert = collective_certify(model, Z, 3)
    assert best_attack_found(problem_of(model, Z, 3)) <= cert.most_changed <= 0.75 * cert.pointwise_changed


def best_attack_found(problem, rounds=50):
    """Change the labels that do most on average, over random weights of the pairs: single changes only."""
    rng = np.random.default_rng(0)
    gains = problem.gains / problem.leads[:, None]
    best = 0
    for _ in range(rounds):
        weights = rng.random(len(gains)) ** 8
        value = weights @ gains
        first = problem.changes.first_of_label
        of_label = [start + np.argmax(part) for start, part in zip(first, np.split(value, first[1:]), strict=True)]
        taken = sorted(of_label, key=lambda t: -value[t])[: problem.budget]
        chosen = np.isin(np.arange(len(value)), taken)
        assert problem.is_possible(chosen)
        best = max(best, problem.changed_by(chosen))
    return best


def test_german_credit(data_dir):
    X, y = german_credit(data_dir)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = CertifiedRidgeClassifier().fit(X[:600], y[:600])
    cert = collective_certify(model, X[600:800], 5)
    assert best_attack_found(problem_of(model, X[600:800], 5)) <= cert.most_changed <= 0.5 * cert.pointwise_changed


@pytest.mark.slow
def test_two_hundred_predictions_from_two_thousand_labels():
    rng = np.random.default_rng(5)
    y = rng.integers(2, size=2000)
    X, Z = rng.normal(size=(2000, 20)), rng.normal(size=(200, 20))
    X[:, 0] += 2 * y
    Z[:, 0] += 1
    model = CertifiedRidgeClassifier().fit(X, y)
    cert = collective_certify(model, Z, 40)
    assert cert.most_changed < cert.pointwise_changed


def test_each_kind_of_inequality_helps_somewhere():
    rng = np.random.default_rng(6)
    helped = np.zeros(3, dtype=int)
    for _ in range(12):
        votes = rng.integers(-10, 14, size=(12, 14))
        model, Z = dictated(votes, rng.integers(2, size=14), 2)
        problem = problem_of(model, Z, 3)
        plain = gains_only(problem)
        found = solve(problem, plain, NO_HURRY)
        if found is None:
            continue
        value = found.b.sum()
        for kind, more in enumerate(
            [gains_and_losses(problem), promising(problem, found, False), promising(problem, found, True)]
        ):
            helped[kind] += solve(problem, plain.and_also(more), NO_HURRY).b.sum() < value - 1e-6
    assert np.all(helped >= 2)


def test_bounds_of_parts_add_up_and_stay_valid(monkeypatch):
    rng = np.random.default_rng(7)
    for _ in range(8):
        model, _, y, Z, K = random_model(rng, "votes")
        whole = collective_certify(model, Z, 2)
        most = lost_predictions(model, Z, possible_labellings(y, K, None, 2)).sum(axis=1).max()
        for size in (1, 3 * len(y) * (K - 1)):
            with monkeypatch.context() as patch:
                patch.setattr(collective_certificates, "MOST_GAINS", size)
                parts = collective_certify(model, Z, 2)
            assert most <= parts.most_changed <= whole.pointwise_changed == parts.pointwise_changed
            if size == 1:
                assert parts.most_changed == parts.pointwise_changed


def test_a_failing_or_wrong_solver_only_costs_tightness(monkeypatch):
    rng = np.random.default_rng(8)
    for _ in range(10):
        model, _, y, Z, K = random_model(rng, "votes")
        most = lost_predictions(model, Z, possible_labellings(y, K, None, 2)).sum(axis=1).max()

        def lies(aim, matrix, upper, rng=rng, **_):
            marginals = -rng.exponential(size=len(upper)) * rng.choice([0.1, 1, 10])
            return SimpleNamespace(
                status=0, x=rng.random(len(aim)), fun=0.0, ineqlin=SimpleNamespace(marginals=marginals)
            )

        for solver in (lies, lambda *_, **__: SimpleNamespace(status=1, x=None)):
            with monkeypatch.context() as patch:
                patch.setattr(collective, "linprog", solver)
                cert = collective_certify(model, Z, 2)
            assert most <= cert.most_changed <= cert.pointwise_changed
            if solver is not lies:
                assert cert.most_changed == cert.pointwise_changed


def test_without_time_the_bound_follows_from_the_radii():
    model, Z = dictated(np.eye(8), np.zeros(8, dtype=int), 2)
    assert collective_certify(model, Z, 3, time_limit=1e-9).most_changed == 8


def test_an_interrupted_exact_search_is_reported(monkeypatch):
    votes = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])  # two of three change with one flip; fractions say more
    model, Z = dictated(votes, [1, 1, 1], 2)
    full = collective_certify(model, Z, 1, method="exact")
    assert full.most_changed == 2
    nothing = SimpleNamespace(x=None, mip_dual_bound=None, status=1)
    with monkeypatch.context() as patch:
        patch.setattr(collective, "milp", lambda *_, **__: nothing)
        cut = collective_certify(model, Z, 1, method="exact")
    assert cut.most_changed >= 2
    assert cut.rows.size == 0
    assert Assumption("solver-stopped", {"n_changed": 0, "ran_out_of_time": True}) in cut.assumptions


def test_ties_and_budgets_at_the_ends():
    # the first row is tied and takes one change, the second takes both of its labels, the third cannot be changed
    model, Z = dictated([[1, 1, 0, 0], [0, 0, 5, 5], [1, 1, 1, 1]], [0, 1, 0, 0], 2, [[0, 0], [0, 0], [900, 0]])
    for method in ("bound", "exact"):
        most = [collective_certify(model, Z, flips, method=method).most_changed for flips in (0, 1, 2, 3, 100)]
        assert most == [0, 1, 1, 2, 2]
    nobody = Adversary(trusted=np.ones(4, dtype=bool))
    assert collective_certify(model, Z, 3, adversary=nobody, method="exact").most_changed == 0


def test_only_possible_changes_count():
    model, Z = dictated(np.eye(4), [0, 1, 0, 1], 2)
    assert collective_certify(model, Z, 4, adversary=Adversary(allowed=[(0, 1)])).most_changed == 2
    assert collective_certify(model, Z, 4, adversary=Adversary(trusted=[True, True, True, False])).most_changed == 1
    annotators = Adversary(groups=["ann", "ann", "bob", "ann"])
    cert = collective_certify(model, Z, 1, adversary=annotators)
    assert cert.most_changed == 3
    assert cert.pointwise_changed == 4
    assert cert.adversary is annotators
    assert repr(cert) == "<CollectiveCertificate: any 1 malicious annotator changes at most 3 of 4 predictions>"


def test_representation_and_attributes():
    model, Z = dictated(np.eye(4), [0, 1, 0, 1], 2)
    cert = collective_certify(model, Z, np.int64(2))
    assert repr(cert) == "<CollectiveCertificate: any 2 changed labels change at most 2 of 4 predictions>"
    assert (cert.flips, cert.n_predictions, cert.method, cert.unit) == (2, 4, "bound", "labels")
    assert cert.rows is None
    assert cert.new_labels is None
    assert cert.assumptions == (*model.certify(Z).assumptions, Assumption("one-attack"))


def test_labels_of_any_type():
    model = Dictated().fit(np.zeros((3, 3)), ["ham", "ham", "spam"])
    cert = collective_certify(model, np.eye(3), 1, method="exact")
    assert cert.most_changed == 1
    assert set(cert.new_labels) <= {"ham", "spam"}


def test_groups_that_are_not_one_per_test_row_are_refused():
    model, Z = dictated([[1, 2], [3, -1]], [0, 1], 2)
    for groups in (["a"], [["a", "b"]], "ab"):
        with pytest.raises(ValueError, match=r"groups must|one entry per test row"):
            collective_certify(model, Z, 1, groups=groups)
    with pytest.raises(ValueError, match="name to every test row"):
        collective_certify(model, Z, 1, groups=["a", None])


def test_bad_input():
    model, Z = dictated(np.eye(3), [0, 1, 0], 2)
    for flips in (-1, 1.0, True, "2", None, [1]):
        with pytest.raises(ValueError, match=r"'flips' parameter .* integer of at least 0"):
            collective_certify(model, Z, flips)
    for method in ("tight", None, 3):
        with pytest.raises(ValueError, match=r"'method' parameter .* 'bound' or 'exact'"):
            collective_certify(model, Z, 1, method=method)
    for limit in (0, -1, "10", None, True, np.nan):
        with pytest.raises(ValueError, match=r"'time_limit' parameter .* above 0"):
            collective_certify(model, Z, 1, time_limit=limit)
    foreign = DummyClassifier().fit(np.zeros((2, 1)), [0, 1])
    with pytest.raises(ValueError, match=r"label-linear learner of flipproof.*Got DummyClassifier\(\) instead\.$"):
        collective_certify(foreign, Z, 1)
    with pytest.raises(ValueError, match=r"Got Pipeline\(.*\) instead: give its last step"):
        collective_certify(make_pipeline(model), Z, 1)
    with pytest.raises(ValueError, match=r"adversary must be a flipproof\.Adversary"):
        collective_certify(model, Z, 1, adversary="me")


def test_exact_refuses_problems_that_are_too_large(monkeypatch):
    model, Z = dictated(np.eye(6), np.zeros(6, dtype=int), 2)
    monkeypatch.setattr(collective_certificates, "MOST_GAINS", 12)
    with pytest.raises(ValueError, match="'exact' of collective_certify is for small cases"):
        collective_certify(model, Z, 1, method="exact")


def test_the_smallest_gain_counts_and_useless_changes_are_left_out():
    powers = Powers(np.array([False, True]), ~np.eye(3, dtype=bool), None)
    problem = CollectiveAttack.on(VoteTable(np.ones((1, 2)), np.array([[1, 1, 0]]), np.array([1, 2]), powers), 1)
    assert (problem.gains.tolist(), problem.leads.tolist()) == ([[1]], [1])
    assert (problem.changes.label.tolist(), problem.changes.new.tolist()) == ([1], [0])
    assert problem.changed_by(np.array([True])) == 1


def test_changes_are_listed_by_unit_and_label():
    model, _ = dictated(np.eye(4), [0, 1, 2, 0], 3)
    powers = model.powers(Adversary(groups=[7, 3, 7, 3], allowed=[(0, 1), (0, 2), (2, 0)]))
    changes = Changes.within(powers, model.label_codes_)
    assert changes.unit.tolist() == [0, 0, 1, 1, 1]
    assert changes.label.tolist() == [3, 3, 0, 0, 2]
    assert changes.new.tolist() == [1, 2, 1, 2, 0]
    assert changes.most_labels == 2
    assert changes.of_units(np.array([1, 5, -2, -3, 4])).tolist() == [5, 4]
