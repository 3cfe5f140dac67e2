"""What quotes of pages are, and what several pages quote.

A quote is a fragment of a page with `{}` for each figure, and the figures, computed from committed results in the order
of the text. Line breaks do not matter.
"""

from dataclasses import dataclass

from documentation.evidence import (
    certified,
    is_right,
    median,
    paper_table,
    percent,
    radii,
    results,
    rows_of,
    share,
)

#: Names of runs that are quoted often.
RIDGE, LAMBDA = "ridge, label-free lambda", "q = 0.3, lambda = 25,000"
BY_RULE = "q = 0.3, lambda by rule"
TWO_CLUSTERS = "UMAP, clusters, 2, joint vote"
FIRST_RATINGS = "written ratings, clusters, 2, joint vote"
RATINGS = "written ratings, two halves, joint vote"
SPAM = 1
#: The values of q in the table of MNIST 1/7, and what counts as close to the paper.
NOISES, CLOSE = ("0.3", "0.4", "0.45", "0.475"), 0.03
PER_ROW = "neighbours, 5 %, rows"
PER_LABEL = "neighbours, 5 %, labels"


@dataclass(frozen=True)
class Quote:
    """A fragment of a page, and a function that returns the figures in it."""

    page: str
    text: str
    figures: object


QUOTES = []


def quote(page, text, figures):
    QUOTES.append(Quote(page, " ".join(text.split()), figures))


def row(page, title, figures):
    """Quote a row of a table that ends with these figures; there are as many `{}` as figures."""
    quote(page, f"| {title} |", figures)


def short(figures):
    """Write shares that are zero without digits, as some tables do."""
    return ["0" if one == "0.000" else one for one in figures]


def distance_to_paper(run, *flips):
    """Return how far `tight` is from the paper on MNIST 1/7, largest first; positive where the paper has more."""
    theirs = paper_table("mnist17")[run.replace("lambda = 25,000", "lambda by rule")]
    gaps = [theirs[one] - certified("mnist17", run, one, "tight") for one in flips or theirs]
    return sorted(gaps, key=abs, reverse=True)


def fitted_distances():
    """Return the distances of all certified cells of MNIST 1/7, with the lambda that was chosen to fit."""
    return [gap for q in NOISES for gap in distance_to_paper(f"q = {q}, lambda = 25,000")]


def below_exact():
    rows = radii("mnist17", RIDGE) - radii("mnist17", RIDGE, "tight")
    return [f"{(rows <= 1).sum():,}", f"{len(rows):,}"]


def spam(data, run, changes):
    """Return certified accuracy and certified recall of spam."""
    return [share(certified(data, run, changes)), share(certified(data, run, changes, of=SPAM))]


def spam_row(data, run):
    return [figure for changes in (0, 10, 20, 50) for figure in spam(data, run, changes)] + [median(data, run)]


def learners_on(title, learner, flips):
    found = results("learners.json")[title]
    return percent(found["accuracy"][learner][found["flips"].index(flips)])


def defaults(table, learner, **settings):
    wanted = {"table": table, "learner": learner, **settings}
    lines = [one for one in results("defaults.json") if all(one.get(name) == value for name, value in wanted.items())]
    assert len(lines) == 1, wanted
    return lines[0]["accuracy"]


def worst_class(data, run):
    labels = rows_of(data)[run]["label"]
    return share(min(is_right(data, run)[labels == one].mean() for one in set(labels.tolist())))


def lead(data, run, other, changes, digits):
    return share(certified(data, run, changes) - certified(data, other, changes), digits)


MNIST_ROWS, CLUSTERED_ROWS = "frozen UMAP, 2,500 neighbours", "frozen UMAP, clusters, 10"
PIXELS = "ridge, PCA of the pixels"
