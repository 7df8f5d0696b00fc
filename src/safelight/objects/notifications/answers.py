"""What a sender of notifications is told."""

from typing_extensions import TypedDict


class TakenAnswer(TypedDict):
    accepted: int
    ignored: int
    rejected: int
