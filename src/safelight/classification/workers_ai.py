"""ResNet-50 at Cloudflare Workers AI over HTTP, directly or through an AI Gateway.

Guarantees: what is sent is the upright image, small and without its metadata; a request ends within
its time limit, however slowly the answer drips; an answer is read up to a limit and believed only
if every entry has a label and a score from 0 to 1; no error's words hold a token.
Known gap: which bytes the vendor's model turned into a label cannot be pinned, so there is no hash.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pydantic import SecretStr

from safelight.classification.base import ModelAway, ModelError, Prediction
from safelight.classification.network import cores
from safelight.classification.workers_ai_replies import read
from safelight.infra.injected import Clock
from safelight.settings import Settings

if TYPE_CHECKING:
    import httpx

    from safelight.classification.preprocess import Decoder

NAME: Final = "workers-ai"
MODEL: Final = "@cf/microsoft/resnet-50"
SIDE: Final = 512
MAX_REPLY_BYTES: Final = 64 * 1024


def build(settings: Settings, clock: Clock) -> "WorkersAi":
    return WorkersAi(settings, clock)


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


class WorkersAi:
    name = NAME
    model = MODEL
    model_hash = None
    remote = True

    def __init__(self, settings: Settings, clock: Clock) -> None:
        address = settings.workers_ai_url or ""
        self._gateway = is_gateway(address)
        self._endpoint = endpoint(address)
        self._as_json = settings.workers_ai_body == "json" or (
            settings.workers_ai_body == "auto" and self._gateway
        )
        self._settings = settings
        self._clock = clock
        self._client: httpx.AsyncClient | None = None
        self._decoder: Decoder | None = None
        threads = settings.classifier_threads or cores()
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="shrink")

    async def open(self) -> None:
        if self._client is not None:
            return
        import httpx

        from safelight.classification.preprocess import Decoder

        self._decoder = Decoder(self._settings.max_pixels)
        self._client = httpx.AsyncClient(
            headers=headers(self._settings, gateway=self._gateway),
            timeout=self._settings.workers_ai_timeout_seconds,
        )

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
        await asyncio.to_thread(self._threads.shutdown)

    async def classify(
        self, data: bytes, *, thumbnail: bool = False, embedding: bool = False
    ) -> Prediction:
        """There is no embedding, asked for or not: the vendor's model gives none."""
        del embedding
        if self._client is None:
            raise ModelError("The classifier is closed.")
        loop = asyncio.get_running_loop()
        body, small = await loop.run_in_executor(self._threads, self._shrink, data, thumbnail)
        label, score = await self._ask(self._client, body)
        return Prediction(label, score, thumbnail=small)

    def _shrink(self, data: bytes, thumbnail: bool) -> tuple[bytes, bytes | None]:
        assert self._decoder is not None  # noqa: S101 - open has made it
        try:
            with self._decoder.decoded(data) as picture:
                return picture.jpeg(SIDE), picture.thumbnail() if thumbnail else None
        except MemoryError as error:
            raise ModelError("There was not enough memory to decode the image.") from error

    async def _ask(self, client: "httpx.AsyncClient", body: bytes) -> tuple[str, float]:
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

    async def _exchange(self, client: "httpx.AsyncClient", body: bytes) -> tuple[str, float]:
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
            raise ModelError(f"Workers AI answered with more than {MAX_REPLY_BYTES} bytes.")
    return bytes(reply)
