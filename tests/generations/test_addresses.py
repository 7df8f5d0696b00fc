"""Which addresses may be fetched."""

import pytest

from safelight.generations.addresses import AddressRefused, check_address, target_of

HOSTS = ("im.runware.ai", "*.replicate.delivery")
ALLOWED = ("127.0.0.1:9000", "[::1]:9001", "cache.internal:80")


@pytest.mark.parametrize(
    ("url", "host", "port", "trusted"),
    [
        ("https://im.runware.ai/a.png", "im.runware.ai", 443, False),
        ("https://IM.Runware.AI:443/a.png", "im.runware.ai", 443, False),
        ("https://a.b.replicate.delivery/x?y=1", "a.b.replicate.delivery", 443, False),
        ("http://127.0.0.1:9000/x", "127.0.0.1", 9000, True),
        ("https://127.0.0.1:9000/x", "127.0.0.1", 9000, True),
        ("http://[::1]:9001/x", "::1", 9001, True),
        ("http://cache.internal/x", "cache.internal", 80, True),
    ],
)
def test_allowed(url: str, host: str, port: int, trusted: bool) -> None:
    target = target_of(url, HOSTS, ALLOWED)
    assert (target.host, target.port, target.trusted) == (host, port, trusted)


@pytest.mark.parametrize(
    "url",
    [
        "http://im.runware.ai/a.png",
        "https://im.runware.ai:8443/a.png",
        "https://im.runware.ai.evil.test/a.png",
        "https://evil-im.runware.ai/a.png",
        "https://replicate.delivery/x",
        "https://evilreplicate.delivery/x",
        "https://im.runware.ai./a.png",
        "https://im.runware.ai@evil.test/",
        "https://user:pass@im.runware.ai/",
        "https://im.runware.ai%2eevil.test/",
        "https://im.runware.ai\\@evil.test/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "http://127.0.0.1:9001/x",
        "http://localhost:9000/x",
        "http://2130706433:9000/",
        "ftp://im.runware.ai/a",
        "file:///etc/passwd",
        "gopher://im.runware.ai/",
        "//im.runware.ai/a",
        "/etc/passwd",
        "",
        "https://",
        "https://im.runware.ai:99999/",
        "https://im.runware.ai:x/",
        "https://[im.runware.ai/",
        "https://im.runware.ai/a b",
        "https://im.runware.ai/\n",
        "https://im.runware.ai/é",
        "https://im.runware.ai/" + "a" * 9000,
        "data:text/html,x",
        "javascript:alert(1)",
    ],
)
def test_forbidden(url: str) -> None:
    with pytest.raises(AddressRefused):
        target_of(url, HOSTS, ALLOWED)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1",
        "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.1", "192.0.2.1",
        "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1",
        "255.255.255.255",
        "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1",
        "ff02::1", "2001:db8::1", "2001:0:53aa:64c::1",
        "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.1.2.3", "::127.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    with pytest.raises(AddressRefused):
        check_address(address)


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8",
        "104.18.2.3",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2a00:1450::1",
    ],
)
def test_addresses_that_are(address: str) -> None:
    check_address(address)
