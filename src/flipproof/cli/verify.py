"""`flipproof verify`: check certificate files with the independent verifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flipproof.cli import EXIT_INCONCLUSIVE, EXIT_REFUTED, EXIT_USAGE
from flipproof.cli.options import GroupedCommand, common_options, option

if TYPE_CHECKING:
    from flipproof_verify import Verification

EXAMPLES = """\b
Examples:
  flipproof certify --train a.csv --test b.csv --label y --proof p.flipproof
  flipproof verify p.flipproof
"""


@click.command(cls=GroupedCommand, epilog=EXAMPLES, short_help="Check certificate files with a second program.")
@click.argument("files", type=click.Path(path_type=Path), metavar="FILE...", nargs=-1, required=True)
@option("--rows", type=click.IntRange(1), metavar="N", help="Check N rows, drawn at random. Default: all")
@option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed for --rows.")
@common_options
def verify(files: tuple[Path, ...], rows: int | None, seed: int, as_json: bool, quiet: bool) -> int:
    """Check certificate files with a second program, which shares no code with the one that wrote them.

    VERIFIED: every claim holds. REFUTED: a radius is larger than what holds, or another claim is false. INCONCLUSIVE:
    numbers are too close to decide.

    Exit codes: 0 all files are verified; 1 a file is refuted; 2 a file cannot be read, or wrong usage; 3 a file is
    inconclusive.
    """
    try:
        from flipproof_verify import UnreadableFileError
    except ImportError as error:
        raise ImportError("flipproof verify needs python-flint: pip install 'flipproof[verify]'") from error
    from flipproof.cli.talk import print_data, say

    found: dict[str, Any] = {}
    codes = set()
    for path in files:
        try:
            result = _checked(path, rows, seed, quiet)
        except UnreadableFileError as error:
            say(f"flipproof: error: {str(path)!r} is not a certificate file that can be checked: {error}")
            found[str(path)] = {"verdict": None, "reason": error.reason, "message": str(error)}
            codes.add(EXIT_USAGE)
            continue
        codes.add({"REFUTED": EXIT_REFUTED, "INCONCLUSIVE": EXIT_INCONCLUSIVE}.get(result.verdict, 0))
        found[str(path)] = _facts(result)
        if not as_json:
            print_data(f"{path}: {result}")
    if as_json:
        print_data(json.dumps(found, indent=2, ensure_ascii=False))
    return next(code for code in (EXIT_REFUTED, EXIT_USAGE, EXIT_INCONCLUSIVE, 0) if code in codes)


def _checked(path: Path, n_rows: int | None, seed: int, quiet: bool) -> Verification:
    from flipproof.progress import CountedProgress
    from flipproof_verify import verify

    line: CountedProgress | None = None

    def advance(n_done: int, n_all: int) -> None:
        nonlocal line
        line = line or CountedProgress(n_all, "rows checked", int(not quiet))
        line.advance(n_done)

    return verify(path, n_rows, seed=seed, progress=advance)


def _facts(result: Verification) -> dict[str, Any]:
    """Return the result as plain JSON types."""
    return {
        "verdict": result.verdict,
        "n_rows": result.n_rows,
        "n_checked": result.n_checked,
        "method": result.document["method"],
        "unit": result.document["unit"],
        "not_verified": [
            {"row": row, "verdict": verdict, "reason": reason} for row, (verdict, reason) in result.reasons.items()
        ],
    }
