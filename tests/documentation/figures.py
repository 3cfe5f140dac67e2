"""Figures in README and docs: which there are, and what accounts for each.

A figure is a number with a decimal point or a percentage, outside code. It is part of a quote (`documentation.quotes`),
of a table that is made from committed results (`documentation.tables`), or of an exception, which has a reason.
"""

import re
from dataclasses import dataclass

from documentation.evidence import ROOT
from documentation.pages import pages
from documentation.quotes import QUOTES
from documentation.tables import tables_of

FIGURE = re.compile(r"(?<![\w.,-])(?:\d[\d,]*(?:\.\d+)? ?%|(?:\d[\d,]*)?\.\d+(?![\w.]*\w))")

#: A placeholder in a quote stands for one of these.
PLACEHOLDER = r"(-?\d[\d.,]*(?<![.,])(?: %)?|\.\d+)"

CODE = re.compile(r"^```.*?^```|`[^`\n]+`|\]\([^)]*\)|<!--.*?-->", re.DOTALL | re.MULTILINE)

#: Numbers that are not results, wherever they are.
NOT_RESULTS = {
    "a setting": r"\b(?:q|C|lambda|sigma|alpha|delta|eps|clip|leaves of|weight of|Poisson|neighbours,)"
    r"(?: =| of)? ?(?:\d+ to )?[\d.]+(?: %)?(?:(?:, | and | or | to )[\d.]+(?: %)?)*",
    "a version": r"\b(?:Python|PyTorch|NumPy|SciPy|scikit-learn|ART|cleanlab|AISVS|SARIF|CycloneDX|OpenBLAS|QEMU) "
    r"\d+(?:\.\d+)+(?:(?:,| and) \d\.\d+)*",
    "a chapter of a standard": r"\b\d\.\d\.x\b|\bNISTAML\.\d+|\bAML\.T\d+",
}


@dataclass(frozen=True)
class Excepted:
    """Figures that are not compared with committed results here, and why.

    `begins` is how their paragraph, item or table begins; a table with this head may occur several times.
    """

    page: str
    begins: str
    reason: str


OWN_TEST = "compared with results by "
PRINTED = "printed by the command that the page names, and not committed: it takes minutes, or data that are not public"
TIMES = "times and memory of single runs, which the page describes; another run gives others"
OTHERS = "published by others"
SETTING = "a setting or an example, no result"

#: How a table of features.md begins; CIFAR10's images are not in every data folder.
CIFAR10_IMAGES = "| features | 0 flips | 1 flip | 10 flips | 25 flips | 50 flips | |---|---|---|---|---|---| | PCA"

EXCEPTED = (
    Excepted("docs/poisoned-rows.md", "| learner | changes |", f"{OWN_TEST}tests/test_rows_benchmark.py"),
    Excepted("docs/poisoned-rows.md", "| data | method | accuracy |", f"{OWN_TEST}tests/test_peers_benchmark.py"),
    Excepted("docs/peers.md", "| system | data | theirs |", f"{OWN_TEST}tests/test_peers_benchmark.py"),
    Excepted("docs/peers.md", "The labels are those that are worst", f"{OWN_TEST}tests/test_peers_benchmark.py"),
    Excepted("docs/learners.md", "- On MNIST 1/7, the two clusters", f"{OWN_TEST}tests/learners/test_cluster.py"),
    Excepted("docs/reproduction.md", "- **IMDB, without a label", f"{OWN_TEST}tests/experiments/test_committed.py"),
    Excepted("docs/attacks.md", "| features | C | clean |", PRINTED),
    Excepted("docs/attacks.md", "At C = 0.001 the curve", PRINTED),
    Excepted("docs/attacks.md", "The paper's undefended model falls", PRINTED),
    Excepted("docs/features.md", CIFAR10_IMAGES, PRINTED),
    Excepted("docs/features.md", "The last row of the table above", PRINTED),
    Excepted("docs/smoothing.md", "| sigma | accuracy |", "the figures in its head are settings"),
    Excepted("docs/smoothing.md", "More noise increases the limit", PRINTED),
    Excepted("docs/smoothing.md", "*A ridge classifier with 120 labels.", PRINTED),
    Excepted("docs/theory.md", "If b = 0 the deployed rule", f"{OWN_TEST}tests/test_learner_tables.py"),
    Excepted("docs/speed.md", "", TIMES),
    Excepted("docs/scale.md", "", TIMES),
    Excepted("docs/poisoned-rows.md", "- Certifying against rows takes", TIMES),
    Excepted("docs/poisoned-rows.md", "- `partial_fit` takes time", TIMES),
    Excepted("docs/command-line.md", "| data | training rows |", TIMES),
    Excepted("docs/reproduction.md", "- **CIFAR10, in size.**", OTHERS),
    Excepted("docs/reproduction.md", "- **The gap between certificate", OTHERS),
    Excepted("docs/reproduction.md", "- **The paper's rule for lambda", "one row is of a training that was not kept"),
    Excepted("docs/attacks.md", "An attacker who cannot touch images", OTHERS),
    Excepted("docs/crowd-labels.md", "CIFAR-10N has three human labels", OTHERS),
    *(
        Excepted(page, begins, SETTING)
        for page, begins in (
            ("docs/command-line.md", "`certify` also says how likely"),
            ("docs/command-line.md", "`--clip SHARE` limits"),
            ("docs/command-line.md", "| exit code | meaning |"),
            ("docs/compliance.md", "Numbers are those of the released version"),
            ("docs/defaults.md", "More neighbours buy larger radii"),
            ("docs/dependencies.md", "- **The wheel in an environment"),
            ("docs/defaults.md", "All figures are certified accuracy"),
            ("docs/defaults.md", "`CertifiedNeighborsClassifier()` lets"),
            ("docs/faq.md", "**How many changed labels should I ask for?**"),
            ("docs/getting-started.md", "`accuracy >= 0.85 @ 5` requires"),
            ("docs/how-to/random-errors.md", "The bound is about independent"),
            ("docs/how-to/requirement-per-class.md", "`recall >= 0.65 @ 5`"),
            ("docs/learners.md", "- More voters give larger radii"),
            ("docs/poisoned-rows.md", "Spam by sentence embeddings"),
            ("docs/poisoned-rows.md", "Without `clip`, a single"),
            ("docs/report.md", "| requirement |"),
            ("docs/report.md", "| section |"),
            ("docs/reproduction.md", "- UMAP was fitted to the training rows"),
            ("docs/reproduction.md", "**Spam, labels and whole rows.**"),
            ("docs/smoothing.md", "Even if all models agree"),
            ("docs/smoothing.md", "`python benchmarks/smoothing.py` makes"),
            ("docs/theory.md", "- Numbers are the same if"),
            ("docs/theory.md", "It does *not* say"),
            ("docs/trusted-labels.md", "It simulates checks of labels"),
            ("docs/trusted-labels.md", "Certified accuracy at 0 to 1,000"),
            ("docs/verifying.md", "| code | for example |"),
        )
    ),
)


def readable():
    """Return README and the pages of docs by name."""
    return {page.relative_to(ROOT).as_posix(): page for page in [ROOT / "README.md", *pages()]}


def without_code(text):
    return CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def without_numbers(text):
    """Return a text without the numbers that are no results: settings, versions, chapters."""
    for pattern in NOT_RESULTS.values():
        text = re.sub(pattern, "", text)
    return text


def blocks_of(text):
    """Return paragraphs, items of lists and tables, as they begin and end in the text."""
    return [(one.start(), one.end()) for one in re.finditer(r"(?:(?!\n\s*\n|\n\s*- |\n\d\. ).)+", text, re.DOTALL)]


def begun(excepted, text):
    """Return where the paragraphs, items and tables of an exception are."""
    beginning = " ".join(excepted.begins.split())
    return [(start, end) for start, end in blocks_of(text) if " ".join(text[start:end].split()).startswith(beginning)]


def pattern_of(text):
    """Return a regular expression for a quote; line breaks match spaces."""
    parts = [r"\s+".join(map(re.escape, part.split(" "))) for part in text.split("{}")]
    return re.compile(PLACEHOLDER.join(parts))


def quoted(text, page):
    """Return the figures that a page has where it has the words of a quote."""
    return [found.groups() for found in pattern_of(text).finditer(page)]


def accounted_for(name, text):
    """Return the spans of a page that quotes, tested tables, exceptions and numbers that are not results cover."""
    plain = without_code(text)
    for quote in QUOTES:
        if quote.page == name:
            yield from (found.span() for found in pattern_of(quote.text).finditer(text))
    for table in tables_of(name):
        yield from (found.span() for found in re.finditer(re.escape(table), text))
    for excepted in EXCEPTED:
        if excepted.page == name:
            yield from begun(excepted, text)
    for pattern in NOT_RESULTS.values():
        yield from (found.span() for found in re.finditer(pattern, plain))


def figures_left(name, text):
    """Return the figures of a page that nothing accounts for, as line and figure."""
    spans = sorted(accounted_for(name, text))
    return [
        (text[: found.start()].count("\n") + 1, found[0])
        for found in FIGURE.finditer(without_code(text))
        if not any(start <= found.start() and found.end() <= end for start, end in spans)
    ]
