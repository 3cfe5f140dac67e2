"""Rows in blocks, visited by this process: the same predictions and certificates as in memory, to the last bit."""

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from enumeration import possible_attacks, random_powers, touchable
from every_attack import assert_true_radii
from hypothesis import given, settings
from hypothesis import strategies as st
from same_certificates import assert_same, assert_same_model, cut, some_problem
from sklearn.base import clone
from tiers import mostly_slow

import flipproof
from flipproof import Adversary, LabelDependenceWarning
from flipproof.attacks import labels_to_audit, worst_flips
from flipproof.core.powers import Scope
from flipproof.streaming import RowBlocks, StreamingKernelClassifier, StreamingRidgeClassifier, rows_in_blocks

N = 90
SIZES = [0, 31, 1, 0, 17, 40, 0]


def fitted(X, y, sizes=SIZES, **parameters):
    """Return the learner on blocks, and the one in memory."""
    return (
        StreamingRidgeClassifier(**parameters).fit(cut(sizes, X, y)),
        flipproof.CertifiedRidgeClassifier(**parameters).fit(X, y),
    )


def some_adversaries(n, classes, seed=0):
    rng = np.random.default_rng(seed)
    trusted, numbers = rng.random(n) < 0.3, rng.integers(7, size=n)
    words, one_way = np.array(["ann", "bob", "christine", "d"])[rng.integers(4, size=n)], [(classes[0], classes[1])]
    return [
        None,
        Adversary(trusted=trusted),
        Adversary(groups=numbers),
        Adversary(groups=words),
        Adversary(allowed=one_way),
        Adversary(trusted=trusted, allowed=one_way),
        Adversary(trusted=trusted, groups=words),
        Adversary(groups=numbers / 2, allowed=[*one_way, (classes[1], classes[0])]),
        Adversary(trusted=trusted, groups=numbers, allowed=one_way),
    ]


def test_nothing_to_count():
    X, y, Z = np.zeros((6, 2)), np.arange(6) % 2, np.ones((2, 2))
    nobody = Adversary(trusted=np.ones(6, dtype=bool), groups=np.arange(6))
    blocks, memory = fitted(X, y, sizes=[2, 4], fit_intercept=False)
    assert_same(blocks.certify(Z, adversary=nobody), memory.certify(Z, adversary=nobody))


@pytest.mark.few(1)
@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.parametrize("precision", [5, 14])  # votes that all test rows share, and votes of their own
@pytest.mark.parametrize("intercept", [True, False])
def test_all_methods_and_adversaries(n_classes, precision, intercept):
    X, y, Z = some_problem(N, 4, n_classes)
    blocks, memory = fitted(X, y, precision=precision, fit_intercept=intercept)
    assert_same_model(blocks, memory, Z, adversaries=some_adversaries(N, [0, 1]))
    assert blocks.regularization_ == memory.regularization_
    np.testing.assert_array_equal(blocks.classes_, memory.classes_, strict=True)


@pytest.mark.few(2)
@pytest.mark.parametrize("precision", [2, 4, 10, 13, 24])
@pytest.mark.parametrize("n", [12, 520])
def test_precision(precision, n):
    X, y, Z = some_problem(n, 3, 3)
    blocks, memory = fitted(X, y, [n // 3, 1, 0], precision=precision)
    assert_same_model(blocks, memory, Z, adversaries=some_adversaries(n, [0, 1])[:2])


@pytest.mark.few(1)
@pytest.mark.parametrize("noise", ["auto", 0.3, flipproof.LabelFlip(0.2, 3)])
def test_noise(noise):
    X, y, Z = some_problem(N, 4, 3)
    assert_same_model(*fitted(X, y, noise=noise), Z, adversaries=some_adversaries(N, [0, 1])[:2])


@pytest.mark.few(2)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("rule", ["label-free", "paper", 0, 0.7, 1e6])
def test_regularization(n_classes, intercept, rule):
    X, y, Z = some_problem(N, 4, n_classes)
    given = {"regularization": rule, "fit_intercept": intercept}
    if rule == "paper":
        with pytest.warns(LabelDependenceWarning) as said:
            blocks, memory = fitted(X, y, **given)
        assert [one.filename for one in said] == [__file__] * 2
    else:
        blocks, memory = fitted(X, y, **given)
    assert blocks.regularization_ == memory.regularization_
    assert_same_model(blocks, memory, Z)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "labels", [["ham", "spam", "un-ham"], [False, True], [-3, 0, 7], [1.0, 2.0, 5.0], np.array([1, 2], dtype=np.uint8)]
)
@pytest.mark.parametrize("name_them", [True, False])
def test_labels_of_any_kind(labels, name_them):
    labels = np.asarray(labels)
    X, codes, Z = some_problem(N, 4, len(labels))
    y = labels[codes]
    adversaries = [None, Adversary(allowed=[(labels[1], labels[0])])]
    blocks, memory = fitted(X, y, classes=labels[::-1] if name_them else None)
    assert_same_model(blocks, memory, Z, adversaries=adversaries)
    objects = StreamingRidgeClassifier().fit(cut(SIZES, X, y.astype(object)))
    assert_same(objects.certify(Z), flipproof.CertifiedRidgeClassifier().fit(X, y.tolist()).certify(Z))


def test_words_whose_blocks_have_other_widths():
    X, y, Z = some_problem(20, 2, 2)
    words = np.array(["a", "quite long"])[y]
    pieces = [(part, np.array(labels.tolist())) for part, labels in cut([5, 1, 7], X, words)]
    found = StreamingRidgeClassifier().fit(pieces)
    assert_same(found.certify(Z), flipproof.CertifiedRidgeClassifier().fit(X, words).certify(Z))


def test_a_class_that_does_not_occur():
    X, y, Z = some_problem(N, 4, 3)
    blocks, memory = fitted(X, y, classes=range(5))
    assert_same_model(blocks, memory, Z, adversaries=[None, Adversary(allowed=[(0, 4), (3, 1)])])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, bool])
def test_rows_of_any_type(dtype):
    X, y, Z = some_problem(N, 4, 3)
    X, Z = (np.rint(40 * np.abs(one)) > 20 if dtype is bool else (40 * np.abs(one)).astype(dtype) for one in (X, Z))
    assert_same_model(*fitted(X, y), Z, ["exact"])


@pytest.mark.few(1)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("n", "k"), [(9, 30), (2, 5), (12, 12), (13, 12)])
def test_more_columns_than_rows(n, k, intercept):
    X, y, Z = some_problem(n, k, 2)
    blocks, memory = fitted(X, y, [1, 0, n // 2], fit_intercept=intercept)
    assert_same_model(blocks, memory, Z, adversaries=some_adversaries(n, [0, 1])[:3])


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("value", [0.0, 2.5])
def test_constant_columns(intercept, value):
    X, y, Z = some_problem(N, 4, 2)
    X[:, 1] = value
    assert_same_model(*fitted(X, y, fit_intercept=intercept), Z, ["exact"])
    X[:] = value  # all columns
    assert_same_model(*fitted(X, y, fit_intercept=intercept), Z, ["exact"])


def test_columns_of_very_different_size():
    X, y, Z = some_problem(N, 4, 2)
    sizes = [1e-120, 1e-3, 1e9, 1e120]
    assert_same_model(*fitted(X * sizes, y), Z * sizes)


@pytest.mark.slow
@given(ends=st.lists(st.integers(0, 40), max_size=8), seed=st.integers(0, 50), precision=st.sampled_from([4, 10]))
@settings(max_examples=30)
def test_any_cuts(ends, seed, precision):
    X, y, Z = some_problem(40, 3, 3, seed, m=4)
    adversary = Adversary(**random_powers(np.random.default_rng(seed), 40, 3))
    blocks, memory = fitted(X, y, np.diff([0, *sorted(ends)]), precision=precision)
    assert_same_model(blocks, memory, Z, ["exact", "tight"], [adversary])


@pytest.mark.few(1)
@pytest.mark.parametrize("parameters", [{"block_size": 1}, {"block_size": 5}, {"n_jobs": 2}, {"n_jobs": -1}])
def test_block_size_and_jobs(parameters):
    X, y, Z = some_problem(N, 4, 3)
    blocks = StreamingRidgeClassifier(**parameters).fit(cut(SIZES, X, y))
    memory = flipproof.CertifiedRidgeClassifier().fit(X, y)
    assert_same_model(blocks, memory, Z, adversaries=some_adversaries(N, [0, 1])[-2:])


@pytest.mark.few(1)
@pytest.mark.parametrize("precision", [5, 14])
def test_several_passes_for_many_test_rows(monkeypatch, precision):
    X, y, Z = some_problem(N, 4, 3, m=30)
    blocks, memory = fitted(X, y, precision=precision)
    passes = []
    work = rows_in_blocks.RowsInBlocks._count_votes
    monkeypatch.setattr(rows_in_blocks.RowsInBlocks, "_count_votes", lambda *all: passes.append(all) or work(*all))
    monkeypatch.setattr(rows_in_blocks, "TALLY_BYTES", 2**14)
    monkeypatch.setattr(rows_in_blocks, "SCORED_ROWS", 7)
    assert_same_model(blocks, memory, Z, adversaries=some_adversaries(N, [0, 1]))
    assert len(passes) > 50


@pytest.mark.few(1)
@pytest.mark.parametrize("groups", ["numbers", "words", None])
@pytest.mark.parametrize("with_trust", [True, False])
def test_trusted_rows_and_annotators_given_to_fit(groups, with_trust):
    X, y, Z = some_problem(N, 4, 3)
    rng = np.random.default_rng(1)
    trusted = rng.random(N) < 0.3 if with_trust else None
    names = {"numbers": rng.integers(5, size=N), "words": rng.choice(["a", "bb"], N), None: None}[groups]
    rows = RowBlocks.from_arrays(X, y, trusted, names)
    blocks = StreamingRidgeClassifier().fit(
        RowBlocks(tuple(p for one in rows.parts for p in one.cut(17)), *known(rows))
    )
    memory = flipproof.CertifiedRidgeClassifier().fit(X, y)
    others = rng.random(N) < 0.5
    ids = rng.integers(3, size=N)
    allowed = [(0, 2), (2, 1)]
    for method in ("exact", "tight", "kl"):
        for said, wanted in [
            ({}, {"trusted": trusted, "groups": names}),
            ({"allowed": allowed}, {"trusted": trusted, "groups": names, "allowed": allowed}),
            ({"trusted": others}, {"trusted": others, "groups": names}),
            ({"groups": ids, "allowed": allowed}, {"trusted": trusted, "groups": ids, "allowed": allowed}),
            ({"trusted": others, "groups": ids}, {"trusted": others, "groups": ids}),
        ]:
            found = blocks.certify(Z, method, Adversary(**said) if said else None)
            assert_same(found, memory.certify(Z, method, Adversary(**wanted)), same_adversary=False)


def known(rows):
    return rows.has_trusted, rows.has_groups


@pytest.mark.parametrize("everybody", [True, False])
@pytest.mark.parametrize("method", ["exact", "tight"])
def test_all_rows_or_none_are_trusted(everybody, method):
    X, y, Z = some_problem(N, 4, 3)
    trusted, groups = np.full(N, everybody), np.arange(N) % 4
    memory = (
        flipproof.CertifiedRidgeClassifier().fit(X, y).certify(Z, method, Adversary(trusted=trusted, groups=groups))
    )
    blocks = StreamingRidgeClassifier().fit(cut(SIZES, X, y, trusted, groups))
    assert_same(blocks.certify(Z, method), memory, same_adversary=False)


class TestSources:
    X, y, Z = some_problem(N, 4, 3)
    trusted, groups = np.arange(N) % 5 == 0, np.array(["ann", "bob", "c"])[np.arange(N) % 3]

    def check(self, *arguments, has_more=True, names=None, **more):
        memory = flipproof.CertifiedRidgeClassifier().fit(self.X, self.y)
        model = StreamingRidgeClassifier().fit(*arguments, **more)
        Z = self.Z if names is None else pd.DataFrame(self.Z, columns=names)
        adversary = Adversary(trusted=self.trusted, groups=self.groups) if has_more else None
        assert_same(model.certify(Z), memory.certify(self.Z, adversary=adversary), same_adversary=False)
        again = pickle.loads(pickle.dumps(model))
        assert_same(again.certify(Z), model.certify(Z))
        np.testing.assert_array_equal(again.predict(Z), model.predict(Z))
        return model

    def test_arrays(self):
        self.check(self.X, self.y, trusted=self.trusted, groups=self.groups)
        self.check(self.X, self.y, has_more=False)

    def test_mapped_arrays(self, tmp_path):
        np.save(tmp_path / "X.npy", self.X)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        model = self.check(mapped, self.y, trusted=self.trusted, groups=self.groups)
        assert len(pickle.dumps(model)) < 30_000

    def test_folders_of_npy_files(self, tmp_path):
        for number, (X, y, trusted, groups) in enumerate(cut([40, 0, 1], self.X, self.y, self.trusted, self.groups)):
            for name, column in (("X", X), ("y", y), ("trusted", trusted), ("groups", groups)):
                (tmp_path / name).mkdir(exist_ok=True)
                np.save(tmp_path / name / f"{number}.npy", column)
        names = {name: tmp_path / name for name in ("trusted", "groups")}
        self.check(tmp_path / "X", tmp_path / "y", **names)

    def test_folder_of_parquet_files(self, tmp_path):
        for number, (X, y, trusted, groups) in enumerate(cut([40, 0, 1], self.X, self.y, self.trusted, self.groups)):
            columns = {f"x{i}": X[:, i] for i in range(X.shape[1])}
            table = pa.table({**columns, "label": y, "checked": trusted, "who": groups})
            pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=13)
        self.check(tmp_path, "label", trusted="checked", groups="who", names=list(columns))

    def test_function_that_makes_blocks(self):
        def blocks():
            yield from cut([5, 50, 0], self.X, self.y, self.trusted, self.groups)

        model = StreamingRidgeClassifier().fit(blocks)
        memory = flipproof.CertifiedRidgeClassifier().fit(self.X, self.y)
        adversary = Adversary(trusted=self.trusted, groups=self.groups)
        assert_same(model.certify(self.Z), memory.certify(self.Z, adversary=adversary), same_adversary=False)

    def test_mapped_features(self):
        rows = RowBlocks.from_blocks(cut(SIZES, self.X, self.y)).map(np.abs)
        model = StreamingRidgeClassifier().fit(rows)
        memory = flipproof.CertifiedRidgeClassifier().fit(np.abs(self.X), self.y)
        assert_same(model.certify(self.Z), memory.certify(self.Z))


class TestKernels:
    X, y, Z = some_problem(200, 4, 3)

    @pytest.mark.few(3)
    @pytest.mark.parametrize("kernel", ["rbf", "poly", "linear", "cosine"])
    @pytest.mark.parametrize("intercept", [True, False])
    def test_default_gamma(self, kernel, intercept):
        given = {"kernel": kernel, "n_components": 20, "fit_intercept": intercept}
        self.check(cut([60, 0, 1, 100], self.X, self.y), self.X, **given)

    @pytest.mark.parametrize("regularization", [0, 0.5])
    def test_laplacian_with_gamma(self, regularization):
        given = {"kernel": "laplacian", "gamma": 0.3, "n_components": 15, "regularization": regularization}
        self.check(cut([60, 0, 1, 100], self.X, self.y), self.X, **given)

    @pytest.mark.parametrize("n_components", [1, 199, 300])
    def test_few_and_many_landmarks(self, n_components):
        self.check(cut([60, 0, 1, 100], self.X, self.y), self.X, n_components=n_components)

    def test_float32(self):
        X = self.X.astype(np.float32)
        self.check(cut([60, 0, 1, 100], X, self.y), X, n_components=20)

    def check(self, blocks, X, **given):
        found = StreamingKernelClassifier(**given).fit(blocks)
        memory = flipproof.CertifiedKernelClassifier(**given).fit(X, self.y)
        assert (found.gamma_, found.regularization_) == (memory.gamma_, memory.regularization_)
        np.testing.assert_array_equal(found.component_indices_, memory.component_indices_, strict=True)
        assert_same_model(found, memory, self.Z, ["exact", "tight"], some_adversaries(200, [0, 1])[-2:])

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"kernel": "laplacian"}, "The 'gamma' parameter .* must be a number for the kernel 'laplacian' on rows"),
            ({"kernel": np.dot}, "'kernel' parameter of .* functions need rows in memory"),
            ({"n_components": None}, "The 'n_components' parameter .* must be an integer for 200 rows"),
            ({"kernel": "sigmoid"}, "The 'kernel' parameter of StreamingKernelClassifier must be one of"),
        ],
    )
    def test_what_needs_rows_in_memory(self, given, message):
        with pytest.raises(ValueError, match=message):
            StreamingKernelClassifier(**{"n_components": 10, **given}).fit([(self.X, self.y)])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("n", "n_classes", "seed", "learner"),
    mostly_slow(
        [(7, 2, 0, "ridge"), (5, 2, 1, "ridge"), (4, 3, 2, "ridge"), (6, 2, 3, "kernel"), (4, 3, 4, "kernel")],
        fast=(1, 3),
    ),
)
def test_no_attack_on_the_rows_succeeds_within_the_radius(n, n_classes, seed, learner):
    """Fit to every labelling there is, and look up what each attack on some of them leads to."""
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(n, 2)), rng.normal(size=(5, 2))
    model = (
        StreamingRidgeClassifier(classes=range(n_classes))
        if learner == "ridge"
        else StreamingKernelClassifier(n_components=3, classes=range(n_classes))
    )
    labellings, _ = possible_attacks(np.zeros(n, dtype=int), n_classes)
    number = n_classes ** np.arange(n - 1, -1, -1)
    models = [clone(model).fit(cut([1, 0, 2], X, y)) for y in labellings]
    scores = np.array([one.decision_function(Z) for one in models])
    if n_classes == 2:
        scores = np.stack([np.zeros_like(scores), scores], axis=2)
    predictions = np.array([one.predict(Z) for one in models])
    np.testing.assert_array_equal(predictions, scores.argmax(axis=2))
    for base in rng.choice(len(labellings), size=4, replace=False):
        y = labellings[base]
        for which in range(8):
            powers = random_powers(rng, n, n_classes, which)
            attacks, cost = possible_attacks(y, n_classes, **powers)
            after = attacks @ number
            for method in ("exact", "tight", "kl"):
                certificates = models[base].certify(Z, method, Adversary(**powers) if powers else None)
                np.testing.assert_array_equal(certificates.prediction, predictions[base])
                assert_true_radii(certificates, predictions[after], cost, touchable(y, **powers))


class TestRefusals:
    X, y, Z = some_problem(N, 4, 3)

    def test_no_test_rows(self):
        for model in fitted(self.X, self.y):
            for ask in (model.predict, model.decision_function, model.certify):
                with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
                    ask(self.Z[:0])

    def test_test_rows_with_other_columns(self):
        for model in fitted(self.X, self.y):
            with pytest.raises(ValueError, match="X has 3 features, but"):
                model.certify(self.Z[:, :3])

    @pytest.mark.parametrize("n", [0, 1])
    def test_too_few_rows(self, n):
        with pytest.raises(ValueError, match=f"At least two training rows are needed. Got {n} instead"):
            StreamingRidgeClassifier().fit([(self.X[:0], self.y[:0]), (self.X[:n], self.y[:n])])

    def test_one_class(self):
        with pytest.raises(ValueError, match="only one class, 0; at least two are needed"):
            StreamingRidgeClassifier().fit([(self.X, self.y * 0)])

    def test_features_step(self):
        with pytest.raises(ValueError, match="'features' parameter of StreamingRidgeClassifier must be None"):
            StreamingRidgeClassifier(features="pca").fit([(self.X, self.y)])

    @pytest.mark.parametrize("learner", [StreamingRidgeClassifier, StreamingKernelClassifier])
    def test_what_needs_rows_in_memory(self, learner):
        name = learner.__name__
        with pytest.raises(TypeError, match=r"does not take sample_weight\. Use the learner in memory"):
            learner().fit(self.X, self.y, sample_weight=self.y)
        with pytest.raises(TypeError, match=f"fit of {name} does not take x.$"):
            learner().fit(self.X, self.y, x=1)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_nan_and_infinity(self, bad):
        X = self.X.copy()
        X[37, 2] = bad
        what = "NaN" if np.isnan(bad) else "infinity"
        with pytest.raises(ValueError, match=f"^block 18 has {what} in its row 1, column 2: omit these rows"):
            StreamingRidgeClassifier().fit(cut([2] * 44, X, self.y))

    def test_numbers_whose_sum_is_not_finite(self):
        X = self.X.copy()
        X[:, 1] = 1e307
        with pytest.raises(ValueError, match="Training features must be between"):
            StreamingRidgeClassifier().fit(cut(SIZES, X, self.y))

    def test_labels_of_different_kinds(self):
        words = self.y.astype(str)
        with pytest.raises(ValueError, match=r"^The labels of block 2 are words, but those of block 0 are numbers"):
            StreamingRidgeClassifier().fit([(self.X, self.y), (self.X[:0], words[:0]), (self.X, words)])

    @pytest.mark.parametrize("strange", [0.5, np.nan, np.inf])
    def test_labels_that_are_not_classes(self, strange):
        y = self.y.astype(float)
        y[40] = strange
        with pytest.raises(ValueError, match=f"^The labels of block 4 must be classes.* Got {strange} among them"):
            StreamingRidgeClassifier().fit(cut(SIZES, self.X, y))

    @pytest.mark.parametrize("missing", [None, float("nan")])
    def test_missing_labels(self, missing):
        y = self.y.astype(str).astype(object)
        y[40] = missing
        with pytest.raises(ValueError, match=r"^The labels of block 4 must not be missing"):
            StreamingRidgeClassifier().fit(cut(SIZES, self.X, y))

    def test_a_label_that_classes_does_not_name(self):
        with pytest.raises(ValueError, match=r"The labels y contain \[2\], which are not in classes"):
            StreamingRidgeClassifier(classes=[0, 1]).fit(cut(SIZES, self.X, self.y))

    @pytest.mark.parametrize("missing", [None, float("nan")])
    def test_a_row_without_an_annotator(self, missing):
        groups = np.array(["ann", "bob"] * 45, dtype=object)
        groups[40] = missing
        with pytest.raises(ValueError, match=r"^The annotators of block 4 must not be missing"):
            StreamingRidgeClassifier().fit(cut(SIZES, self.X, self.y, np.zeros(N, dtype=bool), groups))
        numbers = np.where(np.arange(N) == 40, np.nan, 1.0)
        with pytest.raises(ValueError, match=r"^The annotators of block 4 must not be missing"):
            StreamingRidgeClassifier().fit(cut(SIZES, self.X, self.y, np.zeros(N, dtype=bool), numbers))

    @pytest.mark.parametrize("others", [["ann"] * N, np.arange(N) > 5, [b"ann"] * N])
    def test_annotators_of_different_kinds(self, others):
        rows = [(self.X, self.y, None, np.arange(N)), (self.X, self.y, None, others)]
        with pytest.raises(ValueError, match=r"Annotators must be all numbers or all words. Got numbers in some"):
            StreamingRidgeClassifier().fit(rows)

    def test_an_error_in_one_of_many_blocks_comes_without_warnings(self):
        rows = [*cut([5] * 12, self.X[:60], self.y[:60]), (self.X, self.y.astype(str))] * 2
        with pytest.raises(ValueError, match=r"^The labels of block 1\d are words, but those of block \d+ are numbers"):
            StreamingRidgeClassifier(n_jobs=2).fit(rows)

    def test_annotators_of_different_kinds_in_one_block(self):
        groups = np.array([*range(N - 1), "ann"], dtype=object)
        with pytest.raises(ValueError, match=r"^The annotators of block 0 must all be of one kind"):
            StreamingRidgeClassifier().fit([(self.X, self.y, None, groups)])

    @pytest.mark.parametrize("name", ["trusted", "groups"])
    def test_an_adversary_for_other_rows(self, name):
        for model in fitted(self.X, self.y):
            with pytest.raises(ValueError, match=rf"Adversary\({name}=...\) must have one entry per training row, 90"):
                model.certify(self.Z, adversary=Adversary(**{name: np.zeros(4, dtype=bool)}))

    def test_an_invalid_adversary(self):
        for model in fitted(self.X, self.y):
            with pytest.raises(ValueError, match=r"adversary must be a flipproof.Adversary or None. Got list instead"):
                model.certify(self.Z, adversary=[1])
            with pytest.raises(ValueError, match=r"Adversary\(allowed=...\) .* class 9"):
                model.certify(self.Z, adversary=Adversary(allowed=[(0, 9)]))

    def test_attacks_need_rows_in_memory(self):
        model, _ = fitted(self.X, self.y)
        for ask in (
            lambda: worst_flips(model, self.Z),
            lambda: labels_to_audit(model, self.Z),
            lambda: flipproof.collective_certify(model, self.Z, 3),
        ):
            with pytest.raises(ValueError, match=r"needs the training rows in memory, .*StreamingRidgeClassifier"):
                ask()
        for name in ("vote_weights", "votes_on", "offsets_on", "powers", "label_codes_"):
            assert not hasattr(model, name)

    @pytest.mark.parametrize("method", ["gap", None, 3])
    def test_unknown_methods(self, method):
        with pytest.raises(ValueError, match="method"):
            StreamingRidgeClassifier(method=method).fit([(self.X, self.y)])

    def test_an_invalid_client(self):
        with pytest.raises(ValueError, match=r"client must be a distributed.Client. Got str instead"):
            StreamingRidgeClassifier().fit([(self.X, self.y)], client="tcp://127.0.0.1:8786")


class TestRowsThatChange:
    """Between fit and certify: never a certificate of other rows, and one line that says what happened."""

    X, y, Z = some_problem(N, 4, 3)

    def saved(self, folder, X, y, name="0"):
        for kind, column in (("X", X), ("y", y)):
            (folder / kind).mkdir(exist_ok=True)
            np.save(folder / kind / f"{name}.npy", column)

    def fitted(self, folder, **more):
        self.saved(folder, self.X, self.y)
        return StreamingRidgeClassifier().fit(folder / "X", folder / "y", **more)

    @pytest.mark.parametrize("adversary", [None, Adversary(groups=np.arange(N) % 5)])
    @pytest.mark.parametrize("method", ["exact", "tight"])
    def test_files_written_anew(self, tmp_path, method, adversary):
        model = self.fitted(tmp_path)
        order = np.arange(N)[::-1]
        for X, y, message in [
            (self.X * 1.5, self.y, "ha(s|ve) changed since"),
            (
                self.X * 0.9,
                self.y,
                "rows 0 to 89: the rows have changed since the first visit",
            ),
            (self.X, np.roll(self.y, 1), "The training rows have changed since the model was fitted"),
            (self.X, np.where(np.arange(N) == 3, (self.y + 1) % 3, self.y), "The training rows have changed"),
            (self.X[order], self.y[order], "rows 0 to 89: the rows have changed since"),
            (self.X, self.y + 1, "not in classes"),
        ]:
            self.saved(tmp_path, X, y)
            with pytest.raises(ValueError, match=message):
                model.certify(self.Z, method, adversary)
            with pytest.raises(ValueError, match=message):
                model.decision_function(self.Z)
        self.saved(tmp_path, self.X[:50], self.y[:50])
        with pytest.raises(OSError, match="it is shorter than before"):
            model.certify(self.Z, method, adversary)

    @pytest.mark.parametrize(
        "adversary", [None, Adversary(groups=np.arange(N) % 5), Adversary(trusted=np.arange(N) > 9)]
    )
    @pytest.mark.parametrize("n", [10, 60, 100])
    def test_a_function_that_makes_more_or_fewer_rows(self, n, adversary):
        made = [N]

        def blocks():
            repeated = np.arange(made[0]) % N
            yield from cut([20, 40, 5], self.X[repeated], self.y[repeated])

        model = StreamingRidgeClassifier().fit(blocks)
        made[0] = n
        for method in ("exact", "kl"):
            with pytest.raises(ValueError, match="changed since"):
                model.certify(self.Z, method, adversary)

    @pytest.mark.parametrize("method", ["exact", "tight"])
    def test_other_annotators_and_other_trust(self, method):
        columns = {"trusted": np.arange(N) % 7 == 0, "groups": np.arange(N) % 5}
        rows = dict(columns)

        def blocks():
            yield self.X, self.y, rows["trusted"], rows["groups"]

        model = StreamingRidgeClassifier().fit(blocks)
        model.certify(self.Z, method)
        for name, other in [
            ("groups", np.arange(N) % 4),
            ("groups", np.arange(N) % 6),
            ("groups", np.full(N, "ann")),
            ("groups", np.roll(columns["groups"], 1)),
            ("trusted", np.arange(N) % 6 == 0),
            ("trusted", np.ones(N, dtype=bool)),
        ]:
            rows.update(columns, **{name: other})
            with pytest.raises(ValueError, match="changed since the model was fitted"):
                model.certify(self.Z, method)


def test_parameters_are_those_of_the_learner_in_memory():
    for blocks, memory in [
        (StreamingRidgeClassifier, flipproof.CertifiedRidgeClassifier),
        (StreamingKernelClassifier, flipproof.CertifiedKernelClassifier),
    ]:
        assert blocks().get_params() == {**memory().get_params(), "verbose": 0}
        model = blocks(noise=0.2, precision=12, classes=[0, 1], verbose=1)
        assert clone(model).get_params() == model.get_params()
        assert repr(model) == f"{blocks.__name__}(classes=[0, 1], noise=0.2, precision=12, verbose=1)"


def test_clone_of_a_fitted_model_is_not_fitted():
    X, y, Z = some_problem(N, 4, 3)
    model, _ = fitted(X, y)
    with pytest.raises(ValueError, match="not fitted yet"):
        clone(model).certify(Z)
    assert model.score(X, y) > 0.5


def test_progress_of_each_pass_is_on_stderr(capsys):
    X, y, Z = some_problem(N, 4, 3)
    model = StreamingRidgeClassifier(verbose=1).fit(cut(SIZES, X, y))
    model.certify(Z)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[0] == f"Surveying the rows [{'#' * 20}] 8 of 8 parts"
    assert said.err.splitlines()[-1] == f"Counting votes [{'#' * 20}] 8 of 8 parts"
    StreamingRidgeClassifier().fit(cut(SIZES, X, y)).certify(Z)
    assert capsys.readouterr().err == ""


def test_the_largest_radius_is_the_number_of_changeable_labels():
    """A test row that all rows agree on: the radius is what the scope says, as in memory."""
    X = np.linspace(1, 2, 8)[:, None]
    model = StreamingRidgeClassifier(classes=[0, 1], fit_intercept=False).fit([(X, np.zeros(8, dtype=int))])
    found = model.certify([[1.5]], adversary=Adversary(allowed=[(1, 0)]))
    assert found.radius[0] == found.n_touchable == Scope(np.zeros((2, 2), dtype=bool), 0).n_touchable
