"""A task as its provider is told of it."""

from safelight.generations.lifecycle import Generation, Task
from safelight.generations.providers.base import Order
from safelight.generations.tokens import WebhookAddresses
from safelight.infra.injected import Clock


class Orders:
    def __init__(self, addresses: WebhookAddresses, clock: Clock) -> None:
        self._addresses = addresses
        self._clock = clock

    def order(self, generation: Generation, task: Task) -> Order:
        left = (generation.deadline - self._clock.now_ms()) / 1000
        return Order(
            generation_id=generation.id,
            artifact_id=task.artifact_id,
            position=task.position,
            task_id=task.provider_task_id,
            kind=generation.kind,
            model=generation.model,
            input=generation.input,
            webhook_url=self._addresses.url(generation.provider, generation.id, task.artifact_id),
            seconds=max(left, 1.0),
        )
