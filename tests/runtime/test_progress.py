"""The line on stderr: counts, remaining time, and pieces of rows."""

import io
import sys
import threading

import pytest

from flipproof.runtime import progress
from flipproof.runtime.progress import Count, CountedProgress, RowProgress, shown_by


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""

    class Clock:
        now = 0.0

        def monotonic(self):
            return self.now

    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_a_line_every_ten_seconds_without_a_terminal(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(progress, "BETWEEN_LINES", 10.0)  # conftest.py switches these lines off
    with CountedProgress(100, "trees", 1) as line:
        for clock.now in range(1, 101):
            line.advance(1)
    lines = sys.stderr.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0] == "[##..................] 10 of 100 trees, about 90 s left"
    assert lines[-1] == "[####################] 100 of 100 trees, 2 min"


def test_the_time_left_is_in_proportion():
    assert Count(25, 100, "rows", 10.0).remaining == "about 30 s left"
    assert Count(1, 1000, "rows", 10.0).remaining == "about 2.8 h left"
    assert Count(100, 100, "rows", 12.3).remaining == "12 s"
    assert Count(0, 100, "rows", 12.3).remaining == ""


def test_a_program_can_show_counts_itself(capfd):
    seen = []
    with shown_by(seen.append), CountedProgress(2, "fits", 1) as line:
        line.announce("beginning")
        line.advance(1)
        threads = [threading.Thread(target=line.advance, args=(1,))]
        threads[0].start()
        threads[0].join()
    assert [(one.done, one.total, one.noun, one.is_last) for one in seen] == [
        (1, 2, "fits", False),
        (2, 2, "fits", True),
    ]
    assert capfd.readouterr().err == ""
    CountedProgress(1, "fits", 1).advance(1)
    assert len(seen) == 2
    assert "1 of 1 fits" in capfd.readouterr().err


@pytest.mark.parametrize("seconds_per_row", [1e-6, 0.01, 3.0])
def test_pieces_cover_all_rows_and_take_about_a_second(clock, seconds_per_row, capfd):
    line, sizes, last = RowProgress(5000, 1), [], 0
    for rows in line.pieces([slice(0, 3000), slice(3000, 5000)]):
        assert rows.start == last
        last = rows.stop
        sizes.append(rows.stop - rows.start)
        with line.piece(sizes[-1]):
            clock.now += sizes[-1] * seconds_per_row
    assert last == 5000
    wanted = {1e-6: max(sizes) > 1000, 0.01: sizes[2] == 100, 3.0: set(sizes[1:]) == {1}}
    assert wanted[seconds_per_row]


def test_blocks_stay_whole_if_nothing_is_shown():
    blocks = [slice(0, 3000), slice(3000, 5000)]
    assert list(RowProgress(5000, 0).pieces(blocks)) == blocks


def test_work_that_fails_is_not_counted(capfd):
    line = RowProgress(10, 1)
    with pytest.raises(KeyError), line.piece(10):
        raise KeyError
    assert capfd.readouterr().err == ""
