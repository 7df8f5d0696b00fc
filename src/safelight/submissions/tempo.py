"""How long things may take before somebody does something about it."""

from dataclasses import dataclass

from safelight.settings import Settings


@dataclass(frozen=True, slots=True)
class Tempo:
    stale_after_ms: int
    stuck_after_ms: int
    interval_ms: int
    backoff_ms: tuple[int, ...]
    retries: int
    limit_seconds: float

    @classmethod
    def of(cls, settings: Settings) -> "Tempo":
        return cls(
            stale_after_ms=_ms(settings.stale_after_seconds),
            stuck_after_ms=_ms(settings.stuck_after_seconds),
            interval_ms=1000 * whole_seconds(settings.recovery_interval_seconds),
            backoff_ms=tuple(_ms(seconds) for seconds in settings.recovery_backoff_seconds),
            retries=settings.recovery_retries,
            limit_seconds=settings.scan_timeout_seconds,
        )


def whole_seconds(seconds: float) -> int:
    """What a schedule can keep."""
    return max(1, round(seconds))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
