"""Who is inside, and how much each may ask of us before a route has seen it."""

import ipaddress
from collections import Counter
from dataclasses import dataclass
from typing import Any

import structlog
from uvicorn.middleware.proxy_headers import _TrustedHosts

from safelight.infra.metrics import Metrics
from safelight.settings import Settings

_OWN_FILES = 128  # listeners, logs, children, blobs being read
_WARN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DoorLimits:
    header_bytes: int
    header_fields: int
    header_seconds: float
    body_idle_seconds: float
    connections: int
    connections_per_address: int

    @classmethod
    def of(cls, settings: Settings, files: int) -> "DoorLimits":
        """`files` is how many this process may have open. Each connection may be an upload, with a
        file of its own; no address has more than half of them."""
        room = max((files - _OWN_FILES - settings.database_pool_size) // 2, 2)
        connections = min(settings.max_connections, room)
        return cls(
            settings.max_header_bytes,
            settings.max_header_fields,
            settings.header_seconds,
            settings.body_idle_seconds,
            connections,
            min(settings.max_connections_per_address, max(connections // 2, 1)),
        )


class Doorkeeper:
    """Who is inside. One per process."""

    def __init__(self, limits: DoorLimits, metrics: Metrics, trusted: tuple[str, ...]) -> None:
        self.limits = limits
        self._metrics = metrics
        self._trusted = _TrustedHosts(list(trusted))  # the same meaning as for the headers
        self._inside: dict[Any, str | None] = {}
        self._from: Counter[str] = Counter()
        self._warned: dict[str, float] = {}
        metrics.connections.set_function(lambda: len(self._inside))

    def enter(self, transport: Any, peer: tuple[str, int] | None) -> int:
        """By how many there are too many now. Counted until `leave`, also when turned away."""
        address = None if peer is None or peer[0] in self._trusted else neighbourhood(peer[0])
        self._inside[transport] = address
        beyond = len(self._inside) - self.limits.connections
        if address is not None:
            self._from[address] += 1
            beyond = max(beyond, self._from[address] - self.limits.connections_per_address)
        return beyond

    def leave(self, transport: Any) -> None:
        address = self._inside.pop(transport, None)
        if address is not None:
            self._from[address] -= 1
            if not self._from[address]:
                del self._from[address]

    def note(self, code: str, peer: tuple[str, int] | None, now: float) -> None:
        """Counts what was refused; the log hears of each kind once a minute."""
        self._metrics.refused.labels(code).inc()
        if self._may_warn(code, now):
            structlog.get_logger().warning(
                "a connection was refused", code=code, address=peer and peer[0]
            )

    def note_proxy(self, peer: tuple[str, int] | None, now: float) -> None:
        """Somebody who says that he speaks for others. Behind a proxy that is not trusted everybody
        has its address: all count as one, for every limit."""
        if peer is not None and peer[0] not in self._trusted and self._may_warn("proxy", now):
            structlog.get_logger().warning(
                "requests come through a proxy that is not trusted",
                address=peer[0],
                cure="If it is yours, name its address in SAFELIGHT_TRUSTED_PROXIES.",
            )

    def _may_warn(self, of: str, now: float) -> bool:
        if now < self._warned.get(of, now):
            return False
        self._warned[of] = now + _WARN_SECONDS
        return True


def neighbourhood(address: str) -> str:
    """One IPv6 customer has a /64 to choose addresses from, so a /64 counts as one."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)
