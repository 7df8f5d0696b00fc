"""What is counted for an organization, and the ways in which a limit says no."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from safelight.errors import RateLimited, SafelightError


class Meter(StrEnum):
    """Bytes are those of originals, artifacts, and what submissions pin and publish; an order
    counts what it asks for, whatever comes of it. A minute and a day are those of UTC."""

    STORED_BYTES = "stored_bytes"
    UPLOADS = "uploads_per_minute"
    GENERATIONS = "generations_per_day"
    SUBMISSIONS = "submissions_per_day"

    @property
    def setting(self) -> str:
        return f"quota_{self}"


@dataclass(frozen=True, slots=True)
class Quota:
    """`most` None: no limit. `own`: the limit is this organization's own, and not the
    instance's. `resets_at` None: it does not; something has to be deleted."""

    meter: Meter
    most: int | None
    own: bool
    used: int
    resets_at: int | None

    @property
    def used_up(self) -> bool:
        return self.most is not None and self.used >= self.most


class QuotaExceeded(SafelightError):
    """This organization has no room left. Nothing was kept; delete something, or ask an operator of
    this server for more."""

    code = "QUOTA_EXCEEDED"
    status: ClassVar[int] = 507
    says_it_all: ClassVar[bool] = True

    def __init__(self, most: int) -> None:
        super().__init__(f"{self.default_message()} The limit is {in_bytes(most)}.")


class QuotaUsedUp(RateLimited):
    """This organization has used up what it may do for now. Nothing was kept; try again later, or
    ask an operator of this server for more."""


# What an organization may do so and so often, and when it may again.
_DEEDS = {
    Meter.UPLOADS: ("send", "upload", "per minute", "in the next minute"),
    Meter.GENERATIONS: ("order", "artifact", "per day", "tomorrow (UTC)"),
    Meter.SUBMISSIONS: ("make", "submission", "per day", "tomorrow (UTC)"),
}
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_HUNDRED = 100


def refusal(meter: Meter, most: int, seconds: int | None) -> SafelightError:
    """`seconds` until the meter begins anew."""
    if seconds is None:
        return QuotaExceeded(most)
    do, what, how_often, again = _DEEDS[meter]
    message = (
        f"This organization may {do} {most:,} {what}{'' if most == 1 else 's'} {how_often}. "
        f"Nothing was kept; try again {again}, or ask an operator of this server for more."
    )
    return QuotaUsedUp(message, retry_after=seconds)


def in_bytes(amount: int) -> str:
    """As people read it: two or three digits and a unit."""
    power = max(0, amount.bit_length() - 1) // 10
    if power == 0:
        return f"{amount} byte{'' if amount == 1 else 's'}"
    value = amount / 1024**power
    text = f"{value:.0f}" if value >= _HUNDRED else f"{value:.1f}".removesuffix(".0")
    return f"{text} {_UNITS[power]}"
