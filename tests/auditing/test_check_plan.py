"""`flipproof.plan_checks`: what checking labels buys, from arrays and frames, as `flipproof plan` tells it."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import flipproof
from flipproof.errors import InputError

pd = pytest.importorskip("pandas")

N_TRAIN = 120
RNG = np.random.default_rng(0)
X = RNG.normal(size=(160, 3))
Y = np.where(X[:, 0] + 0.5 * RNG.normal(size=160) > 0, "spam", "ham")
TRAIN, TEST = (X[:N_TRAIN], Y[:N_TRAIN]), (X[N_TRAIN:], Y[N_TRAIN:])
SMALL = {"budget": [10, 25], "flips": [0, 5], "prior": "logistic"}


def test_it_is_the_plan_of_a_fitted_model():
    plan = flipproof.plan_checks(TRAIN, TEST, **SMALL, seed=3)
    model = flipproof.CertifiedRidgeClassifier().fit(*TRAIN)
    expected = flipproof.attacks.plan_audit(
        *(model, *TEST, [10, 25]),
        **{"X": TRAIN[0], "y": TRAIN[1], "flips": [0, 5], "prior": LogisticRegression(max_iter=1000)},
        random_state=3,
    )
    assert (plan.before, plan.checks, plan.flips) == (expected.before, expected.checks, expected.flips)
    assert (plan.target, plan.reached, plan.best, plan.answer) == (None, None, None, None)


@pytest.mark.parametrize("reach", ["accuracy >= 0.6 @ 7", "accuracy >= 1 @ 7", "accuracy >= 0.5 @ 0"])
def test_the_answer_is_about_the_target(reach):
    plan = flipproof.plan_checks(TRAIN, TEST, **SMALL, reach=reach)
    at = plan.flips.index(plan.target.flips)
    enough = [one for one in plan.checks if one.certified[at] >= plan.target.share]
    is_met_now = plan.before[at] >= plan.target.share
    assert plan.reached == (is_met_now or bool(enough))
    if is_met_now or not enough:
        assert plan.best is None
    else:
        assert plan.best.n_checked == min(one.n_checked for one in enough)
        assert plan.best.used in plan.answer
    told = plan.facts()
    assert told["reach"] == [plan.target.share, plan.target.flips]
    assert told["sentences"] == [plan.answer, *plan.notes]


def test_labels_that_are_trusted_already_count_as_no_check():
    rows = pd.DataFrame(X, columns=list("pqr")).assign(kind=Y, sure=np.arange(160) % 8 == 0)
    plan = flipproof.plan_checks(rows[:N_TRAIN], rows[N_TRAIN:], label="kind", trusted="sure", drop=["sure"], **SMALL)
    assert plan.n_trusted == 15
    assert min(one.n_checked for one in plan.checks) == 0
    assert "15 labels are trusted without a check." in plan.notes[0]


def test_without_labels_of_the_test_rows_there_is_no_accuracy():
    plan = flipproof.plan_checks(TRAIN, TEST[0], budget=[5], flips=[0], prior="ridge")
    assert not plan.is_accuracy
    assert plan.headline.startswith("Share of certified predictions")
    with pytest.raises(InputError, match="requires test rows with labels"):
        flipproof.plan_checks(TRAIN, TEST[0], reach="accuracy >= 0.5 @ 1")


def test_invalid_arguments_are_refused_with_a_remedy():
    with pytest.raises(TypeError, match=r"unexpected argument 'bugdet'. Did you mean 'budget'"):
        flipproof.plan_checks(TRAIN, TEST, bugdet=[5])
    for wrong in ("0.9@20", "recall >= 0.5 @ 3"):
        with pytest.raises(InputError, match="must be a requirement on accuracy"):
            flipproof.plan_checks(TRAIN, TEST, reach=wrong)
    with pytest.raises(InputError, match="'reference' cannot be combined with plan"):
        flipproof.plan_checks(TRAIN, TEST, reference=X)
    with pytest.raises(InputError, match="'adversary' cannot be combined with plan"):
        flipproof.plan_checks(TRAIN, TEST, adversary=flipproof.Adversary(groups=np.arange(N_TRAIN)))
    with pytest.raises(InputError, match="'prior': 'tree' must be one of"):
        flipproof.plan_checks(TRAIN, TEST, prior="tree")
