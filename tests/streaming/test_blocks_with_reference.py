"""Rows in blocks with a reference, and with clipped votes: the same as in memory, to the last bit."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same_certificates import assert_same, assert_same_model, cut, some_problem

import flipproof
from flipproof import Adversary
from flipproof.streaming import RowBlocks, StreamingKernelClassifier, StreamingRidgeClassifier, rows_in_blocks

N, K = 90, 4
SIZES = [0, 31, 1, 0, 17, 40, 0]
CLIPS = [None, 0.5, 1.0, "sign"]
LEARNERS = {
    "ridge": (StreamingRidgeClassifier, flipproof.CertifiedRidgeClassifier, {}),
    "kernel": (StreamingKernelClassifier, flipproof.CertifiedKernelClassifier, {"n_components": 12}),
}


def problem(n_classes=3, n=N, seed=0):
    """Return training rows, labels and test rows, and a reference that shares some of the training rows."""
    X, y, Z = some_problem(n, K, n_classes, seed)
    others = some_problem(40, K, n_classes, seed + 100)[0]
    return X, y, Z, np.concatenate([others, X[: min(n, 3)]])


def fitted(X, y, reference=None, sizes=SIZES, learner="ridge", **parameters):
    """Return the learner on blocks, and the one in memory."""
    blocks, memory, given = LEARNERS[learner]
    parameters = {**given, **parameters}
    return (
        blocks(**parameters).fit(cut(sizes, X, y), reference=reference),
        memory(**parameters).fit(X, y, **({} if reference is None else {"reference": reference})),
    )


def changed_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    trusted, numbers = rng.random(n) < 0.3, rng.integers(7, size=n)
    words = np.array(["ann", "bob", "christine", "d"])[rng.integers(4, size=n)]
    return [
        Adversary(changes="rows"),
        Adversary(changes="insertions"),
        Adversary(changes="removals"),
        Adversary(changes="rows", trusted=trusted),
        Adversary(changes="insertions", trusted=trusted),
        Adversary(changes="removals", trusted=trusted),
        Adversary(changes="rows", groups=words),
        Adversary(changes="removals", groups=numbers),
        Adversary(changes="rows", groups=numbers, trusted=trusted),
        Adversary(changes="removals", groups=words, trusted=trusted),
        Adversary(changes="rows", trusted=np.ones(n, dtype=bool), groups=numbers),
    ]


def changed_labels(n, seed=0):
    rng = np.random.default_rng(seed)
    trusted, groups = rng.random(n) < 0.3, rng.integers(7, size=n)
    return [None, Adversary(trusted=trusted, allowed=[(0, 1)]), Adversary(trusted=trusted, groups=groups)]


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("precision", [5, 14])  # votes that all test rows share, and votes of their own
class TestSameAsInMemory:
    @pytest.mark.few(2)
    @pytest.mark.parametrize("n_classes", [2, 3])
    def test_changed_rows(self, learner, clip, precision, n_classes):
        X, y, Z, reference = problem(n_classes)
        blocks, memory = fitted(X, y, reference, learner=learner, clip=clip, precision=precision)
        assert_same_model(blocks, memory, Z, ["exact"], changed_rows(N))
        assert blocks.regularization_ == memory.regularization_
        assert blocks.n_reference_ == memory.n_reference_ == 43
        assert blocks.assumptions_ == memory.assumptions_
        assert {one.code: one.values for one in blocks.assumptions_}["reference-shared"]["n_shared"] == 3

    @pytest.mark.few(1)
    def test_changed_labels(self, learner, clip, precision):
        X, y, Z, reference = problem()
        blocks, memory = fitted(X, y, reference, learner=learner, clip=clip, precision=precision)
        assert_same_model(blocks, memory, Z, adversaries=changed_labels(N))

    @pytest.mark.few(1)
    def test_without_a_reference(self, learner, clip, precision):
        X, y, Z, _ = problem()
        blocks, memory = fitted(X, y, learner=learner, clip=clip, precision=precision)
        assert_same_model(blocks, memory, Z, adversaries=changed_labels(N))
        assert blocks.n_reference_ is None


@pytest.mark.parametrize("clip", [0.05, 0.9, "sign"])
def test_clipped_votes_of_the_papers_rule(clip):
    """Its offsets depend on the sum of all votes, which are clipped."""
    X, y, Z, _ = problem(2)
    assert_same_model(*fitted(X, y, clip=clip, fit_intercept=False), Z, adversaries=changed_labels(N))


@pytest.mark.few(1)
@pytest.mark.parametrize("parameters", [{"fit_intercept": False}, {"regularization": 0.5}, {"noise": "auto"}])
@pytest.mark.parametrize("learner", LEARNERS)
def test_parameters(parameters, learner):
    X, y, Z, reference = problem()
    blocks, memory = fitted(X, y, reference, learner=learner, clip=0.8, **parameters)
    assert_same_model(blocks, memory, Z, ["exact"], changed_rows(N)[:4])
    assert_same_model(blocks, memory, Z, ["tight"])


@pytest.mark.few(2)
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "poly", "linear", "cosine"])
def test_kernels(kernel):
    """The reference is in memory, so that all defaults are possible, also of laplacian kernels."""
    X, y, Z, reference = problem()
    blocks, memory = fitted(X, y, reference, learner="kernel", kernel=kernel, n_components=None)
    assert (blocks.gamma_, blocks.regularization_) == (memory.gamma_, memory.regularization_)
    np.testing.assert_array_equal(blocks.component_indices_, memory.component_indices_, strict=True)
    assert_same_model(blocks, memory, Z, ["exact"], changed_rows(N)[:4])


@pytest.mark.slow
@given(
    ends=st.lists(st.integers(0, 40), max_size=8),
    seed=st.integers(0, 50),
    clip=st.sampled_from(CLIPS),
    with_reference=st.booleans(),
    learner=st.sampled_from(list(LEARNERS)),
)
@settings(max_examples=30, deadline=None)
def test_any_cuts(ends, seed, clip, with_reference, learner):
    X, y, Z, reference = problem(3, 40, seed)
    sizes = np.diff([0, *sorted(ends)])
    blocks, memory = fitted(X, y, reference if with_reference else None, sizes, learner, clip=clip)
    adversaries = changed_rows(40, seed) if with_reference else changed_labels(40, seed)
    assert_same_model(blocks, memory, Z, ["exact"], adversaries)


@pytest.mark.few(1)
@pytest.mark.parametrize("with_reference", [True, False])
@pytest.mark.parametrize("precision", [5, 14])
@pytest.mark.parametrize("parameters", [{"block_size": 5}, {"n_jobs": 2}, {}])
def test_several_passes(monkeypatch, with_reference, precision, parameters):
    X, y, Z, reference = problem()
    reference = reference if with_reference else None
    blocks, memory = fitted(X, y, reference, clip=0.7, precision=precision, **parameters)
    monkeypatch.setattr(rows_in_blocks, "TALLY_BYTES", 2**12)
    monkeypatch.setattr(rows_in_blocks, "SCORED_ROWS", 7)
    monkeypatch.setattr(rows_in_blocks, "MEMORY_BUDGET", 2**12)
    adversaries = changed_rows(N)[:9:2] if with_reference else changed_labels(N)
    assert_same_model(blocks, memory, Z, ["exact"], adversaries)


def test_certificates_of_clipped_votes_need_one_pass(monkeypatch):
    """The level follows from the counts of unclipped votes."""
    X, y, Z, _ = problem()
    blocks, _ = fitted(X, y, clip=0.7)
    passes, work = [], rows_in_blocks.RowsInBlocks._count_votes
    monkeypatch.setattr(rows_in_blocks.RowsInBlocks, "_count_votes", lambda *all: passes.append(all) or work(*all))
    blocks.certify(Z)
    assert len(passes) == 1
    blocks.decision_function(Z)
    assert len(passes) == 3


@pytest.mark.few(1)
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("clip", CLIPS)
def test_rows_of_any_finite_size(learner, clip):
    X, y, Z, reference = problem()
    X[40:50] *= 1e307
    X[50:54] = np.finfo(np.float64).max * np.array([[1], [-1], [1], [-1]])
    X[54:60] *= 5e-324
    X[60:63], X[63] = Z[:3], -0.0
    X[64] = reference[-1] * [1, 1e308, 1, 1]
    in_blocks, in_memory, given = LEARNERS[learner]
    blocks = in_blocks(clip=clip, **given).fit(cut([7] * 12, X, y), reference=reference)
    with np.errstate(invalid="ignore"):  # scikit-learn adds up all numbers to see whether they are finite
        memory = in_memory(clip=clip, **given).fit(X, y, reference=reference)
    assert_same_model(blocks, memory, Z, ["exact"], changed_rows(N))
    assert_same_model(blocks, memory, Z, ["tight"])


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("clip", [None, 0.5])
def test_votes_do_not_depend_on_other_training_rows(learner, clip):
    """Scores of all rows are the sum of the scores of some rows and of the others."""
    X, y, Z, reference = problem()
    X[3] *= 1e200
    scores = [
        fitted(X[rows], y[rows], reference, [5], learner=learner, clip=clip, classes=range(3))[0].decision_function(Z)
        for rows in (slice(None), slice(0, 30), slice(30, None))
    ]
    np.testing.assert_array_equal(scores[0], scores[1] + scores[2])


@pytest.mark.few(1)
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("changes", ["rows", "insertions", "removals"])
def test_changes_within_the_radius_do_not_change_a_prediction(learner, changes):
    """Fit again with rows added, removed and replaced."""
    rng = np.random.default_rng(5)
    X, y, Z, reference = problem(2, 40)
    blocks = LEARNERS[learner][0](clip=0.3, classes=[0, 1], **LEARNERS[learner][2])
    found = blocks.fit([(X, y)], reference=reference).certify(Z, adversary=Adversary(changes=changes))
    assert found.radius.max() > 0
    for radius in np.unique(found.radius):
        for _ in range(6):
            gone = rng.choice(40, radius, replace=False) if changes != "insertions" else []
            X_new, y_new = np.delete(X, gone, axis=0), np.delete(y, gone)
            if changes != "removals":
                size = 10.0 ** rng.integers(-300, 300, size=(radius, 1))
                X_new = np.concatenate([X_new, rng.choice([-1, 1], (radius, 1)) * Z[rng.integers(len(Z))] * size])
                y_new = np.concatenate([y_new, np.full(radius, rng.integers(2))])
            after = blocks.fit([(X_new, y_new)], reference=reference).predict(Z)
            within = found.radius >= radius
            np.testing.assert_array_equal(after[within], found.prediction[within])


class TestSources:
    X, y, Z, reference = problem()
    trusted, groups = np.arange(N) % 5 == 0, np.array(["ann", "bob", "c"])[np.arange(N) % 3]
    names = tuple(f"x{number}" for number in range(K))

    def check(self, *arguments, reference=None, names=None, **more):
        reference = self.reference if reference is None else reference
        model = StreamingRidgeClassifier(clip=0.8).fit(*arguments, reference=reference, **more)
        memory = flipproof.CertifiedRidgeClassifier(clip=0.8).fit(self.X, self.y, reference=self.reference)
        Z = self.Z if names is None else pd.DataFrame(self.Z, columns=names)
        for changes in ("labels", "rows", "removals"):
            wanted = memory.certify(self.Z, adversary=Adversary(changes, trusted=self.trusted, groups=self.groups))
            assert_same(model.certify(Z, adversary=Adversary(changes)), wanted, same_adversary=False)
        again = pickle.loads(pickle.dumps(model))
        assert_same(again.certify(Z), model.certify(Z))
        with pytest.raises(ValueError, match="no limit to the number"):
            model.certify(Z, adversary=Adversary(changes="insertions"))
        return model

    def test_arrays(self):
        self.check(self.X, self.y, trusted=self.trusted, groups=self.groups)

    def test_narrow_arrays(self):
        rows = self.X.astype(np.float32)
        blocks = StreamingKernelClassifier().fit(cut(SIZES, rows, self.y), reference=self.reference.astype(np.float32))
        memory = flipproof.CertifiedKernelClassifier().fit(rows, self.y, reference=self.reference.astype(np.float32))
        assert_same_model(blocks, memory, self.Z, ["exact"], changed_rows(N)[:4])

    def test_npy_files(self, tmp_path):
        for number, (X, y, trusted, groups) in enumerate(cut([40, 0, 1], self.X, self.y, self.trusted, self.groups)):
            for name, column in (("X", X), ("y", y), ("trusted", trusted), ("groups", groups)):
                (tmp_path / name).mkdir(exist_ok=True)
                np.save(tmp_path / name / f"{number}.npy", column)
        others = {name: tmp_path / name for name in ("trusted", "groups")}
        self.check(tmp_path / "X", tmp_path / "y", **others)

    @pytest.mark.few(1)
    @pytest.mark.parametrize("with_names", [True, False])
    def test_parquet_files(self, tmp_path, with_names):
        for number, (X, y, trusted, groups) in enumerate(cut([40, 0, 1], self.X, self.y, self.trusted, self.groups)):
            columns = {name: X[:, i] for i, name in enumerate(self.names)}
            table = pa.table({**columns, "label": y, "checked": trusted, "who": groups})
            pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=13)
        reference = pd.DataFrame(self.reference, columns=self.names) if with_names else None
        self.check(tmp_path, "label", reference=reference, trusted="checked", groups="who", names=self.names)

    def test_function_that_makes_blocks(self):
        calls = []

        def blocks():
            calls.append(1)
            yield from cut([5, 50, 0], self.X, self.y, self.trusted, self.groups)

        model = StreamingRidgeClassifier().fit(blocks, reference=self.reference)
        assert len(calls) == 3  # to look at the first block, to survey the rows, and to sum up the labels
        memory = flipproof.CertifiedRidgeClassifier().fit(self.X, self.y, reference=self.reference)
        adversary = Adversary(changes="rows", trusted=self.trusted, groups=self.groups)
        found = model.certify(self.Z, adversary=Adversary(changes="rows"))
        assert_same(found, memory.certify(self.Z, adversary=adversary), same_adversary=False)

    def test_mapped_features(self):
        rows = RowBlocks.from_blocks(cut(SIZES, self.X, self.y)).map(np.abs)
        model = StreamingRidgeClassifier().fit(rows, reference=np.abs(self.reference))
        memory = flipproof.CertifiedRidgeClassifier().fit(np.abs(self.X), self.y, reference=np.abs(self.reference))
        assert_same_model(model, memory, self.Z, ["exact"], changed_rows(N))


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_single_row(learner):
    X, y, Z, reference = problem(2)
    blocks, memory = fitted(X[:1], y[:1], reference, [1], learner=learner, classes=[0, 1])
    assert_same_model(blocks, memory, Z, ["exact"], [None, *changed_rows(1)])


def test_a_second_fit_without_a_reference_forgets_the_first():
    X, y, Z, reference = problem()
    model = StreamingRidgeClassifier().fit([(X, y)], reference=reference).fit([(X, y)])
    assert_same_model(model, flipproof.CertifiedRidgeClassifier().fit(X, y), Z)


class TestRefusals:
    X, y, Z, reference = problem()

    def fit(self, reference, model=None, rows=None):
        rows = cut(SIZES, self.X, self.y) if rows is None else rows
        return (StreamingRidgeClassifier() if model is None else model).fit(rows, reference=reference)

    @pytest.mark.parametrize(
        ("reference", "message"),
        [
            (reference[:, :3], "The reference has 3 columns, but block 1 has 4"),
            (reference[:1], "minimum of 2 is required"),
            (reference[:0], "minimum of 2 is required"),
            (reference[0], "Expected 2D array"),
            (np.where(reference == reference[2, 1], np.nan, reference), "contains NaN"),
            (np.where(reference == reference[2, 1], np.inf, reference), "contains infinity"),
            (np.ma.masked_array(reference, reference > 1), "masked"),
            (np.char.add(reference.astype(str)[:, :1], "x"), "could not convert"),
            ("rows/", "needs the reference in memory. Got str instead: load it"),
            (RowBlocks.from_arrays(X, y), "needs the reference in memory. Got RowBlocks instead: load it"),
            (1e200 * reference, "Training features must be between"),
        ],
    )
    def test_references(self, reference, message):
        model = StreamingRidgeClassifier()
        with pytest.raises(ValueError, match=message):
            self.fit(reference, model)
        with pytest.raises(ValueError, match="not fitted yet"):
            model.predict(self.Z)

    def test_a_reference_with_other_names(self):
        reference = pd.DataFrame(self.reference, columns=list("abcd"))
        assert self.fit(reference, rows=[(pd.DataFrame(self.X, columns=list("abcd")), self.y)]).n_reference_ == 43
        with pytest.raises(ValueError, match="The reference has a column 'b' where the training rows have 'c'"):
            self.fit(reference, rows=[(pd.DataFrame(self.X, columns=list("acbd")), self.y)])

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_training_rows_that_are_not_finite(self, bad):
        X = self.X.copy()
        X[37, 2] = bad
        with pytest.raises(ValueError, match=r"^block 18 has (NaN|infinity) in its row 1, column 2"):
            self.fit(self.reference, rows=cut([2] * 44, X, self.y))

    def test_no_training_rows(self):
        for model in (StreamingRidgeClassifier(), StreamingRidgeClassifier(classes=[0, 1])):
            with pytest.raises(ValueError, match="At least one training row is needed"):
                self.fit(self.reference, model, [(self.X[:0], self.y[:0])])

    @pytest.mark.parametrize("parameters", [{"fit_intercept": False}, {"regularization": "paper"}])
    @pytest.mark.parametrize("learner", [StreamingRidgeClassifier, flipproof.CertifiedRidgeClassifier])
    def test_rules_that_depend_on_all_rows(self, learner, parameters):
        rows = [(self.X, self.y % 2)] if learner is StreamingRidgeClassifier else self.X
        y = () if learner is StreamingRidgeClassifier else (self.y % 2,)
        with pytest.raises(ValueError, match=r"cannot be used with reference=..."):
            learner(**parameters).fit(rows, *y, reference=self.reference)

    @pytest.mark.parametrize("clip", [0, 1.5, -1, "signs", True, np.nan])
    def test_clips(self, clip):
        with pytest.raises(ValueError, match="The 'clip' parameter of StreamingRidgeClassifier must be"):
            self.fit(self.reference, StreamingRidgeClassifier(clip=clip))

    def test_changed_rows_need_a_reference(self):
        for model in fitted(self.X, self.y):
            with pytest.raises(ValueError, match=r"fit\(X, y, reference=...\) learns"):
                model.certify(self.Z, adversary=Adversary(changes="rows"))

    @pytest.mark.parametrize("method", ["kl", "tight"])
    @pytest.mark.parametrize("adversary", changed_rows(N)[::3])
    def test_noise_says_nothing_about_rows(self, method, adversary):
        for model in fitted(self.X, self.y, self.reference):
            with pytest.raises(ValueError, match="puts noise on labels"):
                model.certify(self.Z, method, adversary)

    @pytest.mark.parametrize("clip", [None, 0.5])
    @pytest.mark.parametrize("factor", [0.9, 9, 1e300])
    def test_rows_that_change(self, clip, factor):
        size = [1.0]

        def blocks():
            yield from cut([20, 40, 5], self.X * size[0], self.y)

        model = StreamingRidgeClassifier(clip=clip).fit(blocks, reference=self.reference)
        size[0] = factor
        for ask in (model.certify, model.predict, lambda Z: model.certify(Z, adversary=Adversary(changes="rows"))):
            with pytest.raises(ValueError, match="the rows have changed since the first visit"):
                ask(self.Z)
