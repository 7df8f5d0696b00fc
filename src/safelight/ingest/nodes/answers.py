"""Nodes as the API answers them."""

from typing_extensions import TypedDict


class NodeAnswer(TypedDict):
    id: str
    standing: str
    host: str | None
    directory: str | None
    version: str | None
    roles: list[str]
    firstSeenAt: str | None
    lastSeenAt: str | None
    silentSeconds: int | None
    uploads: int
    otherJobs: int
    oldestAt: str | None


class NodesAnswer(TypedDict):
    items: list[NodeAnswer]


class GivenUpAnswer(TypedDict):
    id: str
    uploads: int
