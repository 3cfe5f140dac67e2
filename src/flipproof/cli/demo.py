"""`flipproof demo`: certificates for scikit-learn's digits, in a few seconds."""

from __future__ import annotations

from pathlib import Path

import click

from flipproof.cli.options import GroupedCommand, common_options, option

FIGURE_NAME = "certified-accuracy.png"
PROOF_NAME = "digits.flipproof"

#: Largest seed that scikit-learn accepts.
LARGEST_SEED = 2**32 - 1

#: Loading, three methods on each of two problems, drawing, verifying.
N_STEPS = 9


def check_seed(_context: click.Context, _parameter: click.Parameter, seed: int) -> int:
    """Raise BadParameter for a seed that scikit-learn does not accept."""
    if not 0 <= seed <= LARGEST_SEED:
        raise click.BadParameter(f"{seed} must be between 0 and {LARGEST_SEED}.")
    return seed


@click.command(
    cls=GroupedCommand,
    epilog="\b\nExample:\n  flipproof demo --out /tmp/demo --seed 1",
    short_help="Certify handwritten digits in a few seconds.",
)
@option(
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    default=Path("flipproof-demo"),
    metavar="DIR",
    help="Folder for the figure and the proof. Default: flipproof-demo",
)
@option(
    "--seed",
    type=int,
    callback=check_seed,
    default=0,
    metavar="N",
    help="Random seed for the split into training and test rows. Default: 0",
)
@common_options
def demo(folder: Path, seed: int, as_json: bool, quiet: bool) -> None:
    """Certify handwritten digits and explain the result.

    Uses the digits that come with scikit-learn: first 1 against 7, then all ten. Prints the share of predictions that
    are correct and guaranteed unchanged under any 5, 10, 20, ... changed labels, explains one certificate, draws the
    curves, and has a second program verify the exact certificates of all ten digits. Takes a few seconds and downloads
    nothing.
    """
    import importlib.util

    from flipproof.cli.output import prepare_folder
    from flipproof.cli.talk import data_console, print_data, print_paragraph, print_table, progress
    from flipproof.runtime.files import write_whole
    from flipproof_verify import VERIFIED, verify

    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("the demo draws a figure and needs matplotlib: pip install 'flipproof[cli,plot]'")
    figure, proof = prepare_folder(folder) / FIGURE_NAME, folder / PROOF_NAME
    for path in (figure, proof):
        if path.is_dir():
            raise OSError(f"cannot write {str(path)!r}: it is a folder.")

    with progress(N_STEPS, quiet) as step:
        step("Loading scikit-learn")
        from flipproof.cli import digits

        outcomes = digits.certify_digits(seed, step)
        step("Drawing the curves")
        write_whole(figure, digits.figure_png(outcomes))
        step("Verifying by a second program")
        outcomes[-1].exact.save(proof)
        verified = verify(proof)

    if as_json:
        print_data(digits.outcomes_json(outcomes, figure, proof, verified.verdict))
        return
    console = data_console()
    for outcome in outcomes:
        console.print(digits.title(outcome), style="bold")
        for line in digits.headline(outcome):
            print_paragraph(console, line)
        console.print()
        print_table(console, digits.table(outcome))
        console.print()
    print_paragraph(console, digits.legend(), indent="")
    sentence, assumptions = digits.typical_certificate(outcomes[0])
    console.print(f"\nA typical certificate ({outcomes[0].problem.title})", style="bold")
    print_paragraph(console, sentence)
    print_paragraph(console, "Assumptions:")
    for assumption in assumptions:
        print_paragraph(console, str(assumption), indent="  - ")
    console.print(f"\nCurves: {figure}", soft_wrap=True)
    console.print(f"Proof:  {proof}", soft_wrap=True)
    told = "verified" if verified.verdict == VERIFIED else f"NOT verified ({verified})"
    console.print(
        f"All {verified.n_checked} exact certificates of {outcomes[-1].problem.title}: {told} by a second program.",
        soft_wrap=True,
    )
