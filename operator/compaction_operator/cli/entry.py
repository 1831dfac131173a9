"""The command and its verbs, each imported when it is used; errors that a user can fix; exit codes.

Exit codes: 0 done, 1 refused or failed, 2 a wrong command line, 130 interrupted, 143 `doctor`
ended by SIGTERM.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import click
from click.shell_completion import ShellComplete

from compaction_operator import __version__
from compaction_operator.errors import OperatorError

SECTIONS = {
    "Look": {"status": "status", "why": "why", "plan": "plan", "history": "history", "doctor": "doctor"},
    "Change": {"approve": "changes", "suspend": "changes", "resume": "changes"},
    "Without a cluster": {"compact": "compact"},
    "Set up": {"completion": "completion"},
    "What pods and the image's build start": {"run": "processes", "job": "processes", "calibrate": "processes"},
}
"""The verbs in the order of the help text, each with the module of this package that has it."""
_MODULES = {verb: module for verbs in SECTIONS.values() for verb, module in verbs.items()}
_PROGRAM, _PLUGIN = "compaction-operator", "kubectl-compaction"
_NO_FILES = ":4"
"""The directive of Go's cobra, which kubectl is made with, that file names do not fit."""


class _Verbs(click.Group):
    """Imports a verb's module when it is used. NB: a driver's start pays for its own verb only."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click gives it
        if cmd_name not in _MODULES:
            return None
        found: click.Command = getattr(import_module(f"compaction_operator.cli.{_MODULES[cmd_name]}"), cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                found = ((verb, self.get_command(ctx, verb)) for verb in verbs)
                formatter.write_dl([(verb, one.get_short_help_str(90)) for verb, one in found if one is not None])


@click.command(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.pass_context
def cli(context: click.Context) -> None:
    """Compact Hive ACID and Hudi tables on Kubernetes."""
    context.color = False if os.environ.get("NO_COLOR") else None


def main() -> None:
    """Run the command line. Errors that a user can fix end it with one line on standard error."""
    try:
        cli.main(prog_name=_program(), standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as asked:
        sys.stderr.write(asked.format_message() + "\n")
        sys.exit(asked.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), error.exit_code)
    except click.Abort:
        _fail("interrupted", 130)
    except (OperatorError, ValueError, OSError) as error:
        _fail(str(error) or type(error).__name__, 1)


def complete() -> None:
    """Print what may follow the arguments, as kubectl asks its plugins (the program `kubectl_complete-compaction`)."""
    *before, last = sys.argv[1:] or [""]
    for item in ShellComplete(cli, {}, _PROGRAM, "").get_completions(before, last):
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(_NO_FILES)


def _program() -> str:
    return _PLUGIN.replace("-", " ", 1) if Path(sys.argv[0]).name == _PLUGIN else _PROGRAM


def _fail(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"{_program()}: {' '.join(message.split())}\n")
    sys.exit(code)
