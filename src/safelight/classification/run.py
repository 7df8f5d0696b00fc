"""One run: read the bytes, ask the model, write the result where it is still wanted.

A local model has one durable boundary, the guarded write: after a crash before it, the work is done
again; after it, the job is gone. A remote model costs money and time, so its reply is saved before
it is used, and a retry finds it. The write applies only where organization, name, marker and run
number still match; a result that comes late is dropped, recorded, and told to nobody.

An attempt that left no word has probably killed its worker. The next one has the image redrawn in
the sandbox first; if that dies too, the image is to blame and nobody tries again.
"""

from dataclasses import dataclass
from typing import Any

from safelight.classification import repo
from safelight.classification.base import Classifier, ModelError, Prediction, Undecodable
from safelight.classification.repo import Marker, Result
from safelight.infra.activity import Unit, Units
from safelight.infra.db import Connection
from safelight.infra.failpoints import reach
from safelight.infra.history import Line
from safelight.infra.injected import iso
from safelight.infra.queue.jobs import Dead, Failure, Job, Retry, Verdict
from safelight.library.search import words
from safelight.objects.keys import object_key
from safelight.objects.store import NoSuchObject, ObjectStore
from safelight.sandbox.sandbox import Sandbox, TaskDied

_REDRAWN_SIDE = 1024
_LARGEST = 256 * 1024 * 1024  # the bytes are held in memory, for as many as run at once


@dataclass(frozen=True, slots=True)
class Running:
    """The payload of `classification.run`."""

    name: str
    idempotencyKey: str  # noqa: N815 - payloads are JSON that people read
    run: int


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
        self._clock = units.clock
        self._sandbox = sandbox

    async def handle(self, job: Job[Running]) -> Verdict:
        marker = _marker(job)
        if not await repo.is_current(self._db, marker):
            return await self._drop(job, marker, "the entry has moved on")
        try:
            prediction = await self._predict(marker, suspect=await self._is_suspect(job, marker))
        except (NoSuchObject, Superseded):
            return await self._drop(job, marker, "the object is gone or has been replaced")
        except Undecodable as error:
            return Dead(error)
        except ModelError as error:
            return await self._failed(job, marker, error)
        return await self._apply(job, marker, prediction)

    async def _is_suspect(self, job: Job[Running], marker: Marker) -> bool:
        if job.attempt == 1:
            return False
        return await repo.recorded_attempts(self._db, marker) < job.attempt - 1

    async def _predict(self, marker: Marker, *, suspect: bool) -> Prediction:
        if self._classifier.remote and (reply := await repo.saved_reply(self._db, marker)):
            return Prediction(reply["label"], reply["score"])
        data = await self._bytes(marker)
        if suspect and self._sandbox and not self._classifier.remote:
            data = await self._redrawn(data)
        await self._classifier.open()  # the first time loads the model, later ones do nothing
        prediction = await self._classifier.classify(data)
        if self._classifier.remote:
            reply = {"label": prediction.label, "score": prediction.score}
            await reach("classification.save_reply")
            await repo.save_reply(self._db, marker, reply)
        return prediction

    async def _redrawn(self, data: bytes) -> bytes:
        assert self._sandbox is not None  # noqa: S101 - asked before
        try:
            return (await self._sandbox.render(data, max_side=_REDRAWN_SIDE)).data
        except TaskDied as error:
            raise Undecodable("The image cannot be decoded within its limits.") from error

    async def _bytes(self, marker: Marker) -> bytes:
        content = await self._store.get(object_key(marker.organization, marker.name))
        held = content.info.metadata.get("idempotencyKey")
        if held is not None and held != marker.idempotency_key:
            raise Superseded
        if content.info.size > _LARGEST:
            raise Undecodable("The file is too large to be classified.")
        return await content.read()

    async def _apply(self, job: Job[Running], marker: Marker, found: Prediction) -> Verdict:
        now = self._clock.now_ms()
        model = _model_name(self._classifier)
        result = Result(found.label, found.score, model, words(marker.name, found.label), now)
        await reach("classification.apply")
        told, dropped = _updated(marker, result), _dropped(marker, "the entry has moved on")
        mine, _ = await repo.apply(self._db, marker, result, job, told, dropped)
        self._units.announce(marker.organization)
        return job.ended(mine)

    async def _drop(self, job: Job[Running], marker: Marker, reason: str) -> Verdict:
        entry = _dropped(marker, reason)
        await reach("classification.drop")
        mine = await repo.drop(self._db, marker, reason, self._clock.now_ms(), job, entry)
        return job.ended(mine)

    async def _failed(self, job: Job[Running], marker: Marker, error: ModelError) -> Verdict:
        """The last attempt is told by `on_dead`, in the transaction that buries the job."""
        if error.permanent or job.last_attempt:
            return Dead(error)
        failure = Failure.of(error)
        async with self._units.open(marker.organization) as unit:
            await unit.hold(job)
            told = await self._note(unit.connection, marker, job.attempt, failure, final=False)
            unit.tell(*told)
        return Retry(error, error.retry_after)

    async def on_dead(self, unit: Unit, job: Job[Running], failure: Failure) -> None:
        told = await self._note(unit.connection, _marker(job), job.attempt, failure, final=True)
        unit.tell(*told)

    async def _note(
        self, connection: Connection, marker: Marker, attempt: int, failure: Failure, *, final: bool
    ) -> list[Line]:
        error = failure.to_json()
        now = self._clock.now_ms()
        await reach("classification.fail")
        wanted = await repo.note_failure(connection, marker, attempt, error, final=final, now=now)
        kind = "classification_error" if wanted else "run_dropped"
        data = {**_facts(marker), "attempt": attempt, "error": error, "final": final}
        return [Line(f"upload:{marker.name}", kind, data)]


def _marker(job: Job[Running]) -> Marker:
    payload = job.payload
    return Marker(job.organization, payload.name, payload.idempotencyKey, payload.run)


def _model_name(classifier: Classifier) -> str:
    """With the weights, where they are known: a result can be told from a later model's."""
    version = classifier.model_hash
    return f"{classifier.model}@{version[:12]}" if version else classifier.model


def _facts(marker: Marker) -> dict[str, Any]:
    return {"name": marker.name, "idempotencyKey": marker.idempotency_key, "run": marker.run}


def _dropped(marker: Marker, reason: str) -> Line:
    return Line(f"upload:{marker.name}", "run_dropped", {**_facts(marker), "reason": reason})


def _updated(marker: Marker, result: Result) -> Line:
    return Line(
        f"upload:{marker.name}",
        "classification_updated",
        {
            **_facts(marker),
            "classificationLabel": result.label,
            "classificationScore": result.score,
            "classifiedAt": iso(result.at),
            "classificationModel": result.model,
        },
    )
