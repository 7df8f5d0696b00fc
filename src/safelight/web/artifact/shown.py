"""Artifacts as their list and their own page show them. Pure."""

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from safelight.generations.lifecycle import Artifact
from safelight.web.gallery.card import readable_size
from safelight.web.generate.shown import MadePicture, dollars, made_picture
from safelight.web.image.shown import megapixels, pixels


@dataclass(frozen=True, slots=True)
class ArtifactFilter:
    """Which artifacts a list shows."""

    organization: str
    tag: str | None = None
    generation: str | None = None

    @property
    def base(self) -> str:
        return f"/app/{quote(self.organization, safe='')}/library"

    def query(self, **more: str | None) -> str:
        told = {"tag": self.tag, "generation": self.generation, **more}
        said = urlencode({name: value for name, value in told.items() if value})
        return f"?{said}" if said else ""

    @property
    def list(self) -> str:
        return self.base + self.query()

    def page_of(self, artifact_id: str) -> str:
        return f"{self.base}/{quote(artifact_id, safe='')}{self.query()}"


@dataclass(frozen=True, slots=True)
class ListedArtifact:
    made: MadePicture
    address: str
    size: str


def listed(
    artifact: Artifact, prompt: str, wanted: ArtifactFilter, *, originals: bool
) -> ListedArtifact:
    made = made_picture(artifact, prompt, originals=originals)
    return ListedArtifact(made, wanted.page_of(artifact.id), readable_size(artifact.size_bytes))


def facts_of(artifact: Artifact) -> list[tuple[str, str]]:
    """What is known of it, in words; what is not is left out."""
    told = artifact.metadata
    width, height = (_whole(told.get(name)) for name in ("width", "height"))
    seconds, cost, seed = (told.get(name) for name in ("seconds", "cost", "seed"))
    sides = " · ".join(filter(None, (pixels(width, height), megapixels(width, height))))
    kind = artifact.content_type.partition("/")[2].upper().replace("WEBP", "WebP")
    rows = (
        ("Seed", str(seed) if type(seed) is int else None),
        ("Pixels", sides),
        ("Length", f"{seconds:.1f} s" if isinstance(seconds, float) else None),
        ("Size", readable_size(artifact.size_bytes)),
        ("Type", kind.replace("WEBM", "WebM")),
        ("Cost", dollars(cost) if isinstance(cost, int | float) else None),
        ("Method", _words(told.get("method"))),
    )
    return [(name, value) for name, value in rows if value]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _words(value: object) -> str | None:
    return value if isinstance(value, str) else None
