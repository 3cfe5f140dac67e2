"""Tables from text: CSV, TSV and JSON lines, and the line of each row."""

from __future__ import annotations

import csv as python_csv
import io
import json as python_json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json

from flipproof.errors import InputError, Parameter
from flipproof.tables.file_content import TEXT_KINDS, as_utf8, first_line
from flipproof.tables.spellings import (
    NUMBER,
    check_spellings,
    numbers_from_words,
    shortened,
    spelled_ids,
    spelled_labels,
    with_points,
)

#: Missing values in CSV and TSV files.
MISSING = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None")

#: Separators that are looked for in the first line of a CSV file, in this order.
SEPARATORS = (",", ";", "\t", "|")

#: Largest block of a reader, in bytes; it infers the types of columns from the first block.
LARGEST_BLOCK = 2**31 - 1

#: Most brackets in a line of JSON that is not checked for deep nesting, on which the reader would crash.
MOST_BRACKETS = 1000

#: Largest integer up to which every integer is a float of its own.
LARGEST_EXACT_FLOAT = 2**53

#: A string in quotes, in the first line of a CSV file.
IN_QUOTES = re.compile(rb'"[^"]*"')


@dataclass(frozen=True)
class TextLayout:
    """The layout of a text file.

    Attributes
    ----------
    names : tuple of str
        Names of the columns of a CSV or TSV file; the first line is then an ordinary row.
    header : bool
        Whether the first line names the columns. If not, they are named f0, f1, ...
    separator : str, optional
        Separator of columns. By default a tab in TSV; in CSV a comma, or else a semicolon, a tab or a vertical bar,
        the one that the first line has.
    quotes : bool
        Whether ``"`` may enclose a value that contains separators or line breaks.
    kind : str, optional
        The kind of the file, regardless of its ending and content.
    encoding : str, optional
        The encoding, by a name that Python knows, such as "cp1252". By default that of the file's byte order mark, or
        else UTF-8.
    decimal : {".", ","}
        The sign before the decimals of a number, in CSV and TSV.
    na : tuple of str
        Further values that mean a missing value.

    See Also
    --------
    flipproof.tables.read_table : Read a table from a file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from flipproof.tables import TextLayout, read_table
    >>> file = Path(tempfile.mkdtemp()) / "prices.csv"
    >>> with file.open("w") as lines:
    ...     print("rooms;price", "3;1250,5", "4;1900,0", sep=chr(10), file=lines)
    >>> read_table(file, TextLayout(separator=";", decimal=","))["price"].to_pylist()
    [1250.5, 1900.0]
    """

    names: tuple[str, ...] = ()
    header: bool = True
    separator: str | None = None
    quotes: bool = True
    kind: str | None = None
    encoding: str | None = None
    decimal: str = "."
    na: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.na, str):
            object.__setattr__(self, "na", (self.na,))
        if self.separator is not None and len(self.separator) != 1:
            raise InputError(
                Parameter("separator", of_layout=True), f": it must be one character. Got {self.separator!r} instead."
            )
        if self.decimal not in (".", ","):
            raise InputError(
                Parameter("decimal", of_layout=True), f": it must be . or ,. Got {self.decimal!r} instead."
            )
        if self.separator == self.decimal:
            raise InputError(
                Parameter("separator", of_layout=True),
                " and ",
                Parameter("decimal", of_layout=True),
                f" cannot both be {self.decimal!r}.",
            )

    @property
    def has_names(self) -> bool:
        """Whether the first line names the columns."""
        return self.header and not self.names


def separator_of(content: bytes, kind: str, layout: TextLayout) -> str:
    """Return the separator of the columns of a text."""
    if layout.separator is not None:
        return layout.separator
    if kind == "tsv":
        return "\t"
    line = IN_QUOTES.sub(b"", first_line(content)) if layout.quotes else first_line(content)
    possible = [one for one in SEPARATORS if one != layout.decimal]
    return next((one for one in possible if one.encode() in line), possible[0])


def read_text(
    content: bytes, kind: str, layout: TextLayout, as_words: Collection[str], purposes: Mapping[str, str]
) -> pa.Table:
    """Read a table from the bytes of a text; the parameters are those of `read_table`."""
    text = as_utf8(content, layout.encoding)
    if not text.strip():
        raise InputError("it has no lines with text.")
    if kind == "jsonl":
        return _read_json(text, layout, as_words, purposes)
    return _read_csv(text, separator_of(text, kind, layout), layout, as_words, purposes)


def line_of_row(content: bytes, kind: str, layout: TextLayout, row: int) -> int | None:
    """Return the line on which a row begins, the first line being 1; None if that is not known."""
    return lines_of_rows(content, kind, layout, [row]).get(row)


def lines_of_rows(content: bytes, kind: str, layout: TextLayout, rows: Collection[int]) -> dict[int, int]:
    """Return the lines on which rows begin, the first line being 1; without those that are not known."""
    if kind not in TEXT_KINDS or not rows:
        return {}
    text = as_utf8(content, layout.encoding)
    if kind == "jsonl":
        lines = (number for number, line in enumerate(text.split(b"\n"), 1) if line.strip())
        return {} if text.lstrip().startswith(b"[") else _picked(lines, rows)
    records = _records(text, separator_of(text, kind, layout), layout)
    first = int(layout.has_names)
    try:
        found = _picked((line for line, values in records if values), {row + first for row in rows})
    except python_csv.Error:
        return {}
    return {row - first: line for row, line in found.items()}


def _picked(numbers: Iterator[int], places: Collection[int]) -> dict[int, int]:
    """Return the numbers at these places, and read no further than needed."""
    wanted = set(places)
    return {place: number for place, number in enumerate(islice(numbers, max(wanted) + 1)) if place in wanted}


def _records(text: bytes, separator: str, layout: TextLayout, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line of each record of a CSV file, and its values."""
    quoting: Any = python_csv.QUOTE_MINIMAL if layout.quotes else python_csv.QUOTE_NONE
    lines = io.StringIO(text.decode(), newline="")
    reader = python_csv.reader(lines, delimiter=separator, quoting=quoting, strict=strict)
    line = 1
    for values in reader:
        yield line, values
        line = reader.line_num + 1


def _read_csv(
    text: bytes, separator: str, layout: TextLayout, as_words: Collection[str], purposes: Mapping[str, str]
) -> pa.Table:
    missing = [*MISSING, *layout.na]
    read = csv.ReadOptions(
        column_names=list(layout.names) or None,
        autogenerate_column_names=not layout.header and not layout.names,
        block_size=min(len(text), LARGEST_BLOCK),
    )
    parse = csv.ParseOptions(
        delimiter=separator, quote_char='"' if layout.quotes else False, newlines_in_values=layout.quotes
    )
    convert = csv.ConvertOptions(null_values=missing, strings_can_be_null=True, decimal_point=layout.decimal)
    if layout.quotes and text.count(b'"') % 2:
        _refuse_open_quotes(text, separator, layout)
    try:
        if as_words or purposes:
            first = csv.ReadOptions(
                column_names=read.column_names, autogenerate_column_names=read.autogenerate_column_names
            )
            with csv.open_csv(pa.BufferReader(text), first, parse, convert) as opened:
                written = opened.schema.names
            convert.column_types = {name: pa.string() for name in written if name.strip() in {*as_words, *purposes}}
        table = csv.read_csv(pa.BufferReader(text), read, parse, convert)
    except pa.ArrowInvalid:
        _refuse_ragged_rows(text, separator, layout)
        raise
    columns = {
        name.strip(): _settled(
            name.strip(), column, missing, layout, purposes.get(name.strip()), name.strip() in as_words
        )
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name.strip()
    }
    _refuse_repeated_names(table.column_names, layout)
    return pa.table(columns)


def _settled(
    name: str, column: pa.ChunkedArray, missing: list[str], layout: TextLayout, purpose: str | None, stays_words: bool
) -> pa.ChunkedArray:
    """Remove blanks around words, and convert a column according to its purpose."""
    if not pa.types.is_string(column.type):
        return column
    trimmed = pc.utf8_trim_whitespace(column)
    is_missing = pc.is_in(trimmed, pa.array(missing))
    if pc.any(is_missing).as_py():  # the reader has found those without blanks around them only
        trimmed = pc.if_else(is_missing, pa.scalar(None, pa.string()), trimmed)
        if purpose is None and not stays_words:
            return numbers_from_words(trimmed, layout.decimal)
    if purpose == "label":
        return spelled_labels(name, with_points(trimmed, layout.decimal))
    if purpose == "names":
        check_spellings(name, trimmed.drop_null().unique().to_pylist())
    return spelled_ids(trimmed) if purpose == "ids" else trimmed


def _refuse_repeated_names(names: list[str], layout: TextLayout) -> None:
    known: set[str] = set()
    for name in map(str.strip, names):
        if name and name in known:
            _refuse_name(name, layout)
        known.add(name)


def _refuse_name(name: str, layout: TextLayout) -> None:
    header = Parameter("header", "False", of_layout=True)
    if layout.has_names and NUMBER.fullmatch(name):
        raise InputError(f"more than one column is called {name!r}. If the first line is a row, give ", header, ".")
    if layout.has_names:
        raise InputError(
            f"more than one column is called {name!r}: rename one of them. If the first line is a row, give ",
            header,
            ".",
        )
    raise InputError(f"more than one column is called {name!r}: ", Parameter("names", of_layout=True), " must differ.")


def _refuse_open_quotes(text: bytes, separator: str, layout: TextLayout) -> None:
    """Raise InputError if a quote is never closed: everything after it would be one value."""
    line = 1
    try:
        for start, values in _records(text, separator, layout, strict=True):
            line = start + 1 + sum(value.count("\n") for value in values)
    except python_csv.Error as error:
        if "unexpected end" in str(error):
            raise InputError(
                f'line {line} has a quote (") that is never closed. Close it, or, if " is an ordinary character, give ',
                Parameter("quotes", "False", of_layout=True),
                ".",
            ) from None


def _refuse_ragged_rows(text: bytes, separator: str, layout: TextLayout) -> None:
    """Raise InputError that names the first line with more or fewer columns than the others."""
    width = len(layout.names)
    try:
        for line, values in _records(text, separator, layout):
            width = width or len(values)
            if values and len(values) != width:
                of = "names" if line == 1 and layout.names else "the first line"
                raise InputError(
                    f"line {line} has {_counted(len(values))}, but {of} {'have' if of == 'names' else 'has'} {width}: "
                    f"{shortened(separator.join(values))}. Check the ",
                    Parameter("separator", of_layout=True),
                    f" ({separator!r}) and the quotes of that line.",
                )
    except python_csv.Error:
        return


def _counted(columns: int) -> str:
    return "1 column" if columns == 1 else f"{columns} columns"


def _read_json(text: bytes, layout: TextLayout, as_words: Collection[str], purposes: Mapping[str, str]) -> pa.Table:
    """Read one object per line, or an array of objects."""
    if layout.names or not layout.header:
        raise InputError("JSON has names of its own: omit ", Parameter("names", of_layout=True), ".")
    if text.lstrip().startswith(b"["):
        text = _lines_of_array(text)
    _refuse_lines(text)
    if layout.na:
        text = _with_missing(text, layout.na)
    kinds: dict[str, pa.DataType] = {}
    for _ in range(2):  # a second time if dates are words
        read = json.ReadOptions(block_size=min(len(text), LARGEST_BLOCK))
        try:
            table = json.read_json(pa.BufferReader(text), read, json.ParseOptions(explicit_schema=pa.schema(kinds)))
        except pa.ArrowInvalid as error:
            raise _explained(text, error) from error
        wanted = {*as_words, *purposes}
        dates = [one.name for one in table.schema if one.name in wanted and pa.types.is_timestamp(one.type)]
        if not dates:
            break
        kinds = dict.fromkeys(dates, pa.string())
    if table.num_rows == 1 and all(pa.types.is_struct(one.type) for one in table.schema):
        raise InputError("it is one JSON object of columns. Write one object per row: to_json(orient='records').")
    for name in purposes:
        if name in table.column_names and pa.types.is_floating(table[name].type):
            _refuse_rounded(name, table[name])
    return table


def _lines_of_array(text: bytes) -> bytes:
    try:
        rows = python_json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"it is not valid JSON: {error}.") from None
    strange = next((place for place, row in enumerate(rows) if not isinstance(row, dict)), None)
    if strange is not None:
        raise InputError(f"entry {strange} of the JSON array is not an object with a name for each value.")
    return "\n".join(map(python_json.dumps, rows)).encode()


def _refuse_lines(text: bytes) -> None:
    """Raise InputError if a line is not an object, or is nested too deeply for the reader."""
    for number, line in enumerate(text.split(b"\n"), 1):
        content = line.strip()
        if not content:
            continue
        if not content.startswith(b"{"):
            raise InputError(
                f"line {number} is not a JSON object: {shortened(content.decode())}. Write one object per line."
            )
        if content.count(b"[") + content.count(b"{") > MOST_BRACKETS:
            try:
                python_json.loads(content)
            except (RecursionError, ValueError) as error:
                raise InputError(f"line {number} is not valid JSON: {error}.") from None


def _with_missing(text: bytes, na: Collection[str]) -> bytes:
    """Replace strings that mean a missing value by null."""

    def replaced(line: bytes) -> str:
        row = python_json.loads(line)
        return python_json.dumps(
            {name: None if isinstance(one, str) and one in na else one for name, one in row.items()}
        )

    try:
        return "\n".join(replaced(line) for line in text.split(b"\n") if line.strip()).encode()
    except ValueError as error:
        raise _explained(text, error) from None


def _explained(text: bytes, error: Exception) -> InputError:
    """Return an error that names the line and the column of invalid or mixed values."""
    kinds: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = python_json.loads(line, object_pairs_hook=_pairs)
        except (ValueError, RecursionError) as invalid:
            return InputError(f"line {number} is not valid JSON: {invalid}.")
        for name, value in row:
            kind = _json_kind(value)
            known, first = kinds.setdefault(name, (kind, number)) if kind else (kind, number)
            if kind != known:
                parts: list[Any] = [
                    f"column {name!r} holds a {known} in line {first}, but a {kind} in line {number}: "
                    f"{shortened(str(value))}."
                ]
                if kind == "string":
                    parts += [" If that means a missing value, give ", missing_as(str(value)), "."]
                return InputError(*parts)
    return InputError(" ".join(str(error).split()))


def missing_as(value: str) -> Parameter:
    """Return the option that makes a value a missing one."""
    return Parameter("na", repr(value), of_layout=True)


def _pairs(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"it has {twice!r} twice")
    return pairs


def _json_kind(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "list or object"


def _refuse_rounded(name: str, column: pa.ChunkedArray) -> None:
    """Raise InputError if integers are too large for the reader: different labels or ids would be one number."""
    if pc.any(pc.greater_equal(pc.abs(column), LARGEST_EXACT_FLOAT)).as_py():
        raise InputError(f"column {name!r} holds numbers of more than 53 bits: write them as strings.")
