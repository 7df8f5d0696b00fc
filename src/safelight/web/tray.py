"""What the upload tray knows beforehand: whose uploads these are, and what will be refused."""

from dataclasses import dataclass

from safelight.accounts.guard import Access
from safelight.headers.refusals import too_many_bytes
from safelight.settings import Settings

EMPTY = "The file is empty."  # as the server says it
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Tray:
    uploader: str
    most_bytes: int

    @property
    def limit(self) -> str:
        most = self.most_bytes
        return f"up to {most / _MIB:g} MiB each" if most >= _MIB else f"up to {most} bytes each"

    @property
    def too_large(self) -> str:
        return too_many_bytes(self.most_bytes)

    @property
    def empty(self) -> str:
        return EMPTY


def tray_of(access: Access, settings: Settings) -> Tray:
    return Tray(access.caller.id, settings.max_upload_bytes)
