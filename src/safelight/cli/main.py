"""The `safelight` command. One line below per command or group; each lives in a file of its own.

Exit codes: 0 fine, 1 some of it failed, 2 usage or settings, 3 cannot reach the server or the
database, 4 refused.
"""

import sys
from typing import Annotated

import typer

from safelight import __version__
from safelight.cli import accounts
from safelight.cli.nodes import nodes
from safelight.cli.reclassify import reclassify
from safelight.cli.reconcile import reconcile
from safelight.cli.serve import serve
from safelight.cli.worker import worker
from safelight.errors import ConfigurationError, InvalidRequest, SafelightError, Unavailable
from safelight.infra.postgres.server import NoServer

FAILED, USAGE, UNREACHABLE, REFUSED = 1, 2, 3, 4

app = typer.Typer(
    name="safelight",
    help="A self-hosted image pipeline that never loses an image.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(serve)
app.command()(worker)
app.command()(reclassify)
app.command()(reconcile)
app.add_typer(accounts.tokens, name="tokens")
app.add_typer(accounts.users, name="users")
app.add_typer(accounts.organizations, name="organizations")
app.add_typer(nodes, name="nodes")


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"safelight {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Say which version."),
    ] = False,
) -> None:
    del version  # the callback has answered


def main() -> None:
    try:
        app()
    except SafelightError as error:
        print(error.message, file=sys.stderr)
        raise SystemExit(exit_code(error)) from None


def exit_code(error: SafelightError) -> int:
    if isinstance(error, ConfigurationError | InvalidRequest):
        return USAGE
    if isinstance(error, Unavailable | NoServer):
        return UNREACHABLE
    return REFUSED if 400 <= error.status < 500 else FAILED  # noqa: PLR2004 - HTTP's own ranges
