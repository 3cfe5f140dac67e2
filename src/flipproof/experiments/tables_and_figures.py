"""Tables in Markdown and figures in the style of the paper, computed from rows only."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flipproof.core.guarantees import kl_radius, tight_radius
from flipproof.core.noise import LabelFlip
from flipproof.experiments.row_files import (
    RunRows,
    attacked,
    certified,
    clean_accuracy,
    median_radius,
    only_class,
    worst_recall,
)
from flipproof.experiments.spec import Experiment, Figure, Run

Rows = Mapping[str, RunRows]

BEYOND_NOTES = """
Each row has one setting: round numbers that were known to do well on similar data. They were not chosen on a trusted
split, so the best rows are slightly optimistic. Seconds: time to fit and to certify all test rows with all methods of
the run, on two busy cores, without the time for the features.
"""

#: The same for data sets that the paper does not have; how settings were chosen is said for each run.
OWN_NOTES = """
Radii count changed labels or, in lines that end in "rows", rows that are added, removed or replaced. Seconds: time to
fit and to certify all test rows, on two busy cores, without the time for the features.
"""

ROWS_NOTES = """
Training rows may be added, removed or replaced, features and labels alike: the columns count these changes. The first
part of the training rows is the reference, which nobody can change; its labels are not used. Features are learned from
it, and each other row is then treated by itself. Settings follow from the numbers of rows and classes, or are those of
a prototype.
"""


def tables(experiment: Experiment, rows: Rows, manifest: Mapping[str, Any]) -> str:
    """Return all tables of an experiment as one page."""
    n, m = manifest["n_train"], len(next(iter(rows.values())).index)
    page = [f"# {experiment.title}\n"]
    if manifest["quick"]:
        page.append("**A quick run on a few rows: not a result.**\n")
    page += [f"{n:,} training rows, {m:,} test rows. {manifest['data']['provenance']}\n"]
    page += [f"{experiment.caption}\n"] if experiment.caption else []
    if _of_group(experiment, "paper"):
        page += ["## The paper's table\n", paper_table(experiment, rows, manifest), "## Beyond the paper\n"]
    page.append(beyond_table(experiment, rows, manifest))
    if experiment.changed_rows:
        page += ["## Changed rows instead of labels\n", rows_table(experiment, rows, manifest)]
    page += [f"- {peer}" for peer in experiment.peers]
    return "\n".join(page).rstrip() + "\n"


def paper_table(experiment: Experiment, rows: Rows, manifest: Mapping[str, object]) -> str:
    """Return the paper's table, with its values above ours: certified accuracy at each number of flips."""
    lines = []
    for run in _of_group(experiment, "paper"):
        if run.published:
            lines.append([run.name, "the paper", "", *(f"{value:.4f}" for value in run.published)])
        if _is_left_out(run, rows):
            continue
        for name, shares in _our_lines(run, rows[run.name], experiment.flips):
            lines.append(
                [run.name, name, f"{clean_accuracy(rows[run.name]):.4f}", *(f"{share:.4f}" for share in shares)]
            )
    head = ["", "", "clean", *map(str, experiment.flips)]
    return markdown_table(head, lines) + _notes(experiment, "paper", rows, manifest)


def beyond_table(experiment: Experiment, rows: Rows, manifest: Mapping[str, Any]) -> str:
    """Return the results of exact certificates and other features, below the paper's best value of each column."""
    published = [run.published for run in experiment.runs if run.published and not run.is_undefended]
    lines = []
    if published:
        best = {
            flips: f"{max(column):.4f}"
            for flips, column in zip(experiment.flips, zip(*published, strict=True), strict=True)
        }
        columns = [best.get(flips, "") for flips in experiment.more_flips]
        lines.append(["*the paper, best of each column*", "", "", *columns, "", "", ""])
    for run in _of_group(experiment, "beyond"):
        if _is_left_out(run, rows):
            continue
        of_run = rows[run.name]
        for place, method in enumerate(run.methods):
            median = median_radius(of_run, method)
            lines.append(
                [
                    f"{run.name}, {method}" if len(run.methods) > 1 else run.name,
                    f"{clean_accuracy(of_run):.4f}",
                    f"{worst_recall(of_run):.4f}",
                    *_cells(of_run, method, experiment),
                    f"{median:,}" if median >= 0 else "none",
                    f"{100 * median / manifest['n_train']:.2f} %" if median >= 0 else "",
                    f"{manifest['runs'][run.name]['seconds']:,.1f}" if place == 0 else "",
                ]
            )
    share = (
        "of the labels"
        if all(run.changes == "labels" for run in _of_group(experiment, "beyond"))
        else "of the training rows"
    )
    head = ["", "clean", "worst class", *map(str, experiment.more_flips), "median radius", share, "seconds"]
    about = BEYOND_NOTES if _of_group(experiment, "paper") else OWN_NOTES
    return markdown_table(head, lines) + about + _notes(experiment, "beyond", rows, manifest)


def _cells(rows: RunRows, method: str, experiment: Experiment) -> list[str]:
    """Return certified accuracy at each number of changes, and the certified recall of a class in brackets."""
    shares = certified(rows, method, experiment.more_flips)
    if experiment.recall_of is None:
        return [f"{share:.4f}" for share in shares]
    recalls = certified(only_class(rows, experiment.recall_of), method, experiment.more_flips)
    return [f"{share:.4f} ({recall:.4f})" for share, recall in zip(shares, recalls, strict=True)]


def rows_table(experiment: Experiment, rows: Rows, manifest: Mapping[str, Any]) -> str:
    """Return certified accuracy by the number of training rows that are added, removed or replaced."""
    lines = []
    for run in _of_group(experiment, "rows"):
        if _is_left_out(run, rows):
            continue
        of_run = rows[run.name]
        n_reference = manifest["n_train"] // run.one_in
        median = median_radius(of_run, "exact")
        lines.append(
            [
                run.name,
                f"{n_reference:,}",
                f"{manifest['n_train'] - n_reference:,}",
                f"{clean_accuracy(of_run):.4f}",
                f"{worst_recall(of_run):.4f}",
                *(f"{share:.4f}" for share in certified(of_run, "exact", experiment.changed_rows)),
                f"{median:,}" if median >= 0 else "none",
                f"{manifest['runs'][run.name]['seconds']:,.1f}",
            ]
        )
    counts = [f"{count:,}" for count in experiment.changed_rows]
    head = ["", "reference", "training", "clean", "worst class", *counts, "median radius", "seconds"]
    return markdown_table(head, lines) + ROWS_NOTES + _notes(experiment, "rows", rows, manifest)


def _our_lines(run: Run, rows: RunRows, flips: Sequence[int]) -> list[tuple[str, Any]]:
    lines = [(f"ours, {method}", certified(rows, method, flips)) for method in run.methods]
    if run.is_undefended:
        lines.append(("ours, attacked", attacked(rows, "flips_needed", flips)))
    return lines


def _notes(experiment: Experiment, group: str, rows: Rows, manifest: Mapping[str, object]) -> str:
    notes = []
    for run in _of_group(experiment, group):
        if _is_left_out(run, rows):
            why = "not part of a quick run" if manifest["quick"] else f"needs {run.only_with}"
            notes.append(f"\n{run.name}: skipped ({why}).\n")
        elif run.note:
            notes.append(f"\n{run.name}: {run.note}\n")
    return "".join(notes)


def _is_left_out(run: Run, rows: Rows) -> bool:
    return bool(run.only_with) and run.name not in rows


def _of_group(experiment: Experiment, group: str) -> list[Run]:
    return [run for run in experiment.runs if run.group == group]


def markdown_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    rows = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


SIZE, DPI = (6.4, 4.2), 150
#: Names of this length or more are too wide for a legend of three columns.
LONG_NAME = 28
#: Lengths of the dashes and gaps of clean lines: where lines coincide, the dashes of each are visible.
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
            axes.plot([], [], ls="none", label=f"{name}: skipped")
            continue
        of_run = rows[name]
        clean = clean_accuracy(of_run)
        if run.group == "reference":  # drawn below the clean lines, with which it may coincide
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
    labels_only = all(runs[name].changes == "labels" for name in figure.runs)
    xlabel = f"{'label flips' if labels_only else 'changed labels or rows'}, aimed at each test row"
    axes.set(xlim=(0, figure.most_flips), ylim=(0, 1), xlabel=xlabel, ylabel="accuracy")
    percent = axes.secondary_xaxis("top", functions=(lambda r: 100 * r / n_train, lambda p: p * n_train / 100))
    percent.set_xlabel(f"% of {n_train:,} training {'labels' if labels_only else 'rows'}")
    dashed = "attacked (dashed)" if figure.kind == "attacked" else "clean (dashed)"
    axes.set_title(f"{figure.title}: certified, {figure.method} (solid), {dashed}", loc="left", fontsize=9)
    axes.grid(alpha=0.3)
    longest = max(len(name) for name in axes.get_legend_handles_labels()[1])
    canvas.legend(loc="outside lower center", ncols=3 if longest < LONG_NAME else 2, fontsize=8, frameon=False)
    return _png(canvas)


def duality_gap() -> bytes:
    """Return a PNG of two plots that compare the generic with the tight bound: vote against flips, and reversed."""
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
    """Return matplotlib's pyplot, or raise an error that says how to install it."""
    try:
        import matplotlib

        matplotlib.use("Agg", force=False)
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("Figures need matplotlib: pip install 'flipproof[plot]'.") from error
    return plt
