"""Which addresses may be fetched: the provider's hosts over https at public addresses, and what the
operator allows by name. Pure, apart from `resolve`."""

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

LONGEST_URL = 8192
_PORTS = {"https": 443, "http": 80}
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class AddressRefused(ValueError):
    """This address is not fetched; the message says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """`path` holds the query. `trusted`: the operator allows this host and port as they are."""

    scheme: str
    host: str
    port: int
    path: str
    trusted: bool

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def target_of(url: str, hosts: Sequence[str], allowed: Sequence[str]) -> Target:
    scheme, host, port, path = _parts(url)
    trusted = (host, port) in {_entry(one) for one in allowed}
    if trusted:
        return Target(scheme, host, port, path, trusted=True)
    if scheme != "https":
        raise AddressRefused(f"{host} was named without https.")
    if port != _PORTS["https"] or not any(_matches(host, pattern) for pattern in hosts):
        raise AddressRefused(f"{host}:{port} is not where this provider keeps its files.")
    return Target(scheme, host, port, path, trusted=False)


def check_address(text: str) -> None:
    """Raises for everything that is not the public internet, however it is written."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if not all(_is_public(one) for one in _meanings(address)):
        raise AddressRefused(f"{address} is not a public address.")


async def resolve(host: str, port: int) -> list[str]:
    """Every address of a name, in the system's order."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _parts(url: str) -> tuple[str, str, int, str]:
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise AddressRefused("The provider named an address that is not a plain URL.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise AddressRefused("The provider named an address that is not a URL.") from None
    if parts.scheme not in _PORTS or not host:
        raise AddressRefused("The provider named an address that is neither https nor http.")
    if "@" in parts.netloc or "\\" in url or "%" in parts.netloc:
        raise AddressRefused("The provider named an address in a misleading form.")
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return parts.scheme, host, port or _PORTS[parts.scheme], path


def _entry(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]").lower(), int(port)


def _matches(host: str, pattern: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern) - 1
    return host == pattern


def _is_public(address: IpAddress) -> bool:
    site_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    return address.is_global and not (address.is_multicast or address.is_reserved or site_local)


def _meanings(address: IpAddress) -> list[IpAddress]:
    """What is reached by it: some IPv6 addresses stand for the IPv4 one they carry."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)]
    return [address] if address.sixtofour is None else [address, address.sixtofour]
