"""Amounts and limits in words that people use."""

import pytest

from safelight.quotas.lifecycle import Meter, QuotaExceeded, in_bytes
from safelight.quotas.routes import LimitsBody
from safelight.settings import Settings


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (156_000, "152 KiB"),
        (1024**2 - 1, "1024 KiB"),
        (1024**4, "1 TiB"),
        (500_000_000_000, "466 GiB"),
        (2**60, "1 EiB"),
    ],
)
def test_bytes_in_words(amount: int, words: str) -> None:
    assert in_bytes(amount) == words


def test_the_words_of_a_full_store_are_its_own() -> None:
    """What is told although the status is of the five hundreds can name no place of ours."""
    assert QuotaExceeded.says_it_all
    assert QuotaExceeded(1).message.startswith(QuotaExceeded.default_message())


def test_no_limit_is_said_the_same_way_everywhere() -> None:
    for meter in Meter:
        assert (Settings.model_fields[meter.setting].description or "").endswith("; 0: no limit.")
    assert "0: no limit" in (LimitsBody.__doc__ or "")
