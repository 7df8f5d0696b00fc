"""The studio's models: what each paints, and what it takes. Nothing here is learnt from pictures;
the images are drawn by rules, from the words of the prompt and a seed."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from safelight.errors import InvalidRequest
from safelight.generations.lifecycle import MediaKind

SMALLEST, LARGEST = 64, 2048
MOST_PIXELS = {
    MediaKind.IMAGE: 1920 * 1088,
    MediaKind.VIDEO: 1280 * 720,
}  # what drawing takes in memory
DEFAULT_SIZES = {MediaKind.IMAGE: (1024, 1024), MediaKind.VIDEO: (640, 360)}
LARGEST_CLIP = 1280
LONGEST_CLIP, DEFAULT_CLIP, FRAMES_PER_SECOND = 6.0, 3.0, 20
LONGEST_DELAY = 3600.0
FORMATS = {"JPG": "JPEG", "PNG": "PNG", "WEBP": "WEBP"}
SILENT = "silent"  # never heard of again: the timer ends it
FAILURES = ("refused", "error", "busy", SILENT)


@dataclass(frozen=True, slots=True)
class StudioModel:
    id: str
    title: str
    description: str
    example: str


MODELS = (
    StudioModel(
        "studio/horizon",
        "Horizon",
        "Coasts, mountains and lighthouses under a wide sky, at the hour the prompt names.",
        "a lighthouse at dusk above a calm sea",
    ),
    StudioModel(
        "studio/aurora",
        "Aurora",
        "Northern lights over snow, forest and still water.",
        "green northern lights over a forest lake",
    ),
    StudioModel(
        "studio/nocturne",
        "Nocturne",
        "Cities at night: towers, lit windows, the moon, reflections.",
        "a rainy city at night in violet and gold",
    ),
    StudioModel(
        "studio/bloom",
        "Bloom",
        "Meadows and flowers in soft light, from a few stems to a field.",
        "poppies in a meadow on a misty morning",
    ),
)
_BY_ID = {model.id: model for model in MODELS}


@dataclass(frozen=True, slots=True)
class Conduct:
    """How the studio is told to behave, for demonstrations and tests."""

    delay: float = 0.0
    failure: str | None = None
    failing: frozenset[int] | None = None  # positions; None: all of them

    def failure_of(self, position: int) -> str | None:
        fails = self.failing is None or position in self.failing
        return self.failure if fails else None


@dataclass(frozen=True, slots=True)
class Commission:
    """What is to be drawn, every choice made: the same one gives the same bytes."""

    model: str
    kind: MediaKind
    prompt: str
    seed: int
    width: int
    height: int
    format: str
    seconds: float


def commission_of(
    model: str, kind: MediaKind, wanted: Mapping[str, Any], seed: int | None, fallback: str
) -> Commission:
    """Raises `InvalidRequest`. Without a seed one is made of `fallback`, the artifact's id."""
    if model not in _BY_ID:
        known = ", ".join(_BY_ID)
        raise InvalidRequest(f"model: the studio has no {model}; choose from {known}.")
    prompt = wanted.get("prompt") or ""
    largest = LARGEST if kind is MediaKind.IMAGE else LARGEST_CLIP
    width, height = DEFAULT_SIZES[kind]
    width = _whole(wanted, "width", width, SMALLEST, largest)
    height = _whole(wanted, "height", height, SMALLEST, largest)
    if width * height > MOST_PIXELS[kind]:
        most = MOST_PIXELS[kind]
        raise InvalidRequest(f"input.width and input.height: at most {most} pixels together.")
    return Commission(
        model=model,
        kind=kind,
        prompt=prompt,
        seed=_seed_of(fallback) if seed is None else seed,
        width=width,
        height=height,
        format=_format(wanted.get("outputFormat", "JPG")),
        seconds=_number(wanted, "duration", DEFAULT_CLIP, 0.2, LONGEST_CLIP),
    )


def conduct_of(wanted: Mapping[str, Any], delay: float) -> Conduct:
    failure, failing = wanted.get("fail"), wanted.get("failTasks")
    if failure is not None and failure not in FAILURES:
        raise InvalidRequest(f"input.fail: choose from {', '.join(FAILURES)}.")
    whole = isinstance(failing, list) and all(type(one) is int for one in failing)
    if failing is not None and not whole:
        raise InvalidRequest("input.failTasks: a list of task positions, counted from 0.")
    return Conduct(
        delay=_number(wanted, "delaySeconds", delay, 0.0, LONGEST_DELAY),
        failure=failure or ("refused" if failing else None),
        failing=None if failing is None else frozenset(failing),
    )


def _seed_of(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _format(wanted: Any) -> str:
    if not isinstance(wanted, str) or wanted not in FORMATS:
        raise InvalidRequest(f"input.outputFormat: choose from {', '.join(FORMATS)}.")
    return FORMATS[wanted]


def _whole(wanted: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = wanted.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise InvalidRequest(f"input.{name}: a whole number from {least} to {most}.")
    return value


def _number(
    wanted: Mapping[str, Any], name: str, default: float, least: float, most: float
) -> float:
    value = wanted.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidRequest(f"input.{name}: a number from {least:g} to {most:g}.")
    if not least <= value <= most:
        raise InvalidRequest(f"input.{name}: a number from {least:g} to {most:g}.")
    return float(value)
