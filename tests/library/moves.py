"""Everything that may happen to a library, one move at a time, each followed by its check."""

import asyncio
from dataclasses import replace
from typing import Any

from library.arriving import arrive, landed
from library.scripted import Mood
from library.story import Story, Thought, outside
from library.truth import check_end, check_step
from library.world import World
from objects.stores import digest
from points import points_of
from safelight.infra.queue.jobs import Job
from safelight.ingest.jobs import OFFLOAD
from safelight.ingest.lifecycle import ImageStatus
from safelight.library.arrival import Arriving

NOT_OF_DELIVERIES = [
    "library.arrive", "library.delete", "library.purge_tombstones", "library.delete_aged",
    *points_of("library.reconcile.", "library.retention."),
]  # fmt: skip
POINTS = {
    "ingest.offload": (
        "ingest.store", "ingest.fail", "objects.record_put", "objects.link", "objects.bucket_put",
        "objects.record_bucket_put", "library.arrive", "objects.issue_ticket",
    ),
    "ingest.put_back": (
        "ingest.restore", "objects.issue_ticket", "objects.bucket_put",
        "objects.record_bucket_put", "objects.mended",
    ),
    "objects.deliver": (
        "objects.delivered", "unit.close",
        *points_of("library.", without=NOT_OF_DELIVERIES),
    ),
    "classification.run": tuple(
        points_of("classification.", without=["classification.try_again"])
    ),
}  # fmt: skip
DELETE_POINTS = ("objects.record_delete", "library.delete", "objects.record_bucket_delete")


class Moves:
    """Picks are any numbers: which of those there are is meant, counted round and round. Most
    moves end with some more picks, the jobs that are done next; with odd ones a telling bucket says
    something first."""

    def __init__(
        self, world: World, *, backwards: bool = False, late_mood: Mood = "answer"
    ) -> None:
        self.world = world
        self._backwards = backwards
        self._late_mood = late_mood
        self._lost = False

    @property
    def story(self) -> Story:
        return self.world.story

    # People

    async def upload(self, name: str, content: bytes, wait: int = 0, *then: int) -> None:
        self.world.tick(wait)
        await self.world.receive(name, content)
        await self.work(*then)

    async def put(self, name: str, content: bytes, wait: int = 0, *then: int) -> None:
        """An upload that reaches the store at once."""
        await self.upload(name, content, wait)
        if job := self._handed_over() or await self.world.claim(-1, OFFLOAD.name):
            await self._run(job)
        await self.work(*then)

    async def put_together(self, *uploads: tuple[str, bytes]) -> None:
        """Several that are ready in the same moment: on the short road they share a statement, and
        whoever does not take it goes on by itself."""
        world, jobs, together = self.world, list[Job[Any]](), list[Arriving]()
        world.tick(1)
        for name, content in uploads:
            image = await world.receive(name, content)
            job = self._handed_over() or await world.claim(-1, OFFLOAD.name)
            assert job
            jobs.append(job)
            if world.short and not world.telling:
                together.append(await landed(world, image, job))
        taken = await asyncio.gather(*(arrive(world, item) for item in together))
        for name in {name for name, _ in uploads}:
            await check_step(world, name)
        for job in [job for at, job in enumerate(jobs) if at >= len(taken) or not taken[at]]:
            await self._run(job)

    def _handed_over(self) -> Job[Any] | None:
        """The newest offload that a worker here was given as it was recorded."""
        offloads = [job for job in self.story.held if job.kind is OFFLOAD]
        if not offloads:
            return None
        self.story.held.remove(offloads[-1])
        return offloads[-1]

    async def delete(self, name: str, wait: int = 0, *then: int) -> None:
        self.world.tick(wait)
        await self.world.delete(name)
        await self.work(*then)

    async def delete_in_vain(self, name: str, crash: int) -> None:
        """Nobody answers; in a bucket, the object may be gone all the same."""
        self.world.tick(1000)
        await self.world.delete(name, DELETE_POINTS[crash % len(DELETE_POINTS)])

    async def lose_the_file(self, pick: int) -> None:
        image = self.story.images[pick % len(self.story.images)]
        status = "SELECT status FROM images WHERE id = $1"
        if await self.world.db.fetchval(status, image.id) == ImageStatus.INGESTED:
            self.world.take_away(image)

    async def redrive(self, pick: int, *then: int) -> None:
        if letters := await self.world.dead_letters():
            await self.world.redrive(letters[pick % len(letters)])
        await self.work(*then)

    # Workers

    async def work(self, *picks: int) -> None:
        await self._send(*(pick for pick in picks if pick % 2))
        for pick in picks:
            job = await self.world.claim(pick)
            if job is None:
                return
            await self._run(job)

    async def work_badly(
        self, kind: str | None, pick: int, crash: int | None, mood: Mood, lost: bool
    ) -> None:
        """A step fails, the model does, perhaps the last time, or the worker dies before it can say
        how it ended."""
        self.world.classifier.mood = mood
        if job := await self.world.claim(pick, kind):
            if mood == "give up":
                job = replace(job, attempt=job.kind.retry.attempts)
            await self._run(job, crash, lost=lost)
        self.world.classifier.mood = "answer"

    async def claim(self, pick: int, late: bool, *then: int) -> None:
        """A worker takes a job and stands still, perhaps until others may take it over."""
        if job := await self.world.claim(pick):
            self.story.held.append(job)
        if late:
            await self.world.end_leases()
        await self.work(*then)

    async def think(self, pick: int, late: bool, *then: int) -> None:
        """The same in the middle of a classification."""
        if job := await self.world.claim(pick, "classification.run"):
            await self.world.think(job)
        if late:
            await self.world.end_leases()
        await self.work(*then)

    async def wake_up(self, pick: int, crash: int | None, mood: Mood, lost: bool) -> None:
        """One that stood still goes on, not knowing what happened meanwhile."""
        still: list[Job[Any] | Thought] = [*self.story.held, *self.story.thoughts]
        if not still:
            return
        one = still[pick % len(still)]
        if isinstance(one, Job):
            self.story.held.remove(one)
            await self._run(one, crash, lost=lost)
        else:
            await self.world.conclude(one, mood, lost=lost)
            await check_step(self.world, self.world.name_of(one.job))

    async def race(self, *picks: int) -> None:
        claimed = [await self.world.claim(pick) for pick in picks]
        jobs = [job for job in claimed if job]
        await asyncio.gather(*(self.world.work(job) for job in jobs))
        for name in {self.world.name_of(job) for job in jobs}:
            await check_step(self.world, name, alone=False)

    async def restart(self, *then: int) -> None:
        await self.world.restart()
        await self.work(*then)

    async def reconcile(self, *then: int) -> None:
        """Looks at whatever there is, half done or not. There is nothing to find for it unless
        something was lost, or a telling bucket has not spoken yet."""
        gave_up = await self.world.dead_letters()
        mended = await self.world.look()
        assert not mended or self._lost or gave_up or self.world.telling
        await self.work(*then)

    async def lose(self, pick: int, *then: int) -> None:
        self._lost = True
        await self.world.lose(pick)
        await self.work(*then)

    async def lose_notice(self, pick: int) -> None:
        self._lost = self.world.lose_notice(pick) or self._lost

    async def retain(self, days: int) -> None:
        await self.world.retain(days)

    # Events

    async def deliver(self, pick: int) -> None:
        if job := await self.world.claim(pick, "objects.deliver"):
            await self._run(job)

    async def deliver_again(self, pick: int, *then: int) -> None:
        await self.world.again(pick)
        await self.work(*then)

    async def retell(self, pick: int, dialect: str, says_etag: bool, *then: int) -> None:
        """An event comes once more, from outside and in other words."""
        if event := await self.world.event(pick):
            etag = event["etag"] if says_etag else None
            key, time, deleted = event["key"], event["event_time"], event["action"] == "deleted"
            await self.world.tell(outside(dialect, key, time, etag, 1, deleted=deleted))
        await self.work(*then)

    async def mislead(
        self,
        name: str,
        content: bytes | None,
        deleted: bool,
        offset: int,
        dialect: str,
        sequence: int,
        *then: int,
    ) -> None:
        """An event from outside of something that never happened."""
        key, time = f"{self.world.organization}/{name}", self.world.clock.now_ms() + offset
        etag = None if content is None else digest(content)
        await self.world.tell(outside(dialect, key, time, etag, sequence, deleted=deleted))
        await self.work(*then)

    async def notify(self, *picks: int) -> None:
        """The bucket says some of what it has to say, and it is heard."""
        await self._send(*picks)
        for pick in picks:
            await self.deliver(pick)

    async def _send(self, *picks: int) -> None:
        notices = self.story.notices
        await self.world.send(*(notices[pick % len(notices)] for pick in picks if notices))

    async def expire(self, name: str) -> None:
        await self.world.expire(name)

    # The end

    async def end(self) -> None:
        """Everything comes to its end; then what stood still goes on, and must change nothing."""
        world = self.world
        await world.drain(backwards=self._backwards)
        letters = await world.dead_letters()
        while letters:
            letters = [letter for letter in letters if not await world.redrive(letter)]
            await world.drain(backwards=self._backwards)
        await self._agree()
        if self.story.held or self.story.thoughts:
            await self._wake_all()
        await check_end(world)

    async def _agree(self) -> None:
        while self._lost and await self.world.look():
            await self.world.drain(backwards=self._backwards)

    async def _wake_all(self) -> None:
        for name in sorted({image.name for image in self.story.images}):
            await check_step(self.world, name, alone=False)
        while self.story.held or self.story.thoughts:
            await self.wake_up(0, None, self._late_mood, lost=False)
        await self.world.drain(backwards=self._backwards)

    async def _run(self, job: Job[Any], crash: int | None = None, *, lost: bool = False) -> None:
        points = POINTS[job.kind.name]
        point = None if crash is None else points[crash % len(points)]
        await self.world.work(job, crash=point, lost=lost)
        if self.world.short or job.kind is not OFFLOAD:  # of which the end tells enough
            await check_step(self.world, self.world.name_of(job))
