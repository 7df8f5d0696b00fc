"""One question to a courier's API: bounded in time and size; what is no answer is `CourierAway`.

The address is the operator's setting, so it is not held to the rules for what vendors name.
"""

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from safelight.infra.injected import Clock
from safelight.infra.retry_after import seconds_of
from safelight.objects.notifications.couriers.base import CourierAway

if TYPE_CHECKING:
    import httpx

_LARGEST: Final = 64 * 1024 * 1024  # a hundred messages at their largest, and what is around them
_CONNECT_SECONDS: Final = 10.0
_HEADERS: Final = {"accept": "application/json", "accept-encoding": "identity"}


class Exchange:
    def __init__(self, vendor: str, clock: Clock) -> None:
        self._vendor = vendor
        self._clock = clock
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def ask(
        self, url: str, body: bytes, headers: Mapping[str, str], seconds: float
    ) -> Mapping[str, Any]:
        """A JSON object."""
        import httpx

        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(url, body, headers)
        except (TimeoutError, httpx.TimeoutException):
            raise CourierAway(f"{self._vendor} did not answer within {seconds:g} s.") from None
        except httpx.HTTPError as error:
            # The class only: the text of some of these quotes the headers.
            reason = type(error).__name__
            raise CourierAway(f"{self._vendor} could not be reached: {reason}.") from None

    async def _exchange(
        self, url: str, body: bytes, headers: Mapping[str, str]
    ) -> Mapping[str, Any]:
        client = self._opened()
        request = client.build_request("POST", url, content=body, headers={**_HEADERS, **headers})
        response = await client.send(request, stream=True)
        content = bytearray()
        try:
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > _LARGEST:
                    raise CourierAway(f"{self._vendor}'s answer does not end.")
        finally:
            await response.aclose()
        answer = await asyncio.to_thread(_parsed, bytes(content))
        if response.status_code != HTTPStatus.OK:
            hint = seconds_of(response.headers.get("retry-after"), self._clock.now_ms())
            said = f"{self._vendor} answered {response.status_code}{_code(answer)}."
            raise CourierAway(said, hint)
        if not isinstance(answer, dict):
            raise CourierAway(f"{self._vendor}'s answer is not what a queue says.")
        return answer

    def _opened(self) -> "httpx.AsyncClient":
        import httpx

        if self._client is None:
            timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
            self._client = httpx.AsyncClient(timeout=timeout)
        return self._client


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _code(answer: Any) -> str:
    """The vendor's own, and not its words: some repeat what they were sent."""
    if not isinstance(answer, dict):
        return ""
    errors = answer.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    code = first.get("code") if isinstance(first, dict) else answer.get("__type")
    shown = str(code).rpartition("#")[2] if isinstance(code, str | int) else ""
    return f" ({shown[:80]})" if shown.replace(".", "").isalnum() else ""
