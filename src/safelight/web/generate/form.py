"""The form that asks for pictures and clips: what was typed, and what that asks for. Pure."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from safelight.errors import InvalidRequest, SafelightError
from safelight.generations.lifecycle import FinishedGeneration, Generation, MediaKind
from safelight.generations.request import MOST, GenerationRequest
from safelight.generations.studio.catalogue import MODELS

STUDIO: Final = "studio"
DEFAULT_COUNT: Final = "4"
# What the form has a field for; whatever else an input holds stays with it.
_FIELDS_OF_INPUT: Final = frozenset({"prompt", "seed", "width", "height"})
_SIZE: Final = re.compile(r"(\d{1,5})x(\d{1,5})")
_NUMBER: Final = re.compile(r"\d{1,19}")
_NONCE: Final = re.compile(r"[\w-]{8,64}", re.ASCII)
_SEEDS: Final = 1_000_000  # people read them to each other
_FIELDS: Final[Mapping[str, str]] = {
    "model": "model",
    "provider": "model",
    "kind": "kind",
    "count": "count",
    "input.prompt": "prompt",
    "input.seed": "seed",
    "input.width": "size",
    "input.height": "size",
    "tag": "tags",
    "tags": "tags",
}


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    width: int
    height: int

    @property
    def value(self) -> str:
        return f"{self.width}x{self.height}"

    @property
    def words(self) -> str:
        return f"{self.name} · {self.width:,} × {self.height:,}"


SHAPES: Final[Mapping[MediaKind, tuple[Shape, ...]]] = {
    MediaKind.IMAGE: (
        Shape("Square", 1024, 1024),
        Shape("Landscape", 1216, 832),
        Shape("Portrait", 832, 1216),
        Shape("Wide", 1344, 768),
        Shape("Tall", 768, 1344),
    ),
    MediaKind.VIDEO: (
        Shape("Wide", 640, 360),
        Shape("Tall", 360, 640),
        Shape("Square", 480, 480),
    ),
}


@dataclass(frozen=True, slots=True)
class TypedGeneration:
    """What stands in the form. `model` is one of the studio's, or the name of a vendor whose model
    `vendor_model` names; `nonce` tells one sending of the form from another."""

    prompt: str = ""
    model: str = MODELS[0].id
    vendor_model: str = ""
    kind: str = MediaKind.IMAGE
    count: str = DEFAULT_COUNT
    seed: str = ""
    size: str = ""
    tags: str = ""
    nonce: str = ""

    @property
    def own_size(self) -> Shape | None:
        """One that the list of shapes does not have."""
        found = _SIZE.fullmatch(self.size)
        known = {shape.value for shapes in SHAPES.values() for shape in shapes}
        return (
            Shape("As before", int(found[1]), int(found[2]))
            if found and self.size not in known
            else None
        )


def typed_before(before: Generation | FinishedGeneration, *, seeded: bool) -> TypedGeneration:
    """The form as it would have asked for that one."""
    wanted, of_studio = before.input, before.provider == STUDIO
    seed, width, height = (wanted.get(name) for name in ("seed", "width", "height"))
    prompt = wanted.get("prompt")
    return TypedGeneration(
        prompt=prompt if isinstance(prompt, str) else "",
        model=before.model if of_studio else before.provider,
        vendor_model="" if of_studio else before.model,
        kind=str(before.kind),
        count=str(before.count),
        seed=str(seed) if seeded and type(seed) is int else "",
        size=f"{width}x{height}" if type(width) is int and type(height) is int else "",
        tags=", ".join(before.tags),
    )


def others_of(before: Generation | FinishedGeneration | None) -> dict[str, Any]:
    """Of an input: what the form has no field for."""
    wanted = before.input if before else {}
    return {name: value for name, value in wanted.items() if name not in _FIELDS_OF_INPUT}


def wanted_of(typed: TypedGeneration, others: Mapping[str, Any]) -> GenerationRequest:
    """Raises `InvalidRequest`, whose words begin with what they are about."""
    provider, model = _model_of(typed)
    if not typed.prompt.strip():
        raise InvalidRequest("input.prompt: say what you want to see.")
    wanted = {
        **others,
        "prompt": typed.prompt.strip().replace("\r\n", "\n"),
        **_size_of(typed.size),
    }
    if typed.seed.strip():
        wanted["seed"] = _number(typed.seed, "input.seed: a seed is a whole number.")
    return GenerationRequest.of(
        model, wanted, _count_of(typed.count), _tags_of(typed.tags), provider, _kind_of(typed.kind)
    )


def again_of(
    before: Generation | FinishedGeneration, seed: int | None, *, count: int | None = None
) -> GenerationRequest:
    """The same once more; without a seed it is another's to draw."""
    wanted = {name: value for name, value in before.input.items() if name != "seed"}
    if seed is not None:
        wanted["seed"] = seed
    return GenerationRequest.of(
        before.model, wanted, count or before.count, list(before.tags), before.provider,
        MediaKind(before.kind),
    )  # fmt: skip


def named(wanted: GenerationRequest, nonce: str) -> tuple[GenerationRequest, str | None]:
    """With a key, so that a form that is sent twice asks once, and a seed drawn from it where the
    studio is asked without one: what has a seed can be made again."""
    name = f"page:{nonce}:{wanted.digest[:32]}" if _NONCE.fullmatch(nonce) else None
    ours = wanted.provider == STUDIO or wanted.model.startswith(f"{STUDIO}/")
    if name is None or not ours or "seed" in wanted.input:
        return wanted, name
    drawn = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % _SEEDS
    return replace(wanted, input={**wanted.input, "seed": drawn}), name


def problem_of(error: SafelightError) -> tuple[str, str]:
    """The field it is about, "" for the whole form, and its words."""
    where, colon, words = error.message.partition(": ")
    field = _FIELDS.get(where.partition(" ")[0]) if colon else None
    return (field, words[:1].upper() + words[1:]) if field else ("", error.message)


def _model_of(typed: TypedGeneration) -> tuple[str, str]:
    """The provider and its model."""
    if typed.model.startswith(f"{STUDIO}/"):
        return STUDIO, typed.model
    if not typed.model:
        raise InvalidRequest("model: choose one.")
    if not typed.vendor_model.strip():
        raise InvalidRequest("model: write the name of the vendor's model.")
    return typed.model, typed.vendor_model.strip()


def _kind_of(text: str) -> MediaKind:
    if text not in set(MediaKind):
        raise InvalidRequest("kind: choose pictures or clips.")
    return MediaKind(text)


def _count_of(text: str) -> int:
    words = f"count: a whole number from 1 to {MOST}."
    count = _number(text, words)
    if not 1 <= count <= MOST:
        raise InvalidRequest(words)
    return count


def _number(text: str, words: str) -> int:
    """Digits as everybody writes them; int() takes many more."""
    stripped = text.strip()
    if not (stripped.isascii() and _NUMBER.fullmatch(stripped)):
        raise InvalidRequest(words)
    return int(stripped)


def _size_of(text: str) -> dict[str, int]:
    if not text:
        return {}
    found = _SIZE.fullmatch(text)
    if found is None or not text.isascii():
        raise InvalidRequest("input.width: choose a size of the list.")
    return {"width": int(found[1]), "height": int(found[2])}


def _tags_of(text: str) -> list[str]:
    return [tag for part in text.split(",") if (tag := part.strip())]
