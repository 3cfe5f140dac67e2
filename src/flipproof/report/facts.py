"""What a report says about data, learner and software, as tables of names and texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Facts whose name has one of these words are about how the report came to be, not about what it is about.
PROVENANCE = ("sha256", "checksum", "version", "command", "second", "time", "date", "seed", "memory", "software")

LONGEST_LIST = 12  # entries


@dataclass(frozen=True)
class FactTable:
    """Names and texts under a title; without one, facts that stand alone."""

    title: str
    rows: tuple[tuple[str, str], ...]

    @property
    def heading(self) -> str:
        """The title, with the name of what the facts are about if they have one."""
        return next((f"{self.title}: {text}" for key, text in self.rows if key == "name"), self.title)


def data_facts(summary: Mapping[str, Any]) -> list[FactTable]:
    """Return the facts about data and learner that a report does not show anyway."""
    shown = {"training_rows": summary["problem"]["n_train"], "test_rows": summary["problem"]["n_test"]}
    known = {name: value for name, value in summary["facts"].items() if not _is_provenance(name)}
    return _tables({name: value for name, value in known.items() if name not in shown or shown[name] != value})


def provenance_facts(summary: Mapping[str, Any]) -> list[FactTable]:
    """Return the facts about commands, times, checksums and software."""
    known = {name: value for name, value in summary["facts"].items() if _is_provenance(name)}
    return _tables({"Made": summary["created"], **known, "Software": summary["software"]})


def _is_provenance(name: str) -> bool:
    return any(word in name.casefold() for word in PROVENANCE)


def _tables(facts: Mapping[str, Any]) -> list[FactTable]:
    alone = tuple((_spoken(name), _text(value)) for name, value in facts.items() if not isinstance(value, Mapping))
    tables = [FactTable("", alone)] if alone else []
    for name, value in facts.items():
        if isinstance(value, Mapping) and value:
            rows = tuple((key, _text(one)) for key, one in value.items())
            tables.append(FactTable(_spoken(name), rows))
    return tables


def _spoken(name: str) -> str:
    """Write an identifier as words: n_rows becomes "N rows"."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        return name
    words = name.replace("_", " ")
    return "SHA-256" if words == "sha256" else words[0].upper() + words[1:]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "not given"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_text(one)}" for key, one in value.items())
    if isinstance(value, list):
        shown = ", ".join(_text(one) for one in value[:LONGEST_LIST])
        return shown if len(value) <= LONGEST_LIST else f"{shown}, and {len(value) - LONGEST_LIST} more"
    return str(value)
