"""What the person who runs this looks at: health, readiness and metrics (health/), the API's
description, queues and dead letters (the instance's for operators, an organization's own for its
admins)."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import JSONResponse

from safelight.accounts.describe import describe
from safelight.accounts.guard import (
    AsAdmin,
    AsAnyone,
    AsOperator,
    guarded_routes,
)
from safelight.admin.answers import (
    DeadLetterAnswer,
    DiscardedAnswer,
    QueueMetricsAnswer,
    QueueStatusAnswer,
    RedrivenAnswer,
    SettledAnswer,
)
from safelight.admin.health.routes import router as health
from safelight.http.described import Described, PageOf
from safelight.http.frame import ClockDep, QueueDep, provided
from safelight.http.paging import Cursors, CursorsDep, PageRequest, page
from safelight.infra.injected import iso
from safelight.infra.queue.jobs import DeadLetter
from safelight.infra.queue.queue import Queue
from safelight.submissions.recovery.decide import Tempo
from safelight.submissions.recovery.recover import stuck, timeouts

router = APIRouter(tags=["operator"], route_class=Described)
router.include_router(health)

KindFilter = Annotated[str | None, Query(max_length=100, description="Only of this job kind.")]
Everything = Annotated[
    str | None, Query(alias="organizationId", max_length=64, description="Only this one's.")
]


@router.get("/api/openapi.json", summary="This description", include_in_schema=False)
async def openapi(request: Request, caller: AsAnyone) -> dict[str, Any]:
    del caller  # any signed-in caller may read it
    return describe(request.app.openapi(), guarded_routes(request.app))


@router.get(
    "/api/v1/admin/queue/metrics",
    summary="What the queues did, hour by hour",
    response_model=QueueMetricsAnswer,
)
async def queue_metrics(caller: AsOperator, queue: QueueDep, clock: ClockDep) -> dict[str, Any]:
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


@router.get(
    "/api/v1/admin/queue/status",
    summary="What waits, runs and is stuck now",
    response_model=QueueStatusAnswer,
)
async def queue_status(
    caller: AsOperator, queue: QueueDep, clock: ClockDep, tempo: Annotated[Tempo, provided(Tempo)]
) -> dict[str, Any]:
    del caller
    queues = [
        {
            "name": row.name,
            "queued": row.queued,
            "running": row.running,
            "delayed": row.delayed,
            "away": row.away,
            "deadLetters": row.dead_letters,
            "oldestSeconds": row.oldest_seconds,
        }
        for row in await queue.status()
    ]
    found = await stuck(queue.db, clock.now_ms(), tempo)
    return {"queues": queues, "stuck": [row.to_json() for row in found]}


@router.get(
    "/api/v1/admin/dead-letters",
    summary="Everybody's dead letters, latest first",
    response_model=PageOf[DeadLetterAnswer],
)
async def all_dead_letters(
    caller: AsOperator,
    queue: QueueDep,
    cursors: CursorsDep,
    wanted: PageRequest,
    kind: KindFilter = None,
    organization: Everything = None,
) -> dict[str, Any]:
    del caller
    return await _listed(queue, cursors, wanted, organization, kind)


@router.post(
    "/api/v1/admin/dead-letters/{job_id}/redrive",
    summary="Run one again, whoever's it is",
    status_code=202,
    response_model=SettledAnswer,
)
async def redrive_any(job_id: int, caller: AsOperator, queue: QueueDep) -> Response:
    """Runs a dead job again, at once and with a full budget."""
    await queue.dead_letters.redrive(job_id, actor=caller.as_actor())
    return JSONResponse({"id": job_id}, 202)


@router.post(
    "/api/v1/admin/dead-letters/{job_id}/discard",
    summary="Give one up, whoever's it is",
    response_model=SettledAnswer,
)
async def discard_any(job_id: int, caller: AsOperator, queue: QueueDep) -> dict[str, Any]:
    """Gives a dead job up for good."""
    await queue.dead_letters.discard(job_id, actor=caller.as_actor())
    return {"id": job_id}


@router.post(
    "/api/v1/admin/dead-letters/redrive",
    summary="Run everybody's again",
    status_code=202,
    response_model=RedrivenAnswer,
)
async def redrive_all(
    caller: AsOperator,
    queue: QueueDep,
    kind: KindFilter = None,
    organization: Everything = None,
) -> Response:
    """Runs dead jobs again: up to 200. Ask again while some remain and some were redriven; one of
    which a newer twin waits or runs stays."""
    done = await queue.dead_letters.redrive_all(
        kind=kind, organization=organization, actor=caller.as_actor()
    )
    return JSONResponse({"redriven": done.settled, "remaining": done.remaining}, 202)


@router.post(
    "/api/v1/admin/dead-letters/discard",
    summary="Give everybody's up",
    response_model=DiscardedAnswer,
)
async def discard_all(
    caller: AsOperator,
    queue: QueueDep,
    kind: KindFilter = None,
    organization: Everything = None,
) -> dict[str, int]:
    """Gives dead jobs up for good: up to 200. Ask again while some remain."""
    done = await queue.dead_letters.discard_all(
        kind=kind, organization=organization, actor=caller.as_actor()
    )
    return {"discarded": done.settled, "remaining": done.remaining}


@router.get(
    "/api/organizations/{org}/dead-letters",
    summary="This organization's dead letters",
    response_model=PageOf[DeadLetterAnswer],
)
async def own_dead_letters(
    access: AsAdmin,
    queue: QueueDep,
    cursors: CursorsDep,
    wanted: PageRequest,
    kind: KindFilter = None,
) -> dict[str, Any]:
    return await _listed(queue, cursors, wanted, access.organization, kind)


@router.post(
    "/api/organizations/{org}/dead-letters/{job_id}/redrive",
    summary="Run one again",
    status_code=202,
    response_model=SettledAnswer,
)
async def redrive_own(job_id: int, access: AsAdmin, queue: QueueDep) -> Response:
    """Runs a dead job again, at once and with a full budget."""
    actor = access.caller.as_actor()
    await queue.dead_letters.redrive(job_id, organization=access.organization, actor=actor)
    return JSONResponse({"id": job_id}, 202)


@router.post(
    "/api/organizations/{org}/dead-letters/{job_id}/discard",
    summary="Give one up",
    response_model=SettledAnswer,
)
async def discard_own(job_id: int, access: AsAdmin, queue: QueueDep) -> dict[str, Any]:
    """Gives a dead job up for good."""
    actor = access.caller.as_actor()
    await queue.dead_letters.discard(job_id, organization=access.organization, actor=actor)
    return {"id": job_id}


@router.post(
    "/api/organizations/{org}/dead-letters/redrive",
    summary="Run this organization's again",
    status_code=202,
    response_model=RedrivenAnswer,
)
async def redrive_all_own(access: AsAdmin, queue: QueueDep, kind: KindFilter = None) -> Response:
    """Runs this organization's dead jobs again: up to 200. Ask again while some remain and some
    were redriven; one of which a newer twin waits or runs stays."""
    done = await queue.dead_letters.redrive_all(
        kind=kind, organization=access.organization, actor=access.caller.as_actor()
    )
    return JSONResponse({"redriven": done.settled, "remaining": done.remaining}, 202)


@router.post(
    "/api/organizations/{org}/dead-letters/discard",
    summary="Give this organization's up",
    response_model=DiscardedAnswer,
)
async def discard_all_own(
    access: AsAdmin, queue: QueueDep, kind: KindFilter = None
) -> dict[str, int]:
    """Gives this organization's dead jobs up for good: up to 200. Ask again while some remain."""
    done = await queue.dead_letters.discard_all(
        kind=kind, organization=access.organization, actor=access.caller.as_actor()
    )
    return {"discarded": done.settled, "remaining": done.remaining}


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
    return page(rows, limit, show_dead_letter, lambda row: cursors.make(purpose, row.cursor))


def show_dead_letter(letter: DeadLetter) -> dict[str, Any]:
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
