"""The style sheet, the script and the pictures of the pages, served from memory below
/static/{version}/.

The version is one hash over all of it: whatever changes, every address changes with it, and
browsers may keep what they have for ever. Another version, or none, is not found.
"""

import hashlib
import mimetypes
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

import brotli

from safelight.web.bundle import bundles

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_TEXT: Final = tuple(_TYPES.values())
_BEST, _THOROUGH, _QUICK = 11, 9, 5
_REFUSED: Final = {"q=0", "q=0.0"}
_LEAST: Final = 1024  # shorter answers fit one packet as they are


@dataclass(frozen=True)
class Asset:
    content: bytes
    media_type: str

    def encoded(self, accepted: str) -> tuple[bytes, str | None]:
        """In the best way that the browser names, made once and when it is first asked for."""
        if self.media_type in _TEXT:
            if "br" in _named(accepted):
                return self._brotli, "br"
            if "gzip" in _named(accepted):
                return self._gzip, "gzip"
        return self.content, None

    @cached_property
    def _brotli(self) -> bytes:
        return bytes(brotli.compress(self.content, quality=_BEST))

    @cached_property
    def _gzip(self) -> bytes:
        return _gzip(self.content, _THOROUGH)


class Assets:
    def __init__(self, root: Traversable | None = None) -> None:
        found = dict(_walk(root or resources.files("safelight.web").joinpath("static"), ""))
        sources = {
            path: content.decode()
            for path, content in found.items()
            if path.endswith((".css", ".js"))
        }
        served = {path: content for path, content in found.items() if path not in sources}
        served |= {name: text.encode() for name, text in bundles(sources).items()}
        self._assets = {path: Asset(content, _type(path)) for path, content in served.items()}
        self.version = _hash(served)

    def url(self, path: str) -> str:
        """Unknown paths fail while the page is made, not in a visitor's browser."""
        if path not in self._assets:
            raise LookupError(f"there is no static file {path}")
        return f"/static/{self.version}/{path}"

    def find(self, version: str, path: str) -> Asset | None:
        return self._assets.get(path) if version == self.version else None


def compressed(content: bytes, accepted: str) -> tuple[bytes, str | None]:
    """A page that was just made, in a way that costs about a millisecond."""
    if len(content) < _LEAST:
        return content, None
    if "br" in _named(accepted):
        return bytes(brotli.compress(content, quality=_QUICK)), "br"
    if "gzip" in _named(accepted):
        return _gzip(content, _QUICK), "gzip"
    return content, None


def _named(accepted: str) -> set[str]:
    """The encodings that a browser takes; one with q=0 it does not."""
    parts = (part.partition(";") for part in accepted.lower().split(","))
    return {name.strip() for name, _, rest in parts if rest.replace(" ", "") not in _REFUSED}


def _gzip(content: bytes, level: int) -> bytes:
    squeeze = zlib.compressobj(level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return squeeze.compress(content) + squeeze.flush()


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
