"""Argon2 in a thread of its own: never on the event loop nor in its way, and one at a time, since
each hash takes 64 MiB and four cores. Who may come to one, and when, is the crowd's business
(crowd.py).
"""

import asyncio
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from safelight.errors import InvalidRequest
from safelight.infra.priority import step_back

LEAST_CHARACTERS = 10
MOST_CHARACTERS = 256

T = TypeVar("T")


class Passwords:
    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._threads = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="argon2", initializer=step_back
        )
        self._nobodys: str | None = None

    async def hash(self, password: str) -> str:
        return await self._in_thread(lambda: self._hasher.hash(_normal(password)))

    async def verify(self, stored: str | None, password: str) -> bool:
        """Does the same work when there is no such user, so that time tells nothing."""
        return await self._in_thread(lambda: self._verify(stored, password))

    def _verify(self, stored: str | None, password: str) -> bool:
        try:
            self._hasher.verify(stored or self._decoy(), _normal(password))
        except (VerificationError, InvalidHashError):
            return False
        return stored is not None

    def _decoy(self) -> str:
        if self._nobodys is None:
            self._nobodys = self._hasher.hash("nobody")
        return self._nobodys

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def check_new_password(password: str, username: str) -> None:
    if not LEAST_CHARACTERS <= len(password) <= MOST_CHARACTERS:
        raise InvalidRequest(
            f"Choose a password of {LEAST_CHARACTERS} to {MOST_CHARACTERS} characters."
        )
    if password.casefold() == username.casefold():
        raise InvalidRequest("Choose a password other than your username.")


def _normal(password: str) -> bytes:
    """Keyboards disagree on how to write an accent; the password is the same. Cut first, since
    normalizing takes quadratic time on hostile input."""
    cut = password[: MOST_CHARACTERS + 1]
    return unicodedata.normalize("NFKC", cut).encode(errors="surrogatepass")
