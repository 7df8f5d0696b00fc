"""A node as clients and scripts read it. Pure."""

from typing import Any

from safelight.infra.injected import iso
from safelight.ingest.nodes.lifecycle import Node


def show_node(node: Node) -> dict[str, Any]:
    return {
        "id": node.id,
        "standing": node.standing,
        "host": node.host or None,
        "directory": node.directory or None,
        "version": node.version or None,
        "roles": node.roles,
        "firstSeenAt": _at(node.first_seen),
        "lastSeenAt": _at(node.last_seen),
        "silentSeconds": None if node.silent is None else round(node.silent),
        "uploads": node.uploads,
        "otherJobs": node.others,
        "oldestAt": _at(node.oldest),
    }


def _at(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)
