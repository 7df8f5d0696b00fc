"""The studio's webhooks: a job of our own calls the same route that vendors call."""

from typing import TYPE_CHECKING

from safelight.generations.kinds import DELIVER, Delivering
from safelight.generations.providers.base import Order
from safelight.generations.tokens import WebhookAddresses
from safelight.infra.failpoints import reach
from safelight.infra.queue.jobs import Done, Failure, Job, Retry, Verdict
from safelight.infra.queue.queue import Queue

if TYPE_CHECKING:
    import httpx

_SECONDS = 20.0
_SILENT = "silent"  # told to do nothing: the timer will end it


class Delivery:
    def __init__(self, queue: Queue, addresses: WebhookAddresses) -> None:
        self._queue = queue
        self._addresses = addresses
        self._client: httpx.AsyncClient | None = None

    async def announce_later(self, order: Order, outcome: str, delay: float) -> None:
        """Twice for one task is once: the job's key is the artifact."""
        if outcome == _SILENT:
            return
        payload = Delivering(order.generation_id, order.artifact_id, order.task_id or "", outcome)
        await reach("generations.deliver_later")
        await self._queue.enqueue(
            self._queue.db, DELIVER, payload, organization=None, key=order.artifact_id, run_in=delay
        )

    async def handle(self, job: Job[Delivering]) -> Verdict:
        import httpx

        told, timeout = job.payload, httpx.Timeout(_SECONDS)
        self._client = self._client or httpx.AsyncClient(timeout=timeout, trust_env=False)
        url = self._addresses.url("studio", told.generationId, told.artifactId)
        body = {"taskId": told.taskId, "status": told.outcome}
        try:
            await reach("generations.deliver")
            response = await self._client.post(url, json=body)
        except httpx.HTTPError as error:
            return Retry(Failure("UNREACHABLE", f"Our own webhook: {type(error).__name__}."))
        if response.is_success:
            return Done()
        return Retry(Failure("REFUSED", f"Our own webhook answered {response.status_code}."))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
