"""Attacks on undefended and on certified classifiers: the tables and panels of docs/attacks.md.

    python benchmarks/attacks.py --data-dir DIR [--rows 200] [--jobs 2] [--figures docs/images]
    python benchmarks/attacks.py --data-dir DIR --certified   # only the tables of the certified classifier

Undefended: logistic regression on frozen features, attacked by influence and distance, forward and in reverse; the best
attack on each test row counts (Appendix C.1 of the paper), and every success is confirmed by a refit. The number of
flips depends on the penalty and on the features, so there are lines for several of each. Seconds are wall time and
processor time.

Certified: the paper's classifier at several q on all test rows (Appendix C.2), and the number of rows whose certificate
by any method exceeds the attack on the same row: this must be 0. They are written to benchmarks/results/attacks.json.
--figures draws the curves.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from real_data import dogfish, mnist
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from flipproof import CertifiedRidgeClassifier, certified_accuracy
from flipproof.attacks import AttackResult, SmoothedAttackResult, smoothed_attack, undefended_attack, worst_flips
from flipproof.learners.ridge import LabelDependenceWarning

PAPER_MNIST = "| *the paper's network* | | | .990 | .982 | .916 | .467 | .150 | .039 | .007 | | | |"
PAPER_DOGFISH = "| *the paper's network* | | | .937 | .293 | .005 | .000 | .000 | .000 | .000 | | | |"
METHODS = ("kl", "tight", "exact")
RESULTS = Path(__file__).parent / "results" / "attacks.json"


@dataclass(frozen=True)
class Problem:
    """Features and labels for training and testing, the columns of its table, and the noises of its panel."""

    name: str
    X: np.ndarray
    y: np.ndarray
    Z: np.ndarray
    truth: np.ndarray
    flips: tuple[int, ...]
    noises: tuple[float, ...]
    most_flips_drawn: int


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder with mnist/ and dogfish/")
    parser.add_argument("--rows", type=int, default=200, help="number of random test rows of the undefended tables")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    parser.add_argument("--figures", type=Path, help="folder to draw the panels into")
    parser.add_argument("--certified", action="store_true", help="only the certified classifier, without figures")
    options = parser.parse_args()

    (X, y), (Z, truth) = (mnist(options.data_dir, part, (1, 7)) for part in ("train", "t10k"))
    pixels = Problem("MNIST 1/7", X / 255, y, Z / 255, truth, (1, 10, 100, 500, 1000, 1500, 2000), (0.3, 0.45), 2500)
    others = network_of_other_digits(pixels, options.data_dir)
    images = Problem(
        "Dogfish stand-in", *dogfish(options.data_dir, "tinynet"), (1, 10, 25, 50, 75, 100, 150), (1e-4, 0.05), 300
    )
    # without an intercept the features must not be centred: otherwise all predictions drift to class 0 as q grows
    few = reduced(images, TruncatedSVD(5, random_state=0))
    if options.certified:
        for problem in (others, few):
            for q in problem.noises:
                certified_and_attacked(problem, q)
        return

    heading(pixels, PAPER_MNIST)
    for C in (1e-3, 1e-2, 1.0):
        line("50 principal components", reduced(pixels, PCA(50, random_state=0)), C, options)
    undefended = line("network of the other digits", others, 1e-3, options)
    for C in (1e-2, 1.0):
        line("network of the other digits", others, C, options)
    panel("attacks-mnist17.png", others, undefended, options)

    heading(images, PAPER_DOGFISH)
    undefended = line("tinynet, all 256", images, 1.0, options)
    line("tinynet, all 256", images, 1e-2, options)
    for size in (50, 5):
        for C in (1e-2, 1.0):
            line(f"tinynet, {size} principal components", reduced(images, PCA(size, random_state=0)), C, options)
    panel("attacks-dogfish.png", few, undefended, options)


def reduced(problem, features):
    features.fit(problem.X)
    return replace(problem, X=features.transform(problem.X), Z=features.transform(problem.Z))


def network_of_other_digits(problem, data_dir):
    """Return the inputs of the last layer of a network that was trained on the other digits."""
    X, y = mnist(data_dir, "train", (0, 2, 3, 4, 5, 6, 8, 9))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 20 iterations are enough
        net = MLPClassifier((256, 50), max_iter=20, random_state=0).fit(X / 255, y)
    X, Z = problem.X, problem.Z
    for weights, offsets in list(zip(net.coefs_, net.intercepts_, strict=True))[:-1]:
        X, Z = (np.maximum(rows @ weights + offsets, 0) for rows in (X, Z))
    return replace(problem, X=X, Z=Z)


def heading(problem, paper):
    print(f"\n**{problem.name}**, undefended: accuracy under attack, by number of flips\n")
    flips = " | ".join(map(str, problem.flips))
    print(f"| features | C | clean | {flips} | median flips | refits | seconds (cpu) |")
    print("|---" * (len(problem.flips) + 6) + f"|\n{paper}", flush=True)


def line(features, problem, C, options) -> tuple[AttackResult, np.ndarray]:
    """Attack some test rows of a logistic regression; print one line of the table."""
    chosen = np.random.default_rng(0).permutation(len(problem.Z))[: options.rows]
    Z, truth = problem.Z[chosen], problem.truth[chosen]
    model = LogisticRegression(C=C, max_iter=1000).fit(problem.X, problem.y)
    began, cpu = time.perf_counter(), time.process_time()
    result = undefended_attack(model, problem.X, problem.y, Z, n_jobs=options.jobs)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    curve = " | ".join(f"{share:.3f}" for share in result.accuracy(truth, problem.flips))
    median = np.median(np.where(result.success, result.flips_needed, np.inf))
    print(
        f"| {features} | {C:g} | {model.score(Z, truth):.3f} | {curve} | {median:.0f} | {result.n_refits:,} "
        f"| {seconds:.0f} ({cpu:.0f}) |",
        flush=True,
    )
    return result, truth


def panel(file, problem, undefended, options):
    """Certify and attack the paper's classifier on all test rows; print a table, and draw the curves."""
    curves = [certified_and_attacked(problem, q) for q in problem.noises]
    if options.figures is not None:
        draw(options.figures / file, problem, undefended, curves)


def certified_and_attacked(problem, q) -> tuple[dict, SmoothedAttackResult]:
    """Print the accuracies at one noise, and the number of certificates that an attack refutes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelDependenceWarning)  # the paper's lambda, held fixed under attack
        model = CertifiedRidgeClassifier(noise=q, regularization="paper", fit_intercept=False).fit(problem.X, problem.y)
    attack, exact = smoothed_attack(model, problem.Z), worst_flips(model, problem.Z)
    assert np.array_equal(attack.flips_needed, exact.flips_needed)
    certificates = {method: model.certify(problem.Z, method) for method in METHODS}
    lines = {
        f"certified, {method}": certified_accuracy(problem.truth, certificates[method], problem.flips)
        for method in METHODS
    }
    lines["attacked: bound at 1/2"] = attack.accuracy_of_bound(problem.truth, problem.flips)
    lines["attacked: prediction changes"] = attack.accuracy(problem.truth, problem.flips)
    needed = np.where(attack.success, attack.flips_needed, np.inf)
    refuted = {
        f"certified, {method}": int(np.count_nonzero(certificates[method].radius >= np.maximum(needed, 1)))
        for method in METHODS
    }
    title = f"**{problem.name}**, the paper's classifier, q = {q:g}, all {len(problem.truth):,} test rows"
    found = committed()
    found[title] = {
        "flips": list(problem.flips),
        "accuracy": {name: shares.tolist() for name, shares in lines.items()},
        "above the attack": refuted,
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(f"\n{title}\n\n{table(title)}", flush=True)
    return certificates, attack


def committed():
    """Return the committed results of the certified classifier, by the title of their table."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def table(title):
    """Return a table of the certified classifier, in Markdown."""
    found = committed()[title]
    lines = [
        f"| | {' | '.join(map(str, found['flips']))} | above the attack |",
        "|---" * (len(found["flips"]) + 2) + "|",
    ]
    for name, shares in found["accuracy"].items():
        refuted = found["above the attack"].get(name, "")
        lines.append(f"| {name} | {' | '.join(f'{share:.3f}' for share in shares)} | {refuted} |")
    return "\n".join(lines)


def draw(path, problem, undefended, curves):
    """Draw certified accuracy by the tight method (solid) and the attack's upper bound (dashed)."""
    import matplotlib.pyplot as plt

    flips = np.arange(problem.most_flips_drawn + 1)
    figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
    for colour, q, (certificates, attack) in zip(("C0", "C1"), problem.noises, curves, strict=True):
        tight = certified_accuracy(problem.truth, certificates["tight"], flips)
        axes.plot(flips, tight, color=colour, label=f"q = {q:g}, certified (tight)")
        bound = attack.accuracy_of_bound(problem.truth, flips)
        axes.plot(flips, bound, color=colour, ls=":", label=f"q = {q:g}, attacked until the bound is 1/2")
        attacked = attack.accuracy(problem.truth, flips)
        axes.plot(flips, attacked, color=colour, ls="--", label=f"q = {q:g}, attacked until it changes")
    result, truth = undefended
    axes.plot(flips, result.accuracy(truth, flips), color="0.4", ls="--", label="undefended, attacked")
    axes.set(xlabel="label flips, aimed at each test row", ylabel="accuracy", ylim=(0, 1), xlim=(0, flips[-1]))
    axes.set_title(f"{problem.name}: certificates and attacks", loc="left")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
