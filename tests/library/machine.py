"""Everything that may happen to a library, in any order: state machines for Hypothesis."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from library.scripted import BROKEN, Mood
from library.truth import check_end, check_step
from library.world import World, outside
from objects.stores import digest
from safelight.infra.jobs import Job
from safelight.ingest.lifecycle import Status

T = TypeVar("T")

CONTENTS = (b"one", b"two", BROKEN)
NAMES = st.sampled_from(["a.jpg", "a.jpg", "b é.jpg"])
WHAT = st.sampled_from([*CONTENTS[:2], *CONTENTS])
WAITS = st.sampled_from([0, 0, 1, 1, 400, 1000])
PICKS = st.integers(0, 20)
SOME = st.lists(PICKS, max_size=4)
MOODS: st.SearchStrategy[Mood] = st.sampled_from(["answer", "answer", "fail", "fail for good"])
DIALECTS = st.sampled_from(["r2", "seconds", "s3"])
CRASHES = st.one_of(st.none(), st.integers(0, 5))
POINTS = {
    "ingest.offload": (
        "ingest.store", "ingest.fail", "objects.record_put", "objects.link", "objects.bucket_put",
        "objects.record_bucket_put",
    ),
    "objects.deliver": (
        "library.mark", "library.settle", "library.remove", "library.move_time", "library.restart",
    ),
    "classification.run": (
        "classification.apply", "classification.drop", "classification.note",
        "classification.fail", "classification.save_reply",
    ),
}  # fmt: skip
DELETE_POINTS = ("objects.record_delete", "ingest.delete", "objects.bucket_delete")


class Machine(RuleBasedStateMachine):
    """One example is one organization; its end is judged after everything was delivered."""

    def __init__(self, world: World, runner: asyncio.Runner) -> None:
        super().__init__()
        self.world = world
        self._runner = runner
        self._sound = False

    def go(self, action: Coroutine[Any, Any, T]) -> T:
        self._sound = False
        answer = self._runner.run(action)
        self._sound = True
        return answer

    @initialize(
        uploads=st.lists(st.tuples(NAMES, WHAT), min_size=1, max_size=3),
        then=SOME,
        employed=st.booleans(),
        backwards=st.booleans(),
        dialect=DIALECTS,
    )
    def begin(
        self,
        uploads: list[tuple[str, bytes]],
        then: list[int],
        employed: bool,
        backwards: bool,
        dialect: str,
    ) -> None:
        self.backwards = backwards
        self.story = self.go(self.world.begin(employed=employed))
        self.story.dialect = dialect
        for name, content in uploads:
            self.go(self.world.receive(name, content))
        self.go(self._work_some(then))

    def teardown(self) -> None:
        if self._sound:
            self.go(self._end())

    async def _end(self) -> None:
        """Everything comes to its end; then what was late comes, and must change nothing."""
        world = self.world
        await self._drain()
        letters = await world.dead_letters()
        while letters:
            letters = [letter for letter in letters if not await world.redrive(letter)]
            await self._drain()
        for job in list(self.story.held):
            await self._work(job)
        for thought in list(self.story.thoughts):
            await world.conclude(thought, "answer")
            await check_step(world, world.name_of(thought.job))
        await self._drain()
        await check_end(world)

    async def _drain(self) -> None:
        await self.world.drain(backwards=self.backwards)
        for name in sorted({image.name for image in self.story.images}):
            await check_step(self.world, name, alone=False)

    async def _work(self, job: Job[Any], crash: int | None = None, *, lost: bool = False) -> None:
        points = POINTS[job.kind.name]
        point = None if crash is None else points[crash % len(points)]
        await self.world.work(job, crash=point, lost=lost)
        await check_step(self.world, self.world.name_of(job))

    async def _work_some(self, picks: list[int]) -> None:
        for pick in picks:
            if job := await self.world.claim(pick):
                await self._work(job)

    # People

    @rule(name=NAMES, content=WHAT, wait=WAITS, then=SOME)
    def upload(self, name: str, content: bytes, wait: int, then: list[int]) -> None:
        self.world.tick(wait)
        self.go(self.world.receive(name, content))
        self.go(self._work_some(then))

    @rule(name=NAMES, wait=WAITS, crash=CRASHES, then=SOME)
    def delete(self, name: str, wait: int, crash: int | None, then: list[int]) -> None:
        self.world.tick(wait)
        point = None if crash is None else DELETE_POINTS[crash % len(DELETE_POINTS)]
        self.go(self.world.delete(name, point))
        self.go(self._work_some(then))

    @rule(pick=PICKS)
    def lose_the_file(self, pick: int) -> None:
        async def take_away() -> None:
            image = self.story.images[pick % len(self.story.images)]
            status = "SELECT status FROM images WHERE id = $1"
            if await self.world.db.fetchval(status, image.id) == Status.INGESTED:
                self.world.take_away(image)

        self.go(take_away())

    @rule(pick=PICKS, then=SOME)
    def redrive(self, pick: int, then: list[int]) -> None:
        async def one() -> None:
            if letters := await self.world.dead_letters():
                await self.world.redrive(letters[pick % len(letters)])
            await self._work_some(then)

        self.go(one())

    # Workers

    @rule(picks=st.lists(PICKS, min_size=2, max_size=5))
    def work(self, picks: list[int]) -> None:
        self.go(self._work_some(picks))

    @rule(pick=PICKS, crash=CRASHES, lost=st.booleans(), mood=MOODS)
    def work_badly(self, pick: int, crash: int | None, lost: bool, mood: Mood) -> None:
        async def one() -> None:
            self.world.classifier.mood = mood
            if job := await self.world.claim(pick):
                await self._work(job, crash, lost=lost)
            self.world.classifier.mood = "answer"

        self.go(one())

    @rule(pick=PICKS, late=st.booleans(), then=SOME)
    def claim(self, pick: int, late: bool, then: list[int]) -> None:
        """A worker takes a job and stands still, perhaps until others have taken over."""

        async def one() -> None:
            if job := await self.world.claim(pick):
                self.story.held.append(job)
            if late:
                await self.world.end_leases()
            await self._work_some(then)

        self.go(one())

    @precondition(lambda self: self.story.held)
    @rule(pick=PICKS, crash=CRASHES)
    def work_at_last(self, pick: int, crash: int | None) -> None:
        job = self.story.held.pop(pick % len(self.story.held))
        self.go(self._work(job, crash))

    @rule(pick=PICKS, late=st.booleans(), then=SOME)
    def think(self, pick: int, late: bool, then: list[int]) -> None:
        """The same in the middle of a classification."""

        async def one() -> None:
            if job := await self.world.claim(pick, "classification.run"):
                await self.world.think(job)
            if late:
                await self.world.end_leases()
            await self._work_some(then)

        self.go(one())

    @precondition(lambda self: self.story.thoughts)
    @rule(pick=PICKS, mood=MOODS, lost=st.booleans())
    def conclude(self, pick: int, mood: Mood, lost: bool) -> None:
        async def one() -> None:
            thought = self.story.thoughts[pick % len(self.story.thoughts)]
            await self.world.conclude(thought, mood, lost=lost)
            await check_step(self.world, self.world.name_of(thought.job))

        self.go(one())

    @rule(picks=st.lists(PICKS, min_size=2, max_size=3))
    def race(self, picks: list[int]) -> None:
        async def several() -> None:
            claimed = [await self.world.claim(pick) for pick in picks]
            jobs = [job for job in claimed if job]
            await asyncio.gather(*(self.world.work(job) for job in jobs))
            for name in {self.world.name_of(job) for job in jobs}:
                await check_step(self.world, name, alone=False)

        self.go(several())

    @rule(then=SOME)
    def restart(self, then: list[int]) -> None:
        self.go(self.world.restart())
        self.go(self._work_some(then))

    @rule(days=st.sampled_from([1, 15, 40]))
    def retain(self, days: int) -> None:
        self.go(self.world.retain(days))

    @rule(pick=PICKS, then=SOME)
    def deliver_again(self, pick: int, then: list[int]) -> None:
        self.go(self.world.again(pick))
        self.go(self._work_some(then))


class BuiltInStore(Machine):
    """With events of our own, and others that come from outside: repeated, late or made up."""

    @rule(pick=PICKS, dialect=DIALECTS, says_etag=st.booleans())
    def retell(self, pick: int, dialect: str, says_etag: bool) -> None:
        async def one() -> None:
            event = await self.world.event(pick)
            if event is None:
                return
            key, time, deleted = event["key"], event["event_time"], event["action"] == "deleted"
            etag = event["etag"] if says_etag else None
            await self.world.tell(outside(dialect, key, time, etag, 1, deleted=deleted))

        self.go(one())

    @rule(
        name=NAMES,
        content=st.one_of(st.none(), WHAT),
        deleted=st.booleans(),
        offset=st.sampled_from([-90_000_000, -1, 0, 700, 90_000_000]),
        dialect=DIALECTS,
        sequence=PICKS,
    )
    def mislead(
        self,
        name: str,
        content: bytes | None,
        deleted: bool,
        offset: int,
        dialect: str,
        sequence: int,
    ) -> None:
        key = f"{self.story.organization}/{name}"
        etag = None if content is None else digest(content)
        time = self.world.clock.now_ms() + offset
        body = outside(dialect, key, time, etag, sequence, deleted=deleted)
        self.go(self.world.tell(body))


class TellingBucket(Machine):
    """With a bucket whose notifications are the only events."""

    @precondition(lambda self: self.story.notices)
    @rule(picks=st.lists(PICKS, min_size=1, max_size=3))
    def notify(self, picks: list[int]) -> None:
        async def some() -> None:
            for pick in picks:
                await self.world.send(self.story.notices[pick % len(self.story.notices)])

        self.go(some())

    @rule(name=NAMES)
    def expire(self, name: str) -> None:
        self.go(self.world.expire(name))
