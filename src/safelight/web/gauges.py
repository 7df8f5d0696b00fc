"""What an organization uses of what it may, in words and as a bar. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from safelight.quotas.lifecycle import Meter, Quota, in_bytes

_TITLES: Final = {
    Meter.STORED_BYTES: "Stored",
    Meter.UPLOADS: "Uploads this minute",
    Meter.GENERATIONS: "Generations today",
    Meter.SUBMISSIONS: "Submissions today",
}
_NEAR: Final = 0.8


@dataclass(frozen=True, slots=True)
class Gauge:
    """`limit` None: there is none, and no bar. `resets_at` None: only deleting helps."""

    title: str
    value: int
    limit: int | None
    used: str
    most: str
    tone: Literal["calm", "near", "full"]
    resets_at: int | None


def gauges(quotas: Iterable[Quota]) -> list[Gauge]:
    found = {quota.meter: quota for quota in quotas}
    return [gauge(found[meter]) for meter in _TITLES]


def gauge(quota: Quota) -> Gauge:
    in_words = in_bytes if quota.meter is Meter.STORED_BYTES else "{:,}".format
    return Gauge(
        title=_TITLES[quota.meter],
        value=quota.used,
        limit=quota.most,
        used=in_words(quota.used),
        most="" if quota.most is None else in_words(quota.most),
        tone=_tone(quota),
        resets_at=quota.resets_at,
    )


def _tone(quota: Quota) -> Literal["calm", "near", "full"]:
    if quota.used_up:
        return "full"
    return "near" if quota.most is not None and quota.used >= _NEAR * quota.most else "calm"
