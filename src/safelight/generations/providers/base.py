"""What Safelight asks of whoever makes images and clips. One file per provider implements it, one
line in registry.py offers it, and tests/generations/test_conformance.py holds each to it.

A provider keeps nothing: what must survive is in the order, and every answer is one of the answers
below. It raises nothing for what a vendor does or says.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from safelight.errors import InvalidRequest
from safelight.generations.lifecycle import Media, MediaKind, TaskError, TaskErrorCode
from safelight.infra.injected import Clock
from safelight.infra.storable import storable
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import Settings

# Names that belong to us in a vendor's request, whatever the caller sends.
RESERVED = frozenset(
    {"taskType", "taskUUID", "numberResults", "webhookURL", "deliveryMethod", "uploadEndpoint"}
)
LONGEST_WORDS = 300
LONGEST_MODEL = 200
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"  # one part of a model's name


@dataclass(frozen=True, slots=True)
class Order:
    """One task as a provider sees it. `task_id` is ours, made and saved before the call, for
    vendors that take one; for others it is the id they gave the task, once known."""

    generation_id: str
    artifact_id: str
    position: int
    task_id: str | None
    kind: MediaKind
    model: str
    input: Mapping[str, Any]
    webhook_url: str = field(repr=False)
    seconds: float

    @property
    def prompt(self) -> str | None:
        prompt = self.input.get("prompt")
        return prompt if isinstance(prompt, str) else None

    @property
    def seed(self) -> int | None:
        """Task i of a seeded request uses seed + i."""
        seed = self.input.get("seed")
        return seed + self.position if isinstance(seed, int) else None

    @property
    def passed_on(self) -> dict[str, Any]:
        """The input without the prompt, the seed and what is ours to say."""
        ours = RESERVED | {"prompt", "seed"}
        return {name: value for name, value in self.input.items() if name not in ours}


@dataclass(frozen=True, slots=True)
class Accepted:
    """The provider is at work, and can be asked or `calls_back`, as it does for every video."""

    label: ClassVar = "accepted"  # in metrics, which others read

    task_id: str | None = None
    calls_back: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    label: ClassVar = "finished"

    media: Media
    task_id: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Final: asking again would not help."""

    label: ClassVar = "refused"

    error: TaskError

    @classmethod
    def because(cls, message: str, code: TaskErrorCode = TaskErrorCode.REFUSED) -> "Refused":
        return cls(TaskError(code, message))


@dataclass(frozen=True, slots=True)
class ProviderTrouble:
    """Try again later. `sent`: the provider may have taken the task all the same. `busy`: it asks
    us to slow down. `ended`: it did take the task, which came to nothing, and will say so
    whenever it is asked; only another one can succeed."""

    label: ClassVar = "trouble"

    message: str
    retry_after: float | None = None
    sent: bool = False
    busy: bool = False
    ended: bool = False


@dataclass(frozen=True, slots=True)
class TaskUnknown:
    """The provider knows no such task."""

    label: ClassVar = "unknown"


ProviderAnswer = Accepted | Finished | Refused | ProviderTrouble | TaskUnknown


@dataclass(frozen=True, slots=True)
class Report:
    """What a webhook tells of one task."""

    task_id: str | None
    outcome: ProviderAnswer


@dataclass(frozen=True, slots=True)
class Drawn:
    content: bytes
    facts: Mapping[str, Any]


class Provider(ABC):
    """What a provider cannot do it says by a flag, and is never asked for."""

    name: ClassVar[str]
    hint: ClassVar[str]  # what its models are called, for whoever chooses one
    model_names: ClassVar[re.Pattern[str] | None] = None  # those that are its own by their form
    kinds: ClassVar[frozenset[MediaKind]] = frozenset(MediaKind)
    hosts: ClassVar[tuple[str, ...]] = ()  # whose media may be fetched; `*.`: any name below
    chooses_ids: ClassVar[bool] = False  # the vendor names its tasks itself, when it takes them
    can_be_asked: ClassVar[bool] = False
    cancels: ClassVar[bool] = False
    signs: ClassVar[bool] = False
    per_minute: ClassVar[int | None] = None  # most submissions

    @classmethod
    @abstractmethod
    def build(cls, deps: "ProviderDeps") -> "Provider | None":
        """None: it has no key on this server, and is not offered."""

    @abstractmethod
    def check(self, model: str, kind: MediaKind, wanted: Mapping[str, Any]) -> None:
        """Raises `InvalidRequest` for what is known to be impossible."""

    @abstractmethod
    async def submit(self, order: Order) -> ProviderAnswer:
        """An image's call returns with its result where the vendor can; a video's does not wait."""

    @abstractmethod
    def reports(self, payload: Any) -> Sequence[Report]:
        """What a webhook's body tells; nothing for one that makes no sense."""

    async def poll(self, order: Order) -> ProviderAnswer:
        """What has become of a task."""
        raise NotImplementedError(self.name)

    async def cancel(self, order: Order) -> bool:
        """Whether the vendor now knows that nobody waits for this."""
        raise NotImplementedError(self.name)

    async def signed(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Whether a webhook is the vendor's by its signature. Header names are in lower case."""
        raise NotImplementedError(self.name)

    async def draw(self, order: Order) -> Drawn:
        """The media whose address is `DRAWN`; only for those who make it here."""
        raise NotImplementedError(self.name)

    async def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Ends connections and threads."""


DRAWN = "drawn:here"


@dataclass(frozen=True, slots=True)
class ProviderDeps:
    """What a provider is built on. `deliver` sends a webhook from a job of our own."""

    settings: Settings
    clock: Clock
    deliver: Callable[[Order, str, float], Awaitable[None]]
    sandbox: Sandbox


def check_name(model: str, form: re.Pattern[str], words: str) -> None:
    """Whether there is such a model is the vendor's to say; this is about what a name can be."""
    if len(model) > LONGEST_MODEL or not form.fullmatch(model):
        raise InvalidRequest(
            f"model: {words}; each part has letters, digits and . _ + - and begins with none of "
            f". + -, and all of it is at most {LONGEST_MODEL} characters."
        )


def one_line(text: object, fallback: str) -> str:
    """A vendor's words, short enough for our history and free of what it cannot hold."""
    words = " ".join(text.split()) if isinstance(text, str) else ""
    return str(storable(words[:LONGEST_WORDS])) or fallback


def media_from(url: str, facts: Mapping[str, Any]) -> Media:
    """A vendor's result as it can be written down."""
    return Media(str(storable(url)), {name: storable(value) for name, value in facts.items()})
