"""`flipproof reproduce`: the tables and figures of the paper, computed from the data."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flipproof.cli.demo import check_seed
from flipproof.cli.options import GroupedCommand, common_options, option

if TYPE_CHECKING:
    from flipproof.experiments.spec import Experiment

#: The data sets of the paper, those beyond it, and further choices.
DATA_SETS = ("mnist17", "mnist", "cifar10", "dogfish", "imdb", "sms", "enron")
CHOICES = (*DATA_SETS, "figures", "all")


@click.command(
    cls=GroupedCommand,
    short_help="Repeat the experiments of the paper.",
    epilog="\b\nExamples:\n  flipproof reproduce\n  flipproof reproduce dogfish --data-dir ~/data --quick\n"
    "  flipproof reproduce all --data-dir ~/data --out reproduction",
)
@click.argument("what", type=click.Choice(CHOICES), metavar="[WHAT]", required=False)
@option(
    "--data-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder with one folder per data set. Default: $FLIPPROOF_DATA or ~/flipproof_data",
)
@option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("reproduction"),
    metavar="DIR",
    help="Folder for the results, one folder per data set. Default: reproduction",
)
@option("--seed", type=int, callback=check_seed, default=0, metavar="N", help="Random seed. Default: 0")
@option(
    "--quick",
    is_flag=True,
    help="Test run on a few rows: under a minute for each data set on an idle machine. The numbers, in the folder "
    "WHAT-quick, are not results.",
)
@common_options
def reproduce(
    what: str | None, data_dir: Path | None, out: Path, seed: int, quick: bool, as_json: bool, quiet: bool
) -> None:
    """Repeat an experiment of the paper, with further certificates and features.

    WHAT is one of the paper's data sets: mnist17, mnist, cifar10, dogfish or imdb; or sms or enron, spam by sentence
    embeddings, also against changed rows; "all" for all seven; or "figures" to redraw existing results. Without WHAT,
    lists the experiments and their results in --out.

    Writes one row per test row, tables with the paper's values for comparison, and curves. An interrupted run continues
    where it stopped.

    Requires: pip install 'flipproof[reproduce]'
    """
    from flipproof.runtime.processor import use_same_kernels

    use_same_kernels()  # before anything numerical is loaded

    from flipproof.experiments.runner import TABLES, present_together
    from flipproof.experiments.spec import read_experiment

    if what is None:
        _list({name: read_experiment(name) for name in DATA_SETS}, out, as_json)
        return
    began = time.monotonic()

    def say(text: str) -> None:
        if not quiet:
            print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    names = DATA_SETS if what in ("all", "figures") else (what,)
    folders = {name: out / (f"{name}-quick" if quick else name) for name in names}
    if what == "figures":
        folders = _with_results(folders, out)
    todo = [(read_experiment(name), folder) for name, folder in folders.items()]
    if what == "figures":
        _draw(todo)
    else:
        _compute(todo, data_dir, seed, quick, say, verbose=0 if quiet else 1)
    written = {experiment.title: str(folder / TABLES) for experiment, folder in todo}
    if what in ("all", "figures") and not quick:
        together = present_together([experiment for experiment, _ in todo], out)
        written |= {title: str(path) for title, path in together.items()}
    if as_json:
        click.echo(json.dumps(written, indent=1))
    else:
        for title, path in written.items():
            click.echo(f"{title}: {path}")


def _list(experiments: dict[str, Experiment], out: Path, as_json: bool) -> None:
    """Print what can be repeated, and which results are there."""
    from flipproof.experiments.runner import TABLES
    from flipproof.readable import text_table

    found = {name: out / name / TABLES for name in experiments}
    listed = [
        {
            "what": name,
            "data": experiment.title,
            "runs": len(experiment.runs),
            "about rows": sum(run.group == "rows" for run in experiment.runs),
            "results": str(found[name]) if found[name].is_file() else None,
        }
        for name, experiment in experiments.items()
    ]
    if as_json:
        click.echo(json.dumps(listed, indent=1))
        return
    lines = [["none" if value is None else str(value) for value in one.values()] for one in listed]
    click.echo(text_table(tuple(listed[0]), lines))


def _with_results(folders: dict[str, Path], out: Path) -> dict[str, Path]:
    """Return the folders that contain results, complete or not."""
    from flipproof.experiments.manifest import MANIFEST
    from flipproof.experiments.row_files import FINISHED, GROWING

    files = (MANIFEST, GROWING, FINISHED)
    found = {name: folder for name, folder in folders.items() if any((folder / file).exists() for file in files)}
    if not found:
        expected = ", ".join(folder.name for folder in folders.values())
        raise ValueError(f"There are no results in {str(out)!r}: expected folders {expected}. Is it the right --out?")
    return found


def _draw(todo: list[tuple[Experiment, Path]]) -> None:
    """Create tables and figures again, for all experiments or for none."""
    from flipproof.cli.output import prepare_folder
    from flipproof.experiments.runner import present, results

    for experiment, folder in todo:
        results(experiment, prepare_folder(folder))
    for experiment, folder in todo:
        present(experiment, folder)


def _compute(
    todo: list[tuple[Experiment, Path]],
    data_dir: Path | None,
    seed: int,
    quick: bool,
    say: Callable[[str], None],
    verbose: int,
) -> None:
    """Run experiments, after checking that all data and packages are available."""
    from flipproof.cli.output import prepare_folder
    from flipproof.experiments import reproduce as run_experiment
    from flipproof.experiments.runner import prepare
    from flipproof.experiments.sources import MissingDataError, MissingPackagesError

    if len(todo) > 1:
        packages: set[str] = set()
        files: list[str] = []
        for experiment, folder in todo:
            say(f"{experiment.title}: looking for the data")
            try:
                prepare(experiment, folder, data_dir, seed, quick)
            except MissingDataError as error:
                files += error.messages
                packages |= error.packages
            except MissingPackagesError as error:
                packages |= error.packages
        if files:
            raise MissingDataError(files, packages)
        if packages:
            raise MissingPackagesError(packages)
    for experiment, folder in todo:
        run_experiment(experiment, prepare_folder(folder), data_dir, seed, quick, say, verbose)
