"""The order of faults is the seed's, and the files for the real thing belong together."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it has no stubs here

from ha.clients import PatientLoad
from ha.faults import FAULTS, plan
from ha.machines import DOCS, _node
from safelight.settings import Settings
from storm.load import Operation

KINDS = list(FAULTS)
COMPOSE: dict[str, Any] = yaml.safe_load((DOCS / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
PATRONI: dict[str, Any] = yaml.safe_load((DOCS / "patroni.yml").read_text())
HAPROXY = (DOCS / "haproxy.cfg").read_text()
NODES = [name for name in SERVICES if name.startswith("postgres")]


def test_the_seed_decides() -> None:
    assert plan(KINDS, 1, 20, 600) == plan(KINDS, 1, 20, 600)
    assert plan(KINDS, 1, 20, 600) != plan(KINDS, 2, 20, 600)


def test_each_kind_comes_before_any_comes_again_and_all_over_the_time() -> None:
    for seed in range(20):
        planned = plan(KINDS, seed, 20, 600)
        assert {kind for _, kind in planned[: len(KINDS)]} == set(KINDS)
        times = [due for due, _ in planned]
        assert times == sorted(times)
        assert all(30 * number <= due < 30 * (number + 1) for number, due in enumerate(times))


def upload(server: int, began: float, ended: float, answer: Any = "acknowledged") -> Operation:
    return Operation("upload", "a.png", server, began, ended=ended, answer=answer)


def test_a_server_is_back_with_its_first_201_to_what_was_sent_after_the_fault() -> None:
    load = PatientLoad(["one", "two"], seed=1)
    assert load.first_answer(0, 10, 20) is None
    load.operations += [
        upload(0, 9, 21),  # sent before
        upload(0, 11, 19),  # answered before there was a new leader
        upload(1, 11, 21),  # by another server
        upload(0, 11, 22, "refused"),
        Operation("delete", "a.png", 0, 11, ended=21.5, answer="acknowledged"),
        upload(0, 12, 24),
        upload(0, 11, 25),
    ]
    assert load.first_answer(0, 10, 20) == 24


def test_what_was_answered_lies_on_two_nodes() -> None:
    dcs = PATRONI["bootstrap"]["dcs"]
    assert dcs["synchronous_mode"] is True
    assert dcs["postgresql"]["parameters"]["synchronous_commit"] == "on"
    assert dcs["postgresql"]["use_pg_rewind"] is True
    assert dcs["ttl"] >= dcs["loop_wait"] + 2 * dcs["retry_timeout"]


def test_a_real_node_is_told_what_ours_are(tmp_path: Path) -> None:
    """So that `make ha` tries the very file that is shown."""
    (tmp_path / "logs").mkdir()
    ours = {name for name in _node(tmp_path, "n", "").environment if "_" in name}
    assert [set(SERVICES[name]["environment"]) for name in NODES] == [ours] * 3


@pytest.mark.parametrize("name", ["server1", "server2", "worker1", "worker2"])
def test_safelight_is_told_what_it_knows(name: str) -> None:
    told = SERVICES[name]["environment"]
    known = {f"SAFELIGHT_{field.upper()}" for field in Settings.model_fields}
    assert set(told) <= known
    hosts = re.findall(r"(\w+):5432", told["SAFELIGHT_DATABASE_URL"])
    assert hosts == NODES
    assert told["SAFELIGHT_DATABASE_URL"].endswith("target_session_attrs=read-write")


def test_whatever_is_named_is_there() -> None:
    servers = re.findall(r"^    server (\w+) (\w+):", HAPROXY, re.MULTILINE)
    assert {name for pair in servers for name in pair} == {*NODES, "server1", "server2"}
    for service in SERVICES.values():
        assert set(service.get("depends_on", ())) <= set(SERVICES)
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (
                (DOCS / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]
            )
        if build := service.get("build"):
            assert (DOCS / build["context"] / build["dockerfile"]).exists()
