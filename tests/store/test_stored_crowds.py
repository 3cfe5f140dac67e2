"""Models with weights, several labels per item and majorities: saved, loaded, certified the same, to the last bit."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from same_state import difference
from sklearn.naive_bayes import GaussianNB
from stored_models import N_ROWS, REFERENCE, WORDS, X_TEST, X, digest_of_certificates, forest, kernel, neighbors, ridge

import flipproof
from flipproof import Adversary, Annotations
from flipproof.store import ModelFileError, model_digest

rng = np.random.default_rng(0)
ITEM = np.repeat(np.arange(N_ROWS - 1), 3)[:-2]  # the last item has no labels
LABEL = np.where(rng.random(len(ITEM)) < 0.6, WORDS[ITEM], rng.permutation(WORDS)[ITEM])
WHO = np.concatenate([rng.permutation(7)[:3] for _ in range(N_ROWS)])[: len(ITEM)]
LONG = {"item": ITEM, "annotator": WHO, "label": LABEL, "items": N_ROWS}

PRIOR = GaussianNB().fit(X, WORDS)

MODELS = {
    "ridge": lambda: ridge(clip=0.8, prior=PRIOR),
    "kernel": kernel,
    "neighbors": lambda: neighbors(5),
    "forest": lambda: forest(3),
}


def models(make):
    yield make().fit(X, WORDS, sample_weight=1 + np.arange(N_ROWS) % 3)
    for options in ({}, {"weights": "annotation"}, {"aggregate": "majority"}):
        votes = Annotations.from_long(**LONG, **options)
        yield make().fit(X, votes)
    yield make().fit(pd.DataFrame(X, index=[f"i{row}" for row in range(N_ROWS)]), votes)
    if make is not MODELS["kernel"]:
        yield make().fit(X, votes, reference=REFERENCE)


def saved_and_loaded(model, path):
    flipproof.save(model, path)
    return flipproof.load(path)


@pytest.mark.parametrize("name", MODELS)
def test_round_trips(name, tmp_path):
    for number, model in enumerate(models(MODELS[name])):
        path = tmp_path / f"{number}.flipproof"
        digest = flipproof.save(model, path)
        loaded = flipproof.load(path)
        assert difference(model, loaded) is None
        assert model_digest(loaded) == digest
        n = len(model.powers(None).changeable)
        for adversary in (None, Adversary(trusted=np.arange(n) % 4 == 0), Adversary(groups=np.arange(n) % 7)):
            ours, theirs = (one.certify(X_TEST, adversary=adversary) for one in (model, loaded))
            assert digest_of_certificates(ours) == digest_of_certificates(theirs)
        np.testing.assert_array_equal(loaded.predict(X_TEST), model.predict(X_TEST))
        assert loaded.majority_first == model.majority_first


def test_files_that_contradict_themselves_are_refused(tmp_path):
    """Majorities that are not those of the annotations, or ballots of other rows, would give wrong certificates."""

    def changed(name, **changes):
        model = ridge().fit(X, Annotations.from_long(**LONG, aggregate="majority"))
        setattr(model, name, dataclasses.replace(getattr(model, name), **changes))
        return model

    model = ridge().fit(X, Annotations.from_long(**LONG, aggregate="majority"))
    votes, ballots = model._majority, model._ballots
    for wrong in (
        changed("_majority", codes=(votes.codes + 1) % 3),
        changed("_majority", item=votes.item[::-1].copy()),
        changed("_majority", n_classes=4),
        changed("_ballots", row=ballots.row[::-1].copy()),
        changed("_ballots", n_rows=N_ROWS + 1),
        changed("_ballots", weight=np.full(len(ballots), 0.5)),
    ):
        with pytest.raises(ModelFileError):
            saved_and_loaded(wrong, tmp_path / "m.flipproof")


def test_proofs_of_majorities_in_stored_models_are_verified(tmp_path):
    from flipproof_verify import verify

    fitted = ridge().fit(X, Annotations.from_long(**LONG, aggregate="majority"))
    model = saved_and_loaded(fitted, tmp_path / "m.flipproof")
    certificates = model.certify(X_TEST)
    certificates.save(tmp_path / "p.flipproof")
    assert verify(tmp_path / "p.flipproof").verdict == "VERIFIED"
    larger = dataclasses.replace(certificates, radius=certificates.radius + ~certificates.unlimited)
    larger.save(tmp_path / "q.flipproof", model=model, X_test=X_TEST)
    assert verify(tmp_path / "q.flipproof").verdict == "REFUTED"


@pytest.mark.parametrize("name", MODELS)
def test_proofs_of_weights_and_annotations_are_verified(name, tmp_path):
    """The file holds the votes of labels, not those of rows; one more change than certified is refuted."""
    from flipproof_verify import verify

    for model in list(models(MODELS[name]))[:3]:
        n = len(model.label_codes_)
        for adversary in (None, Adversary(groups=np.arange(n) % 7)):
            certificates = model.certify(X_TEST, adversary=adversary)
            certificates.save(tmp_path / "p.flipproof", model=model, X_test=X_TEST)
            assert verify(tmp_path / "p.flipproof").verdict == "VERIFIED"
            larger = dataclasses.replace(certificates, radius=certificates.radius + ~certificates.unlimited)
            larger.save(tmp_path / "q.flipproof", model=model, X_test=X_TEST)
            assert verify(tmp_path / "q.flipproof").verdict == "REFUTED"
