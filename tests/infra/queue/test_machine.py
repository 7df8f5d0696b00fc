"""The state machine holds, and each guard of the queue is missed when it is gone."""

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from infra.queue.machine import QueueMachine, connect

FUNCTIONS = {
    "job_enqueue": "job_enqueue(text,text,jsonb,text,text,integer,timestamptz,text,interval)",
    "job_finish": "job_finish(bigint,integer)",
    "job_return": "job_return(bigint[],integer[],float8[],text[],text[],boolean[])",
    "job_take": "job_take(text[],integer[],text[],text,text,interval)",
    "job_take_suspect": "job_take_suspect(text[],text,text,interval)",
    "job_orphan": "job_orphan(bigint[],text)",
    "job_attend": "job_attend(text[],text,text[],text,bigint[],boolean)",
}
QUICK = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    report_multiple_bugs=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
UNTIL_FOUND = settings(QUICK, max_examples=2000)


@pytest.fixture
def machine(database_url: str) -> Iterator[type[QueueMachine]]:
    with asyncio.Runner() as runner:
        QueueMachine.loop = runner.get_loop()
        QueueMachine.connection = runner.run(connect(database_url))
        connection = QueueMachine.connection
        yield QueueMachine
        runner.run(connection.close())


def test_nothing_is_lost_doubled_or_waiting_for_ever(machine: type[QueueMachine]) -> None:
    run_state_machine_as_test(machine, settings=QUICK)


# Which function, what it loses, what stands there instead.
GUARDS = {
    "fence": ("job_finish", "AND claim = p_claim", ""),
    "fence on expired leases": ("job_finish", "AND lease_until IS NOT NULL", ""),
    "fence of retries": ("job_return", "AND claim = p_claims[i]", ""),
    "refund of waits": ("job_return", "(failed = 0 OR p_away[i])", "(failed = 0)"),
    "new claim": ("job_take", "claim = jobs.claim + 1", "claim = jobs.claim"),
    "new claim of a suspect": ("job_take_suspect", "claim = jobs.claim + 1", "claim = jobs.claim"),
    "attempt at claim": ("job_take", "attempts = jobs.attempts + 1", "attempts = jobs.attempts"),
    "death counted": (
        "job_orphan",
        "deaths = deaths + (owner <> p_owner)",
        "deaths = deaths + (false)",
    ),
    "suspects apart": ("job_attend", "run_at <= now() AND deaths < 2", "run_at <= now()"),
    "dedupe skip": (
        "job_enqueue",
        "ON CONFLICT (kind, key) WHERE key IS NOT NULL AND status <> 'dead' DO NOTHING",
        "",
    ),
    "takeover": ("job_attend", "status = 'running' AND lease_until", "false AND lease_until"),
    "alarms": ("job_attend", "status = 'delayed' AND run_at", "false AND run_at"),
}
STATEMENT_GUARDS = {"AND claim = $2": "AND $2::integer IS NOT NULL"}  # burying


def survives(machine: type[QueueMachine]) -> bool:
    try:
        run_state_machine_as_test(machine, settings=UNTIL_FOUND)
    except (AssertionError, asyncpg.UniqueViolationError):
        return False
    return True


def test_each_guard_in_the_database_is_missed_when_gone(machine: type[QueueMachine]) -> None:
    def execute(statement: str, *values: str) -> Any:
        return machine.loop.run_until_complete(machine.connection.fetchval(statement, *values))

    for name, (function, guard, without) in GUARDS.items():
        whole = execute("SELECT pg_get_functiondef($1::regprocedure)", FUNCTIONS[function])
        assert guard in whole
        execute(whole.replace(guard, without, 1))
        assert not survives(machine), f"nobody misses the guard: {name}"
        execute(whole)


class Stripped:
    """A connection whose statements have lost a guard on the way."""

    def __init__(self, connection: Any, guard: str, without: str) -> None:
        self._connection = connection
        self._change = (guard, without)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._connection, name)
        return lambda sql, *values: method(sql.replace(*self._change), *values)


def test_each_guard_in_a_statement_is_missed_when_gone(
    machine: type[QueueMachine], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = machine.connection
    for guard, without in STATEMENT_GUARDS.items():
        monkeypatch.setattr(machine, "connection", Stripped(whole, guard, without))
        assert not survives(machine), f"nobody misses the guard: {guard}"
