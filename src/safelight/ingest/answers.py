"""Uploads and their images as the API answers them."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from safelight.ingest.lifecycle import ImageStatus


class UploadAnswer(TypedDict):
    """These five and no others; contract.py says why."""

    imageId: str
    status: Literal["INGESTED"]
    checksum: str
    sizeBytes: int
    uploadedAt: str


class ImageFailure(TypedDict):
    code: str
    message: str


class ImageAnswer(TypedDict):
    id: str
    imageId: str
    organizationId: str
    name: str
    idempotencyKey: str
    status: ImageStatus
    checksum: str
    mimeType: str
    width: int
    height: int
    sizeBytes: int
    createdAt: str
    updatedAt: str
    failure: NotRequired[ImageFailure | None]
    nextAttemptAt: NotRequired[str]
    lastError: NotRequired[ImageFailure | None]
