"""Fetches what a provider names, in pieces, trusting nothing about it.

Guarantees
- https only, and only hosts on the provider's list; anything else only where the operator allows
  that host and port by name. A name is resolved once, every address it has must be public, and the
  connection goes to that very address (with the name's certificate): what a name means cannot
  change between check and use.
- A redirect, two at most, is held to all of this again.
- At most so many bytes and seconds, whatever is announced; compressed bodies are refused.
- Proxies of the environment are not used: the connection would not be ours.

Gap: a body that ends early without having announced its length cannot be told from a whole one
here; verify.py looks at what arrived.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from safelight.generations.addresses import (
    AddressRefused,
    Target,
    check_address,
    resolve,
    target_of,
)

if TYPE_CHECKING:
    import httpx

MOST_REDIRECTS = 2
_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 30.0
_REDIRECTS = {301, 302, 303, 307, 308}
_TRANSIENT = {408, 425, 429}
_HEADERS = {"accept": "image/*, video/*", "accept-encoding": "identity"}

Resolve = Callable[[str, int], Awaitable[list[str]]]


class FetchRefused(Exception):
    """Not fetched, and it will not be."""


class TooLarge(Exception):
    """More bytes than an artifact may have."""


class FetchFailed(Exception):
    """The file is not there: the host says so."""


class FetchTrouble(Exception):
    """It may work the next time."""


class Fetcher:
    def __init__(
        self,
        allowed: Sequence[str],
        *,
        max_bytes: int,
        resolve: Resolve = resolve,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        self._allowed = allowed
        self._max_bytes = max_bytes
        self._resolve = resolve
        self._certificates = certificates

    @asynccontextmanager
    async def opened(
        self, url: str, hosts: Sequence[str], seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The body's pieces. Leaving the context, or `seconds` being over, ends the connection."""
        import httpx

        try:
            async with asyncio.timeout(seconds), self._client() as client:
                response = await self._follow(client, url, hosts)
                yield self._pieces(response)
        except AddressRefused as error:
            raise FetchRefused(f"The result was not fetched: {error}") from error
        except TimeoutError as error:
            raise FetchTrouble(f"The result did not arrive within {seconds:.0f} s.") from error
        except (httpx.HTTPError, OSError, ssl.SSLError) as error:
            reason = type(error).__name__
            raise FetchTrouble(f"The result's transfer broke off: {reason}.") from error

    def _client(self) -> "httpx.AsyncClient":
        """One per fetch: a kept connection would vouch for another name at the same address."""
        import httpx

        if self._certificates is None:
            self._certificates = httpx.create_ssl_context(trust_env=False)
        timeout = httpx.Timeout(_SILENCE_SECONDS, connect=_CONNECT_SECONDS)
        return httpx.AsyncClient(
            verify=self._certificates, trust_env=False, timeout=timeout, headers=_HEADERS
        )

    async def _follow(
        self, client: "httpx.AsyncClient", url: str, hosts: Sequence[str]
    ) -> "httpx.Response":
        for _ in range(MOST_REDIRECTS + 1):
            target = target_of(url, hosts, self._allowed)
            address = await self._address(target)
            response = await client.send(_request(client, target, address), stream=True)
            if response.status_code not in _REDIRECTS:
                return _usable(response)
            url = urljoin(url, response.headers.get("location", ""))
            await response.aclose()
        raise FetchRefused(f"The result was not fetched: more than {MOST_REDIRECTS} redirects.")

    async def _address(self, target: Target) -> str:
        """The one to connect to. A name with a single private address among public ones is out."""
        try:
            addresses = await self._resolve(target.host, target.port)
        except (OSError, UnicodeError) as error:
            raise FetchTrouble(f"The name {target.host} could not be resolved.") from error
        if not addresses:
            raise FetchTrouble(f"The name {target.host} has no address.")
        if not target.trusted:
            for address in addresses:
                check_address(address)
        return addresses[0]

    async def _pieces(self, response: "httpx.Response") -> AsyncIterator[bytes]:
        announced = response.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > self._max_bytes:
            raise TooLarge(self._too_large())
        received = 0
        async for chunk in response.aiter_raw():
            received += len(chunk)
            if received > self._max_bytes:
                raise TooLarge(self._too_large())
            yield chunk

    def _too_large(self) -> str:
        return f"The result is larger than {self._max_bytes} bytes."


def _request(client: "httpx.AsyncClient", target: Target, address: str) -> "httpx.Request":
    import httpx

    host = f"[{address}]" if ":" in address else address
    url = httpx.URL(f"{target.scheme}://{host}:{target.port}{target.path}")
    named = {"host": target.authority}
    return client.build_request("GET", url, headers=named, extensions={"sni_hostname": target.host})


def _usable(response: "httpx.Response") -> "httpx.Response":
    status = response.status_code
    if status in _TRANSIENT or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise FetchTrouble(f"The result's host answered {status}.")
    if status != HTTPStatus.OK:
        raise FetchFailed(f"The result's host answered {status}.")
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise FetchRefused("The result was not fetched: it is compressed for transfer.")
    return response
