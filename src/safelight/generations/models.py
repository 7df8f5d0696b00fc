"""What can be asked for here: the studio's catalogue, and the vendors that have a key."""

from typing import Any

from safelight.generations.lifecycle import Kind
from safelight.generations.providers.registry import NAMES, Providers
from safelight.generations.studio.catalogue import DEFAULT_SIZES, MODELS

_HINTS = {
    "runware": "Any model by its AIR name, such as `runware:100@1`.",
    "replicate": "Any model by `owner/name`, or `owner/name:version`.",
    "studio": "The models listed here: drawn by rules on this server, without any vendor.",
}


def list_of_models(providers: Providers) -> dict[str, Any]:
    offered = {provider.name: provider for provider in providers.offered}
    return {
        "items": [
            {
                "id": model.id,
                "provider": "studio",
                "title": model.title,
                "description": model.description,
                "kinds": list(Kind),
                "example": model.example,
                "sizes": {kind: list(size) for kind, size in DEFAULT_SIZES.items()},
            }
            for model in MODELS
        ],
        "nextCursor": None,
        "providers": [
            {
                "name": name,
                "configured": name in offered,
                "kinds": sorted(offered[name].kinds) if name in offered else [],
                "models": _HINTS[name],
            }
            for name in NAMES
        ],
    }
