"""Who sends the bytes of a bucket to whoever may have them: we, or the bucket itself.

The bucket sends originals and artifacts, which are large, to callers that were let in here just
now. Small pictures pass through us: they are cached, and another request would take longer than
they do. So does what is published, since an address that was given away outlives a withdrawal.
"""

from typing import Final

from safelight.infra.injected import Clock
from safelight.objects.aws_signature import BucketSigner

GOOD_FOR_SECONDS: Final = 300


class Downloads:
    """Without a `signer` we send them. `prefix` is what keys begin with in the bucket."""

    def __init__(self, clock: Clock, signer: BucketSigner | None = None, prefix: str = "") -> None:
        self._clock = clock
        self._signer = signer
        self._prefix = prefix

    def sends(self, method: str) -> bool:
        """Whether the bucket does. What there is of something, we say ourselves."""
        return self._signer is not None and method == "GET"

    def address(self, key: str, content_type: str, disposition: str) -> str:
        """Where the bucket sends it, for a while. Type and name are what we say, whatever the
        bucket was told once."""
        assert self._signer is not None  # noqa: S101 - the bucket sends it
        says = {
            "response-content-type": content_type,
            "response-content-disposition": disposition,
            "response-cache-control": "private, no-store",
        }
        now, key = self._clock.now_ms(), self._prefix + key
        return self._signer.address("GET", key, says, seconds=GOOD_FOR_SECONDS, now_ms=now)
