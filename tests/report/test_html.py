"""The HTML report: it is complete, loads nothing, and shows data as plain text."""

import dataclasses
import json
import re
import sys
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
from hostile_strings import HOSTILE

from flipproof import Adversary
from flipproof.report.as_json import checksum, from_json, to_json
from flipproof.report.html import render_html
from flipproof.report.summary import summarize

WITHOUT_END = {"meta", "link", "input", "img", "br"}


class Page(HTMLParser):
    """What a browser sees: elements with their attributes, and text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self.open, self.scripts = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in WITHOUT_END and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in {"path", "rect"}:  # self-closing
            return
        assert self.open.pop() == tag

    def handle_data(self, data):
        (self.scripts if self.open[-1:] == ["script"] else self.text).append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page(problem):
    return Page(render_html(problem.summary("exact", "tight", "kl")))


def test_everything_is_shown(problem):
    summary = problem.summary("exact", "tight", "kl")
    page = Page(render_html(summary))
    text = " ".join(" ".join(page.text).split())
    for words in (
        summary["headline"]["text"],
        *summary["headline"]["sentences"],
        *summary["threat"],
        *(assumption["sentence"] for assumption in summary["assumptions"]),
        *summary["voids"],
        *summary["software"].values(),
        "Requirement met: --min-certified-accuracy 0.5@2 , found 67.8%",
        "tight (q = 0.1)",
        "train.csv",
        "ab" * 32,
        checksum(summary),
    ):
        assert words in text
    headings = [tag for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert headings.count("h1") == 1
    assert headings.count("h2") == 10
    bodies = (60, len(summary["audit"]["rows"]), len(summary["table_flips"]), 3, 3)
    assert len(page.of("tr")) == sum(bodies) + len(bodies)
    paths = [one["d"] for one in page.of("path") if one["class"].startswith("line")]
    assert len(set(paths)) == 3 + 3 + 1  # three methods, all predictions, clean accuracy, constant; and the legend's


def test_sections_without_content_are_left_out(problem):
    text = render_html(summarize(problem.certificates()))
    assert "Labels to check first" not in text
    assert "Requirement" not in text
    assert "labels an attacker would change" not in text
    assert "clean accuracy" not in text
    assert "Outcome" not in text


def test_the_page_loads_nothing(page):
    assert not page.of("img")
    assert not page.of("iframe")
    assert page.of("link") == [{"rel": "icon", "href": "data:,"}]
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith(("#", "data:,"))
    style, script = (
        files("flipproof.report").joinpath("templates", name).read_text() for name in ("report.css", "report.js")
    )
    assert not re.search(r"https?:|url\(|@import|fetch|XMLHttpRequest|eval|innerHTML", style + script)
    policy = next(one["content"] for one in page.of("meta") if one.get("http-equiv"))
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")


def test_hostile_strings_stay_text(hostile_summary):
    rendered = render_html(from_json(to_json(hostile_summary)))
    page = Page(rendered)
    assert len(page.of("script")) == 2
    assert not page.of("img")
    assert len(page.of("h1")) == 1
    assert len(page.of("title")) == 1 + len([tag for tag, _ in page.elements if tag == "g"])
    assert not [attributes for _, attributes in page.elements if any(name.startswith("on") for name in attributes)]
    text = "\n".join(page.text)
    for one in HOSTILE:
        assert one in text
    embedded = json.loads(page.scripts[0])
    assert {one["name"] for one in embedded["classes"]} == set(HOSTILE[:3])
    block = rendered[rendered.index('id="data">') + 10 :]
    block = block[: block.index("</script>")]
    assert not set(block) & {"<", ">", "\u2028", "\u2029"}


def test_elements_have_accessible_names(page):
    assert page.of("html") == [{"lang": "en"}]
    labelled = {one["aria-labelledby"] for one in page.of("section")}
    assert labelled == {one["id"] for one in page.of("h2")}
    for table in page.of("th"):
        assert table["scope"] in {"col", "row"}
    assert all(one.get("aria-label") or one.get("aria-hidden") for one in page.of("svg"))
    assert {one["href"][1:] for one in page.of("a")} <= {one["id"] for _, one in page.elements if "id" in one}
    assert len(page.of("caption")) == len(page.of("table"))


@pytest.mark.parametrize("scheme", [0, 1, 2])
def test_colours_meet_wcag_contrast(scheme):
    """WCAG AA: 4.5 for text, 3 for lines; light, dark and print."""
    style = files("flipproof.report").joinpath("templates", "report.css").read_text()
    block = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[scheme]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", block))
    for ink in ("ink", "muted", "link", "good", "bad"):
        for paper in ("paper", "card"):
            assert _contrast(colours[ink], colours[paper]) >= 4.5
    assert _contrast(colours["good"], colours["good-card"]) >= 4.5
    assert _contrast(colours["bad"], colours["bad-card"]) >= 4.5
    for line in range(6):
        assert _contrast(colours[f"m{line}"], colours["paper"]) >= 3


def test_a_large_test_set_gives_a_file_of_a_few_megabytes(problem):
    certificates = problem.certificates()["exact"]
    rows = np.arange(50_000) % 60
    named = ("prediction", "radius", "rival", "margin", "log_failure", "abstained", "witness")
    many = {name: getattr(certificates, name)[rows] for name in named}
    radius = np.random.default_rng(0).integers(0, 90_000, rows.size)
    large = dataclasses.replace(certificates, **{**many, "radius": radius}, n_train=100_000, n_touchable=100_000)
    summary = summarize({"exact": large}, y_true=problem.y[rows], test_ids=["x" * 200] * rows.size)
    assert len(render_html(summary)) < 2e6
    assert "The 1,000 most fragile of 50,000 predictions" in render_html(summary)
    assert len(summary["flips"]) <= 400


def test_units_other_than_labels_are_named(problem):
    annotators = problem.model.certify(problem.X, adversary=Adversary(groups=np.arange(100) % 20))
    assert "malicious annotators (% of 20)" in render_html(summarize({"exact": annotators}))
    radius = np.linspace(0.1, 0.5, 60)
    measured = dataclasses.replace(
        problem.certificates()["exact"], radius=radius, unit="l2", method="gaussian", noise=0.25
    )
    text = render_html(summarize({"gaussian": measured}, y_true=problem.y))
    assert "change of the training features (l2 norm)" in text


@pytest.mark.parametrize("rows", [0, 1])
def test_very_few_predictions_are_shown(problem, rows):
    certificates = problem.certificates()["exact"]
    named = ("prediction", "radius", "rival", "margin", "log_failure", "abstained", "witness")
    few = dataclasses.replace(certificates, **{name: getattr(certificates, name)[:rows] for name in named})
    Page(render_html(summarize({"exact": few}, y_true=problem.y[:rows])))


def test_without_jinja_the_error_says_what_to_install(problem, monkeypatch):
    from flipproof.report import html

    html.report_environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r"pip install 'flipproof\[cli\]'"):
        render_html(problem.summary())
    html.report_environment.cache_clear()


def _contrast(one, other):
    """Return the ratio of the luminances of two colours, as WCAG defines it."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    channels = np.array([int(digits[k : k + 2], 16) for k in (0, 2, 4)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]
