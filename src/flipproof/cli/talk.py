"""Data on stdout; messages and progress on stderr."""

from __future__ import annotations

import os
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from flipproof.cli import EXIT_BROKEN_PIPE
from flipproof.runtime import progress as counting
from flipproof.runtime.progress import Count, Display, shown_by

if TYPE_CHECKING:
    from flipproof.report.text import TextTable

#: Limits of the text width: tables need at least 80 columns, and longer lines are hard to read. Piped text has 80.
FEWEST_COLUMNS = 80
MOST_COLUMNS = 100

Step = Callable[[str], None]


class DataConsole(Console):
    """A console whose reader may close the pipe, as in `flipproof demo | head -1`."""

    def on_broken_pipe(self) -> None:
        """Stop silently with the exit code for a broken pipe; code 1 is reserved for requirements."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(EXIT_BROKEN_PIPE)


def data_console() -> Console:
    """Return the console for data; when piped, it prints plain text of 80 columns."""
    available = Console().width if sys.stdout.isatty() else FEWEST_COLUMNS
    width = max(FEWEST_COLUMNS, min(available, MOST_COLUMNS))
    return DataConsole(width=width, highlight=False, markup=False, emoji=False)


def print_data(text: str) -> None:
    """Print text to stdout without wrapping."""
    data_console().print(text, soft_wrap=True)


def print_table(console: Console, table: TextTable) -> None:
    """Print a table: the first column is text, the others are numbers."""
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for position, title in enumerate(table.header):
        grid.add_column(title, justify="right" if position else "left", no_wrap=True)
    for row in table.rows:
        grid.add_row(*row)
    console.print(grid)


def print_paragraph(console: Console, text: str, indent: str = "  ", style: str | None = None) -> None:
    """Print a wrapped paragraph; all lines have the same indent."""
    lines = textwrap.wrap(
        text, console.width, initial_indent=indent, subsequent_indent=" " * len(indent), break_on_hyphens=False
    )
    console.print("\n".join(lines), style=style)


@contextmanager
def progress(total: int, quiet: bool = False) -> Iterator[Step]:
    """Yield a function that announces the next of `total` steps, and show counts within a step with the time left.

    On a terminal, this is a bar that disappears at the end; elsewhere, a line every ten seconds.
    """
    if quiet:
        yield lambda text: None
        return
    with _bar(total) if sys.stderr.isatty() else _lines() as (step, show), shown_by(show):
        yield step


@contextmanager
def _bar(total: int) -> Iterator[tuple[Step, Display]]:
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=12), _Said())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        announced = 0

        def step(text: str) -> None:
            nonlocal announced
            announced += 1
            for before in bar.task_ids:
                bar.remove_task(before)
            bar.add_task(f"{announced}/{total} {text}", total=None, said="")

        def show(count: Count) -> None:
            if bar.task_ids:
                said = f"{count.done}/{count.total} {count.remaining}"
                # a bar of one step may count several things, one after the other
                bar.update(bar.task_ids[-1], completed=count.done, total=count.total, said=said)

        yield step, show


class _Said(ProgressColumn):
    """How much of a step is done; the time since its beginning if that is unknown."""

    def render(self, task: Task) -> Text:
        """Return the text of a step."""
        return Text(task.fields["said"] or f"{task.elapsed or 0:.0f} s")


@contextmanager
def _lines() -> Iterator[tuple[Step, Display]]:
    current, last = "", time.monotonic()

    def say_rarely(text: str) -> None:
        nonlocal last
        if time.monotonic() - last >= counting.BETWEEN_LINES:
            last = time.monotonic()
            say(f"flipproof: {text}")

    def step(text: str) -> None:
        nonlocal current
        current = text
        say_rarely(text)

    yield step, lambda count: say_rarely(f"{current}: {count.done} of {count.total} {count.noun}, {count.remaining}")


def say(text: str) -> None:
    """Print a message to stderr."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def warnings_in_a_line(quiet: bool) -> Iterator[None]:
    """Show each warning as one line on stderr, without source code; show none if quiet."""

    def show(message: Warning | str, *_where: object) -> None:
        print(f"flipproof: warning: {' '.join(str(message).split())}", file=sys.stderr, flush=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in () if quiet else (UserWarning, RuntimeWarning):  # warnings for developers stay hidden
            warnings.simplefilter("default", kind)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
