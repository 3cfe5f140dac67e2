"""Figures in README and docs are those of committed results, and each has an account of where it comes from."""

import pytest
from documentation.evidence import results, shares
from documentation.figures import (
    EXCEPTED,
    FIGURE,
    begun,
    figures_left,
    quoted,
    readable,
    without_code,
    without_numbers,
)
from documentation.quotes import QUOTES
from documentation.tables import MADE, STUDIES, tables_of

PAGES = {name: page.read_text() for name, page in readable().items()}


@pytest.mark.parametrize("page", sorted({quote.page for quote in QUOTES}))
def test_quotes_have_the_figures_of_committed_results(page):
    """Rows of tables that begin alike share a quote: then their figures are those of one of these rows."""
    expected = {}
    for quote in QUOTES:
        if quote.page == page:
            expected.setdefault(quote.text, []).append(tuple(quote.figures()))
    for text, figures in expected.items():
        found = quoted(text, PAGES[page])
        assert sorted(found) == sorted(figures), f"{page}: {text!r}: {found or 'the words have changed'}"


@pytest.mark.parametrize("page", sorted(MADE | STUDIES))
def test_pages_show_tables_of_committed_results(page):
    assert tables_of(page)
    for table in tables_of(page):
        assert table in PAGES[page], f"{page} lacks this table:\n{table}"


def test_every_figure_is_accounted_for():
    left = {page: figures for page, text in PAGES.items() if (figures := figures_left(page, text))}
    assert left == {}, "a figure (line, figure) needs a quote in documentation/quotes.py, or an exception with a reason"


def test_quotes_contain_no_figures_of_their_own():
    for quote in QUOTES:
        own = without_numbers(quote.text)
        assert not FIGURE.search(own), f"{quote.text!r}: a figure must be {{}}, so that it is compared"


@pytest.mark.parametrize("excepted", EXCEPTED, ids=lambda one: f"{one.page} {one.begins}".strip())
def test_exceptions_are_needed(excepted):
    spans = begun(excepted, PAGES[excepted.page])
    assert any(FIGURE.search(without_code(PAGES[excepted.page][start:end])) for start, end in spans)


def test_a_wrong_figure_is_noticed():
    """A figure in a quote must be the expected one, and a figure outside needs an account."""
    page = "docs/reproduction.md"
    text = PAGES[page]
    quote = next(one for one in QUOTES if one.text.startswith("ridge certifies {} at 300 flips"))
    assert quoted(quote.text, text) == [tuple(quote.figures())] == [("0.623",)]
    assert quoted(quote.text, text.replace("certifies\n  0.623 at 300", "certifies 0.632 at 300")) == [("0.632",)]
    wrong = f"{text}\n\nA new result: 0.987 of the rows, or 12.3 %.\n"
    assert [figure for _, figure in figures_left(page, wrong)] == ["0.987", "12.3 %"]


def test_two_measurements_of_the_same_learner_agree():
    """Both benchmarks/features.py and `flipproof reproduce` certify ridge on these features."""
    found = results("features.json")
    for title, name, data, run in (
        ("MNIST 1/7", "PCA, 50", "mnist17", "ridge, PCA of the pixels"),
        ("Dogfish stand-in, 64 x 64 pixels", "RICA, then PCA, 20", "dogfish", "ridge, RICA"),
    ):
        table = found[title]
        assert [f"{one:.3f}" for one in table["accuracy"][name]] == shares(data, run, *table["flips"])


def test_what_counts_as_a_figure():
    text = "0.946, .88 and 92.8 % or 5% of 1,347 rows in 1.2.x, M10, 10-fold, 3.14.1; 1/7"
    assert FIGURE.findall(text) == ["0.946", ".88", "92.8 %", "5%"]


def test_line_breaks_in_quotes_do_not_matter():
    assert quoted("certifies {} at {} flips", "it certifies\n  0.861 at 1,300\nflips.") == [("0.861", "1,300")]
