"""What is decided about nodes: which there are, and that one is not waited for any more.

Guarantees
- A node that lives is not given up: each step looks again, while the node cannot tell of itself.
- Its images become FAILED in words, are told of, and give back what they counted for, some at a
  time, each step whole; cut short, it is asked for again, for those that are left.
- Nobody gives up blindly: whoever asks says how many uploads are lost.
- No file is touched. A machine that does come back, or its disk, brings its images back
  (revive.py).
"""

from collections.abc import Mapping

import structlog

from safelight.errors import Conflict, NotFound
from safelight.infra.activity import Units
from safelight.ingest.nodes import repo
from safelight.ingest.nodes.lifecycle import Node, NodeStanding, lost_line

_AT_ONCE = 100


class NodeAlive(Conflict):
    """That machine is alive. Stop its servers and workers first, and wait a minute."""


class CountDiffers(Conflict):
    """That is not how many uploads would be lost. Look again, and say the number."""


class Nodes:
    def __init__(self, units: Units) -> None:
        self._units = units
        self._db = units.db

    async def all(self) -> list[Node]:
        """Those that are missing first, then by name."""
        order = [NodeStanding.MISSING, NodeStanding.ALIVE, NodeStanding.GONE]
        found = await repo.nodes(self._db)
        return sorted(found, key=lambda node: (order.index(node.standing), node.host, node.id))

    async def give_up(
        self, node_id: str, uploads: int, actor: Mapping[str, str] | None = None
    ) -> int:
        """Answers how many images failed."""
        node = await self._known(node_id)
        if node.standing is NodeStanding.ALIVE:
            raise NodeAlive
        if node.uploads != uploads:
            raise CountDiffers(
                f"{node.uploads} uploads would be lost with {node.host or node.id}, not {uploads}. "
                f"If that is what you want, say {node.uploads}."
            )
        failed = 0
        while organization := await repo.owner_of_next(self._db, node_id):
            failed += await self._give_up_some(node_id, organization, dict(actor or {}))
        await repo.forget(self._db, node_id)
        structlog.get_logger().warning(
            "a machine was given up", node=node_id, host=node.host, uploads=failed
        )
        return failed

    async def _give_up_some(self, node_id: str, organization: str, actor: dict[str, str]) -> int:
        async with self._units.open(organization) as unit:
            await repo.hold(unit.connection, node_id)
            found = {node.id: node for node in await repo.nodes(unit.connection)}
            if node_id in found and found[node_id].standing is NodeStanding.ALIVE:
                raise NodeAlive
            lost = await repo.lose(unit.connection, node_id, organization, _AT_ONCE, unit.now)
            await repo.not_put_back(unit.connection, node_id, organization, _AT_ONCE)
            unit.tell(*(lost_line(image, name, node_id, actor) for image, name in lost))
        return len(lost)

    async def _known(self, node_id: str) -> Node:
        for node in await repo.nodes(self._db):
            if node.id == node_id:
                return node
        raise NotFound(f"There is no machine {node_id}.")
