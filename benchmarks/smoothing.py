"""Sampling compared with analysis on a learner that allows both, and smoothing on real digits: docs/smoothing.md.

    python benchmarks/smoothing.py [--figures docs/images] [--jobs 2]    # and write benchmarks/results/smoothing.json

The figure uses a label-linear learner, whose vote under noise can be computed exactly: its votes are integers, so the
noisy margin of n labels is a sum of n independent integers, and its distribution is a convolution.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from precision import digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from flipproof import CertifiedRidgeClassifier, certified_accuracy
from flipproof.core.noise import FeatureNoise, JointNoise, LabelFlip
from flipproof.smoothing import SmoothedClassifier, largest_certifiable
from flipproof.smoothing.bounds import log_share_upper

RESULTS = Path(__file__).parent / "results" / "smoothing.json"
NOISE = 0.3
CONFIDENCE = 0.999
SAMPLES = 1000
FLIPS = (0, 1, 2, 4, 6, 8)
NORMS = (0, 0.5, 1, 1.5, 2, 2.5)
#: Bits of the votes in the figure: few, so that the distribution of the margin has few points.
PRECISION = 8
LABELS = 120


def exact_failures(model, labels, Z, q):
    """Return P(the noise changes the prediction), by convolution, for K = 2.

    Every step adds positive numbers, so the relative error of each probability is at most 4 n u.
    """
    alpha, offsets = model.vote_weights(Z)
    failures = []
    for weights, offset, prediction in zip(alpha, offsets, model.predict(Z), strict=True):
        scale = 2.0 ** np.floor(np.log2(2.0 ** (PRECISION + 4) / np.abs(weights).max()))
        votes, lead = np.rint(weights * scale).astype(int), np.rint((offset[1] - offset[0]) * scale).astype(int)
        assert np.array_equal(votes / scale, weights)  # the weights are on a grid
        reach = int(np.abs(votes).sum())
        masses = np.zeros(2 * reach + 1)  # of the lead of class 1, from -reach to reach
        masses[reach] = 1
        for vote, label in zip(votes, labels, strict=True):
            toward = vote if label == 1 else -vote
            masses = (1 - q) * np.roll(masses, toward) + q * np.roll(masses, -toward)
        one_wins = np.arange(-reach, reach + 1) + lead > 0  # a tie goes to class 0
        failures.append(masses[~one_wins if prediction == 1 else one_wins].sum())
    return np.array(failures)


def bracket(figures: Path, jobs: int):
    """Draw the figure: samples, Chernoff bound, and the exact vote."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    rng = np.random.default_rng(0)
    labels = np.arange(LABELS) % 2
    X = rng.normal(size=(LABELS, 2)) + 2.5 * labels[:, None] * [1, 0]
    Z = np.column_stack([np.linspace(-2.5, 5, 24), np.zeros(24)])
    ridge = CertifiedRidgeClassifier(NOISE, classes=[0, 1], precision=PRECISION).fit(X, labels)
    true = exact_failures(ridge, labels, Z, NOISE)
    chernoff = ridge.certify(Z, method="tight")
    smoothed = SmoothedClassifier(
        ridge, NOISE, 100, SAMPLES, CONFIDENCE, classes=[0, 1], random_state=0, n_jobs=jobs
    ).fit(X, labels)
    sampled = smoothed.certify(Z)
    failed = np.rint((1 - sampled.margin) / 2 * SAMPLES).astype(int)
    upper, lower = np.exp(sampled.log_failure), -np.expm1(log_share_upper(SAMPLES - failed, SAMPLES, 1 - CONFIDENCE))
    flipped = sampled.prediction != chernoff.prediction  # where the vote is even, the sample may select the other class
    true_of_sampled = np.where(flipped, 1 - true, true)
    inside = np.sum((lower <= true_of_sampled) & (true_of_sampled <= upper))
    print(f"exact vote within the samples' bounds: {inside} of 24")
    print(f"Chernoff above the exact vote: {np.sum(np.exp(chernoff.log_failure) >= true)} of 24")

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.8, 4.4), layout="constrained")
    x = Z[:, 0]
    left.vlines(
        x,
        np.maximum(lower, 1e-9),
        upper,
        color="#0072B2",
        linewidth=5,
        alpha=0.45,
        label="samples: bounds, 99.9 % each",
    )
    left.plot(x, np.exp(chernoff.log_failure), color="#D55E00", linewidth=2, label="Chernoff: upper bound")
    left.plot(x, true_of_sampled, "k.", markersize=7, label="exact, by convolution")
    left.axhline(0.5, color="grey", linewidth=1, linestyle=":")
    left.set(yscale="log", ylim=(1e-5, 1.6), xlabel="first feature of the test row", ylabel="probability")
    left.set_title("vote against the prediction under noise q = 0.3")
    right.step(x, ridge.certify(Z).radius, where="mid", color="black", linewidth=2, label="exact, of the deployed rule")
    right.step(x, sampled.radius, where="mid", color="#0072B2", linewidth=2, label="samples, tight")
    right.step(x, chernoff.radius, where="mid", color="#D55E00", linewidth=2, linestyle="--", label="Chernoff, tight")
    right.plot(x[sampled.abstained], 0 * x[sampled.abstained], "x", color="#0072B2", markersize=9, label="abstained")
    right.set(xlabel="first feature of the test row", ylabel=f"changed labels of {LABELS}")
    right.set_title("certified radius")
    for ax in (left, right):
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize=9, loc="lower center" if ax is left else "upper center")
    figure.savefig(figures / "smoothing.png", dpi=110)


def reach():
    """Print the largest radius by number of samples, and return them: for each noise on labels, then on features."""
    found = {}
    print("\n| samples | " + " | ".join(f"K = {K}, q = {q:g}" for q, K in REACH_NOISES) + " | sigma = 1 |")
    print("|---|" + "---|" * (len(REACH_NOISES) + 1))
    for n in (100, 1000, 10_000, 100_000):
        labels = [f"{largest_certifiable(n, CONFIDENCE, LabelFlip(q, K)):.0f}" for q, K in REACH_NOISES]
        norm = largest_certifiable(n, CONFIDENCE, FeatureNoise(1.0))
        found[f"{n:,}"] = [*labels, f"{np.floor(norm * 100) / 100:.2f}"]
        print(f"| {n:,} | " + " | ".join(found[f"{n:,}"]) + " |")
    return found


REACH_NOISES = ((0.1, 2), (0.2, 2), (0.3, 2), (0.4, 2), (0.1, 10), (0.3, 10), (0.6, 10))


def certified(name, model, X, y, Z, truth, radii):
    """Certify, print a line, and return its shares: accuracy, certified accuracy, abstentions."""
    began = time.monotonic()
    certificates = model.fit(X, y).certify(Z)
    seconds = time.monotonic() - began
    shares = certified_accuracy(truth, certificates, radii).tolist()
    found = [float(np.mean(certificates.prediction == truth)), *shares, float(np.mean(certificates.abstained))]
    print(f"| {name} | {' | '.join(f'{share:.3f}' for share in found)} | {seconds:.0f} s |", flush=True)
    return found


def real_digits(jobs: int):
    """Print certified accuracy of several learners on digits, 1 against 7, and return the shares of each line."""
    labels, features, together = {}, {}, {}
    X, Z, y, truth = digits((1, 7))
    settings = {"n_samples": SAMPLES, "confidence": CONFIDENCE, "classes": [1, 7], "random_state": 0, "n_jobs": jobs}
    linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.01))
    learners = {
        "logistic regression, standardised": linear,
        "gradient boosting": HistGradientBoostingClassifier(max_iter=20),
        "random forest, 30 trees": RandomForestClassifier(30),
    }
    print(f"\n**Digits, 1 against 7** (n = {len(y)}, {len(truth)} test rows), label noise q = {NOISE}\n")
    print("| learner | accuracy | " + " | ".join(f"{r} flips" for r in FLIPS) + " | abstained | time |")
    print("|---|" + "---|" * (len(FLIPS) + 3))
    for name, learner in learners.items():
        smoothed = SmoothedClassifier(learner, NOISE, **settings)
        labels[name] = certified(f"smoothed {name}", smoothed, X, y, Z, truth, FLIPS)
    ridge = CertifiedRidgeClassifier(classes=[1, 7])
    labels["ridge"] = certified("`CertifiedRidgeClassifier`, exact", ridge, X, y, Z, truth, FLIPS)
    print(f"\n**The same, with noise on the features** (pixels are 0 to 16, {X.size:,} of them)\n")
    print("| sigma | accuracy | " + " | ".join(f"l2 {r}" for r in NORMS) + " | abstained | time |")
    print("|---|" + "---|" * (len(NORMS) + 3))
    for sigma in (0.5, 1.0, 4.0):
        smoothed = SmoothedClassifier(linear, FeatureNoise(sigma), **settings)
        features[f"{sigma:g}"] = certified(f"{sigma:g}", smoothed, X, y, Z, truth, NORMS)
    both = SmoothedClassifier(linear, JointNoise(LabelFlip(NOISE), FeatureNoise(4.0)), **settings)
    certificates = both.fit(X, y).certify(Z)
    print("\n**Both at once**, q = 0.3 and sigma = 4: median certified movement of the features\n")
    print("| changed labels | share of rows | median l2 norm of those |\n|---|---|---|")
    for flips, norms in zip((0, 1, 2, 3), certificates.feature_radius([0, 1, 2, 3]), strict=True):
        held = np.isfinite(norms)
        median = f"{np.median(norms[held]):.2f}" if held.any() else ""
        together[flips] = [f"{held.mean():.3f}", median]
        print(f"| {flips} | {' | '.join(together[flips])} |")
    return {"labels": labels, "features": features, "both": together}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figures", type=Path, default=Path("docs/images"), help="folder for the figure")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    bracket(options.figures, options.jobs)
    results = {"largest radii": reach(), **real_digits(options.jobs)}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
