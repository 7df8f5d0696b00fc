import pytest

from safelight.accounts.access import is_username
from safelight.accounts.sign_in.flow import MOST_FAILURES, WINDOW_MS, subjects, wait_seconds

NOW = 1_800_000_000_000


def test_ten_failures_are_too_many() -> None:
    assert wait_seconds([], NOW) is None
    assert wait_seconds([NOW] * (MOST_FAILURES - 1), NOW) is None
    assert wait_seconds([NOW] * MOST_FAILURES, NOW) == 900


def test_the_wait_ends_when_the_tenth_last_failure_is_old() -> None:
    failures = [NOW - n * 60_000 for n in range(12)]
    assert wait_seconds(failures, NOW) == 900 - 9 * 60
    assert wait_seconds([NOW - WINDOW_MS + 1] * 10, NOW) == 1


@pytest.mark.parametrize("name", ["ada", "a", "a.b_c-1", "9", "x" * 64])
def test_usernames(name: str) -> None:
    assert is_username(name)


@pytest.mark.parametrize("name", ["", "Ada", "a b", "a/b", "ä", "a\n", "a\x00", "x" * 65, "٣"])
def test_what_is_no_username(name: str) -> None:
    assert not is_username(name)
    assert subjects(name, None) == []


def test_what_an_attempt_counts_against() -> None:
    assert subjects("ada", "192.0.2.7") == ["address:192.0.2.7", "user:ada"]
    assert subjects("ada", "::ffff:192.0.2.7") == ["address:192.0.2.7", "user:ada"]
    assert subjects("ada", "2001:db8:1:2:3::4") == ["address:2001:db8:1:2::/64", "user:ada"]
    assert subjects("ada", "fe80::1%eth0") == ["address:fe80::/64", "user:ada"]
    assert subjects("no such", "not an address") == ["address:unknown"]
