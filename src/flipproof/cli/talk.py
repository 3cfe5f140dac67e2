"""Data on stdout, talk and progress on stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

#: Columns of text: fewer would cut tables off, more are hard to read. When piped, the fewest.
FEWEST_COLUMNS = 80
MOST_COLUMNS = 100

#: 128 + SIGPIPE.
EXIT_BROKEN_PIPE = 141

Step = Callable[[str], None]


class DataConsole(Console):
    """A console whose reader may leave, as in `flipproof demo | head -1`."""

    def on_broken_pipe(self) -> None:
        """Stop quietly, with the code that a shell gives to a broken pipe; 1 means that a requirement failed."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(EXIT_BROKEN_PIPE)


def data_console() -> Console:
    """Return the console for data: plain text of 80 columns when piped."""
    available = Console().width if sys.stdout.isatty() else FEWEST_COLUMNS
    width = max(FEWEST_COLUMNS, min(available, MOST_COLUMNS))
    return DataConsole(width=width, highlight=False, markup=False, emoji=False)


@contextmanager
def progress(total: int) -> Iterator[Step]:
    """Yield a function that announces the next of `total` steps: a bar on a terminal, else a line each."""
    if not sys.stderr.isatty():
        yield lambda text: print(f"{text} ...", file=sys.stderr, flush=True)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        announced = -1

        def step(text: str) -> None:
            nonlocal announced
            announced += 1
            bar.update(task, description=text, completed=announced)

        yield step
