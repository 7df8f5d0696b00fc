"""Ids: of the right shape, each once, also in processes that were forked."""

import os
import re
import uuid

from safelight.infra.injected import RandomIds

MANY = 3000  # more than are fetched at a time


def test_each_is_made_once() -> None:
    ids = RandomIds()
    assert len({ids.uuid4() for _ in range(MANY)}) == MANY
    assert len({ids.short("x") for _ in range(MANY)}) == MANY
    assert len({ids.image(0) for _ in range(MANY)}) == MANY


def test_they_look_as_they_should() -> None:
    ids = RandomIds()
    letters = "[0-9abcdefghjkmnpqrstvwxyz]"
    assert uuid.UUID(ids.uuid4()).version == 4
    assert re.fullmatch(f"req_{letters}{{20}}", ids.short("req"))
    assert re.fullmatch(f"img_1970-01-01_{letters}{{16}}", ids.image(0))
    found = {letter for _ in range(MANY) for letter in ids.short("")[1:]}
    assert len(found) == 32


def test_a_process_that_was_forked_makes_others() -> None:
    ids = RandomIds()
    ids.uuid4()  # so that some are fetched ahead
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, ids.uuid4().encode())
        os._exit(0)
    os.close(writing)
    theirs = os.read(reading, 100).decode()
    os.close(reading)
    os.waitpid(child, 0)
    assert uuid.UUID(theirs).version == 4
    assert theirs not in {ids.uuid4() for _ in range(MANY)}
