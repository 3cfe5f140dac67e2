"""Requirements as JUnit XML, which continuous integration shows as test cases."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

from flipproof.report.evidence import Evidence

#: Characters that XML 1.0 does not have, not even escaped.
NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(evidence: Evidence) -> str:
    """Return the requirements as JUnit XML: one test case for each; if there are none, one that passes.

    Test cases have no durations and the file has no timestamp, so the same audit writes the same bytes.
    """
    tests, summary = evidence.tests, evidence.summary
    failed = sum(not one.passed for one in tests)
    counts = {"tests": str(len(tests)), "failures": str(failed), "errors": "0"}
    suites = ElementTree.Element("testsuites", {"name": "flipproof", **counts})
    suite = _inside(suites, "testsuite", name=summary["title"], **counts, skipped="0")
    properties = _inside(suite, "properties")
    for name, value in _properties(evidence):
        _inside(properties, "property", name=name, value=value)
    for one in tests:
        case = _inside(suite, "testcase", classname="flipproof.requirements", name=one.name)
        if not one.passed:
            _inside(case, "failure", f"{one.name}: found {one.found}.", type="NotMet", message=f"found {one.found}")
        _inside(case, "system-out", f"Found: {one.found}\n{summary['headline']['text']}\n")
    ElementTree.indent(suites)
    return "<?xml version='1.0' encoding='utf-8'?>\n" + ElementTree.tostring(suites, encoding="unicode") + "\n"


def _properties(evidence: Evidence) -> list[tuple[str, str]]:
    problem = evidence.summary["problem"]
    found = [
        ("learner", str(evidence.learner["name"])),
        ("method", evidence.summary["methods"][0]["method"]),
        ("radii count", problem["flips_name"]),
        ("training rows", str(problem["n_train"])),
        ("test rows", str(problem["n_test"])),
        *((one.says, one.share) for one in evidence.figures),
    ]
    files = (*evidence.subjects, *evidence.data)
    return found + [(f"sha256 of {one.role} {one.name}", one.sha256) for one in files if one.sha256]


def _inside(parent: Any, tag: str, text: str | None = None, **attributes: str) -> Any:
    cleaned = {name: _cleaned(value) for name, value in attributes.items()}
    element = ElementTree.SubElement(parent, tag, cleaned)
    element.text = None if text is None else _cleaned(text)
    return element


def _cleaned(text: str) -> str:
    return NOT_IN_XML.sub("\ufffd", str(text))
