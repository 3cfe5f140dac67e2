"""The Markdown report: it is complete, tables are valid, and data is shown as plain text."""

import html
import re

import numpy as np
import pytest
from hostile_strings import HOSTILE
from markdown_it import MarkdownIt

from flipproof.displays.charts import rates_chart
from flipproof.metrics import random_errors
from flipproof.report.as_json import checksum
from flipproof.report.markdown import escaped, render_markdown
from flipproof.report.summary import summarize
from flipproof.report.words import random_error_sentences


def test_everything_is_shown(problem):
    summary = problem.summary("exact", "kl")
    shown = _shown(MarkdownIt("commonmark").enable("table").render(render_markdown(summary)))
    for words in (
        summary["headline"]["text"],
        *summary["threat"],
        *(assumption["sentence"] for assumption in summary["assumptions"]),
        *summary["voids"],
        "Requirement met: --min-certified-accuracy 0.5@2, found 67.8%",
        "train.csv",
        checksum(summary),
        "Labels to check first",
        "kl (q = 0.1)",
    ):
        assert words in shown


def test_tables_are_rectangular(problem, hostile_summary):
    for summary in (problem.summary("exact", "kl"), hostile_summary, summarize(problem.certificates())):
        rendered = MarkdownIt("commonmark").enable("table").render(render_markdown(summary))
        tables = re.findall(r"<table>.*?</table>", rendered, re.DOTALL)
        assert len(tables) >= 4
        for table in tables:
            widths = {len(re.findall(r"<t[hd]>", row)) for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)}
            assert len(widths) == 1
        assert "|" not in re.sub(r"<code>.*?</code>", "", rendered).replace("| a | b", "")


def test_hostile_strings_stay_text(hostile_summary):
    rendered = MarkdownIt("commonmark").enable("table").render(render_markdown(hostile_summary))
    known = {"h1", "h2", "p", "ul", "ol", "li", "strong", "table", "thead", "tbody", "tr", "th", "td"}
    assert set(re.findall(r"</?([a-z0-9]+)", rendered)) <= known
    for one in HOSTILE:
        assert " ".join(one.split()) in _shown(rendered)


@pytest.mark.parametrize(
    "text", [*HOSTILE, "- a", "+ a", "# a", "1. a", "12) a", "===", "---", "*a*", "_a_", "~~a~~", "\\"]
)
def test_escaped_text_is_displayed_unchanged(text):
    for before in ("", "# ", "- ", "| a |\n| --- |\n| "):
        rendered = MarkdownIt("commonmark").enable("table").render(before + escaped(text))
        assert " ".join(text.split()) in _shown(rendered)


def test_ordinary_numbers_and_words_are_not_escaped():
    assert escaped("86.3% of 1,000 (0.2%), --label kind") == "86.3% of 1,000 (0.2%), --label kind"


def _shown(rendered):
    """Return what a reader sees of HTML."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", rendered)).split())


def test_random_errors_are_a_section(problem):
    errors = random_errors(0.05, 90, True, np.array([1e-9, 0.2, 1.0]), np.array([1e-8, 0.3, 1.0]))
    text = render_markdown(problem.summary(random_errors=errors))
    section = text.split("## Random errors")[1].split("\n## ")[0]
    assert "each of the 90 labels that are not trusted were changed at random with probability 5%" in section
    assert "at most 41% of predictions" in section  # rounded up
    assert "at most 44% of predictions" in section
    assert "do not say what follows if 5%" in section
    assert "Random errors" not in render_markdown(problem.summary())


def test_several_rates_have_a_sentence_with_each():
    uniform, worst = np.array([[1e-9, 0.1], [0.2, 0.4]]), np.array([[1e-8, 0.3], [0.3, 0.5]])
    errors = random_errors([0.01, 0.05], 90, False, uniform, worst)
    assert errors == random_errors(0.01, 90, False, uniform[:, 0], worst[:, 0]).__class__(
        **{**vars(random_errors(0.01, 90, False, uniform[:, 0], worst[:, 0])), "by_rate": errors.by_rate}
    )
    said = random_error_sentences(errors)[2]
    assert "1%: at most 11% (at most 16% in any direction); 5%: at most 26% (at most 41%" in said  # rounded up
    assert random_errors([0.01], 90, False, uniform[:, :1], worst[:, :1]).by_rate == ()


def test_bounds_of_some_test_rows_say_so_in_every_sentence():
    uniform, worst = np.array([[1e-9, 0.1], [0.2, 0.4]]), np.array([[1e-8, 0.3], [0.3, 0.5]])
    some = random_errors([0.01, 0.05], 90, False, uniform, worst, n_all=3)
    every = random_errors([0.01, 0.05], 90, False, uniform, worst, n_all=2)
    assert (some.is_sample, every.is_sample) == (True, False)
    said = random_error_sentences(some)
    assert ["of 2 evenly spaced test rows" in one for one in said] == [True, True, True, False]
    assert not any("evenly" in one for one in random_error_sentences(every))


def test_several_rates_have_a_chart(problem):
    from flipproof.report.html import render_html

    uniform, worst = np.array([[1e-9, 0.1], [0.2, 0.4]]), np.array([[1e-8, 0.3], [0.3, 0.5]])
    several = random_errors([0.01, 0.05], 90, False, uniform, worst)
    page = render_html(problem.summary(random_errors=several))
    assert "predictions that change, at most" in page
    chart = rates_chart({"by_rate": several.by_rate})
    assert [tick.says for tick in chart.x_ticks] == ["0%", "1%", "5%"]
    assert chart.lines[0].path.startswith("M0.0,1000.0L200.0,")
    one = random_errors([0.01], 90, False, uniform[:, :1], worst[:, :1])
    assert rates_chart({"by_rate": one.by_rate}) is None
    assert "predictions that change, at most" not in render_html(problem.summary(random_errors=one))
