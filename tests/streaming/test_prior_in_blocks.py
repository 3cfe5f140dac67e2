"""Priors for rows in blocks: fitted before, to labels of the reference, or to trusted training rows; as in memory."""

import pickle
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from same_certificates import assert_same, assert_same_model, cut, some_problem
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import flipproof
import flipproof_verify
from flipproof import Adversary
from flipproof.features import WeakSupervision
from flipproof.streaming import RowBlocks, StreamingKernelClassifier, StreamingRidgeClassifier, passes, rows_in_blocks

N, K = 90, 4
SIZES = [0, 31, 1, 0, 17, 40, 0]
X, y, Z = some_problem(N, K, 3)
REFERENCE, CHECKED, _ = some_problem(40, K, 3, seed=9)
RNG = np.random.default_rng(3)
TRUSTED, OTHERS, GROUPS = RNG.random(N) < 0.3, RNG.random(N) < 0.2, RNG.integers(7, size=N)
TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
FITTED = LogisticRegression().fit(REFERENCE, CHECKED)
LEARNERS = {
    "ridge": (StreamingRidgeClassifier, flipproof.CertifiedRidgeClassifier, {}),
    "kernel": (StreamingKernelClassifier, flipproof.CertifiedKernelClassifier, {"n_components": 12}),
}
#: The prior, and what it may learn from.
SOURCES = {
    "fitted before": (FITTED, {}),
    "fitted before, beside a reference": (FITTED, {"reference": REFERENCE}),
    "trusted rows": (TREE, {"trusted": TRUSTED}),
    "trusted rows, beside a reference": (TREE, {"trusted": TRUSTED, "reference": REFERENCE}),
    "labels of the reference": (TREE, {"reference": REFERENCE, "reference_labels": CHECKED}),
}
CHANGED_LABELS = [None, Adversary(groups=GROUPS), Adversary(trusted=OTHERS), Adversary("labels", OTHERS, GROUPS)]
CHANGED_ROWS = [
    Adversary(changes="rows"),
    Adversary(changes="insertions", trusted=OTHERS),
    Adversary(changes="removals"),
    Adversary(changes="rows", groups=GROUPS),
    Adversary(changes="removals", trusted=OTHERS, groups=GROUPS),
]


def blocks_of(rows, labels, trusted=None, sizes=SIZES):
    given = [rows, labels] if trusted is None else [rows, labels, trusted]
    cut_up = cut(sizes, *given)
    return cut_up if trusted is None else [(*one, None) for one in cut_up]


def all_blocks():
    return blocks_of(X, y, TRUSTED, [7] * 12)


def fitted(learner="ridge", source="trusted rows", rows=X, labels=y, **parameters):
    """Return the learner on blocks, and the one in memory."""
    blocks, memory, given = LEARNERS[learner]
    prior, learned_from = SOURCES[source]
    parameters = {"prior": prior, **given, **parameters}
    beside = {name: one for name, one in learned_from.items() if name != "trusted"}
    return (
        blocks(**parameters).fit(blocks_of(rows, labels, learned_from.get("trusted")), **beside),
        memory(**parameters).fit(rows, labels, **learned_from),
    )


@pytest.mark.few(4)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("clip", [None, 0.5, "sign"])
@pytest.mark.parametrize("precision", [5, 14])  # votes that all test rows share, and votes of their own
@pytest.mark.parametrize("learner", LEARNERS)
def test_certificates_are_those_of_the_learner_in_memory(learner, precision, clip, source):
    blocks, memory = fitted(learner, source, clip=clip, precision=precision, prior_weight=0.7)
    assert blocks.assumptions_ == memory.assumptions_
    assert_same_model(blocks, memory, Z, adversaries=CHANGED_LABELS)
    if "reference" in SOURCES[source][1]:
        assert_same_model(blocks, memory, Z, ["exact"], CHANGED_ROWS)
    for trusted in (None, OTHERS):
        found, wanted = (model.random_error_bound(Z, [0.01, 0.1], trusted=trusted) for model in (blocks, memory))
        np.testing.assert_array_equal(found, wanted)
    plain = LEARNERS[learner][1](clip=clip, precision=precision, **LEARNERS[learner][2])
    beside = {name: one for name, one in SOURCES[source][1].items() if name == "reference"}
    assert not np.array_equal(plain.fit(X, y, **beside).decision_function(Z), blocks.decision_function(Z))


@pytest.mark.few(1)
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("weight", [0.0, 0.01, 3.0, 1e6])
def test_the_papers_rule(weight, clip):
    """Its offsets depend on the sum of all votes and on the noise, and those of the prior on their absolute values."""
    two = np.minimum(y, 1)
    models = fitted(labels=two, prior_weight=weight, clip=clip, fit_intercept=False)
    assert_same_model(*models, Z, adversaries=CHANGED_LABELS)


@pytest.mark.few(1)
@pytest.mark.parametrize("source", ["trusted rows", "trusted rows, beside a reference"])
@pytest.mark.parametrize("parameters", [{"block_size": 5}, {"n_jobs": 2}, {"clip": 0.7}])
def test_several_passes(monkeypatch, source, parameters):
    blocks, memory = fitted("ridge", source, **parameters)
    monkeypatch.setattr(rows_in_blocks, "TALLY_BYTES", 2**12)
    monkeypatch.setattr(rows_in_blocks, "SCORED_ROWS", 7)
    monkeypatch.setattr(rows_in_blocks, "MEMORY_BUDGET", 2**12)
    assert_same_model(blocks, memory, Z, ["exact"], CHANGED_LABELS)


def test_a_heavy_prior_beside_few_training_rows():
    """Scores do not depend on the number of training rows, which would otherwise bound the offsets."""
    few = {"rows": X[:3], "labels": y[:3], "classes": [0, 1, 2]}
    assert_same_model(*fitted(source="labels of the reference", prior_weight=1e6, **few), Z, ["exact"], [None])


@pytest.mark.parametrize("source", ["trusted rows", "trusted rows, beside a reference"])
def test_changes_within_the_radius_change_no_prediction(source):
    """Fit again with changed labels: also against an adversary that does not name the rows that the prior has read."""
    rng = np.random.default_rng(1)
    two = np.minimum(y, 1)
    blocks, _ = fitted("ridge", source, labels=two, classes=[0, 1], prior_weight=0.1)
    found = blocks.certify(Z, adversary=Adversary(trusted=np.zeros(N, dtype=bool)))
    free = np.flatnonzero(~TRUSTED)
    assert (found.n_touchable, blocks.certify(Z).n_touchable) == (len(free), len(free))
    assert found.radius.max() > 0
    for radius in np.unique(found.radius):
        for _ in range(5):
            flipped = rng.choice(free, radius, replace=False)
            labels = two.copy()
            labels[flipped] = rng.integers(2) if rng.random() < 0.5 else 1 - labels[flipped]
            again, _ = fitted("ridge", source, labels=labels, classes=[0, 1], prior_weight=0.1)
            within = found.radius >= radius
            np.testing.assert_array_equal(again.predict(Z)[within], found.prediction[within])


def test_other_labels_change_no_bit_of_the_prior():
    """Permute all labels that are not trusted: what the prior says stays."""
    labels = y.copy()
    labels[~TRUSTED] = np.random.default_rng(0).permutation(labels[~TRUSTED])
    said = [fitted(labels=one)[0].test_rows(Z).shares for one in (y, labels)]
    np.testing.assert_array_equal(*said)


def test_trusted_rows_are_gathered_only_if_the_prior_reads_them(monkeypatch):
    visits, gather = [], passes.GatherTrusted.__call__
    monkeypatch.setattr(passes.GatherTrusted, "__call__", lambda *given: visits.append(1) or gather(*given))
    blocks = blocks_of(X, y, TRUSTED)
    for model, others in (
        (StreamingRidgeClassifier(), {}),
        (StreamingRidgeClassifier(prior=FITTED), {}),
        (StreamingRidgeClassifier(prior=TREE), {"reference": REFERENCE, "reference_labels": CHECKED}),
    ):
        model.fit(blocks, **others)
        assert [one.code for one in model.certify(Z).assumptions].count("trusted-labels") == 1
        assert model.certify(Z, adversary=Adversary(trusted=OTHERS)).n_touchable == np.count_nonzero(~OTHERS)
    assert not visits
    StreamingRidgeClassifier(prior=TREE).fit(blocks)
    assert visits


def test_labels_of_the_reference_without_a_prior():
    """They name classes, and the assumptions say that they were given."""
    few = y[:40] % 2
    blocks = StreamingRidgeClassifier().fit([(X[:40], few)], reference=REFERENCE, reference_labels=CHECKED)
    memory = flipproof.CertifiedRidgeClassifier().fit(X[:40], few, reference=REFERENCE, reference_labels=CHECKED)
    np.testing.assert_array_equal(blocks.classes_, [0, 1, 2])
    assert blocks.assumptions_ == memory.assumptions_
    assert_same_model(blocks, memory, Z)


class RemembersRows(ClassifierMixin, BaseEstimator):
    """A classifier that keeps what it was fitted to."""

    def fit(self, X, y):
        self.classes_, self.X_, self.y_ = np.unique(y), X, y
        return self

    def predict_proba(self, X):
        return np.tile(np.eye(len(self.classes_))[0], (len(X), 1))

    def predict(self, X):
        return self.classes_[np.zeros(len(X), dtype=int)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, bool])
def test_the_prior_gets_trusted_rows_as_they_were_given(dtype):
    rows = (10 * X).astype(dtype)
    for source in ("trusted rows", "trusted rows, beside a reference"):
        models = fitted("ridge", source, rows=rows, prior=RemembersRows())
        kept, wanted = (model.prior_ for model in models)
        np.testing.assert_array_equal(kept.X_, wanted.X_, strict=True)
        np.testing.assert_array_equal(kept.y_, wanted.y_, strict=True)


class TestSources:
    memory = flipproof.CertifiedRidgeClassifier(prior=TREE).fit(X, y, trusted=TRUSTED)

    def check(self, *arguments, test=Z, **more):
        model = StreamingRidgeClassifier(prior=TREE).fit(*arguments, **more)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for adversary in CHANGED_LABELS:
                assert_same(model.certify(test, adversary=adversary), self.memory.certify(Z, adversary=adversary))
            np.testing.assert_array_equal(model.predict(test), self.memory.predict(Z))
        assert_same(pickle.loads(pickle.dumps(model)).certify(test), self.memory.certify(Z))
        return model

    def test_arrays_and_functions(self):
        self.check(X, y, trusted=TRUSTED)
        self.check(all_blocks)
        self.check(RowBlocks.from_arrays(X, y, TRUSTED))

    @pytest.mark.parametrize("chunks", [(N, K), (31, 2)])
    def test_dask(self, chunks):
        rows = da.from_array(X, chunks=chunks)
        self.check(rows, y, trusted=TRUSTED, test=da.from_array(Z, chunks=5))

    def test_npy_files(self, tmp_path):
        for number, columns in enumerate(cut([40, 0, 1], X, y, TRUSTED)):
            for name, column in zip(("X", "y", "trusted"), columns, strict=True):
                (tmp_path / name).mkdir(exist_ok=True)
                np.save(tmp_path / name / f"{number}.npy", column)
        self.check(tmp_path / "X", tmp_path / "y", trusted=tmp_path / "trusted")

    def test_data_frames_and_parquet_files(self, tmp_path):
        names = list("pqrs")
        frames = [(pd.DataFrame(rows, columns=names), *others) for rows, *others in blocks_of(X, y, TRUSTED)]
        self.check(frames, test=pd.DataFrame(Z, columns=names))
        for number, (rows, labels, trusted) in enumerate(cut([40, 0, 1], X, y, TRUSTED)):
            columns = {name: rows[:, i] for i, name in enumerate(names)}
            table = pa.table({**columns, "label": labels, "checked": trusted})
            pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=13)
        self.check(tmp_path, "label", trusted="checked", test=pd.DataFrame(Z, columns=names))

    def test_certificate_files(self, tmp_path):
        for source, adversaries in (
            ("trusted rows", CHANGED_LABELS),
            ("trusted rows, beside a reference", CHANGED_ROWS),
            ("labels of the reference", CHANGED_ROWS),
        ):
            blocks, _ = fitted("ridge", source)
            for method, adversary in [("exact", one) for one in adversaries] + [("tight", None), ("kl", None)]:
                found = blocks.certify(Z, method, adversary)
                found.save(tmp_path / "proof.flipproof")
                verdict = flipproof_verify.verify(tmp_path / "proof.flipproof")
                assert (verdict.verdict, verdict.n_checked) == ("VERIFIED", len(Z)), str(verdict)
                read = flipproof.load_certificates(tmp_path / "proof.flipproof")
                np.testing.assert_array_equal(read.radius, found.radius)


def test_priors_that_are_not_trees():
    """Their answers for a row may depend on the rows beside it, so they are asked row by row."""
    for prior in (
        RandomForestClassifier(5, random_state=0),
        LogisticRegression(),
        flipproof.CertifiedRidgeClassifier(),
    ):
        assert_same_model(*fitted(prior=prior), Z)


class TestRefusals:
    def test_nothing_to_fit_the_prior_to(self):
        for given, others in (
            (blocks_of(X, y), {}),
            (blocks_of(X, y, np.zeros(N, dtype=bool)), {}),
            (blocks_of(X, y), {"reference": REFERENCE}),
        ):
            with pytest.raises(ValueError, match="must be a fitted classifier where no labels are trusted"):
                StreamingRidgeClassifier(prior=TREE).fit(given, **others)

    def test_priors_that_read_all_training_rows(self):
        prior = WeakSupervision([lambda row: 0, lambda row: 1])
        with pytest.raises(ValueError, match=r"'prior' .* must be fitted where training rows are in blocks"):
            StreamingRidgeClassifier(prior=prior).fit(blocks_of(X, y))

    def test_priors_with_other_classes_or_columns(self):
        with pytest.raises(ValueError, match="it returned the class 5"):
            StreamingRidgeClassifier(prior=DecisionTreeClassifier().fit(X, y + 5)).fit(blocks_of(X, y))
        with pytest.raises(ValueError, match="3 features"):
            StreamingRidgeClassifier(prior=DecisionTreeClassifier().fit(X[:, :3], y)).fit(blocks_of(X, y))

    def test_labels_of_a_reference(self):
        with pytest.raises(ValueError, match="needs the rows that these labels belong to"):
            StreamingRidgeClassifier().fit(blocks_of(X, y), reference_labels=CHECKED)
        with pytest.raises(ValueError, match="one label per row of the reference"):
            StreamingRidgeClassifier().fit(blocks_of(X, y), reference=REFERENCE, reference_labels=CHECKED[:5])

    def test_trusted_rows_that_change(self):
        trust = [TRUSTED]

        def rows():
            yield from blocks_of(X, y, trust[0])

        model = StreamingRidgeClassifier(prior=TREE).fit(rows)
        trust[0] = TRUSTED[::-1]
        for ask in (model.predict, model.certify):
            with pytest.raises(ValueError, match="The training rows have changed since the model was fitted"):
                ask(Z)
