"""The operator's page: what waits, what fails, what is stuck, and what gave up."""

import json
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.guard import AsOperator
from safelight.errors import SafelightError
from safelight.http.frame import QueueDep, services
from safelight.http.paging import LARGEST, Cursors
from safelight.infra.injected import Clock
from safelight.infra.queue.dead_letters import AT_ONCE
from safelight.infra.queue.jobs import DeadLetter, HourCount, KindStatus
from safelight.infra.queue.queue import Queue
from safelight.ingest.nodes.give_up import Nodes
from safelight.ingest.nodes.routes import NodesDep
from safelight.objects.notifications import repo as notifications
from safelight.objects.notifications.notice import Confirmation
from safelight.submissions.lifecycle import SubmissionState
from safelight.submissions.recovery.decide import Tempo
from safelight.submissions.recovery.failures import FailureClass
from safelight.submissions.recovery.records import to_ms
from safelight.submissions.recovery.recover import StuckSubmission, stuck, timeouts
from safelight.web.charts import BarPart, Chart, Hour, draw
from safelight.web.machines import MachineRow, alarm
from safelight.web.publishing import duration
from safelight.web.rendering import Context, Pages, PagesDep

router = APIRouter(include_in_schema=False)

PER_PAGE = 25
LOOK_AGAIN_MS = 3000
TALL, LOW = 64.0, 18.0
CLASSES = {
    FailureClass.SCAN_TIMEOUT: "Too slow",
    FailureClass.MODEL_ERROR: "Model",
    FailureClass.STORAGE_ERROR: "Storage",
    FailureClass.NETWORK_ERROR: "Network",
    FailureClass.UNKNOWN: "Unknown",
}
PURPOSE = "queue-page"
Count = Annotated[int | None, Query(ge=0, le=LARGEST)]


@dataclass(frozen=True, slots=True)
class KindRow:
    status: KindStatus

    @property
    def oldest(self) -> str:
        seconds = self.status.oldest_seconds
        return "" if seconds is None else duration(seconds)

    @property
    def numbers(self) -> tuple[tuple[str, int], ...]:
        row = self.status
        return (("queued", row.queued), ("running", row.running), ("delayed", row.delayed))


@dataclass(frozen=True, slots=True)
class Failures:
    """The timeouts of one class."""

    classification: FailureClass
    word: str
    count: int
    average: str
    chart: Chart


@dataclass(frozen=True, slots=True)
class Stuck:
    submission_id: str
    stage: SubmissionState
    stuck_for: str
    trouble: str
    attempt: int
    next_retry: int | None


@dataclass(frozen=True, slots=True)
class Letter:
    letter: DeadLetter

    @property
    def payload(self) -> str:
        return json.dumps(self.letter.payload, indent=2, ensure_ascii=False)


@dataclass(frozen=True, kw_only=True)
class QueuePage(Context):
    template: ClassVar[str] = "queue.html"
    title: str = "Queue"
    machines: list[MachineRow]
    kinds: list[KindRow]
    throughput: Chart
    done: HourCount  # of all hours together
    failures: list[Failures]
    stuck: list[Stuck]
    confirmations: list[Confirmation]
    letters: list[Letter]
    more: str | None
    newest: bool
    cursor: str | None
    now: int
    problem: str | None = None
    settled: str | None = None
    look_again: ClassVar[int] = LOOK_AGAIN_MS
    at_once: ClassVar[int] = AT_ONCE

    @property
    def given_up(self) -> list[KindStatus]:
        """The kinds that have dead letters."""
        return [row.status for row in self.kinds if row.status.dead_letters]

    @property
    def alarm(self) -> str | None:
        return alarm(self.machines)

    @property
    def here(self) -> str:
        return "/admin/queue" + (f"?cursor={self.cursor}" if self.cursor else "")


@router.get("/admin/queue")
async def queue_page(
    request: Request,
    caller: AsOperator,
    pages: PagesDep,
    cursor: str | None = None,
    redriven: Count = None,
    discarded: Count = None,
    remaining: Count = 0,
) -> Response:
    del caller
    page = await _page(request, cursor)
    if redriven is not None:
        page = replace(page, settled=f"{redriven} redriven, {remaining} of that kind remain.")
    elif discarded is not None:
        page = replace(page, settled=f"{discarded} discarded, {remaining} of that kind remain.")
    return await pages.render(request, page)


@router.post("/admin/queue/dead-letters/redrive")
async def redrive_all_by_form(
    caller: AsOperator, queue: QueueDep, kind: Annotated[str, Query(max_length=100)]
) -> Response:
    done = await queue.dead_letters.redrive_all(kind=kind, actor=caller.as_actor())
    counts = f"redriven={done.settled}&remaining={done.remaining}"
    return RedirectResponse(f"/admin/queue?{counts}", 303)


@router.post("/admin/queue/dead-letters/discard")
async def discard_all_by_form(
    caller: AsOperator, queue: QueueDep, kind: Annotated[str, Query(max_length=100)]
) -> Response:
    done = await queue.dead_letters.discard_all(kind=kind, actor=caller.as_actor())
    counts = f"discarded={done.settled}&remaining={done.remaining}"
    return RedirectResponse(f"/admin/queue?{counts}", 303)


@router.post("/admin/queue/dead-letters/{job_id}/redrive")
async def redrive_by_form(
    job_id: int, request: Request, caller: AsOperator, pages: PagesDep, queue: QueueDep
) -> Response:
    verb = queue.dead_letters.redrive(job_id, actor=caller.as_actor())
    return await _done(request, pages, verb)


@router.post("/admin/queue/dead-letters/{job_id}/discard")
async def discard_by_form(
    job_id: int, request: Request, caller: AsOperator, pages: PagesDep, queue: QueueDep
) -> Response:
    verb = queue.dead_letters.discard(job_id, actor=caller.as_actor())
    return await _done(request, pages, verb)


@router.post("/admin/queue/nodes/{node_id}/give-up")
async def give_up_by_form(
    node_id: str,
    request: Request,
    caller: AsOperator,
    pages: PagesDep,
    nodes: NodesDep,
    uploads: Annotated[int, Query(ge=0, le=2**60)],
) -> Response:
    verb = nodes.give_up(node_id, uploads, caller.as_actor())
    return await _done(request, pages, verb)


async def _done(request: Request, pages: Pages, verb: Awaitable[object]) -> Response:
    try:
        await verb
    except SafelightError as error:
        return await pages.render(request, await _page(request, None, error.message), error.status)
    return RedirectResponse("/admin/queue", 303)


async def _page(request: Request, cursor: str | None, problem: str | None = None) -> QueuePage:
    registry = services(request)
    queue, now = registry.get(Queue), registry.get(Clock).now_ms()
    letters, more = await _letters(queue, registry.get(Cursors), cursor)
    hours = await queue.throughput()
    return QueuePage(
        machines=[MachineRow(node, now) for node in await registry.get(Nodes).all()],
        kinds=[KindRow(row) for row in await queue.status()],
        throughput=draw([_worked(row) for row in hours], TALL),
        done=_sum(hours),
        failures=_failures(await timeouts(queue.db, now), [row.hour for row in hours]),
        stuck=[_stuck(row) for row in await stuck(queue.db, now, registry.get(Tempo))],
        confirmations=await notifications.confirmations(queue.db, now),
        letters=letters,
        more=more,
        newest=cursor is None,
        cursor=cursor,
        now=now,
        problem=problem,
    )


async def _letters(
    queue: Queue, cursors: Cursors, cursor: str | None
) -> tuple[list[Letter], str | None]:
    """And the cursor of what follows."""
    before = cursors.read(PURPOSE, cursor)
    place = (before[0], before[1]) if before else None
    found = await queue.dead_letters.page(before=place, limit=PER_PAGE)
    letters = [Letter(letter) for letter in found[:PER_PAGE]]
    is_more = len(found) > PER_PAGE
    return letters, cursors.make(PURPOSE, letters[-1].letter.cursor) if is_more else None


def _worked(row: HourCount) -> Hour:
    counts = (("processed", row.processed), ("retried", row.retried), ("failed", row.failed))
    return Hour(row.hour, tuple(BarPart(kind, count) for kind, count in counts))


def _sum(rows: list[HourCount]) -> HourCount:
    return HourCount(
        0,
        processed=sum(row.processed for row in rows),
        failed=sum(row.failed for row in rows),
        retried=sum(row.retried for row in rows),
    )


def _failures(told: dict[str, Any], hours: list[int]) -> list[Failures]:
    """Every class, also those that did not occur, on one scale."""
    counts = {(to_ms(row["hour"]), row["classification"]): row["count"] for row in told["hours"]}
    highest = max(counts.values(), default=0)
    shown = []
    for kind, word in CLASSES.items():
        bars = [Hour(hour, (BarPart("timeouts", counts.get((hour, kind), 0)),)) for hour in hours]
        total = told["totals"].get(kind, {"count": 0, "totalDurationMs": 0})
        shown.append(
            Failures(kind, word, total["count"], _average(total), draw(bars, LOW, highest))
        )
    return shown


def _average(total: dict[str, int]) -> str:
    return duration(total["totalDurationMs"] / 1000 / total["count"]) if total["count"] else ""


def _stuck(row: StuckSubmission) -> Stuck:
    return Stuck(
        submission_id=row.id,
        stage=row.stage,
        stuck_for=duration(row.stuck_for_ms / 1000),
        trouble=CLASSES[row.classification] if row.classification else "",
        attempt=row.attempt,
        next_retry=row.next_retry_after,
    )
