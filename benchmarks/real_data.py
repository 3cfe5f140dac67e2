"""Real data sets, read from a folder in the files that their publishers give out; for benchmarks and tests."""

import gzip

import numpy as np


def spambase(data_dir):
    """4,601 mails: word frequencies, and "spam" or "ham"."""
    with gzip.open(data_dir / "spambase" / "spambase.data.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], np.where(table[:, -1] == 1, "spam", "ham")


def german_credit(data_dir):
    """1,000 loans: numbers, and "good" or "bad"."""
    with gzip.open(data_dir / "german_credit" / "german.data-numeric.csv.gz", "rt") as file:
        lines = file.read().splitlines()[1:]
    table = np.array([line.replace(" ", ",").split(",") for line in lines], dtype=float)  # both separate fields
    return table[:, :-1], np.where(table[:, -1] == 1, "good", "bad")


def phishing(data_dir):
    """11,055 web pages: 30 features of -1, 0 or 1, and -1 (phishing) or 1."""
    with gzip.open(data_dir / "phishing_websites" / "phishing_website.csv.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1].astype(int)


def mnist(data_dir, part, digits=range(10)):
    """Images of handwritten digits, as 784 numbers each; part "train" or "t10k"."""
    with gzip.open(data_dir / "mnist" / f"{part}-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 28 * 28)
    with gzip.open(data_dir / "mnist" / f"{part}-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), dtype=np.uint8, offset=8)
    kept = np.isin(labels, digits)
    return images[kept].astype(float), labels[kept].astype(int)


def dogfish(data_dir, network="lite0"):
    """1,800 training and 600 test images of dogs (1) and fish (0), as features of a network.

    "lite0" was trained on dogs and fish among others, "tinynet" on neither.
    """
    with np.load(data_dir / "dogfish" / f"dogfish_imagenette_{network}.npz") as data:
        X, y, Z, truth = (data[name] for name in ("X_train", "y_train", "X_test", "y_test"))
    return X.astype(np.float32), y.astype(int), Z.astype(np.float32), truth.astype(int)
