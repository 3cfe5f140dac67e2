"""Numbers for people, rounded to the safe side: what was proved is rounded down, probabilities and moves up.

Soundness: numbers are rounded in rational arithmetic, from the exact value of a float. The one exception is shares of
rows: 0.29 as a float is slightly below 29 of 100, but is shown as 29 %, since it is the float nearest to that share.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction


def alternatives(words: Iterable[str]) -> str:
    """Return words joined by commas, and "or" before the last one."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def significant(value: float | Fraction, digits: int = 3) -> str:
    """Write a radius, or another positive number, with `digits` significant digits, rounded down."""
    if value <= 0 or not math.isfinite(value):
        return f"{float(value):g}"
    exact = Fraction(value)
    power = math.floor(math.log10(float(value)))
    power += (exact >= Fraction(10) ** (power + 1)) - (exact < Fraction(10) ** power)  # the logarithm was rounded
    places = digits - 1 - power
    shown = math.floor(exact * Fraction(10) ** places)
    if places <= 0:
        return f"{shown * 10**-places:,}"
    whole, rest = divmod(shown, 10**places)
    return f"{whole}.{rest:0{places}d}".rstrip("0").rstrip(".")


def share_of(part: float, whole: float) -> str:
    """Write a share in percent with two significant digits, rounded down."""
    if part <= 0 or whole <= 0:
        return "0%"
    if part >= whole:  # more rows can be added than there are
        return f"{math.floor(100 * Fraction(part) / Fraction(whole)):,}%"
    return f"{significant(100 * Fraction(part) / Fraction(whole), 2)}%"


def percent(share: float) -> str:
    """Write a share of rows in percent with one decimal, rounded down."""
    tenths = _parts_within(share, 1000)
    return f"{tenths // 10}.{tenths % 10}%"


def percent_above(share: Fraction) -> str:
    """Write an exact share in percent with one decimal, rounded up."""
    tenths = math.ceil(1000 * share)
    return f"{tenths // 10}.{tenths % 10}%"


def four_decimals(share: float) -> str:
    """Write a share of rows as a number up to 1 with four decimals, rounded down: 0.89996 is not 0.9."""
    parts = _parts_within(share, 10_000)
    return f"{parts // 10_000}.{parts % 10_000:04d}"


def probability_above(probability: float, digits: int = 2) -> str:
    """Write an upper bound on a probability in percent with `digits` significant digits, rounded up."""
    if probability <= 0 or probability >= 1:
        return "0%" if probability <= 0 else "100%"
    exact, places = 100 * Fraction(probability), 0
    while exact * 10**places < 10 ** (digits - 1) and places < MOST_PLACES:
        places += 1
    shown = math.ceil(exact * 10**places)
    whole, rest = divmod(shown, 10**places)
    return (f"{whole}.{rest:0{places}d}".rstrip("0").rstrip(".") if places else f"{whole}") + "%"


def probability_at_most(probability: float, digits: int = 2) -> str:
    """Say that a probability is at most a bound, rounded up; one too small to be shown is "less than" the smallest."""
    if Fraction(probability) < Fraction(1, 10 ** (MOST_PLACES + 2)):
        return f"less than {10.0**-MOST_PLACES:.{MOST_PLACES}f}%"
    return f"at most {probability_above(probability, digits)}"


#: Decimals of a tiny probability in percent: it is rounded up to the last one.
MOST_PLACES = 6


def rounded(value: float, rounding: str = ROUND_HALF_EVEN) -> str:
    """Write a number that is no bound with five significant digits, and all digits before the decimal point."""
    digits = max(5, Decimal(value).adjusted() + 1) if value else 5
    short = Context(prec=digits, rounding=rounding).create_decimal_from_float(value)
    text = f"{short:,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def rounded_up(value: float) -> str:
    """Write an upper end or a move in the same way, rounded up."""
    return rounded(value, ROUND_CEILING)


def rounded_down(value: float) -> str:
    """Write a lower end in the same way, rounded down."""
    return rounded(value, ROUND_FLOOR)


def _parts_within(share: float, parts: int) -> int:
    """Return how many of `parts` equal parts a share contains; one more if the share is the float of that fraction."""
    count = math.floor(Fraction(share) * parts)
    return count + 1 if (count + 1) / parts == share else count


def text_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Align cells in columns of plain text: the first column to the left, all others to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines
    )


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return cells as a table in HTML."""

    def line(cells: Sequence[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "".join(line(cells, "td") for cells in rows)
    return f"<table><thead>{line(header, 'th')}</thead><tbody>{body}</tbody></table>"
