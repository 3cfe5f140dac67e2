"""Figures from rows: the curves of the paper, redrawn."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from flipproof.experiments.rows import RunRows
from flipproof.experiments.scores import attacked, certified, clean_accuracy
from flipproof.experiments.spec import Experiment, Figure
from flipproof.guarantees import kl_radius, tight_radius
from flipproof.noise import LabelFlip

SIZE, DPI = (6.4, 4.2), 150
#: Names of so many letters are too wide for a legend of three columns.
LONG_NAME = 28
#: A dash of a clean line, and the space after it: where several of these lines are one, there are dashes of each.
DASH, SPACE = 3, 12
#: The duality-gap pair of the paper.
GAP_NOISE, GAP_FLIPS = 0.4, 60


def draw(figure: Figure, experiment: Experiment, rows: Mapping[str, RunRows], n_train: int) -> bytes:
    """Return one figure of an experiment as a PNG."""
    plt = pyplot()
    canvas, axes = plt.subplots(figsize=SIZE, layout="constrained")
    flips = np.arange(figure.most_flips + 1)
    colours = iter(f"C{i}" for i in range(10))
    runs = {run.name: run for run in experiment.runs}
    for place, name in enumerate(figure.runs):
        run = runs[name]
        if run.only_with and name not in rows:
            axes.plot([], [], ls="none", label=f"{name}: not run here")
            continue
        of_run = rows[name]
        clean = clean_accuracy(of_run)
        if run.group == "reference":  # below the clean lines, which it may coincide with
            axes.axhline(clean, color="black", ls="-.", lw=1, zorder=1, label=f"{name}, not certified")
            continue
        colour = "0.45" if run.is_undefended else next(colours)
        if run.is_undefended:
            style = "--" if figure.kind == "attacked" else "-"
            axes.plot(flips, attacked(of_run, "flips_needed", flips), color=colour, ls=style, label=f"{name}, attacked")
        else:
            is_old_rule = figure.method == "exact" and run.group == "paper"
            shown = f"the paper's rule, {name}" if is_old_rule else name
            axes.plot(flips, certified(of_run, figure.method, flips), color=colour, label=shown)
        if figure.kind == "certified":
            axes.axhline(clean, color=colour, ls=(place * DASH, (DASH, SPACE)), lw=1.2)
        elif not run.is_undefended:
            axes.plot(flips, attacked(of_run, "flips_needed", flips), color=colour, ls="--")
    label = next(iter(rows.values())).label
    axes.axhline(np.bincount(label).max() / len(label), color="black", ls=":", lw=1, label="constant")
    axes.set(xlim=(0, figure.most_flips), ylim=(0, 1), xlabel="label flips, aimed at each test row", ylabel="accuracy")
    percent = axes.secondary_xaxis("top", functions=(lambda r: 100 * r / n_train, lambda p: p * n_train / 100))
    percent.set_xlabel(f"% of {n_train:,} training labels")
    dashed = "attacked (dashed)" if figure.kind == "attacked" else "clean (dashed)"
    axes.set_title(f"{figure.title}: certified, {figure.method} (solid), {dashed}", loc="left", fontsize=9)
    axes.grid(alpha=0.3)
    longest = max(len(name) for name in axes.get_legend_handles_labels()[1])
    canvas.legend(loc="outside lower center", ncols=3 if longest < LONG_NAME else 2, fontsize=8, frameon=False)
    return _png(canvas)


def duality_gap() -> bytes:
    """Return the pair that compares the generic with the tight bound, as a PNG: margin for flips, flips for margin."""
    plt = pyplot()
    noise = LabelFlip(GAP_NOISE, 2)
    canvas, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    log_failure = np.linspace(np.log(0.5), -30, 4000)
    p = -np.expm1(log_failure)
    for name, radius_of in (("generic (KL)", kl_radius), ("tight", tight_radius)):
        radius = radius_of(log_failure, noise, GAP_FLIPS)
        needed = np.searchsorted(radius, np.arange(GAP_FLIPS))
        inside = needed < len(p)
        left.plot(np.arange(GAP_FLIPS)[inside], p[needed[inside]], label=name)
        right.plot(p, radius, label=name)
    left.set(xlabel="label flips", ylabel="vote p that certifies them", title=f"vote for flips, q = {GAP_NOISE:g}")
    right.set(xlabel="vote p", ylabel="label flips that it certifies", title=f"flips for a vote, q = {GAP_NOISE:g}")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    return _png(canvas)


def _png(canvas: Any) -> bytes:
    buffer = io.BytesIO()
    canvas.savefig(buffer, dpi=DPI, metadata={"Software": None})
    pyplot().close(canvas)
    return buffer.getvalue()


def pyplot() -> Any:
    """Return what draws, or say how to get it."""
    try:
        import matplotlib

        matplotlib.use("Agg", force=False)
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'flipproof[plot]'.") from error
    return plt
