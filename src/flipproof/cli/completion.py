"""`flipproof completion`: Tab completion in a shell."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")

EXAMPLES = """\b
Examples:
  flipproof completion bash >> ~/.bashrc
  flipproof completion zsh >> ~/.zshrc
  flipproof completion fish > ~/.config/fish/completions/flipproof.fish
"""


@click.command(epilog=EXAMPLES, short_help="Set up Tab completion for your shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script that completes commands and options with Tab."""
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    if complete is None:
        raise click.UsageError(f"There is no completion for {shell}.")
    root = context.find_root()
    click.echo(complete(root.command, {}, "flipproof", "_FLIPPROOF_COMPLETE").source())
