import pytest

from safelight.accounts.origin import (
    from_foreign_page,
    from_own_page,
    local_path,
    own_origins,
)

OURS = frozenset({"https://images.example.org"})
OWN, FOREIGN = "https://images.example.org", "https://evil.example"

MATRIX = [
    # Sec-Fetch-Site, Origin, with a cookie, without one
    ("same-origin", None, True, True),
    ("same-origin", OWN, True, True),
    ("none", None, True, True),
    ("same-site", None, False, False),
    ("cross-site", None, False, False),
    ("cross-site", FOREIGN, False, False),
    ("same-site", FOREIGN, False, False),
    (None, OWN, True, True),
    (None, OWN.upper(), True, True),
    (None, FOREIGN, False, False),
    (None, "null", False, False),
    (None, "", False, False),
    (None, OWN + ".evil.example", False, False),
    (None, "http://images.example.org", False, False),
    (None, None, False, True),
]


@pytest.mark.parametrize(("site", "origin", "with_cookie", "without"), MATRIX)
def test_matrix(site: str | None, origin: str | None, with_cookie: bool, without: bool) -> None:
    headers = {"sec-fetch-site": site, "origin": origin}
    sent = {name: value for name, value in headers.items() if value is not None}
    assert from_own_page(sent, OURS) is with_cookie
    assert from_foreign_page(sent, OURS) is not without


def test_our_origins_are_the_host_and_the_public_url() -> None:
    assert own_origins("http", "localhost:8000", None) == {"http://localhost:8000"}
    assert own_origins("http", None, None) == frozenset()
    assert own_origins("wss", "a.example", None) == {"https://a.example"}
    assert own_origins("ws", "a", "https://Images.example.org/base") == {"http://a", *OURS}


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/app/acme/upload?q=1#top", "/app/acme/upload?q=1#top"),
        ("/", "/"),
        (None, "/"),
        ("", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nset-cookie: x=1", "/"),
        ("/\t/evil.example", "/"),
        ("app", "/"),
    ],
)
def test_only_paths_of_ours_are_gone_to(target: str | None, path: str) -> None:
    assert local_path(target) == path
