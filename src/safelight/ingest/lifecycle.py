"""The states of an image and the only moves between them. docs/states.md is drawn from this."""

from enum import StrEnum

from safelight.errors import SafelightError


class Status(StrEnum):
    UPLOADED = "UPLOADED"  # all bytes have arrived
    INGESTED = "INGESTED"  # the temporary file is safe and its metadata recorded
    STORED = "STORED"  # the original is in the object store
    FAILED = "FAILED"  # it could not be ingested or stored; the history says why


TRANSITIONS: dict[Status, tuple[Status, ...]] = {
    Status.UPLOADED: (Status.INGESTED, Status.FAILED),
    Status.INGESTED: (Status.STORED, Status.FAILED),
    Status.STORED: (),
    Status.FAILED: (Status.UPLOADED,),
}


class IllegalTransition(SafelightError):
    """An image cannot make that move."""

    code = "ILLEGAL_TRANSITION"


def check(before: Status, after: Status) -> None:
    allowed = TRANSITIONS[before]
    if after not in allowed:
        names = ", ".join(allowed) or "none: it is final"
        raise IllegalTransition(f"An image cannot go {before} → {after}. Allowed: {names}.")
