"""What a storm breaks: real processes on a real database, and the ways to reach and to hurt them."""

import asyncio
import random
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import psutil

from emulators.workers_ai import workers_ai
from faults.clock import NoCompiler, Shim, WrongClock
from faults.disk import SmallDisk
from faults.power import PoweredVolume
from faults.relay import relay
from harness import TOKEN, free_port
from safelight.infra.postgres import account
from safelight.infra.postgres.server import EmbeddedPostgres, NoServer, join
from safelight.testing.waiting import until
from storm.bucket import EVENTS_TOKEN, StormyBucket, stormy_bucket
from storm.house import House, Program

Store = Literal["local", "s3", "telling"]


@dataclass
class World(House):
    volume: PoweredVolume = field(kw_only=True)
    mounted: bool = field(kw_only=True)  # else a plain directory: never full, always has its power
    postgres: EmbeddedPostgres | None = None  # none: the server's own
    database_clock: WrongClock | None = None
    bucket: StormyBucket | None = None

    @property
    def data_dir(self) -> Path:
        """The first server's."""
        return self.volume.where / "0"

    @property
    def disk(self) -> SmallDisk:
        return SmallDisk(self.volume.where)

    @property
    def database_url(self) -> str:
        return self.postgres.url if self.postgres else join(self.data_dir)

    @property
    def postmaster(self) -> "psutil.Process | None":
        with suppress(OSError, ValueError, IndexError, StopIteration, psutil.Error):
            file = next(self.volume.where.glob("*/postgres/cluster/postmaster.pid"))
            process = psutil.Process(int(file.read_text().splitlines()[0]))
            return process if process.name().startswith("postgres") else None
        return None

    async def halt(self) -> None:
        """Everything that runs on the volume is gone at once, as by its power."""
        self.resting = True
        postmaster = self.postmaster
        doomed = [psutil.Process(program.pid) for program in self.programs if program.pid]
        doomed += [postmaster] if postmaster else []
        everybody = [*doomed]
        for process in doomed:
            with suppress(psutil.Error):
                everybody += process.children(recursive=True)
        for process in everybody:
            with suppress(psutil.Error):
                process.kill()
        for program in self.programs:
            if program.process:
                program.process.wait(20)
        await until(lambda: not any(_lives(process) for process in everybody), 20)


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@asynccontextmanager
async def world(store: Store, root: Path, seed: int, *, worker: bool) -> AsyncIterator[World]:
    """Ready, and watched over. `root` can be entered by PostgreSQL's user."""
    volume = PoweredVolume(root)
    made = World(store, root, volume=volume, mounted=_mounted(volume))
    (root / "logs").mkdir()
    shim = _shim(root)
    with workers_ai() as vendor:
        common = {
            "SAFELIGHT_BOOTSTRAP_TOKEN": TOKEN,
            "SAFELIGHT_LOG_FORMAT": "json",
            "SAFELIGHT_LOG_LEVEL": "info",
            "SAFELIGHT_CLASSIFIER": "workers-ai",
            "SAFELIGHT_WORKERS_AI_URL": vendor.url,
            "SAFELIGHT_SHUTDOWN_SECONDS": "5",
        }
        watching: list[asyncio.Task[None]] = []
        try:
            if store == "local":
                programs = [_serve(made, 0, common, shim)]
                programs += [_worker(made, common, shim)] if worker else []
                await _begin(made, programs, watching)
                yield made
            else:
                made.postgres = _postgres(made, shim)
                watching.append(asyncio.create_task(made.postgres.watch()))
                programs = [_serve(made, n, common, shim) for n in range(2)]
                urls = [program.url for program in programs]
                draw = random.Random(f"{seed}/bucket")
                async with (
                    stormy_bucket(draw, urls, telling=store == "telling") as made.bucket,
                    AsyncExitStack() as relays,
                ):
                    for program in programs:
                        program.relay, url = await relays.enter_async_context(
                            relay(made.database_url)
                        )
                        program.environment |= {
                            "SAFELIGHT_DATABASE_URL": url,
                            "SAFELIGHT_OBJECT_STORE_URL": made.bucket.url,
                            "SAFELIGHT_EVENTS_TOKEN": EVENTS_TOKEN,
                        }
                    await _begin(made, programs, watching)
                    yield made
        finally:
            for task in watching:
                task.cancel()
            made.hang_up()
            await made.halt()
            if made.postgres:
                made.postgres.stop()
            _unmount(made)


async def _begin(made: World, programs: list[Program], watching: list[asyncio.Task[None]]) -> None:
    """One after the other: the first makes the organization."""
    for program in programs:
        made.programs.append(program)
        program.start()
        await made.until_ready()
    watching.append(asyncio.create_task(made.supervise()))


def _mounted(volume: PoweredVolume) -> bool:
    try:
        volume.make()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def _unmount(made: World) -> None:
    if made.mounted:
        subprocess.run(["umount", made.volume.where], check=True)


def _shim(root: Path) -> Shim | None:
    with suppress(NoCompiler):
        return Shim(root)
    return None


def _program(
    made: World, name: str, command: list[str], common: dict[str, str], shim: Shim | None
) -> Program:
    clock = shim.clock(name) if shim else None
    environment = {**common, **(clock.environment if clock else {})}
    return Program(name, command, environment, made.root / "logs" / f"{name}.log", clock=clock)


def _serve(made: World, number: int, common: dict[str, str], shim: Shim | None) -> Program:
    port = free_port()
    command = ["serve", "--port", str(port), "--data-dir", str(made.volume.where / str(number))]
    program = _program(made, f"server-{number}", command, common, shim)
    program.url = f"http://127.0.0.1:{port}"
    return program


def _worker(made: World, common: dict[str, str], shim: Shim | None) -> Program:
    return _program(made, "worker", ["worker", "--data-dir", str(made.data_dir)], common, shim)


def _postgres(made: World, shim: Shim | None) -> EmbeddedPostgres:
    if shim:  # PostgreSQL inherits nothing; its clock shall be ours to set all the same
        made.database_clock = shim.clock("database")
        account._ENVIRONMENT.update(made.database_clock.environment)
    postgres = EmbeddedPostgres(made.volume.where / "database")
    postgres.start()
    return postgres


__all__ = ["NoServer", "Store", "World", "world"]
