"""The end of an upload that was not in the store in time."""

from safelight.infra.db import Connection, write
from safelight.ingest.lifecycle import MACHINE, Image, ImageStatus

_WITHDRAWN_FROM = MACHINE.before(ImageStatus.FAILED)


@write
async def withdraw(connection: Connection, image: Image, now: int) -> ImageStatus | None:
    """What it is then: FAILED, its job gone, whoever had it; or what it had become already. None:
    there is no such record."""
    found = await connection.fetchval(
        "SELECT image_withdrawn($1, $2, $3, $4)",
        image.id, image.organization, _WITHDRAWN_FROM, now,
    )  # fmt: skip
    return None if found is None else ImageStatus(found)
