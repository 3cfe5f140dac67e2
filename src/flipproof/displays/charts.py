"""Charts as geometry: lines and bars in a 1000 by 1000 square that a page stretches; tick positions in percent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flipproof.metrics import round_number
from flipproof.readable import share_of

SIDE = 1000
X_TICKS = 6
Y_TICKS = 5


@dataclass(frozen=True)
class Tick:
    """A mark on an axis: its position in percent of the axis, its text, and an optional second line `below`."""

    at: float
    says: str
    below: str = ""


@dataclass(frozen=True)
class Line:
    """A curve: its name in the legend, its SVG path and its CSS class."""

    name: str
    path: str
    kind: str


@dataclass(frozen=True)
class Bar:
    """A bar of a histogram: its parts from bottom to top, and its tooltip."""

    x: float
    width: float
    parts: tuple[tuple[str, float, float], ...]
    says: str


@dataclass(frozen=True)
class Chart:
    """Everything that a page needs to draw one chart."""

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    lines: tuple[Line, ...] = ()
    bars: tuple[Bar, ...] = ()


def curve_chart(summary: Mapping[str, Any]) -> Chart:
    """Draw the certified share by number of flips: a line per method; for the first, also correct or not.

    Horizontal lines show clean accuracy and the best constant classifier.
    """
    problem, flips = summary["problem"], summary["flips"]
    total, known = max(problem["n_test"], 1), problem["truth_known"]
    lines = []
    for position, method in enumerate(summary["methods"]):
        counts = method["correct_certified"] if known else method["certified"]
        name = f"{method['name']}: correct and certified" if known else f"{method['name']}: certified"
        lines.append(Line(name, _steps(flips, counts, total), f"m{position % 6}"))
    main = summary["methods"][0]
    if known:
        all_of_it = _steps(flips, main["certified"], total)
        lines.append(Line(f"{main['name']}: certified, correct or not", all_of_it, "certified"))
        height = SIDE * (1 - main["n_correct"] / total)
        lines.append(Line("clean accuracy", f"M0,{height:.1f}H{SIDE}", "clean"))
        if problem["constant_accuracy"] is not None:
            height = SIDE * (1 - problem["constant_accuracy"])
            named = problem.get("constant_class", "the most common class")  # missing in older reports
            lines.append(Line(f"always predicting {named}", f"M0,{height:.1f}H{SIDE}", "constant"))
    y_ticks = tuple(Tick(100 * k / Y_TICKS, f"{100 * k // Y_TICKS}%") for k in range(Y_TICKS + 1))
    return Chart(_flip_ticks(flips[-1], problem), y_ticks, tuple(lines))


def rates_chart(errors: Mapping[str, Any] | None) -> Chart | None:
    """Draw the average share of predictions that random errors change at most, by their probability.

    None unless there are several probabilities. Each has a tick: the lines between them are no bounds.
    """
    if not errors or not errors.get("by_rate"):
        return None
    found = sorted(errors["by_rate"])
    last, top = found[-1][0] or 1.0, _top(max(max(one[1:]) for one in found))
    found = found if found[0][0] == 0 else [(0.0, 0.0, 0.0), *found]
    lines = []
    for place, (name, kind) in enumerate((("to any other class, equally likely", "m0"), ("of any direction", "m1")), 1):
        points = (f"{SIDE * one[0] / last:.1f},{SIDE * (1 - one[place] / top):.1f}" for one in found)
        lines.append(Line(f"errors {name}", f"M{'L'.join(points)}", kind))
    x_ticks = tuple(Tick(100 * one[0] / last, f"{100 * one[0]:g}%") for one in found)
    y_ticks = tuple(Tick(100 * k / Y_TICKS, f"{100 * top * k / Y_TICKS:.3g}%") for k in range(Y_TICKS + 1))
    return Chart(x_ticks, y_ticks, tuple(lines))


def _top(largest: float) -> float:
    """Return the end of an axis that starts at 0, for shares of at most 1."""
    return min(1.0, round_number(largest / Y_TICKS) * Y_TICKS) if largest > 0 else 1.0


def histogram_chart(summary: Mapping[str, Any]) -> Chart:
    """Draw the number of predictions by radius, correct and wrong ones stacked; unlimited radii are the last bar."""
    problem, radii = summary["problem"], summary["radii"]
    kinds = [kind for kind in ("all", "right", "wrong") if kind in radii]
    edges = radii["edges"]
    beyond = sum(radii[kind]["unlimited"] for kind in kinds)
    n_bars = len(edges) - 1 + (2 if beyond else 0)  # a gap before the last bar
    heights = [[radii[kind]["counts"][k] for kind in kinds] for k in range(len(edges) - 1)]
    tallest = max([1, beyond, *map(sum, heights)])
    step = max(1, int(round_number(tallest / Y_TICKS)))
    top = step * -(-tallest // step)
    width = SIDE / max(n_bars, 1)
    bars = [_bar(k * width, width, heights[k], kinds, top, _bin_name(edges, k, problem)) for k in range(len(heights))]
    every = max(1, -(-len(heights) // X_TICKS))
    ticks = [Tick(100 * k / n_bars, f"{edges[k]:,g}") for k in range(0, len(edges) - (1 if beyond else 0), every)]
    if beyond:
        last = [radii[kind]["unlimited"] for kind in kinds]
        bars.append(_bar((n_bars - 1) * width, width, last, kinds, top, "radius unlimited"))
        ticks.append(Tick(100 * (n_bars - 0.5) / n_bars, "unlimited"))
    y_ticks = tuple(Tick(100 * count / top, f"{count:,}") for count in range(0, top + 1, step))
    return Chart(tuple(ticks), y_ticks, bars=tuple(bars))


def _steps(flips: list[Any], counts: list[int], total: int) -> str:
    """Draw a step curve that takes each value already before its number of flips, so that it is never too high."""
    last = flips[-1] or 1
    path = [f"M0,{SIDE * (1 - counts[0] / total):.1f}"]
    for number, count, before in zip(flips[1:], counts[1:], counts, strict=False):
        if count != before:
            path.append(f"V{SIDE * (1 - count / total):.1f}")
        path.append(f"H{SIDE * number / last:.1f}")
    return "".join(path)


def _flip_ticks(last: float, problem: Mapping[str, Any]) -> tuple[Tick, ...]:
    if not last:
        return (Tick(0, "0"),)
    step = round_number(last / X_TICKS)
    if problem["counted"]:
        step = max(1, int(step))
    marks = [step * k for k in range(int(last / step) + 1)]
    below = [share_of(mark, problem["n_units"]) if problem["counted"] and mark else "" for mark in marks]
    return tuple(Tick(100 * mark / last, f"{mark:,g}", share) for mark, share in zip(marks, below, strict=True))


def _bin_name(edges: list[Any], k: int, problem: Mapping[str, object]) -> str:
    if not problem["counted"]:
        return f"radius {edges[k]:g} to {edges[k + 1]:g}"
    last = edges[k + 1] - 1
    return f"radius {edges[k]:,}" if last == edges[k] else f"radius {edges[k]:,} to {last:,}"


def _bar(x: float, width: float, counts: list[int], kinds: list[str], top: int, name: str) -> Bar:
    parts, below = [], 0
    for kind, count in zip(kinds, counts, strict=True):
        parts.append((kind, SIDE * (1 - (below + count) / top), SIDE * count / top))
        below += count
    names = {"all": "", "right": " correct", "wrong": " wrong"}
    told = ", ".join(f"{count:,}{names[kind]}" for kind, count in zip(kinds, counts, strict=True))
    return Bar(x + 0.08 * width, 0.84 * width, tuple(parts), f"{name}: {told}")
