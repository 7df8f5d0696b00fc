"""Signs of life: each process tells every few seconds that its node is there, in one cheap
statement beside all other work, and of those that have stopped telling the log hears once.

Guarantee: an outage of the database is no sign of anything. Whoever looks has a database, and says
that a node is missing only when that has not heard of it for most of a minute.
"""

import asyncio
import socket

import structlog

from safelight import __version__
from safelight.infra.db import Database
from safelight.ingest.directory import IngestDirectory
from safelight.ingest.nodes import repo

_EVERY_SECONDS = 10.0

log = structlog.get_logger()


class SignsOfLife:
    """Of one process; `answers` HTTP, `works` on jobs, or both."""

    def __init__(
        self, db: Database, directory: IngestDirectory, *, answers: bool, works: bool
    ) -> None:
        self._db = db
        self._directory = directory
        self._answers = answers
        self._works = works
        self._telling: asyncio.Task[None] | None = None
        self._heard = True

    def start(self) -> None:
        self._telling = asyncio.create_task(self._tell_for_ever())

    async def stop(self) -> None:
        if self._telling:
            self._telling.cancel()
            await asyncio.wait([self._telling])

    async def tell(self) -> None:
        """That we are here; and of those that are not, what waits for them."""
        here = self._directory
        await repo.tell(
            self._db, here.node, socket.gethostname(), str(here.path), __version__,
            answers=self._answers, works=self._works,
        )  # fmt: skip
        missing = set(await repo.notice(self._db))
        for node in await repo.nodes(self._db) if missing else ():
            if node.id in missing:
                log.warning(
                    "a machine is missing. Start it again, or adopt its ingest directory, or give "
                    "it up: `safelight nodes list`",
                    node=node.id,
                    host=node.host,
                    directory=node.directory,
                    uploads=node.uploads,
                )

    async def _tell_for_ever(self) -> None:
        while True:
            try:
                await self.tell()
                self._heard = True
            except Exception as error:  # noqa: BLE001 - the next one may be heard
                if self._heard:  # not for every try of a long outage
                    log.warning("a sign of life was not heard", error=repr(error))
                self._heard = False
            await asyncio.sleep(_EVERY_SECONDS)
