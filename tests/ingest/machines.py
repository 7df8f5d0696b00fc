"""Machines that share a database and a store, each with an ingest directory of its own. One is destroyed
by never touching its directory again; that it is missed takes no waiting, its last sign is moved."""

from pathlib import Path

from ingest.offloading import Yard
from objects.stores import Local
from safelight.infra.db import Database
from safelight.infra.metrics import Metrics
from safelight.infra.queue.jobs import Verdict
from safelight.ingest.jobs import OFFLOAD
from safelight.ingest.lifecycle import Image
from safelight.ingest.nodes.give_up import Nodes
from safelight.ingest.nodes.lifecycle import Node
from safelight.ingest.nodes.signs import SignsOfLife
from safelight.ingest.sweep import IngestSweep


class Machine:
    def __init__(self, db: Database, root: Path, blobs: Path) -> None:
        self.yard = Yard(db, root)
        self.yard.store = Local(db, blobs, self.yard.clock).store
        self.yard.offload._store = self.yard.store
        self.signs = SignsOfLife(db, self.yard.directory, answers=True, works=True)
        self.nodes = Nodes(self.yard.units)

    @property
    def id(self) -> str:
        return self.yard.directory.node

    @property
    def directory(self) -> Path:
        return self.yard.directory.path

    async def start(self) -> None:
        """As a server does: whoever is here first sweeps, then tells of itself."""
        await self.sweep()
        await self.signs.tell()

    async def sweep(self) -> None:
        sweep = IngestSweep(
            self.yard.queue, self.yard.directory, self.yard.clock, Metrics(), 86_400
        )
        await sweep.at_start()

    async def bring_all(self) -> None:
        """Every upload whose job is this machine's."""
        rows = await self.yard.db.fetch(
            "SELECT key FROM jobs WHERE kind = $1 AND node = $2 AND status <> 'dead'",
            OFFLOAD.name, self.id,
        )  # fmt: skip
        for row in rows:
            await self.bring(row["key"])

    async def bring(self, image: str) -> Verdict:
        job = await self.yard._claim(OFFLOAD.name, image)
        assert job
        return await self.yard.offload.handle(job)

    async def silent(self, seconds: float = 60) -> None:
        """As after so long without a sign."""
        await self.yard.db.execute(
            "UPDATE nodes SET answered = now() - make_interval(secs => $2), "
            "worked = now() - make_interval(secs => $2) WHERE id = $1",
            self.id, seconds,
        )  # fmt: skip

    async def destroyed(self, uploads: int = 0) -> list[Image]:
        """With so many on its disk. Whoever has them in hand is gone too."""
        images = [await self.yard.receive(f"{n}.jpg", b"%d" % n) for n in range(uploads)]
        await self.silent()
        self.yard.directory.close()
        return images

    async def seen(self, node: str) -> Node | None:
        return next((one for one in await self.nodes.all() if one.id == node), None)
