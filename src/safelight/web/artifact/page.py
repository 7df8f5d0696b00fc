"""What the templates of artifacts see."""

from dataclasses import dataclass
from typing import ClassVar

from safelight.generations.lifecycle import Artifact
from safelight.generations.media import file_name
from safelight.generations.request import LONGEST_TAG
from safelight.submissions.lifecycle import SubmissionState
from safelight.web.artifact.shown import ArtifactFilter, ListedArtifact
from safelight.web.generate.page import base_of
from safelight.web.generate.shown import GenerationBand, MadePicture
from safelight.web.image.page import LONGEST_TITLE, Rights
from safelight.web.image.read import ShownSubmission
from safelight.web.image.shown import StoryLine
from safelight.web.rendering import Context


@dataclass(frozen=True, kw_only=True)
class ArtifactsPage(Context):
    template: ClassVar[str] = "artifacts.html"
    title: str = "Artifacts"
    organization: str
    wanted: ArtifactFilter
    tiles: list[ListedArtifact]
    tags: list[tuple[str, int, str, bool]]  # with its address, and whether it is chosen
    generation: GenerationBand | None
    more: str | None
    newest: bool

    @property
    def generate(self) -> str:
        return base_of(self.organization)


@dataclass(frozen=True, kw_only=True)
class ArtifactPage(Context):
    template: ClassVar[str] = "artifact.html"
    organization: str
    artifact: Artifact
    made: MadePicture
    prompt: str
    band: GenerationBand | None  # None: what it is of is not known any more
    facts: list[tuple[str, str]]
    rights: Rights
    submissions: list[ShownSubmission]
    story: list[StoryLine]
    before: int | None
    newer: ListedArtifact | None
    older: ListedArtifact | None
    wanted: ArtifactFilter
    public: str
    nonce: str
    problem: tuple[str, str] = ("", "")  # the form it is about, and its words
    typed: str = ""
    longest_title: ClassVar[int] = LONGEST_TITLE
    longest_tag: ClassVar[int] = LONGEST_TAG

    @property
    def here(self) -> str:
        return self.wanted.page_of(self.artifact.id)

    def form(self, verb: str) -> str:
        return f"{self.wanted.base}/{self.artifact.id}/{verb}{self.wanted.query()}"

    @property
    def generate(self) -> str:
        return base_of(self.organization)

    @property
    def file_name(self) -> str:
        return file_name(self.artifact.id, self.artifact.content_type)

    @property
    def published(self) -> bool:
        return any(one.submission.state is SubmissionState.PUBLISHED for one in self.submissions)

    @property
    def may_publish(self) -> bool:
        """One at a time, and stills only."""
        ended = {SubmissionState.REJECTED, SubmissionState.WITHDRAWN}
        going = any(one.submission.state not in ended for one in self.submissions)
        return self.rights.change and not self.made.is_video and not going


@dataclass(frozen=True, kw_only=True)
class ArtifactGonePage(Context):
    template: ClassVar[str] = "artifact_gone.html"
    title: str = "Deleted"
    organization: str
    wanted: ArtifactFilter
    story: list[StoryLine]


@dataclass(frozen=True, kw_only=True)
class ArtifactDeletePage(Context):
    template: ClassVar[str] = "artifact_delete.html"
    title: str = "Delete an artifact"
    organization: str
    made: MadePicture
    action: str
    back: str
