"""The second program accepts honest certificate files, and refutes or refuses broken ones for their own reasons."""

import ast
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from golden import record
from tiers import mostly_slow

import flipproof_verify
from flipproof import Adversary, Annotations, CertifiedRidgeClassifier
from flipproof_verify import REFUTED, VERIFIED, UnreadableFileError, verify
from verifier import mutants_noticed
from verifier.broken_files import BROKEN, BROKEN_BYTES, CORPUS, broken_file, honest_files
from verifier.proof_boxes import Box
from verifier.random_numbers import check_intervals, intervals_of
from verifier.random_proofs import check

INDEX = json.loads((CORPUS / "index.json").read_text())


def verdict_and_reasons(path):
    try:
        found = verify(path)
    except UnreadableFileError as error:
        return None, {error.reason}
    return found.verdict, {reason for _, reason in found.reasons.values()}


@pytest.fixture(scope="module")
def fresh_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("honest")
    honest_files(folder)
    return folder


@pytest.mark.few(5)
@pytest.mark.parametrize("name", INDEX["honest"])
def test_honest_files_are_verified(name, fresh_files):
    for folder in (CORPUS, fresh_files):
        assert verify(folder / f"{name}.flipproof").verdict == VERIFIED


@pytest.mark.few(32)
@pytest.mark.parametrize("name", INDEX["broken"])
def test_broken_files_are_refuted_or_refused_for_their_own_reason(name):
    verdict, reasons = verdict_and_reasons(CORPUS / f"broken-{name}.flipproof")
    assert verdict != VERIFIED
    assert INDEX["broken"][name] in reasons


def test_the_corpus_holds_every_broken_file():
    assert INDEX["broken"] == {name: case[2] for name, case in (BROKEN | BROKEN_BYTES).items()}


@pytest.mark.parametrize("name", mostly_slow(list(BROKEN | BROKEN_BYTES), fast=(0, 1)))
def test_files_of_this_version_break_in_the_same_way(name, fresh_files, tmp_path):
    path = tmp_path / "broken.flipproof"
    path.write_bytes(broken_file(name, fresh_files))
    verdict, reasons = verdict_and_reasons(path)
    assert verdict != VERIFIED
    assert INDEX["broken"][name] in reasons


@pytest.mark.parametrize("first", mostly_slow(range(0, 200, 20), fast=(0,)))
def test_random_problems_are_verified_and_larger_radii_refuted(first, tmp_path):
    counted = sum((check(seed, tmp_path) for seed in range(first, first + 20)), start=check(first, tmp_path))
    assert counted["verified"] > 20
    assert counted["refuted"] > 5


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["a tie always overturns", "a bound is rounded down instead of up", "a tie never overturns"]
)
def test_a_mistake_of_the_prover_is_noticed_where_it_is_recorded(name):
    (mutant,) = (one for one in mutants_noticed.mutants() if one["name"] == name)
    seed = mutants_noticed.recorded()[name]["noticed_at"]
    assert mutants_noticed.tried(mutant, seed, 1)["noticed_at"] == seed


@pytest.mark.slow
def test_without_a_mistake_nothing_is_noticed():
    found = mutants_noticed.checked(mutants_noticed.ROOT / "src", 0, 80)
    assert (found["noticed_at"], found["n_stopped"]) == (None, 0)


def test_the_results_are_about_known_mutants():
    """Those whose edit has changed since are tried again when the results are recorded the next time."""
    recorded = mutants_noticed.recorded()
    assert set(recorded) <= {one["name"] for one in mutants_noticed.mutants()}
    for name, result in recorded.items():
        verdict = mutants_noticed.verdict_of(name, result)
        assert verdict is not None, name
        assert (name in mutants_noticed.UNNOTICED) == (verdict in mutants_noticed.REASONS), name
        if verdict in mutants_noticed.NO_FILE_CHANGES:
            assert result["n_other_files"] == 0, name


def test_the_page_says_how_many_mistakes_are_noticed():
    page = (mutants_noticed.ROOT / "docs" / "verifying.md").read_text("utf-8")
    verdicts = [mutants_noticed.verdict_of(name, result) for name, result in mutants_noticed.recorded().items()]
    n_noticed, n_stopped = verdicts.count("noticed"), verdicts.count("stopped")
    assert f"The verifier noticed {n_noticed}, and flipproof's own checks stopped {n_stopped} more" in page


@pytest.mark.slow
@pytest.mark.parametrize("data", ["digits", "breast cancer"])
def test_every_golden_case_is_verified(data, tmp_path):
    X, y = {"digits": record.load_digits, "breast cancer": record.load_breast_cancer}[data](return_X_y=True)
    X, y, Z = X[: record.N_TRAIN], y[: record.N_TRAIN], X[record.N_TRAIN : record.N_TRAIN + record.N_TEST]
    classes = np.unique(y).tolist()
    for name, model in record.learners(classes).items():
        model.fit(X, y)
        for method in ("gap",) if name == "partitions" else record.METHODS:
            for who, adversary in record.adversaries(classes).items():
                path = tmp_path / "proof.flipproof"
                model.certify(Z, method, adversary).save(path)
                assert verify(path).verdict == VERIFIED, (name, method, who)
    scaled = record.StandardScaler().fit(X)
    blocks = [(scaled.transform(X[i : i + 70]), y[i : i + 70]) for i in range(0, record.N_TRAIN, 70)]
    for model in (record.RidgeInBlocks(classes=classes), record.KernelInBlocks(n_components=40)):
        model.fit(blocks)
        for method, (who, adversary) in product(record.METHODS, record.adversaries(classes).items()):
            model.certify(scaled.transform(Z), method, adversary).save(path)
            assert verify(path).verdict == VERIFIED, (type(model).__name__, method, who)


@pytest.mark.slow
def test_every_golden_interval_is_verified(tmp_path):
    path, n_verified = tmp_path / "proof.flipproof", 0
    for name, intervals in record.regressors():
        intervals.save(path)
        assert verify(path).verdict == VERIFIED, name
        n_verified += 1
    assert n_verified == 16


@pytest.mark.parametrize("first", mostly_slow(range(0, 400, 40), fast=(0,)))
def test_random_numbers_are_verified_and_narrower_intervals_refuted(first, tmp_path):
    path, n_verified, n_refuted = tmp_path / "proof.flipproof", 0, 0
    for seed in range(first, first + 40):
        intervals = intervals_of(seed)
        if intervals is not None:
            intervals.save(path)
            assert verify(path).verdict == VERIFIED, seed
            n_verified += 1
            n_refuted += check_intervals(path, intervals, seed)
    assert n_verified > 25
    assert n_refuted > 60


def test_the_verifier_imports_nothing_of_flipproof():
    allowed = {"numpy", "flint", "flipproof_verify", "__future__"}
    standard = {
        "collections",
        "contextlib",
        "dataclasses",
        "fractions",
        "functools",
        "hashlib",
        "json",
        "math",
        "os",
        "re",
        "typing",
    }
    for file in Path(flipproof_verify.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            assert {name.partition(".")[0] for name in names} <= allowed | standard, file


class TestRows:
    def test_a_sample_of_rows_is_checked(self):
        found = verify(CORPUS / "exact.flipproof", 2, seed=3)
        assert (found.n_checked, found.n_rows) == (2, 6)

    def test_only_the_wanted_rows_are_checked(self, tmp_path):
        box = Box.read(CORPUS / "exact.flipproof")
        box.tensors["claim.radius"][4] += 1
        path = box.write(tmp_path / "proof.flipproof")
        assert verify(path, [0, 1, 2, 3, 5]).verdict == VERIFIED
        assert verify(path, [4]).reasons == {4: (REFUTED, "radius")}

    def test_rows_that_do_not_exist(self):
        with pytest.raises(ValueError, match="from 0 to 5"):
            verify(CORPUS / "exact.flipproof", [6])

    def test_progress_counts_rows(self):
        done = []
        verify(CORPUS / "neighbors.flipproof", progress=lambda n, n_all: done.append((n, n_all)))
        assert sum(n for n, _ in done) == done[0][1] == 6


def test_a_smaller_radius_is_true(tmp_path):
    box = Box.read(CORPUS / "exact.flipproof")
    box.tensors["claim.radius"] //= 2
    assert verify(box.write(tmp_path / "proof.flipproof")).verdict == VERIFIED


def test_a_model_that_was_fitted_again_has_no_proof(tmp_path):
    X, y = record.load_digits(return_X_y=True)
    model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:100], y[:100])
    certificates = model.certify(X[100:130])
    model.fit(X[:100], (y[:100] + 1) % 10)
    with pytest.raises(ValueError, match="Certify again"):
        certificates.save(tmp_path / "proof.flipproof")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("aggregate", ["votes", "majority"])
def test_rows_of_the_reference_are_counted_among_annotated_rows(aggregate, tmp_path):
    """Rows, not labels, have features that a row of the reference may have."""
    X, y = record.load_digits(return_X_y=True)
    item, labels = np.repeat(np.arange(20), 2), np.repeat(y[:20], 2)  # five more rows have no labels
    crowd = Annotations.from_long(item, np.tile([0, 1], 20), labels, items=np.arange(25), aggregate=aggregate)
    model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:25], crowd, reference=X[:10])
    path = tmp_path / "proof.flipproof"
    model.certify(X[40:44]).save(path)
    assert verify(path).verdict == VERIFIED
    box = Box.read(path)
    (stated,) = (one["values"] for one in box.document["assumptions"] if one["code"] == "reference-shared")
    assert stated == {"n_shared": 10, "n_rows": 25}
    stated["n_rows"] = 40
    with pytest.raises(UnreadableFileError, match="it is 25"):
        verify(box.write(path))


def test_the_digits_of_a_length_mean_the_nearest_float(tmp_path):
    """0.1 * 3 is a float above 0.3, and a window of this length from 0.8 contains 1.1, but not by the digits alone."""
    X, y = record.load_digits(return_X_y=True)
    model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:36], y[:36])
    windows = Adversary(window=np.arange(36) % 12 * 0.1, length=0.1 * 3)
    path = tmp_path / "proof.flipproof"
    model.certify(X[40:44], adversary=windows).save(path)
    assert verify(path).verdict == VERIFIED


def test_a_radius_of_majorities_that_is_a_bound_for_the_verifier_is_not_refuted(tmp_path):
    """Where costs of states are only bounds, an attack that may succeed is no proof that a radius is false."""
    rng = np.random.default_rng(2)
    X, y = record.load_digits(return_X_y=True)
    items, per_item = np.arange(24), 7
    item, right = np.repeat(items, per_item), np.repeat(y[:24], per_item)
    labels = np.where(rng.random(len(item)) < 0.3, rng.integers(0, 10, len(item)), right)
    who = np.concatenate([rng.permutation(8)[:per_item] for _ in items])
    crowd = Annotations.from_long(item, who, labels, items=items, aggregate="majority")
    model = CertifiedRidgeClassifier(classes=range(10)).fit(X[:24] / 16, crowd)
    allowed = [(old, new) for old in range(10) for new in range(10) if old != new and rng.random() < 0.4]
    path = tmp_path / "proof.flipproof"
    model.certify(X[24:34] / 16, adversary=Adversary(groups=who, allowed=allowed)).save(path)
    assert verify(path).verdict == VERIFIED
    box = Box.read(path)
    box.tensors["claim.radius"] += 1
    box.tensors["claim.unlimited"][:] = False
    more, refuted = box.write(tmp_path / "more.flipproof"), []
    for most in (0, 100, 10_000):  # annotations of an item that are enumerated; the rest is bounded
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("flipproof_verify.majority_rule.MOST_DISTRIBUTIONS", most)
            found = verify(more)
        refuted.append({row for row, (verdict, _) in found.reasons.items() if verdict == REFUTED})
    assert not refuted[0]  # by bounds alone, no attack is known to succeed
    assert refuted[0] <= refuted[1] <= refuted[2]
    assert refuted[2]
