"""The whole package as it is when loaded: every module, and what stands in them."""

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import TypeVar

import safelight

T = TypeVar("T")


@cache
def modules() -> tuple[ModuleType, ...]:
    names = [found.name for found in pkgutil.walk_packages(safelight.__path__, "safelight.")]
    return tuple(importlib.import_module(name) for name in sorted(names) if "__main__" not in name)


def everything(kind: type[T]) -> Iterator[T]:
    """Each instance of a class that a module has a name for, or a tuple of, once."""
    seen: set[int] = set()
    for module in modules():
        for value in vars(module).values():
            for each in value if isinstance(value, tuple | list) else (value,):
                if isinstance(each, kind) and id(each) not in seen:
                    seen.add(id(each))
                    yield each


def subclasses(kind: type[T]) -> Iterator[type[T]]:
    modules()
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)
