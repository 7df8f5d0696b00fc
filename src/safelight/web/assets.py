"""Style sheets, scripts and pictures, served from memory under /static/{version}/….

The version is one hash over the whole tree and part of the path, so a relative import inside a
module or a style sheet carries it along: whatever changes, every address changes with it, and
browsers may keep what they have for ever. Another version, or none, is not found.
"""

import hashlib
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    content: bytes
    media_type: str


class Assets:
    def __init__(self, root: Traversable | None = None) -> None:
        found = _walk(root or resources.files("safelight.web").joinpath("static"), "")
        self._assets = {path: Asset(content, _type(path)) for path, content in found}
        self.version = _hash({path: asset.content for path, asset in self._assets.items()})

    def url(self, path: str) -> str:
        """Unknown paths fail while the page is made, not in a visitor's browser."""
        if path not in self._assets:
            raise LookupError(f"there is no static file {path}")
        return f"/static/{self.version}/{path}"

    def find(self, version: str, path: str) -> Asset | None:
        return self._assets.get(path) if version == self.version else None


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif not entry.name.startswith("."):
            yield prefix + entry.name, entry.read_bytes()


def _type(path: str) -> str:
    ending = path[path.rfind(".") :]
    return _TYPES.get(ending) or mimetypes.guess_type(path)[0] or "application/octet-stream"


def _hash(files: dict[str, bytes]) -> str:
    total = hashlib.sha256()
    for path in sorted(files):
        total.update(path.encode() + b"\0" + hashlib.sha256(files[path]).digest())
    return total.hexdigest()[:16]
