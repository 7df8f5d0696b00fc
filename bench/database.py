"""A PostgreSQL of the bench's own, whose log tells every statement, and what it counted."""

import asyncio
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg

from safelight.infra.postgres.server import EmbeddedPostgres

US = "bench"  # the application's name in the log of connections that are no part of what is counted
_SETTINGS = {
    "log_line_prefix": "@@%p|%x|%a| ",
    "log_parameter_max_length": "0",  # a statement is known by its text
}
_RECORD = re.compile(
    r"@@(?P<pid>\d+)\|(?P<transaction>\d+)\|(?P<application>[^|\n]*)\| "
    r"LOG:  duration: (?P<ms>[\d.]+) ms  (?:execute [^:]*|statement):\s*(?P<text>.*)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Statement:
    text: str
    milliseconds: float
    transaction: int  # 0: it had written nothing when it ended
    application: str


@dataclass(frozen=True)
class Bench:
    postgres: EmbeddedPostgres
    directory: Path

    @property
    def url(self) -> str:
        return self.postgres.url

    @property
    def pid(self) -> int:
        assert self.postgres.pid
        return self.postgres.pid

    @property
    def files(self) -> Path:
        """The directory that belongs to it: a database knows its files, and wants no others."""
        return self.directory / "files"

    @property
    def socket(self) -> Path:
        """Where it listens."""
        (place,) = parse_qs(urlsplit(self.url).query)["host"]
        return Path(place) / ".s.PGSQL.5432"

    @property
    def log(self) -> Path:
        return self.directory / "data/postgres/postgres.log"

    def ask(self, question: str, *values: object) -> Any:
        return asyncio.run(self._ask(question, *values))

    async def _ask(self, question: str, *values: object) -> Any:
        connection = await asyncpg.connect(self.url, server_settings={"application_name": US})
        try:
            return await connection.fetchval(question, *values)
        finally:
            await connection.close()

    def writers(self) -> int:
        """Transactions that wrote, so far: the next one's number, which only those take."""
        return int(self.ask("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"))

    @contextmanager
    def logging(self) -> Iterator[list[Statement]]:
        """Fills the list with what was executed meanwhile."""
        found: list[Statement] = []
        self._log_all("0")
        begins = self.log.stat().st_size
        try:
            yield found
        finally:
            self._log_all("-1")
        with self.log.open("rb") as file:
            file.seek(begins)
            found += read_log(file.read().decode(errors="replace"))

    def _log_all(self, shortest: str) -> None:
        self.ask(f"ALTER SYSTEM SET log_min_duration_statement = {shortest}")
        self.ask("SELECT pg_reload_conf()")
        until = "SELECT current_setting('log_min_duration_statement') = $1"
        for _ in range(100):
            if self.ask(until, shortest):
                return
        raise TimeoutError("PostgreSQL does not read its settings")


@contextmanager
def database() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="bench-") as directory:
        Path(directory).chmod(0o711)
        postgres = EmbeddedPostgres(Path(directory) / "data", extra_settings=_SETTINGS)
        postgres.start()
        try:
            yield Bench(postgres, Path(directory))
        finally:
            postgres.stop()


def read_log(text: str) -> list[Statement]:
    """What others executed; a message with several statements is one. Parsing and binding, which
    PostgreSQL logs beside, are part of the same round trip and not counted again."""
    found = []
    for record in re.split(r"(?m)^(?=@@\d+\|)", text):
        told = _RECORD.match(record)
        if told and told["application"] != US:
            words = " ".join(told["text"].split())
            found.append(
                Statement(words, float(told["ms"]), int(told["transaction"]), told["application"])
            )
    return found


def commits(statements: list[Statement]) -> int:
    """Transactions that wrote: each number once. One that is a single message of the simple
    protocol has ended before it is logged and is missed; `Bench.writers` counts those too."""
    return len({each.transaction for each in statements} - {0})


def by_text(statements: list[Statement]) -> list[tuple[str, int, float]]:
    """Text, how often, and milliseconds in all; values that stand in the text left out."""
    counts: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for each in statements:
        text = re.sub(r"'(?:[^']|'')*'|(?<![$\w])\d+\b", "…", each.text)
        counts[text] += 1
        times[text] += each.milliseconds  # type: ignore[assignment]
    return [(text, count, float(times[text])) for text, count in counts.most_common()]
