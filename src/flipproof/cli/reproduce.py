"""`flipproof reproduce`: the paper's tables and figures, from data to Markdown and pictures."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click

from flipproof.cli.demo import check_seed
from flipproof.cli.options import GroupedCommand, common_options, option

#: The data sets of the paper, and what else can be asked for.
DATA_SETS = ("mnist17", "mnist", "cifar10", "dogfish", "imdb")
CHOICES = (*DATA_SETS, "figures", "all")


@click.command(
    cls=GroupedCommand,
    short_help="Repeat the paper's experiments.",
    epilog="\b\nExamples:\n  flipproof reproduce dogfish --data-dir ~/data --quick\n"
    "  flipproof reproduce all --data-dir ~/data --out reproduction",
)
@click.argument("what", type=click.Choice(CHOICES), metavar="WHAT")
@option(
    "--data-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder of the data sets, one folder each. Default: $FLIPPROOF_DATA, or ~/flipproof_data",
)
@option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("reproduction"),
    metavar="DIR",
    help="Folder for the results, one folder for each data set. Default: reproduction",
)
@option("--seed", type=int, callback=check_seed, default=0, metavar="N", help="Seed of all that is random.")
@option("--quick", is_flag=True, help="A few rows only: under a minute, and no result. Goes to WHAT-quick.")
@common_options
def reproduce(what: str, data_dir: Path | None, out: Path, seed: int, quick: bool, as_json: bool, quiet: bool) -> None:
    """Repeat an experiment of the paper, and go beyond it.

    WHAT is mnist17, mnist, cifar10, dogfish or imdb; "all" for these; or "figures", which draws anew from the results
    in the output folder. Writes one row for each test row, tables beside the paper's own figures, and curves. A run
    that was interrupted goes on where it was.
    """
    from flipproof.cli.output import prepare_folder
    from flipproof.experiments import reproduce as run_experiment
    from flipproof.experiments.runner import present, present_together
    from flipproof.experiments.spec import read_experiment

    prepare_folder(out)
    names = DATA_SETS if what in ("all", "figures") else (what,)
    began = time.monotonic()

    written: dict[str, str] = {}

    def say(text: str) -> None:
        if not quiet:
            print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    for name in names:
        experiment, folder = read_experiment(name), out / (f"{name}-quick" if quick else name)
        if what != "figures":
            run_experiment(experiment, prepare_folder(folder), data_dir, seed, quick, say)
        elif (folder / "manifest.json").exists():
            present(experiment, folder)
        else:
            continue
        written[experiment.title] = str(folder / "tables.md")
    if what in ("all", "figures"):
        written |= {title: str(path) for title, path in present_together(out, DATA_SETS).items()}
    if as_json:
        click.echo(json.dumps(written, indent=1))
    else:
        for title, path in written.items():
            click.echo(f"{title}: {path}")
