"""A remote model's opinion over HTTP.

It is sent the picture that would be published, and answers in JSON:

    {"verdict": "pass" | "review" | "block", "message"?: "for the submitter", "score"?: 0…1}

A refusal that speaks of the picture itself counts against it; any other status (an outage, too
little capacity, a wrong token or address) passes or is put right: the model is away.

Guarantees: a request ends within its time limit, however slowly the answer drips; an answer is read
up to a limit and believed only in that shape; no error's words hold the token.
"""

import asyncio
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, Field, ValidationError

from safelight.classification.base import ModelAway, ModelError
from safelight.errors import Unavailable
from safelight.sandbox.protocol import Rendition
from safelight.settings import Settings
from safelight.submissions.findings import Opinion
from safelight.submissions.lifecycle import Submission

if TYPE_CHECKING:
    import httpx

MAX_REPLY_BYTES: Final = 64 * 1024
_OK: Final = 200
_OF_THE_PICTURE: Final = {400, 406, 411, 413, 415, 422}


class VisionUnreachable(Unavailable):
    """The remote vision model could not be reached."""

    code = "NETWORK_ERROR"


class _Reply(BaseModel):
    verdict: Literal["pass", "review", "block"]
    message: Annotated[str, Field(max_length=500)] | None = None
    score: Annotated[float, Field(ge=0, le=1)] | None = None


class Vision:
    def __init__(self, settings: Settings) -> None:
        self._url = settings.vision_url or ""
        self._token = settings.vision_token
        self._seconds = settings.vision_timeout_seconds
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def opinion(self, submission: Submission, rendition: Rendition) -> Opinion:
        import httpx

        if self._client is None:
            self._client = httpx.AsyncClient(timeout=self._seconds, trust_env=False)
        try:
            async with asyncio.timeout(self._seconds):
                status, body = await self._exchange(self._client, submission, rendition)
        except httpx.HTTPError as error:
            raise VisionUnreachable from error
        return read(status, body)

    async def _exchange(
        self, client: "httpx.AsyncClient", submission: Submission, rendition: Rendition
    ) -> tuple[int, bytes]:
        headers = {
            "content-type": rendition.content_type,
            "accept": "application/json",
            "accept-encoding": "identity",
            "x-submission-id": submission.id,
        }
        if self._token:
            headers["authorization"] = f"Bearer {self._token.get_secret_value().strip()}"
        request = client.build_request("POST", self._url, content=rendition.data, headers=headers)
        response = await client.send(request, stream=True)
        try:
            return response.status_code, await _limited(response)
        finally:
            await response.aclose()


def read(status: int, body: bytes) -> Opinion:
    if status != _OK:
        refused = ModelError if status in _OF_THE_PICTURE else ModelAway
        raise refused(f"The vision model answered with status {status}.")
    try:
        reply = _Reply.model_validate_json(body)
    except ValidationError as error:
        raise ModelError("The vision model's answer is not of the agreed shape.") from error
    message = reply.message and "".join(char for char in reply.message if char.isprintable())
    return Opinion(reply.verdict, message, reply.score)


async def _limited(response: "httpx.Response") -> bytes:
    reply = bytearray()
    async for chunk in response.aiter_raw():
        reply += chunk
        if len(reply) > MAX_REPLY_BYTES:
            raise ModelError(f"The vision model answered with more than {MAX_REPLY_BYTES} bytes.")
    return bytes(reply)
