"""`safelight reconcile`: compares bucket, index and library, and puts right what a person wants put
right. A local command, beside running servers or without one."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from safelight.accounts import repo as accounts
from safelight.cli.local import AsJson, at_hand, database_url, prepare_local
from safelight.cli.output import show_rows
from safelight.cli.serve import DataDir
from safelight.errors import ConfigurationError
from safelight.library.reconcile import repo
from safelight.library.reconcile.comparison import Comparison
from safelight.settings import Settings
from safelight.wiring import open_reconcile

DIFFERENCES_REMAIN = 1

OnPage = Callable[[Comparison], None]


def reconcile(
    organization: Annotated[
        str | None, typer.Option("--organization", help="Only this organization.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Put right what is found, by telling of it again.")
    ] = False,
    afresh: Annotated[
        bool, typer.Option("--afresh", help="Begin anew, where one that was ended would go on.")
    ] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Compare what the store holds with the index and the library, and say where they differ.
    Nothing is changed without --repair, and nothing is ever deleted from the store. Ends with 0
    when all agree, with 1 when differences remain. Ended early, it goes on when asked again."""
    settings = prepare_local(data_dir, "error")  # the report says the rest
    with database_url(settings) as url:
        found = asyncio.run(_compare(settings, url, organization, repair=repair, afresh=afresh))
    if as_json:
        print(json.dumps(_as_json(found), ensure_ascii=False))
    else:
        _show(found, repair=repair)
    if not found.agreed:
        raise typer.Exit(DIFFERENCES_REMAIN)


async def _compare(
    settings: Settings, url: str, organization: str | None, *, repair: bool, afresh: bool
) -> Comparison:
    total = await _total(settings, url, organization)
    async with open_reconcile(settings, url) as engine:
        found = Comparison()
        with _progress(total) as watch:
            async for found in engine.compare(organization, repair=repair, afresh=afresh):
                watch(found)
        return found


async def _total(settings: Settings, url: str, organization: str | None) -> int | None:
    """About how many names there are to look at; None where nobody knows without counting."""
    async with at_hand(settings, url) as local:
        if organization is None:
            return await repo.roughly(local.db) or None
        if not await accounts.known_organizations(local.db, [organization]):
            raise ConfigurationError(f"There is no organization {organization}.")
        return None


@contextmanager
def _progress(total: int | None) -> Iterator[OnPage]:
    """A bar in a terminal; where it was ended, that is said first."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("Comparing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("{task.fields[differing]} differ"),
    )  # fmt: skip
    begun = False
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=total, differing=0)

        def watch(found: Comparison) -> None:
            nonlocal begun
            if not begun and found.compared:
                print(f"Going on behind {found.position}.", file=sys.stderr)
            begun = True
            differing = sum(of_kind.count for of_kind in found.found.values())
            progress.update(bar, completed=found.compared, differing=differing)

        yield watch


def _as_json(found: Comparison) -> dict[str, Any]:
    shown = found.as_json()
    del shown["position"]
    return {**shown, "agreed": found.agreed}


def _show(found: Comparison, *, repair: bool) -> None:
    print(f"{found.compared:,} names were compared.")
    rows = [
        {
            "what": kind.words,
            "names": of_kind.count,
            "repaired": of_kind.repaired,
            "such as": ", ".join(of_kind.examples[:3]),
        }
        for kind, of_kind in found.found.items()
    ]
    if rows:
        show_rows(rows, as_json=False)
    for amount, words in (
        (
            found.under_way,
            "differ, and are being worked on or younger than five minutes: look later.",
        ),
        (found.foreign, "objects in the bucket are nobody's upload, and are left alone."),
        (found.unsure, "could not be looked at; the log says why."),
    ):
        if amount:
            print(f"{amount:,} {words}")
    print(_verdict(found, repair=repair))


def _verdict(found: Comparison, *, repair: bool) -> str:
    if found.agreed and not found.repaired:
        return "All others agree." if found.under_way else "All agree."
    if found.agreed:
        return "All is told again; workers bring the library up to date."
    if any(not kind.is_persons for kind in found.found) and not repair:
        return "Nothing was changed. --repair makes the library follow the store."
    return "What remains has lost its bytes: upload those images again, or delete them."
