"""The loaders on the real files."""

import gzip
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from flipproof import CertifiedRidgeClassifier, datasets
from flipproof.datasets.shelf import split_rows

#: Loader, its kind, shape of the training rows, test rows, rows of each class in both, what the provenance must say.
LOADERS = [
    ("load_mnist17", None, (13007, 784), 2163, (7877, 7293), "the original"),
    ("load_cifar10", "lite0", (50000, 128), 10000, (6000,) * 10, "a stand-in"),
    ("load_imdb", "glove", (25000, 100), 25000, (25000, 25000), "a stand-in"),
    ("load_imdb", "texts", (25000,), 25000, (25000, 25000), "the original"),
    ("load_dogfish", "tinynet", (1800, 256), 600, (1200, 1200), "a stand-in"),
    ("load_dogfish", "lite0", (1800, 1280), 600, (1200, 1200), "a stand-in"),
    ("load_dogfish", "images", (1800, 12288), 600, (1200, 1200), "a stand-in"),
    ("load_spambase", None, (3451, 57), 1150, (2788, 1813), "the original"),
    ("load_sms_spam", "texts", (4180,), 1394, (4827, 747), "the original"),
    ("load_sms_spam", "minilm", (4180, 384), 1394, (4827, 747), "sentence embeddings"),
    ("load_enron_spam", "texts", (3542,), 1181, (3225, 1498), "a part of Enron-Spam"),
    ("load_enron_spam", "minilm", (3542, 384), 1181, (3225, 1498), "sentence embeddings"),
    ("load_adult", None, (32561, 14), 16281, (37155, 11687), "the original"),
    ("load_german_credit", "numbers", (750, 24), 250, (700, 300), "the original"),
    ("load_german_credit", "words", (750, 20), 250, (700, 300), "the original"),
    ("load_phishing", None, (8291, 30), 2764, (4898, 6157), "the original"),
]


@pytest.mark.parametrize(("loader", "kind", "shape", "n_test", "counts", "origin"), LOADERS)
def test_real_files_are_complete_and_their_origin_is_reported(data_dir, loader, kind, shape, n_test, counts, origin):
    data = getattr(datasets, loader)(data_home=data_dir, **({"kind": kind} if kind else {}))
    assert data.X_train.shape == shape
    assert data.X_test.shape == (n_test, *shape[1:])
    assert len(data.y_train) == shape[0]
    labels = np.concatenate([data.y_train, data.y_test])
    assert tuple(np.count_nonzero(labels == label) for label in data.classes) == counts
    assert sum(counts) == len(labels)
    assert len(data.class_names) == len(data.classes)
    assert origin in data.provenance
    assert data.checksums
    assert all(len(digest) == 64 for digest in data.checksums.values())


def test_a_data_set_cannot_be_changed(data_dir):
    data = datasets.load_spambase(data_home=data_dir)
    with pytest.raises(FrozenInstanceError):
        data.y_train = data.y_test
    assert repr(data) == "<Dataset: Spambase, 3451 training rows, 1150 test rows>"


def test_the_data_home_is_given_or_set_or_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("FLIPPROOF_DATA", str(tmp_path))
    assert datasets.get_data_home("elsewhere").name == "elsewhere"
    assert datasets.get_data_home() == tmp_path
    monkeypatch.delenv("FLIPPROOF_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert datasets.get_data_home() == tmp_path / "flipproof_data"
    assert not (tmp_path / "flipproof_data").exists()


def test_an_explicit_folder_holds_the_files_themselves(data_dir):
    here, home = (datasets.load_mnist17(**where) for where in ({"folder": data_dir / "mnist"}, {"data_home": data_dir}))
    assert np.array_equal(here.X_test, home.X_test)


def test_images_match_their_labels(data_dir):
    digits = datasets.load_mnist(data_home=data_dir)
    first = digits.X_train[0].reshape(digits.image_shape)
    assert digits.y_train[0] == 5
    assert first[0].max() == 0  # a margin around the digit
    assert first[7].max() == 253
    dogs = datasets.load_dogfish(kind="images", data_home=data_dir)
    assert dogs.image_shape == (64, 64, 3)
    assert dogs.class_names[dogs.y_train[0]] == "dog"


def test_columns_of_words_and_of_numbers_are_told_apart(data_dir):
    data = datasets.load_adult(data_home=data_dir)
    assert data.X_train[0].tolist() == [
        *(39.0, "State-gov", 77516.0, "Bachelors", 13.0, "Never-married", "Adm-clerical", "Not-in-family"),
        *("White", "Male", 2174.0, 0.0, 40.0, "United-States"),
    ]
    assert [data.feature_names[j] for j in data.categorical][:2] == ["workclass", "education"]
    loans = datasets.load_german_credit(kind="words", test_size=0, data_home=data_dir)
    assert loans.X_train[0, :3].tolist() == ["A11", 6.0, "A34"]
    assert all(isinstance(value, str) == (j in loans.categorical) for j, value in enumerate(loans.X_train[0]))


def test_both_forms_of_the_loans_have_the_same_labels(data_dir):
    numbers, words = (
        datasets.load_german_credit(kind=kind, test_size=0, data_home=data_dir) for kind in ("numbers", "words")
    )
    assert np.array_equal(numbers.y_train, words.y_train)


def test_the_split_does_not_look_at_labels():
    X = np.arange(100)
    rng = np.random.default_rng(0)
    parts = [split_rows(X, y, 0.25, 0) for y in (np.zeros(100), rng.integers(0, 2, 100))]
    assert np.array_equal(parts[0][0], parts[1][0])
    assert np.array_equal(np.sort(np.concatenate([parts[0][0], parts[0][2]])), X)
    assert not np.array_equal(parts[0][0], split_rows(X, X, 0.25, 1)[0])
    with pytest.raises(ValueError, match=r"must be a share of the rows of at least 0 and below 1. Got 1.0 instead"):
        split_rows(X, X, 1.0, 0)


def test_the_known_class_set_goes_into_a_learner(data_dir):
    data = datasets.load_dogfish(data_home=data_dir)
    model = CertifiedRidgeClassifier(classes=data.classes).fit(data.X_train[::10], data.y_train[::10])
    assert all(one.code != "classes-read" for one in model.certify(data.X_test[:5]).assumptions)


@pytest.mark.parametrize("loader", ["load_cifar10", "load_imdb", "load_dogfish", "load_german_credit"])
def test_an_unknown_kind_is_refused(loader):
    with pytest.raises(ValueError, match=f"The 'kind' parameter of {loader} must be .* Got 'sounds' instead"):
        getattr(datasets, loader)(kind="sounds")


def test_a_changed_file_is_refused_with_both_checksums(data_dir, tmp_path):
    content = gzip.decompress((data_dir / "spambase" / "spambase.data.gz").read_bytes())
    (tmp_path / "spambase.data").write_bytes(content.replace(b",1\r\n", b",0\r\n", 1))
    with pytest.raises(OSError, match=r"spambase.data is damaged .* SHA-256 [0-9a-f]{64}, expected b1ef93de71.*check="):
        datasets.load_spambase(folder=tmp_path)
    changed = datasets.load_spambase(folder=tmp_path, check=False, test_size=0)
    assert changed.y_train.sum() == 1812
    assert "not checked" in changed.provenance


def test_a_truncated_file_is_named(data_dir, tmp_path):
    content = (data_dir / "spambase" / "spambase.data.gz").read_bytes()
    (tmp_path / "spambase.data.gz").write_bytes(content[: len(content) // 2])
    with pytest.raises(OSError, match=r"spambase.data.gz is damaged: it cannot be unpacked"):
        datasets.load_spambase(folder=tmp_path, check=False)


def test_a_file_of_another_kind_is_named(tmp_path):
    for name in (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ):
        (tmp_path / name).write_bytes(b"\x00\x00\x08\x01" + bytes(100))
    with pytest.raises(OSError, match="train-images-idx3-ubyte is not a valid IDX file"):
        datasets.load_mnist(folder=tmp_path, check=False)
    (tmp_path / "spambase.data").write_text("1,2,3\n1,2\n")
    with pytest.raises(OSError, match=r"spambase.data is not a table"):
        datasets.load_spambase(folder=tmp_path, check=False)
    (tmp_path / "dogfish_imagenette_tinynet.npz").write_bytes(b"no archive")
    with pytest.raises(OSError, match=r"tinynet.npz is damaged or another"):
        datasets.load_dogfish(folder=tmp_path, check=False)
