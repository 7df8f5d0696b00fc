"""A place for a job that is about to be enqueued: with this process's worker, or with nobody."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

P = TypeVar("P")


class FreeSlots(Protocol):
    """A worker's, for jobs that are about to be enqueued for it."""

    def reserve(self, kind: str, organization: str) -> bool: ...
    def release(self, kind: str, organization: str) -> None: ...


class JobPlace(Generic[P]):
    """`lessee` is whom the job's statement leases it to, if anybody."""

    def __init__(self, hand_over: Callable[[int | None, P], None], lessee: str | None) -> None:
        self._hand_over = hand_over
        self.lessee = lessee
        self._taken: tuple[int | None, P] | None = None

    def take(self, job_id: int | None, payload: P) -> None:
        """After the commit. No id: the statement enqueued none."""
        self._taken = job_id, payload

    def settle(self) -> None:
        """Once the slot is free that was kept for it: nobody comes in between."""
        if self._taken:
            self._hand_over(*self._taken)
