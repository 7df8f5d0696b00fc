"""What the operations page shows, from the records of those who know. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from safelight.infra.queue.jobs import HourCount, KindStatus
from safelight.infra.queue.watched import AwayNotice, ScheduleTrouble, WorkerRow
from safelight.ingest.nodes.lifecycle import Node
from safelight.submissions.recovery.failures import FailureClass
from safelight.submissions.recovery.records import to_ms
from safelight.submissions.recovery.recover import StuckSubmission
from safelight.web.charts import BarPart, Chart, Hour, draw
from safelight.web.gallery.card import readable_size
from safelight.web.pictures import Thing
from safelight.web.publishing import duration
from safelight.web.story.upkeep import work_in_words

TALL, LOW = 64.0, 18.0
CLASSES: Final = {
    FailureClass.SCAN_TIMEOUT: "Too slow",
    FailureClass.MODEL_ERROR: "Model",
    FailureClass.STORAGE_ERROR: "Storage",
    FailureClass.NETWORK_ERROR: "Network",
    FailureClass.UNKNOWN: "Unknown",
}
_LITTLE: Final = 0.1  # of a disk
_LONG_SECONDS: Final = 600.0  # to wait for a worker


@dataclass(frozen=True, slots=True)
class Disk:
    free: int
    total: int

    @property
    def is_short(self) -> bool:
        return self.free < _LITTLE * self.total


@dataclass(frozen=True, slots=True)
class FigureTile:
    title: str
    value: str
    words: str = ""
    tone: Literal["plain", "problem"] = "plain"


def tiles(kinds: Sequence[KindStatus], done: HourCount, disk: Disk | None) -> list[FigureTile]:
    running = sum(kind.running for kind in kinds)
    waiting = sum(kind.queued + kind.delayed for kind in kinds)
    oldest = max((kind.oldest_seconds or 0 for kind in kinds), default=0.0)
    is_late = oldest > _LONG_SECONDS
    failed = done.failed
    shown = [
        FigureTile("Waiting", f"{waiting:,}", f"{running:,} at work now"),
        FigureTile(
            "Oldest",
            duration(oldest) if oldest else "–",
            "waits for a worker" if oldest else "Nothing waits for a worker",
            "problem" if is_late else "plain",
        ),
        FigureTile(
            "Failed in 24 h",
            f"{failed:,}",
            f"of {done.processed + failed:,}",
            "problem" if failed > done.processed else "plain",
        ),
    ]
    if disk is not None:
        tone: Literal["plain", "problem"] = "problem" if disk.is_short else "plain"
        words = f"of {readable_size(disk.total)}, where uploads arrive"
        shown.append(FigureTile("Disk free", readable_size(disk.free), words, tone))
    return shown


@dataclass(frozen=True, slots=True)
class KindRow:
    status: KindStatus
    notices: Sequence[AwayNotice] = ()

    @property
    def words(self) -> str:
        return work_in_words(self.status.name)

    @property
    def idle(self) -> bool:
        row = self.status
        return not (row.queued or row.running or row.delayed or row.dead_letters)

    @property
    def oldest(self) -> str:
        seconds = self.status.oldest_seconds
        return "" if seconds is None else duration(seconds)

    @property
    def numbers(self) -> tuple[tuple[str, int], ...]:
        row = self.status
        return (("queued", row.queued), ("running", row.running), ("delayed", row.delayed))


def kind_rows(kinds: Sequence[KindStatus], notices: Sequence[AwayNotice]) -> list[KindRow]:
    return [
        KindRow(kind, [one for one in notices if one.kind == kind.name]) for kind in kinds
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class FailureRow:
    """The timeouts of one class."""

    classification: FailureClass
    word: str
    count: int
    average: str
    chart: Chart


def failures(told: Mapping[str, Any], hours: Sequence[int]) -> list[FailureRow]:
    """Every class, also those that did not occur, on one scale."""
    counts = {(to_ms(row["hour"]), row["classification"]): row["count"] for row in told["hours"]}
    highest = max(counts.values(), default=0)
    shown = []
    for kind, word in CLASSES.items():
        bars = [Hour(hour, (BarPart("timeouts", counts.get((hour, kind), 0)),)) for hour in hours]
        total = told["totals"].get(kind, {"count": 0, "totalDurationMs": 0})
        chart = draw(bars, LOW, highest)
        shown.append(FailureRow(kind, word, total["count"], _average(total), chart))
    return shown


def _average(total: Mapping[str, int]) -> str:
    return duration(total["totalDurationMs"] / 1000 / total["count"]) if total["count"] else ""


def worked(row: HourCount) -> Hour:
    counts = (("processed", row.processed), ("retried", row.retried), ("failed", row.failed))
    return Hour(row.hour, tuple(BarPart(kind, count) for kind, count in counts))


def in_all(rows: Sequence[HourCount]) -> HourCount:
    return HourCount(
        0,
        processed=sum(row.processed for row in rows),
        failed=sum(row.failed for row in rows),
        retried=sum(row.retried for row in rows),
    )


@dataclass(frozen=True, slots=True)
class StuckRow:
    one: StuckSubmission
    thing: Thing

    @property
    def stuck_for(self) -> str:
        return duration(self.one.stuck_for_ms / 1000)

    @property
    def trouble(self) -> str:
        kind = self.one.classification
        return CLASSES[kind] if kind else ""


@dataclass(frozen=True, slots=True)
class WorkerShown:
    """`node` is where it is, if that is known."""

    row: WorkerRow
    node: Node | None
    now: int

    @property
    def name(self) -> str:
        return (self.node and self.node.host) or "A worker"

    @property
    def runs(self) -> list[str]:
        found = sorted(self.row.runs.items())
        return [
            f"{work_in_words(kind)}{f' × {count}' if count > 1 else ''}" for kind, count in found
        ]

    @property
    def facts(self) -> list[str]:
        version = self.row.version or (self.node and self.node.version)
        facts = [f"version {version}" if version else "of an earlier version"]
        if self.row.since is not None:
            facts.append(f"started {duration(max(self.now - self.row.since, 0) / 1000)} ago")
        if self.node is not None and self.node.silent is not None:
            facts.append(f"its machine was heard {duration(self.node.silent)} ago")
        return facts


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    trouble: ScheduleTrouble
    host: str
    now: int

    @property
    def name(self) -> str:
        words = work_in_words(self.trouble.kind)
        return f"{words} on {self.host}" if self.host else words

    @property
    def every(self) -> str:
        return f"every {duration(self.trouble.every_seconds)}"

    @property
    def words(self) -> str:
        """What is wrong with it."""
        one = self.trouble
        if one.error is not None and one.status == "dead":
            return f"A run of it gave up after {one.attempts} attempts. {_said(one)}"
        if one.error is not None:
            return f"Its last run did not succeed, and is tried again. {_said(one)}"
        late = duration(max(self.now - one.next_at, 0) / 1000)
        return f"It should have begun {late} ago, and no worker has begun it."


def _said(trouble: ScheduleTrouble) -> str:
    return (trouble.error or {}).get("message", "")


def schedule_rows(
    troubles: Sequence[ScheduleTrouble], nodes: Mapping[str, Node], now: int
) -> list[ScheduleRow]:
    """What a machine that is not there leaves undone is told of the machine."""
    return [
        ScheduleRow(one, host, now)
        for one in troubles
        for host in [nodes[one.node].host if one.node in nodes else one.node]
        if one.error is not None or not one.node or _is_here(nodes.get(one.node))
    ]


def _is_here(node: Node | None) -> bool:
    return node is not None and not node.standing.over and "work" in node.roles
