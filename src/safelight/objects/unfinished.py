"""Uploads in parts that nobody will end: their process was killed, and the bucket keeps the parts.

The bucket is asked for those below our prefix; what was begun more than a day ago is taken away,
since no put lasts so long. Where the bucket does not let us look, a rule of its own has to do it
(docs/buckets.md).
"""

import html
import re
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import structlog

from safelight.infra.failpoints import reach
from safelight.infra.injected import Clock
from safelight.objects.aws_signature import BucketSigner
from safelight.objects.keys import InvalidKey, owner_of
from safelight.objects.store import StoreUnavailable

DAY_MS: Final = 86_400_000
_SECONDS: Final = 30
_UPLOAD = re.compile(r"<Upload>(.*?)</Upload>", re.DOTALL)


class AbortUnfinished:
    def __init__(self, signer: BucketSigner, prefix: str, clock: Clock) -> None:
        self._signer = signer
        self._prefix = prefix
        self._clock = clock

    async def run(self) -> int:
        """How many it took away: of a bucket's first thousand; the next run sees the others."""
        listing = await self._ask("GET", "", {"uploads": "", "prefix": self._prefix})
        if listing is None:
            return 0
        ended = 0
        for key, upload in self._old(listing):
            await reach("objects.abort_upload")
            ended += await self._abort(key, upload)
        if ended:
            structlog.get_logger().info("unfinished uploads were taken away", count=ended)
        return ended

    def _old(self, listing: str) -> list[tuple[str, str]]:
        before = self._clock.now_ms() - DAY_MS
        found = []
        for upload in _UPLOAD.findall(listing):
            key, begun = _field(upload, "Key"), _field(upload, "Initiated")
            if _is_ours(key, self._prefix) and _ms(begun) < before:
                found.append((key, _field(upload, "UploadId")))
        return found

    async def _abort(self, key: str, upload: str) -> bool:
        return await self._ask("DELETE", key, {"uploadId": upload}) is not None

    async def _ask(self, method: str, key: str, query: dict[str, str]) -> str | None:
        """The answer; none where the bucket says that this is not for us, or is over."""
        import httpx

        now = self._clock.now_ms()
        address = self._signer.address(method, key, query, seconds=_SECONDS, now_ms=now)
        try:
            async with httpx.AsyncClient(timeout=_SECONDS) as client:
                answer = await client.request(method, address)
        except httpx.HTTPError as error:
            raise StoreUnavailable.because(type(error).__name__) from None
        if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise StoreUnavailable.because(f"{method} was answered {answer.status_code}.")
        if answer.is_success:
            return answer.text
        if answer.status_code != HTTPStatus.NOT_FOUND:  # somebody else was quicker
            structlog.get_logger().warning(
                "the bucket does not let us end unfinished uploads; set a rule that does",
                status=answer.status_code,
            )
        return None


def _field(upload: str, name: str) -> str:
    match = re.search(rf"<{name}>(.*?)</{name}>", upload, re.DOTALL)
    return html.unescape(match[1]) if match else ""


def _is_ours(key: str, prefix: str) -> bool:
    try:
        owner_of(key.removeprefix(prefix))
    except InvalidKey:
        return False
    return key.startswith(prefix)


def _ms(time: str) -> int:
    """Nothing that has no time is old."""
    try:
        found = datetime.fromisoformat(time)
    except ValueError:
        return 2**62
    return int(found.replace(tzinfo=found.tzinfo or UTC).timestamp() * 1000)
