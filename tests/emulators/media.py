"""Result files as vendors serve them, and as they should not be served."""

import asyncio
import io
from functools import cache

from emulators.wire import Exchange
from PIL import Image

MP4 = b"\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isommp41" + b"\x00\x00\x00\x08free" + bytes(4000)


@cache
def png(colour: str = "teal", size: tuple[int, int] = (96, 64)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


async def serve(exchange: Exchange, how: str, content: bytes, other: str = "") -> None:
    """`how` is one of the names below; `other` is where a redirect leads."""
    kind = {"content-type": "image/png"}
    length = {"content-length": str(len(content))}
    if how == "fine":
        await exchange.answer(200, content, kind)
    elif how == "lie":
        await exchange.answer(200, content, {"content-type": "text/html"})
    elif how == "html":
        await exchange.answer(200, b"<!doctype html><script>alert(1)</script>" * 9, kind)
    elif how == "cut":
        await exchange.begin(200, kind | length)
        await exchange.send(content[: len(content) // 2])
        exchange.cut()
    elif how == "stalled":
        await exchange.begin(200, kind | length)
        await exchange.send(content[: len(content) // 2])
        await asyncio.sleep(3600)
    elif how == "huge":
        await exchange.begin(200, {**kind, "content-length": str(10 * 1024**3)})
        await exchange.send(content)
        await asyncio.sleep(3600)
    elif how == "endless":
        await exchange.begin(200, {**kind, "transfer-encoding": "chunked"})
        await exchange.send(b"%x\r\n%s\r\n" % (len(content), content))
        while True:
            await exchange.send(b"10000\r\n" + bytes(0x10000) + b"\r\n")
    elif how == "redirect":
        await exchange.answer(302, b"", {"location": other})
    elif how == "compressed":
        await exchange.answer(200, content, {**kind, "content-encoding": "gzip"})
    elif how == "missing":
        await exchange.answer(404, b"gone")
    else:
        assert how == "broken", how
        await exchange.answer(503, b"later")
