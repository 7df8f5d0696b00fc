"""A classifier whose network runs in children (network.py), asked from a server's process.

Guarantees: an image is decoded and judged in a child and nowhere else, a few at a time, the rest
wait their turn. A child that dies of an image, or exceeds a limit with it, is `ChildDied`; where
none can be started, can load the model, can read the image or is left alone by others, or where the
machine gives it too little of its time, it is `ModelAway`, and says nothing of the image. What a
child says is believed only if it could be true, and one that says anything else is not asked again.
"""

import asyncio
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final, TypeVar

import structlog

from safelight.classification.base import (
    ChildDied,
    Drawing,
    ModelAway,
    ModelError,
    Prediction,
    Undecodable,
)
from safelight.classification.labels import TOP, known_labels
from safelight.classification.refusal import of_facts
from safelight.errors import ConfigurationError, SafelightError
from safelight.sandbox import facts as said
from safelight.sandbox.children import Kit
from safelight.sandbox.facts import Garbled, ensure
from safelight.sandbox.protocol import Answer
from safelight.sandbox.sandbox import (
    ChildrenAway,
    KitUnusable,
    Sandbox,
    SandboxTimeout,
    SourceAway,
    TaskDied,
)

T = TypeVar("T")

THUMBNAIL_BYTES: Final = 256 * 1024  # no picture of that size takes more
_HALF: Final = 2
# The upper byte of a short float whose exponent is all ones: an infinity, or no number.
_NO_NUMBER: Final = re.compile(rb"[\x7c-\x7f\xfc-\xff]")

# An image that takes too much itself is ended by the limit of processor time.
_TOO_SLOW: Final = "This server was too slow to look at the image in time. It will try again."


class LocalClassifier:
    remote = False

    def __init__(
        self,
        name: str,
        model: str,
        sandbox: Sandbox,
        *,
        hash_model: Callable[[], str],
        kit: Callable[[], Kit],
        dimensions: int = 0,
        eager: bool = False,
    ) -> None:
        """`eager`: the network is loaded once when it is opened, to see whether it can be.
        `dimensions` are its embeddings'."""
        self.name = name
        self.model = model
        self.dimensions = dimensions
        self.model_hash: str | None = None
        self._sandbox = sandbox
        self._hash_model = hash_model
        self._find_kit = kit
        self._eager = eager
        self._closed = False

    @cached_property
    def _kit(self) -> Kit:
        return self._find_kit()

    async def open(self) -> None:
        if self.model_hash is not None:
            return
        found = await asyncio.to_thread(self._hash_model)
        if self._eager:
            await self._sandbox.prepare(self._kit)
        self.model_hash = found

    async def close(self) -> None:
        """The children are the sandbox's."""
        self._closed = True

    async def classify(
        self, data: bytes | int, *, thumbnail: bool = False, embedding: bool = False
    ) -> Prediction:
        if self._closed:
            raise ModelError("The classifier is closed.")
        try:
            kit = self._kit
        except ConfigurationError as error:
            raise _not_loaded(error) from error
        wanted = {"thumbnail": thumbnail, "embedding": embedding}
        numbers = self.dimensions if embedding else 0

        def load(answer: Answer) -> Prediction:
            return read(answer, thumbnail=thumbnail, dimensions=numbers)

        return await ask(self._sandbox, "classify", data, kit, load, **wanted)

    async def draw(
        self, data: bytes | int, *, thumbnail: bool = False, embedding: bool = False
    ) -> Drawing:
        found = await self.classify(data, thumbnail=thumbnail, embedding=embedding)
        return found.drawing


async def ask(
    sandbox: Sandbox,
    task: str,
    source: bytes | int,
    kit: Kit,
    read: Callable[[Answer], T],
    **parameters: bool,
) -> T:
    """A sandbox's troubles as a classifier tells them. `read` raises `Garbled` for what cannot be
    true."""

    def load(answer: Answer) -> T | SafelightError:
        return of_facts(answer.facts) or read(answer)

    try:
        found = await sandbox.ask(task, source, kit, parameters, load)
    except (ChildrenAway, SourceAway) as error:
        raise ModelAway(error.message) from error
    except SandboxTimeout as error:
        raise ModelAway(_TOO_SLOW) from error
    except TaskDied as death:
        raise ChildDied(f"{ChildDied.default_message()} Reason: {death.reason}.") from death
    except (KitUnusable, ConfigurationError) as error:
        raise _not_loaded(error) from error
    if isinstance(found, Undecodable):
        structlog.get_logger().info(
            "an image cannot be decoded", reason=found.message, decoder=found.decoder
        )
    if isinstance(found, SafelightError):
        raise found
    return found


def _not_loaded(error: SafelightError) -> ModelAway:
    """It was loaded when the server started, so that its file is away or being replaced. The reason
    names the file, so it is the log's."""
    structlog.get_logger().warning("model.not_loaded", reason=error.message)
    return ModelAway("The model cannot be loaded right now; the server's log says why.")


def read(answer: Answer, *, thumbnail: bool, dimensions: int) -> Prediction:
    """What a child found; it may be in the hands of an image. What was asked for is there, of the
    size that was asked for."""
    given = said.fields(answer.facts, ("labels", "embedding", "color", "digest"))
    ensure(isinstance(given["labels"], list) and 0 < len(given["labels"]) <= TOP)
    found = tuple(map(_scored, given["labels"]))
    cut = said.count(given["embedding"], len(answer.data))
    ensure(cut == dimensions * _HALF)
    vector, small = answer.data[:cut], answer.data[cut:]
    ensure(not _NO_NUMBER.search(vector[1::_HALF]))
    return Prediction(*found[0], drawing_of(given, small, thumbnail, vector), found)


def drawing_of(
    given: dict[str, Any], small: bytes, thumbnail: bool, vector: bytes = b""
) -> Drawing:
    if thumbnail:
        said.webp(small, THUMBNAIL_BYTES)
    else:
        ensure(not small)
    color, digest = said.color(given["color"]), said.digest(given["digest"])
    return Drawing(vector or None, small or None, color, digest)


def _scored(value: object) -> tuple[str, float]:
    match value:
        case [str() as label, score] if label in known_labels():
            return label, said.share(score)
    raise Garbled
