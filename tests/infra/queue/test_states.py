"""What the tables say of a job's states is what the machine says."""

import re

from gates.sql import baseline
from infra.queue.crew import Number, a_kind, a_queue
from safelight.infra.activity import Units
from safelight.infra.db import Database
from safelight.infra.injected import SystemClock
from safelight.infra.queue import repo
from safelight.infra.queue.handlers import Handler
from safelight.infra.queue.jobs import (
    MACHINE,
    Backoff,
    Dead,
    Failure,
    Job,
    JobStatus,
    PutBack,
    Verdict,
)
from safelight.testing.hands import Hands

WATCH = """
CREATE TABLE moves (before text, after text);
CREATE FUNCTION note_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO moves VALUES (OLD.status, NEW.status);
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER UPDATE ON jobs FOR EACH ROW
WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION note_move();
"""
NO = Failure("NO", "no")
KIND = a_kind(retry=Backoff(attempts=9))


def test_the_table_knows_the_states_of_the_machine() -> None:
    found = re.search(r"CREATE TABLE jobs .*?status IN \(([^)]*)\)", baseline(), re.DOTALL)
    assert found
    assert set(re.findall(r"'(\w+)'", found[1])) == set(JobStatus)


async def test_every_move_is_made_and_no_other(database: Database) -> None:
    async def handle(_: Job[Number]) -> Verdict:
        raise AssertionError("nothing runs by itself")

    queue = a_queue(database, [KIND])
    hands = Hands(queue, [Handler(KIND, handle)])
    units = Units(database, queue.bus, SystemClock())
    await database.execute(WATCH)
    for number in range(6):
        await queue.enqueue(database, KIND, Number(number), organization="a", key=str(number))
    await queue.reschedule(database, KIND, "5", run_in=3600)  # queued → delayed
    await hands.hurry()  # delayed → queued
    taken = [job for _ in range(6) if (job := await hands.claim(KIND.name))]  # queued → running
    first, second, third, fourth, fifth, _ = taken
    await hands.write(first, PutBack(0, None))
    await hands.write(second, PutBack(60, NO))
    await hands.write(third, Dead(NO))  # running → dead
    async with units.open("a") as unit:
        await unit.put_off(fourth, 0)
    async with units.open("a") as unit:
        await unit.put_off(fifth, 60)
    await hands.end_leases()  # running → queued
    [letter] = await queue.dead_letters.page()
    await queue.dead_letters.redrive(letter.id)  # dead → queued
    await repo.give_back(database, queue.owner)
    made = {(row[0], row[1]) for row in await database.fetch("SELECT * FROM moves")}
    assert made == {(a, b) for a, allowed in MACHINE.moves.items() for b in allowed}
