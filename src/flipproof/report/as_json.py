"""Summaries as JSON: values as JSON types, and saved reports."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from flipproof.runtime.files import digest_of

FORMAT = "flipproof-report"
VERSION = 4

#: Texts from data are cut to these lengths: a cell can hold a whole email.
LONGEST_NAME = 80  # characters
LONGEST_FACT = 2000  # characters
LONGEST_CONTENT = 200  # characters


def plain_label(label: object) -> Any:
    """Return a class or a row name as a JSON scalar; long texts are cut."""
    value = label.item() if isinstance(label, np.generic) else label
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return _number(value)
    return cut(str(value), LONGEST_NAME)


def plain_value(value: object) -> Any:
    """Return any value as JSON types: arrays become lists; other objects become text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return {cut(str(key), LONGEST_NAME): plain_value(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return plain_value(value.tolist())
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [plain_value(one) for one in value]
    return cut(str(value), LONGEST_FACT)


def cut(text: str, longest: int) -> str:
    """Cut a long text and mark the cut with an ellipsis; invalid characters (lone surrogates) are replaced."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _number(value: float) -> float | str:
    """Return a float, or text for infinity and NaN, which JSON does not have."""
    return value if math.isfinite(value) else str(value)


def to_json(summary: Mapping[str, Any]) -> str:
    """Return a summary as the text of a JSON file, with a checksum of all other entries."""
    marked = {"format": FORMAT, "version": VERSION, "checksum": checksum(summary), **summary}
    return json.dumps(marked, ensure_ascii=False, allow_nan=False) + "\n"


def from_json(text: str) -> dict[str, Any]:
    """Read a summary from the text of a JSON file.

    Raises
    ------
    ValueError
        If the text is not a summary, or was changed after it was written.
    """
    try:
        summary = json.loads(text)
    except ValueError as error:
        raise ValueError(f"A saved report must be JSON, as --report report.json writes it: {error}.") from None
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        raise ValueError(
            f'A saved report must be a JSON object with "format": "{FORMAT}", as --report report.json writes it.'
        )
    if summary.get("version") != VERSION:
        raise ValueError(
            f"A saved report must have version {VERSION}. Got {summary.get('version')!r} instead. Create the report "
            "again."
        )
    if summary.pop("checksum", None) != checksum(summary):
        raise ValueError("A saved report must not be changed: the checksum does not match. Create the report again.")
    return summary


def checksum(summary: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a summary. It identifies the same report in all formats.

    It covers the summary as JSON with sorted keys and without spaces, so the layout of a file does not matter.
    """
    canonical = json.dumps(summary, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return digest_of(canonical)
