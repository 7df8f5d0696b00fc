"""One run: read the bytes, ask the model, write the result where it is still wanted.

A local model has one durable boundary, the guarded write: after a crash before it, the work is done
again; after it, the job is gone. A remote model costs money and time, so its reply is saved before
it is used, and a retry finds it. The write applies only where organization, name, marker and run
number still match; a result that comes late is dropped, recorded, and told to nobody.

While the model is away, the run waits: no attempt is spent, and the history tells of it once. An
attempt that left no word has probably killed its worker. The next one has the image redrawn in the
sandbox first; if that dies too, the image is to blame and nobody tries again.
"""

from typing import Any

from safelight.classification import repo
from safelight.classification.base import Classifier, ModelError, Prediction, Undecodable
from safelight.classification.jobs import RunPayload
from safelight.classification.lifecycle import Result, RunTarget
from safelight.infra.activity import Unit, Units
from safelight.infra.away import is_away
from safelight.infra.files import joined
from safelight.infra.history import Line
from safelight.infra.injected import iso
from safelight.infra.queue.jobs import Dead, Done, Failure, Job, Retry, Verdict
from safelight.library import repo as library
from safelight.objects.keys import object_key
from safelight.objects.store import NoSuchObject, ObjectStore
from safelight.sandbox.sandbox import Sandbox, TaskDied

_REDRAWN_SIDE = 1024
_LARGEST = 256 * 1024 * 1024  # the bytes are held in memory, for as many as run at once
_MOVED_ON = "the entry has moved on"


class Superseded(Exception):
    """The object in the store is not the one this run is for."""


class Classification:
    def __init__(
        self,
        units: Units,
        store: ObjectStore,
        classifier: Classifier,
        sandbox: Sandbox | None = None,
    ) -> None:
        self._db = units.db
        self._units = units
        self._store = store
        self._classifier = classifier
        self._sandbox = sandbox

    async def handle(self, job: Job[RunPayload]) -> Verdict:
        target = _target(job)
        if not await library.is_current(
            self._db, target.organization, target.name, target.idempotency_key, target.run
        ):
            return await self._drop(job, target, _MOVED_ON)
        try:
            prediction = await self._predict(target, suspect=job.deaths > 0)
        except (NoSuchObject, Superseded):
            return await self._drop(job, target, "the object is gone or has been replaced")
        except Undecodable as error:
            return Dead(error)
        except ModelError as error:
            return await self._failed(job, target, error)
        return await self._apply(job, target, prediction)

    async def on_dead(self, unit: Unit, job: Job[RunPayload], failure: Failure) -> None:
        await _note(unit, _target(job), job.attempt, failure, final=True)

    async def _predict(self, target: RunTarget, *, suspect: bool) -> Prediction:
        if self._classifier.remote and (reply := await repo.saved_reply(self._db, target)):
            return Prediction(reply["label"], reply["score"])
        data = await self._bytes(target)
        if suspect and self._sandbox and not self._classifier.remote:
            data = await _redrawn(self._sandbox, data)
        await self._classifier.open()  # the first time loads the model, later ones do nothing
        prediction = await self._classifier.classify(data)
        if self._classifier.remote:
            reply = {"label": prediction.label, "score": prediction.score}
            await repo.save_reply(self._db, target, reply)
        return prediction

    async def _bytes(self, target: RunTarget) -> bytes:
        content = await self._store.get(object_key(target.organization, target.name))
        held = content.info.metadata.get("idempotencyKey")
        if held is not None and held != target.idempotency_key:
            raise Superseded
        if content.info.size > _LARGEST:
            raise Undecodable("The file is too large to be classified.")
        return await joined(content.chunks)

    async def _apply(
        self, job: Job[RunPayload], target: RunTarget, prediction: Prediction
    ) -> Verdict:
        now, model = self._units.clock.now_ms(), _model_name(self._classifier)
        result = Result(prediction.label, prediction.score, model, now)
        told, dropped = _updated(target, result), _dropped(target, _MOVED_ON)
        mine, _ = await repo.apply(self._db, target, result, job, told, dropped)
        self._units.announce(target.organization)
        return job.ended(mine)

    async def _drop(self, job: Job[RunPayload], target: RunTarget, reason: str) -> Verdict:
        async with self._units.open(target.organization) as unit:
            await unit.hold(job)
            await repo.drop(unit, target, reason)
            unit.tell(_dropped(target, reason))
            unit.ends(job)
        return Done(already=True)

    async def _failed(self, job: Job[RunPayload], target: RunTarget, error: ModelError) -> Verdict:
        """The last attempt is told by `on_dead`, in the transaction that buries the job."""
        away = is_away(error)
        if error.permanent or (job.last_attempt and not away):
            return Dead(error)
        if away and job.waits:
            return Retry(error, error.retry_after)
        async with self._units.open(target.organization) as unit:
            await unit.hold(job)
            await _note(unit, target, job.attempt, Failure.of(error), final=False)
        return Retry(error, error.retry_after)


async def _redrawn(sandbox: Sandbox, data: bytes) -> bytes:
    try:
        return (await sandbox.render(data, max_side=_REDRAWN_SIDE)).data
    except TaskDied as error:
        raise Undecodable("The image cannot be decoded within its limits.") from error


async def _note(
    unit: Unit, target: RunTarget, attempt: int, failure: Failure, *, final: bool
) -> None:
    error = failure.to_json()
    wanted = await repo.note_failure(unit, target, attempt, error, final=final)
    kind = "classification_error" if wanted else "run_dropped"
    data = {**_facts(target), "attempt": attempt, "error": error, "final": final}
    unit.tell(Line(f"upload:{target.name}", kind, data))


def _target(job: Job[RunPayload]) -> RunTarget:
    payload = job.payload
    return RunTarget(job.organization, payload.name, payload.idempotencyKey, payload.run)


def _model_name(classifier: Classifier) -> str:
    """With the weights, where they are known: a result can be told from a later model's."""
    version = classifier.model_hash
    return f"{classifier.model}@{version[:12]}" if version else classifier.model


def _facts(target: RunTarget) -> dict[str, Any]:
    return {"name": target.name, "idempotencyKey": target.idempotency_key, "run": target.run}


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
