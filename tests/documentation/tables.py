"""Tables of pages, made from committed results."""

import re
from functools import cache

import attacks
import backdoor
import defaults
import graphs
import learners
import peers
import precision
import regression
import scale_simulation
import speed
from documentation.evidence import ROOT, results

#: The columns of a table that its page omits.
NOT_IN_PAGE = ("Gbit/s", "by the client (MB)", "fit goes to")


def of_speed():
    yield from map(speed.table, results("speed.json").values())


def of_scale():
    """The lines of the page are for the larger bandwidth."""
    lines = [one for one in results("scale_simulation.json")["runs"] if one["bytes per second"] == 1.25e9]
    head, _, *body = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in scale_simulation.table(lines).split("\n")
    )
    kept = [place for place, name in enumerate(head) if name not in NOT_IN_PAGE]
    yield "\n".join("| " + " | ".join(line[place] for place in kept) + " |" for line in body)


MADE = {
    "docs/learners.md": lambda: map(learners.table, learners.committed()),
    "docs/precision.md": lambda: map(precision.table, precision.committed()),
    "docs/attacks.md": lambda: [backdoor.table(), *map(attacks.table, attacks.committed())],
    "docs/defaults.md": lambda: [defaults.neighbors_table(), defaults.scale_table()],
    "docs/graphs.md": lambda: [graphs.table()],
    "docs/regression.md": lambda: [regression.table(regression.committed())],
    "docs/peers.md": lambda: map(peers.measured_table, ("certified", "attacked")),
    "docs/speed.md": of_speed,
    "docs/scale.md": of_scale,
}

#: Pages that show tables of studies as they are in `reproduction/STUDY/tables.md`, which tests compare with its rows.
STUDIES = {
    "docs/trusted-labels.md": "trust",
    "docs/crowd-labels.md": "crowds",
    "docs/regression.md": "regression",
    "docs/graphs.md": "graphs",
}


@cache
def tables_of(page):
    """Return the tables that a page must show, as text."""
    made = list(MADE[page]()) if page in MADE else []
    if page in STUDIES:
        text = (ROOT / "reproduction" / STUDIES[page] / "tables.md").read_text()
        made += re.findall(r"^\|.*?(?=\n\n|\n*\Z)", text, re.DOTALL | re.MULTILINE)
    return made
