"""`flipproof reproduce`: the tables and figures of the paper, and of studies beyond it, computed from the data."""

from __future__ import annotations

import io
import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flipproof.cli.demo import check_seed
from flipproof.cli.options import GroupedCommand, common_options, option

if TYPE_CHECKING:
    from flipproof.experiments.spec import Experiment
    from flipproof.experiments.studies.study import Study

#: The data sets of the paper and those beyond it, the studies, and further choices.
DATA_SETS = ("mnist17", "mnist", "cifar10", "dogfish", "imdb", "sms", "enron")
STUDIES = ("trust", "crowds", "regression", "graphs")
CHOICES = (*DATA_SETS, *STUDIES, "figures", "all")


@click.command(
    cls=GroupedCommand,
    short_help="Repeat the experiments of the paper and the docs.",
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
    help="Folder for the results, one folder per data set or study. Default: reproduction",
)
@option("--seed", type=int, callback=check_seed, default=0, metavar="N", help="Random seed. Default: 0")
@option(
    "--quick",
    is_flag=True,
    help="Test run on a few rows, under a minute for each data set or study on an idle machine. It writes to the "
    "folder WHAT-quick, and its numbers are not results.",
)
@common_options
def reproduce(
    what: str | None, data_dir: Path | None, out: Path, seed: int, quick: bool, as_json: bool, quiet: bool
) -> None:
    """Repeat an experiment of the paper, with further certificates and features.

    \b
    WHAT is one of:
      mnist17, mnist, cifar10, dogfish, imdb  data sets of the paper
      sms, enron                              spam, by sentence embeddings
      trust                                   what trusted labels buy
      crowds                                  several labels per image
      regression, graphs                      numeric targets, nodes of graphs
      all                                     all of these
      figures                                 only tables and figures, from
                                              existing results

    Without WHAT, lists the experiments and their results in --out.

    Writes one row per test row. Tables, with the paper's values for comparison, and curves are made from these rows.
    An interrupted run continues where it stopped.

    Requires: pip install 'flipproof[reproduce]'
    """  # noqa: D301 - click reads the backspace
    from flipproof.runtime.processor import use_same_kernels

    use_same_kernels()  # before anything numerical is loaded

    from flipproof.experiments import Experiment
    from flipproof.experiments.runner import TABLES, present_together

    if what is None:
        _list({name: _read(name) for name in (*DATA_SETS, *STUDIES)}, out, as_json)
        return
    began = time.monotonic()

    def say(text: str) -> None:
        if not quiet:
            print(f"{time.monotonic() - began:6.0f} s  {text}", file=sys.stderr, flush=True)

    names = (*DATA_SETS, *STUDIES) if what in ("all", "figures") else (what,)
    folders = {name: out / (f"{name}-quick" if quick else name) for name in names}
    if what == "figures":
        folders = _with_results(folders, out)
    todo = [(_read(name), folder) for name, folder in folders.items()]
    if what == "figures":
        _draw(todo)
    else:
        # loaders and libraries write about downloads and progress there
        with redirect_stderr(io.StringIO()) if quiet else nullcontext():
            _compute(todo, data_dir, seed, quick, say, verbose=0 if quiet else 1)
    written = {experiment.title: str(folder / TABLES) for experiment, folder in todo}
    if what in ("all", "figures") and not quick:
        together = present_together([one for one, _ in todo if isinstance(one, Experiment)], out)
        written |= {title: str(path) for title, path in together.items()}
    if as_json:
        click.echo(json.dumps(written, indent=1))
    else:
        for title, path in written.items():
            click.echo(f"{title}: {path}")


def _read(name: str) -> Experiment | Study:
    """Return an experiment or a study by its name."""
    from flipproof.experiments import spec, studies

    return studies.read_study(name) if name in STUDIES else spec.read_experiment(name)


def _list(experiments: dict[str, Experiment | Study], out: Path, as_json: bool) -> None:
    """Print what can be repeated, and which results are there."""
    from flipproof.experiments.runner import TABLES
    from flipproof.readable import text_table

    found = {name: out / name / TABLES for name in experiments}
    listed = [
        {
            "what": name,
            "title": experiment.title,
            "runs": len(experiment.runs),
            "changed rows": sum(getattr(run, "changes", None) == "rows" for run in experiment.runs),
            "results": str(found[name]) if found[name].is_file() else None,
        }
        for name, experiment in experiments.items()
    ]
    if as_json:
        click.echo(json.dumps(listed, indent=1))
        return
    width = max(len(experiment.title) for experiment in experiments.values())
    lines = [
        [one["what"], str(one["title"]).ljust(width), one["runs"], one["changed rows"] or "", one["results"] and "yes"]
        for one in listed
    ]
    header = ("what", "title".ljust(width), "runs", "changed rows", "results")
    click.echo(text_table(header, [[str(cell or "") for cell in line] for line in lines]))
    click.echo(
        f"\nchanged rows: runs whose radii count changed rows instead of labels\nresults: in {out / 'WHAT' / TABLES}"
    )


def _with_results(folders: dict[str, Path], out: Path) -> dict[str, Path]:
    """Return the folders that contain results, complete or not."""
    from flipproof.experiments.manifest import MANIFEST
    from flipproof.experiments.row_files import FINISHED, GROWING

    files = (MANIFEST, GROWING, FINISHED)
    # a study has them in folders of its data sets
    found = {
        name: folder
        for name, folder in folders.items()
        if any((folder / file).exists() or any(folder.glob(f"*/{file}")) for file in files)
    }
    if not found:
        expected = ", ".join(folder.name for folder in folders.values())
        raise ValueError(f"There are no results in {str(out)!r}: expected folders {expected}. Is it the right --out?")
    return found


def _draw(todo: list[tuple[Experiment | Study, Path]]) -> None:
    """Create tables and figures again, for all experiments or for none."""
    from flipproof.cli.output import prepare_folder
    from flipproof.experiments import Study
    from flipproof.experiments.runner import present, results
    from flipproof.experiments.studies.study_runner import present_study, study_results

    for one, folder in todo:
        if isinstance(one, Study):
            study_results(one, prepare_folder(folder))
        else:
            results(one, prepare_folder(folder))
    for one, folder in todo:
        if isinstance(one, Study):
            present_study(one, folder)
        else:
            present(one, folder)


def _compute(
    todo: list[tuple[Experiment | Study, Path]],
    data_dir: Path | None,
    seed: int,
    quick: bool,
    say: Callable[[str], None],
    verbose: int,
) -> None:
    """Run experiments, after checking that all data and packages are available."""
    from flipproof.cli.output import prepare_folder
    from flipproof.experiments import Study
    from flipproof.experiments import reproduce as run_experiment
    from flipproof.experiments.feature_store import MissingDataError, MissingPackagesError
    from flipproof.experiments.runner import prepare
    from flipproof.experiments.studies.study_runner import prepare_study, reproduce_study

    if len(todo) > 1:
        packages: set[str] = set()
        files: list[str] = []
        for one, folder in todo:
            say(f"{one.title}: looking for the data")
            try:
                if isinstance(one, Study):
                    prepare_study(one, folder, data_dir, seed, quick)
                else:
                    prepare(one, folder, data_dir, seed, quick)
            except MissingDataError as error:
                files += error.messages
                packages |= error.packages
            except MissingPackagesError as error:
                packages |= error.packages
        if files:
            raise MissingDataError(files, packages)
        if packages:
            raise MissingPackagesError(packages)
    for one, folder in todo:
        new = [path for path in (folder, *folder.parents) if not path.exists()]
        prepare_folder(folder)  # whether results can be written there is known before anything takes long
        try:
            if isinstance(one, Study):
                reproduce_study(one, folder, data_dir, seed, quick, say)
            else:
                run_experiment(one, folder, data_dir, seed, quick, say, verbose)
        except (MissingDataError, MissingPackagesError):
            for path in new:
                path.rmdir()  # nothing was written
            raise
