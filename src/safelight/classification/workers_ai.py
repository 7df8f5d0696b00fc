"""ResNet-50 at Cloudflare Workers AI over HTTP, directly or through an AI Gateway.

Guarantees: what is sent is the upright image, small and without its metadata; a request ends within
its time limit, however slowly the answer drips; an answer is read up to a limit and believed only
if every entry has a label and a score from 0 to 1; no error's words hold a token.
Known gap: which bytes the vendor's model turned into a label cannot be pinned, so there is no hash.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pydantic import SecretStr

from safelight.classification.base import Drawing, ModelAway, ModelError, Prediction
from safelight.classification.local import ask, drawing_of
from safelight.classification.workers_ai_replies import Labels, read
from safelight.infra.injected import Clock
from safelight.sandbox.children import Kit
from safelight.sandbox.facts import count, fields
from safelight.sandbox.protocol import Answer
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import Settings

if TYPE_CHECKING:
    import httpx

NAME: Final = "workers-ai"
MODEL: Final = "@cf/microsoft/resnet-50"
SIDE: Final = 512
MAX_REPLY_BYTES: Final = 64 * 1024


def build(settings: Settings, clock: Clock, sandbox: Sandbox) -> "WorkersAi":
    return WorkersAi(settings, clock, sandbox)


def endpoint(address: str) -> str:
    """Where the model answers below an account's or a gateway's address."""
    if MODEL in address:
        return address
    if is_gateway(address) or address.endswith("/run"):
        return f"{address}/{MODEL}"
    return f"{address}/run/{MODEL}" if address.endswith("/ai") else f"{address}/ai/run/{MODEL}"


def is_gateway(address: str) -> bool:
    return "/workers-ai" in urlsplit(address).path


def headers(settings: Settings, *, gateway: bool) -> dict[str, str]:
    """One attempt a request: the run that asks has its own retries."""
    found = {"accept": "application/json", "accept-encoding": "identity"}
    if settings.workers_ai_token:
        found["authorization"] = _bearer(settings.workers_ai_token)
    if not gateway:
        return found
    found["cf-aig-max-attempts"] = "1"
    found["cf-aig-request-timeout"] = str(round(settings.workers_ai_timeout_seconds * 1000))
    if settings.workers_ai_gateway_token:
        found["cf-aig-authorization"] = _bearer(settings.workers_ai_gateway_token)
    if settings.workers_ai_gateway_cache_seconds:
        found["cf-aig-cache-ttl"] = str(settings.workers_ai_gateway_cache_seconds)
    return found


def _bearer(token: SecretStr) -> str:
    return f"Bearer {token.get_secret_value()}"


def _shrunk(answer: Answer, *, thumbnail: bool) -> tuple[Drawing, bytes]:
    """What was drawn, and what is sent."""
    given = fields(answer.facts, ("thumbnail", "color", "digest"))
    cut = count(given["thumbnail"], len(answer.data))
    return drawing_of(given, answer.data[:cut], thumbnail), answer.data[cut:]


class WorkersAi:
    name = NAME
    model = MODEL
    model_hash = None
    remote = True
    dimensions = 0

    def __init__(self, settings: Settings, clock: Clock, sandbox: Sandbox) -> None:
        address = settings.workers_ai_url or ""
        self._gateway = is_gateway(address)
        self._endpoint = endpoint(address)
        self._as_json = settings.workers_ai_body == "json" or (
            settings.workers_ai_body == "auto" and self._gateway
        )
        self._settings = settings
        self._clock = clock
        self._client: httpx.AsyncClient | None = None
        self._sandbox = sandbox
        self._kit = Kit.of(
            "safelight.classification.preprocess",
            at_once=settings.classifier_threads,
            max_pixels=settings.max_pixels,
            side=SIDE,
        )

    async def open(self) -> None:
        if self._client is not None:
            return
        import httpx

        self._client = httpx.AsyncClient(
            headers=headers(self._settings, gateway=self._gateway),
            timeout=self._settings.workers_ai_timeout_seconds,
        )

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def classify(
        self, data: bytes | int, *, thumbnail: bool = False, embedding: bool = False
    ) -> Prediction:
        """There is no embedding, asked for or not: the vendor's model gives none."""
        del embedding
        if self._client is None:
            raise ModelError("The classifier is closed.")
        drawing, plain = await self._shrink(data, thumbnail=thumbnail, plain=True)
        labels = await self._ask(self._client, plain)
        return Prediction(*labels[0], drawing, labels)

    async def draw(
        self, data: bytes | int, *, thumbnail: bool = False, embedding: bool = False
    ) -> Drawing:
        del embedding
        drawing, _ = await self._shrink(data, thumbnail=thumbnail, plain=False)
        return drawing

    async def _shrink(
        self, data: bytes | int, *, thumbnail: bool, plain: bool
    ) -> tuple[Drawing, bytes]:
        read = partial(_shrunk, thumbnail=thumbnail)
        wanted = {"thumbnail": thumbnail, "plain": plain}
        return await ask(self._sandbox, "shrink", data, self._kit, read, **wanted)

    async def _ask(self, client: "httpx.AsyncClient", body: bytes) -> Labels:
        import httpx

        seconds = self._settings.workers_ai_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(client, body)
        except (TimeoutError, httpx.TimeoutException):
            raise ModelAway(f"Workers AI did not answer within {seconds:g} s.") from None
        except httpx.HTTPError as error:
            # The class only: the text of some of these quotes the headers.
            reason = type(error).__name__
            raise ModelAway(f"Workers AI could not be reached: {reason}.") from None

    async def _exchange(self, client: "httpx.AsyncClient", body: bytes) -> Labels:
        if self._as_json:
            request = client.build_request("POST", self._endpoint, json={"image": list(body)})
        else:
            kind = {"content-type": "application/octet-stream"}
            request = client.build_request("POST", self._endpoint, content=body, headers=kind)
        response = await client.send(request, stream=True)
        try:
            reply = await _limited(response)
        finally:
            await response.aclose()
        hint = response.headers.get("retry-after")
        return read(response.status_code, reply, hint, self._clock.now_ms())


async def _limited(response: "httpx.Response") -> bytes:
    reply = bytearray()
    async for chunk in response.aiter_raw():
        reply += chunk
        if len(reply) > MAX_REPLY_BYTES:
            raise ModelAway(f"Workers AI answered with more than {MAX_REPLY_BYTES} bytes.")
    return bytes(reply)
