"""How a route gets what wiring built: by type, so that a signature says what it needs."""

from typing import Any, TypeVar, cast

from fastapi import Depends
from starlette.requests import HTTPConnection

T = TypeVar("T")


class Registry:
    def __init__(self, *things: object) -> None:
        self._things: dict[type, object] = {}
        for thing in things:
            self.add(thing)

    def add(self, thing: object, *, as_type: type | None = None) -> None:
        self._things[as_type or type(thing)] = thing

    def get(self, kind: type[T]) -> T:
        try:
            return cast("T", self._things[kind])
        except KeyError:
            raise LookupError(f"wiring.py provides no {kind.__name__}") from None


def provided(kind: type) -> Any:
    """`db: Annotated[Database, provided(Database)]` in a route's signature."""

    async def find(connection: HTTPConnection) -> Any:
        return connection.app.state.registry.get(kind)

    return Depends(find)
