"""Fetching what a provider names: over TLS to the address that was checked, and within limits."""

import datetime as dt
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from emulators.media import png, serve
from emulators.wire import Exchange, Loopback, loopback
from safelight.generations.fetch import (
    Fetcher,
    FetchFailed,
    FetchRefused,
    FetchTrouble,
    TooLarge,
)

HOST = "media.vendor.test"
Resolve = Callable[[str, int], Awaitable[list[str]]]


def names(**known: list[str]) -> Resolve:
    """A resolver that knows these names, underscores for dots."""
    table = {name.replace("_", "."): addresses for name, addresses in known.items()}

    async def resolve(host: str, _: int) -> list[str]:
        if host not in table:
            raise OSError(f"no such name: {host}")
        return table[host]

    return resolve


async def fetched(
    fetcher: Fetcher, url: str, hosts: tuple[str, ...] = (), seconds: float = 10
) -> bytes:
    async with fetcher.opened(url, hosts, seconds) as pieces:
        return b"".join([piece async for piece in pieces])


def fetcher(server: Loopback | None = None, **options: object) -> Fetcher:
    allowed = (server.address,) if server else ()
    return Fetcher(allowed, **{"max_bytes": 1_000_000, **options})  # type: ignore[arg-type]  # by name


def handler(how: str, other: str = "") -> Callable[[Exchange], Awaitable[None]]:
    async def handle(exchange: Exchange) -> None:
        await serve(exchange, how, png(), other)

    return handle


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("cut", FetchTrouble), ("stalled", FetchTrouble), ("broken", FetchTrouble),
        ("huge", TooLarge), ("endless", TooLarge), ("missing", FetchFailed),
        ("compressed", FetchRefused),
    ],
)  # fmt: skip
async def test_files_that_do_not_arrive(how: str, error: type[Exception]) -> None:
    async with loopback(handler(how)) as server:
        with pytest.raises(error):
            await fetched(fetcher(server), f"{server.url}/a.png", seconds=1.0)


async def test_a_file_arrives() -> None:
    async with loopback(handler("fine")) as server:
        assert await fetched(fetcher(server), f"{server.url}/a.png?x=1") == png()
        [seen] = server.seen
        assert seen.headers["host"] == server.address
        assert seen.headers["accept-encoding"] == "identity"
        assert (seen.target, "authorization" in seen.headers) == ("/a.png?x=1", False)


async def test_nothing_listens() -> None:
    nobody = Fetcher(("127.0.0.1:9",), max_bytes=1)
    with pytest.raises(FetchTrouble):
        await fetched(nobody, "http://127.0.0.1:9/x")


# Redirects


async def test_two_redirects_are_followed_a_third_is_not() -> None:
    async def hop(exchange: Exchange) -> None:
        number = int(exchange.path.strip("/"))
        how = "fine" if number == 0 else "redirect"
        await serve(exchange, how, png(), f"/{number - 1}")

    async with loopback(hop) as server:
        assert await fetched(fetcher(server), f"{server.url}/2") == png()
        with pytest.raises(FetchRefused):
            await fetched(fetcher(server), f"{server.url}/3")
        assert len(server.seen) == 6


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/", "http://127.0.0.1:1/", "http://localhost/", "//10.0.0.1/x",
        "https://example.test/", "file:///etc/passwd", "", "http://[::1]:80/",
    ],
)  # fmt: skip
async def test_a_redirect_is_held_to_the_same_rules(target: str) -> None:
    reached = []

    async def handle(exchange: Exchange) -> None:
        reached.append(exchange.path)
        await serve(exchange, "redirect", b"", target)

    async with loopback(handle) as server:
        with pytest.raises(FetchRefused):
            await fetched(fetcher(server), f"{server.url}/start")
    assert set(reached) <= {"/start"}


# Names


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"], ["::1"], ["10.0.0.7"], ["169.254.169.254"], ["::ffff:127.0.0.1"],
        ["93.184.216.34", "127.0.0.1"], ["fd00:ec2::254"], ["0.0.0.0"],
    ],
)  # fmt: skip
async def test_a_name_that_leads_inside(addresses: list[str]) -> None:
    guarded = fetcher(resolve=names(media_vendor_test=addresses))
    with pytest.raises(FetchRefused, match="public"):
        await fetched(guarded, f"https://{HOST}/a.png", (HOST,))


async def test_a_real_name_that_leads_inside() -> None:
    with pytest.raises(FetchRefused):
        await fetched(fetcher(), "https://localhost/a.png", ("localhost",))


async def test_a_name_nobody_knows() -> None:
    with pytest.raises(FetchTrouble):
        await fetched(fetcher(resolve=names()), f"https://{HOST}/a.png", (HOST,))


# TLS


def authority(directory: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server with a certificate for `name`, and a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = directory / f"{name}.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(path)
    return serving, ssl.create_default_context(cafile=str(path))


async def test_the_connection_goes_to_the_address_under_the_name(tmp_path: Path) -> None:
    serving, trusting = authority(tmp_path, HOST)
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    async with loopback(handler("fine"), serving) as server:
        allowed = (f"{HOST}:{server.port}",)
        pinned = Fetcher(allowed, max_bytes=10**6, resolve=resolve, certificates=trusting)
        assert await fetched(pinned, f"https://{HOST}:{server.port}/a.png") == png()
        assert server.seen[0].headers["host"] == f"{HOST}:{server.port}"
    assert asked == [HOST]


async def test_another_names_certificate_does_not_do(tmp_path: Path) -> None:
    serving, trusting = authority(tmp_path, "other.vendor.test")
    async with loopback(handler("fine"), serving) as server:
        allowed = (f"{HOST}:{server.port}",)
        resolve = names(media_vendor_test=["127.0.0.1"])
        wary = Fetcher(allowed, max_bytes=10**6, resolve=resolve, certificates=trusting)
        with pytest.raises(FetchTrouble):
            await fetched(wary, f"https://{HOST}:{server.port}/a.png")
        assert server.seen == []
