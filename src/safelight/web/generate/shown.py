"""A generation as its band shows it: one tile for each thing that was asked for. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote, urlencode

from safelight.generations.lifecycle import (
    Artifact,
    FinishedGeneration,
    Generation,
    GenerationStatus,
    MediaKind,
    TaskErrorCode,
    TaskStatus,
)
from safelight.generations.studio.catalogue import DEFAULT_SIZES, MODELS
from safelight.web.generate.form import others_of
from safelight.web.publishing import duration

_TITLES: Final = {model.id: model.title for model in MODELS}
_VENDORS: Final = {"studio": "Studio", "runware": "Runware", "replicate": "Replicate"}
_LONGEST_SIDE: Final = 16_384
_LONGEST_ALT: Final = 120


def address(organization: str, artifact_id: str, **wanted: str | None) -> str:
    """Of an artifact's page; `wanted` is the list that one comes from."""
    query = urlencode({name: value for name, value in wanted.items() if value})
    path = f"/app/{quote(organization, safe='')}/library/{quote(artifact_id, safe='')}"
    return f"{path}?{query}" if query else path


@dataclass(frozen=True, slots=True)
class MadePicture:
    """What is there of an artifact: `small` is None for a clip, and where there are no small
    pictures."""

    id: str
    content: str
    small: str | None
    is_video: bool
    width: int
    height: int
    seed: int | None
    words: str

    @property
    def shown(self) -> str:
        return self.small or self.content


def made_picture(artifact: Artifact, words: str, *, originals: bool) -> MadePicture:
    """`originals`: there are no small pictures."""
    base, is_video = f"/artifacts/{artifact.id}", artifact.content_type.startswith("video/")
    small = f"{base}/thumbnail?size=320&v={artifact.checksum}"
    width, height = _size(artifact.metadata, MediaKind.VIDEO if is_video else MediaKind.IMAGE)
    seed = artifact.metadata.get("seed")
    return MadePicture(
        id=artifact.id,
        content=f"{base}/content",
        small=None if is_video or originals else small,
        is_video=is_video,
        width=width,
        height=height,
        seed=seed if type(seed) is int else None,
        words=_alt(words),
    )


@dataclass(frozen=True, slots=True)
class MadeTile:
    """`made` None: it is not there yet, is never going to be, or was deleted."""

    artifact_id: str
    number: int
    status: TaskStatus
    words: str
    made: MadePicture | None
    address: str


@dataclass(frozen=True, slots=True)
class GenerationBand:
    id: str
    prompt: str
    model: str
    kind: MediaKind
    status: GenerationStatus
    count: int
    created_at: int
    timeout_at: int
    completed_at: int | None
    who: str | None
    cost: str | None
    tags: tuple[str, ...]
    seed: int | None
    size: tuple[int, int]  # of what is not there yet
    more: str  # what else was asked for
    tiles: list[MadeTile]

    @property
    def ready(self) -> int:
        return sum(tile.status is TaskStatus.READY for tile in self.tiles)

    @property
    def failed(self) -> int:
        return sum(tile.status is TaskStatus.FAILED for tile in self.tiles)

    @property
    def took(self) -> str | None:
        done = self.completed_at
        return None if done is None else duration((done - self.created_at) / 1000)

    @property
    def again_seed(self) -> int | None:
        """What the same can be made of again."""
        only = self.tiles[0].made if len(self.tiles) == 1 else None
        return self.seed if self.seed is not None else only.seed if only else None


def band(
    organization: str,
    found: Generation | FinishedGeneration,
    artifacts: Iterable[Artifact],
    who: str | None,
    *,
    originals: bool,
) -> GenerationBand:
    there = {artifact.id: artifact for artifact in artifacts}
    prompt, seed, kind = found.input.get("prompt"), found.input.get("seed"), MediaKind(found.kind)
    words = prompt if isinstance(prompt, str) else ""
    tasks = [task if isinstance(task, dict) else task.to_json() for task in found.tasks]
    return GenerationBand(
        id=found.id,
        prompt=words,
        model=model_in_words(found.provider, found.model),
        kind=kind,
        status=GenerationStatus(found.status),
        count=found.count,
        created_at=found.created_at,
        timeout_at=found.timeout_at,
        completed_at=found.completed_at if isinstance(found, FinishedGeneration) else None,
        who=who,
        cost=dollars(found.cost),
        tags=tuple(sorted(found.tags)),
        seed=seed if type(seed) is int else None,
        size=_size(found.input, kind),
        more=", ".join(f"{name} {value}" for name, value in others_of(found).items()),
        tiles=[
            _tile(organization, number, task, there.get(task["artifactId"]), words, originals)
            for number, task in enumerate(tasks, 1)
        ],
    )


def _tile(
    organization: str,
    number: int,
    task: Mapping[str, Any],
    artifact: Artifact | None,
    prompt: str,
    originals: bool,
) -> MadeTile:
    artifact_id, status = task["artifactId"], TaskStatus(task["status"])
    made = made_picture(artifact, prompt, originals=originals) if artifact else None
    # An artifact is there a moment before its task says so.
    status = TaskStatus.READY if made else status
    words = "Deleted" if status is TaskStatus.READY and not made else _trouble(task) or status.word
    return MadeTile(artifact_id, number, status, words, made, address(organization, artifact_id))


def _trouble(task: Mapping[str, Any]) -> str:
    error = task.get("error") or {}
    if error.get("code") == TaskErrorCode.CANCELLED:
        return "Cancelled"
    return str(error.get("message", ""))


def model_in_words(provider: str, model: str) -> str:
    title = _TITLES.get(model)
    vendor = _VENDORS.get(provider, provider)
    return f"{vendor} {title}" if title else f"{vendor} · {model}"


def vendor_in_words(provider: str) -> str:
    return _VENDORS.get(provider, provider)


def dollars(amount: Decimal | float | None) -> str | None:
    """Of an amount that is worth a word."""
    if not amount or amount < 0:
        return None
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}".rstrip("0").rstrip(".")


def _size(facts: Mapping[str, Any], kind: MediaKind) -> tuple[int, int]:
    width, height = facts.get("width"), facts.get("height")
    sides = [side for side in (width, height) if type(side) is int and 0 < side <= _LONGEST_SIDE]
    return (sides[0], sides[1]) if len(sides) == 2 else DEFAULT_SIZES[kind]  # noqa: PLR2004


def _alt(words: str) -> str:
    text = " ".join(words.split()) or "What was made"
    return text if len(text) <= _LONGEST_ALT else f"{text[: _LONGEST_ALT - 1]}…"
