"""Label spreading on a given graph: every attack by refits, the closed form, other formats, what is refused."""

import numpy as np
import pytest
from enumeration import possible_attacks, random_powers
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix, dok_array
from sklearn.base import clone

import flipproof
from flipproof import Adversary, Assumption, CertifiedPropagationClassifier, CertifiedRidgeClassifier
from flipproof.attacks import worst_flips
from flipproof.features import GraphFeatures
from flipproof.learners import propagation
from flipproof.learners.propagation import WEIGHT_LEVELS, Graph
from flipproof_verify import verify

METHODS = ("exact", "tight", "kl")


def random_graph(rng, n, weighted):
    """A symmetric matrix; some nodes have no edge, some an edge to themselves."""
    weights = rng.random((n, n)) ** 3 * 10.0 ** rng.integers(-6, 6) if weighted else np.ones((n, n))
    half = np.triu(weights * (rng.random((n, n)) < rng.choice([0.2, 0.5])), k=0)
    graph = half + np.triu(half, 1).T
    graph[0, 1] = graph[1, 0] = weights[0, 1]
    return graph


def random_model(rng, n):
    graph, K = random_graph(rng, n, rng.random() < 0.5), int(rng.integers(2, 4))
    common = {
        "precision": int(rng.choice([2, 6, 10, 24])),
        "classes": range(K),
        "clip": rng.choice([None, 0.5, "sign"]),
    }
    common["clip"] = float(common["clip"]) if common["clip"] == 0.5 else common["clip"]
    if rng.random() < 0.3:
        step = GraphFeatures(csr_array(graph), rng.normal(size=(n, 2)), hops=int(rng.integers(3)))
        return CertifiedRidgeClassifier(features=step, **common), K
    alpha, rule = float(rng.choice([0.1, 0.5, 0.9, 0.99])), str(rng.choice(["spreading", "poisson"]))
    return CertifiedPropagationClassifier(alpha=alpha, rule=rule, graph=csr_array(graph), **common), K


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("way", ["each label", "each test row"])
def test_refits_on_every_attack_change_no_certified_prediction_and_one_more_change_does(seed, way, monkeypatch):
    monkeypatch.setattr(propagation, "MOST_KEPT", 2**24 if way == "each label" else 0)
    rng = np.random.default_rng(seed)
    n_attained = 0
    for _ in range(4):
        n = int(rng.integers(5, 9))
        model, K = random_model(rng, n)
        nodes, tested = rng.permutation(n)[: int(rng.integers(2, 5))], np.arange(n)
        y, powers = rng.integers(K, size=len(nodes)), random_powers(rng, len(nodes), K)
        adversary = Adversary(**powers)
        certificates = model.fit(nodes, y).certify(tested, adversary=adversary)
        others = [model.certify(tested, method, adversary) for method in ("tight", "kl")]
        labellings, cost = possible_attacks(y, K, **powers)
        predicted = np.array([clone(model).fit(nodes, labels).predict(tested) for labels in labellings])
        for i, prediction in enumerate(certificates.prediction):
            is_changed = predicted[:, i] != prediction
            needed = cost[is_changed].min() if is_changed.any() else np.inf
            for certificate in (certificates, *others):
                assert certificate.prediction[i] == prediction
                assert certificate.radius[i] < needed
            if np.isfinite(needed):
                assert certificates.radius[i] == needed - 1
                n_attained += 1
    assert n_attained


def test_it_is_label_spreading_itself():
    rng = np.random.default_rng(0)
    graph = random_graph(rng, 30, weighted=False)
    np.fill_diagonal(graph, 0)
    graph[0, 1:] = graph[1:, 0] = 1
    degree = graph.sum(axis=1)
    spread = np.linalg.inv(np.eye(30) - 0.8 * graph / np.sqrt(np.outer(degree, degree)))
    nodes, tested = np.arange(0, 30, 3), np.arange(30)
    model = CertifiedPropagationClassifier(alpha=0.8, graph=graph, precision=24, classes=[0, 1])
    weights, offsets = model.fit(nodes, nodes % 2).vote_weights(tested)
    np.testing.assert_allclose(weights, spread[:, nodes], rtol=1e-4)
    assert not offsets.any()
    expected = np.argmax(spread[:, nodes] @ np.eye(2)[nodes % 2], axis=1)
    np.testing.assert_array_equal(model.predict(tested), expected)
    poisson, _ = clone(model).set_params(rule="poisson").fit(nodes, nodes % 2).vote_weights(tested)
    u = spread / np.sqrt(np.outer(degree, degree))
    np.testing.assert_allclose(poisson, u[:, nodes] - u[:, nodes].mean(axis=1, keepdims=True), atol=1e-5)


def test_formats_of_the_graph_and_of_nodes_do_not_matter():
    graph = random_graph(np.random.default_rng(1), 12, weighted=True)
    nodes, y, tested = [7, 2, 9, 4], ["a", "b", "a", "b"], [0, 11, 2, 5]
    expected = CertifiedPropagationClassifier(graph=graph).fit(nodes, y).certify(tested)
    lines, columns = np.nonzero(graph)
    shuffled = np.random.default_rng(2).permutation(len(lines))
    in_other_order = coo_array((graph[lines, columns][shuffled], (lines[shuffled], columns[shuffled])), shape=(12, 12))
    graphs = [csr_array(graph), csc_array(graph), csr_matrix(graph), dok_array(graph), in_other_order, 4.0 * graph]
    for other in graphs:
        found = CertifiedPropagationClassifier(graph=other).fit(np.array(nodes)[:, None], y).certify(np.array(tested))
        np.testing.assert_array_equal(found.radius, expected.radius)
        np.testing.assert_array_equal(found.margin / found.margin.max(), expected.margin / expected.margin.max())
    model = CertifiedPropagationClassifier(graph=graph)
    by_mask = model.fit(
        np.arange(12), [y[nodes.index(i)] if i in nodes else None for i in range(12)], ~np.isin(np.arange(12), nodes)
    )
    np.testing.assert_array_equal(by_mask.certify(tested).radius, expected.radius)


def test_the_graph_is_as_it_was_at_the_fit():
    graph = csr_array(random_graph(np.random.default_rng(1), 12, weighted=True))
    for model in (
        CertifiedPropagationClassifier(graph=graph, classes=[0, 1]),
        CertifiedRidgeClassifier(features=GraphFeatures(graph, graph), classes=[0, 1]),
    ):
        expected = model.fit([0, 1, 2], [0, 1, 1]).vote_weights([3, 4])[0]
        graph.data *= np.arange(graph.nnz)
        np.testing.assert_array_equal(model.vote_weights([3, 4])[0], expected)
        graph.data[:] = 1


def test_labels_change_no_weight_and_permuted_nodes_give_the_same_votes():
    rng = np.random.default_rng(4)
    graph, order = random_graph(rng, 20, weighted=True), rng.permutation(20)
    nodes, y, tested = np.arange(8), np.arange(8) % 3, np.arange(8, 20)
    model = CertifiedPropagationClassifier(graph=graph, classes=range(3))
    weights = model.fit(nodes, y).vote_weights(tested)[0]
    np.testing.assert_array_equal(model.fit(nodes, np.roll(y, 1)).vote_weights(tested)[0], weights)
    place = np.argsort(order)
    permuted = CertifiedPropagationClassifier(graph=graph[np.ix_(order, order)], classes=range(3))
    np.testing.assert_array_equal(permuted.fit(place[nodes], y).vote_weights(place[tested])[0], weights)


def test_a_node_without_edges_is_reached_by_its_own_label_only():
    graph = np.zeros((5, 5))
    graph[0, 1] = graph[1, 0] = 1
    model = CertifiedPropagationClassifier(graph=graph, classes=["a", "b"]).fit([1, 2], ["b", "b"])
    certificates = model.certify([0, 2, 3])
    np.testing.assert_array_equal(certificates.prediction, ["b", "b", "a"])
    np.testing.assert_array_equal(certificates.radius, [0, 0, 2])  # no label reaches node 3: nothing can change it


def test_weights_are_rounded_up_to_levels_and_sums_stay_exact():
    half = np.triu(np.random.default_rng(0).random((40, 40)) ** 8 * 1e300, 1)
    graph = Graph.of_weights(csr_array(half + half.T), 0.99)
    levels = graph.adjacency.data
    assert levels.min() == 1
    assert levels.max() == WEIGHT_LEVELS
    assert np.array_equal(levels, np.rint(levels))
    counts = Graph.of_weights(csr_array(np.array([[0, 3.0], [3.0, 7.0]])), 0.5)
    np.testing.assert_array_equal(counts.adjacency.toarray(), [[0, 3], [3, 7]])
    sets = propagation._indicator(np.arange(40)[:, None], 40).T
    expected = np.linalg.inv(np.diag(graph.degree) - 0.99 * graph.adjacency.toarray())
    solved = graph.solve(sets) * 2.0**-graph.bits
    assert np.abs(solved - expected).max() <= 1e-5 * expected.max()
    largest = (graph.adjacency @ np.abs(graph.solve(sets))).max()
    assert largest <= 2.0**53


def test_certificates_say_that_the_graph_is_fixed_and_files_are_verified(tmp_path):
    graph = csc_array(random_graph(np.random.default_rng(1), 12, weighted=False).astype(int))
    n_edges = int(np.triu(graph.toarray()).sum())
    nodes, tested = [0, 1, 5, 6], [2, 3, 11]
    for number, model in enumerate(
        [
            CertifiedPropagationClassifier(graph=graph, classes=[0, 1]),
            CertifiedRidgeClassifier(features=GraphFeatures(graph, np.eye(12)), classes=[0, 1]),
        ]
    ):
        certificates = model.fit(nodes, [0, 1, 0, 1]).certify(tested)
        assert Assumption("graph-fixed", {"n_nodes": 12, "n_edges": n_edges}) in certificates.assumptions
        flipproof.save(model, tmp_path / f"m{number}.flipproof")
        again = flipproof.load(tmp_path / f"m{number}.flipproof").certify(tested)
        np.testing.assert_array_equal(again.radius, certificates.radius)
        assert again.assumptions == certificates.assumptions
        proof = tmp_path / f"c{number}.flipproof"
        certificates.save(proof, model=model, X_test=tested)
        assert str(verify(proof).verdict).endswith("VERIFIED")
        attack = worst_flips(model, tested)
        np.testing.assert_array_equal(attack.flips_needed[attack.success], certificates.radius[attack.success] + 1)


def bad_graph(**changes):
    graph = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
    for place, value in changes.items():
        graph[int(place[1]), int(place[2])] = value
    return graph


BAD_GRAPHS = {
    "not square": (np.ones((3, 2)), r"Got the shape \(3, 2\)"),
    "one dimension": (np.ones(3), r"Got the shape \(3,\)"),
    "a list": ([[0, 1], [1, 0]], "Got a list .* SciPy sparse"),
    "words": (np.array([["a", "b"], ["b", "a"]]), "type <U1"),
    "NaN": (bad_graph(_01=np.nan, _10=np.nan), "NaN or infinite"),
    "infinite": (csr_array(bad_graph(_01=np.inf, _10=np.inf)), "NaN or infinite"),
    "negative": (csr_array(bad_graph(_01=-1, _10=-1)), "a negative weight"),
    "directed": (csr_array(bad_graph(_02=1)), r"1 from node 0 to node 2 and 0 back .*graph\.maximum\(graph\.T\)"),
    "other weights back": (bad_graph(_12=3), "3 from node 1 to node 2 and 2 back"),
    "no edge": (csr_array((3, 3)), "a graph without edges"),
    "complex": (np.eye(3) * 1j, "type complex128"),
    "masked": (np.ma.masked_equal(bad_graph(), 2), "masked"),
}


@pytest.mark.parametrize("name", BAD_GRAPHS)
def test_bad_graphs_are_refused_in_one_line(name):
    graph, message = BAD_GRAPHS[name]
    for model in (
        CertifiedPropagationClassifier(graph=graph),
        CertifiedRidgeClassifier(features=GraphFeatures(graph, np.eye(3))),
    ):
        with pytest.raises(ValueError, match=f"'graph' parameter of .*{message}") as error:
            model.fit([0, 1], [0, 1])
        assert len(str(error.value).splitlines()) == 1


BAD_NODES = {
    "too large": ([0, 3], "from 0 to 2.* Got 3 instead"),
    "negative": ([0, -1], "Got -1 instead"),
    "fractions": ([0, 0.5], "Got 0.5 instead"),
    "NaN": ([0, np.nan], "Got nan instead"),
    "infinite": ([0, np.inf], "Got inf instead"),
    "booleans": ([True, False], "type bool"),
    "words": (["0", "1"], "type <U1"),
    "two columns": ([[0, 1], [1, 2]], "2 columns|has 2 features"),
    "features": (np.ones((2, 4)), "4 columns|has 4 features"),
    "none": (np.array([]), "Got no nodes"),
    "sparse": (csr_array((2, 1)), "sparse"),
    "uneven lists": ([[0], [1, 2]], "Got"),
    "None": ([None, 1], "Got|type"),
}


@pytest.mark.parametrize("name", BAD_NODES)
def test_bad_nodes_are_refused_in_one_line(name):
    nodes, message = BAD_NODES[name]
    for model in (
        CertifiedPropagationClassifier(graph=bad_graph(), classes=[0, 1]),
        CertifiedRidgeClassifier(features=GraphFeatures(bad_graph(), np.eye(3)), classes=[0, 1]),
    ):
        with pytest.raises(ValueError, match=message) as error:
            model.fit(nodes, [0, 1][: nodes.shape[0] if hasattr(nodes, "shape") else 2])
        assert len(str(error.value).splitlines()) == 1
        model.fit([0, 1], [0, 1])
        with pytest.raises(ValueError, match=message) as error:
            model.certify(nodes)
        assert len(str(error.value).splitlines()) == 1


def test_features_beside_a_graph_are_refused():
    model = CertifiedPropagationClassifier(graph=bad_graph(), features=GraphFeatures(bad_graph(), np.eye(3)))
    with pytest.raises(ValueError, match=r"'features' .* None with a given graph"):
        model.fit([0, 1], [0, 1])


BAD_FEATURES = {
    "other nodes": (np.eye(4), "row for each of the 3 nodes.* 4 x 4"),
    "one dimension": (np.ones(3), "an array of 3"),
    "no columns": (np.ones((3, 0)), "3 x 0"),
    "NaN": (np.full((3, 2), np.nan), "NaN"),
    "sparse NaN": (csr_array(np.full((3, 2), np.nan)), "NaN"),
    "words": (np.array([["a"]] * 3), "type <U1"),
    "missing": (None, "NoneType"),
}


@pytest.mark.parametrize("name", BAD_FEATURES)
def test_bad_features_of_nodes_are_refused_in_one_line(name):
    given, message = BAD_FEATURES[name]
    with pytest.raises(ValueError, match=f"'node_features' .*{message}") as error:
        GraphFeatures(bad_graph(), given).fit([0, 1])
    assert len(str(error.value).splitlines()) == 1
    with pytest.raises(ValueError, match=r"'hops' .* at least 0. Got -1"):
        GraphFeatures(bad_graph(), np.eye(3), hops=-1).fit([0])


@pytest.mark.parametrize("sparse", [False, True])
def test_graph_features_are_the_normalised_adjacency_to_a_power(sparse):
    rng = np.random.default_rng(0)
    graph, given = random_graph(rng, 15, weighted=True), rng.normal(size=(15, 4)) * (rng.random((15, 4)) < 0.5)
    loops = graph + np.eye(15)
    root = np.diag(loops.sum(axis=1) ** -0.5)
    step = GraphFeatures(csr_array(graph) if sparse else graph, csr_array(given) if sparse else given, hops=3).fit()
    nodes = [4, 0, 4]
    np.testing.assert_allclose(step.transform(nodes), (np.linalg.matrix_power(root @ loops @ root, 3) @ given)[nodes])
    np.testing.assert_array_equal(GraphFeatures(graph, given, hops=0).fit_transform(nodes), given[nodes])
    assert len(step.get_feature_names_out()) == 4


def test_changed_rows_are_refused_with_a_remedy_that_exists():
    edges = np.eye(6)[[1, 2, 3, 4, 5, 0]]
    model = CertifiedPropagationClassifier(graph=edges + edges.T, classes=[0, 1]).fit(np.arange(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="covers changed labels only") as caught:
        model.certify([4], adversary=Adversary(changes="rows"))
    assert "reference" not in str(caught.value)
