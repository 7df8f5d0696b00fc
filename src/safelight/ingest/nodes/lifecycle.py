"""A node: an ingest directory and the processes beside it, as it is seen from elsewhere. Pure."""

from dataclasses import dataclass
from typing import Any

from safelight.infra.history import Line
from safelight.infra.injected import ImageId
from safelight.infra.queue.jobs import Failure
from safelight.infra.states import Phase, State
from safelight.ingest.lifecycle import MACHINE, ImageStatus

SILENT_SECONDS = 45.0  # several signs of life are missing by then

MACHINE_LOST = Failure(
    "MACHINE_LOST",
    "The machine that received this image did not come back, and it had the only copy. Upload the "
    "image again. Should the machine come back after all, the image is stored as if nothing had "
    "happened, unless its name was uploaded or deleted since.",
)
ORIGINAL_LOST = Failure(
    "ORIGINAL_LOST",
    "A late write replaced or removed this original in the bucket, and its received file went with "
    "a machine that did not come back. What the bucket holds now counts; upload the image again.",
)

# The moves that are written here, as the statements that make them are handed them.
LOST_FROM = MACHINE.before(ImageStatus.FAILED)
REVIVED_FROM = MACHINE.before(ImageStatus.UPLOADED)
MACHINE.check(ImageStatus.UPLOADED, ImageStatus.INGESTED)


class NodeStanding(State):
    # It has told of itself within the minute.
    ALIVE = ("alive", "Alive", "check", "good")
    # It has not, and something waits for it.
    MISSING = ("missing", "Missing", "alert", "problem", Phase.WAITING)
    # It has not, and nobody needs it.
    GONE = ("gone", "Gone", "dot", "plain", Phase.OVER)


@dataclass(frozen=True, slots=True)
class Node:
    """Times are in milliseconds, on the database's clock; None: there was no such moment. `silent`
    is for how many seconds it has told nothing; None: it never did, being of an earlier version,
    and then it counts whether somebody has `served` it within the hour."""

    id: str
    host: str
    directory: str
    version: str
    answered: int | None
    worked: int | None
    first_seen: int | None
    silent: float | None
    served: bool
    uploads: int  # of which it has the only copy
    others: int  # jobs besides
    oldest: int | None

    @property
    def standing(self) -> NodeStanding:
        here = self.served if self.silent is None else self.silent < SILENT_SECONDS
        if here:
            return NodeStanding.ALIVE
        return NodeStanding.MISSING if self.uploads or self.others else NodeStanding.GONE

    @property
    def last_seen(self) -> int | None:
        return max(filter(None, (self.answered, self.worked)), default=None)

    @property
    def roles(self) -> list[str]:
        """What its processes do, or did when it was last seen."""
        seen = {"serve": self.answered, "work": self.worked}
        last = self.last_seen or 0
        return [name for name, at in seen.items() if at and last - at < SILENT_SECONDS * 1000]


@dataclass(frozen=True, slots=True)
class RevivedImage:
    id: ImageId
    name: str
    checksum: str
    size_bytes: int

    def lines(self) -> list[Line]:
        """Both moves, as an upload makes them; the second is what the world is told."""
        known = {
            "imageId": self.id,
            "name": self.name,
            "checksum": self.checksum,
            "sizeBytes": self.size_bytes,
        }
        again = {"from": ImageStatus.FAILED, "to": ImageStatus.UPLOADED}
        moved = {"from": ImageStatus.UPLOADED, "to": ImageStatus.INGESTED, **known}
        why = {"reason": "the machine that received it, or its disk, is back"}
        subject, name = f"image:{self.id}", f"upload:{self.name}"
        return [
            Line(subject, "image_uploaded", again | why),
            Line(subject, "upload_ingested", moved, also=name),
        ]


def lost_line(image: str, name: str, node: str, actor: dict[str, str] | None) -> Line:
    facts: dict[str, Any] = {"from": ImageStatus.INGESTED, "to": ImageStatus.FAILED}
    facts |= {"error": MACHINE_LOST.to_json(), "imageId": image, "name": name, "node": node}
    if actor:
        facts["actor"] = actor
    return Line(f"image:{image}", "upload_failed", facts, also=f"upload:{name}")
