"""The operator's page: what needs a person, what waits, what fails, and who works."""

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Caller
from safelight.accounts.guard import AsOperator
from safelight.classification.reclassify import repo as reclassifications
from safelight.classification.reclassify.lifecycle import Reclassification
from safelight.errors import SafelightError
from safelight.http.frame import QueueDep, provided, services
from safelight.http.paging import LARGEST, Cursors
from safelight.infra.injected import Clock
from safelight.infra.queue.jobs import HourCount
from safelight.infra.queue.queue import Queue
from safelight.ingest.nodes.give_up import Nodes
from safelight.ingest.nodes.routes import NodesDep
from safelight.objects.notifications import repo as notifications
from safelight.objects.notifications.notice import Confirmation
from safelight.settings import Settings
from safelight.submissions.recovery.by_hand import ByHand
from safelight.submissions.recovery.decide import Tempo
from safelight.submissions.recovery.recover import timeouts
from safelight.web.charts import Chart, draw
from safelight.web.letters.read import LetterReads, WhichDep, WhichLetters
from safelight.web.letters.shown import Letters, settled_in_words
from safelight.web.machines import MachineRow, alarm
from safelight.web.operations.read import Operations, disk
from safelight.web.operations.shown import (
    TALL,
    FailureRow,
    FigureTile,
    KindRow,
    ScheduleRow,
    StuckRow,
    WorkerShown,
    failures,
    in_all,
    tiles,
    worked,
)
from safelight.web.rendering import Context, Pages, PagesDep

router = APIRouter(include_in_schema=False)

LOOK_AGAIN_MS = 3000
Count = Annotated[int | None, Query(ge=0, le=LARGEST)]
ByHandDep = Annotated[ByHand, provided(ByHand)]


@dataclass(frozen=True, kw_only=True)
class QueuePage(Context):
    template: ClassVar[str] = "queue.html"
    title: str = "Operations"
    machines: list[MachineRow]
    tiles: list[FigureTile]
    kinds: list[KindRow]
    throughput: Chart
    done: HourCount  # of all hours together
    failures: list[FailureRow]
    stuck: list[StuckRow]
    schedules: list[ScheduleRow]
    workers: list[WorkerShown]
    anew: list[Reclassification]
    confirmations: list[Confirmation]
    letters: Letters
    which: WhichLetters
    now: int
    problem: str | None = None
    settled: str | None = None
    look_again: ClassVar[int] = LOOK_AGAIN_MS

    @property
    def alarm(self) -> str | None:
        return alarm(self.machines)

    @property
    def is_staffed(self) -> bool:
        return any(worker.row.present for worker in self.workers)

    @property
    def calm(self) -> bool:
        """Nothing needs a person."""
        lacks = self.letters.groups or self.stuck or self.schedules or self.confirmations
        return not lacks and self.alarm is None and self.is_staffed

    @property
    def here(self) -> str:
        shown = self.letters
        return "/admin/queue" + (shown.groups[0].query if shown.alone and shown.groups else "")


@router.get("/admin/queue")
async def queue_page(
    request: Request,
    caller: AsOperator,
    pages: PagesDep,
    which: WhichDep,
    redriven: Count = None,
    discarded: Count = None,
    remaining: Count = 0,
) -> Response:
    said = settled_in_words(redriven, discarded, remaining or 0)
    return await pages.render(request, await _page(request, caller, which, settled=said))


@router.post("/admin/queue/dead-letters/redrive")
async def redrive_all_by_form(caller: AsOperator, queue: QueueDep, which: WhichDep) -> Response:
    done = await queue.dead_letters.redrive_all(
        kind=which.kind, code=which.code, actor=caller.as_actor()
    )
    counts = f"redriven={done.settled}&remaining={done.remaining}"
    return RedirectResponse(f"/admin/queue?{counts}", 303)


@router.post("/admin/queue/dead-letters/discard")
async def discard_all_by_form(caller: AsOperator, queue: QueueDep, which: WhichDep) -> Response:
    done = await queue.dead_letters.discard_all(
        kind=which.kind, code=which.code, actor=caller.as_actor()
    )
    counts = f"discarded={done.settled}&remaining={done.remaining}"
    return RedirectResponse(f"/admin/queue?{counts}", 303)


@router.post("/admin/queue/dead-letters/{job_id}/redrive")
async def redrive_by_form(
    job_id: int, request: Request, caller: AsOperator, pages: PagesDep, queue: QueueDep
) -> Response:
    verb = queue.dead_letters.redrive(job_id, actor=caller.as_actor())
    return await _done(request, caller, pages, verb)


@router.post("/admin/queue/dead-letters/{job_id}/discard")
async def discard_by_form(
    job_id: int, request: Request, caller: AsOperator, pages: PagesDep, queue: QueueDep
) -> Response:
    verb = queue.dead_letters.discard(job_id, actor=caller.as_actor())
    return await _done(request, caller, pages, verb)


@router.post("/admin/queue/submissions/{submission_id}/try")
async def try_submission_by_form(
    submission_id: str, request: Request, caller: AsOperator, pages: PagesDep, by_hand: ByHandDep
) -> Response:
    verb = by_hand.try_now(submission_id, caller.as_actor())
    return await _done(request, caller, pages, verb)


@router.post("/admin/queue/submissions/{submission_id}/give-up")
async def give_up_submission_by_form(
    submission_id: str, request: Request, caller: AsOperator, pages: PagesDep, by_hand: ByHandDep
) -> Response:
    verb = by_hand.give_up(submission_id, caller.as_actor())
    return await _done(request, caller, pages, verb)


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
    return await _done(request, caller, pages, verb)


async def _done(
    request: Request, caller: Caller, pages: Pages, verb: Awaitable[object]
) -> Response:
    try:
        await verb
    except SafelightError as error:
        page = await _page(request, caller, WhichLetters(), problem=error.message)
        return await pages.render(request, page, error.status)
    return RedirectResponse("/admin/queue", 303)


async def _page(
    request: Request,
    caller: Caller,
    which: WhichLetters,
    *,
    problem: str | None = None,
    settled: str | None = None,
) -> QueuePage:
    find = services(request).get
    queue, now, visible = find(Queue), find(Clock).now_ms(), caller.organizations
    nodes, hours = await find(Nodes).all(), await queue.throughput()
    reads = Operations(queue, find(Clock), find(Tempo), {one.id: one for one in nodes}, visible)
    kinds, done = await reads.kinds(), in_all(hours)
    letters = LetterReads(queue, find(Cursors), None, visible)
    room = await disk(find(Settings).ingest_path)
    return QueuePage(
        machines=[MachineRow(node, now) for node in nodes],
        tiles=tiles([row.status for row in kinds], done, room),
        kinds=kinds,
        throughput=draw([worked(row) for row in hours], TALL),
        done=done,
        failures=failures(await timeouts(queue.db, now), [row.hour for row in hours]),
        stuck=await reads.stuck(),
        schedules=await reads.schedules(),
        workers=await reads.workers(),
        anew=await reclassifications.all_running(queue.db),
        confirmations=await notifications.confirmations(queue.db, now),
        letters=await letters.all(which),
        which=which,
        now=now,
        problem=problem,
        settled=settled,
    )
