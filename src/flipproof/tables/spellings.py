"""Numbers, booleans and ids as they are written in words: what is meant, and where that is unclear."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from flipproof import values
from flipproof.errors import InputError, Parameter, RowNumber

#: A written number, with or without an exponent.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)

#: The same for a column of words; a blank line is a missing value.
NUMBERS = {".": r"(?i)^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,3})?$", ",": r"(?i)^[+-]?(\d+,?\d*|,\d+)(e[+-]?\d{1,3})?$"}

#: Numbers with thousands separators, per cent or a currency.
NUMBERS_WITH_SIGNS = r"^[$€£]?\s?[+-]?(\d{1,3}([,.' ]\d{3})+|\d+)([.,]\d+)?\s?[%$€£]?$"

#: Booleans in text files; 1 and 0 only together with the others.
TRUTH = {**dict.fromkeys(("true", "True", "TRUE", "1"), True), **dict.fromkeys(("false", "False", "FALSE", "0"), False)}

#: With more distinct words than this, a column of mostly numbers is assumed to be meant as numbers.
MANY_WORDS = 20

#: With more distinct words than this, a column may be a text or unique to each row.
MANY_CATEGORIES = 100


@dataclass(frozen=True)
class StrangeWords:
    """Words in a column of numbers.

    Attributes
    ----------
    count, total : int
        Number of words that are not numbers, and of all values that are not missing.
    example : str
        The first of these words.
    row : int
        Its row.
    notation : str
        Why they are not numbers, if most values are numbers in another notation; else empty.
    """

    count: int
    total: int
    example: str
    row: int
    notation: str = ""

    def counted(self, noun: str) -> str:
        """Return "1 of 150 values is not a number" or "3 of 150 values are not numbers"."""
        return f"{self.count:,} of {self.total:,} {noun}s {'is not a number' if self.count == 1 else 'are not numbers'}"


def strange_words(column: pa.ChunkedArray, decimal: str = ".") -> StrangeWords | None:
    """Return the words of a column that is meant as numbers; None if it is not, or if all values are numbers.

    A column is meant as numbers if most of its values are numbers, or most of its distinct values if they are many.
    """
    total = len(column) - column.null_count
    is_number = pc.match_substring_regex(column, NUMBERS[decimal])
    count = total - int(pc.sum(is_number).as_py() or 0)
    if count == 0:
        return None
    notation = ""
    if 2 * count >= total:
        different = column.drop_null().unique()
        n_numbers = pc.sum(pc.match_substring_regex(different, NUMBERS[decimal])).as_py() or 0
        if len(different) <= MANY_WORDS or 2 * n_numbers <= len(different):
            notation = _other_notation(column, total, decimal)
            if not notation:
                return None
    row = int(pc.index(is_number, False).as_py())
    return StrangeWords(count, total, column[row].as_py(), row, notation)


def _other_notation(column: pa.ChunkedArray, total: int, decimal: str) -> str:
    """Return how most values are written if they are numbers in another notation; else an empty string."""
    other = "," if decimal == "." else "."
    patterns = {f"decimal {'commas' if other == ',' else 'points'}": NUMBERS[other], "other signs": NUMBERS_WITH_SIGNS}
    for notation, pattern in patterns.items():
        if 2 * (pc.sum(pc.match_substring_regex(column, pattern)).as_py() or 0) > total:
            return notation
    return ""


def refuse_strange_words(name: str, column: pa.ChunkedArray, decimal: str | None = None) -> None:
    """Raise InputError if a column is meant as numbers, but not all of its values are.

    Otherwise one value would turn all others into categories, in silence.

    Parameters
    ----------
    name, column
        The name and the words of the column.
    decimal : str, optional
        The sign before decimals, if the column comes from a text file.
    """
    strange = strange_words(column, decimal or ".")
    if strange is None:
        return
    row, example, is_file = RowNumber(strange.row), shortened(strange.example), decimal is not None
    categories = Parameter("categories", repr(name))
    if strange.notation:
        remedy: list[Any] = [". Write them as plain numbers, or give ", categories, " if it holds categories."]
        if is_file and strange.notation.startswith("decimal"):
            given = Parameter("decimal", "," if decimal == "." else ".", of_layout=True)
            remedy = [". Give ", given, ", or ", categories, " if it holds categories."]
        raise InputError(f"column {name!r} holds numbers with {strange.notation}: {example} in ", row, *remedy)
    it = "it means a missing value" if strange.count == 1 else "they mean missing values"
    missing: list[Any] = [f"If {it}, give ", Parameter("na", repr(strange.example), of_layout=True), "; if"]
    if not is_file:
        missing = [
            "Replace it by a missing value; or if" if strange.count == 1 else "Replace them by missing values; or if"
        ]
    raise InputError(
        f"column {name!r}: {strange.counted('value')}: {example} in ",
        row,
        ". ",
        *missing,
        " the column holds categories, give ",
        categories,
        ".",
    )


def numbers_from_words(column: pa.ChunkedArray, decimal: str = ".") -> pa.ChunkedArray:
    """Convert words to numbers, if all of them are written as numbers."""
    if column.null_count == len(column) or not pc.all(pc.match_substring_regex(column, NUMBERS[decimal])).as_py():
        return column
    numbers = pc.replace_substring(column, decimal, ".")
    try:
        return numbers.cast(pa.int64())
    except pa.ArrowInvalid:
        return numbers.cast(pa.float64())


def with_points(column: pa.ChunkedArray, decimal: str) -> pa.ChunkedArray:
    """Return words with a decimal point in place of another sign, if all of them are numbers."""
    if decimal == "." or not pc.all(pc.match_substring_regex(column, NUMBERS[decimal])).as_py():
        return column
    return pc.replace_substring(column, decimal, ".")


def whole_number(text: str) -> int | None:
    """Return the integer that a text represents, like 1, 1.0 or 1e0; None if it is not one."""
    number = _number(text.strip())
    return int(number) if number is not None and number == int(number) else None


def spelled_labels(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert the labels of a text file from words to numbers or booleans, if all of them are.

    Raises
    ------
    ValueError
        If one number or boolean is spelled in two ways: it may mean one class or two. Or if most labels are numbers,
        but not all: a single label would turn all others into words.
    """
    words = column.drop_null().unique().to_pylist()
    check_spellings(name, words)
    strange = _strange_labels(column)
    if strange is not None:
        raise InputError(
            f"column {name!r}: {strange.counted('label')}: {shortened(strange.example)} in ",
            RowNumber(strange.row),
            ". If that is a class, list all classes with ",
            Parameter("classes"),
            "; if not, correct it.",
        )
    numbers = [_number(word) for word in words]
    if words and all(number is not None for number in numbers):
        is_whole = all(number == int(number) for number in numbers if number is not None)
        made = values.as_values(numbers, "labels") if is_whole else np.array(numbers, dtype=np.float64)
    elif words and all(word in TRUTH for word in words):
        made = np.array([TRUTH[word] for word in words])
    else:
        return column
    if made.dtype.kind == "O":  # no 64-bit type holds them: as words they are the same classes
        return column
    codes = pc.index_in(column, pa.array(words, column.type))
    return pa.chunked_array([pa.array(made).take(codes.combine_chunks())])


def _strange_labels(column: pa.ChunkedArray) -> StrangeWords | None:
    """Return the labels that are words if most are numbers; words with exponents, like 1e2, may be names."""
    words = column.drop_null().unique().to_pylist()
    if all(NUMBER.fullmatch(word) or word in TRUTH for word in words):
        return None
    is_name = pc.match_substring_regex(column, "(?i)e")
    strange = strange_words(pc.if_else(is_name, pa.scalar("a name"), column))
    if strange is None or strange.notation:
        return None
    return replace(strange, example=column[strange.row].as_py())


def spelled_ids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert the ids of a text file from words to integers, if all of them are written as integers."""
    words = column.drop_null().unique().to_pylist()
    try:
        return column.cast(pa.int64()) if words and all(str(int(word)) == word for word in words) else column
    except (ValueError, pa.ArrowInvalid):
        return column


def check_spellings(name: str, words: Sequence[str]) -> None:
    """Refuse numbers or booleans that are spelled in two ways: it is unclear whether one value or two are meant.

    Parameters
    ----------
    name : str
        The name of the column, for error messages.
    words : sequence of str
        Its distinct words. If some are not numbers, words with exponents, like 1e2 and 10e1, may be names.
    """
    numbers = {word: _number(word) for word in words}
    if None in numbers.values():
        plain = {number for word, number in numbers.items() if "e" not in word.lower()}
        numbers = {word: one for word, one in numbers.items() if one in plain}
    known: dict[Any, str] = {}
    for word, number in numbers.items():
        other = word if number is None else known.setdefault(number, word)
        if other != word:
            raise ValueError(
                f"column {name!r} holds {other!r} and {word!r}, one number in two spellings: write it in one way, or "
                "put a letter before each if they are different."
            )
    if not words or any(word not in TRUTH for word in words):
        return
    for word in words:
        other = known.setdefault(TRUTH[word], word)
        if other != word:
            raise ValueError(f"column {name!r} holds {other!r} and {word!r}: write {TRUTH[word]} in one way.")


def _number(word: str) -> Decimal | None:
    return Decimal(word) if NUMBER.fullmatch(word) else None


def check_categories(columns: Mapping[str, NDArray[np.object_]]) -> None:
    """Refuse columns of words that are unique to nearly every row: they are texts or names of rows.

    Raises
    ------
    ValueError
        With a message that says what to do, for all of these columns at once.
    """
    counts = {name: len({word for word in words.tolist() if word is not None}) for name, words in columns.items()}
    many = [name for name, count in counts.items() if count > max(MANY_CATEGORIES, len(columns[name]) / 2)]
    if not many:
        return
    shown = repr(many[0])
    others = "" if len(many) < 2 else f" (the same holds for {', '.join(map(repr, many[1:]))})"
    raise InputError(
        f"column {shown} holds {counts[many[0]]:,} distinct words in {len(columns[many[0]]):,} rows, too many for "
        f"categories{others}. Give ",
        Parameter("text", shown),
        " if it holds texts, ",
        Parameter("id", shown),
        " if it names the rows, or ",
        Parameter("drop", shown),
        " to leave it out.",
    )


def shortened(text: str) -> str:
    """Return a text in quotes, with an ellipsis if it is long."""
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
