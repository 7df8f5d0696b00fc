"""Queues and dead letters: the instance's for operators, an organization's own for its admins."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from starlette.responses import JSONResponse

from safelight.accounts.access import Caller, Role
from safelight.accounts.guard import Access, allow, operator_only
from safelight.http.paging import Cursors, PageRequest, page
from safelight.http.registry import provided
from safelight.infra.injected import Clock, iso
from safelight.infra.queue.jobs import DeadLetter
from safelight.infra.queue.queue import Queue
from safelight.submissions.recovery.decide import Tempo
from safelight.submissions.recovery.recover import stuck, timeouts

router = APIRouter(tags=["operator"])

ClockDep = Annotated[Clock, provided(Clock)]
QueueDep = Annotated[Queue, provided(Queue)]
CursorsDep = Annotated[Cursors, provided(Cursors)]
Operator = Annotated[Caller, operator_only()]
Admin = Annotated[Access, allow(Role.ADMIN)]
KindFilter = Annotated[str | None, Query(max_length=100, description="Only of this job kind.")]
Everything = Annotated[
    str | None, Query(alias="organizationId", max_length=64, description="Only this one's.")
]


@router.get("/api/v1/admin/queue/metrics", summary="What the queues did, hour by hour")
async def metrics(caller: Operator, queue: QueueDep, clock: ClockDep) -> dict[str, Any]:
    del caller
    hours = [
        {
            "hour": iso(row.hour),
            "processed": row.processed,
            "failed": row.failed,
            "retried": row.retried,
        }
        for row in await queue.throughput()
    ]
    return {
        "throughput": {"recentHours": hours},
        "timeouts": await timeouts(queue.db, clock.now_ms()),
    }


@router.get("/api/v1/admin/queue/status", summary="What waits, runs and is stuck now")
async def status(
    caller: Operator, queue: QueueDep, clock: ClockDep, tempo: Annotated[Tempo, provided(Tempo)]
) -> dict[str, Any]:
    del caller
    queues = [
        {
            "name": row.name,
            "queued": row.queued,
            "running": row.running,
            "delayed": row.delayed,
            "deadLetters": row.dead_letters,
            "oldestSeconds": row.oldest_seconds,
        }
        for row in await queue.status()
    ]
    found = await stuck(queue.db, clock.now_ms(), tempo)
    return {"queues": queues, "stuck": [row.to_json() for row in found]}


@router.get("/api/v1/admin/dead-letters", summary="Everybody's dead letters, latest first")
async def all_dead_letters(
    caller: Operator,
    queue: QueueDep,
    cursors: CursorsDep,
    wanted: PageRequest,
    kind: KindFilter = None,
    organization: Everything = None,
) -> dict[str, Any]:
    del caller
    return await _listed(queue, cursors, wanted, organization, kind)


@router.post("/api/v1/admin/dead-letters/{job_id}/redrive", status_code=202)
async def redrive_any(job_id: int, caller: Operator, queue: QueueDep) -> Response:
    """Runs a dead job again, at once and with a full budget."""
    await queue.dead_letters.redrive(job_id, actor=caller.as_actor())
    return JSONResponse({"id": job_id}, 202)


@router.post("/api/v1/admin/dead-letters/{job_id}/discard")
async def discard_any(job_id: int, caller: Operator, queue: QueueDep) -> dict[str, Any]:
    """Gives a dead job up for good."""
    await queue.dead_letters.discard(job_id, actor=caller.as_actor())
    return {"id": job_id}


@router.get("/api/organizations/{org}/dead-letters", summary="This organization's dead letters")
async def own_dead_letters(
    access: Admin,
    queue: QueueDep,
    cursors: CursorsDep,
    wanted: PageRequest,
    kind: KindFilter = None,
) -> dict[str, Any]:
    return await _listed(queue, cursors, wanted, access.organization, kind)


@router.post("/api/organizations/{org}/dead-letters/{job_id}/redrive", status_code=202)
async def redrive_own(job_id: int, access: Admin, queue: QueueDep) -> Response:
    """Runs a dead job again, at once and with a full budget."""
    actor = access.caller.as_actor()
    await queue.dead_letters.redrive(job_id, organization=access.organization, actor=actor)
    return JSONResponse({"id": job_id}, 202)


@router.post("/api/organizations/{org}/dead-letters/{job_id}/discard")
async def discard_own(job_id: int, access: Admin, queue: QueueDep) -> dict[str, Any]:
    """Gives a dead job up for good."""
    actor = access.caller.as_actor()
    await queue.dead_letters.discard(job_id, organization=access.organization, actor=actor)
    return {"id": job_id}


async def _listed(
    queue: Queue,
    cursors: Cursors,
    wanted: tuple[int, str | None],
    organization: str | None,
    kind: str | None,
) -> dict[str, Any]:
    limit, cursor = wanted
    purpose = f"dead-letters:{organization}"
    before = cursors.read(purpose, cursor)
    rows = await queue.dead_letters.page(
        organization=organization,
        kind=kind,
        before=(before[0], before[1]) if before else None,
        limit=limit,
    )
    return page(rows, limit, show, lambda row: cursors.make(purpose, row.cursor))


def show(letter: DeadLetter) -> dict[str, Any]:
    kind, _, name = (letter.subject or "").partition(":")
    return {
        "id": letter.id,
        "kind": letter.kind,
        "organizationId": letter.organization,
        "subject": {"type": kind, "id": name} if letter.subject else None,
        "error": letter.error,
        "attempts": letter.attempts,
        "firstAt": iso(letter.first_at),
        "diedAt": iso(letter.died_at),
        "payload": letter.payload,
    }
