"""Hashing takes the processor for long, and steps back behind whoever answers requests."""

import os
import sys
import threading

import pytest
from argon2 import PasswordHasher

from safelight.accounts.passwords import Passwords


class Watched(PasswordHasher):
    """Notes at which priority it is asked."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.priorities: list[int] = []

    def hash(self, password: str | bytes, *, salt: bytes | None = None) -> str:
        self.priorities.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
        return super().hash(password, salt=salt)


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere threads have no priority of their own"
)
async def test_hashing_steps_back_and_the_rest_of_the_process_does_not() -> None:
    before, hasher = os.getpriority(os.PRIO_PROCESS, 0), Watched()
    await Passwords(hasher).hash("correct horse")
    assert hasher.priorities == [before + 5]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
