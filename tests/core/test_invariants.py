"""Invariants of every result: each check detects its violation, and weights that are not finite are refused."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from flipproof import Adversary, CertifiedPartitionClassifier, CertifiedRidgeClassifier, LabelLinearClassifier
from flipproof.cli.group import run
from flipproof.core import engine
from flipproof.core.invariants import InvariantError, check_certificates, check_counts, check_votes, check_winners
from flipproof.core.votes import DenseVotes, ProductVotes, SparseVotes, dense_votes, sparse_votes
from flipproof.streaming import StreamingRidgeClassifier as RidgeInBlocks

METHODS = ("exact", "tight", "kl")
GOOD = {
    "winner": np.array([0, 1]),
    "rival": np.array([1, 2]),
    "radius": np.array([0, 5]),
    "margin": np.array([0, 7]),
    "log_failure": np.array([np.nan, -3.0]),
    "most": 5,
}


def test_good_certificates_pass():
    check_certificates(**GOOD)


@pytest.mark.parametrize(
    "broken",
    [
        {"radius": np.array([0, 6])},
        {"radius": np.array([-1, 5])},
        {"radius": np.array([0, np.iinfo(np.int64).max])},
        {"rival": np.array([1, 1])},
        {"margin": np.array([0, -1])},
        {"log_failure": np.array([0.1, -3.0])},
    ],
    ids=str,
)
def test_impossible_certificates_are_refused(broken):
    with pytest.raises(InvariantError, match=r"contradicts itself.*please report it"):
        check_certificates(**GOOD | broken)


def test_a_winner_that_is_behind_is_detected():
    check_winners(np.array([[0, 1, 5]]), np.array([0]))
    with pytest.raises(InvariantError, match="highest score"):
        check_winners(np.array([[0, 0, 5]]), np.array([0]))


def test_votes_counted_for_another_class_are_detected():
    check_counts(np.array([[3, 2], [3, 2]]), 5)
    with pytest.raises(InvariantError, match="counted as another's"):
        check_counts(np.array([[3, 2], [4, 1]]), 5)
    with pytest.raises(InvariantError, match="5 of 6 votes"):
        check_counts(np.array([[3, 2], [3, 2]]), 6)
    check_counts(np.zeros((0, 2), dtype=int), 6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "make",
    [
        lambda weights: dense_votes(weights, 10),
        lambda weights: sparse_votes(csr_array(weights), 10, 4),
        lambda weights: DenseVotes(weights, np.zeros(2, dtype=int)),
        lambda weights: SparseVotes(csr_array(weights), np.zeros(2, dtype=int), 4),
        lambda weights: ProductVotes(weights, np.ones((3, 4), dtype=np.float32), np.zeros(2, dtype=int)),
    ],
    ids=["dense weights", "sparse weights", "dense votes", "sparse votes", "products"],
)
def test_weights_that_are_not_finite_are_refused(make, bad):
    weights = np.arange(8.0).reshape(2, 4)
    make(weights)
    weights[1, 2] = bad
    with pytest.raises(ValueError, match=r"must be finite. Got NaN or infinity.*Rescale"):
        make(weights)


def test_votes_of_too_many_bits_are_detected():
    check_votes(np.array([2.0**10 - 1, -(2.0**10 - 1)]), 10)
    for beyond in (2.0**10, -(2.0**10)):
        with pytest.raises(InvariantError, match="more than 10 bits"):
            check_votes(np.array([0.0, beyond]), 10)
    check_votes(np.zeros((0, 3)), 10)


class NotANumber(LabelLinearClassifier):
    """A learner whose weights pass the checks of single rows."""

    def fit_without_labels(self, X):
        pass

    def label_free_votes(self, Z, held):
        return dense_votes(np.full((len(Z), self.n_rows_), np.nan), self.precision_)


def test_every_method_refuses_nan_votes():
    model = NotANumber(classes=[0, 1]).fit(np.zeros((4, 1)), [0, 1, 0, 1])
    calls = [lambda method=method: model.certify([[0.0]], method) for method in METHODS]
    for call in [*calls, lambda: model.predict([[0.0]]), lambda: model.vote_weights([[0.0]])]:
        with pytest.raises(ValueError, match="must be finite"):
            call()


def blobs(n=60):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 3)) + 3 * np.eye(3)[y], y


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("learner", "method"),
    [
        *[(learner, method) for learner in ("ridge", "blocks") for method in (*METHODS, "groups")],
        ("partition", "gap"),
        ("partition", "groups"),
    ],
)
def test_every_learner_checks_its_radii(learner, method, monkeypatch):
    """No learner or method returns a radius above the number of labels."""
    X, y = blobs()
    model = {
        "ridge": lambda: CertifiedRidgeClassifier(classes=range(3)).fit(X, y),
        "blocks": lambda: RidgeInBlocks(classes=range(3)).fit([(X[:25], y[:25]), (X[25:], y[25:])]),
        "partition": lambda: CertifiedPartitionClassifier(n_partitions=5, classes=range(3)).fit(X, y),
    }[learner]()
    given = None if method == "groups" else method
    adversary = Adversary(groups=np.arange(len(y)) % 7) if method == "groups" else None
    model.certify(X[:4], given, adversary)
    too_large = lambda *_: np.full(4, 10**6)  # noqa: E731
    monkeypatch.setattr(engine, "radius_from_flips", too_large)
    monkeypatch.setattr(engine, "deployed_radius", too_large)
    with pytest.raises(InvariantError, match=r"a radius is (above|negative)"):
        model.certify(X[:4], given, adversary)


def test_disagreement_of_certify_and_predict_is_detected(monkeypatch):
    X, y = blobs()
    model = CertifiedRidgeClassifier(classes=range(3)).fit(X, y)
    monkeypatch.setattr(engine, "winners", lambda scores: np.argsort(scores, axis=1)[:, 1])
    with pytest.raises(InvariantError, match="highest score"):
        model.certify(X[:4])
    monkeypatch.undo()
    labels = replace(model._rule.labels, sums=model._rule.labels.sums[:, ::-1])
    model._rule = replace(model._rule, labels=labels)  # what predict goes by
    with pytest.raises(InvariantError, match="certify and predict"):
        model.certify(X[:4])


def test_the_command_reports_a_bug(tmp_path, monkeypatch, capsys):
    X, y = blobs()
    file = tmp_path / "rows.csv"
    rows = [f"{a},{b},{c},{label}" for (a, b, c), label in zip(X, y, strict=True)]
    file.write_text("\n".join(["a,b,c,y", *rows]))
    monkeypatch.setattr(engine, "radius_from_flips", lambda flips, n: np.full_like(flips, -5))
    assert run(["certify", "--train", str(file), "--holdout", "0.2", "--label", "y", "--quiet"]) == 70
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "This is a bug in flipproof" in said
