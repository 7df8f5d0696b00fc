"""The consumer: takes a submission as far as machines can, within one time limit.

Guarantees
- It resumes where the row stands: tiers that are through are not run again.
- What goes wrong is classified, recorded and counted here, once; it ends the job, and only recovery
  starts another. The tiers themselves just raise.
- Killed anywhere, it leaves a row in its last committed state, an inflight record, and a job whose
  lease ends: the next claim counts the death and goes on.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import structlog

from safelight.infra.activity import Unit
from safelight.infra.db import AWAY
from safelight.infra.failpoints import reach
from safelight.infra.queue.jobs import Done, Failure, Job, LeaseLost, Verdict
from safelight.submissions.findings import Fail, Finding, judge
from safelight.submissions.kinds import About
from safelight.submissions.lifecycle import State
from safelight.submissions.publish import Publish, Ready
from safelight.submissions.rules.registry import CODES
from safelight.submissions.run import MovedOn, Run, Runs
from safelight.submissions.scan import Scan
from safelight.submissions.tempo import Tempo


@dataclass(frozen=True, slots=True)
class Process:
    runs: Runs
    scan: Scan
    publish: Publish
    tempo: Tempo

    async def handle(self, job: Job[About]) -> Verdict:
        run = await self.runs.begin(job)
        if run is None:
            return Done()
        try:
            return await self._bounded(run)
        except MovedOn:
            return Done()
        except asyncio.CancelledError:
            with suppress(LeaseLost, MovedOn, *AWAY):
                await self.runs.hand_back(run)
            raise

    async def on_dead(self, unit: Unit, job: Job[About], _: Failure) -> None:
        unit.tell(*await self.runs.on_dead(unit.connection, job))

    async def _bounded(self, run: Run) -> Verdict:
        try:
            async with asyncio.timeout(self.tempo.limit_seconds):
                await self._tiers(run)
        except (LeaseLost, MovedOn):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody has to hear of it
            kind = await self.runs.fail(run, error)
            structlog.get_logger().warning(
                "submission.failed",
                submissionId=run.submission.id,
                classification=kind,
                error=repr(error),
            )
        return Done(already=True)

    async def _tiers(self, run: Run) -> None:
        if run.submission.state is State.RECEIVED:
            run = await self.runs.enter(run, State.TIER1_SCANNING, {})
        if run.submission.state is State.TIER1_SCANNING:
            passed = await self._tier1(run)
            if passed is None:
                return
            run = passed
        await self._tier2(run)

    async def _tier1(self, run: Run) -> Run | None:
        """None: it was rejected."""
        await reach("submissions.tier1")
        seen = await self.scan.tier1(run.submission)
        verdict = judge(seen.findings, CODES)
        if isinstance(verdict, Fail):
            await self.runs.reject(run, seen.findings, verdict.rejection)
            return None
        columns = {
            "findings": [finding.to_json() for finding in seen.findings],
            "dhash": seen.look and seen.look.dhash,
            "phash": seen.look and seen.look.phash,
        }
        return await self.runs.enter(run, State.TIER2_SCANNING, columns)

    async def _tier2(self, run: Run) -> None:
        await reach("submissions.tier2")
        seen = await self.scan.tier2(run.submission)
        found = [*map(Finding.load, run.submission.findings), *seen.findings]
        verdict = judge(found, CODES)
        if isinstance(verdict, Fail):
            await self.runs.reject(run, found, verdict.rejection)
        elif seen.rendition is not None:
            await self.publish.store_rendition(Ready(run, seen.rendition, found, verdict))
