"""`flipproof verify`: check certificate files with the independent verifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli import EXIT_INCONCLUSIVE, EXIT_REFUTED, EXIT_USAGE
from flipproof.cli.options import GroupedCommand, common_options, option

if TYPE_CHECKING:
    from flipproof_verify import UnreadableFileError, Verification

#: Group of options that say what is checked.
CHECK = "Check"

#: Letters of the sentence of an assumption: whoever wrote the file chose its values.
LONGEST_SENTENCE = 1000

EXAMPLES = """\b
Examples:
  flipproof certify --train a.csv --test b.csv --label y --proof p.flipproof
  flipproof verify p.flipproof
  flipproof verify p.flipproof --data a.csv --data b.csv --model m.flipproof
"""


@click.command(cls=GroupedCommand, epilog=EXAMPLES, short_help="Check certificate files with a second program.")
@click.argument("files", type=click.Path(path_type=Path), metavar="FILE...", nargs=-1, required=True)
@option(
    "--data",
    group=CHECK,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="A data file or an output that the certificates must be about, by its digest. Repeatable.",
)
@option(
    "--model",
    group=CHECK,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The model file that the certificates must be about, by its digest.",
)
@option(
    "--rows", group=CHECK, type=click.IntRange(1), metavar="N", help="Check a random sample of N rows. Default: all"
)
@option(
    "--seed", group=CHECK, type=click.IntRange(0), default=0, metavar="N", help="Random seed for --rows. Default: 0"
)
@common_options
def verify(
    files: tuple[Path, ...],
    data: tuple[Path, ...],
    model: Path | None,
    rows: int | None,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> int:
    """Check certificate files with a second program, which shares no code with the one that wrote them.

    VERIFIED: every claim holds, given the assumptions that are taken as stated; they are listed below the verdict.
    REFUTED: a radius is too large, or another claim is false. INCONCLUSIVE: numbers are too close to
    decide. With --rows, the verdict is about a sample of the rows. With --data and --model, certificates about other
    files are refuted.

    Exit codes: 0 all files are verified; 1 a file is refuted; 2 a file cannot be read, or wrong usage; 3 a file is
    inconclusive. All files are checked, and the worst result counts: 1 before 2 before 3 before 0.
    """
    try:
        from flipproof_verify import INCONCLUSIVE, REFUTED, UnreadableFileError
    except ImportError as error:
        raise ImportError("flipproof verify needs python-flint: pip install 'flipproof[verify]'") from error
    from flipproof.cli.talk import print_data, say

    wanted = _wanted(data, model)
    found: dict[str, Any] = {}
    codes = set()
    for path in files:
        try:
            result = _checked(path, rows, seed, quiet)
        except (UnreadableFileError, OSError) as error:
            found[str(path)] = refused = {"verdict": None, **_why_unreadable(error)}
            say(f"flipproof: error: {str(path)!r} cannot be checked: {refused['message']}")
            codes.add(EXIT_USAGE)
            continue
        others = [str(file) for file, digest in wanted.items() if digest not in result.digests]
        verdict = REFUTED if others else result.verdict
        codes.add({REFUTED: EXIT_REFUTED, INCONCLUSIVE: EXIT_INCONCLUSIVE}.get(verdict, 0))
        found[str(path)] = {**_facts(result), "verdict": verdict, "not_about": others}
        if not as_json:
            told = (
                f"{REFUTED}: the certificates are not about {', '.join(others)}, by the digests" if others else result
            )
            print_data(f"{path}: {told}")
            _print_assumptions(found[str(path)]["assumptions"])
    if as_json:
        print_data(json.dumps(found, indent=2, ensure_ascii=False))
    return next(code for code in (EXIT_REFUTED, EXIT_USAGE, EXIT_INCONCLUSIVE, 0) if code in codes)


def _print_assumptions(assumptions: list[dict[str, str]]) -> None:
    from flipproof.cli.talk import data_console, print_paragraph

    for one in assumptions:
        print_paragraph(data_console(), f"{one['code']}: {one['sentence']}", indent="  - ")


def _assumptions(result: Verification) -> list[dict[str, str]]:
    """Return code and sentence of the assumptions that are taken as stated."""
    listed = [one for one in result.document["assumptions"] if one["code"] in result.as_stated]
    return [{"code": one["code"], "sentence": _sentence(one)} for one in listed]


def _sentence(stated: dict[str, Any]) -> str:
    """Return the sentence of an assumption; values in the file are cut, and may not control the terminal."""
    from flipproof.assumptions import Assumption

    try:
        sentence = str(Assumption.from_dict(stated))
    except ValueError:  # a code of another version
        sentence = f"values {json.dumps(stated['values'])}"
    shown = "".join(letter if letter.isprintable() else "?" for letter in sentence)
    return shown if len(shown) <= LONGEST_SENTENCE else f"{shown[: LONGEST_SENTENCE - 1]}…"


def _checked(path: Path, n_rows: int | None, seed: int, quiet: bool) -> Verification:
    from flipproof.runtime.progress import CountedProgress
    from flipproof_verify import verify

    line: CountedProgress | None = None

    def advance(n_done: int, n_all: int) -> None:
        nonlocal line
        line = line or CountedProgress(n_all, "rows checked", int(not quiet))
        line.advance(n_done)

    return verify(path, n_rows, seed=seed, progress=advance)


def _why_unreadable(error: UnreadableFileError | OSError) -> dict[str, str]:
    """Return why a file cannot be checked, in the words of the verifier or of the operating system."""
    if isinstance(error, OSError):
        return {"reason": "unreadable", "message": error.strerror or str(error)}
    return {"reason": error.reason, "message": str(error)}


def _wanted(data: tuple[Path, ...], model: Path | None) -> dict[Path, str]:
    """Return the digests of files that certificates must be about."""
    from flipproof.runtime.files import digest_of_file
    from flipproof.store import model_digest

    found = {path: digest_of_file(path) for path in data}
    return found if model is None else {**found, model: model_digest(model)}


def _facts(result: Verification) -> dict[str, Any]:
    """Return the result as plain JSON types."""
    return {
        "verdict": result.verdict,
        "n_rows": result.n_rows,
        "n_checked": result.n_checked,
        "is_sample": result.is_sample,
        "taken_as_stated": list(result.as_stated),
        "assumptions": _assumptions(result),
        "method": result.document["method"],
        "unit": result.document["unit"],
        "not_verified": [
            {"row": row, "verdict": verdict, "reason": reason} for row, (verdict, reason) in result.reasons.items()
        ],
    }
