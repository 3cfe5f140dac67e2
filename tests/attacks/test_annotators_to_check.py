"""Who takes part in attacks: annotators by name, with their numbers of labels."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from flipproof import Adversary, Annotations, CertifiedNeighborsClassifier, CertifiedRidgeClassifier
from flipproof.attacks import annotators_to_check, worst_flips
from flipproof.attacks.label_audit import attack_most_fragile
from flipproof.report.html import render_html
from flipproof.report.markdown import render_markdown
from flipproof.report.summary import summarize

X, y = make_blobs(120, centers=2, cluster_std=4.0, random_state=1)
WHO = np.array([f"a{i:02d}" for i in np.random.default_rng(0).integers(12, size=90)])
MODEL = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:90], y[:90])
ADVERSARY = Adversary(groups=WHO)


def test_attacks_name_the_annotators_in_order():
    attack = worst_flips(MODEL, X[90:], ADVERSARY)
    for row in np.flatnonzero(attack.success):
        who = attack.who(row)
        assert len(who) == attack.flips_needed[row]
        assert sum(who.values()) == len(attack.rows[row])
        for name, n_labels in who.items():
            assert n_labels == np.count_nonzero(WHO[attack.rows[row]] == name)
        # without the first annotator, the others are not enough
        kept = WHO[attack.rows[row]] != next(iter(who))
        fewer = y[:90].copy()
        fewer[attack.rows[row][kept]] = attack.new_labels[row][kept]
        model = CertifiedRidgeClassifier(classes=[0, 1]).fit(X[:90], fewer)
        assert model.predict(X[90 + row : 91 + row])[0] == attack.prediction[row]
    with pytest.raises(ValueError, match="groups"):
        worst_flips(MODEL, X[90:]).who(0)


def test_the_ranking_counts_attacks():
    attack = worst_flips(MODEL, X[90:], ADVERSARY)
    audit = annotators_to_check(MODEL, X[90:], ADVERSARY)
    names = [set(attack.who(row)) for row in np.flatnonzero(attack.success)]
    for name, n_attacks, n_alone, n_labels in zip(
        audit.names, audit.n_attacks, audit.n_alone, audit.n_labels, strict=True
    ):
        assert n_attacks == sum(name in one for one in names)
        assert n_alone == sum(one == {name} for one in names)
        assert n_labels == np.count_nonzero(name == WHO)
    assert np.all(np.diff(audit.n_attacks) <= 0)
    assert audit.n_annotators == 12
    assert len(annotators_to_check(MODEL, X[90:], ADVERSARY, top=2)) == 2
    known = MODEL.certify(X[90:], adversary=ADVERSARY)
    assert annotators_to_check(MODEL, X[90:], certificates=known).names.tolist() == audit.names.tolist()
    with pytest.raises(ValueError, match="groups"):
        annotators_to_check(MODEL, X[90:])


def test_annotators_of_several_labels_per_item():
    rng = np.random.default_rng(2)
    item = np.repeat(np.arange(90), 2)
    who = rng.permuted(np.tile(["ann", "bob", "eve"], (90, 1)), axis=1)[:, :2].ravel()
    votes = Annotations.from_long(item, who, y[item], items=90)
    model = CertifiedNeighborsClassifier(9, classes=[0, 1]).fit(X[:90], votes)
    audit = annotators_to_check(model, X[90:], Adversary(groups=votes.annotator))
    assert set(audit.names) <= {"ann", "bob", "eve"}
    assert audit.n_labels.sum() <= 180


def test_reports_name_them():
    certificates = MODEL.certify(X[90:], adversary=ADVERSARY)
    attacks, audit = attack_most_fragile(MODEL, X[90:], certificates=certificates)
    summary = summarize({"exact": certificates}, attack=attacks, audit=audit, y_train=y[:90])
    first = annotators_to_check(MODEL, X[90:], ADVERSARY).names[0]
    for text in (render_markdown(summary), render_html(summary)):
        section = text.split("Annotators to check first")[-1]
        assert first in section
        assert "not necessarily wrong" in section
    someone = summary["predictions"]["rows"][0]["attack"]["who"][0]
    assert someone["n_labels"] > 0
    plain = MODEL.certify(X[90:])
    attacks, audit = attack_most_fragile(MODEL, X[90:], certificates=plain)
    assert "Annotators to check" not in render_html(summarize({"exact": plain}, attack=attacks, audit=audit))
