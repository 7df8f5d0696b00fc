"""How submissions and approvals are put together."""

from dataclasses import dataclass

from safelight.approvals.jobs import EXPIRE
from safelight.approvals.workflow import Approvals
from safelight.classification.base import Classifier
from safelight.infra.base import Base, Feature
from safelight.infra.queue.handlers import Handler, upkeep
from safelight.objects.store import ObjectStore
from safelight.sandbox.limits import SandboxLimits
from safelight.sandbox.protocol import Bounds
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import Settings
from safelight.submissions.endings import (
    DeletedSources,
    Endings,
    Release,
    SubmissionConcern,
    TakeDown,
)
from safelight.submissions.findings import PictureModels
from safelight.submissions.jobs import PROCESS, RECOVER, RELEASE, SOURCE_GONE, TAKE_DOWN
from safelight.submissions.lifecycle import SUBJECT
from safelight.submissions.models.safety import SafetyModel
from safelight.submissions.models.vision import Vision
from safelight.submissions.policies.policies import Policies
from safelight.submissions.policies.recognition import Recognition
from safelight.submissions.process import Process, Runs
from safelight.submissions.recovery.by_hand import ByHand
from safelight.submissions.recovery.decide import Tempo
from safelight.submissions.recovery.recover import Recovery
from safelight.submissions.scan import LoadedModels, Scan
from safelight.submissions.submit import Submit, sources

_MOST_PIXELS_IN_ALL = 1_000_000_000  # over all frames: some ten seconds of decoding


@dataclass(frozen=True, slots=True, kw_only=True)
class Submissions(Feature):
    """`deleted_sources` is for whoever deletes uploads and artifacts, who know nothing of us."""

    deleted_sources: DeletedSources
    recovery: Recovery


def open_submissions(
    base: Base,
    store: ObjectStore,
    sandbox: Sandbox,
    classifier: Classifier,
    models: PictureModels | None = None,
) -> Submissions:
    """With approvals, which are about submissions above all. `models`: others than the settings
    name; `sandbox` and `classifier` are the caller's to close."""
    settings, units, tempo = base.settings, base.units, Tempo.of(base.settings)
    expiry = round(settings.approval_expiry_seconds * 1000)
    approvals = Approvals(units, base.ids, expiry, {SUBJECT: SubmissionConcern()})
    vision = Vision(settings) if settings.vision_url else None
    loaded = LoadedModels(base.db, SafetyModel(sandbox), classifier, vision)
    scan = Scan(base.db, settings, store, sandbox, _bounds(settings), models or loaded)
    process = Process(Runs(units, store, approvals), scan, tempo)
    endings, recovery = Endings(units, approvals), Recovery(units, tempo)
    deleted = DeletedSources(base.db, endings, telling=store.telling)
    known = sources(base.db, store)
    return Submissions(
        services=(
            approvals,
            Submit(units, store, base.ids, known),
            endings,
            ByHand(units, tempo),
            Policies(units, settings, base.ids),
            Recognition(store, sandbox, _bounds(settings), known, settings.data_dir),
            tempo,
        ),
        handlers=(
            upkeep(EXPIRE, approvals.expire_due),
            Handler(PROCESS, process.handle, on_dead=process.runs.on_dead),
            Handler(RELEASE, Release(base.db, store).handle),
            Handler(SOURCE_GONE, deleted.handle),
            Handler(TAKE_DOWN, TakeDown(base.db, endings).handle),
            upkeep(RECOVER, recovery.run),
        ),
        close=loaded.close,
        deleted_sources=deleted,
        recovery=recovery,
    )


def limits(settings: Settings) -> SandboxLimits:
    """Of a child that opens untrusted bytes: it has to end well before the run it works for."""
    wall = settings.scan_timeout_seconds * 0.6
    return SandboxLimits(
        memory_bytes=settings.scan_memory_bytes,
        cpu_seconds=settings.scan_cpu_seconds,
        wall_seconds=wall,
    )


def _bounds(settings: Settings) -> Bounds:
    return Bounds(settings.max_pixels, settings.scan_max_frames, _MOST_PIXELS_IN_ALL)
