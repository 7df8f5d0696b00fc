"""How the parts are put together: the front answers requests, the back does the work."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from safelight.approvals.workflow import Approvals
from safelight.classification.base import Classifier
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import Clock, Ids
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.queue import Queue
from safelight.objects.store import ObjectStore
from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.protocol import Bounds
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import Settings
from safelight.submissions.decided import SubmissionDecided
from safelight.submissions.end import End
from safelight.submissions.gone import SourceGone
from safelight.submissions.jobs import handlers
from safelight.submissions.moves import Moves
from safelight.submissions.pin import Pins
from safelight.submissions.policies.policies import Policies
from safelight.submissions.process import Process
from safelight.submissions.publish import SUBJECT, Publish
from safelight.submissions.records import KnownPictures
from safelight.submissions.release import Release
from safelight.submissions.rescue import Rescue
from safelight.submissions.rules.rule import Tools
from safelight.submissions.run import Runs
from safelight.submissions.safety import SafetyModel
from safelight.submissions.scan import Scan
from safelight.submissions.sources.registry import sources
from safelight.submissions.submit import Submit
from safelight.submissions.tempo import Tempo
from safelight.submissions.tools import Models
from safelight.submissions.vision import Vision

_MOST_PIXELS_IN_ALL = 1_000_000_000  # over all frames: some ten seconds of decoding


@dataclass(frozen=True, slots=True)
class Ground:
    """What submissions stand on."""

    settings: Settings
    db: Database
    bus: Bus
    queue: Queue
    clock: Clock
    ids: Ids
    store: ObjectStore


@dataclass(frozen=True, slots=True)
class Front:
    """What routes need; each goes into the registry."""

    approvals: Approvals
    submit: Submit
    end: End
    policies: Policies
    tempo: Tempo
    moves: Moves
    gone: SourceGone

    def services(self) -> tuple[object, ...]:
        return self.approvals, self.submit, self.end, self.policies, self.tempo


def front(ground: Ground) -> Front:
    settings, db, bus = ground.settings, ground.db, ground.bus
    queue, clock, ids = ground.queue, ground.clock, ground.ids
    moves = Moves(queue, clock)
    expiry = round(settings.approval_expiry_seconds * 1000)
    approvals = Approvals(db, bus, clock, ids, expiry, {SUBJECT: SubmissionDecided(moves)})
    pins = Pins(db, ground.store, clock)
    end = End(db, bus, clock, moves, approvals)
    return Front(
        approvals=approvals,
        submit=Submit(sources(db, ground.store), pins, queue, bus, clock, ids),
        end=end,
        policies=Policies(db, settings, bus, clock, ids),
        tempo=Tempo.of(settings),
        moves=moves,
        gone=SourceGone(db, queue, end),
    )


def work(ground: Ground, made: Front, sandbox: Sandbox, tools: Tools) -> tuple[Handler[Any], ...]:
    """The handlers of the jobs."""
    db, bus, queue, clock, store = (
        ground.db, ground.bus, ground.queue, ground.clock, ground.store,
    )  # fmt: skip
    runs = Runs(db, bus, clock, made.moves)
    scan = Scan(store, sandbox, bounds(ground.settings), KnownPictures(db), made.policies, tools)
    process = Process(runs, scan, Publish(runs, store, made.approvals), made.tempo)
    rescue = Rescue(db, queue, bus, clock, made.moves, made.tempo)
    return handlers(process, Release(db, store), made.gone, rescue)


def bounds(settings: Settings) -> Bounds:
    return Bounds(settings.max_pixels, settings.scan_max_frames, _MOST_PIXELS_IN_ALL)


def limits(settings: Settings) -> SandboxLimits:
    """A child has to end well before the run it works for."""
    wall = settings.scan_timeout_seconds * 0.6
    return SandboxLimits(
        memory_bytes=settings.scan_memory_bytes,
        cpu_seconds=settings.scan_cpu_seconds,
        wall_seconds=wall,
    )


@asynccontextmanager
async def models(settings: Settings, db: Database, classifier: Classifier) -> AsyncIterator[Models]:
    """Nothing is loaded or reached before it is asked."""
    safety = SafetyModel()
    vision = Vision(settings) if settings.vision_url else None
    try:
        yield Models(db, safety, classifier, vision)
    finally:
        safety.close()
        if vision:
            await vision.close()
