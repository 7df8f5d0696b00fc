"""One run: read the bytes, ask the model, write the result where it is still wanted.

A local model has one durable boundary, the guarded write: after a crash before it, the work is done
again; after it, the job is gone. A remote model costs money and time, so its reply is saved before
it is used, and a retry finds it. The write applies only where organization, name, marker and run
number still match; a result that comes late is dropped, recorded, and told to nobody.

While store or model are away, the run waits: no attempt is spent, and the history tells of it once;
the entry shows when it is tried again. What is the image's own fault is its owner's news, not an
operator's: bytes that cannot be decoded, or of which a second process has died, end the run as
failed at once, and nobody tries again. Other failures are the system's: tried again, then a dead
letter.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from safelight.classification import repo
from safelight.classification.base import (
    ChildDied,
    Classifier,
    ModelError,
    Prediction,
    Undecodable,
)
from safelight.classification.jobs import RunPayload
from safelight.classification.lifecycle import AttemptEnd, Result, RunTarget
from safelight.infra.activity import Unit, Units
from safelight.infra.away import is_away
from safelight.infra.history import Line
from safelight.infra.injected import iso
from safelight.infra.queue.jobs import Dead, Done, Failure, Job, Retry, Verdict
from safelight.library import repo as library
from safelight.objects.keys import object_key
from safelight.objects.store import NoSuchObject, ObjectStore, StoreUnavailable

_LARGEST = 256 * 1024 * 1024  # the bytes are held in memory, for as many as run at once
_MOST_DEATHS = 2
_MOVED_ON = "the entry has moved on"
_DEADLY = (
    "Decoding this image ended the process that did it, twice. "
    "Save it again with an image editor and upload that."
)


class Superseded(Exception):
    """The object in the store is not the one this run is for."""


class Classification:
    def __init__(
        self,
        units: Units,
        store: ObjectStore,
        classifier: Classifier,
        count: Callable[[AttemptEnd], None],
    ) -> None:
        self._db = units.db
        self._units = units
        self._store = store
        self._classifier = classifier
        self._count = count

    async def handle(self, job: Job[RunPayload]) -> Verdict:
        target = _target(job)
        if not await library.is_current(
            self._db, target.organization, target.name, target.idempotency_key, target.run
        ):
            return await self._drop(job, target, _MOVED_ON)
        try:
            prediction = await self._predict(target)
        except (NoSuchObject, Superseded):
            return await self._drop(job, target, "the object is gone or has been replaced")
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
        if self._classifier.remote and (reply := await repo.saved_reply(self._db, target)):
            labels = tuple((label, score) for label, score in reply.get("labels", ()))
            return Prediction(reply["label"], reply["score"], labels=labels)
        await self._classifier.open()  # it does nothing but the first time
        async with self._bytes(target) as data:
            prediction = await self._classifier.classify(data)
        if self._classifier.remote:
            reply = {
                "label": prediction.label,
                "score": prediction.score,
                "labels": prediction.labels,
            }
            await repo.save_reply(self._db, target, reply)
        return prediction

    @asynccontextmanager
    async def _bytes(self, target: RunTarget) -> AsyncIterator[bytes | int]:
        content = await self._store.get(object_key(target.organization, target.name))
        held = content.info.metadata.get("idempotencyKey")
        if held is not None and held != target.idempotency_key:
            raise Superseded
        if content.info.size > _LARGEST:
            raise Undecodable("The file is too large to be classified. Upload a smaller version.")
        async with content.source() as source:
            yield source

    async def _apply(
        self, job: Job[RunPayload], target: RunTarget, prediction: Prediction
    ) -> Verdict:
        now, model = self._units.clock.now_ms(), _model_name(self._classifier)
        best = (prediction.label, prediction.score)
        result = Result(*best, model, now, prediction.labels or (best,))
        tried = _attempt(target, job.attempt)
        told, dropped = _updated(target, result), _dropped(target, _MOVED_ON)
        lines = [tried, told], [tried, dropped]
        mine, taken = await repo.apply(self._db, target, result, job, *lines)
        self._units.announce(target.organization)
        ended = job.ended(mine)
        self._count(AttemptEnd.DONE if taken else AttemptEnd.DROPPED)
        return ended

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


def _model_name(classifier: Classifier) -> str:
    """With the weights, where they are known: a result can be told from a later model's."""
    version = classifier.model_hash
    return f"{classifier.model}@{version[:12]}" if version else classifier.model


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
