"""Who does the work of a kind, and that every kind has somebody."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from safelight.errors import ConfigurationError
from safelight.infra.activity import Unit
from safelight.infra.queue.jobs import Done, Failure, Job, JobKind, Nothing, Verdict

P = TypeVar("P")

Handle = Callable[[Job[P]], Awaitable[Verdict]]
OnDead = Callable[[Unit, Job[P], Failure], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Handler(Generic[P]):
    """`on_dead` runs in the unit that buries the job: it may write with its connection (quickly),
    and tell history beside `job_dead`."""

    kind: JobKind[P]
    handle: Handle[P]
    on_dead: OnDead[P] | None = None


def upkeep(kind: JobKind[Nothing], run: Callable[[], Awaitable[object]]) -> Handler[Nothing]:
    """For scheduled work that needs nothing of its job."""

    async def handle(_: Job[Nothing]) -> Verdict:
        await run()
        return Done()

    return Handler(kind, handle)


def matched(
    kinds: Mapping[str, JobKind[Any]], handlers: Iterable[Handler[Any]]
) -> dict[str, Handler[Any]]:
    """Refuses to start with a kind nobody handles, or a handler of a kind nobody declared."""
    found: dict[str, Handler[Any]] = {}
    for handler in handlers:
        name = handler.kind.name
        if name in found:
            raise ConfigurationError(f"Job kind {name} has two handlers. Remove one of them.")
        if kinds.get(name) is not handler.kind:
            raise ConfigurationError(f"The handler of {name} handles a kind nobody declared.")
        found[name] = handler
    if missing := kinds.keys() - found.keys():
        raise ConfigurationError(f"No handler for job kind {', '.join(sorted(missing))}.")
    return found
