"""A library of any size with something to see in it: rows as library/many.py makes them, each with a
small picture that the product's own code drew, over some years."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from PIL import Image

from library import many
from safelight.sandbox.small import thumbnail
from scene.photographs import photographs

_SHARES = (0.0, 0.12, 0.24)
_SHAPES = ((0.75, 0.75), (0.5, 0.75), (0.75, 0.5), (0.6, 0.6))
_SLOWER = 300  # times; two seconds between images become ten minutes
_ALL_DRAWN = 15
_SMALL = """
CREATE TEMP TABLE small (n integer, data bytea, color text, width integer, height integer)
"""
_ENTRIES = f"""
UPDATE uploads SET drawn = {_ALL_DRAWN}, checksum = encode(sha256(idempotency_key::bytea), 'hex'),
    dominant_color = small.color, width = 8 * small.width, height = 8 * small.height
FROM small WHERE organization = $1
    AND small.n = ((event_time - {many.BEGUN}) / {many.EVERY_MS}) % $2
"""
_PICTURES = f"""
INSERT INTO thumbnails (organization, name, idempotency_key, made_at, data)
SELECT organization, name, idempotency_key, event_time, small.data FROM uploads
JOIN small ON small.n = ((event_time - {many.BEGUN}) / {many.EVERY_MS}) % $2
WHERE organization = $1
"""
_TIMES = """
UPDATE {table} SET event_time = $2::bigint - ($3::bigint - event_time) * {slower}
WHERE organization = $1
"""


@dataclass(frozen=True, slots=True)
class Small:
    data: bytes
    color: str
    width: int
    height: int


def smalls(side: int, most: int) -> list[Small]:
    """Of parts of the photographs, so that each is another."""
    found: list[Small] = []
    for left, top, (across, down) in product(_SHARES, _SHARES, _SHAPES):
        for photo in photographs():
            if len(found) == most:
                return found
            found.append(_small(photo.data, (left, top, left + across, top + down), side))
    return found


def _small(data: bytes, part: tuple[float, float, float, float], side: int) -> Small:
    with Image.open(io.BytesIO(data)) as image:
        whole = image.convert("RGB")
    box = [round(share * whole.size[n % 2]) for n, share in enumerate(part)]
    cut = whole.crop((box[0], box[1], box[2], box[3]))
    cut.thumbnail((2 * side, 2 * side))
    out = io.BytesIO()
    cut.save(out, "JPEG", quality=88)
    drawn = thumbnail(out.getvalue(), {"side": side}).data
    red, green, blue = cut.resize((1, 1)).getpixel((0, 0))  # type: ignore[misc]  # RGB
    with Image.open(io.BytesIO(drawn)) as seen:
        return Small(drawn, f"#{red:02x}{green:02x}{blue:02x}", *seen.size)


async def crowd(
    connection: Any, organization: str, count: int, pictures: Sequence[Small], until: int
) -> None:
    """`until`: when the newest came."""
    made = await many.fill(connection, organization, count)
    await connection.execute("SET session_replication_role = replica")
    await connection.execute(_SMALL)
    await connection.copy_records_to_table("small", records=_rows(pictures))
    for statement in (_ENTRIES, _PICTURES):
        await connection.execute(statement, organization, len(pictures))
    for table in ("uploads", "upload_words"):
        statement = _TIMES.format(table=table, slower=_SLOWER)
        await connection.execute(statement, organization, until, made.end)
    await many.settle(connection, "uploads", "upload_words", "thumbnails", "images", "activity")


def _rows(pictures: Sequence[Small]) -> Iterator[tuple[int, bytes, str, int, int]]:
    for number, one in enumerate(pictures):
        yield number, one.data, one.color, one.width, one.height
