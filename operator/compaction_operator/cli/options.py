"""Options and arguments that several verbs share."""

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from compaction_operator.api.cleanup import KIND as CLEANUP_KIND
from compaction_operator.api.compaction import KIND as COMPACTION_KIND
from compaction_operator.api.policy import KIND as POLICY_KIND
from compaction_operator.cli.advice import OPERATOR

F = TypeVar("F", bound=Callable[..., Any])

KINDS = {
    **dict.fromkeys(("tcomp", "tablecompaction", "tablecompactions"), COMPACTION_KIND),
    **dict.fromkeys(("ccl", "compactioncleanup", "compactioncleanups"), CLEANUP_KIND),
    **dict.fromkeys(("tcp", "compactionpolicy", "compactionpolicies"), POLICY_KIND),
}
"""The kinds by the names that kubectl knows them by."""


class Named(NamedTuple):
    """A resource by its kind and name, as kubectl writes it: `ccl/orders-minor-1a2b3c4d-1-0`."""

    kind: str
    name: str


class ResourceName(click.ParamType[Named]):
    """The argument KIND/NAME, for some of the kinds."""

    name = "kind/name"

    def __init__(self, *kinds: str) -> None:
        self._kinds = kinds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Named:
        """Return the kind and name, or fail with the kinds that there are."""
        if isinstance(value, Named):
            return value
        kind, _, name = str(value).partition("/")
        known = KINDS.get(kind.lower())
        if known not in self._kinds or known is None or not name or "/" in name:
            some = ", ".join(f"{short}/NAME" for short in ("tcomp", "ccl", "tcp") if KINDS[short] in self._kinds)
            self.fail(f"{value!r}: write {some}", param, ctx)
        return Named(known, name)


def output_option(command: F) -> F:
    """Add `output`, which is text or json: `-o json` and `--json` are the same."""
    formats = click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Output format.",
    )
    return formats(click.option("--json", "output", flag_value="json", help="The same as --output json.")(command))


def context_option(command: F) -> F:
    """Add `context`: that of kubeconfig."""
    return click.option("--context", metavar="NAME", help="The context of kubeconfig. Default: the current one.")(
        command
    )


def namespace_option(command: F) -> F:
    """Add `namespace`: the one of a resource."""
    return click.option("-n", "--namespace", help="The resource's namespace. Default: that of the context.")(command)


def operator_option(command: F) -> F:
    """Add `operator`: where the operator runs."""
    return click.option(
        "--operator",
        metavar="NAMESPACE/SERVICE",
        envvar="COMPACTION_OPERATOR",
        default=OPERATOR,
        show_default=True,
        help="The operator's Service. Also from the environment variable COMPACTION_OPERATOR.",
    )(command)


def program() -> str:
    """Return by which name this program was started."""
    return click.get_current_context().find_root().info_name or ""


def print_json(found: object | Sequence[object]) -> None:
    """Print JSON for scripts."""
    click.echo(json.dumps(found, indent=2))
