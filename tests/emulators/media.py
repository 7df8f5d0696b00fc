"""Result files as vendors serve them, and as they should not be served."""

import asyncio
import io
import struct
from functools import cache

from PIL import Image

from emulators.wire import Exchange


def box(name: bytes, *inner: bytes) -> bytes:
    content = b"".join(inner)
    return struct.pack("!I", 8 + len(content)) + name + content


def mp4(width: int = 640, height: int = 360, seconds: float = 2.5) -> bytes:
    """As small as a file can be that says what it is; the picture itself is nothing."""
    movie = struct.pack("!4xIIII80x", 0, 0, 1000, int(seconds * 1000))
    track = struct.pack("!4x72xII", width << 16, height << 16)
    handler = struct.pack("!8x4s12xx", b"vide")
    media = box(b"mdia", box(b"hdlr", handler))
    header = box(b"moov", box(b"mvhd", movie), box(b"trak", box(b"tkhd", track), media))
    return box(b"ftyp", b"isom\0\0\2\0isommp41") + header + box(b"mdat", bytes(4000))


MP4 = mp4()


@cache
def png(colour: str = "teal", size: tuple[int, int] = (96, 64)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


async def serve(exchange: Exchange, how: str, content: bytes, other: str = "") -> None:
    """`how` is one of the names below; `other` is where a redirect leads."""
    kind = {"content-type": "image/png"}
    whole: dict[str, tuple[int, bytes, dict[str, str]]] = {
        "fine": (200, content, kind),
        "lie": (200, content, {"content-type": "text/html"}),
        "html": (200, b"<!doctype html><script>alert(1)</script>" * 9, kind),
        "redirect": (302, b"", {"location": other}),
        "compressed": (200, content, {**kind, "content-encoding": "gzip"}),
        "missing": (404, b"gone", {}),
        "broken": (503, b"later", {}),
    }
    if how in whole:
        await exchange.answer(*whole[how])
    else:
        await _serve_badly(exchange, how, content, kind)


async def _serve_badly(exchange: Exchange, how: str, content: bytes, kind: dict[str, str]) -> None:
    if how == "endless":
        await exchange.begin(200, {**kind, "transfer-encoding": "chunked"})
        await exchange.send(b"%x\r\n%s\r\n" % (len(content), content))
        while True:
            await exchange.send(b"10000\r\n" + bytes(0x10000) + b"\r\n")
    if how == "short":  # ends like a whole one, since no length was announced
        await exchange.begin(200, kind)
        await exchange.send(content[: len(content) // 2])
        return
    length = 10 * 1024**3 if how == "huge" else len(content)
    await exchange.begin(200, {**kind, "content-length": str(length)})
    await exchange.send(content[: len(content) // 2])
    if how == "cut":
        exchange.cut()
    else:
        assert how in {"stalled", "huge"}, how
        await asyncio.sleep(3600)
