"""AV1's own headers written bit by bit, as no encoder would."""


def _unit(kind: int, bits: str) -> bytes:
    bits += "1"  # what ends a header
    bits += "0" * (-len(bits) % 8)
    payload = int(bits, 2).to_bytes(len(bits) // 8, "big")
    return bytes([kind << 3 | 2, len(payload)]) + payload


def sequence(width: int, height: int, *, bits: int = 15) -> bytes:
    """A sequence header with everything optional left out, except that frames may differ."""
    size = f"{bits - 1:04b}" * 2 + f"{width - 1:0{bits}b}" + f"{height - 1:0{bits}b}"
    one_operating_point = "00000" + "0" * 12 + "00000"
    no_frame_ids, blocks, tools, choices = "0", "000", "00000", "00"
    return _unit(
        1, "000" + "0" + "0" + "0" + "0" + one_operating_point + size
        + no_frame_ids + blocks + tools + choices,
    )  # fmt: skip


def frame_with_own_size(width: int, height: int, *, bits: int) -> bytes:
    shown_key_frame, cdf, overrides = "0" + "00" + "1", "0", "1"
    return _unit(
        3, shown_key_frame + cdf + overrides + f"{width - 1:0{bits}b}" + f"{height - 1:0{bits}b}"
    )
