"""What POST /api/upload promises: version, answer and every way it can say no.

docs/upload-contract.md tells the same in words. A change here needs a new version there.
"""

from typing import ClassVar

from safelight.errors import NameTaken, SafelightError
from safelight.quotas.lifecycle import QuotaExceeded, QuotaUsedUp

VERSION = "1.2.0"


# The answer: these five fields and no others, and they never change afterwards.
ANSWER = ("imageId", "status", "checksum", "sizeBytes", "uploadedAt")


class UploadError(SafelightError):
    """Leaves nothing behind: no file, no row, no job."""


class InvalidFileType(UploadError):
    """This is not an image Safelight accepts."""

    code = "INVALID_FILE_TYPE"
    status = 400


class UploadTooLarge(UploadError):
    """The image is larger than this server accepts."""

    code = "FILE_TOO_LARGE"
    status = 413


class StreamError(UploadError):
    """The upload broke off, or is not well-formed multipart/form-data."""

    code = "STREAM_ERROR"
    status = 400


class ChecksumError(UploadError):
    """What arrived differs from the checksum that was sent with it."""

    code = "CHECKSUM_ERROR"
    status = 400


class StorageError(UploadError):
    """The file could not be written. Nothing was kept; please try again."""

    code = "STORAGE_ERROR"
    status = 500


class StorageFull(StorageError):
    """The server's disk is full. Nothing was kept; free some space and try again."""

    status: ClassVar[int] = 507


class NotStored(StorageError):
    """The object store did not take the image in time. Nothing was kept; please try again."""


class DatabaseError(UploadError):
    """The upload could not be recorded. Nothing was kept; please try again."""

    code = "DATABASE_ERROR"
    status = 500


class OutcomeUnknown(DatabaseError):
    """The database went away while the upload was being recorded, so it may or may not have been.
    Look for it before sending it again."""


class JobEnqueueError(UploadError):
    """The upload's next step could not be queued. Nothing was kept; please try again."""

    code = "JOB_ENQUEUE_ERROR"
    status = 500


ERRORS: tuple[type[SafelightError], ...] = (
    InvalidFileType,
    UploadTooLarge,
    StreamError,
    ChecksumError,
    StorageError,
    StorageFull,
    NotStored,
    DatabaseError,
    OutcomeUnknown,
    JobEnqueueError,
    NameTaken,
    QuotaUsedUp,
    QuotaExceeded,
)
