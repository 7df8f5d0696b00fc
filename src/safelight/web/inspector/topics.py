"""What can be chosen of the stream, and which types of history that is. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from safelight.live.messages import EVERYTHING, FOR_ADMINS, Messages


@dataclass(frozen=True, slots=True)
class Topic:
    key: str
    words: str
    icon: str
    beginnings: tuple[str, ...]  # of types
    types: tuple[str, ...] = ()  # that begin otherwise

    def has(self, kind: str) -> bool:
        return kind.startswith(self.beginnings) or kind in self.types


DELETIONS: Final = Topic(
    "deletions", "Deletions", "bin", ("upload_delete",), ("upload_expired", "artifact_deleted")
)
TOPICS: Final = (
    Topic("uploads", "Uploads", "upload", ("upload_", "image_", "original_", "offload_", "event_")),
    Topic("classification", "Classification", "tag", ("classification_", "run_", "reclass")),
    DELETIONS,
    Topic("publishing", "Publishing", "publish", ("submission_", "blocklist_")),
    Topic("approvals", "Approvals", "approve", ("approval_",)),
    Topic(
        "generations", "Generations", "spark", ("generation_", "artifact_", "task_", "webhook_")
    ),
    Topic(
        "upkeep", "Upkeep", "settings",
        ("job_", "member_", "token_", "organization_", "quotas_", "retention_"),
    ),
)  # fmt: skip
# Steps between what happened and what came of it: the stream can be followed without them.
STEPS: Final = frozenset({"upload_stored", "classification_workflow_started"})

# It says who sent an upload, which the line that is shown does not.
SENDER: Final = "image_uploaded"

# What many of a kind are called together.
MANY: Final[Mapping[str, str]] = {
    "upload_ingested": "images were uploaded",
    "upload_stored": "originals were stored",
    "classification_workflow_started": "images came into the library",
    "classification_updated": "images were labelled",
    "run_attempt": "looks at pictures",
    "event_received": "events of the store",
    "event_dropped": "events were left aside",
    "upload_delete_requested": "images were to be deleted",
    "upload_deleted": "images were deleted",
    "upload_expired": "images had their time",
    "artifact_ready": "pictures were made",
    "approval_requested": "decisions were asked for",
    "classification_asked": "new labels were asked for",
}


def topic_of(kind: str) -> Topic | None:
    if DELETIONS.has(kind):
        return DELETIONS
    return next((topic for topic in TOPICS if topic.has(kind)), None)


@dataclass(frozen=True, slots=True)
class StreamFilter:
    """`only` are keys of topics; none: all of them. `q` is a name, or a subject with its type."""

    only: tuple[str, ...] = ()
    inner: bool = False
    q: str = ""

    @property
    def any(self) -> bool:
        return bool(self.only or self.inner or self.q)

    def toggled(self, key: str) -> "StreamFilter":
        chosen = {*self.only} ^ {key}
        return replace(self, only=tuple(one.key for one in TOPICS if one.key in chosen))

    def with_inner(self, inner: bool) -> "StreamFilter":
        return replace(self, inner=inner)

    def query(self, **more: str | int | None) -> str:
        """As an address's query, with its question mark."""
        own = {"only": ",".join(self.only), "inner": "true" if self.inner else "", "q": self.q}
        given = {name: value for name, value in (own | more).items() if value}
        return f"?{urlencode(given)}" if given else ""

    def types(self, messages: Messages, *, admin: bool) -> list[str] | None:
        """None: all there are. What only admins are told of is no inner matter to them."""
        if self.inner:
            allowed = messages.choose([EVERYTHING], admin=admin)
            known = [*messages.types, *messages.inner(admin=admin)]
        else:
            allowed = [kind for kind in messages.types if kind not in STEPS]
            allowed = known = [*allowed, SENDER, *(sorted(FOR_ADMINS) if admin else ())]
        return self._of_topics(known) if self.only else allowed

    def _of_topics(self, known: Iterable[str]) -> list[str]:
        topics = ((kind, topic_of(kind)) for kind in known)
        return [kind for kind, topic in topics if topic and topic.key in self.only]


def offered(*, admin: bool) -> list[Topic]:
    """Upkeep is told to admins alone."""
    return [topic for topic in TOPICS if admin or topic.key != "upkeep"]
