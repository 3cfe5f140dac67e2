"""A small experiment on drawn data, one form of which may be missing."""

from pathlib import Path

import numpy as np

from flipproof import datasets
from flipproof.datasets import Dataset
from flipproof.experiments.spec import parse_experiment

IMAGES = "images.npy"
SPEC = """
title = "Toy"
data = { loader = "toy", kind = "numbers" }
flips = [1, 2]
[features.numbers]
kind = "given"
[features.images]
kind = "given"
kind_of_data = "images"
[features.few]
kind = "pca"
of = "images"
n_components = 2
keep = true
[[figures]]
file = "certified"
title = "Toy"
kind = "certified"
runs = ["numbers", "images"]
method = "exact"
most_flips = 5
[[runs]]
name = "numbers"
features = "numbers"
learner = "ridge"
methods = ["exact"]
[[runs]]
name = "images"
features = "images"
learner = "ridge"
methods = ["exact"]
published = [0.5, 0.4]
note = "as they are."
only_with = "the toy images"
[[runs]]
name = "few, of the images"
group = "beyond"
features = "few"
learner = "ridge"
methods = ["exact"]
only_with = "the toy images"
"""

N_TRAIN, N_TEST = 60, 20


def toy_experiment(monkeypatch):
    """Return the experiment, and the forms of its data that were asked for, in order."""
    asked = []

    def load_toy(kind, data_home):
        asked.append(kind)
        rng = np.random.default_rng(0)
        y = rng.integers(0, 2, size=N_TRAIN + N_TEST)
        X = rng.normal(size=(len(y), 3)) + y[:, None]
        if kind == "images":
            path = Path(data_home) / IMAGES
            if not path.exists():
                raise FileNotFoundError(f"Put {IMAGES} into {data_home}.")
            try:
                X = np.load(path)
            except ValueError as error:
                raise OSError(f"{path} is damaged.") from error
        rows = {"X_train": X[:N_TRAIN], "y_train": y[:N_TRAIN], "X_test": X[N_TRAIN:], "y_test": y[N_TRAIN:]}
        return Dataset("toy", **rows, classes=(0, 1), class_names=("a", "b"), provenance="Drawn.", checksums={})

    monkeypatch.setattr(datasets, "load_toy", load_toy, raising=False)
    return parse_experiment("toy", SPEC.encode()), asked


def put_images(folder):
    np.save(folder / IMAGES, np.random.default_rng(1).normal(size=(N_TRAIN + N_TEST, 4)))
