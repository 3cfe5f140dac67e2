"""One attack on all test nodes of Cora and Citeseer together: the last table in docs/graphs.md.

    python benchmarks/graphs.py --data-dir DIR [--only NAME]    # certify, and write results/graphs, in minutes
    python benchmarks/graphs.py --table                         # print the table from the committed results

The data and the learners are those of `flipproof reproduce graphs`, which certifies each node by itself.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from flipproof import collective_certify
from flipproof.experiments import read_study
from flipproof.experiments.studies.graph_study import TITLES, learner, shown

RESULTS = Path(__file__).parent / "results" / "graphs"

#: Flips of one attack on all test nodes together, by the case of the study and its run.
FLIPS = {"": {"ridge on two hops": (1, 2, 3)}, "-all": {"spreading, clip=0.9": (1, 5)}}

#: Seconds for each collective certificate; those that take longer are weaker.
TIME_LIMIT = 120


def measure(data_dir: Path, name: str) -> list[dict[str, Any]]:
    """Return a line for each certificate: the share of test nodes that stay correct under one attack."""
    lines = []
    for suffix, runs in FLIPS.items():
        case = next(one for one in read_study("graphs").cases if one.name == f"{name}{suffix}")
        problem = case.read(data_dir, False, 0)
        data, truth = problem.content, problem.label
        for run in (one for one in case.runs if one.name in runs):
            model = learner(run.settings, data).fit(data.train, data.labels[data.train])
            is_right = model.predict(data.test) == truth
            for flips in runs[run.name]:
                start = time.perf_counter()
                found = collective_certify(model, data.test[is_right], flips, time_limit=TIME_LIMIT)
                alone, together = (
                    round((int(is_right.sum()) - changed) / len(truth), 4)
                    for changed in (found.pointwise_changed, found.most_changed)
                )
                line = {"n_labels": len(data.train), "learner": run.name, "flips": flips, "alone": alone}
                lines.append(line | {"together": together, "seconds": round(time.perf_counter() - start, 1)})
                print(json.dumps(lines[-1]), flush=True)
    return lines


def committed(name: str) -> list[dict[str, Any]]:
    """Return the committed lines of a graph."""
    return list(json.loads((RESULTS / f"{name}.json").read_text()))


def table() -> str:
    """Return the table in Markdown."""
    rows: list[list[str]] = [
        ["graph", "labels", "learner", "flips", "each node by itself", "all nodes together"],
        ["---", "---:", "---", "---:", "---:", "---:"],
    ]
    for name, title in TITLES.items():
        for line in committed(name):
            # the solver ran out of time where it says no more than each node by itself
            together = shown(line["together"]) if line["together"] > line["alone"] else "no result"
            shares = shown(line["alone"]), together
            rows.append([title, f"{line['n_labels']:,}", line["learner"], str(line["flips"]), *shares])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--only", choices=TITLES)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.data_dir:
        RESULTS.mkdir(parents=True, exist_ok=True)
        for name in [options.only] if options.only else TITLES:
            text = ",\n".join(json.dumps(line) for line in measure(options.data_dir, name))
            (RESULTS / f"{name}.json").write_text(f"[\n{text}\n]\n")
    elif options.table:
        print(table())
    else:
        parser.error("give --data-dir or --table")


if __name__ == "__main__":
    main()
