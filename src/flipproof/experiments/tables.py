"""Tables in Markdown, from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flipproof.experiments.rows import RunRows
from flipproof.experiments.scores import attacked, certified, clean_accuracy, median_radius, worst_recall
from flipproof.experiments.spec import Experiment, Run

Rows = Mapping[str, RunRows]

BEYOND_NOTES = """
Settings are one per row: round numbers that were known to do well on such data. They were not chosen on a trusted
split, so that the best rows are a little optimistic. Seconds: to fit and to certify all test rows, by all methods of
the run together, on two busy cores; without the seconds of the features.
"""


def tables(experiment: Experiment, rows: Rows, manifest: Mapping[str, Any]) -> str:
    """Return all tables of an experiment as one page."""
    n, m = manifest["n_train"], len(next(iter(rows.values())).index)
    page = [f"# {experiment.title}\n"]
    if manifest["quick"]:
        page.append("**A quick run on a few rows: not a result.**\n")
    page += [f"{n:,} training rows, {m:,} test rows. {manifest['data']['provenance']}\n"]
    page += [f"{experiment.caption}\n"] if experiment.caption else []
    page += ["## The paper's table\n", paper_table(experiment, rows, manifest)]
    page += ["## Beyond the paper\n", beyond_table(experiment, rows, manifest)]
    page += [f"- {peer}" for peer in experiment.peers]
    return "\n".join(page).rstrip() + "\n"


def paper_table(experiment: Experiment, rows: Rows, manifest: Mapping[str, Any]) -> str:
    """Return the paper's table, its figures above ours: certified accuracy at so many flips."""
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
    """Return what exact certificates and other features reach, below the best figure of each column of the paper."""
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
                    *(f"{share:.4f}" for share in certified(of_run, method, experiment.more_flips)),
                    f"{median:,}" if median >= 0 else "none",
                    f"{100 * median / manifest['n_train']:.2f} %" if median >= 0 else "",
                    f"{manifest['runs'][run.name]['seconds']:,.1f}" if place == 0 else "",
                ]
            )
    head = ["", "clean", "worst class", *map(str, experiment.more_flips), "median radius", "of the labels", "seconds"]
    return markdown_table(head, lines) + BEYOND_NOTES + _notes(experiment, "beyond", rows, manifest)


def _our_lines(run: Run, rows: RunRows, flips: Sequence[int]) -> list[tuple[str, Any]]:
    lines = [(f"ours, {method}", certified(rows, method, flips)) for method in run.methods]
    if run.is_undefended:
        lines.append(("ours, attacked", attacked(rows, "flips_needed", flips)))
    return lines


def _notes(experiment: Experiment, group: str, rows: Rows, manifest: Mapping[str, Any]) -> str:
    notes = []
    for run in _of_group(experiment, group):
        if _is_left_out(run, rows):
            why = "as in every quick run" if manifest["quick"] else f"for want of {run.only_with}"
            notes.append(f"\n{run.name}: not run here, {why}.\n")
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
