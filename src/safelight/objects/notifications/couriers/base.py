"""A courier: a queue in which a bucket's notifications wait until somebody fetches them.

What is fetched is hidden from others for a while, and there again afterwards unless it was answered
as done. So a message may come twice, late, and in any order; and whoever dies with some loses none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

from safelight.errors import ConfigurationError, Unavailable

# How long a message is ours: longer than a batch takes, and not long if its worker died.
HIDDEN_SECONDS: Final = 60
SETTING: Final = "SAFELIGHT_NOTIFICATIONS_URL"


class CourierAway(Unavailable):
    """The queue of notifications cannot be read right now. They wait there."""

    code: ClassVar[str] = "NOTIFICATIONS_AWAY"
    says_it_all = True

    def __init__(self, message: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Parcel:
    """One message. `receipt` answers for it, `attempts` is how often it was fetched, this time too;
    `body` is one that the readers of notifications know."""

    receipt: str
    body: object
    attempts: int
    sent_ms: int | None


@dataclass(frozen=True, slots=True)
class Fetched:
    """`backlog` is how many wait behind these, where the courier says so."""

    parcels: Sequence[Parcel]
    backlog: int | None = None


class Courier(Protocol):
    """Raises `CourierAway` for whatever is not an answer. `where` it is, for people."""

    where: str

    async def receive(self) -> Fetched:
        """Those that are there; none after a while without any."""

    async def answer(self, done: Sequence[Parcel], again: Sequence[tuple[Parcel, int]]) -> int:
        """Takes what is done away, and shows the others again after so many seconds. Returns how
        many of these answers the courier did not take: they come again by themselves."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CourierAddress:
    """KIND://ACCOUNT/QUEUE?…, as SAFELIGHT_NOTIFICATIONS_URL has it."""

    kind: str
    account: str
    queue: str
    options: Mapping[str, str]

    def among(self, *names: str) -> Mapping[str, str]:
        """The parameters, if each is one of these."""
        if unknown := sorted(self.options.keys() - set(names)):
            raise ConfigurationError(
                f"{SETTING}: {self.kind} has no {', '.join(unknown)}; it takes {', '.join(names)}."
            )
        return self.options


def parse_address(url: str) -> CourierAddress:
    """Says nothing of what is in it: it holds a secret."""
    parts = urlsplit(url)
    queue = parts.path.strip("/")
    if not parts.netloc or not queue or "/" in queue or "@" in parts.netloc:
        raise ConfigurationError(
            f"{SETTING}: write cloudflare-queue://ACCOUNT/QUEUE?token=… or "
            "sqs://ACCOUNT/QUEUE?region=…; docs/buckets.md says more."
        )
    return CourierAddress(parts.scheme, parts.netloc, queue, dict(parse_qsl(parts.query)))


def endpoint_of(address: CourierAddress, usual: str, *, path: bool = False) -> str:
    """Where the service answers: an address that an operator set, and may be anywhere."""
    given = address.options.get("endpoint", usual).rstrip("/")
    parts = urlsplit(given)
    plain = parts.netloc and not parts.query and "@" not in parts.netloc
    if parts.scheme not in {"http", "https"} or not plain or (parts.path and not path):
        raise ConfigurationError(f"{SETTING}: write endpoint as https://host.")
    return given
