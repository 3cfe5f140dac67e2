"""How many label flips undefended models survive: two tables in Markdown.

    python benchmarks/attacks.py [--data-dir DIR] [--rows 200] [--jobs 2]

Logistic regression on frozen features, attacked by influence and distance, forward and in reverse, the best of each
test row, as in Appendix C.1 of the paper; every success is confirmed by a refit. How many flips it takes is a matter of
the penalty and of the features, so there is a line for several of each. Seconds are wall time and processor time.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from flipproof.attacks.strongest import undefended_attack

MNIST_FLIPS = (1, 10, 50, 100, 200, 500, 1000)
DOGFISH_FLIPS = (1, 5, 10, 23, 50, 100, 200)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=os.environ.get("FLIPPROOF_DATA", "."),
        help="folder that holds mnist/ and dogfish/; default: $FLIPPROOF_DATA",
    )
    parser.add_argument("--rows", type=int, default=200, help="test rows, drawn at random")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    options = parser.parse_args()
    head("MNIST, 1 against 7", MNIST_FLIPS)
    X, y, Z, y_test = mnist_one_against_seven(options.data_dir / "mnist")
    pca = PCA(50, random_state=0).fit(X)
    X50, Z50 = pca.transform(X), pca.transform(Z)
    for C in (1e-3, 1e-2, 1.0):
        line("50 principal components", X50, y, Z50, y_test, C, MNIST_FLIPS, options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 20 rounds are enough
        net = MLPClassifier((128, 50), max_iter=20, random_state=0).fit(X, y)
    X, Z = last_hidden_layer(net, X, Z)
    for C in (1e-2, 1.0):
        line("network trained on these labels", X, y, Z, y_test, C, MNIST_FLIPS, options)

    head("Dogfish (stand-in)", DOGFISH_FLIPS)
    data = np.load(options.data_dir / "dogfish" / "dogfish_imagenette_tinynet.npz")
    X, Z = (data[name].astype(float) for name in ("X_train", "X_test"))
    for size in (256, 50, 5):
        pca = PCA(size, random_state=0).fit(X)
        for C in (1e-2, 1.0, 100.0):
            rows = pca.transform(X), data["y_train"], pca.transform(Z), data["y_test"]
            line(f"tinynet, {size} principal components", *rows, C, DOGFISH_FLIPS, options)


def mnist_one_against_seven(folder):
    """Return pixels from 0 to 1 and labels, for training and testing."""

    def read(name, skip):
        return np.frombuffer(gzip.decompress((folder / name).read_bytes()), np.uint8, offset=skip)

    parts = []
    for part in ("train", "t10k"):
        labels = read(f"{part}-labels-idx1-ubyte.gz", 8)
        kept = np.isin(labels, (1, 7))
        parts += [read(f"{part}-images-idx3-ubyte.gz", 16).reshape(-1, 784)[kept] / 255, labels[kept]]
    return parts


def last_hidden_layer(net, *parts):
    """Return what the last layer of a network sees, as the paper's undefended models do with all others frozen."""
    outputs = list(parts)
    for weights, offsets in list(zip(net.coefs_, net.intercepts_, strict=True))[:-1]:
        outputs = [np.maximum(rows @ weights + offsets, 0) for rows in outputs]
    return outputs


def head(name, flips):
    print(f"\n**{name}**: accuracy under attack at so many flips\n")
    print(f"| features | C | clean | {' | '.join(map(str, flips))} | median flips | refits | seconds (cpu) |")
    print("|---" * (len(flips) + 6) + "|")


def line(features, X, y, Z, y_test, C, flips, options):
    chosen = np.random.default_rng(0).permutation(len(Z))[: options.rows]
    Z, y_test = Z[chosen], y_test[chosen]
    model = LogisticRegression(C=C, max_iter=1000).fit(X, y)
    began, cpu = time.perf_counter(), time.process_time()
    result = undefended_attack(model, X, y, Z, n_jobs=options.jobs)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    curve = " | ".join(f"{share:.3f}" for share in result.accuracy(y_test, flips))
    median = np.median(np.where(result.success, result.flips_needed, np.inf))
    print(
        f"| {features} | {C:g} | {model.score(Z, y_test):.3f} | {curve} | {median:.0f} | {result.n_refits:,} "
        f"| {seconds:.0f} ({cpu:.0f}) |",
        flush=True,
    )


if __name__ == "__main__":
    main()
