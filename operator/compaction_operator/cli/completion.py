"""The verb `completion`."""

import click
from click.shell_completion import get_completion_class

PROGRAM = "compaction-operator"
VARIABLE = "_COMPACTION_OPERATOR_COMPLETE"
"""The environment variable by which the script asks the program."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes compaction-operator in a shell."""
    chosen = get_completion_class(shell)
    assert chosen is not None
    click.echo(chosen(click.get_current_context().find_root().command, {}, PROGRAM, VARIABLE).source())
