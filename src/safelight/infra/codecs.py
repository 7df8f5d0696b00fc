"""Types that the driver does not know, as Python values."""

import json
import struct
from array import array
from typing import Any

_HALFVEC = struct.Struct("!HH")  # how many numbers, and nothing


async def prepare(connection: Any) -> None:
    """Makes jsonb columns Python values, and vectors of short floats their bytes, where the server
    knows these; also for connections outside the pool."""
    await connection.set_type_codec(
        "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
    )
    schema = await connection.fetchval(
        "SELECT typnamespace::regnamespace::text FROM pg_type WHERE typname = 'halfvec'"
    )
    if schema:
        await connection.set_type_codec(
            "halfvec", schema=schema, encoder=_to_halfvec, decoder=_of_halfvec, format="binary"
        )


def _to_halfvec(vector: bytes) -> bytes:
    """Of little-endian float16. As text, a thousand numbers would take a millisecond."""
    numbers = array("H", vector)
    numbers.byteswap()
    return _HALFVEC.pack(len(numbers), 0) + numbers.tobytes()


def _of_halfvec(sent: bytes) -> bytes:
    numbers = array("H", sent[_HALFVEC.size :])
    numbers.byteswap()
    return numbers.tobytes()
