"""Charts of the HTML report: the geometry matches the numbers and never exceeds them."""

import dataclasses
import re

import numpy as np
import pytest

from flipproof.displays.charts import SIDE, curve_chart, histogram_chart
from flipproof.report.summary import summarize


def test_curves_match_the_values_and_never_exceed_them(problem):
    summary = problem.summary("exact", "kl")
    chart = curve_chart(summary)
    last = summary["flips"][-1]
    for line, method in zip(chart.lines, summary["methods"], strict=False):
        for flips, count in zip(summary["flips"][1:], method["correct_certified"][1:], strict=True):
            heights = [height for x, height in _corners(line.path) if abs(x - SIDE * flips / last) < 0.06]
            assert min(heights, key=lambda height: abs(height - count / 60)) == pytest.approx(count / 60, abs=1e-3)
            # where the curve reaches this number of flips
            assert heights[0] == pytest.approx(count / 60, abs=1e-3)
    clean, constant = chart.lines[-2:]
    assert _corners(clean.path)[0][1] == pytest.approx(summary["methods"][0]["n_correct"] / 60, abs=1e-3)
    assert _corners(constant.path)[0][1] == pytest.approx(np.bincount(problem.y).max() / 60, abs=1e-3)
    assert constant.name == f"always predicting {np.bincount(problem.y).argmax()}"


def test_ticks_are_round_numbers_in_the_right_place(problem):
    chart = curve_chart(problem.summary())
    last = problem.summary()["flips"][-1]
    assert [tick.at for tick in chart.x_ticks] == [100 * int(tick.says) / last for tick in chart.x_ticks]
    assert [tick.below for tick in chart.x_ticks[1:]] == [f"{tick.says}%" for tick in chart.x_ticks[1:]]
    assert [tick.says for tick in chart.y_ticks] == ["0%", "20%", "40%", "60%", "80%", "100%"]


def test_bars_are_stacked_and_as_high_as_their_counts(problem):
    certificates = problem.certificates()["exact"]
    firm = dataclasses.replace(certificates, radius=np.where(np.arange(60) < 7, 100, certificates.radius))
    summary = summarize({"exact": firm}, y_true=problem.y)
    chart, radii = histogram_chart(summary), summary["radii"]
    top = int(chart.y_ticks[-1].says)
    counted = [*zip(radii["right"]["counts"], radii["wrong"]["counts"], strict=True)]
    counted.append((radii["right"]["unlimited"], radii["wrong"]["unlimited"]))
    assert len(chart.bars) == len(counted)
    for bar, (right, wrong) in zip(chart.bars, counted, strict=True):
        (_, y_right, right_height), (_, y_wrong, wrong_height) = bar.parts
        assert (right_height, wrong_height) == pytest.approx((SIDE * right / top, SIDE * wrong / top))
        assert y_right + right_height == pytest.approx(SIDE)
        assert y_wrong + wrong_height == pytest.approx(y_right)
        assert bar.says.endswith(f": {right} correct, {wrong} wrong")
    assert chart.bars[-1].says.startswith("radius unlimited")
    assert chart.x_ticks[-1].says == "unlimited"
    assert all(bar.x + bar.width <= SIDE for bar in chart.bars)


def _corners(path):
    """Return the corners of a path of horizontal and vertical lines, as (x, height as a share)."""
    x, y, corners = 0.0, 0.0, []
    for command, numbers in re.findall(r"([MVH])([\d.,]+)", path):
        if command == "M":
            x, y = map(float, numbers.split(","))
        elif command == "V":
            y = float(numbers)
        else:
            x = float(numbers)
        corners.append((x, 1 - y / SIDE))
    return corners
