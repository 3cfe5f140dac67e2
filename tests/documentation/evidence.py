"""What quotes in pages are compared with: committed rows, committed figures, and what pages print.

Values are text, written as pages write them: shares with three digits, medians with thousands separators.
"""

import io
import json
import lzma
import re
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path

import numpy as np
from pyarrow import csv

from flipproof.experiments import read_experiment

ROOT = Path(__file__).parents[2]

#: Values in rows.csv.xz: a method was not computed; an attack found nothing.
MISSING, NO_ATTACK = -2, -1


@cache
def rows_of(data):
    """Return the committed rows of an experiment as arrays, by run; read here without the code that wrote them."""
    table = csv.read_csv(io.BytesIO(lzma.decompress((ROOT / "reproduction" / data / "rows.csv.xz").read_bytes())))
    run = table["run"].dictionary_encode().combine_chunks()
    place = run.indices.to_numpy()
    columns = {
        name: table[name].fill_null(MISSING).to_numpy() for name in table.column_names[1:] if table[name].type != "null"
    }
    return {
        name: {column: values[place == number] for column, values in columns.items()}
        for number, name in enumerate(run.dictionary.to_pylist())
    }


def results(file):
    """Return what a file of benchmarks/results contains."""
    return json.loads((ROOT / "benchmarks" / "results" / file).read_text())


def rounded(value, digits, how=ROUND_HALF_UP):
    """Round as people do: 0.0125 is 0.013. The shares are of at most 25,000 rows, so twelve digits are exact."""
    return str(Decimal(f"{value:.12f}").quantize(Decimal(1).scaleb(-digits), how))


def study(name, title, begins):
    """Return the cells of a row of a study's tables, after the given ones; tests compare the tables with rows."""
    text = (ROOT / "reproduction" / name / "tables.md").read_text()
    table = text.partition(f"**{title}**")[2].partition("\n**")[0]
    (line,) = (line for line in table.splitlines() if line.startswith(f"| {begins} |"))
    return [cell.strip(" *") for cell in line.removeprefix(f"| {begins} |").strip("|").split("|")]


def share(value, digits=3, how=ROUND_HALF_UP):
    return rounded(value, digits, how)


def percent(value, digits=1, how=ROUND_HALF_UP):
    return f"{rounded(100 * value, digits, how)} %"


def is_right(data, run):
    rows = rows_of(data)[run]
    return rows["prediction"] == rows["label"]


def radii(data, run, method="exact"):
    found = rows_of(data)[run][method]
    assert (found != MISSING).all(), f"{data}, {run}: no {method}"
    return found


def certified(data, run, changes, method="exact", of=None):
    """Return the share of test rows, or of those of one class, that are correct and certified."""
    right = is_right(data, run) & (radii(data, run, method) >= changes)
    return right.mean() if of is None else right[rows_of(data)[run]["label"] == of].mean()


def shares(data, run, *changes, method="exact", digits=3):
    return [share(certified(data, run, flips, method), digits) for flips in changes]


def clean(data, run, digits=3):
    return share(is_right(data, run).mean(), digits)


def median(data, run, method="exact"):
    """Return the largest number of changes at which at least half of the test rows are correct and certified."""
    radius = np.where(is_right(data, run), radii(data, run, method), -1)
    return f"{np.sort(radius)[len(radius) // 2]:,}"


def attacked_accuracy(data, run, changes):
    """Return the shares of test rows that are correct after attacks with these numbers of flips."""
    needed = rows_of(data)[run]["flips_needed"]
    safe = is_right(data, run) & (needed == NO_ATTACK)
    open_ = np.sort(needed[is_right(data, run) & ~safe])
    return (safe.sum() + len(open_) - np.searchsorted(open_, changes, "right")) / len(needed)


def attacked(data, run, *changes, digits=3):
    return [share(one, digits) for one in attacked_accuracy(data, run, changes)]


def largest_gap(data, run, most_flips=None):
    """Return the largest difference between attacked and `tight` certified accuracy at 1 or more flips."""
    rows = rows_of(data)[run]
    # with more flips nothing more happens; `exact` is the number of labels where no attack exists
    last = most_flips or min(max(rows["flips_needed"].max(), rows["tight"].max() + 1), rows["exact"].max())
    changes = np.arange(1, last + 1)
    right = np.sort(radii(data, run, "tight")[is_right(data, run)])
    certified_accuracy = (len(right) - np.searchsorted(right, changes, "left")) / len(rows["tight"])
    return (attacked_accuracy(data, run, changes) - certified_accuracy).max()


@cache
def paper_table(data):
    """Return the paper's row of each run of its table, by number of flips."""
    experiment = read_experiment(data)
    return {
        run.name: dict(zip(experiment.flips, run.published, strict=True)) for run in experiment.runs if run.published
    }


def paper(data, run, *flips, digits=3):
    return [share(paper_table(data)[run][one], digits) for one in flips]


def paper_best(data, *flips):
    """Return the paper's best certified accuracy in each column, over all q."""
    certified_rows = [row for name, row in paper_table(data).items() if name != "undefended"]
    return [share(max(row[one] for row in certified_rows)) for one in flips]


def printed(page, pattern):
    """Return what matches a pattern in the blocks of text of a page, which its code prints and tests check."""
    blocks = re.findall(r"^```text\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    found = re.search(pattern, "\n".join(blocks))
    assert found, f"{page} prints nothing like {pattern!r}"
    return found.groups()


def said(*figures):
    """Return figures that others published, copied by hand: nothing in this repository can check them."""
    return list(figures)
