"""Which providers there are: one line each. A provider without its key is known, not offered."""

from collections.abc import Collection
from typing import Final

from safelight.errors import InvalidRequest
from safelight.generations.providers.base import Provider, ProviderDeps
from safelight.generations.providers.replicate import Replicate
from safelight.generations.providers.runware import Runware
from safelight.generations.providers.studio import Studio

# In the order in which they are tried for a model whose name says nothing. Of several whose own it
# could be by its name, the last has it: the studio's are like some of Replicate's.
PROVIDERS: Final[tuple[type[Provider], ...]] = (
    Runware,
    Replicate,
    Studio,
)


def names() -> list[str]:
    return [provider.name for provider in PROVIDERS]


def provider_of(model: str, configured: Collection[str]) -> str:
    """Whose model this is by its name; else the first that is configured."""
    for provider in reversed(PROVIDERS):
        if provider.model_names is not None and provider.model_names.fullmatch(model):
            return provider.name
    return next(name for name in names() if name in configured)


class Providers:
    def __init__(self, deps: ProviderDeps) -> None:
        built = {provider.name: provider.build(deps) for provider in PROVIDERS}
        self._offered = {name: one for name, one in built.items() if one is not None}

    @property
    def offered(self) -> tuple[Provider, ...]:
        return tuple(self._offered.values())

    @property
    def known(self) -> tuple[type[Provider], ...]:
        return PROVIDERS

    def find(self, name: str) -> Provider | None:
        return self._offered.get(name)

    def choose(self, model: str, named: str | None) -> Provider:
        name = named or provider_of(model, self._offered)
        if name not in names():
            known = ", ".join(names())
            raise InvalidRequest(f"provider: there is no {name}; choose from {known}.")
        if name not in self._offered:
            raise InvalidRequest(
                f"provider: {name} has no key on this server, and {model} is a model of {name}'s. "
                "Choose another model, or ask the operator to set the key."
            )
        return self._offered[name]

    async def close(self) -> None:
        for provider in self._offered.values():
            await provider.close()
