"""One HTTP exchange with a vendor's API: bounded in time and size, and never an exception.

The address is the operator's setting, so it is not held to the rules for what vendors name.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from safelight.generations.providers.base import ProviderTrouble
from safelight.infra.injected import Clock
from safelight.infra.retry_after import seconds_of

if TYPE_CHECKING:
    import httpx

LARGEST_REPLY = 32 * 1024 * 1024  # results may come inline
_CONNECT_SECONDS = 10.0
_TURNED_AWAY = {429, 503}
_TRANSIENT = {408, 425}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; `payload` is None when it is not JSON."""

    status: int
    payload: Any
    retry_after: float | None

    @property
    def fine(self) -> bool:
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    def trouble(self, vendor: str) -> ProviderTrouble | None:
        """For answers that say: not now. A server's fault may come after the task was taken."""
        status = self.status
        message = f"{vendor} answered {status}."
        if status in _TURNED_AWAY:
            busy = status == HTTPStatus.TOO_MANY_REQUESTS
            return ProviderTrouble(message, self.retry_after, busy=busy)
        if status in _TRANSIENT or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return ProviderTrouble(message, self.retry_after, sent=True)
        return None


class Wire:
    def __init__(self, vendor: str, headers: Mapping[str, str], clock: Clock) -> None:
        self.vendor = vendor
        self._headers = {"accept": "application/json", "accept-encoding": "identity", **headers}
        self._clock = clock
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def ask(
        self,
        method: str,
        url: str,
        body: Any = None,
        *,
        seconds: float,
        headers: Mapping[str, str] | None = None,
    ) -> Reply | ProviderTrouble:
        import httpx

        try:
            async with asyncio.timeout(seconds):
                return await self._exchange(method, url, body, headers or {})
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return ProviderTrouble(f"{self.vendor} could not be reached: {type(error).__name__}.")
        except (TimeoutError, httpx.TimeoutException):
            return ProviderTrouble(
                f"{self.vendor} did not answer within {seconds:.0f} s.", sent=True
            )
        except httpx.HTTPError as error:
            # The class only: the text of some of these quotes the headers.
            reason = type(error).__name__
            return ProviderTrouble(
                f"The connection to {self.vendor} broke off: {reason}.", sent=True
            )

    async def _exchange(
        self, method: str, url: str, body: Any, headers: Mapping[str, str]
    ) -> Reply | ProviderTrouble:
        client = self._opened()
        request = client.build_request(method, url, json=body, headers=dict(headers))
        response = await client.send(request, stream=True)
        content = bytearray()
        try:
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > LARGEST_REPLY:
                    return ProviderTrouble(f"{self.vendor}'s answer does not end.", sent=True)
        finally:
            await response.aclose()
        hint = seconds_of(response.headers.get("retry-after"), self._clock.now_ms())
        return Reply(response.status_code, _parsed(bytes(content)), hint)

    def _opened(self) -> "httpx.AsyncClient":
        import httpx

        if self._client is None:
            timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
            self._client = httpx.AsyncClient(headers=self._headers, timeout=timeout)
        return self._client


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None
