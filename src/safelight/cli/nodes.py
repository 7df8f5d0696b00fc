"""`safelight nodes`: the machines that receive uploads, from the command line of one of them."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from safelight.cli.local import AsJson, Local, run_local
from safelight.cli.output import show_rows
from safelight.cli.serve import DataDir
from safelight.errors import NotFound
from safelight.infra.queue.queue import Queue
from safelight.ingest.nodes.adopt import Adopted, Adoption
from safelight.ingest.nodes.give_up import Nodes
from safelight.ingest.nodes.lifecycle import Node
from safelight.ingest.nodes.show import show_node
from safelight.ingest.services import open_directory
from safelight.wiring import KINDS

T = TypeVar("T")

nodes = typer.Typer(help="Machines: list, adopt, give up.", no_args_is_help=True)


@nodes.command("list")
def list_nodes(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List every machine that told that it is there, or that something waits for."""

    async def act(local: Local) -> list[Node]:
        return await Nodes(local.units).all()

    found = run_local(data_dir, act)
    rows = [show_node(node) for node in found]
    show_rows(rows if as_json else [_in_short(row) for row in rows], as_json=as_json)


@nodes.command("adopt")
def adopt(
    directory: Path,
    node: Annotated[
        str | None, typer.Option(help="Whose it is, if it was copied without its hidden files.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Take over the uploads in an ingest directory that came from another machine: on this one's
    disk, or on a volume that is mounted here. The directory itself stays as it is."""

    async def act(local: Local) -> Adopted:
        into = await open_directory(local.db, local.settings.ingest_path, local.ids)
        try:
            while not into.lock_shared():  # noqa: ASYNC110 - a server is just starting on it
                await asyncio.sleep(0.05)
            return await Adoption(_queue(local, into.node), into).adopt(directory.absolute(), node)
        finally:
            into.close()

    adopted = run_local(data_dir, act)
    if as_json:
        damaged = [str(path) for path in adopted.damaged]
        print(json.dumps({**_numbers(adopted), "node": adopted.node, "damaged": damaged}))
    else:
        _tell(adopted, directory)
    if adopted.damaged or adopted.left:
        raise typer.Exit(1)


@nodes.command("give-up")
def give_up(
    node_id: str,
    uploads: Annotated[
        int | None, typer.Option(help="How many uploads are lost by it; asked for if left out.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Wait no longer for a machine: what only it has a copy of fails, and its senders are told."""

    async def act(local: Local) -> int:
        known = Nodes(local.units)
        lost = _confirmed(await known.all(), node_id) if uploads is None else uploads
        return await known.give_up(node_id, lost)

    print(f"{node_id} is given up; {_count(run_local(data_dir, act))} failed.")


def _confirmed(found: list[Node], node_id: str) -> int:
    for node in found:
        if node.id == node_id:
            where = f"{node.host}:{node.directory}" if node.host else node.id
            typer.confirm(f"Give up {_count(node.uploads)} on {where}?", abort=True)
            return node.uploads
    raise NotFound(f"There is no machine {node_id}: `safelight nodes list` has them all.")


def _tell(adopted: Adopted, directory: Path) -> None:
    print(f"{_count(adopted.taken)} from {directory} taken over.")
    for path in adopted.damaged:
        print(f"Not what was received, and left alone: {path}")
    if adopted.left:
        print(
            f"{_count(adopted.left)} of {adopted.node} still wait. Adopt the directory with them, "
            f"or give them up: safelight nodes give-up {adopted.node}"
        )
    elif not adopted.damaged:
        print(f"Nothing waits for it any more: {directory} can be removed.")


def _numbers(adopted: Adopted) -> dict[str, int]:
    return {"taken": adopted.taken, "left": adopted.left}


def _count(uploads: int) -> str:
    return f"{uploads} upload{'' if uploads == 1 else 's'}"


def _in_short(row: dict[str, object]) -> dict[str, object]:
    shown = ("id", "standing", "host", "directory", "lastSeenAt", "uploads", "otherJobs")
    return {name: row[name] for name in shown}


def _queue(local: Local, node: str) -> Queue:
    return Queue(local.db, local.bus, local.clock, owner="command line", node=node, kinds=KINDS)
