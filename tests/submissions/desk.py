"""Submissions in one process: a database, a store, a clock moved by hand, and jobs run when told."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from accounts.world import World
from safelight.accounts.access import Role
from safelight.approvals import jobs as approvals_jobs
from safelight.classification.classifiers import build
from safelight.infra import kv
from safelight.infra.base import Base
from safelight.infra.bus import Bus
from safelight.infra.injected import RandomIds
from safelight.infra.metrics import Metrics
from safelight.infra.queue import repo as queue_repo
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import Dead, Done, Failure, Job, JobId, Verdict
from safelight.infra.queue.ledger import outcome
from safelight.infra.queue.queue import Queue
from safelight.infra.queue.slots import Opening
from safelight.infra.reading import FreshReads
from safelight.objects import repo as objects_repo
from safelight.objects.blobs import Blobs
from safelight.objects.events import Action, ObjectEvent
from safelight.objects.jobs import DELIVER, DeliverPayload
from safelight.objects.local import LocalStore
from safelight.objects.store import Facts, ObjectStore
from safelight.quotas import repo as quotas_repo
from safelight.quotas.lifecycle import Meter
from safelight.sandbox.protocol import Rendition
from safelight.sandbox.sandbox import Sandbox
from safelight.submissions import jobs as submissions_jobs
from safelight.submissions.findings import Label, Opinion
from safelight.submissions.lifecycle import Submission
from safelight.submissions.process import Process
from safelight.submissions.recovery.recover import Recovery
from safelight.submissions.services import Submissions, open_submissions
from submissions.pictures import photo

ORG = "acme"
KINDS = (*submissions_jobs.KINDS, *approvals_jobs.KINDS)
PROCESS = "submissions.process"


@dataclass
class FixedTools:
    """Models that say what they are told to say, and remember what they were shown."""

    score: float = 0.02
    found: Label = field(default_factory=lambda: Label("TABBY", 0.9, "fixed"))
    told: Opinion | None = None
    seen: list[Rendition] = field(default_factory=list)
    trouble: BaseException | None = None

    async def safety(self, rendition: Rendition) -> float:
        self.seen.append(rendition)
        if self.trouble:
            raise self.trouble
        return self.score

    async def label(self, _: Submission, __: Rendition) -> Label:
        return self.found

    async def opinion(self, _: Submission, __: Rendition) -> Opinion | None:
        return self.told


@dataclass
class Desk(World):
    directory: Path = field(kw_only=True)
    sandbox: Sandbox = field(kw_only=True)
    tools: FixedTools = field(default_factory=FixedTools)
    bucket: ObjectStore | None = None

    def __post_init__(self) -> None:
        self.settings = self.settings.model_copy(update={"data_dir": self.directory})
        super().__post_init__()
        self.bus = Bus(self.db, "desk")
        self.queue = Queue(self.db, self.bus, self.clock, owner="desk", node="here", kinds=KINDS)
        self.store = self.bucket or LocalStore(
            self.db, Blobs(self.directory / "blobs", RandomIds()), self.clock, self.ids
        )
        self.units = self.queue.units
        self.open()
        for thing in (self.queue, self.bus, *self.opened.services):
            self.registry.add(thing)
        self.registry.add(self.store, as_type=ObjectStore)
        self.registry.add(FreshReads(self.db, None, Metrics()))

    def open(self) -> None:
        """As the application does; again, after something about it was changed."""
        base = Base(
            self.settings, self.clock, self.ids, Metrics(), self.db, self.bus, self.queue,
            self.units,
        )  # fmt: skip
        classifier = build(self.settings, self.clock, self.sandbox)
        self.opened: Submissions = open_submissions(
            base, self.store, self.sandbox, classifier, self.tools
        )
        self.handlers: dict[str, Handler[Any]] = {
            handler.kind.name: handler for handler in self.opened.handlers
        }

    @property
    def process(self) -> Process:
        process: Process = self.handlers[PROCESS].handle.__self__  # type: ignore[attr-defined]  # a bound method
        return process

    @property
    def recovery(self) -> Recovery:
        return self.opened.recovery

    async def as_role(self, role: Role = Role.MEMBER, organization: str = ORG) -> httpx.AsyncClient:
        return self.program(await self.token(organization, role))

    # Things to submit

    async def put(
        self,
        name: str,
        data: bytes,
        content_type: str = "image/jpeg",
        marker: str | None = None,
        organization: str = ORG,
    ) -> str:
        """An upload as the offload leaves it in the store, counted. Returns its marker."""
        marker = marker or self.ids.uuid4()
        metadata = {"organizationId": organization, "name": name, "idempotencyKey": marker}
        facts = Facts(content_type, metadata)
        await self.store.put(f"{organization}/{name}", stream(data), facts)
        await self.db.execute("SELECT quota_change($1, $2)", organization, len(data))
        return marker

    async def submit(
        self, data: bytes | None = None, name: str = "cat.jpg", content_type: str = "image/jpeg"
    ) -> str:
        """Puts and submits; the submission's id."""
        await self.put(name, photo() if data is None else data, content_type)
        async with await self.as_role() as client:
            response = await client.post("/api/v1/submissions", json={"source": {"upload": name}})
        assert response.status_code == 202, response.text
        assert response.json()["state"] == "RECEIVED"
        submission_id: str = response.json()["id"]
        return submission_id

    # Working

    async def claim(self, kind: str = PROCESS) -> Job[Any] | None:
        rows = await queue_repo.claim(
            self.db, [Opening(kind, 1, "")], "here", "desk", self.queue.lease
        )
        if not rows:  # or one that a worker would run alone
            rows = await queue_repo.claim_suspect(self.db, [kind], "here", "desk", self.queue.lease)
        return Job.load(self.handlers[kind].kind, rows[0]) if rows else None

    async def work(self, kind: str = PROCESS) -> int:
        """Runs what waits, as a worker would; how many."""
        count = 0
        while job := await self.claim(kind):
            await self.finish(job, await self.handlers[kind].handle(job))
            count += 1
        return count

    async def finish(self, job: Job[Any], verdict: Verdict) -> None:
        end = outcome(job, verdict)
        if isinstance(end, Dead):
            await self.bury(job, Failure.of(end.error))
        elif isinstance(end, Done) and not end.already:
            await queue_repo.finish(self.db, [job])

    async def bury(self, job: Job[Any], failure: Failure) -> None:
        await self.queue.dead_letters.bury(self.handlers[job.kind.name], job, failure)

    async def worker_dies(self) -> Job[Any]:
        """Somebody begins and is never heard of again; the lease ends."""
        job = await self.claim()
        assert job
        assert await self.process.runs.begin(job)
        await self.take_over()
        return job

    async def take_over(self) -> None:
        """As the queue does with jobs whose leases have ended."""
        await self.db.execute("UPDATE jobs SET lease_until = now() WHERE status = 'running'")
        await queue_repo.tend(self.db, [kind.name for kind in KINDS], "here", [])
        await self.db.execute("UPDATE jobs SET run_at = now() WHERE deaths > 0")

    async def due(self, kind: str) -> int:
        """Time passes for delayed jobs, whose clock is the database's; then runs them."""
        await self.db.execute(
            "UPDATE jobs SET status = 'queued', run_at = now() WHERE kind = $1", kind
        )
        return await self.work(kind)

    async def delete(self, name: str, organization: str = ORG) -> None:
        """Deletes an upload and lets submissions react to the event."""
        written = await self.store.delete(f"{organization}/{name}")
        event = await objects_repo.event(self.db, written.event_id or 0)
        assert event
        await self._react(event, name)

    async def tell_deleted(self, name: str, source: str, organization: str = ORG) -> None:
        """Somebody says that an upload was deleted just now."""
        event = ObjectEvent(
            99, source, Action.DELETED, f"{organization}/{name}", organization,
            self.clock.now_ms(), None, None, None, None,
        )  # fmt: skip
        await self._react(event, name)

    async def _react(self, event: ObjectEvent, name: str) -> None:
        payload = DELIVER.dump(DeliverPayload(event.id, name))
        job = Job(JobId(0), DELIVER, event.organization or "", payload, 1, 1)
        assert await self.opened.deleted_sources.on_upload_deleted(event, job) == Done()

    # Looking

    async def see(self, submission_id: str) -> dict[str, Any]:
        async with await self.as_role(Role.VIEWER) as client:
            response = await client.get(f"/api/v1/submissions/{submission_id}")
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body

    async def public(
        self, submission_id: str, method: str = "GET", **headers: str
    ) -> httpx.Response:
        async with self.client() as client:
            return await client.request(method, f"/public/{submission_id}", headers=headers)

    async def counted(self, organization: str = ORG) -> int:
        """The bytes that the organization's quota knows of."""
        quotas = await quotas_repo.quotas(self.db, organization, self.clock.now_ms())
        return {quota.meter: quota.used for quota in quotas}[Meter.STORED_BYTES]

    async def held(self, organization: str = ORG) -> int:
        """The bytes that are kept for it, by the things themselves."""
        size: int = await self.db.fetchval(
            """
            SELECT coalesce(sum(size), 0)::bigint FROM objects WHERE present AND (
                organization = $1 OR split_part(key, '/', 2) IN (
                    SELECT id FROM submissions WHERE organization = $1))
            """,
            organization,
        )
        return size

    async def value(self, key: str) -> Any:
        return await kv.get(self.db, key, now=self.clock.now_ms())

    async def put_value(self, key: str, value: Any, ttl_ms: int = 3_600_000) -> None:
        await kv.put(self.db, key, value, now=self.clock.now_ms(), ttl_ms=ttl_ms)

    async def jobs(self, kind: str = PROCESS) -> list[Mapping[str, Any]]:
        rows = await self.db.fetch("SELECT * FROM jobs WHERE kind = $1 ORDER BY id", kind)
        return [dict(row) for row in rows]

    async def story(self, subject: str) -> list[tuple[str, dict[str, Any]]]:
        rows = await self.db.fetch(
            "SELECT type, data FROM activity WHERE subject = $1 ORDER BY seq", subject
        )
        return [(row["type"], row["data"]) for row in rows]


def rules_of(body: dict[str, Any]) -> dict[str, str]:
    """Which rules found something, and how bad."""
    return {finding["rule"]: finding["severity"] for finding in body["findings"]}


async def stream(data: bytes) -> AsyncIterator[bytes]:
    yield data
