"""`flipproof completion`: the Tab key in a shell."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")

EXAMPLES = """\b
Examples:
  flipproof completion bash >> ~/.bashrc
  flipproof completion zsh >> ~/.zshrc
  flipproof completion fish > ~/.config/fish/completions/flipproof.fish
"""


@click.command(epilog=EXAMPLES, short_help="Complete commands and options by Tab.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what a shell needs to complete commands and options by the Tab key."""
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    if complete is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    root = context.find_root()
    click.echo(complete(root.command, {}, "flipproof", "_FLIPPROOF_COMPLETE").source())
