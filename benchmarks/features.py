"""Comparison of label-free features: the tables of docs/features.md.

    python benchmarks/features.py --data-dir DIR [--full] [--simclr FILE]   # and write benchmarks/results/features.json

Exact certified accuracy of `CertifiedRidgeClassifier()`, with its label-free lambda, by number of changed labels.
--full adds the network on all other digits and, if `DIR/cifar10` has the images of CIFAR10, features of these, which
include training a small SimCLR network (half an hour). It is saved in FILE after every epoch, and resumed from there.
Lines that are not measured stay in the file of results as they are.
It uses the kernels and the single thread of `flipproof reproduce cifar10`, so the network is the same.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from flipproof.runtime.processor import use_same_kernels

use_same_kernels()  # before numerical libraries are loaded

import numpy as np
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from flipproof import CertifiedRidgeClassifier, certified_accuracy
from flipproof.datasets import load_cifar10, load_dogfish, load_imdb, load_mnist, load_mnist17
from flipproof.features import RICA, CNNFeatures, SimCLRFeatures, WordVectors, ica_features, pca_features
from flipproof.features.training import torch_for

OTHER_DIGITS = (0, 2, 3, 4, 5, 6, 8, 9)
RESULTS = Path(__file__).parent / "results" / "features.json"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of the data sets, with one subfolder each")
    parser.add_argument("--full", action="store_true", help="include slow parts")
    parser.add_argument("--simclr", type=Path, metavar="FILE", help="checkpoint of SimCLR")
    options = parser.parse_args()
    torch_for("This benchmark")  # imported first: the limit does not apply to later imports
    with threadpool_limits(limits=1):
        digits(options.data_dir, options.full)
        patches(options.data_dir)
        words(options.data_dir)
        if options.full:
            photographs(options.data_dir, options.simclr)


def digits(data_dir, full):
    data, others = load_mnist17(data_home=data_dir), load_mnist(digits=OTHER_DIGITS, data_home=data_dir)
    table = Table("MNIST 1/7", (0, 100, 500, 1000, 1500))
    maps = {
        "pixels": None,
        "PCA, 50, whitened": pca_features(50, whiten=True),
        "ICA, 30": ica_features(30),
        "PCA, 50": pca_features(50),
        "PCA, 30": pca_features(30),
        "`CNNFeatures`, 12,000 images, 5 epochs": CNNFeatures(
            others.X_train[:12000], others.y_train[:12000], epochs=5, verbose=1
        ),
    }
    if full:
        maps["`CNNFeatures`, all images, 10 epochs"] = CNNFeatures(others.X_train, others.y_train, verbose=1)
    for name, features in maps.items():
        table.measure(name, features, data.X_train, data.y_train, data.X_test, data.y_test)


def patches(data_dir):
    data = load_dogfish(kind="images", data_home=data_dir)
    table = Table("Dogfish stand-in, 64 x 64 pixels", (0, 1, 10, 25, 50, 100))
    rica = RICA(image_shape=data.image_shape).fit(data.X_train)
    parts = {"pixels": (data.X_train, data.X_test), "RICA": (rica.transform(data.X_train), rica.transform(data.X_test))}
    for name, (X, Z) in parts.items():
        for size in (20, 100):
            table.measure(f"{name}, then PCA, {size}", PCA(size, random_state=0), X, data.y_train, Z, data.y_test)


def words(data_dir):
    data = load_imdb(data_home=data_dir)
    table = Table("IMDB, GloVe, every tenth test review", (0, 1, 10, 100, 300))
    for weights in ("mean", "idf"):
        features = WordVectors(data_dir / "glove" / "glove_6b_100d_subset.npz", weighting=weights)
        table.measure(weights, features, data.X_train, data.y_train, data.X_test[::10], data.y_test[::10])


def photographs(data_dir, checkpoint):
    data = load_cifar10(data_home=data_dir, download_if_missing=False)
    X, y, Z, truth = data.X_train[:10000], data.y_train[:10000], data.X_test[:2000], data.y_test[:2000]
    table = Table("CIFAR10, 10,000 training and 2,000 test images", (0, 1, 10, 25, 50))
    rica = RICA(200, image_shape=data.image_shape, n_whitened=96, stride=4, grid=2)
    maps = {
        "PCA of the pixels, 30": PCA(30, random_state=0),
        "PCA of the pixels, 128": PCA(128, random_state=0),
        "RICA, then PCA, 30": make_pipeline(rica, PCA(30, random_state=0)),
        "RICA, then PCA, 128": make_pipeline(rica, PCA(128, random_state=0)),
        "`SimCLRFeatures`, width 16, 12 epochs": SimCLRFeatures(
            data.image_shape, width=16, epochs=12, batch_size=128, checkpoint=checkpoint, verbose=1
        ),
    }
    for name, features in maps.items():
        table.measure(name, features, X, y, Z, truth)


def committed():
    """Return the results by table: the numbers of flips, and certified accuracy by features."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


@dataclass(frozen=True)
class Table:
    """A table that is printed, and written to the file of results, line by line."""

    title: str
    flips: tuple[int, ...]

    def __post_init__(self):
        flips = " | ".join(map(str, self.flips))
        print(f"\n**{self.title}**\n\n| features | {flips} |\n{'|---' * (len(self.flips) + 1)}|", flush=True)

    def measure(self, name, features, X, y, Z, truth):
        """Certify the test rows, and add a line."""
        model = CertifiedRidgeClassifier(features=features, classes=np.unique(truth)).fit(X, y)
        shares = certified_accuracy(truth, model.certify(Z), self.flips)
        print(f"| {name} | {' | '.join(f'{share:.3f}' for share in shares)} |", flush=True)
        found = committed()
        table = found.setdefault(self.title, {})
        table["flips"] = list(self.flips)
        table.setdefault("accuracy", {})[name] = shares.tolist()
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
