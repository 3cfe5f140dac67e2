"""Rows in blocks join and leave, given a reference: the same as a fit to the rows that vote, and as in memory."""

import copy
import pickle
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from same_certificates import assert_same, assert_same_model, cut, some_problem
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

import flipproof
import flipproof_verify
from flipproof import Adversary
from flipproof.learners.certified import ReferenceWarning
from flipproof.streaming import RowBlocks, StreamingKernelClassifier, StreamingRidgeClassifier, known_rows, passes

N, K = 90, 4
X, y, Z = some_problem(N, K, 3)
REFERENCE, CHECKED, _ = some_problem(40, K, 3, seed=9)
REFERENCE = np.concatenate([REFERENCE, X[[5, 20, 70, 85]]])
CHECKED = np.append(CHECKED, [0, 1, 2, 0])
RNG = np.random.default_rng(3)
TRUSTED, OTHERS, GROUPS = RNG.random(N) < 0.3, RNG.random(N) < 0.2, RNG.integers(7, size=N)
TREE = DecisionTreeClassifier(max_depth=3, random_state=0)
LEARNERS = {
    "ridge": (StreamingRidgeClassifier, flipproof.CertifiedRidgeClassifier, {}),
    "kernel": (StreamingKernelClassifier, flipproof.CertifiedKernelClassifier, {"n_components": 12}),
}
SIZES = [0, 13, 1, 0, 20]
GONE = np.array([0, 4, 5, 12, 13, 20, 33, 34, 50, 51, 52, 85, 89])


def adversaries(trusted, groups):
    return [
        None,
        Adversary(groups=groups),
        Adversary(trusted=trusted),
        Adversary(changes="rows"),
        Adversary(changes="insertions", trusted=trusted),
        Adversary(changes="rows", groups=groups),
        Adversary(changes="removals", trusted=trusted, groups=groups),
    ]


def assert_is_the_model(found, wanted, rows=slice(None)):
    """Check that a model is another in all that it returns."""
    assert found.assumptions_ == wanted.assumptions_
    assert (found.n_rows_, found.n_labels_, found.n_reference_) == (wanted.n_rows_, wanted.n_labels_, 44)
    np.testing.assert_array_equal(found.classes_, wanted.classes_)
    assert found.regularization_ == wanted.regularization_
    assert_same_model(found, wanted, Z, ["exact"], adversaries(OTHERS[rows], GROUPS[rows]))
    assert_same_model(found, wanted, Z, ["tight", "kl"])
    for trusted in (None, OTHERS[rows]):
        bounds = [model.random_error_bound(Z, 0.05, trusted=trusted) for model in (found, wanted)]
        np.testing.assert_array_equal(*bounds)


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReferenceWarning)
        yield


@pytest.mark.few(2)
@pytest.mark.parametrize("prior", [None, TREE])
@pytest.mark.parametrize("clip", [None, 0.5, "sign"])
@pytest.mark.parametrize("precision", [5, 14])  # votes that all test rows share, and votes of their own
@pytest.mark.parametrize("learner", LEARNERS)
class TestSameAsAFit:
    def unfitted(self, learner, precision, clip, prior):
        blocks, memory, given = LEARNERS[learner]
        parameters = {"classes": range(3), "precision": precision, "clip": clip, "prior": prior, **given}
        labels = {} if prior is None else {"reference_labels": CHECKED}
        return blocks(**parameters), memory(**parameters), {"reference": REFERENCE, **labels}

    def test_joining(self, learner, precision, clip, prior):
        blocks, memory, reference = self.unfitted(learner, precision, clip, prior)
        blocks.fit(cut(SIZES, X[:40], y[:40]), **reference)
        assert blocks.partial_fit(cut([7, 0], X[40:60], y[40:60])) is blocks
        blocks.partial_fit(X[60:], y[60:])
        assert_is_the_model(blocks, memory.fit(X, y, **reference))
        assert_is_the_model(blocks, clone(blocks).fit([(X, y)], **reference))

    def test_leaving(self, learner, precision, clip, prior):
        blocks, memory, reference = self.unfitted(learner, precision, clip, prior)
        blocks.fit(cut(SIZES, X, y), **reference)
        assert blocks.forget(GONE) is blocks
        kept = np.delete(np.arange(N), GONE)
        assert_is_the_model(blocks, memory.fit(X[kept], y[kept], **reference), kept)
        blocks.forget(np.isin(np.arange(len(kept)), [0, 9, 15, 60, len(kept) - 1]))  # also of parts with earlier gaps
        kept = np.delete(kept, [0, 9, 15, 60, len(kept) - 1])
        assert_is_the_model(blocks, memory.fit(X[kept], y[kept], **reference), kept)

    def test_leaving_and_joining(self, learner, precision, clip, prior):
        """Whole blocks leave, and rows join between."""
        blocks, memory, reference = self.unfitted(learner, precision, clip, prior)
        blocks.fit(cut(SIZES, X[:50], y[:50]), **reference).forget(range(14))
        blocks.partial_fit([(X[50:], y[50:])]).forget([35, 36, 40])
        kept = np.delete(np.arange(14, N), [35, 36, 40])
        assert_is_the_model(blocks, memory.fit(X[kept], y[kept], **reference), kept)
        assert_is_the_model(pickle.loads(pickle.dumps(blocks)), memory, kept)


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
@given(st.data(), st.integers(0, 50), st.sampled_from([None, 0.5, "sign"]), st.sampled_from([None, TREE]))
@settings(max_examples=30, deadline=None)
def test_any_sequence(learner, data, seed, clip, prior):
    """Rows of ordinary and of extreme size, some of them equal, in copies of the model."""
    rows, labels, test = some_problem(40, K, 3, seed)
    rng = np.random.default_rng(seed)
    rows *= 10.0 ** rng.choice([0, 0, 0, -150, 90], size=(40, 1))
    rows[20:25] = rows[:5]
    blocks_kind, memory_kind, given_parameters = LEARNERS[learner]
    parameters = {"classes": range(3), "clip": clip, "prior": prior, **given_parameters}
    reference = {"reference": REFERENCE} | ({} if prior is None else {"reference_labels": CHECKED})
    groups, trusted = rng.integers(5, size=40), rng.random(40) < 0.3
    groups[-5:] = 9  # a source that only joins
    now = np.arange(data.draw(st.integers(1, 30)))
    free = list(range(len(now), 40))
    model = blocks_kind(**parameters)

    def blocks(numbers):
        sizes = data.draw(st.lists(st.integers(0, 9), max_size=4))
        given_columns = (one[numbers] for one in (rows, labels, trusted, groups))
        return RowBlocks.from_blocks(cut(np.minimum(sizes, len(numbers)), *given_columns))

    model.fit(blocks(now), **reference)
    for _ in range(data.draw(st.integers(1, 5))):
        model = copy.copy(model) if data.draw(st.booleans()) else pickle.loads(pickle.dumps(model))
        if free and data.draw(st.booleans()):
            n_more = data.draw(st.integers(1, len(free)))
            more, free = free[:n_more], free[n_more:]
            model.partial_fit(blocks(more))
            now = np.append(now, more)
        else:
            leaves = np.array(data.draw(st.lists(st.booleans(), min_size=len(now), max_size=len(now))))
            if not leaves.all():
                model.forget(leaves)
                now = now[~leaves]
    memory = memory_kind(**parameters).fit(rows[now], labels[now], **reference)
    for changes in ("labels", "rows", "removals"):
        wanted = memory.certify(test, adversary=Adversary(changes, trusted[now], groups[now]))
        assert_same(model.certify(test, adversary=Adversary(changes)), wanted, same_adversary=False)
    np.testing.assert_array_equal(model.decision_function(test), memory.decision_function(test))


class TestTrustAndGroups:
    def fitted(self, rows, **parameters):
        model = StreamingRidgeClassifier(classes=range(3), **parameters)
        return model.fit(X[rows], y[rows], trusted=TRUSTED[rows], groups=GROUPS[rows], reference=REFERENCE)

    def check(self, model, rows, trusted=TRUSTED):
        memory = flipproof.CertifiedRidgeClassifier(classes=range(3)).fit(X[rows], y[rows], reference=REFERENCE)
        for changes in ("labels", "rows", "removals"):
            wanted = memory.certify(Z, adversary=Adversary(changes, trusted[rows], GROUPS[rows]))
            assert_same(model.certify(Z, adversary=Adversary(changes)), wanted, same_adversary=False)

    def test_of_all_rows(self):
        model = self.fitted(slice(0, 30))
        model.partial_fit(X[30:], y[30:], trusted=TRUSTED[30:], groups=GROUPS[30:])
        self.check(model, slice(None))
        self.check(model.forget(GONE), np.delete(np.arange(N), GONE))

    def test_sources_that_leave_with_all_their_rows(self):
        self.check(self.fitted(slice(None)).forget(GROUPS == 3), np.flatnonzero(GROUPS != 3))

    def test_rows_whose_trust_is_not_given_are_not_trusted(self):
        trusted = np.where(np.arange(N) < 30, TRUSTED, False)
        self.check(self.fitted(slice(0, 30)).partial_fit(X[30:], y[30:], groups=GROUPS[30:]), slice(None), trusted)
        model = StreamingRidgeClassifier(classes=range(3)).fit(X[30:], y[30:], groups=GROUPS[30:], reference=REFERENCE)
        model.partial_fit(X[:30], y[:30], trusted=TRUSTED[:30], groups=GROUPS[:30])
        self.check(model, np.roll(np.arange(N), -30), trusted)
        model.forget(range(60, 90))
        found = model.certify(Z, adversary=Adversary("rows"))
        memory = flipproof.CertifiedRidgeClassifier(classes=range(3)).fit(X[30:], y[30:], reference=REFERENCE)
        wanted = memory.certify(Z, adversary=Adversary("rows", groups=GROUPS[30:]))
        np.testing.assert_array_equal(found.radius, wanted.radius)

    def test_groups_for_some_rows_only(self):
        with pytest.raises(ValueError, match="rows of the fit have groups, but these rows have none"):
            self.fitted(slice(0, 30)).partial_fit(X[30:], y[30:], trusted=TRUSTED[30:])
        model = StreamingRidgeClassifier().fit(X, y, reference=REFERENCE)
        with pytest.raises(ValueError, match="rows of the fit have no groups, but these rows have some"):
            model.partial_fit(X, y, groups=GROUPS)

    def test_labels_that_the_prior_has_read(self):
        """They can neither be forgotten nor increased; other rows join and leave as in memory."""
        model = StreamingRidgeClassifier(prior=TREE).fit(X, y, trusted=TRUSTED, reference=REFERENCE)
        memory = flipproof.CertifiedRidgeClassifier(prior=TREE).fit(X, y, trusted=TRUSTED, reference=REFERENCE)
        first = np.flatnonzero(TRUSTED)[2]
        for one in (model, memory):
            with pytest.raises(ValueError, match=f"^Row {first} was trusted in the fit, and its label was read by the"):
                one.forget([0, 1, first] if not TRUSTED[:2].any() else [first])
        with pytest.raises(ValueError, match="the prior read the labels that were trusted in the fit"):
            model.partial_fit(X[:9], y[:9], trusted=TRUSTED[:9])
        gone = np.flatnonzero(~TRUSTED)[::3]
        for one in (model, memory):
            one.forget(gone).partial_fit(X[gone], y[gone])
        assert model.assumptions_ == memory.assumptions_
        others = np.arange(N) % 4 == 0
        for changes in ("labels", "rows"):
            for adversary in (Adversary(changes), Adversary(changes, trusted=others)):
                assert_same(model.certify(Z, adversary=adversary), memory.certify(Z, adversary=adversary))


@pytest.mark.parametrize("learner", LEARNERS)
def test_parameters_are_those_of_the_fit(learner):
    """Parameters that are set afterwards are for the next fit."""
    blocks, memory, given = LEARNERS[learner]
    model = blocks(classes=range(3), **given).fit(X[:60], y[:60], reference=REFERENCE)
    model.set_params(regularization=1e6, fit_intercept=False, precision=3, clip="sign", noise=0.4, prior=TREE)
    model.partial_fit(X[60:], y[60:]).forget(GONE)
    kept = np.delete(np.arange(N), GONE)
    wanted = memory(classes=range(3), **given).fit(X[kept], y[kept], reference=REFERENCE)
    assert_is_the_model(model, wanted, kept)


class TestCost:
    def test_only_new_rows_and_parts_with_gaps_are_visited(self):
        visited = []

        def blocks(name, start, stop):
            def made():
                visited.append(name)
                yield X[start:stop], y[start:stop]

            return RowBlocks.from_blocks(made)

        model = StreamingRidgeClassifier(classes=range(3)).fit(blocks("a", 0, 50), reference=REFERENCE)
        more = blocks("b", 50, 80)
        visited.clear()
        model.partial_fit(more)
        assert visited == ["b", "b"]
        last = blocks("c", 80, 90)
        model.partial_fit(last)
        visited.clear()
        model.forget([55, 60])
        assert visited == ["b"]
        visited.clear()
        model.certify(Z)
        assert visited == ["a", "b", "c"]

    def test_gaps_of_one_part_are_one_step(self):
        """Thousands of updates must not build thousands of layers."""
        model = StreamingRidgeClassifier(classes=range(3)).fit([(X, y)], reference=REFERENCE)
        for _ in range(60):
            model.forget([7])
        part = model._known.rows.parts[0].part
        assert isinstance(part, known_rows.WithoutRows)
        assert not isinstance(part.part, known_rows.WithoutRows)
        np.testing.assert_array_equal(part.gone, np.arange(7, 67))

    def test_memory_is_that_of_a_block(self, monkeypatch):
        """The visit for leaving rows sums block after block."""
        sizes, sums = [], passes.labelled_sums
        monkeypatch.setattr(
            "flipproof.streaming.fit_in_passes.labelled_sums",
            lambda block, **others: sizes.append(len(block)) or sums(block, **others),
        )
        model = StreamingRidgeClassifier(classes=range(3)).fit(cut([10] * 8, X, y), reference=REFERENCE)
        sizes.clear()
        model.forget([3, 44])
        assert max(sizes) <= 10
        assert sum(sizes) == 2 * 10 + 2 * 9


class TestSources:
    memory = flipproof.CertifiedRidgeClassifier(classes=range(3)).fit(
        np.delete(X, GONE, axis=0), np.delete(y, GONE), reference=REFERENCE
    )

    def check(self, first, more, test=Z):
        """Fit to 30 rows, let the others join, then let some of both leave."""
        model = StreamingRidgeClassifier(classes=range(3)).fit(*first, reference=REFERENCE)
        model.partial_fit(*more).forget(GONE)
        rows = Adversary(changes="rows")
        for adversary in (None, rows):
            assert_same(model.certify(test, adversary=adversary), self.memory.certify(Z, adversary=adversary))

    def test_dask_and_memory(self):
        in_dask = da.from_array(X, chunks=(31, 2))
        self.check((in_dask[:30], y[:30]), (in_dask[30:], y[30:]), da.from_array(Z, chunks=5))
        self.check((X[:30], y[:30]), (in_dask[30:], y[30:]))
        self.check((in_dask[:30], y[:30]), (cut([9], X[30:], y[30:]),))

    def test_files(self, tmp_path):
        for number, (rows, labels) in enumerate(cut([30, 31], X, y)):
            np.save(tmp_path / f"X-{number}.npy", rows)
            np.save(tmp_path / f"y-{number}.npy", labels)
        first = tmp_path / "X-0.npy", tmp_path / "y-0.npy"
        self.check(first, (str(tmp_path / "X-[12].npy"), str(tmp_path / "y-[12].npy")))

    def test_certificate_files(self, tmp_path):
        model = StreamingRidgeClassifier(classes=range(3)).fit(X[:30], y[:30], groups=GROUPS[:30], reference=REFERENCE)
        model.partial_fit(X[30:], y[30:], groups=GROUPS[30:]).forget(GONE)
        for changes in ("labels", "rows"):
            found = model.certify(Z, adversary=Adversary(changes))
            found.save(tmp_path / "proof.flipproof")
            assert flipproof_verify.verify(tmp_path / "proof.flipproof").verdict == "VERIFIED"
            again = flipproof.load_certificates(tmp_path / "proof.flipproof")
            np.testing.assert_array_equal(again.radius, found.radius)
            assert again.n_train == N - len(GONE)

    def test_files_that_are_gone(self, tmp_path):
        """A lost file is named when it is needed, and the model is as before."""
        for number, (rows, labels) in enumerate(cut([30, 31], X, y)):
            np.save(tmp_path / f"X-{number}.npy", rows)
            np.save(tmp_path / f"y-{number}.npy", labels)
        files = str(tmp_path / "X-*.npy"), str(tmp_path / "y-*.npy")
        model = StreamingRidgeClassifier(classes=range(3)).fit(*files, reference=REFERENCE)
        lost = tmp_path / "X-1.npy"
        lost.rename(tmp_path / "elsewhere.npy")
        model.forget([0, 1])  # of the first file
        for ask in (lambda: model.forget([50]), lambda: model.certify(Z)):
            with pytest.raises(OSError, match=r"cannot read '.*X-1.npy': No such file"):
                ask()
        (tmp_path / "elsewhere.npy").rename(lost)
        assert model.certify(Z).n_train == N - 2


class TestRefusals:
    def model(self):
        return StreamingRidgeClassifier(classes=range(3)).fit(cut(SIZES, X, y), reference=REFERENCE)

    @pytest.mark.parametrize("method", ["partial_fit", "forget"])
    @pytest.mark.parametrize("learner", LEARNERS)
    def test_a_geometry_that_is_not_frozen(self, learner, method):
        """The same error as in memory."""
        said = []
        for kind in LEARNERS[learner][:2]:
            for model in (kind(), kind(**LEARNERS[learner][2]).fit(X, y)):
                assert not hasattr(model, method)
                with pytest.raises(AttributeError, match=f"^{method} of {kind.__name__} needs a geometry") as error:
                    getattr(model, method)
                said.append(str(error.value).replace("Certified", "Streaming"))
        assert len(set(said)) == 1
        assert callable(getattr(LEARNERS[learner][0], method))

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ([(X[:, :3], y)], "The reference has 4 columns, but block 0 has 3"),
            ([(X, y + 1)], "3"),
            ([(X, y.astype(str))], "."),
            ([(np.where(X[4, 1] == X, np.nan, X), y)], "block 0 has NaN in its row 4, column 1"),
            ([(X, y[:5])], "must have one entry for each of the 90 rows"),
            ("nowhere/*.npy", "."),
        ],
    )
    def test_rows_that_do_not_fit_change_nothing(self, given, message):
        model = self.model()
        before = dict(vars(model))
        with pytest.raises((ValueError, OSError), match=message):
            model.partial_fit(given)
        assert vars(model) == before
        assert_same(
            model.certify(Z),
            flipproof.CertifiedRidgeClassifier(classes=range(3)).fit(X, y, reference=REFERENCE).certify(Z),
        )

    def test_columns_with_other_names(self):
        frame = pd.DataFrame(X, columns=list("abcd"))
        reference = pd.DataFrame(REFERENCE, columns=list("abcd"))
        model = StreamingRidgeClassifier().fit([(frame, y)], reference=reference)
        model.partial_fit([(frame, y)])
        with pytest.raises(ValueError, match="The reference has a column 'b' where the training rows have 'c'"):
            model.partial_fit([(frame[list("acbd")], y)])

    @pytest.mark.parametrize(
        ("rows", "message"),
        [
            ([90], "must be numbers from 0 to 89"),
            ([-1], "must be numbers from 0 to 89"),
            (np.ones(5, dtype=bool), "A mask of rows to forget must have one entry per training row, 90"),
            (np.ones(N, dtype=bool), "At least one training row is needed"),
        ],
    )
    def test_rows_that_cannot_be_forgotten(self, rows, message):
        model = self.model()
        with pytest.raises(ValueError, match=message):
            model.forget(rows)
        assert model.n_rows_ == N

    def test_nothing_joins_or_leaves(self):
        model = self.model()
        wanted = model.certify(Z)
        model.partial_fit([(X[:0], y[:0])]).forget([]).forget(np.zeros(N, dtype=bool))
        assert_same(model.certify(Z), wanted)

    def test_rows_that_have_changed(self):
        size = [1.0]

        def blocks():
            yield from cut([20, 40, 5], X * size[0], y)

        model = StreamingRidgeClassifier(classes=range(3)).fit(blocks, reference=REFERENCE)
        model.forget([3])
        size[0] = 0.9
        for ask in (lambda: model.forget([30]), lambda: model.certify(Z)):
            with pytest.raises(ValueError, match="the rows have changed since the first visit"):
                ask()
        size[0] = 1.0
        assert model.certify(Z).n_train == N - 1

    def test_labels_that_have_changed(self):
        labels = [y]

        def blocks():
            yield from cut([20, 40, 5], X, labels[0])

        model = StreamingRidgeClassifier(classes=range(3)).fit(blocks, reference=REFERENCE)
        model.forget([3])
        swapped = y.copy()
        one, other = np.flatnonzero(y == 0)[-2:], np.flatnonzero(y == 1)[-2:]
        swapped[one], swapped[other] = y[other], y[one]
        labels[0] = swapped
        with pytest.raises(ValueError, match="The training rows have changed since the model was fitted"):
            model.certify(Z)

    def test_forgotten_rows_that_are_in_the_reference_are_named(self):
        model = self.model()
        with pytest.warns(
            ReferenceWarning, match=r"2 of the 4 withdrawn rows \(20, 70\) have the same features"
        ) as found:
            model.forget([1, 20, 30, 70])
        assert found[0].filename == __file__
