"""The baseline of trusted labels only, beside certificates: accuracy that holds at any number of other changes."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import flipproof
from flipproof import Adversary, CertifiedForestClassifier, CertifiedNeighborsClassifier, CertifiedRidgeClassifier
from flipproof.learners.baseline import trusted_only_predictions
from flipproof.metrics import certified_accuracy, trusted_only
from flipproof.report.markdown import render_markdown
from flipproof.report.words import trusted_only_sentences

RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(200, 4)), RNG.normal(size=(100, 4))
Y, TRUTH = (np.where(rows[:, 0] + 0.3 * RNG.normal(size=len(rows)) > 0, "a", "b") for rows in (X, Z))
TRUSTED = np.arange(200) < 40


def test_no_other_label_changes_the_baseline():
    changed = np.where(TRUSTED, Y, "a")
    for learner in (CertifiedRidgeClassifier(), CertifiedForestClassifier(5, grow="supervised")):
        learner.set_params(prior=RandomForestClassifier(5), classes=["a", "b"])
        one, other = (
            trusted_only_predictions(learner.fit(X, labels, trusted=TRUSTED), X, labels, TRUSTED, Z)
            for labels in (Y, changed)
        )
        assert [(of.kind, of.class_name) for of in one] == [
            ("learner", type(learner).__name__),
            ("prior", "RandomForestClassifier"),
        ]
        for found, again in zip(one, other, strict=True):
            np.testing.assert_array_equal(found.predictions, again.predictions)


def test_a_learner_that_cannot_be_fitted_to_so_few_rows_is_left_out():
    model = CertifiedNeighborsClassifier(50).fit(X, Y)
    assert trusted_only_predictions(model, X, Y, TRUSTED, Z) == ()


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 1.0])
def test_better_from_is_the_least_number_of_changes_where_the_baseline_wins(share):
    model = CertifiedRidgeClassifier().fit(X, Y)
    found = model.certify(Z, adversary=Adversary(trusted=TRUSTED))
    predictions = np.where(np.arange(100) < round(100 * share), TRUTH, "neither")
    baseline = trusted_only(40, {"some": predictions}, TRUTH, found, [])
    wins = certified_accuracy(TRUTH, found, np.arange(161)) < share
    assert baseline.better_from == (int(np.argmax(wins)) if wins.any() else None)


def test_an_audit_says_first_that_trusted_labels_alone_are_better():
    wanted = ["accuracy >= 0.9 @ 50", "accuracy >= 0.1 @ 0"]
    result = flipproof.audit((X, Y), (Z, TRUTH), adversary=Adversary(trusted=TRUSTED), requirements=wanted)
    baseline = result.trusted_only
    assert baseline.n_trusted == 40
    assert [text for text, _ in baseline.required] == wanted[:1]
    assert "trusted labels only" in repr(result).splitlines()[1]
    assert trusted_only_sentences(baseline)[0].startswith("For the requirement")
    summary = result.summary()
    assert summary["trusted_only"]["best"] == baseline.best
    assert "## Trusted labels only" in render_markdown(summary)
    assert flipproof.audit((X, Y), (Z, TRUTH)).trusted_only is None
