"""Entries of the library as the API answers them."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict


class FailureAnswer(TypedDict):
    code: str
    message: str


class LabelAnswer(TypedDict):
    label: str
    score: float


class EntryAnswer(TypedDict):
    name: str
    eventTime: str
    idempotencyKey: str
    classificationLabel: str | None
    classificationScore: float | None
    classifiedAt: str | None
    classificationStatus: Literal["pending", "running", "done", "failed"]
    classificationModel: str | None
    imageId: str | None
    mimeType: str | None
    width: int | None
    height: int | None
    sizeBytes: int
    checksum: str | None
    dominantColor: str | None
    nextAttemptAt: NotRequired[str]
    lastError: NotRequired[FailureAnswer | None]
    failure: NotRequired[FailureAnswer | None]


class RetentionAnswer(TypedDict):
    days: int | None
    keptBy: Literal["safelight", "bucket"]


class OneEntryAnswer(EntryAnswer):
    labels: NotRequired[list[LabelAnswer]]


class LabelCountAnswer(TypedDict):
    label: str
    count: int


class StatusCountAnswer(TypedDict):
    status: Literal["pending", "running", "done", "failed"]
    count: int


class FacetsAnswer(TypedDict):
    """`capped`: there are at least so many."""

    total: int
    labels: list[LabelCountAnswer]
    statuses: list[StatusCountAnswer]
    capped: bool


class KnownUploadAnswer(TypedDict):
    checksum: str
    name: str
    imageId: str | None


class KnownUploadsAnswer(TypedDict):
    known: list[KnownUploadAnswer]


class DeletedUploadsAnswer(TypedDict):
    deleted: int
    unknown: list[str]
