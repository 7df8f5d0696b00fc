"""Which providers there are: one line each. A provider without its key is known, not offered."""

import re
from collections.abc import Callable, Collection
from typing import Final

from safelight.errors import InvalidRequest
from safelight.generations.providers import replicate, runware, studio
from safelight.generations.providers.base import Ground, Provider

# In the order in which they are tried for a model whose name says nothing.
BUILDERS: Final[dict[str, Callable[[Ground], Provider | None]]] = {
    "runware": runware.build,
    "replicate": replicate.build,
    "studio": studio.build,
}
NAMES: Final = tuple(BUILDERS)
_STUDIO: Final = re.compile(r"studio/.*", re.DOTALL)
_AIR: Final = re.compile(r"[^\s:@/]+:[^\s:@]+@[^\s@]+")
_OWNED: Final = re.compile(r"[^\s/:@]+/[^\s/:@]+(:[^\s/:@]+)?")
_BY_NAME: Final = ((_STUDIO, "studio"), (_AIR, "runware"), (_OWNED, "replicate"))


def provider_of(model: str, configured: Collection[str]) -> str:
    """Whose model this is by its name; else the first that is configured."""
    for pattern, name in _BY_NAME:
        if pattern.fullmatch(model):
            return name
    return next(name for name in NAMES if name in configured)


class Providers:
    def __init__(self, ground: Ground) -> None:
        built = {name: build(ground) for name, build in BUILDERS.items()}
        self._offered = {name: one for name, one in built.items() if one is not None}

    @property
    def offered(self) -> tuple[Provider, ...]:
        return tuple(self._offered.values())

    def find(self, name: str) -> Provider | None:
        return self._offered.get(name)

    def choose(self, model: str, named: str | None) -> Provider:
        name = named or provider_of(model, self._offered)
        if name not in BUILDERS:
            raise InvalidRequest(f"provider: there is no {name}; choose from {', '.join(NAMES)}.")
        if name not in self._offered:
            raise InvalidRequest(
                f"provider: {name} has no key on this server, and {model} is a model of {name}'s. "
                "Choose another model, or ask the operator to set the key."
            )
        return self._offered[name]

    async def close(self) -> None:
        for provider in self._offered.values():
            await provider.close()
