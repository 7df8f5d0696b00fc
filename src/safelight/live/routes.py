"""What happens, as it happens: a socket, and the same messages by polling."""

import asyncio
import json
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, WebSocket
from starlette.websockets import WebSocketDisconnect

from safelight.accounts.access import Role, authorize
from safelight.accounts.guard import Access, allow, identify
from safelight.errors import InvalidRequest, SafelightError
from safelight.http.paging import DEFAULT_LIMIT, Limit
from safelight.http.registry import provided
from safelight.infra import activity
from safelight.infra.db import Database
from safelight.infra.history import Messages
from safelight.live.hub import Hub, Room

router = APIRouter(tags=["live"])

After = Annotated[int | None, Query(ge=0, description="The last seq you have seen.")]
CREDENTIAL_ENDED, TOO_SLOW = 4401, 1013
_SEND_SECONDS = 10.0
_CHECK_SECONDS = 20.0


@router.get("/api/organizations/{org}/activity", summary="The live messages, by polling")
async def poll(
    access: Annotated[Access, allow(Role.VIEWER)],
    db: Annotated[Database, provided(Database)],
    messages: Annotated[Messages, provided(Messages)],
    after: After = 0,
    limit: Limit = DEFAULT_LIMIT,
    types: Annotated[str | None, Query(description="Comma list; `*` adds the inner ones.")] = None,
) -> dict[str, Any]:
    organization, position = access.organization, after or 0
    floor, _ = await activity.bounds(db, organization)
    items: list[dict[str, Any]] = []
    if after and position < floor:
        items.append(_truncated(floor))
    rows = await activity.feed(
        db, organization, after=max(position, floor), limit=limit + 1, types=_types(types, messages)
    )
    items += [messages.show(row) for row in rows[:limit]]
    more = len(rows) > limit
    return {"items": items, "nextCursor": str(rows[limit - 1].seq) if more else None}


@router.websocket("/api/organizations/{org}/live")
async def live(
    socket: WebSocket,
    access: Annotated[Access, allow(Role.VIEWER)],
    db: Annotated[Database, provided(Database)],
    hub: Annotated[Hub, provided(Hub)],
    after: After = None,
) -> None:
    floor, newest = await activity.bounds(db, access.organization)
    await socket.accept()
    async with hub.room(access.organization, newest) as room:
        position = newest if after is None else after
        if position < floor:
            await socket.send_text(json.dumps(_truncated(floor)))
            position = floor
        await _until_first(
            _send(socket, room, position), _read(socket), _recheck(socket, access.organization)
        )


async def _send(socket: WebSocket, room: Room, position: int) -> None:
    while True:
        for seq, text in await room.after(position):
            try:
                async with asyncio.timeout(_SEND_SECONDS):
                    await socket.send_text(text)
            except TimeoutError:
                # The goodbye may not get through either; returning cuts the connection.
                with suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        await socket.close(TOO_SLOW, "too slow")
                return
            position = seq


async def _read(socket: WebSocket) -> None:
    """Nothing is expected from clients; reading is how a goodbye is noticed."""
    while True:
        await socket.receive_text()


async def _recheck(socket: WebSocket, organization: str) -> None:
    while True:
        await asyncio.sleep(_CHECK_SECONDS)
        try:
            authorize(await identify(socket), organization, Role.VIEWER)
        except SafelightError as error:
            if error.status < 500:  # noqa: PLR2004 - a database that is away ends no credential
                await socket.close(CREDENTIAL_ENDED, "credential ended")
                return


async def _until_first(*work: Any) -> None:
    """Runs all until one ends, then ends the others; a client that left is no error."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        with suppress(WebSocketDisconnect, RuntimeError):
            task.result()


def _types(given: str | None, messages: Messages) -> list[str] | None:
    if given is None:
        return messages.types
    wanted = [part.strip() for part in given.split(",") if part.strip()]
    if "*" in wanted:
        return None
    unknown = [part for part in wanted if not part.replace("_", "").isalpha()]
    if unknown or not wanted:
        raise InvalidRequest("types: give message types separated by commas, or *.")
    return wanted


def _truncated(floor: int) -> dict[str, Any]:
    return {"type": "history_truncated", "seq": floor}
