import pytest

from safelight.accounts.access import is_username
from safelight.accounts.sign_in.attempts import (
    WINDOW_MS,
    in_words,
    of_stranger,
    wait_seconds,
)

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("subject", "most"), [("both:ada@x", 10), ("device:ada@x", 10), ("change:ada", 10), ("address:x", 100)]
)  # fmt: skip
def test_so_many_failures_are_too_many(subject: str, most: int) -> None:
    assert wait_seconds(subject, [], NOW) == 0
    assert wait_seconds(subject, [NOW] * (most - 1), NOW) == 0
    assert wait_seconds(subject, [NOW] * most, NOW) == 900


def test_the_wait_ends_when_the_tenth_last_failure_is_old() -> None:
    failures = [NOW - n * 60_000 for n in range(12)]
    assert wait_seconds("both:ada@x", failures, NOW) == 900 - 9 * 60
    assert wait_seconds("both:ada@x", [NOW - WINDOW_MS + 1] * 10, NOW) == 1


@pytest.mark.parametrize(
    ("count", "wait"), [(9, 0), (10, 1), (11, 2), (12, 4), (15, 32), (16, 60), (17, 60), (999, 60)]
)
def test_a_user_waits_longer_each_time_and_never_for_long(count: int, wait: int) -> None:
    failures = [NOW - n for n in range(count)]
    assert wait_seconds("user:ada", failures, NOW) == wait
    assert wait_seconds("user:ada", failures, NOW + wait * 1000) == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "a second"), (2, "2 seconds"), (59, "59 seconds"), (60, "a minute"), (61, "2 minutes"), (900, "15 minutes")],
)  # fmt: skip
def test_how_long_in_words(seconds: int, words: str) -> None:
    assert in_words(seconds) == words


@pytest.mark.parametrize("name", ["ada", "a", "a.b_c-1", "9", "x" * 64])
def test_usernames(name: str) -> None:
    assert is_username(name)


@pytest.mark.parametrize("name", ["", "Ada", "a b", "a/b", "ä", "a\n", "a\x00", "x" * 65, "٣"])
def test_what_is_no_username(name: str) -> None:
    assert not is_username(name)
    assert of_stranger(name, None) == ["address:unknown"]


@pytest.mark.parametrize(
    ("address", "where"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not an address", "unknown"),
        (None, "unknown"),
    ],
)
def test_what_an_attempt_counts_against(address: str | None, where: str) -> None:
    assert of_stranger("ada", address) == [f"both:ada@{where}", "user:ada", f"address:{where}"]
