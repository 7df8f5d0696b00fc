"""The library with every move in the test's hands.

Jobs are claimed, run, lost, taken over and ended one at a time, by the same statements a worker
uses; people upload and delete; buckets tell, late and repeatedly.
"""

import asyncio
import hashlib
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import obstore

from library.scripted import Mood
from library.services import Services
from library.story import CountedIds, Notice, Story, Thought, numbers, outside
from safelight.infra import failpoints
from safelight.infra.failpoints import FailpointError
from safelight.infra.history import Line
from safelight.infra.queue import repo as queue_repo
from safelight.infra.queue.dead_letters import TwinAlive
from safelight.infra.queue.jobs import Dead, Job, JobOutcome
from safelight.infra.queue.ledger import Ledger, outcome_of
from safelight.ingest import repo as ingest_repo
from safelight.ingest.jobs import OFFLOAD, PUT_BACK, OffloadPayload
from safelight.ingest.lifecycle import Image, ImageStatus, Recordable
from safelight.library import repo as library_repo
from safelight.objects import repo as objects_repo
from safelight.objects.jobs import DELIVER, DeliverPayload
from safelight.objects.store import NoSuchObject

T = TypeVar("T")

ACTOR = {"type": "user", "name": "ada"}
DAY_MS = 86_400_000


class World(Services):
    async def begin(self, *, employed: bool = False) -> Story:
        """A new organization, in which nothing has happened. `employed`: there is a worker here
        that takes at once what follows from what it does: deliveries, or on the short road offloads
        and runs."""
        self.story = Story(f"org-{next(numbers)}")
        self.ids = CountedIds()
        self.classifier.mood = "answer"
        self.classifier.asked.clear()
        self.queue.employ(self.story.held.append if employed else None)
        self._forget()
        own = await self.own()
        await own.execute(
            "WITH left_over AS (DELETE FROM jobs) "
            "INSERT INTO organizations (id, created_at) VALUES ($1, 0)",
            self.story.organization,
        )
        return self.story

    @property
    def organization(self) -> str:
        return self.story.organization

    def _forget(self) -> None:
        """What a process knows of what it has just written."""
        self.deliver._fresh.clear()
        self.offload.fresh.clear()

    def tick(self, ms: int) -> None:
        assert self.clock.ms is not None
        self.clock.ms += ms

    # What people and stores do

    async def receive(self, name: str, content: bytes) -> Image:
        """What an accepted upload leaves: file, row, history and job."""
        now = self.clock.now_ms()
        image_id = self.ids.image(now)
        if self.there:  # its etags say no more than the bytes do
            content += image_id.encode()
        path = self.directory.path / f"{image_id}.jpg"
        path.write_bytes(content)
        image = Image(
            id=image_id, organization=self.organization, name=name,
            idempotency_key=self.ids.uuid4(), status=ImageStatus.INGESTED, temp_path=str(path),
            checksum=hashlib.sha256(content).hexdigest(), mime_type="image/jpeg", width=3, height=2,
            size_bytes=len(content), created_at=now, updated_at=now,
        )  # fmt: skip
        entry = Line(f"image:{image_id}", "upload_ingested", {}, also=f"upload:{name}")
        await self._record(image, entry)
        self.story.images.append(image)
        self.story.contents[image.idempotency_key] = content
        return image

    async def _record(self, image: Image, line: Line) -> None:
        node, lease = self.directory.node, self.queue.lease
        if not self.short:
            async with self.db.connection() as connection:
                upload = Recordable(image, [line])
                await ingest_repo.record_uploads(connection, [upload], node, image.created_at)
            return
        with self.queue.units.place(OFFLOAD, image.organization) as place:
            async with self.db.connection() as connection:
                upload = Recordable(image, [line], place.lessee)
                (job,) = await ingest_repo.record_uploads(
                    connection, [upload], node, image.created_at, lease
                )
            self.offload.fresh.remember(image.id, image)
            place.take(job, OffloadPayload(image.id))

    def take_away(self, image: Image) -> None:
        """Its file, before it reached the store: nothing can bring that back."""
        Path(image.temp_path).unlink(missing_ok=True)
        self.story.damaged.add(image.id)

    async def delete(self, name: str, crash: str | None = None) -> bool:
        """Whether it was answered: a crash means that it was not."""
        before = await self.peek(name)
        try:
            await self.at(crash, self.deletion.request(self.organization, name, ACTOR))
        except FailpointError:
            await self._watch(name, before)
            return False
        self.story.deletes[name] = len(self.story.images)
        await self._watch(name, before)
        return True

    async def expire(self, name: str) -> None:
        """The bucket's own rule, or somebody else's tool, removes an object."""
        before = await self.peek(name)
        if before is not None:
            self.tick(1000)
            await obstore.delete_async(self.bucket, f"{self.organization}/{name}")
            await self._watch(name, before)

    async def peek(self, name: str) -> str | None:
        """The eTag that a telling bucket holds."""
        if not self.telling:
            return None
        try:
            return (await self.store.head(f"{self.organization}/{name}")).etag
        except NoSuchObject:
            return None

    async def _watch(self, name: str, before: str | None) -> None:
        """A telling bucket tells of what changed."""
        after = await self.peek(name)
        if after != before:
            self.story.notices.append(Notice(self.notice(name, after)))

    def notice(self, name: str, etag: str | None) -> dict[str, Any]:
        self.story.sequence += 1
        key, time = f"{self.organization}/{name}", self.clock.now_ms()
        return outside(
            self.story.dialect, key, time, etag, self.story.sequence, deleted=etag is None
        )

    async def tell(self, *bodies: dict[str, Any]) -> None:
        taken = await self.intake.take(list(bodies))
        self.story.deliveries += taken.accepted

    async def send(self, *notices: Notice) -> None:
        """What the bucket has to say reaches us, perhaps not for the first time."""
        if notices:
            await self.tell(*(notice.body for notice in notices))
        for notice in notices:
            notice.sent = True

    def lose_notice(self, nth: int) -> bool:
        """Whether the bucket had one to tell, which nobody will hear now."""
        unsent = [notice for notice in self.story.notices if not notice.sent]
        if unsent:
            self.story.notices.remove(unsent[nth % len(unsent)])
        return bool(unsent)

    async def send_the_rest(self) -> None:
        await self.send(*(notice for notice in self.story.notices if not notice.sent))

    async def event(self, nth: int) -> asyncpg.Record | None:
        """One of those that were recorded."""
        own = await self.own()
        row: asyncpg.Record | None = await own.fetchrow(
            """
            WITH event AS (
                SELECT *, row_number() OVER (ORDER BY id) - 1 AS n, count(*) OVER () AS total
                FROM object_events WHERE organization = $1
            )
            SELECT * FROM event WHERE n = $2 % total
            """,
            self.organization,
            nth,
        )
        return row

    async def again(self, nth: int) -> None:
        """A recorded event is delivered once more, whether or not it was before."""
        if event := await self.event(nth):
            name = event["key"].partition("/")[2]
            await self.queue.enqueue(
                self.db, DELIVER, DeliverPayload(event["id"], name), organization=self.organization
            )
            self.story.deliveries += 1

    # A worker's hands

    async def claim(self, nth: int = 0, kind: str | None = None) -> Job[Any] | None:
        """One of the jobs that wait, also for a later time; -1 is the last."""
        own = await self.own()
        row = await own.fetchrow(
            """
            WITH waiting AS (
                SELECT id, row_number() OVER (ORDER BY id) - 1 AS n, count(*) OVER () AS total
                FROM jobs WHERE organization = $1 AND status IN ('queued', 'delayed')
                  AND kind = coalesce($2, kind)
            )
            UPDATE jobs SET status = 'running', owner = 'world', claim = claim + 1,
                   attempts = attempts + 1, lease = '1 hour', lease_until = now() + interval '1 hour'
            FROM waiting WHERE jobs.id = waiting.id AND n = (total + $3) % total
            RETURNING jobs.*
            """,
            self.organization,
            kind,
            nth,
        )
        return None if row is None else Job.load(self.handlers[row["kind"]].kind, row)

    async def claim_all(self) -> list[Job[Any]]:
        own = await self.own()
        rows = await own.fetch(
            """
            UPDATE jobs SET status = 'running', owner = 'world', claim = claim + 1,
                   attempts = attempts + 1, lease = '1 hour', lease_until = now() + interval '1 hour'
            WHERE organization = $1 AND status IN ('queued', 'delayed')
            RETURNING *
            """,
            self.organization,
        )
        return [Job.load(self.handlers[row["kind"]].kind, row) for row in rows]

    async def work(
        self, job: Job[Any], *, crash: str | None = None, lost: bool = False
    ) -> JobOutcome:
        """From the claim to the end. `crash` is the failpoint that ends the attempt; `lost`: the
        worker dies before it can write the outcome."""
        before = await self._before(job)
        outcome = await self.at(crash, self._attempt(job, lost=lost))
        if before is not None:
            await self._watch(*before)
        return outcome

    async def _attempt(self, job: Job[Any], *, lost: bool) -> JobOutcome:
        if job.exhausted:
            outcome: JobOutcome = Dead(job.last_words)
        else:
            task = asyncio.ensure_future(self.handlers[job.kind.name].handle(job))
            await asyncio.wait([task])
            outcome = outcome_of(job, task, stopping=False)
        if not lost:
            await self.write(job, outcome)
        return outcome

    async def _before(self, job: Job[Any]) -> tuple[str, str | None] | None:
        if not self.telling or job.kind is not OFFLOAD:
            return None
        name = self.name_of(job)
        return name, await self.peek(name)

    def name_of(self, job: Job[Any]) -> str:
        if job.kind in (OFFLOAD, PUT_BACK):
            return next(i.name for i in self.story.images if i.id == job.payload.imageId)
        return str(job.payload.name)

    async def write(self, job: Job[Any], outcome: JobOutcome) -> None:
        """As a worker does; with a ledger of its own, since each stands for another process."""
        ledger = Ledger(self.db, self.queue, self.handlers)
        if ledger.add(job, outcome):
            await ledger.write_outcomes()

    async def think(self, job: Job[Any]) -> Thought | None:
        """Runs a classification until the model has the image; none when it ends before."""
        self.classifier.mood = "wait"
        task = asyncio.ensure_future(self.handlers[job.kind.name].handle(job))
        asked = asyncio.ensure_future(self.classifier.waiting.get())
        await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
        self.classifier.mood = "answer"
        if not asked.done():
            asked.cancel()
            await self.write(job, outcome_of(job, task, stopping=False))
            return None
        thought = Thought(job, task, asked.result())
        self.story.thoughts.append(thought)
        return thought

    async def conclude(self, thought: Thought, mood: Mood, *, lost: bool = False) -> JobOutcome:
        """The model answers, perhaps long after somebody else took the job."""
        self.story.thoughts.remove(thought)
        thought.gate.set_result(mood)
        await asyncio.wait([thought.task])
        outcome = outcome_of(thought.job, thought.task, stopping=False)
        if not lost:
            await self.write(thought.job, outcome)
        return outcome

    async def end_leases(self) -> None:
        """Whoever holds a job is late from now on."""
        own = await self.own()
        ended = await own.fetch(
            "UPDATE jobs SET lease_until = now() - interval '1 second' "
            "WHERE organization = $1 AND status = 'running' RETURNING 1",
            self.organization,
        )
        if ended:
            await queue_repo.tend(self.db, list(self.handlers), self.directory.node, [])

    async def restart(self) -> None:
        """The process dies, with all that it knew, and another takes its place."""
        for thought in self.story.thoughts:
            thought.task.cancel()
        if self.story.thoughts:
            await asyncio.wait([thought.task for thought in self.story.thoughts])
        self.story.thoughts.clear()
        self.story.held.clear()
        self._forget()
        await self.end_leases()

    async def dead_letters(self) -> list[int]:
        letters = await self.queue.dead_letters.page(organization=self.organization, limit=1000)
        return sorted(letter.id for letter in letters)

    async def redrive(self, letter: int) -> bool:
        try:
            await self.queue.dead_letters.redrive(letter, organization=self.organization)
        except TwinAlive:
            return False
        return True

    async def lose(self, nth: int) -> None:
        """A delivery or a run is gone from the queue, as nothing of ours would take it away."""
        own = await self.own()
        kind = await own.fetchval(
            """
            WITH waiting AS (
                SELECT id, row_number() OVER (ORDER BY id) - 1 AS n, count(*) OVER () AS total
                FROM jobs WHERE organization = $1 AND status IN ('queued', 'delayed')
                  AND kind IN ('objects.deliver', 'classification.run')
            )
            DELETE FROM jobs USING waiting WHERE jobs.id = waiting.id AND n = $2 % total
            RETURNING kind
            """,
            self.organization,
            nth,
        )
        self.story.deliveries -= kind == "objects.deliver"  # which nobody will tell of

    async def look(self) -> int:
        """This organization is compared with the store, and put right. A bucket's objects are dated
        to the second, so it is not looked at in the second of its last change."""
        self.tick(1000 if self.telling else 0)
        repaired = 0
        async for report in self.reconcile.compare(self.organization, repair=True, afresh=True):
            repaired = report.repaired
        return repaired

    async def retain(self, days: int) -> None:
        """Time passes, and what is old enough is forgotten."""
        self.tick(days * DAY_MS)
        self.story.forgotten = True
        now = self.clock.now_ms()
        await objects_repo.purge_deleted(self.db, now - 30 * DAY_MS)
        await library_repo.purge_tombstones(self.db, now - 14 * DAY_MS)

    async def drain(self, *, backwards: bool = False) -> None:
        """Everything is told and done, over and over, until nothing is left to do."""
        await self.send_the_rest()
        await self.end_leases()
        while jobs := await self.claim_all():
            for job in sorted(jobs, key=lambda job: job.id, reverse=backwards):
                await self.work(job)
            await self.send_the_rest()

    async def at(self, point: str | None, action: Awaitable[T]) -> T:
        """Does something while a failpoint is armed."""
        if point is None:
            return await action
        failpoints.arm(point, "raise")
        try:
            return await action
        finally:
            failpoints.disarm(point)
