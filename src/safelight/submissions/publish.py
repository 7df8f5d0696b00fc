"""Storing the rendition, which is also what makes it public or puts it before a person.

The object `renditions/{id}`, the move, the question and the end of the job are one transaction, so
there is never a published submission without its picture. Nothing serves the object before its
submission is PUBLISHED; a decision made later needs no more work than one row.
"""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from safelight.approvals.repo import Subject
from safelight.approvals.workflow import Approvals, Question
from safelight.infra import activity, kv
from safelight.infra.db import Connection
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.objects import repo as objects
from safelight.objects.store import Facts, Landed, ObjectStore
from safelight.sandbox.facts import Rendition
from safelight.submissions import inflight
from safelight.submissions.findings import Ask, Finding, Pass
from safelight.submissions.lifecycle import State
from safelight.submissions.moves import Change
from safelight.submissions.run import Run, Runs

SUBJECT = "submission"
_LONGEST_TITLE = 200


def rendition_key(submission_id: str) -> str:
    return f"renditions/{submission_id}"


@dataclass(frozen=True, slots=True)
class Ready:
    """A run whose tiers are through."""

    run: Run
    rendition: Rendition
    findings: list[Finding]
    verdict: Pass | Ask


@dataclass(frozen=True, slots=True)
class Publish:
    runs: Runs
    store: ObjectStore
    approvals: Approvals

    async def store_rendition(self, ready: Ready) -> None:
        key = rendition_key(ready.run.submission.id)
        facts = Facts(ready.rendition.content_type)
        runs, organization = self.runs, ready.run.submission.organization

        async def hold(connection: Connection) -> None:
            """Asked before a bucket is written: raises when this run is not wanted any more."""
            await runs.hold(connection, ready.run)

        async def write(connection: Connection, landed: Landed) -> None:
            async with connection.transaction():
                await runs.hold(connection, ready.run)
                await objects.put(connection, key, landed, facts, runs.clock.now_ms())
                told = await self.record(connection, ready)
                await runs.finish(connection, ready.run.job)
                await reach("submissions.tell_rendition")
                await activity.append(connection, organization, runs.clock.now_ms(), *told)

        await reach("submissions.store_rendition")
        await self.store.put_with(key, _stream(ready.rendition.data), facts, write, hold)
        runs.bus.announce("activity", organization)

    async def record(self, connection: Connection, ready: Ready) -> list[Line]:
        """The move, and what belongs to it; the history is the caller's to append."""
        rendition, submission = ready.rendition, ready.run.submission
        columns = {
            "findings": [finding.to_json() for finding in ready.findings],
            "rendition_type": rendition.content_type,
            "rendition_size": len(rendition.data),
            "rendition_etag": hashlib.sha256(rendition.data).hexdigest(),
        }
        told: list[Line] = []
        to = State.PUBLISHED
        if isinstance(ready.verdict, Ask):
            question = _question(ready, ready.verdict)
            approval, asked = await self.approvals.ask(connection, question)
            told.append(asked)
            columns["approval_id"] = approval.id
            to = State.AWAITING_APPROVAL
        change = Change(to, columns=columns)
        told.insert(0, await self.runs.moves.make(connection, submission, change))
        await reach("submissions.clear_inflight")
        await kv.delete(connection, inflight.key(submission.id))
        return told


def _question(ready: Ready, verdict: Ask) -> Question:
    submission = ready.run.submission
    name = submission.title or submission.source_id
    return Question(
        organization=submission.organization,
        title=f"Publish {name}?"[:_LONGEST_TITLE],
        description="\n".join(doubt.message for doubt in verdict.doubts),
        requested_by=submission.submitted_by,
        subject=Subject(SUBJECT, submission.id),
    )


async def _stream(data: bytes) -> AsyncIterator[bytes]:
    yield data
