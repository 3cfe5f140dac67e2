"""One word for one thing, as in docs/glossary.md, in plain English."""

import re

import pytest
from documentation.pages import ROOT, pages

#: Words that pages, examples, help texts and reports do not use, and what they say instead.
INSTEAD = {
    r"class to watch|runner-up": "rival class",
    r"test points?|query points?": "test row",
    r"training points?": "training row",
    r"gold(en)? labels?|verified labels?|clean labels?": "trusted label",
    r"raters?|labell?ers?|crowd ?workers?": "annotator",
    r"robust accuracy": "certified accuracy",
    r"robustness radius|certified radius": "radius",
    r"still stands?|stands still": "guaranteed unchanged, certified",
    r"come out again|comes out again": "reproduced",
    r"one's own": "custom",
    r"so many": "a number",
    r"whatever|whichever": "any",
    r"those who": "who they are",
    r"(?<!no )such (?!as\b)\w+": "this, these",
}
#: Idioms that source code, templates and names of tests do not use either.
IDIOMS = {
    r"(?<!-)stands?(?![- ]ins?\b)|standing": "is unchanged, is certified, means",
    r"gold": "trusted",
    r"levers?": "labels that attacks use",
    r"in any company": "beside any other rows",
    r"whatever|whichever": "any",
    r"one['\u2019]?s own": "custom",
    r"mails": "emails, messages",
}
FILES = [
    *pages(),
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "SECURITY.md", "action.yml")),
    *sorted((ROOT / "examples").glob("*.py")),
    *sorted((ROOT / "src" / "flipproof" / "cli").rglob("*.py")),
]


@pytest.mark.parametrize("wrong", INSTEAD)
def test_no_page_speaks_of_one_thing_by_two_names(wrong):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in FILES
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if re.search(rf"\b({wrong})\b", line, re.IGNORECASE)
    ]
    assert found == [], f"write: {INSTEAD[wrong]}"


@pytest.mark.parametrize("wrong", IDIOMS)
def test_neither_source_code_nor_names_of_tests_use_idioms(wrong):
    texts = {
        f"{path.relative_to(ROOT)}:{number}": line
        for folder in ("flipproof", "flipproof_verify")
        for path in sorted((ROOT / "src" / folder).rglob("*"))
        if path.suffix in (".py", ".pyi", ".j2", ".js", ".css", ".toml")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
    }
    for path in sorted((ROOT / "tests").rglob("*.py")):
        names = [path.stem, *re.findall(r"def (\w+)", path.read_text())]
        texts |= {f"{path.relative_to(ROOT)}: {name}": name for name in names}
    found = [
        f"{place}: {text.strip()}"
        for place, text in texts.items()
        if re.search(rf"\b({wrong})\b", text.replace("_", " "), re.IGNORECASE)
    ]
    assert found == [], f"write: {IDIOMS[wrong]}"


def test_the_glossary_is_sorted_and_names_each_term_once():
    text = (ROOT / "docs" / "glossary.md").read_text().split("```{glossary}\n")[1].split("```")[0]
    terms = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert terms == sorted(set(terms), key=str.lower)
