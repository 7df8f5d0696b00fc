"""What every feature stands on, and what each brings."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from safelight.infra.activity import Units
from safelight.infra.bus import Bus
from safelight.infra.db import Database
from safelight.infra.injected import Clock, Ids
from safelight.infra.metrics import Metrics
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.queue import Queue
from safelight.settings import Settings


@dataclass(frozen=True, slots=True)
class Base:
    settings: Settings
    clock: Clock
    ids: Ids
    metrics: Metrics
    db: Database
    bus: Bus
    queue: Queue
    units: Units


@dataclass(frozen=True, slots=True)
class Feature:
    """`services` are what routes ask for by type, `handlers` what the worker runs; `close` comes
    last. Opening one starts nothing and loads nothing: a process without a worker opens it too."""

    services: tuple[object, ...] = ()
    handlers: tuple[Handler[Any], ...] = ()
    close: Callable[[], Awaitable[None]] | None = None
