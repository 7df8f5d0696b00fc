"""Storing a result: bytes to the object store under `artifacts/{id}`, and its row with them.

The bytes pass through in pieces, hashed and counted on the way. With the built-in store the object,
the artifact's row, the task's end, history and the job's end are one transaction. With a bucket the
object comes first; killed in between, the next attempt puts the same key again, and what nobody
wants any more is swept (sweep.py).
"""

import base64
import binascii
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from safelight.generations import repo
from safelight.generations.artifacts.repo import Artifact
from safelight.generations.decide import Change, stored
from safelight.generations.fetch import Fetcher, FetchRefused
from safelight.generations.lifecycle import Generation, Media, Task, TaskStatus
from safelight.generations.media import HEAD_BYTES, NotMedia, Recognized, recognize
from safelight.generations.owner import Owner
from safelight.generations.providers.base import DRAWN, Order, Provider
from safelight.infra.db import Connection
from safelight.infra.failpoints import reach
from safelight.infra.queue.jobs import Job
from safelight.objects import repo as objects
from safelight.objects.store import Facts, Landed, ObjectStore

Opened = tuple[AsyncIterator[bytes], Mapping[str, Any]]

_DATA = re.compile(r"data:[^,]{0,200};base64,", re.ASCII)
_HIGHEST_COST = Decimal(1_000_000)


class Unwanted(Exception):
    """The task is over, or somebody else's: nothing was kept."""


def key_of(artifact_id: str) -> str:
    return f"artifacts/{artifact_id}"


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
    def __init__(self, owner: Owner, store: ObjectStore, fetcher: Fetcher) -> None:
        self._owner = owner
        self._store = store
        self._fetcher = fetcher

    async def keep(self, keeping: Keeping, seconds: float) -> Change:
        """Raises what fetch.py raises, and `Unwanted`."""
        async with self._opened(keeping, seconds) as (pieces, said):
            head, complete = await _head(pieces)
            try:
                kind = recognize(head, complete=complete)
            except NotMedia as error:
                raise FetchRefused(str(error)) from error
            facts = Facts(kind.content_type, {"organizationId": keeping.generation.organization})
            record = _Record(self._owner, keeping, kind, said, facts)
            key = key_of(keeping.task.artifact_id)
            await reach("generations.put")
            return await self._store.put_with(
                key, _joined(head, pieces), facts, record.write, record.beaten
            )

    @asynccontextmanager
    async def _opened(self, keeping: Keeping, seconds: float) -> AsyncIterator[Opened]:
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


class _Record:
    """The transaction that ends the put."""

    def __init__(
        self,
        owner: Owner,
        keeping: Keeping,
        kind: Recognized,
        said: Mapping[str, Any],
        facts: Facts,
    ) -> None:
        self._owner = owner
        self._keeping = keeping
        self._kind = kind
        self._said = said
        self._facts = facts

    async def beaten(self, connection: Connection) -> None:
        """A look without a lock, which would be held while the bytes travel to a bucket."""
        now = await repo.find(connection, self._keeping.generation.id)
        task = now.task(self._keeping.task.artifact_id) if now else None
        if task is None or task.status is not TaskStatus.STREAMING:
            raise Unwanted

    async def write(self, connection: Connection, landed: Landed) -> Change:
        keeping, owner = self._keeping, self._owner
        key = key_of(keeping.task.artifact_id)
        async with connection.transaction():
            await objects.put(connection, key, landed, self._facts, owner.clock.now_ms())
            now = await repo.lock(connection, keeping.generation.id)
            artifact = self._artifact(landed)
            change = self._decided(now, artifact)
            if now is None or change is None:
                raise Unwanted
            await owner.write(connection, now, change, artifact)
            await owner.write_end(connection, change, keeping.job)
        return change

    def _decided(self, now: Generation | None, artifact: Artifact) -> Change | None:
        if now is None:
            return None
        return stored(
            now,
            artifact.id,
            self._keeping.task.attempt,
            artifact.content_type,
            cost_of(self._said),
            artifact.created_at,
        )

    def _artifact(self, landed: Landed) -> Artifact:
        generation, task = self._keeping.generation, self._keeping.task
        return Artifact(
            id=task.artifact_id,
            organization=generation.organization,
            generation_id=generation.id,
            content_type=self._kind.content_type,
            size_bytes=landed.size,
            checksum=landed.sha256,
            metadata=metadata_of(generation, task, self._said, self._kind),
            created_at=self._owner.clock.now_ms(),
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
