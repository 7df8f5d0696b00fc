"""Two servers and two workers, each with a disk of its own, on machines of which any may die."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from emulators.workers_ai import workers_ai
from ha.machines import BUCKET, PASSWORD, S3, Etcd, Node, etcd_members, nodes, s3, until_whole
from ha.ports import lasting_port
from harness import TOKEN
from objects.stores import CREDENTIALS
from safelight.testing.waiting import until
from storm.house import House, Program

_EACH = 2  # servers, and workers


@dataclass
class Machines(House):
    etcd: list[Etcd] = field(kw_only=True)
    nodes: list[Node] = field(kw_only=True)
    s3: S3 = field(kw_only=True)

    @property
    def database_url(self) -> str:
        """All of them; the driver finds the one that takes writes."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        wanted = "target_session_attrs=read-write"
        return f"postgresql://safelight:{PASSWORD}@{hosts}/safelight?{wanted}"

    @property
    def bucket_url(self) -> str:
        return f"s3://{BUCKET}?endpoint={self.s3.url}&{CREDENTIALS}"

    @property
    def beneath(self) -> list[Program]:
        return [*self.etcd, *self.nodes, self.s3]

    @property
    def watched(self) -> Iterable[Program]:
        return [*self.beneath, *self.programs]

    def halt(self) -> None:
        self.resting = True
        for program in self.watched:
            program.kill()
        for program in self.watched:
            if program.process:
                program.process.wait(20)


@asynccontextmanager
async def machines(root: Path) -> AsyncIterator[Machines]:
    """Ready, and watched over. `root` can be entered by PostgreSQL's user."""
    (root / "logs").mkdir()
    members = etcd_members(root)
    made = Machines("s3", root, etcd=members, nodes=nodes(root, members), s3=s3(root))
    with workers_ai() as vendor:
        common = {
            "SAFELIGHT_BOOTSTRAP_TOKEN": TOKEN,
            "SAFELIGHT_LOG_FORMAT": "json",
            "SAFELIGHT_LOG_LEVEL": "info",
            "SAFELIGHT_CLASSIFIER": "workers-ai",
            "SAFELIGHT_WORKERS_AI_URL": vendor.url,
            "SAFELIGHT_SHUTDOWN_SECONDS": "5",
            "SAFELIGHT_DATABASE_URL": made.database_url,
            "SAFELIGHT_OBJECT_STORE_URL": made.bucket_url,
        }
        watching: list[asyncio.Task[None]] = []
        try:
            for program in made.beneath:
                program.start()
            watching.append(asyncio.create_task(made.supervise()))
            await until_whole(made.nodes)
            await until(made.s3.made, 60, every=0.3)
            for number in range(_EACH):  # one after the other: the first makes the organization
                made.programs.append(_serve(root, number, common))
                await made.until_ready()
            made.programs += [_worker(root, number, common) for number in range(_EACH)]
            yield made
        finally:
            for task in watching:
                task.cancel()
            made.hang_up()
            made.halt()


def _serve(root: Path, number: int, common: dict[str, str]) -> Program:
    name, port = f"server-{number}", lasting_port()
    command = ["serve", "--port", str(port), "--data-dir", str(root / name)]
    log = root / "logs" / f"{name}.log"
    return Program(name, command, common, log, f"http://127.0.0.1:{port}")


def _worker(root: Path, number: int, common: dict[str, str]) -> Program:
    name = f"worker-{number}"
    command = ["worker", "--data-dir", str(root / name)]
    return Program(name, command, common, root / "logs" / f"{name}.log")
