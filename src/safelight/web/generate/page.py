"""What the templates of generations see."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from safelight.generations.lifecycle import MediaKind
from safelight.generations.request import LONGEST_PROMPT, MOST
from safelight.generations.studio.catalogue import MODELS, StudioModel
from safelight.web.gauges import Gauge
from safelight.web.generate.form import SHAPES, TypedGeneration
from safelight.web.generate.shown import GenerationBand
from safelight.web.image.shown import StoryLine
from safelight.web.rendering import Context

_REFRESH_MS = 3_000  # what nobody tells of, as a task that is sent to its provider


def base_of(organization: str) -> str:
    return f"/app/{quote(organization, safe='')}/generate"


@dataclass(frozen=True, slots=True)
class Vendor:
    name: str
    title: str
    hint: str


@dataclass(frozen=True, kw_only=True)
class GeneratePage(Context):
    template: ClassVar[str] = "generate.html"
    title: str = "Generate"
    organization: str
    may: bool
    here: str
    typed: TypedGeneration
    others: Mapping[str, Any]
    origin: str
    vendors: list[Vendor]
    bands: list[GenerationBand]
    more: str | None
    newest: bool
    left: Gauge | None
    spent: str | None
    problems: Mapping[str, str] = field(default_factory=dict)
    models: ClassVar[tuple[StudioModel, ...]] = MODELS
    shapes: ClassVar = SHAPES
    kinds: ClassVar = tuple(MediaKind)
    most: ClassVar[int] = MOST
    longest_prompt: ClassVar[int] = LONGEST_PROMPT
    refresh: ClassVar[int] = _REFRESH_MS

    @property
    def base(self) -> str:
        return base_of(self.organization)

    @property
    def active(self) -> bool:
        return any(not one.status.over for one in self.bands)


@dataclass(frozen=True, kw_only=True)
class GenerationPage(Context):
    template: ClassVar[str] = "generation.html"
    organization: str
    may: bool
    here: str
    band: GenerationBand
    nonce: str
    story: list[StoryLine]
    before: int | None  # the seq behind which more of the story is
    asked: int | None  # the one behind which this part of it is
    refresh: ClassVar[int] = _REFRESH_MS

    @property
    def base(self) -> str:
        return base_of(self.organization)


@dataclass(frozen=True, slots=True)
class AskedGenerate:
    """What the address says: which generation the form begins as, and the page of the list."""

    origin: str = ""
    seed: str = ""
    cursor: str | None = None

    def query(self) -> str:
        told = {"from": self.origin, "seed": self.seed, "cursor": self.cursor or ""}
        said = urlencode({name: value for name, value in told.items() if value})
        return f"?{said}" if said else ""
