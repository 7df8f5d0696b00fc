"""Result files as vendors serve them, and as they should not be served."""

import asyncio
import io
from functools import cache

from PIL import Image

from emulators.wire import Exchange

MP4 = b"\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isommp41" + b"\x00\x00\x00\x08free" + bytes(4000)


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
    length = 10 * 1024**3 if how == "huge" else len(content)
    await exchange.begin(200, {**kind, "content-length": str(length)})
    await exchange.send(content[: len(content) // 2])
    if how == "cut":
        exchange.cut()
    else:
        assert how in {"stalled", "huge"}, how
        await asyncio.sleep(3600)
