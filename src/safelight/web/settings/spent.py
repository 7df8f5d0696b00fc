"""What generations cost, day by day, as bars and in words. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from safelight.generations.lifecycle import DaySpending
from safelight.infra.injected import iso
from safelight.web.charts import GAP, LEAST, PITCH, Chart, Column, Rect

DAY_MS: Final = 86_400_000
DAYS: Final = 30
_HEIGHT: Final = 100.0


@dataclass(frozen=True, slots=True)
class ProviderSum:
    provider: str
    generations: int
    artifacts: int
    cost: Decimal

    @property
    def words(self) -> str:
        return dollars(self.cost)


@dataclass(frozen=True, slots=True)
class Spent:
    """`chart` None: nothing cost anything."""

    total: Decimal
    providers: list[ProviderSum]
    chart: Chart | None

    @property
    def words(self) -> str:
        return dollars(self.total)


def dollars(amount: Decimal) -> str:
    """In cents, and small amounts as exactly as vendors give them."""
    exact = f"{amount:,.4f}"
    if amount >= 1 or exact.endswith("00"):
        return f"${amount:,.2f}"
    return f"${exact.removesuffix('0')}"


def first_day(now: int) -> int:
    """Of those that are shown."""
    return now // DAY_MS - DAYS + 1


def summed(found: Iterable[DaySpending], now: int) -> Spent:
    rows = list(found)
    total = sum((row.cost for row in rows), Decimal(0))
    names = sorted({row.provider for row in rows})
    providers = [_of(name, [row for row in rows if row.provider == name]) for name in names]
    providers.sort(key=lambda one: (-one.cost, one.provider))
    return Spent(total, providers, _chart(rows, first_day(now)) if total else None)


def _of(provider: str, rows: list[DaySpending]) -> ProviderSum:
    return ProviderSum(
        provider,
        sum(row.generations for row in rows),
        sum(row.artifacts for row in rows),
        sum((row.cost for row in rows), Decimal(0)),
    )


def _chart(rows: list[DaySpending], first: int) -> Chart:
    days = [[row for row in rows if row.day == day] for day in range(first, first + DAYS)]
    top = max(sum((row.cost for row in day), Decimal(0)) for day in days)
    columns = [_column(n, first + n, day, top) for n, day in enumerate(days)]
    return Chart(DAYS * PITCH, _HEIGHT, tuple(columns))


def _column(place: int, day: int, rows: list[DaySpending], top: Decimal) -> Column:
    total = sum((row.cost for row in rows), Decimal(0))
    date, x = iso(day * DAY_MS)[:10], place * PITCH
    each = ", ".join(f"{row.provider} {dollars(row.cost)}" for row in rows if row.cost)
    if not total or not top:
        return Column(x, f"{date}: nothing", ())
    tall = max(LEAST, float(total / top) * _HEIGHT)
    bar = Rect("spent", round(x + GAP / 2, 2), round(_HEIGHT - tall, 2), round(tall, 2))
    return Column(x, f"{date}: {each}", (bar,))
