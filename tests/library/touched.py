"""What a statement touches: the pages of tables and indexes that it looks at, which is the same on
every machine. Plans are the generic ones, as a connection has them after a few executions."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import asyncpg

from safelight.infra.codecs import prepare
from safelight.infra.db import Database


class Touched:
    """In place of a `Database`: each statement is executed, and explained."""

    def __init__(self, connection: Any) -> None:
        self.connection_ = connection
        self.pages = 0
        self.milliseconds = 0.0
        self.plans: list[dict[str, Any]] = []

    @property
    def db(self) -> Database:
        return cast("Database", self)

    async def fetch(self, sql: str, *values: Any) -> Any:
        return await self._run("fetch", sql, values)

    async def fetchrow(self, sql: str, *values: Any) -> Any:
        return await self._run("fetchrow", sql, values)

    async def fetchval(self, sql: str, *values: Any) -> Any:
        return await self._run("fetchval", sql, values)

    async def execute(self, sql: str, *values: Any) -> Any:
        return await self._run("execute", sql, values)

    async def _run(self, how: str, sql: str, values: tuple[Any, ...]) -> Any:
        """The explained execution is undone, and the one that answers is another."""
        await self.connection_.execute("SAVEPOINT explained")
        await self.connection_.execute(f"PREPARE explained AS {sql}")
        given = f"({', '.join(map(_literal, values))})" if values else ""
        for _ in range(2):  # the first fills the caches of the session
            text = await self.connection_.fetchval(
                f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE explained{given}"
            )
            await self.connection_.execute("ROLLBACK TO explained")
        await self.connection_.execute("DEALLOCATE explained")
        explained = json.loads(text)[0] if isinstance(text, str) else text[0]
        plan = explained["Plan"]
        self.plans.append(plan)
        self.pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        self.milliseconds += explained["Execution Time"]
        return await getattr(self.connection_, how)(sql, *values)


@asynccontextmanager
async def touching(url: str) -> AsyncIterator[Touched]:
    """In a transaction that is undone."""
    connection = await asyncpg.connect(
        url, server_settings={"plan_cache_mode": "force_generic_plan", "jit": "off"}
    )
    await prepare(connection)
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield Touched(connection)
    finally:
        await transaction.rollback()
        await connection.close()


def _literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int() | float():
            return repr(value).lower()
        case list() if value and isinstance(value[0], dict):
            return _literal(json.dumps(value))
        case list() | tuple():
            return f"ARRAY[{', '.join(map(_literal, value))}]::{_array(value)}[]"
        case dict():
            return _literal(json.dumps(value))
        case _:
            return "'" + str(value).replace("'", "''") + "'"


def _array(values: Any) -> str:
    first = next((each for each in values if each is not None), "")
    return {bool: "boolean", int: "bigint", float: "float8"}.get(type(first), "text")
