"""Classifying a library anew, as a whole: what is wanted, and how far it has come. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safelight.infra.states import Machine, Phase, State


class ReclassificationStatus(State):
    RUNNING = "running", "Going on", "loop", "plain"
    DONE = "done", "Done", "check", "plain", Phase.OVER
    CANCELLED = "cancelled", "Cancelled", "cross", "plain", Phase.OVER  # what had begun ends


MACHINE = Machine(
    "A reclassification",
    {
        ReclassificationStatus.RUNNING: (
            ReclassificationStatus.DONE,
            ReclassificationStatus.CANCELLED,
        ),
        ReclassificationStatus.DONE: (),
        ReclassificationStatus.CANCELLED: (),
    },
)


@dataclass(frozen=True, slots=True)
class ReclassifyFilter:
    """Of which entries: those with a label, those that another model labelled, or all that have
    theirs or failed to get one."""

    label: str | None = None
    not_by: str | None = None


@dataclass(frozen=True, slots=True)
class Reclassification:
    id: str
    organization: str
    asked_by: Mapping[str, Any]
    label: str | None
    not_by: str | None
    status: ReclassificationStatus
    total: int
    done: int
    failed: int
    skipped: int  # deleted or replaced meanwhile, or being classified anyway
    created_at: int
    finished_at: int | None

    @property
    def ended(self) -> int:
        return self.done + self.failed + self.skipped

    @property
    def remaining(self) -> int:
        """None, once it is over: what was begun by then ends by itself."""
        return 0 if self.status.over else max(self.total - self.ended, 0)


@dataclass(frozen=True, slots=True)
class Counted:
    """Runs that have ended since the last look, and how many are under way."""

    done: int
    failed: int
    skipped: int
    under_way: int


@dataclass(frozen=True, slots=True)
class Begun:
    """What has begun: names, markers and runs. `over`: there are no more entries."""

    runs: tuple[tuple[str, str, int], ...]
    left_out: int
    over: bool
