"""The states of an image and the only moves between them. docs/states.md is drawn from this."""

from enum import StrEnum

from safelight.infra.states import Machine

# What the world is told, and the fields of each message.
MESSAGES = {
    "upload_ingested": ("imageId", "name", "checksum", "sizeBytes"),
    "upload_stored": ("imageId", "name", "eventTime"),
}


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
MACHINE = Machine("An image", TRANSITIONS)
check = MACHINE.check
