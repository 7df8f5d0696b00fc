"""Every way in which a machine is lost. Each strikes once, gives it back some seconds later, and measures
how long it took until uploads were taken again (docs/ha/README.md)."""

import random
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import httpx

from ha.clients import PatientLoad, drawn
from ha.machines import Node, members, until_whole, with_role
from ha.world import Machines
from safelight.testing.waiting import Overdue, until
from storm.house import Program
from storm.report import Striking

LED = "from the fault to a new leader"
SERVED = "from the new leader to the first 201 of each server"
OUT = "from the fault to the first 201 of each server"
LIMITS = {SERVED: 10.0}
_PATIENCE = 120.0


@dataclass
class Siege(Striking):
    world: Machines
    load: PatientLoad


Strike = Callable[[Siege], Awaitable[None]]
FAULTS: dict[str, Strike] = {}


def fault(name: str) -> Callable[[Strike], Strike]:
    def declare(strike: Strike) -> Strike:
        FAULTS[name] = strike
        return strike

    return declare


def plan(kinds: Sequence[str], seed: int, faults: int, seconds: float) -> list[tuple[float, str]]:
    """Which fault strikes when: each kind before any comes again, and all over the time."""
    draw, slot = drawn(seed, "plan"), seconds / max(faults, 1)
    order: list[str] = []
    while len(order) < faults:
        order += draw.sample(kinds, len(kinds))
    return [(slot * (number + draw.uniform(0.1, 0.4)), order[number]) for number in range(faults)]


def _dies(program: Program, draw: random.Random) -> None:
    """With kill -9, for some seconds."""
    program.back_at = time.monotonic() + draw.uniform(3, 8)
    program.kill()


# The database


async def _led_anew(siege: Siege, strike: Callable[[Node], Awaitable[None]], *, same: bool) -> Node:
    """Strikes the leader, and measures until there is one again and each server takes uploads.
    `same`: the node that was struck may be it."""
    world = siege.world
    leader = await with_role(world.nodes, "leader")
    assert leader, "no leader to strike"
    candidates = [node for node in world.nodes if same or node is not leader]
    struck = time.monotonic()
    await strike(leader)

    async def leads() -> bool:
        return any([await node.takes_writes() for node in candidates])

    await until(leads, _PATIENCE, every=0.1)
    led = time.monotonic()
    siege.figures[LED].append(led - struck)
    for server in range(len(world.servers)):
        answer = partial(siege.load.first_answer, server, struck, led)
        back = float("inf")
        with suppress(Overdue):
            back = await until(answer, _PATIENCE, every=0.1)
        siege.figures[SERVED].append(back - led)
        siege.figures[OUT].append(back - struck)
    return leader


@fault("kill-leader")
async def kill_leader(siege: Siege) -> None:
    """Its whole machine. It comes back when another leads, and has to give up what only it has."""

    async def strike(leader: Node) -> None:
        leader.back_at = float("inf")
        leader.kill()

    await until_whole(siege.world.nodes)
    leader = await _led_anew(siege, strike, same=False)
    leader.back_at = time.monotonic() + siege.draw.uniform(0, 5)


@fault("freeze-leader")
async def freeze_leader(siege: Siege) -> None:
    """Its machine takes connections and answers none, as behind a network that is gone. When it goes
    on it takes itself for the leader, until its Patroni hears otherwise."""

    async def strike(leader: Node) -> None:
        leader.send_to_all(signal.SIGSTOP)

    await until_whole(siege.world.nodes)
    leader = await _led_anew(siege, strike, same=False)
    await siege.lasts(0, 5)
    leader.send_to_all(signal.SIGCONT)


@fault("kill-postgres")
async def kill_postgres(siege: Siege) -> None:
    """The leader's PostgreSQL only: its Patroni starts it again, or gives the lead away."""

    async def strike(leader: Node) -> None:
        leader.kill_postgres()

    await until_whole(siege.world.nodes)
    await _led_anew(siege, strike, same=True)


@fault("switch-over")
async def switch_over(siege: Siege) -> None:
    """As for an upgrade: the leader stops in order, whatever waits for its answer."""

    async def strike(leader: Node) -> None:
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.post(f"{leader.url}/switchover", json={"leader": leader.name})
            answer.raise_for_status()

    await until_whole(siege.world.nodes)
    await _led_anew(siege, strike, same=False)


@fault("kill-standby")
async def kill_standby(siege: Siege) -> None:
    """The one that commits wait for."""
    await until_whole(siege.world.nodes)
    if standby := await with_role(siege.world.nodes, "sync_standby"):
        struck = time.monotonic()
        _dies(standby, siege.draw)
        name = "from the standby's death to the first 201"
        with suppress(Overdue):
            await until(lambda: siege.load.first_answer(0, struck, struck), _PATIENCE, every=0.1)
        siege.figures[name].append(time.monotonic() - struck)


@fault("kill-etcd")
async def kill_etcd(siege: Siege) -> None:
    """Its leader: where Patroni keeps who leads."""
    leading = [member for member in siege.world.etcd if await member.leads()]
    _dies(siege.draw.choice(leading or siege.world.etcd), siege.draw)


# What stands on it


@fault("kill-server")
async def kill_server(siege: Siege) -> None:
    _dies(siege.draw.choice(siege.world.servers), siege.draw)


@fault("kill-worker")
async def kill_worker(siege: Siege) -> None:
    _dies(siege.draw.choice(siege.world.workers), siege.draw)


@fault("kill-s3")
async def kill_s3(siege: Siege) -> None:
    _dies(siege.world.s3, siege.draw)


async def not_whole(world: Machines) -> list[str]:
    """Whoever is not back in its place."""
    try:
        await until_whole(world.nodes)
    except Overdue:
        return [
            f"{one['name']} is {one['role']}, {one['state']}" for one in await members(world.nodes)
        ]
    return []
