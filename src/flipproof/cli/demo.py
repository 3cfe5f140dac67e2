"""`flipproof demo`: certificates on data that everybody has, in a few seconds."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

    from flipproof.report.text import TextTable

FIGURE_NAME = "certified-accuracy.png"

#: What scikit-learn takes as a seed.
LARGEST_SEED = 2**32 - 1

#: Loading, three methods on each of two problems, drawing.
N_STEPS = 8


def _check_seed(_context: click.Context, _parameter: click.Parameter, seed: int) -> int:
    if not 0 <= seed <= LARGEST_SEED:
        raise click.BadParameter(f"{seed} is not between 0 and {LARGEST_SEED}.")
    return seed


@click.command(epilog="\b\nExample:\n  flipproof demo --out /tmp/demo --seed 1")
@click.option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("flipproof-demo"),
    metavar="DIR",
    help="Folder for the figure. Default: flipproof-demo",
)
@click.option(
    "--seed",
    type=int,
    callback=_check_seed,
    default=0,
    metavar="N",
    help="Seed of the split into training and test rows. Default: 0",
)
def demo(folder: Path, seed: int) -> None:
    """Certify handwritten digits, and see what the figures mean.

    Takes the digits that come with scikit-learn, first 1 against 7, then all ten. Prints how many predictions are
    correct and provably stay so when any 5, 10, 20, ... training labels are changed, reads one certificate aloud, and
    draws the curves. No download; a few seconds.
    """
    import importlib.util

    from flipproof.cli.output import prepare_folder, write_whole
    from flipproof.cli.talk import data_console, progress

    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("the demo draws a figure and needs matplotlib: pip install 'flipproof[cli,plot]'")
    figure = prepare_folder(folder) / FIGURE_NAME
    if figure.is_dir():
        raise OSError(f"cannot write {str(figure)!r}: it is a folder.")

    with progress(N_STEPS) as step:
        step("Loading scikit-learn")
        from flipproof.cli import digits

        outcomes = digits.certify_digits(seed, step)
        step("Drawing the curves")
        write_whole(figure, digits.figure_png(outcomes))

    console = data_console()
    for outcome in outcomes:
        console.print(digits.title(outcome), style="bold")
        for line in digits.headline(outcome):
            _print_paragraph(console, line)
        console.print()
        _print_table(console, digits.table(outcome))
        console.print()
    _print_paragraph(console, digits.legend(), indent="")
    sentence, assumptions = digits.typical_certificate(outcomes[0])
    console.print(f"\nOne certificate of {outcomes[0].problem.title}, read aloud", style="bold")
    _print_paragraph(console, sentence)
    _print_paragraph(console, "It rests on:")
    for assumption in assumptions:
        _print_paragraph(console, assumption, indent="  - ")
    console.print(f"\nCurves: {figure}", soft_wrap=True)


def _print_table(console: Console, table: TextTable) -> None:
    from rich import box
    from rich.table import Table

    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for position, title in enumerate(table.header):
        grid.add_column(title, justify="right" if position else "left", no_wrap=True)
    for row in table.rows:
        grid.add_row(*row)
    console.print(grid)


def _print_paragraph(console: Console, text: str, indent: str = "  ") -> None:
    lines = textwrap.wrap(
        text, console.width, initial_indent=indent, subsequent_indent=" " * len(indent), break_on_hyphens=False
    )
    console.print("\n".join(lines))
