"""Whether this process can run jobs, for /readyz."""

from dataclasses import dataclass

from safelight.infra.queue.worker import Worker


@dataclass(frozen=True, slots=True)
class Engine:
    worker: Worker | None  # none in a process that only answers HTTP

    @property
    def healthy(self) -> bool:
        return self.worker is None or self.worker.healthy
