"""`safelight reclassify`: has images classified anew by the servers and workers that run, and
follows that to its end. A local command: its authority is access to the database."""

import asyncio
from typing import Annotated

import typer

from safelight.accounts import repo as accounts
from safelight.classification.reclassify.lifecycle import (
    Reclassification,
    ReclassificationStatus,
    ReclassifyFilter,
)
from safelight.classification.reclassify.reclassify import Reclassify
from safelight.cli.local import Local, run_local
from safelight.cli.serve import DataDir
from safelight.errors import InvalidRequest, NotFound
from safelight.infra.db import Database

_EVERY_SECONDS = 0.5
_ACTOR = {"type": "system", "name": "command line"}
_LEFT = "It goes on without this command. `safelight reclassify --follow {0}` looks at it again, "
_LEFT += "`safelight reclassify --cancel {0}` ends it."


def reclassify(
    organization: Annotated[
        str | None, typer.Option(help="Whose images; needed where there are several.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Only those with this label.")] = None,
    not_by: Annotated[
        str | None,
        typer.Option("--not-by", metavar="MODEL", help="Only those labelled by another model."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many there are, and do nothing.")
    ] = False,
    follow: Annotated[
        str | None, typer.Option(metavar="ID", help="Look at one that is under way.")
    ] = None,
    cancel: Annotated[
        str | None, typer.Option(metavar="ID", help="Begin no more of one; what has begun ends.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Classify images anew, below new uploads, while a server or worker runs.

    Each keeps its label until it has the next one. Ctrl-C ends this command, not the work."""
    wanted = ReclassifyFilter(label, not_by)

    async def act(local: Local) -> Reclassification | None:
        service = Reclassify(local.units, local.ids)
        if cancel:
            known = await service.find(None, cancel)
            return await service.cancel(known.organization, known.id, _ACTOR)
        if follow:
            return await _follow(service, await service.find(None, follow))
        chosen = await _organization(local.db, organization)
        if dry_run:
            print(f"{await service.count(chosen, wanted)} images would be classified anew.")
            return None
        return await _follow(service, await service.ask(chosen, wanted, _ACTOR))

    found = run_local(data_dir, act)
    if found is None:
        return
    print(_summary(found))
    if found.failed:
        raise typer.Exit(1)


async def _organization(db: Database, named: str | None) -> str:
    known = [name for name, _ in await accounts.organizations(db)]
    if named in known:
        return str(named)
    if named is not None:
        raise NotFound(f"There is no organization {named}.")
    if len(known) != 1:
        raise InvalidRequest("Say whose images: add --organization.")
    return known[0]


async def _follow(service: Reclassify, found: Reclassification) -> Reclassification:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    print(f"{found.id}: {found.total} images, below new uploads.")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    try:
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("Classifying anew", total=found.total, completed=found.ended)
            while found.status is ReclassificationStatus.RUNNING:
                await asyncio.sleep(_EVERY_SECONDS)
                found = await service.find(found.organization, found.id)
                bar.update(task, total=found.total, completed=found.ended)
    except asyncio.CancelledError:  # Ctrl-C
        print(_LEFT.format(found.id))
        raise
    return found


def _summary(found: Reclassification) -> str:
    counts = f"{found.done} done, {found.failed} failed, {found.skipped} skipped"
    return f"{found.status.word}: {counts}, of {found.total}."
