"""Vectors of short floats as the server sends them. As text, a thousand numbers would take a
millisecond."""

import struct
from array import array

_HEAD = struct.Struct("!HH")  # how many numbers, and nothing


def to_wire(vector: bytes) -> bytes:
    """Of little-endian float16."""
    numbers = array("H", vector)
    numbers.byteswap()
    return _HEAD.pack(len(numbers), 0) + numbers.tobytes()


def of_wire(sent: bytes) -> bytes:
    numbers = array("H", sent[_HEAD.size :])
    numbers.byteswap()
    return numbers.tobytes()
