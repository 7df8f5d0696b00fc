"""Every way in which a storm strikes. Each strikes once, gives the world back, and measures what has a
limit (docs/reliability.md)."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import psutil

from safelight.infra import db
from safelight.testing.waiting import Overdue, until
from storm.house import Program
from storm.report import Striking
from storm.worlds import NoServer, World

# What is measured, and the seconds it may take.
BESIDE, AGAIN, TAKEN_OVER = (
    "longest answer beside a frozen process", "silent connections: itself again after",
    "kill -9: all it had leased done after",
)  # fmt: skip
LIMITS = {BESIDE: 15.0, AGAIN: 30.0, TAKEN_OVER: 5.0}
AWAY = (*db.AWAY, OSError, NoServer)


@dataclass
class Storm(Striking):
    world: World
    frozen: list[tuple[int, float, float]] = field(default_factory=list)  # server, from, to

    def answered(self, server: int, since: float) -> bool:
        """Whether it acknowledged anything that was sent after a time."""
        return any(
            one.acknowledged and one.server == server and one.began > since
            for one in reversed(self.load.operations)
        )


Strike = Callable[[Storm], Awaitable[None]]
FAULTS: dict[str, tuple[Strike, Callable[[World], bool]]] = {}


def fault(
    name: str, where: Callable[[World], object] = lambda _: True
) -> Callable[[Strike], Strike]:
    """`where` says in which worlds it can strike."""

    def declare(strike: Strike) -> Strike:
        FAULTS[name] = (strike, lambda world: bool(where(world)))
        return strike

    return declare


# Processes


async def _killed(storm: Storm, program: Program) -> None:
    """With kill -9, and how long what it held takes to be done by somebody. Whose a job is says the
    node of its files, which a worker shares with its server."""
    held: list[int] = []

    async def leased() -> list[int]:
        running = (
            "SELECT id FROM jobs WHERE status = 'running' AND organization <> '' "
            "AND owner IN (SELECT owner FROM jobs WHERE node = $1)"
        )
        return [row["id"] for row in await storm.world.ask(running, program.node)]

    async def done() -> bool:
        with suppress(*AWAY):
            left = "SELECT FROM jobs WHERE id = ANY ($1::bigint[]) AND status <> 'delayed'"
            return not await storm.world.ask(left, held)
        return False

    with suppress(Overdue, *AWAY):
        held = await until(leased, 2, every=0.005)
    program.kill()
    since = time.monotonic()
    with suppress(Overdue):
        await until(done, 30, every=0.05)
    if held:
        storm.figures[TAKEN_OVER].append(time.monotonic() - since)


@fault("kill-server")
async def kill_server(storm: Storm) -> None:
    await _killed(storm, storm.draw.choice(storm.world.servers))


@fault("kill-worker", lambda world: world.workers)
async def kill_worker(storm: Storm) -> None:
    await _killed(storm, storm.draw.choice(storm.world.workers))


@fault("stop-server")
async def stop_server(storm: Storm) -> None:
    """As an upgrade does; and sometimes again, while it starts."""
    program = storm.draw.choice(storm.world.servers)
    program.signal(signal.SIGTERM)
    before = program.starts
    if storm.draw.random() < 0.5:
        await until(lambda: program.starts > before, 60)
        await storm.lasts(0, 2)
        program.signal(signal.SIGTERM)


@fault("freeze")
async def freeze(storm: Storm) -> None:
    program = storm.draw.choice(storm.world.programs)
    since = time.monotonic()
    program.signal(signal.SIGSTOP)
    await storm.lasts(2, 20)
    program.signal(signal.SIGCONT)
    if program.url:
        server = storm.world.servers.index(program)
        storm.frozen.append((server, since, time.monotonic()))


# The database


@fault("kill-postmaster")
async def kill_postmaster(storm: Storm) -> None:
    if postmaster := storm.world.postmaster:
        postmaster.kill()


def _backends(world: World) -> list[psutil.Process]:
    postmaster = world.postmaster
    return postmaster.children() if postmaster else []


@fault("kill-backend")
async def kill_backend(storm: Storm) -> None:
    with suppress(psutil.Error, IndexError):
        serving = [one for one in _backends(storm.world) if "safelight" in " ".join(one.cmdline())]
        storm.draw.choice(serving).kill()


@fault("stand-still")
async def stand_still(storm: Storm) -> None:
    """No statement is answered, and no connection refused."""
    stopped: list[psutil.Process] = []
    if postmaster := storm.world.postmaster:
        with suppress(psutil.Error):
            postmaster.suspend()
            stopped = [postmaster]
            for backend in postmaster.children():
                backend.suspend()
                stopped.append(backend)
    await storm.lasts(5, 20)
    for process in reversed(stopped):
        with suppress(psutil.Error):
            process.resume()


@fault("cut")
async def cut(storm: Storm) -> None:
    """Every connection of one process, or of all where nothing is in between."""
    program = storm.draw.choice(storm.world.programs)
    if program.relay:
        program.relay.cut()
        return
    with suppress(*AWAY):
        await storm.world.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )


@fault("silence", lambda world: world.servers[0].relay)
async def silence(storm: Storm) -> None:
    """Connections are there and carry nothing, as behind a firewall that forgot them."""
    server = storm.draw.randrange(len(storm.world.servers))
    relay = storm.world.servers[server].relay
    assert relay
    since = time.monotonic()
    relay.silence()  # for good; only connections made after the next line get through
    await storm.lasts(0, 3)
    relay.forward()
    with suppress(Overdue):
        await until(lambda: storm.answered(server, since), 60, every=0.1)
    storm.figures[AGAIN].append(time.monotonic() - since)


# The machine


@fault("full-disk", lambda world: world.mounted)
async def full_disk(storm: Storm) -> None:
    await asyncio.to_thread(storm.world.disk.fill)
    await storm.lasts(2, 8)
    storm.world.disk.free()


@fault("power", lambda world: world.mounted and world.store == "local")
async def power(storm: Storm) -> None:
    """Everything at once, and what was not on the disk is not there afterwards."""
    world = storm.world
    world.volume.cut()
    await world.halt()
    world.volume.restore()
    world.resting = False


@fault("clock", lambda world: world.servers[0].clock)
async def clock(storm: Storm) -> None:
    """One machine's, stepped by a minute or wrong by less, and then set right."""
    clocks = [program.clock for program in storm.world.programs if program.clock]
    if storm.world.database_clock:
        clocks.append(storm.world.database_clock)
    struck = storm.draw.choice(clocks)
    struck.shift(storm.draw.choice([-60, 60, -5, 5, -0.4, 0.4]))
    await storm.lasts(3, 10)
    struck.shift(0)


# The bucket


async def _moody(storm: Storm, mood: str, longest: float) -> None:
    bucket = storm.world.bucket
    assert bucket
    bucket.mood = mood  # type: ignore[assignment]  # one of them
    await storm.lasts(2, longest)
    bucket.mood = "well"


@fault("bucket-fails", lambda world: world.bucket)
async def bucket_fails(storm: Storm) -> None:
    await _moody(storm, "failing", 10)


@fault("bucket-hangs", lambda world: world.bucket)
async def bucket_hangs(storm: Storm) -> None:
    await _moody(storm, "hanging", 15)


@fault("bucket-late", lambda world: world.bucket)
async def bucket_late(storm: Storm) -> None:
    """Half of what is put is carried out when its sender has long given up."""
    await _moody(storm, "late", 10)


def possible(world: World, wanted: list[str]) -> tuple[list[str], list[str]]:
    """Those that can strike here, and those that were wanted and cannot."""
    able = [name for name in wanted if FAULTS[name][1](world)]
    return able, [name for name in wanted if name not in able]


__all__ = ["AWAY", "FAULTS", "Storm", "possible"]
