"""Audits that give trusted labels to the fit: priors, supervised trees, labels of the reference."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import flipproof
from flipproof import Adversary, CertifiedForestClassifier, CertifiedRidgeClassifier
from flipproof.streaming import RowBlocks

RNG = np.random.default_rng(0)
N = 90
X, Z, R = RNG.normal(size=(N, 3)), RNG.normal(size=(30, 3)), RNG.normal(size=(25, 3))
Y, TRUTH, CHECKED = (np.where(rows[:, 0] + 0.4 * RNG.normal(size=len(rows)) > 0, "a", "b") for rows in (X, Z, R))
TRUSTED = np.arange(N) % 4 == 0
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)


def _frame(rows, labels=None, **columns):
    given = {} if labels is None else {"kind": labels}
    return pd.DataFrame(rows, columns=list("pqr")).assign(**given, **columns)


def _audit(**given):
    chosen = {"label": "kind", "scale": "none", "classes": ["a", "b"], "attack": False, **given}
    train = _frame(X, Y, sure=TRUSTED) if chosen.get("trusted") else _frame(X, Y)
    return flipproof.audit(train, _frame(Z, TRUTH), **chosen)


@pytest.mark.parametrize("learner", ["ridge", "neighbors", "kernel", "cluster", "forest", "partition"])
def test_a_prior_gets_the_trusted_column(learner):
    found = _audit(learner=learner, trusted="sure", prior=TREE, prior_weight=2.0)
    known = found.model.get_params(deep=False)
    model = type(found.model)(**known).fit(X, Y, trusted=TRUSTED)
    same = model.certify(Z)
    np.testing.assert_array_equal(found.main.prediction, same.prediction)
    np.testing.assert_array_equal(found.main.radius, same.radius)
    assert found.main.n_touchable == np.count_nonzero(~TRUSTED)
    assert any("the prior (DecisionTreeClassifier) alone" in name for name in found.trusted_only.names)


def test_a_plain_certify_of_an_audited_model_does_not_count_labels_that_its_prior_has_read():
    model = _audit(trusted="sure", prior=TREE).model
    assert model.certify(Z).n_touchable == np.count_nonzero(~TRUSTED)
    assert _audit(trusted="sure").model.certify(Z).n_touchable == N


def test_without_such_an_option_the_fit_does_not_get_the_column():
    plain, by_adversary = _audit(trusted="sure"), CertifiedRidgeClassifier(classes=["a", "b"]).fit(X, Y)
    codes = [one.code for one in plain.main.assumptions]
    assert "trusted-at-fit" not in codes
    assert "trusted-labels" in codes
    same = by_adversary.certify(Z, adversary=Adversary(trusted=TRUSTED))
    np.testing.assert_array_equal(plain.main.radius, same.radius)


def test_labels_of_the_reference_are_trusted_only_if_asked():
    reference = _frame(R, CHECKED)
    asked = _audit(reference=reference, reference_labels=True, prior=TREE, learner="forest")
    same = CertifiedForestClassifier(prior=TREE, classes=["a", "b"]).fit(X, Y, reference=R, reference_labels=CHECKED)
    for changes, mine in (("labels", asked.main), ("rows", asked.against_rows)):
        np.testing.assert_array_equal(mine.radius, same.certify(Z, adversary=Adversary(changes=changes)).radius)
    assert asked.trusted_only.n_trusted == len(R)
    with pytest.raises(ValueError, match="requires trusted labels"):
        _audit(reference=reference, prior=TREE)
    one, other = (_audit(reference=_frame(R, labels)) for labels in (CHECKED, CHECKED[::-1]))
    np.testing.assert_array_equal(one.main.radius, other.main.radius)


def test_reference_labels_and_trusted_column_together():
    found = _audit(reference=_frame(R, CHECKED), reference_labels=True, prior=TREE, trusted="sure", learner="ridge")
    same = CertifiedRidgeClassifier(prior=TREE, classes=["a", "b"])
    same.fit(X, Y, reference=R, reference_labels=CHECKED, trusted=TRUSTED)
    np.testing.assert_array_equal(found.main.radius, same.certify(Z).radius)
    assert found.trusted_only.n_trusted == len(R) + np.count_nonzero(TRUSTED)
    alone = CertifiedRidgeClassifier(classes=["a", "b"])
    alone.fit(np.concatenate([X[TRUSTED], R]), np.concatenate([Y[TRUSTED], CHECKED]))
    assert found.trusted_only.accuracy[0] == pytest.approx(alone.score(Z, TRUTH))


def test_supervised_trees_steps_that_need_labels_and_pipelines_get_trusted_labels():
    kind = CertifiedForestClassifier(5, grow="supervised", classes=["a", "b"])
    found = _audit(learner="forest", parameters={"grow": "supervised", "n_estimators": 5}, trusted="sure")
    np.testing.assert_array_equal(found.main.radius, kind.fit(X, Y, trusted=TRUSTED).certify(Z).radius)
    adversary = Adversary(trusted=TRUSTED)
    selecting = CertifiedRidgeClassifier(features=SelectKBest(k=1), classes=["a", "b"])
    by_arrays = flipproof.audit((X, Y), (Z, TRUTH), learner=selecting, adversary=adversary, attack=False)
    assert "the features step SelectKBest" in str(by_arrays.main.assumptions)
    steps = make_pipeline(StandardScaler(), CertifiedRidgeClassifier(prior=TREE, classes=["a", "b"]))
    in_pipeline = flipproof.audit((X, Y), (Z, TRUTH), learner=steps, adversary=adversary, attack=False)
    assert in_pipeline.model[-1].prior_ is not None
    assert in_pipeline.main.n_touchable == np.count_nonzero(~TRUSTED)


def test_a_holdout_keeps_trust_with_its_rows():
    found = flipproof.audit(
        _frame(X, Y, sure=TRUSTED), holdout=0.3, label="kind", trusted="sure", prior="logistic", attack=False
    )
    kept = np.delete(np.arange(N), found.test.ids)
    np.testing.assert_array_equal(found.model.is_trusted_, TRUSTED[kept])
    assert type(found.model.prior_) is LogisticRegression


def test_permuting_all_other_labels_changes_no_bit_of_the_votes():
    changed = Y.copy()
    changed[~TRUSTED] = np.random.default_rng(1).permutation(Y[~TRUSTED])
    votes = []
    for labels in (Y, changed):
        train = _frame(X, labels, sure=TRUSTED)
        chosen = {"label": "kind", "trusted": "sure", "prior": "forest", "learner": "forest", "classes": ["a", "b"]}
        found = flipproof.audit(train, _frame(Z), parameters={"grow": "supervised"}, attack=False, **chosen)
        votes.append(found.model.vote_weights(found.X_test))
    for one, other in zip(*votes, strict=True):
        np.testing.assert_array_equal(one, other)


def test_models_with_a_prior_are_kept_in_files_and_proofs(tmp_path):
    found = _audit(trusted="sure", prior=RandomForestClassifier(5, random_state=0), learner="forest")
    flipproof.save(found.deployed, tmp_path / "m.flipproof")
    again = flipproof.audit(model=tmp_path / "m.flipproof", test=_frame(Z, TRUTH), attack=False)
    np.testing.assert_array_equal(again.main.radius, found.main.radius)
    found.save(tmp_path / "p.flipproof")
    from flipproof_verify import verify

    assert verify(tmp_path / "p.flipproof").verdict == "VERIFIED"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"prior": "tree", "trusted": "sure"}, "must be one of forest, logistic, ridge"),
        ({"prior": "forest"}, "requires trusted labels"),
        ({"prior_weight": 2.0}, "'prior_weight' requires 'prior'"),
        ({"prior": TREE, "parameters": {"prior": TREE}, "trusted": "sure"}, "only once"),
        ({"reference_labels": True}, "'reference_labels' requires"),
        ({"reference": _frame(R), "reference_labels": True}, "has no column 'kind'"),
        ({"reference": _frame(R, [None, *CHECKED[1:]]), "reference_labels": True}, "missing labels"),
        ({"learner": "forest", "parameters": {"grow": "supervised"}}, "requires trusted labels"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(given, said):
    with pytest.raises(ValueError, match=said) as error:
        _audit(**given)
    assert "\n" not in str(error.value)


def test_priors_of_rows_in_blocks_are_those_of_rows_in_memory():
    rows = RowBlocks.from_arrays(X, Y, TRUSTED)
    chosen = {"prior": TREE, "prior_weight": 2.0, "attack": False}
    found = flipproof.audit(rows, (Z, TRUTH), **chosen)
    same = CertifiedRidgeClassifier(prior=TREE, prior_weight=2.0).fit(X, Y, trusted=TRUSTED)
    np.testing.assert_array_equal(found.main.radius, same.certify(Z).radius)
    assert found.main.n_touchable == np.count_nonzero(~TRUSTED)
    assert found.trusted_only.n_trusted == np.count_nonzero(TRUSTED)
    assert found.trusted_only.names == ("the prior (DecisionTreeClassifier) alone",)
    found = flipproof.audit(rows, (Z, TRUTH), reference=(R, CHECKED), reference_labels=True, **chosen)
    same.fit(X, Y, reference=R, reference_labels=CHECKED)
    same = same.certify(Z, adversary=Adversary(trusted=TRUSTED))
    np.testing.assert_array_equal(found.main.radius, same.radius)
    assert found.trusted_only.n_trusted == len(R)
    assert len(found.trusted_only.names) == 2
    with pytest.raises(ValueError, match="'prior' requires trusted labels"):
        flipproof.audit(RowBlocks.from_arrays(X, Y), (Z, TRUTH), **chosen)


def test_arrays_take_a_reference_with_labels_as_a_pair():
    chosen = {"prior": TREE, "reference_labels": True, "attack": False}
    found = flipproof.audit((X, Y), (Z, TRUTH), reference=(R, CHECKED), **chosen)
    same = CertifiedRidgeClassifier(prior=TREE).fit(X, Y, reference=R, reference_labels=CHECKED)
    np.testing.assert_array_equal(found.main.radius, same.certify(Z).radius)
    with pytest.raises(ValueError, match=r"requires a pair \(X, y\)"):
        flipproof.audit((X, Y), (Z, TRUTH), reference=R, **chosen)
    with pytest.raises(ValueError, match="one label per row"):
        flipproof.audit((X, Y), (Z, TRUTH), reference=(R, CHECKED[:3]), **chosen)
