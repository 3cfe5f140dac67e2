"""What README and docs quote from committed results: importing this module fills QUOTES."""

from decimal import ROUND_CEILING as UP
from decimal import ROUND_FLOOR as DOWN

import documentation.reproduction_quotes  # noqa: F401 - fills QUOTES, too
import numpy as np
from documentation.evidence import (
    certified,
    clean,
    median,
    paper_best,
    percent,
    printed,
    results,
    rounded,
    share,
    shares,
    study,
)
from documentation.quoting import (
    FIRST_RATINGS,
    MNIST_ROWS,
    PER_LABEL,
    PER_ROW,
    QUOTES,
    RIDGE,
    SPAM,
    defaults,
    fitted_distances,
    learners_on,
    quote,
    row,
    spam,
    spam_row,
)

__all__ = ["QUOTES"]

# --- README and the first pages

README = "README.md"
DIGITS_PRINTED = r"\[(\S+) (\S+) +(\S+) (\S+) (\S+)\]"
quote(
    README,
    "Even under any 10 changed labels, {} of the test rows are guaranteed",
    lambda: [percent(float(printed(README, DIGITS_PRINTED)[3]))],
)
quote(
    README,
    "170 changed labels of 3,450 leave ridge with {} certified accuracy and neighbours with {}.",
    lambda: [learners_on("Spambase", name, 170) for name in ("ridge", "neighbours, 30 % of the rows")],
)
quote(
    README,
    "{} of the test messages of SMS spam are certified against 20 arbitrary poisoned rows, and {} of the spam:",
    lambda: [percent(certified("sms", PER_ROW, 20)), percent(certified("sms", PER_ROW, 20, of=SPAM))],
)
quote(
    README,
    "rows of its MNIST 1/7 table are reproduced to within {}.",
    lambda: [share(max(map(abs, fitted_distances())), how=UP)],
)
quote(
    README,
    "at 500 changed labels of full MNIST {} (paper: {}), and at 300 of IMDB {} (paper: {}).",
    lambda: [
        *shares("mnist", "UMAP, neighbours, 10 %", 500),
        *paper_best("mnist", 500),
        *shares("imdb", FIRST_RATINGS, 300),
        *paper_best("imdb", 300),
    ],
)
quote(
    "docs/getting-started.md",
    "{} of the test rows are guaranteed to be predicted correctly.",
    lambda: [percent(float(printed("docs/getting-started.md", r"\[(\S+) (\S+) (\S+) (\S+) (\S+)\]")[3]))],
)

# --- other pages

ROWS_PAGE = "docs/poisoned-rows.md"
for data, title in (("sms", "SMS spam, 4,130 rows vote"), ("enron", "Enron spam, 3,492 rows vote")):
    cells = " | ".join(["{} ({})"] * 4) + " | {}"
    row(ROWS_PAGE, f"{title} | rows | {cells}", lambda data=data: spam_row(data, PER_ROW))
    row(ROWS_PAGE, f"| labels | {cells}", lambda data=data: spam_row(data, PER_LABEL))
NO_REFERENCE = "ridge, no reference, labels"
quote(
    ROWS_PAGE,
    "is more accurate ({} and {}), but certifies only labels, and fewer of them: on SMS spam {} "
    "({}) at 20 changed labels.",
    lambda: [clean("sms", NO_REFERENCE), clean("enron", NO_REFERENCE), *spam("sms", NO_REFERENCE, 20)],
)

FEATURES = "docs/features.md"
FLIPS = (0, 100, 500, 1000, 1500)
FIVE = " | ".join(["{}"] * 5)


def by_features(title, name):
    """Return certified accuracy by features, as benchmarks/features.py measured it."""
    return [share(one) for one in results("features.json")[title]["accuracy"][name]]


MNIST17, PATCHES, WORDS = "MNIST 1/7", "Dogfish stand-in, 64 x 64 pixels", "IMDB, GloVe, every tenth test review"
for name, shown in (
    ("pixels", "pixels"),
    ("PCA, 50, whitened", "PCA, 50, whitened"),
    ("ICA, 30", "ICA, 30"),
    ("PCA, 50", "PCA, 50"),
    ("PCA, 30", "PCA, 30"),
    (
        "`CNNFeatures`, 12,000 images, 5 epochs",
        "`CNNFeatures`, 12,000 images of the other digits, 5 epochs",
    ),
):
    row(FEATURES, f"{shown} | {FIVE}", lambda name=name: by_features(MNIST17, name))
row(
    FEATURES,
    f"`CNNFeatures`, all 46,993 images of the other digits, 10 epochs | {FIVE}",
    lambda: shares("mnist17", RIDGE, *FLIPS),
)
SIX = " | ".join(["{}"] * 6)
for size in (20, 100):
    row(
        FEATURES,
        f"PCA of the pixels, {size} | {SIX}",
        lambda size=size: by_features(PATCHES, f"pixels, then PCA, {size}"),
    )
    row(FEATURES, f"RICA, then PCA, {size} | {SIX}", lambda size=size: by_features(PATCHES, f"RICA, then PCA, {size}"))
quote(
    FEATURES,
    "it certifies {} more of the test rows than the better PCA at 1,000 flips and {} more at 500; it is {} behind at "
    "100, and {} without flips.",
    lambda: [
        *(rounded(certified("mnist17", RIDGE, r) - better_pca(r), 2) for r in (1000, 500)),
        *(rounded(better_pca(r) - certified("mnist17", RIDGE, r), 3) for r in (100, 0)),
    ],
)


def better_pca(flips):
    """Return the certified accuracy by that PCA which certifies more at 1,000 flips."""
    table = results("features.json")[MNIST17]
    return table["accuracy"]["PCA, 30"][table["flips"].index(flips)]


quote(
    FEATURES,
    "ridge certifies on every tenth test review: {} at 0 flips, {} at 1, {} at 10, {} at 100, {} at 300. "
    '`weighting="idf"` gives rare words more weight; here it certifies less ({}, {}, {}, {}, {}).',
    lambda: [*by_features(WORDS, "mean"), *by_features(WORDS, "idf")],
)
quote(
    FEATURES,
    "certify half of the test images against {} changed rows, at an accuracy of {}",
    lambda: [median("mnist", MNIST_ROWS), clean("mnist", MNIST_ROWS)],
)

COMMAND = "docs/command-line.md"
quote(
    COMMAND,
    "certified accuracy at 20 flips is {} instead of {} ([defaults](defaults.md)).",
    lambda: [
        percent(defaults("Spambase", "ridge", scale="standard")[2], how=DOWN),
        percent(defaults("Spambase", "ridge", scale="auto")[2], how=DOWN),
    ],
)


quote(
    "docs/peers.md",
    "means that {} of the test rows are predicted correctly and certified at 100 changes",
    lambda: paper_best("mnist17", 100),
)

# --- the vote of the learners, times and costs

quote(
    README,
    "even if any {} of {} labels are poisoned, {} of predictions are guaranteed unchanged.",
    lambda: (lambda flips, labels, share: [flips, labels, f"{share} %"])(
        *printed(COMMAND, r"Even if any (20) of (4,180) training labels .*? are poisoned, (\d+)%")
    ),
)
quote(
    COMMAND,
    "Overall, {} of the messages are correct and certified there",
    lambda: [f"{printed(COMMAND, r'certified accuracy +96[.]6%(?: +[0-9.]+%){2} +([0-9.]+)%')[0]} %"],
)
quote(
    "docs/learners.md",
    "the joint vote certifies {} at every number of flips up to {} with whitened components",
    lambda: [
        percent(certified("mnist17", "clusters, 2, joint vote", 6316)),
        median("mnist17", "clusters, 2, joint vote"),
    ],
)


def trusting(learner, changes, trusted=10):
    """Return certified accuracy on Spambase as the tables of trusted labels show it."""
    cells = study("trust", "Spambase, 3,451 training rows", f"{3451 * trusted // 100} | {learner}")
    return cells[("0", "10", "35", "100", "170", "500", "1,000").index(changes)].lstrip("0")


TRUST = "docs/trusted-labels.md"
quote(
    TRUST,
    "with 345 of 3,451 labels of Spambase trusted, the certified accuracy of the forest at 100 changed labels is {}, "
    "against {} with 69.",
    lambda: [trusting("forest", "100"), trusting("forest", "100", 2)],
)
quote(TRUST, "{} at 100 changed labels, with a weight of 2.", lambda: [trusting("forest, prior of weight 2", "100")])
quote(
    TRUST,
    "these 345 labels alone has {} at any number of changes",
    lambda: [trusting("trusted labels only: random forest", "1,000")],
)

VERIFYING = "docs/verifying.md"


def verified(problem, *methods):
    """Return how much longer checking takes than certifying, by method, and the size of the file."""
    lines = {(one["problem"], one["method"]): one for one in results("verifier.json")["results"]}
    times = [rounded(lines[problem, one]["times_certify_per_row"], 1) for one in methods]
    return [*times, rounded(lines[problem, "exact"]["file_bytes"] / 1e6, 1)]


SIZES = "{} | {} | {} | {} MB"
row(
    VERIFYING,
    f"A: 13,007 training rows, 50 columns, 2 classes, 2,163 test rows | {SIZES}",
    lambda: verified("A", "exact", "tight", "kl"),
)
row(
    VERIFYING,
    f"B: 50,000 training rows, 128 columns, 10 classes, 400 test rows | {SIZES}",
    lambda: verified("B", "exact", "tight", "kl"),
)
row(VERIFYING, "B with 10,000 test rows | {} | | | {} MB", lambda: verified("B, 10,000 test rows", "exact"))

SCALE = "docs/scale.md"


def scaled(what):
    return rounded(float(np.median(results("scale.json")["ratios"]["seconds of certify"][what])), 1)


row(SCALE, "in memory, two threads | {}", lambda: [scaled("in memory, two threads")])
row(SCALE, "one worker of one thread | {}", lambda: [scaled("one worker")])
row(SCALE, "two workers of one thread | {}", lambda: [scaled("two workers")])
quote(
    SCALE,
    "Two workers have {} times the throughput of one, and take {} times as long as the learner in memory",
    lambda: [
        rounded(results("scale.json")["ratios"][one], 2)
        for one in ("two workers to one, throughput", "two workers to memory, time")
    ],
)
for title, name, unit, power in (
    ("Gram matrix | row", "c_gram", "us", 6),
    ("coordinates | row", "c_rotate", "us", 6),
    ("add up counts | byte", "c_add", "ns", 9),
    ("eigenproblem | fit", "c_eigen", "ms", 3),
    ("schedule and run an empty task | task", "c_schedule", "ms", 3),
):
    row(
        SCALE,
        f"{title} | {{}} {unit}",
        lambda name=name, power=power: [f"{results('scale.json')['constants'][name]['median'] * 10**power:.2g}"],
    )

SMOOTHING = "docs/smoothing.md"
EIGHT = " | ".join(["{}"] * 8)


def smoothed(what, name):
    return [share(one) for one in results("smoothing.json")[what][name]]


for samples in ("100", "1,000", "10,000", "100,000"):
    quote(
        SMOOTHING,
        f"| {samples} | {EIGHT} |",
        lambda samples=samples: results("smoothing.json")["largest radii"][samples],
    )
for name in ("logistic regression, standardised", "gradient boosting", "random forest, 30 trees"):
    quote(SMOOTHING, f"| smoothed {name} | {EIGHT} |", lambda name=name: smoothed("labels", name))
quote(SMOOTHING, f"| `CertifiedRidgeClassifier`, exact | {EIGHT} |", lambda: smoothed("labels", "ridge"))
quote(
    SMOOTHING,
    f"|---|---|---|---|---|---|---|---|---|---| | {{}} | {EIGHT} | 12 s | | 1 | {EIGHT} | 15 s | "
    f"| 4 | {EIGHT} | 12 s |",
    lambda: ["0.5", *(figure for sigma in ("0.5", "1", "4") for figure in smoothed("features", sigma))],
)
quote(
    SMOOTHING,
    "| changed labels | share of rows certified | median l2 norm of those | |---|---|---| "
    + " ".join(f"| {flips} | {{}} | {{}} |" for flips in range(4)),
    lambda: [figure for flips in "0123" for figure in results("smoothing.json")["both"][flips]],
)
