"""Images that were given up with their machine, and whose files turn up: on a machine that came
back after all, or on a disk that somebody moved.

Guarantees: each goes on from where it was, under the number it had when it was recorded, so what
was uploaded or deleted under its name since wins; its bytes are checked on the way to the store.
Doing it twice is doing it once.
"""

from collections.abc import Sequence

import structlog

from safelight.infra.activity import Units
from safelight.infra.queue.jobs import TOPIC
from safelight.ingest.jobs import OFFLOAD
from safelight.ingest.nodes import repo


async def revive(units: Units, images: Sequence[str], node: str) -> int:
    """`images` are those whose files are in the directory of `node`."""
    revived = 0
    for organization, ids in (await repo.given_up(units.db, images)).items():
        async with units.open(organization) as unit:
            back = await repo.revive(unit.connection, organization, ids, node, unit.now)
            unit.tell(*(line for image in back for line in image.lines()))
            unit.announce(TOPIC, OFFLOAD.name)
        revived += len(back)
    if revived:
        structlog.get_logger().warning(
            "uploads are back that had been given up with their machine", count=revived
        )
    return revived
