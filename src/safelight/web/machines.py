"""A machine as the operations page shows it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from safelight.ingest.nodes.lifecycle import SILENT_SECONDS, Node, NodeStanding
from safelight.web.publishing import duration

_DOES = {"serve": "answers requests", "work": "runs jobs"}


@dataclass(frozen=True, slots=True)
class MachineRow:
    node: Node
    now: int

    @property
    def name(self) -> str:
        return self.node.host or "Unknown machine"

    @property
    def standing(self) -> NodeStanding:
        return self.node.standing

    @property
    def is_missing(self) -> bool:
        return self.standing is NodeStanding.MISSING

    @property
    def last_sign(self) -> str:
        silent = self.node.silent
        if silent is None:
            return "it runs an earlier version, which gives no signs of life"
        if silent < SILENT_SECONDS:
            return "heard just now"
        return f"last heard {duration(silent)} ago"

    @property
    def facts(self) -> list[str]:
        """What it is, besides its id."""
        does = " and ".join(_DOES[role] for role in self.node.roles)
        version = self.node.version and f"version {self.node.version}"
        return [fact for fact in (does, version, self.last_sign) if fact]

    @property
    def waits(self) -> str:
        node = self.node
        parts = [uploads(node.uploads)] if node.uploads else []
        if node.others:
            parts.append(f"{node.others} other job{'' if node.others == 1 else 's'}")
        if not parts:
            return ""
        age = "" if node.oldest is None else f", the oldest for {self._age(node.oldest)}"
        return f"{' and '.join(parts)} waiting{age}"

    @property
    def question(self) -> str:
        if not self.node.uploads:
            return "Nothing is lost by it."
        return (
            f"{uploads(self.node.uploads)} will fail, and whoever sent them is told. Should the "
            "machine or its disk come back later, they are stored after all."
        )

    @property
    def give_up(self) -> str:
        """Where the answer to that is sent."""
        named = quote(self.node.id, safe="")
        return f"/admin/queue/nodes/{named}/give-up?uploads={self.node.uploads}"

    @property
    def adopt(self) -> str:
        named = "" if self.node.directory else f" --node {self.node.id}"
        return f"safelight nodes adopt DIRECTORY{named}"

    def _age(self, since: int) -> str:
        return duration(max(self.now - since, 0) / 1000)


def uploads(count: int) -> str:
    return f"{count} upload{'' if count == 1 else 's'}"


def alarm(rows: Sequence[MachineRow]) -> str | None:
    """What the page says first, if a machine is missing."""
    missing = [row for row in rows if row.is_missing]
    if not missing:
        return None
    lost = sum(row.node.uploads for row in missing)
    who = f"{missing[0].name} is" if len(missing) == 1 else f"{len(missing)} machines are"
    if not lost:
        return f"{who} missing, and jobs wait for files there."
    where = "there" if len(missing) == 1 else "on them"
    copies = "its only copy" if lost == 1 else "their only copy"
    return f"{who} missing. {uploads(lost)} {'has' if lost == 1 else 'have'} {copies} {where}."
