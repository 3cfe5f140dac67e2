"""Simulation of the task graph: how long a distributed run takes, and where it stops scaling. One command:

    python benchmarks/scale_simulation.py --constants benchmarks/results/scale.json \
        -o benchmarks/results/scale_simulation.json --figure docs/images/scale.png

`scale_model` describes the work, `task_graph` simulates it. The network is a parameter.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from scale_model import Constants, Job, Outcome, simulate, simulate_certify, simulate_fit
from task_graph import KINDS, Cluster, Phase

Row = dict[str, Any]

ROWS = (10**8, 10**9)
TEST_ROWS = (500, 10_000)
WORKERS = (10, 30, 100, 300, 1000)
BANDWIDTHS = (1.25e9, 1.25e8)
ROWS_PER_PART = (10**5, 10**6, 10**7)
FEATURES, CLASSES = 64, 2

#: Numbers of workers for which the largest run is also simulated with variations.
CHANGED_WORKERS = (300, 1000)

COLOURS = ("#D55E00", "#0072B2")
STYLES = ("o-", "s--")


def shares(phase: Phase, n_workers: int) -> dict[str, float]:
    """Return the shares of time spent on each kind of work.

    "rows" is the time to visit rows with perfect scaling; the rest of that time on the critical path is "imbalance".
    """
    spent = dict(phase.spent)
    even = min(spent["rows"], phase.work / n_workers)
    spent["imbalance"] = spent["rows"] - even
    spent["rows"] = even
    return {kind: seconds / phase.seconds for kind, seconds in spent.items()}


def _together(outcome: Outcome) -> Phase:
    """Return fit and certify as one phase."""
    fit, certify = outcome.fit, outcome.certify
    return Phase(
        seconds=outcome.seconds,
        spent={kind: fit.spent[kind] + certify.spent[kind] for kind in KINDS},
        work=fit.work + certify.work,
        n_tasks=fit.n_tasks + certify.n_tasks,
        bytes_moved=fit.bytes_moved + certify.bytes_moved,
        bytes_client=fit.bytes_client + certify.bytes_client,
        peak_worker_bytes=max(fit.peak_worker_bytes, certify.peak_worker_bytes),
    )


def _largest_shares(of: dict[str, float]) -> str:
    """Name the two kinds of work that take most of the time."""
    first, second = sorted(of, key=lambda kind: -of[kind])[:2]
    return f"{first} {of[first]:.0%}, {second} {of[second]:.0%}"


def _row(outcome: Outcome, cluster: Cluster, job: Job) -> Row:
    """Return one line of the table."""
    both = _together(outcome)
    perfect = both.work / cluster.n_workers
    return {
        "n": job.n,
        "m": job.m,
        "bytes per second": cluster.bandwidth,
        "workers": cluster.n_workers,
        "rows per part": job.rows_per_part,
        "fit seconds": outcome.fit.seconds,
        "certify seconds": outcome.certify.seconds,
        "seconds": both.seconds,
        "perfect seconds": perfect,
        "efficiency": perfect / both.seconds,
        "bytes moved": both.bytes_moved,
        "bytes of the client": both.bytes_client,
        "peak bytes of a worker": both.peak_worker_bytes,
        "fit shares": shares(outcome.fit, cluster.n_workers),
        "certify shares": shares(outcome.certify, cluster.n_workers),
        "job": asdict(job),
    }


def sweep(constants: Constants) -> list[Row]:
    """Simulate all sizes, each with its best size of parts."""
    rows = []
    for n in ROWS:
        for bandwidth in BANDWIDTHS:
            for n_workers in WORKERS:
                cluster = Cluster(n_workers, bandwidth)
                jobs = [Job(n, FEATURES, CLASSES, max(TEST_ROWS), rows_per_part) for rows_per_part in ROWS_PER_PART]
                fits = [simulate_fit(constants, cluster, job) for job in jobs]  # the same for any test rows
                for m in TEST_ROWS:
                    tries = [replace(job, m=m) for job in jobs]
                    outcomes = [
                        Outcome(fit, simulate_certify(constants, cluster, job))
                        for fit, job in zip(fits, tries, strict=True)
                    ]
                    best = min(range(len(tries)), key=lambda index: outcomes[index].seconds)
                    rows.append(_row(outcomes[best], cluster, tries[best]))
                print(f"{n:.0e} rows, {n_workers} workers done", file=sys.stderr, flush=True)
    return rows


def compared(constants: Constants, large: dict[str, Any]) -> str:
    """Simulate the rows in files that two workers certified in `benchmarks/scale.py`; return both times."""
    job = Job(large["rows"], FEATURES, CLASSES, large["test rows"], large["rows"] // large["files"])
    outcome = simulate(constants, Cluster(2, max(BANDWIDTHS)), job)
    simulated = {"fit": outcome.fit.seconds, "certify": outcome.certify.seconds}
    took = large["two workers"]
    return "; ".join(
        f"{step}: measured {took[f'{step} seconds']:.1f} s, simulated {seconds:.1f} s"
        for step, seconds in simulated.items()
    )


def changes(job: Job, n_workers: int) -> dict[str, Job]:
    """Return the job and variations of it."""
    one_part = math.ceil(job.n / n_workers)
    batch_bytes = math.ceil(job.m / 8) * job.row_bytes
    return {
        "as it is": job,
        "one part per worker": replace(job, rows_per_part=one_part),
        "each worker's own sum first": replace(job, workers_first=True),
        "fan-in 2": replace(job, fan_in=2),
        "fan-in 32": replace(job, fan_in=32),
        "a quarter of the levels": replace(job, levels=job.levels // 4, batch_bytes=job.batch_bytes // 4),
        "8 batches, one after the other": replace(job, batch_bytes=batch_bytes),
        "8 batches side by side": replace(job, batch_bytes=batch_bytes, batches_at_once=8),
        "8 batches side by side, engine on the workers": replace(
            job, batch_bytes=batch_bytes, batches_at_once=8, engine_on_workers=True
        ),
        "the same, one part per worker, a quarter of the levels": replace(
            job,
            rows_per_part=one_part,
            levels=job.levels // 4,
            batch_bytes=batch_bytes // 4,
            batches_at_once=8,
            engine_on_workers=True,
        ),
    }


def what_to_change(constants: Constants, rows: list[Row]) -> list[Row]:
    """Simulate large runs with variations."""
    changed = []
    for row in rows:
        if row["n"] == max(ROWS) and row["workers"] in CHANGED_WORKERS:
            cluster = Cluster(row["workers"], row["bytes per second"])
            for name, job in changes(Job(**row["job"]), cluster.n_workers).items():
                changed.append({"change": name} | _row(simulate(constants, cluster, job), cluster, job))
    return changed


def table(rows: list[Row]) -> str:
    """Return rows as a Markdown table."""
    return _markdown(
        {
            "rows": f"{row['n']:.0e}".replace("e+0", "e"),
            "test rows": f"{row['m']:,}",
            "Gbit/s": _gigabits(row["bytes per second"]),
            "workers": f"{row['workers']}",
            "rows per part": f"{row['rows per part']:,}",
            "fit (s)": _three_digits(row["fit seconds"]),
            "certify (s)": _three_digits(row["certify seconds"]),
            "efficiency": f"{row['efficiency']:.0%}",
            "moved (GB)": _three_digits(row["bytes moved"] / 1e9),
            "by the client (MB)": _three_digits(row["bytes of the client"] / 1e6),
            "worker's peak (MiB)": f"{row['peak bytes of a worker'] / 2**20:.0f}",
            "fit goes to": _largest_shares(row["fit shares"]),
            "certify goes to": _largest_shares(row["certify shares"]),
        }
        for row in rows
    )


def table_of_changes(rows: list[Row]) -> str:
    """Return seconds, and the memory of a worker, for each change."""
    lines: dict[tuple[int, str], dict[str, str]] = {}
    for row in rows:
        line = lines.setdefault(
            (row["workers"], row["change"]), {"workers": f"{row['workers']}", "change": row["change"]}
        )
        line[f"m = {row['m']:,}, {_gigabits(row['bytes per second'])} Gbit/s"] = (
            f"{_three_digits(row['seconds'])} s, {row['peak bytes of a worker'] / 2**20:.0f} MiB"
        )
    return _markdown(lines[key] for key in sorted(lines, key=lambda key: key[0]))


def _markdown(rows: Iterable[dict[str, str]]) -> str:
    rows = list(rows)
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _three_digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def _gigabits(bandwidth: float) -> str:
    return f"{bandwidth * 8 / 1e9:g}"


def draw(rows: list[Row], path: str) -> None:
    """Draw seconds against workers, one panel per number of test rows."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    figure, panels = plt.subplots(1, len(TEST_ROWS), figsize=(10.8, 4.8), sharey=True, layout="constrained")
    for ax, m in zip(panels, TEST_ROWS, strict=True):
        for n, colour in zip(ROWS, COLOURS, strict=True):
            _draw_size(ax, [row for row in rows if row["n"] == n and row["m"] == m], colour)
        ax.margins(x=0.06, y=0.08)
        ax.set(xscale="log", yscale="log", xlabel="workers of one thread", title=f"{m:,} test rows")
        ax.set_xticks(WORKERS, [f"{n_workers:,}" for n_workers in WORKERS])
        ax.yaxis.set_major_formatter(lambda seconds, _: f"{seconds:,g}")
        ax.tick_params(which="minor", bottom=False, left=False)
        ax.grid(alpha=0.25)
        ax.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("seconds, fit and certify together")
    keys = [
        Line2D([], [], linestyle=style[1:], marker=style[0], color="0.3", markerfacecolor=face, label=f"{speed} Gbit/s")
        for style, face, speed in zip(STYLES, ("0.3", "white"), map(_gigabits, BANDWIDTHS), strict=True)
    ]
    keys.append(Line2D([], [], color="0.5", linestyle=":", label="perfect scaling"))
    panels[0].legend(handles=keys, frameon=False, loc="lower left")
    figure.savefig(path, dpi=110)


def _draw_size(ax: Any, rows: list[Row], colour: str) -> None:
    perfect = rows[0]["perfect seconds"] * rows[0]["workers"]
    ax.plot(WORKERS, [perfect / n_workers for n_workers in WORKERS], color="0.5", linewidth=1.2, linestyle=":")
    for bandwidth, style, face in zip(BANDWIDTHS, STYLES, (colour, "white"), strict=True):
        seconds = [row["seconds"] for row in rows if row["bytes per second"] == bandwidth]
        ax.plot(WORKERS, seconds, style, color=colour, markerfacecolor=face, markersize=5)
    ax.annotate(
        f"$10^{{{round(math.log10(rows[0]['n']))}}}$ training rows",
        (rows[0]["workers"], rows[0]["seconds"]),
        xytext=(14, 6),
        textcoords="offset points",
        color=colour,
    )


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--constants", required=True, help="results of benchmarks/scale.py")
    parser.add_argument("-o", "--output", help="file for all results")
    parser.add_argument("--figure", help="file for a plot of seconds against workers")
    arguments = parser.parse_args()
    constants = Constants.from_json(arguments.constants)
    large = json.loads(Path(arguments.constants).read_text()).get("large")
    if large is not None:
        print(f"Two workers, {large['rows']:,} rows in files: {compared(constants, large)}\n")
    rows = sweep(constants)
    changed = what_to_change(constants, rows)
    print(f"{table(rows)}\n\n{table_of_changes(changed)}")
    if arguments.output:
        Path(arguments.output).write_text(json.dumps({"runs": rows, "changes": changed}, indent=1) + "\n")
    if arguments.figure:
        draw(rows, arguments.figure)


if __name__ == "__main__":
    main()
