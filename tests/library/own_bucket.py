"""A library whose bucket is ours alone to write to, and what happens there all the same: writes that
end without an answer or have their effect late, and others who put into it or take out of it."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import obstore

from faults.late_bucket import Held, LateBucket
from library.moves import Moves
from library.truth import check_agreed
from library.world import ACTOR, World
from objects.stores import Bucket, settle
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.ingest.jobs import OFFLOAD, PUT_BACK
from safelight.ingest.offload import object_facts
from safelight.ingest.put_back import UploadOriginals
from safelight.library.reconcile.comparison import Comparison
from safelight.library.reconcile.reconcile import Repairs
from safelight.objects.bucket import parse_url
from safelight.objects.jobs import DELIVER
from safelight.objects.keys import to_metadata
from safelight.objects.store import StoreUnavailable

SETTLING = (
    "objects.redeem", "objects.put_off", "objects.erase", "objects.mended", "objects.put",
    "objects.delete", "objects.issue_ticket", "ingest.put_back",
)  # fmt: skip
DELETE_POINTS = (
    "objects.issue_ticket", "objects.bucket_delete", "objects.record_bucket_delete",
    "library.delete",
)  # fmt: skip


class OwnBucket(World):
    """`there` stands behind `late`; others know a way around it."""

    def __init__(
        self, db: Database, root: Path, late: LateBucket, there: Bucket, *, short: bool
    ) -> None:
        before = Bucket(late.address, there.name, there.client)
        super().__init__(db, root, bucket=True, there=before, short=short)
        self.late = late
        self.others = parse_url(there.url()).open(repeat=True)
        self._uploads = UploadOriginals(db)

    async def end_late(self, held: list[Held], *, applied: bool) -> None:
        for one in held if applied else []:
            await one.apply()
        held.clear()

    async def settle(self) -> None:
        """Long after the last request that could still have its effect."""
        await settle(self.queue.units, self.store, self._uploads)

    async def unsettled(self) -> bool:
        open_ = "SELECT EXISTS (SELECT FROM object_outbox WHERE key ^@ $1)"
        return bool(await (await self.own()).fetchval(open_, f"{self.organization}/"))

    async def look_as_scheduled(self) -> None:
        """Puts right what follows from what Safelight knows, and nothing else."""
        await self.reconcile._step(Comparison(), self.organization, Repairs.OURS)

    async def agree(self) -> bool:
        reports = self.reconcile.compare(self.organization, repair=False, afresh=True)
        return [report async for report in reports][-1].agreed


class OwnBucketMoves(Moves):
    world: OwnBucket

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._held: list[Held] = []

    # A bucket's time

    async def put_late(self, name: str, content: bytes, wait: int, *then: int) -> None:
        """The bucket takes the bytes, says that it could not, and stores them some time."""
        await self.upload(name, content, wait)
        job = self._handed_over() or await self.world.claim(-1, OFFLOAD.name)
        if job:
            held = self._hold("PUT", name)
            await self._run(job)
            self._let_through(held)
        await self.work(*then)

    async def delete_late(self, name: str, wait: int, *then: int) -> None:
        self.world.tick(wait)
        held = self._hold("DELETE", name)
        with suppress(StoreUnavailable):
            await self.world.deletion.request(self.world.organization, name, ACTOR)
        self._let_through(held)
        self.story.deletes_in_vain[name] = len(self.story.images)
        await self.work(*then)

    async def delete_before_late(self, name: str, content: bytes, *then: int) -> None:
        """The bytes come when their name is deleted."""
        await self.put_late(name, content, 1)
        await self.delete(name, 1, *then)

    async def put_before_late(self, name: str, content: bytes, *then: int) -> None:
        """The end comes when there is something newer."""
        await self.delete_late(name, 1)
        await self.put(name, content, 1, *then)

    def _hold(self, method: str, name: str) -> Held:
        return self.world.late.hold(method, f"{self.world.organization}/{name}", most=1)

    def _let_through(self, held: Held) -> None:
        self.world.late.let_through()
        if held.requests:
            self._held.append(held)

    async def apply(self, pick: int, *then: int) -> None:
        """One that nobody hears of any more has its effect."""
        if self._held:
            await self._held.pop(pick % len(self._held)).apply()
        await self.work(*then)

    async def delete_in_vain(self, name: str, crash: int) -> None:
        """Nobody answers; in a bucket, the object may be gone all the same."""
        self.world.tick(1000)
        if not await self.world.delete(name, DELETE_POINTS[crash % len(DELETE_POINTS)]):
            self.story.deletes_in_vain[name] = len(self.story.images)

    async def settle(self, applied: bool, crash: int | None, *then: int) -> None:
        """None of those that were late can have its effect after it; what has not by then never
        does."""
        await self.world.end_late(self._held, applied=applied)
        point = None if crash is None else SETTLING[crash % len(SETTLING)]
        with suppress(FailpointError):
            await self.world.at(point, self.world.settle())
        await self.work(*then)

    # Others

    async def take_out(self, name: str, *then: int) -> None:
        self._meddle(name)
        with suppress(FileNotFoundError):
            await obstore.delete_async(self.world.others, f"{self.world.organization}/{name}")
        await self.work(*then)

    async def bring_in(self, pick: int, *then: int) -> None:
        """An upload as it once was, or was to be, as from a backup."""
        image = self.story.images[pick % len(self.story.images)]
        self._meddle(image.name)
        facts = object_facts(image)
        attributes = {name: to_metadata(value) for name, value in facts.metadata.items()}
        await obstore.put_async(
            self.world.others,
            f"{self.world.organization}/{image.name}",
            self.story.contents[image.idempotency_key],
            attributes={**attributes, "Content-Type": facts.content_type},
        )
        await self.work(*then)

    async def lose_the_file(self, pick: int) -> None:
        """What a bucket has of one that failed for it may be all there is: a person decides."""
        await super().lose_the_file(pick)
        for image in self.story.images:
            if image.id in self.story.damaged:
                self._meddle(image.name)

    def _meddle(self, name: str) -> None:
        self._lost = True
        self.story.meddled.add(name)

    # The end

    async def end(self) -> None:
        """A run waits longer for its original than that takes: the hours are all the same here."""
        await self.world.end_late(self._held, applied=True)
        await self._settle_all()
        if self.story.meddled:
            await self._follow()
        await super().end()

    async def _agree(self) -> None:
        """Settling and the schedule do it, except for what others did: that a person has followed."""
        await self._settle_all()
        if self.story.meddled:
            await self._follow()
        else:
            await self.world.look_as_scheduled()
        await self.world.drain(backwards=self._backwards)
        assert await self.world.agree(), "bucket, index and library differ"
        await check_agreed(self.world)

    async def _settle_all(self) -> None:
        for _ in range(10):
            await self.world.settle()
            await self._bring()
            if not await self.world.unsettled():
                return
        raise AssertionError("it does not settle")

    async def _follow(self) -> None:
        await self._bring()
        while await self.world.look():
            await self._bring()

    async def _bring(self) -> None:
        """What is on its way to the bucket, and what it tells of; no run."""
        await self.world.end_leases()
        for kind in (OFFLOAD, PUT_BACK, DELIVER):
            while job := await self.world.claim(0, kind.name):
                await self.world.work(job)

    async def _wake_all(self) -> None:
        await super()._wake_all()
        await self._agree()
