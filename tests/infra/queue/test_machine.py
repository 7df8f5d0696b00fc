"""The state machine holds, and each guard of the queue is missed when it is gone."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from infra.queue.machine import QueueMachine, connect

FUNCTIONS = {
    "job_enqueue": "job_enqueue(text,text,jsonb,text,text,integer,timestamptz,text,interval)",
    "job_finish": "job_finish(bigint,integer)",
    "job_claim": "job_claim(text[],integer[],text[],text,text,interval)",
    "job_tend": "job_tend(text[],text,text[])",
}
QUICK = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    report_multiple_bugs=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def machine(database_url: str) -> Iterator[type[QueueMachine]]:
    with asyncio.Runner() as runner:
        QueueMachine.loop = runner.get_loop()
        QueueMachine.connection = runner.run(connect(database_url))
        yield QueueMachine
        runner.run(QueueMachine.connection.close())


def test_nothing_is_lost_doubled_or_waiting_for_ever(machine: type[QueueMachine]) -> None:
    run_state_machine_as_test(machine, settings=QUICK)


@pytest.mark.parametrize(
    ("function", "guard", "without"),
    [
        pytest.param("job_finish", "AND claim = p_claim", "", id="fence"),
        pytest.param("job_finish", "AND status = 'running'", "", id="fence on expired leases"),
        pytest.param("job_claim", "claim = jobs.claim + 1", "claim = jobs.claim", id="new claim"),
        pytest.param(
            "job_claim", "attempts = jobs.attempts + 1", "attempts = jobs.attempts",
            id="attempt at claim",
        ),
        pytest.param(
            "job_enqueue",
            "ON CONFLICT (kind, key) WHERE key IS NOT NULL AND status <> 'dead' DO NOTHING", "",
            id="dedupe skip",
        ),
        pytest.param("job_tend", "status = 'running' AND", "false AND", id="takeover"),
        pytest.param("job_tend", "status = 'delayed' AND", "false AND", id="alarms"),
    ],
)  # fmt: skip
def test_each_guard_in_the_database_is_missed_when_gone(
    machine: type[QueueMachine], function: str, guard: str, without: str
) -> None:
    async def strip() -> None:
        source = await machine.connection.fetchval(
            "SELECT pg_get_functiondef($1::regprocedure)", FUNCTIONS[function]
        )
        assert guard in source
        await machine.connection.execute(source.replace(guard, without, 1))

    machine.loop.run_until_complete(strip())
    with pytest.raises(BaseException):  # noqa: B017, PT011 - the machine's words differ
        run_state_machine_as_test(machine, settings=QUICK)


class Stripped:
    """A connection whose statements have lost a guard on the way."""

    def __init__(self, connection: Any, guard: str) -> None:
        self._connection = connection
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._connection, name)
        return lambda sql, *values: method(sql.replace(self._guard, ""), *values)


@pytest.mark.parametrize(
    "guard",
    [
        "AND jobs.claim = held.claim",
        "AND jobs.claim = again.claim",
        "AND claim = $2",
    ],
)
def test_each_guard_in_a_statement_is_missed_when_gone(
    machine: type[QueueMachine], guard: str
) -> None:
    connection = machine.connection
    machine.connection = Stripped(connection, guard)  # type: ignore[assignment]
    try:
        with pytest.raises(BaseException):  # noqa: B017, PT011 - the machine's words differ
            run_state_machine_as_test(machine, settings=QUICK)
    finally:
        machine.connection = connection
