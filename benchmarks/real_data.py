"""Real data sets from a folder as plain arrays with labels as words; for benchmarks and tests."""

from functools import lru_cache

import numpy as np

from flipproof import datasets


def spambase(data_dir):
    """4,601 emails: word frequencies, and "spam" or "ham"."""
    return _rows_and_words(datasets.load_spambase(data_home=data_dir, test_size=0))


def german_credit(data_dir):
    """1,000 loans: numbers, and "good" or "bad"."""
    return _rows_and_words(datasets.load_german_credit(data_home=data_dir, test_size=0))


def phishing(data_dir):
    """11,055 web pages: 30 features of -1, 0 or 1, and -1 (phishing) or 1."""
    data = datasets.load_phishing(data_home=data_dir, test_size=0)
    return data.X_train, data.y_train


def mnist(data_dir, part, digits=range(10)):
    """Images of handwritten digits, as 784 numbers each; part "train" or "t10k"."""
    data = _digits(data_dir, tuple(digits))
    images, labels = (data.X_train, data.y_train) if part == "train" else (data.X_test, data.y_test)
    return images.astype(float), labels.copy()


def dogfish(data_dir, network="lite0"):
    """1,800 training and 600 test images of dogs (1) and fish (0), as features of a network.

    "lite0" was trained on images that include dogs and fish, "tinynet" on neither.
    """
    data = datasets.load_dogfish(kind=network, data_home=data_dir)
    return data.X_train, data.y_train, data.X_test, data.y_test


def cifar10(data_dir):
    """50,000 training and 10,000 test images of ten kinds, as 128 features of a network trained on other images."""
    data = datasets.load_cifar10(kind="lite0", data_home=data_dir)
    return data.X_train, data.y_train, data.X_test, data.y_test


def mail_embeddings(data_dir, name):
    """Texts as 384 numbers by the encoder all-MiniLM-L6-v2, and "spam" or "ham"; `name` is "sms" or "enron"."""
    with np.load(data_dir / "minilm" / f"{name}_minilm.npz") as data:
        return data["X"].astype(np.float64), np.where(data["y"], "spam", "ham")


@lru_cache(maxsize=1)
def _digits(data_dir, digits):
    return datasets.load_mnist(digits=digits, data_home=data_dir)


def _rows_and_words(data):
    return data.X_train, np.array(data.class_names)[np.searchsorted(data.classes, data.y_train)]
