"""Reclassifications, as the API answers them."""

from typing import Any, Literal

from typing_extensions import TypedDict


class ReclassifyAnswer(TypedDict):
    id: str
    total: int


class CountAnswer(TypedDict):
    total: int


class ReclassificationAnswer(TypedDict):
    id: str
    status: Literal["running", "done", "cancelled"]
    label: str | None
    notBy: str | None
    askedBy: dict[str, Any]
    total: int
    done: int
    failed: int
    skipped: int
    remaining: int
    createdAt: str
    finishedAt: str | None
