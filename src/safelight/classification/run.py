"""One run: read the bytes, ask the model, write the result where it is still wanted.

A local model has one durable boundary, the guarded write: after a crash before it, the work is done
again; after it, the job is gone. Nothing is read that this write checks anyway. A remote model
costs money and time, so its reply is saved before it is used, and a retry finds it. The write
applies only where organization, name, marker and run number still match; a result that comes late
is dropped, recorded, and told to nobody. With the label it brings what else came of the one decode:
thumbnail, colour, embedding. Results of an organization that are ready together share a statement.

While store or model are away, the run waits: no attempt is spent, and the history tells of it once;
the entry shows when it is tried again. What is the image's own fault is its owner's news, not an
operator's: bytes that cannot be decoded, or of which a second process has died, end the run as
failed at once, and nobody tries again. Other failures are the system's: tried again, then a dead
letter.
"""

from collections.abc import Callable, Sequence
from typing import Any

from safelight.classification import repo
from safelight.classification.base import (
    ChildDied,
    Classifier,
    ModelError,
    Prediction,
    Undecodable,
)
from safelight.classification.embeddings import Embeddings
from safelight.classification.jobs import RunPayload
from safelight.classification.lifecycle import AttemptEnd, ReadyResult, Result, RunTarget
from safelight.classification.originals import RunOriginals, Superseded
from safelight.classification.quiet import Quiet
from safelight.infra.activity import Unit, Units
from safelight.infra.away import is_away
from safelight.infra.batches import Batches
from safelight.infra.history import Line
from safelight.infra.injected import iso
from safelight.infra.queue.jobs import Dead, Done, Failure, Job, Retry, Verdict
from safelight.library import repo as library
from safelight.objects import repo as objects
from safelight.objects.keys import object_key
from safelight.objects.store import DamagedObject, NoSuchObject, StoreUnavailable

_MOST_DEATHS = 2
_MOVED_ON = "the entry has moved on"
_TAKEN = (
    "The object store does not hold this image under its name at this moment. It is put back by "
    "itself if we have it; otherwise upload it again."
)
_DEADLY = (
    "Decoding this image ended the process that did it, twice. "
    "Save it again with an image editor and upload that."
)


class Classification:
    def __init__(
        self,
        units: Units,
        originals: RunOriginals,
        classifier: Classifier,
        embeddings: Embeddings,
        quiet: Quiet,
        count: Callable[[AttemptEnd], None],
        *,
        thumbnails: bool,
    ) -> None:
        """`quiet` is broken by every run."""
        self._db = units.db
        self._units = units
        self._originals = originals
        self._classifier = classifier
        self._embeddings = embeddings
        self._quiet = quiet
        self._count = count
        self._thumbnails = thumbnails
        self._results = Batches(self._send)

    async def handle(self, job: Job[RunPayload]) -> Verdict:
        target = _target(job)
        with self._quiet.broken():
            try:
                prediction = await self._predict(target)
            except (NoSuchObject, Superseded):
                return await self._not_there(job, target)
            except Undecodable as error:
                return await self._give_up(job, target, error)
            except ChildDied as error:
                return await self._survive(job, target, error)
            except (ModelError, StoreUnavailable) as error:
                return await self._failed(job, target, error)
            return await self._apply(job, target, prediction)

    async def on_dead(self, unit: Unit, job: Job[RunPayload], failure: Failure) -> None:
        await _note(unit, _target(job), job.attempt, failure, final=True)

    async def on_redrive(self, unit: Unit, payload: RunPayload) -> None:
        """It waits again, and nothing has failed yet."""
        await repo.try_again(unit, _target_of(unit.organization, payload))

    async def _predict(self, target: RunTarget) -> Prediction:
        if self._classifier.remote:
            return await self._asked(target)
        await self._classifier.open()  # it does nothing but the first time
        return await self._looked(target)

    async def _asked(self, target: RunTarget) -> Prediction:
        """An answer that costs something is asked for once, and only if somebody waits for it. One
        from before a crash brings nothing that was drawn: that is lacking, and drawn later."""
        if not await library.is_current(self._db, *_key(target), target.run):
            raise Superseded
        if reply := await repo.saved_reply(self._db, target):
            labels = tuple((label, score) for label, score in reply.get("labels", ()))
            return Prediction(reply["label"], reply["score"], labels=labels)
        await self._classifier.open()
        found = await self._looked(target)
        reply = {"label": found.label, "score": found.score, "labels": found.labels}
        await repo.save_reply(self._db, target, reply)
        return found

    async def _looked(self, target: RunTarget) -> Prediction:
        embedding = await self._embeddings.wanted()
        async with self._originals.open(_key(target)) as original:
            try:
                found = await self._classifier.classify(
                    original.source, thumbnail=self._thumbnails, embedding=embedding
                )
            except Undecodable as error:
                await self._originals.check(original, error.digest)
                raise
        await self._originals.check(original, found.drawing.digest)
        return found

    async def _apply(
        self, job: Job[RunPayload], target: RunTarget, prediction: Prediction
    ) -> Verdict:
        """Together with what else is ready for the organization."""
        now, model = self._units.clock.now_ms(), self._embeddings.model
        best = (prediction.label, prediction.score)
        result = Result(*best, model, now, prediction.labels or (best,), prediction.drawing)
        tried = _attempt(target, job.attempt)
        told = [tried] if await self._known(target, result) else [tried, _updated(target, result)]
        finding = ReadyResult(target, result, job, told, [tried, _dropped(target, _MOVED_ON)])
        mine, taken = await self._results.add(target.organization, finding)
        ended = job.ended(mine)
        if taken is None:
            raise DamagedObject
        self._units.announce(target.organization)
        self._count(AttemptEnd.DONE if taken else AttemptEnd.DROPPED)
        return ended

    async def _known(self, target: RunTarget, result: Result) -> bool:
        """Whether an entry that is classified anew has that label already: then nobody is told."""
        if target.run == 1:
            return False
        known = await library.label_of(self._db, *_key(target))
        return known == (result.label, result.score, result.model)

    async def _send(
        self, _: str, findings: Sequence[ReadyResult]
    ) -> Sequence[tuple[bool, bool | None]]:
        now, embeds = self._units.clock.now_ms(), await self._embeddings.kept()
        return await repo.apply(self._db, findings, now, embeds=embeds)

    async def _not_there(self, job: Job[RunPayload], target: RunTarget) -> Verdict:
        """The index has the word: where it still has this upload, a late write to the bucket took
        its place, and it is put back (objects/reconcile.py)."""
        indexed = await objects.find(self._db, object_key(target.organization, target.name))
        if indexed and indexed[0].metadata.get("idempotencyKey") == target.idempotency_key:
            return await self._failed(job, target, StoreUnavailable(_TAKEN))
        return await self._drop(job, target, "the object is gone or has been replaced")

    async def _drop(self, job: Job[RunPayload], target: RunTarget, reason: str) -> Verdict:
        async with self._units.open(target.organization) as unit:
            await unit.hold(job)
            await repo.drop(unit, target, reason)
            unit.tell(_dropped(target, reason))
            unit.ends(job)
        self._count(AttemptEnd.DROPPED)
        return Done(already=True)

    async def _give_up(
        self, job: Job[RunPayload], target: RunTarget, error: Undecodable
    ) -> Verdict:
        async with self._units.open(target.organization) as unit:
            await unit.hold(job)
            await _note(unit, target, job.attempt, Failure.of(error), final=True)
            unit.ends(job)
        self._count(AttemptEnd.FAILED)
        return Done(already=True)

    async def _survive(self, job: Job[RunPayload], target: RunTarget, error: ChildDied) -> Verdict:
        """Counted first: our own death after it does not let a second one pass for the first."""
        async with self._units.open(target.organization) as unit:
            await unit.hold(job)
            deaths = await repo.count_child_death(unit, target)
        if deaths < _MOST_DEATHS:
            return await self._failed(job, target, error)
        return await self._give_up(job, target, Undecodable(_DEADLY))

    async def _failed(
        self, job: Job[RunPayload], target: RunTarget, error: ModelError | StoreUnavailable
    ) -> Verdict:
        """The last attempt is told by `on_dead`, in the transaction that buries the job."""
        away = is_away(error)
        if job.last_attempt and not away:
            self._count(AttemptEnd.DEAD)
            return Dead(error)
        if not (away and job.waits):
            async with self._units.open(target.organization) as unit:
                await unit.hold(job)
                await _note(unit, target, job.attempt, Failure.of(error), final=False)
        self._count(AttemptEnd.AWAY if away else AttemptEnd.RETRIED)
        return Retry(error, error.retry_after if isinstance(error, ModelError) else None)


async def _note(
    unit: Unit, target: RunTarget, attempt: int, failure: Failure, *, final: bool
) -> None:
    error = failure.to_json()
    wanted = await repo.note_failure(unit, target, attempt, error, final=final)
    kind = "classification_error" if wanted else "run_dropped"
    data = {**_facts(target), "attempt": attempt, "error": error, "final": final}
    unit.tell(_attempt(target, attempt, error), Line(f"upload:{target.name}", kind, data))


def _target(job: Job[RunPayload]) -> RunTarget:
    return _target_of(job.organization, job.payload)


def _target_of(organization: str, payload: RunPayload) -> RunTarget:
    return RunTarget(organization, payload.name, payload.idempotencyKey, payload.run)


def _key(target: RunTarget) -> tuple[str, str, str]:
    return target.organization, target.name, target.idempotency_key


def _facts(target: RunTarget) -> dict[str, Any]:
    return {"name": target.name, "idempotencyKey": target.idempotency_key, "run": target.run}


def _attempt(target: RunTarget, attempt: int, error: dict[str, str] | None = None) -> Line:
    """One that ended, for the story of the name."""
    data = {**_facts(target), "attempt": attempt} | ({"error": error} if error else {})
    return Line(f"upload:{target.name}", "run_attempt", data)


def _dropped(target: RunTarget, reason: str) -> Line:
    return Line(f"upload:{target.name}", "run_dropped", {**_facts(target), "reason": reason})


def _updated(target: RunTarget, result: Result) -> Line:
    data = {
        **_facts(target),
        "classificationLabel": result.label,
        "classificationScore": result.score,
        "classifiedAt": iso(result.at),
        "classificationModel": result.model,
    }
    return Line(f"upload:{target.name}", "classification_updated", data)
