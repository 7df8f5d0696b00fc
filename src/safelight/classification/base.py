"""What every classifier promises, and the ways it may fail.

`classify` raises nothing but `Undecodable` (the image is at fault: asking again is pointless) and
`ModelError` (the model is: asking again may help). A `ModelError` says when: `retry_after` seconds
at least, if known. `ModelAway` says that the model did not even look, or was not given the time to,
so that the image's attempt does not count. `ChildDied` may be either's fault: of one image it
happens twice at most.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from safelight.errors import SafelightError, Unavailable


class Undecodable(SafelightError):
    """The bytes are not an image that can be read."""

    code = "UNDECODABLE"
    status = 422

    def __init__(
        self, message: str | None = None, *, decoder: str = "", digest: str | None = None
    ) -> None:
        """The message is for whoever sent the image; the decoder's own words are for the log.
        `digest`: of which bytes this is said, where that is known."""
        super().__init__(message)
        self.decoder = decoder
        self.digest = digest


class ModelError(SafelightError):
    """The model did not give an answer."""

    code = "MODEL_ERROR"
    status = 502
    says_it_all = True

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after: float | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after


class ModelAway(ModelError, Unavailable):
    """The model cannot be reached, or has no time for us."""


class ChildDied(ModelError):
    """The process that decoded the image died of it."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What else comes of looking at an image. Thumbnail and embedding are there if they were asked
    for; not every model has the latter."""

    embedding: bytes | None = None
    """Little-endian float16, length 1 as a vector, so that a dot product is the cosine."""
    thumbnail: bytes | None = None
    """WebP, upright, at most 320 pixels wide and high, nothing in it but pixels."""
    color: str | None = None
    """The dominant one, #rrggbb."""
    digest: str | None = None
    """SHA-256 of the bytes that were looked at, in hex."""


@dataclass(frozen=True, slots=True)
class Prediction:
    label: str
    score: float
    drawing: Drawing = Drawing()
    labels: tuple[tuple[str, float], ...] = ()
    """The five best with their scores, best first, where the model gives more than one."""


class Classifier(Protocol):
    """`open` before the first `classify`, `close` after the last; calling either again is free."""

    @property
    def name(self) -> str:
        """The value of SAFELIGHT_CLASSIFIER that chooses it."""

    @property
    def model(self) -> str: ...

    @property
    def model_hash(self) -> str | None:
        """SHA-256 of the weights, known once opened; None where a vendor keeps them."""

    @property
    def remote(self) -> bool:
        """Whether an answer costs money or time elsewhere, so that it is worth saving at once."""

    @property
    def dimensions(self) -> int:
        """Of its embeddings; 0 where it gives none."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def classify(
        self, data: bytes | int, *, thumbnail: bool = False, embedding: bool = False
    ) -> Prediction:
        """`data`: the bytes, or an open file's descriptor, which stays the caller's."""

    async def draw(
        self, data: bytes | int, *, thumbnail: bool = False, embedding: bool = False
    ) -> Drawing:
        """The same without a label, and without asking anybody elsewhere."""
