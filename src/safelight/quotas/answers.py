"""What an organization may use and uses, as the API answers it."""

from typing_extensions import TypedDict


class QuotaAnswer(TypedDict):
    limit: int | None
    own: bool
    used: int
    resetsAt: str | None


class QuotasAnswer(TypedDict):
    storedBytes: QuotaAnswer
    uploadsPerMinute: QuotaAnswer
    generationsPerDay: QuotaAnswer
    submissionsPerDay: QuotaAnswer
