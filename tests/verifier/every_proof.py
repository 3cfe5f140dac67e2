"""Every learner, in every way to fit it, by every method, against every adversary; for golden cases and more."""

from itertools import product

import numpy as np
from golden import record
from golden.record import KernelInBlocks, RidgeInBlocks
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from flipproof import Adversary, Annotations, CertifiedPartitionClassifier, SmoothedClassifier
from flipproof.core.noise import FeatureNoise, JointNoise, LabelFlip

N, M, N_REFERENCE = record.N_TRAIN, record.N_TEST, 90
CLASSES = [0, 1, 2]

#: Ways to fit: arguments of `fit` besides the rows, for rows in memory. Names of those that also stream come first.
FITS = (
    "plain",
    "reference",
    "weights",
    "annotations",
    "majorities",
    "trusted and prior",
    "trusted reference and prior",
)

#: How many of the fits also exist for rows in blocks.
N_STREAMED_FITS = 2


def data():
    """Return training rows, labels, test rows, and a reference with its labels: a few classes, scaled."""
    X, y = load_digits(n_class=len(CLASSES), return_X_y=True)
    X = X[:, 10:54] / 16
    ends = np.cumsum([N, M, N_REFERENCE])
    return X[:N], y[:N], X[N : ends[1]], X[ends[1] : ends[2]], y[ends[1] : ends[2]]


def learners():
    """Return the golden learners, in memory and in blocks, by name."""
    in_blocks = {
        "ridge in blocks": RidgeInBlocks(classes=CLASSES),
        "ridge in blocks, clipped": RidgeInBlocks(clip=0.8, classes=CLASSES),
        "kernel in blocks": KernelInBlocks(n_components=40, classes=CLASSES),
    }
    return record.learners(CLASSES) | in_blocks


def adversaries():
    """Return adversaries who change labels, and who change rows, by name."""
    trusted, groups = np.arange(N) % 4 == 0, np.arange(N) * 7 % 23
    found = record.adversaries(CLASSES) | {"windows": Adversary(window=np.arange(N) // 3, length=4)}
    for changes, more in product(("rows", "insertions", "removals"), ({}, {"trusted": trusted}, {"groups": groups})):
        if changes != "insertions" or "groups" not in more:
            found[f"{changes} {' '.join(more)}"] = Adversary(changes=changes, **more)
    return found


def fitted(name, how):
    """Return a learner, fitted in one of the `FITS`; raise ValueError where that does not exist."""
    X, y, _, reference, reference_labels = data()
    model = learners()[name]
    if isinstance(model, RidgeInBlocks | KernelInBlocks):
        blocks = [(X[i : i + 70], y[i : i + 70]) for i in range(0, N, 70)]
        return model.fit(blocks, reference=None if how == "plain" else reference)
    rng = np.random.default_rng(0)
    if "prior" in how:
        model.set_params(prior=GaussianNB(), prior_weight=0.5)
    given = {
        "plain": {},
        "reference": {"reference": reference},
        "weights": {"sample_weight": rng.uniform(0.1, 3.0, N)},
        "trusted and prior": {"trusted": np.arange(N) % 5 == 0},
        "trusted reference and prior": {"reference": reference, "reference_labels": reference_labels},
    }
    if how in ("annotations", "majorities"):
        item, annotator = np.repeat(np.arange(N // 2), 2), np.tile([0, 1], N // 2) + 2 * (np.arange(N) % 9)
        labels = np.where(rng.random(N) < 0.2, rng.integers(0, 3, N), y[item])
        aggregate = {"annotations": "votes", "majorities": "majority"}[how]
        crowd = Annotations.from_long(item, annotator, labels, items=np.arange(N // 2), aggregate=aggregate)
        return model.fit(X[: N // 2], crowd)
    return model.fit(X, y, **given[how])


def methods(model):
    """Return the methods of a learner."""
    return ("gap",) if isinstance(model, CertifiedPartitionClassifier) else record.METHODS


def smoothed():
    """Yield certificates of smoothed classifiers by name: all noises, methods and scopes of the confidence."""
    X, y, Z, _, _ = data()
    noises = {
        "labels": (LabelFlip(0.2), ("tight", "kl")),
        "features": (FeatureNoise(1.0), ("gaussian", "kl")),
        "both": (JointNoise(LabelFlip(0.2), FeatureNoise(1.0)), ("kl",)),
    }
    groups = Adversary(groups=np.arange(60) % 20, trusted=np.arange(60) % 6 == 0)
    for (noise, over), behind in product(product(noises, ("prediction", "batch")), (None, groups)):
        measure, kinds = noises[noise]
        model = SmoothedClassifier(LogisticRegression(), measure, 20, 80, 0.9, confidence_over=over, random_state=0)
        model.fit(X[:60], y[:60])
        for method in kinds if behind is None or noise == "labels" else ():
            yield f"{noise}, {method}, {over}", model.certify(Z[:4], method, behind)
