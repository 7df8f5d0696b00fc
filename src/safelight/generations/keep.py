"""Storing a result: bytes to the object store under `artifacts/{id}`, and its row with them.

The bytes pass through a file without a name, in pieces, and are looked at there: what is not whole
is no artifact. With the built-in store the object,
the artifact's row, the task's end, history and the job's end are one unit of work. With a bucket
the object comes first; killed in between, the next attempt puts the same key again, and what nobody
wants any more is swept (sweep.py).
"""

import base64
import binascii
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from safelight.generations import repo
from safelight.generations.artifacts import repo as library
from safelight.generations.change import GenerationChange
from safelight.generations.decide import stored
from safelight.generations.fetch import Fetcher, FetchFailed, FetchRefused, FetchTrouble
from safelight.generations.lifecycle import (
    Artifact,
    Generation,
    Media,
    Task,
    TaskStatus,
    key_of,
)
from safelight.generations.media import HEAD_BYTES, NotMedia, Recognized, recognize
from safelight.generations.owner import Owner
from safelight.generations.providers.base import DRAWN, Order, Provider
from safelight.generations.verify import NotFit, NotWhole, Verifier
from safelight.infra.activity import Unit
from safelight.infra.failpoints import reach
from safelight.infra.queue.jobs import Job
from safelight.infra.scratch import Scratch
from safelight.objects import repo as objects
from safelight.objects.store import Facts, Landed, ObjectStore

OpenedMedia = tuple[AsyncIterator[bytes], Mapping[str, Any]]

_DATA = re.compile(r"data:[^,]{0,200};base64,", re.ASCII)
_HIGHEST_COST = Decimal(1_000_000)


class Unwanted(Exception):
    """The task is over, or somebody else's: nothing was kept."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """One attempt at storing one result."""

    generation: Generation
    task: Task
    media: Media
    order: Order
    provider: Provider
    job: Job[Any]


class Keeper:
    def __init__(
        self,
        owner: Owner,
        store: ObjectStore,
        fetcher: Fetcher,
        verifier: Verifier,
        directory: Path,
    ) -> None:
        self._owner = owner
        self._store = store
        self._fetcher = fetcher
        self._verifier = verifier
        self._directory = directory

    async def keep(self, keeping: Keeping, seconds: float) -> None:
        """Raises what fetch.py raises, and `Unwanted`."""
        with Scratch(self._directory) as file:
            try:
                kind, said = await self._receive(keeping, seconds, file)
                kind = await self._verified(keeping, file, kind)
            except NotFit as error:
                raise FetchRefused(
                    f"What the provider delivered cannot be kept: {error}."
                ) from error
            except NotWhole as error:
                raise _damaged(keeping, error) from error
            await self._put(keeping, file, kind, said)

    async def _receive(
        self, keeping: Keeping, seconds: float, file: Scratch
    ) -> tuple[Recognized, Mapping[str, Any]]:
        async with self._opened(keeping, seconds) as (pieces, said):
            head, complete = await _head(pieces)
            try:
                kind = recognize(head, complete=complete)
            except NotMedia as error:
                raise FetchRefused(str(error)) from error
            self._verifier.check_header(kind)
            await file.fill(_joined(head, pieces))
        return kind, said

    async def _verified(self, keeping: Keeping, file: Scratch, kind: Recognized) -> Recognized:
        if kind.is_clip:
            return await self._verifier.clip(file, kind)
        if keeping.media.url == DRAWN:
            return kind  # ours from the first byte to the last
        return await self._verifier.image(file, kind)

    async def _put(
        self, keeping: Keeping, file: Scratch, kind: Recognized, said: Mapping[str, Any]
    ) -> None:
        facts = Facts(kind.content_type, {"organizationId": keeping.generation.organization})
        key = key_of(keeping.task.artifact_id)

        async def write(landed: Landed) -> None:
            async with self._owner.units.open(keeping.generation.organization) as unit:
                await objects.put(unit.connection, key, landed, facts, unit.now)
                artifact = artifact_of(keeping, landed, kind, said, unit.now)
                await self._record(unit, keeping, artifact, cost_of(said))

        async def unwanted() -> None:
            """A look without a lock: the record decides."""
            now = await repo.find(self._owner.units.db, keeping.generation.id)
            task = now.task(keeping.task.artifact_id) if now else None
            if task is None or task.status is not TaskStatus.STREAMING:
                raise Unwanted

        await reach("generations.put")
        await self._store.put_with(key, file.chunks(), facts, write, unwanted)

    async def _record(
        self, unit: Unit, keeping: Keeping, artifact: Artifact, cost: Decimal | None
    ) -> None:
        def store(generation: Generation, now: int) -> GenerationChange:
            attempt, content_type = keeping.task.attempt, artifact.content_type
            change = stored(generation, artifact.id, attempt, content_type, cost, now)
            if change is None:
                raise Unwanted
            return change

        change = await self._owner.change_in(unit, keeping.generation.id, store, keeping.job)
        if change is None:
            raise Unwanted
        await library.add(unit.connection, artifact)

    @asynccontextmanager
    async def _opened(self, keeping: Keeping, seconds: float) -> AsyncIterator[OpenedMedia]:
        """The bytes, and what their maker says of them."""
        url, said = keeping.media.url, keeping.media.facts
        if url == DRAWN:
            drawn = await keeping.provider.draw(keeping.order)
            yield _once(drawn.content), {**said, **drawn.facts}
        elif url.startswith("data:"):
            yield _once(_inline(url)), said
        else:
            hosts = keeping.provider.hosts
            async with self._fetcher.opened(url, hosts, seconds) as pieces:
                yield pieces, said


def _damaged(keeping: Keeping, error: NotWhole) -> Exception:
    """A file can be fetched again; what came within an answer stays as it is."""
    words = f"What the provider delivered is damaged: {error}."
    fetched = not keeping.media.url.startswith("data:")
    return FetchTrouble(words) if fetched else FetchFailed(words)


def artifact_of(
    keeping: Keeping, landed: Landed, kind: Recognized, said: Mapping[str, Any], now: int
) -> Artifact:
    generation, task = keeping.generation, keeping.task
    return Artifact(
        id=task.artifact_id,
        organization=generation.organization,
        generation_id=generation.id,
        content_type=kind.content_type,
        size_bytes=landed.size,
        checksum=landed.sha256,
        metadata=metadata_of(generation, task, said, kind),
        created_at=now,
    )


def metadata_of(
    generation: Generation, task: Task, facts: Mapping[str, Any], kind: Recognized
) -> dict[str, Any]:
    """Where an artifact comes from. What was measured outranks what was said."""
    seed = generation.input.get("seed")
    cost = cost_of(facts)
    said = {
        "seed": seed + task.position if isinstance(seed, int) else None,
        "prompt": generation.input.get("prompt"),
        "width": None,
        "height": None,
        **facts,
    }
    measured = {
        "cost": None if cost is None else float(cost),
        "provider": generation.provider,
        "kind": generation.kind,
        "model": generation.model,
        "position": task.position,
        "providerTaskId": task.provider_task_id,
    }
    if kind.width is not None:
        measured |= {"width": kind.width, "height": kind.height}
    if kind.seconds is not None:
        measured["durationSeconds"] = round(kind.seconds, 3)
    return said | measured


def cost_of(facts: Mapping[str, Any]) -> Decimal | None:
    """US dollars; nothing that is not a sensible amount."""
    said = facts.get("cost")
    if isinstance(said, bool) or not isinstance(said, int | float | str):
        return None
    try:
        cost = Decimal(str(said))
    except InvalidOperation:
        return None
    return cost if cost.is_finite() and 0 <= cost <= _HIGHEST_COST else None


def _inline(url: str) -> bytes:
    """A result sent within the answer; what holds it was limited when it was read."""
    start = _DATA.match(url)
    try:
        return base64.b64decode(url[start.end() :], validate=True) if start else b""
    except binascii.Error as error:
        raise FetchRefused("The result's inline data is not base64.") from error


async def _head(pieces: AsyncIterator[bytes]) -> tuple[bytes, bool]:
    """Enough of the start to know what it is, and whether that is all."""
    head = bytearray()
    async for piece in pieces:
        head += piece
        if len(head) >= HEAD_BYTES:
            return bytes(head), False
    return bytes(head), True


async def _joined(head: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield head
    async for piece in rest:
        yield piece


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
