"""What every classifier promises, and the ways it may fail.

`classify` raises nothing but `Undecodable` (the image is at fault: asking again is pointless) and
`ModelError` (the model is: asking again may help). A `ModelError` says when: `retry_after` seconds
at least, if known; `permanent` if nothing can help until somebody changes a setting. `ModelAway`
says that the model did not even look, so that the image's attempt does not count.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from safelight.errors import SafelightError, Unavailable


class Undecodable(SafelightError):
    """The bytes are not an image that can be read."""

    code = "UNDECODABLE"
    status = 422


class ModelError(SafelightError):
    """The model did not give an answer."""

    code = "MODEL_ERROR"
    status = 502

    def __init__(
        self,
        message: str | None = None,
        *,
        retry_after: float | None = None,
        permanent: bool = False,
        **details: Any,
    ) -> None:
        super().__init__(message, **details)
        self.retry_after = retry_after
        self.permanent = permanent


class ModelAway(ModelError, Unavailable):
    """The model cannot be reached, or has no time for us."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Thumbnail and embedding are there if they were asked for; not every model has the latter."""

    label: str
    score: float
    embedding: bytes | None = None
    """Little-endian float16, length 1 as a vector, so that a dot product is the cosine."""
    thumbnail: bytes | None = None
    """WebP, upright, at most 512 pixels wide and high."""


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

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def classify(
        self, data: bytes, *, thumbnail: bool = False, embedding: bool = False
    ) -> Prediction: ...
