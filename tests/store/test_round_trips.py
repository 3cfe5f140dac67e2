"""A model that was saved and loaded has the same attributes, predictions and certificates, to the last bit."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from same_state import difference
from stored_models import WORDS, X_TEST, X, Y, digests, models, propagation, ridge

import flipproof
from flipproof.store import ModelFileError, model_digest


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # regularization="paper" reads labels
        return models()


@pytest.fixture(scope="module")
def stored(fitted, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        name: (flipproof.save(model, folder / f"{name}.flipproof"), folder / f"{name}.flipproof")
        for name, model in fitted.items()
    }


def loaded_elsewhere(folder, *how):
    """Return the digests that another process finds for all models in a folder."""
    command = [sys.executable, Path(__file__).with_name("stored_models.py"), folder, *how]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    return json.loads(done.stdout)


#: One model of each learner, and one with a reference.
FEW = (
    "ridge",
    "kernel-landmarks",
    "neighbors",
    "cluster",
    "forest",
    "partition",
    "propagation",
    "ridge with reference",
)


def test_another_process_certifies_the_same_to_the_last_bit(fitted, stored, tmp_path):
    """For every learner, in a process that never saw the training rows."""
    for name in FEW:
        (tmp_path / f"{name}.flipproof").write_bytes(stored[name][1].read_bytes())
    assert loaded_elsewhere(tmp_path) == {name: digests(fitted[name]) for name in FEW}


@pytest.mark.slow
def test_another_process_certifies_the_same_by_every_method(fitted, stored):
    """The same for all models, and for all methods with all adversaries."""
    there = loaded_elsewhere(next(iter(stored.values()))[1].parent, "every")
    assert there == {name: digests(model, every=True) for name, model in fitted.items()}


def test_no_attribute_is_lost(fitted, stored):
    """A learner that gets a new attribute or parameter must add it to the table, or this fails."""
    for name, model in fitted.items():
        assert difference(model, flipproof.load(stored[name][1])) is None, name


@pytest.mark.slow
def test_digests_identify_models(fitted, stored, tmp_path):
    for name, (digest, path) in stored.items():
        assert model_digest(fitted[name]) == model_digest(path) == digest, name
        assert flipproof.save(flipproof.load(path), tmp_path / "again") == digest, name
        assert (tmp_path / "again").read_bytes() == path.read_bytes(), name
    assert len({digest for digest, _ in stored.values()}) == len(stored)


@pytest.mark.slow
def test_loaded_models_go_on_learning(stored):
    """Rows join and leave a loaded model as they do one that was never stored."""
    for name, (_, path) in stored.items():
        if "reference" in name:
            loaded, again = flipproof.load(path), flipproof.load(path)
            again.partial_fit(X[:3], WORDS[:3]).forget(range(again.n_rows_ - 3, again.n_rows_))
            assert digests(again) == digests(loaded), name


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "labels",
    [Y, Y.astype(float), Y > 0, WORDS, WORDS.astype(object), (WORDS == "ü").tolist(), Y.astype("uint8"), Y + 2**62],
)
def test_classes_keep_their_type(labels, tmp_path):
    for classes in (None, sorted(set(np.asarray(labels).tolist()))):
        model = ridge(classes=classes).fit(X, labels)
        flipproof.save(model, tmp_path / "m.flipproof")
        loaded = flipproof.load(tmp_path / "m.flipproof")
        assert loaded.predict(X_TEST).dtype == model.predict(X_TEST).dtype
        assert loaded.predict(X_TEST).tolist() == model.predict(X_TEST).tolist()
        assert difference(model, loaded) is None


def test_attributes_that_the_table_does_not_know_are_refused(tmp_path):
    model = ridge().fit(X, Y)
    model.extra_ = 1
    with pytest.raises(ModelFileError, match=r"CertifiedRidgeClassifier cannot be stored.* 'extra_'"):
        flipproof.save(model, tmp_path / "m.flipproof")
    assert list(tmp_path.iterdir()) == []


def test_a_refit_leaves_nothing_behind(tmp_path):
    """What only an earlier fit used is not stored."""
    for model in (ridge(), flipproof.CertifiedKernelClassifier(n_components=5)):
        model.fit(X, Y, reference=X[:20])
        model.fit(X[:30], Y[:30])
        flipproof.save(model, tmp_path / "m.flipproof")
        loaded = flipproof.load(tmp_path / "m.flipproof")
        assert digests(loaded) == digests(model)
        assert not hasattr(loaded, "_row_hashes")


def test_models_that_cannot_be_stored_are_refused_by_name(tmp_path):
    file = tmp_path / "m.flipproof"
    blocks = flipproof.StreamingRidgeClassifier().fit([(X, Y)])
    with pytest.raises(ValueError, match=r"StreamingRidgeClassifier cannot be stored: .*CertifiedRidgeClassifier"):
        flipproof.save(blocks, file)
    with pytest.raises(ValueError, match=r"SmoothedClassifier cannot be stored: .*fit it again"):
        flipproof.save(flipproof.SmoothedClassifier(n_select=2, n_samples=2).fit(X, Y), file)
    with pytest.raises(ValueError, match="must be a fitted learner of flipproof"):
        flipproof.save("ridge", file)
    with pytest.raises(ValueError, match="not fitted"):
        flipproof.save(ridge(), file)

    class Parzen(flipproof.LabelLinearClassifier):
        def fit_without_labels(self, X):
            self.n_ = len(X)

        def label_free_weights(self, Z):
            return [[1.0] * self.n_]

    with pytest.raises(ValueError, match="Parzen, which cannot be stored"):
        flipproof.save(Parzen().fit(X, Y), file)
    with pytest.raises(ValueError, match="the function <lambda>"):
        flipproof.save(flipproof.CertifiedNeighborsClassifier(weights=lambda d: d).fit(X, Y), file)
    assert not file.exists()


def test_labels_of_rows_without_labels_are_not_stored(tmp_path):
    unlabeled = [True] * 10 + [False] * (len(X) - 10)
    files = []
    for hidden in ("a", "b"):
        labels = [hidden] * 10 + [["a", "b"][i % 2] for i in range(len(X) - 10)]
        flipproof.save(propagation(4).fit(X, labels, unlabeled), tmp_path / hidden)
        files.append((tmp_path / hidden).read_bytes())
    assert files[0] == files[1]
