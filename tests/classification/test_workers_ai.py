"""The real client against a vendor that behaves, and one that does not."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from accounts.world import HandClock
from classification.images import encoded, four_colours, opened, photo, turned
from emulators import workers_ai as emulator
from emulators.workers_ai import Behaviour, Vendor
from safelight.classification.base import ModelError
from safelight.classification.workers_ai import MODEL, WorkersAi, build, endpoint
from safelight.errors import ConfigurationError
from safelight.infra.away import is_away
from safelight.settings import load
from sandbox.shared import shared_sandbox

TOKEN = "a-secret-token"
CAT = photo("cat")


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with emulator.workers_ai(TOKEN) as vendor:
        yield vendor


@asynccontextmanager
async def client(url: str, **options: Any) -> AsyncIterator[WorkersAi]:
    given = {"workers_ai_url": url, "workers_ai_token": TOKEN, "classifier_threads": 2, **options}
    made = build(load({"classifier": "workers-ai", **given}), HandClock(), shared_sandbox())
    await made.open()
    try:
        yield made
    finally:
        await made.close()


async def asked(vendor: Vendor, *behaviours: Behaviour, **options: Any) -> ModelError:
    vendor.next(*behaviours)
    async with client(vendor.url, **options) as made:
        with pytest.raises(ModelError) as refusal:
            await made.classify(CAT)
    return refusal.value


async def test_the_account_is_asked_with_the_image_as_bytes(vendor: Vendor) -> None:
    async with client(vendor.url) as made:
        found = await made.classify(CAT)
    assert (found.label, found.score, found.drawing.embedding) == ("PERSIAN CAT", 0.4071, None)
    (request,) = vendor.requests
    assert request.path == f"/client/v4/accounts/account/ai/run/{MODEL}"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["content-type"] == "application/octet-stream"
    assert not any(name.startswith("cf-aig") for name in request.headers)


async def test_a_gateway_is_asked_in_its_own_way(vendor: Vendor) -> None:
    options = {"workers_ai_gateway_token": "gate", "workers_ai_gateway_cache_seconds": 3600}
    async with client(vendor.gateway_url, **options, workers_ai_timeout_seconds=12) as made:
        assert (await made.classify(CAT)).label == "PERSIAN CAT"
    (request,) = vendor.requests
    assert request.path == f"/v1/account/gateway/workers-ai/{MODEL}"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["cf-aig-authorization"] == "Bearer gate"
    assert request.headers["cf-aig-cache-ttl"] == "3600"
    assert request.headers["cf-aig-request-timeout"] == "12000"
    assert request.headers["cf-aig-max-attempts"] == "1"
    assert request.headers["content-type"] == "application/json"
    assert request.image.startswith(b"\xff\xd8\xff")


@pytest.mark.parametrize(("body", "kind"), [("bytes", "octet-stream"), ("json", "json")])
async def test_the_form_of_the_body_can_be_set(vendor: Vendor, body: str, kind: str) -> None:
    for url in (vendor.url, vendor.gateway_url):
        async with client(url, workers_ai_body=body) as made:
            await made.classify(CAT)
    assert all(kind in request.headers["content-type"] for request in vendor.requests)


async def test_what_is_sent_is_small_upright_and_without_metadata(vendor: Vendor) -> None:
    image = four_colours((3000, 2000))
    async with client(vendor.url) as made:
        await made.classify(turned(image, 6))
        await made.classify(encoded(image.convert("RGBA"), "PNG"))
    for request in vendor.requests:
        sent = opened(request.image)
        assert (sent.format, sent.mode, sent.size) == ("JPEG", "RGB", (512, 341))
        assert not sent.getexif()
        red, _green, _blue = sent.getpixel((20, 20))  # type: ignore[misc] # RGB: a tuple
        assert red > 200


async def test_the_same_image_is_the_same_request(vendor: Vendor) -> None:
    """A gateway's cache goes by the bytes."""
    async with client(vendor.url) as made:
        await made.classify(CAT)
        await made.classify(CAT)
    first, second = vendor.requests
    assert first.body == second.body


async def test_a_spent_allowance_comes_back_tomorrow(vendor: Vendor) -> None:
    error = await asked(vendor, emulator.refusal(429, 3036, "allocation used up"))
    assert is_away(error)
    assert error.retry_after is not None
    assert 60 < error.retry_after <= 86_400 + 60


async def test_no_capacity_is_worth_waiting_for(vendor: Vendor) -> None:
    error = await asked(vendor, emulator.refusal(429, 3040, retry_after="4"))
    assert (error.retry_after, is_away(error)) == (4, True)


async def test_a_wrong_token_is_waited_for_and_stays_out_of_the_words(vendor: Vendor) -> None:
    error = await asked(vendor, workers_ai_token="wrong-secret")
    assert is_away(error)
    assert "SAFELIGHT_WORKERS_AI_TOKEN" in error.message
    assert "wrong-secret" not in error.message


@pytest.mark.parametrize("name", ["workers_ai_token", "workers_ai_gateway_token"])
@pytest.mark.parametrize("token", ["new\nline", "ünicode", "null\0"])
def test_a_token_that_cannot_be_sent_is_refused_without_repeating_it(name: str, token: str) -> None:
    with pytest.raises(ConfigurationError, match="printable ASCII") as refusal:
        load({name: token})
    assert token == " " or token not in refusal.value.message


async def test_a_token_read_from_a_file_may_end_in_a_new_line(vendor: Vendor) -> None:
    async with client(vendor.url, workers_ai_token=f"{TOKEN}\n") as made:
        assert (await made.classify(CAT)).label == "PERSIAN CAT"


@pytest.mark.parametrize(
    "behaviour",
    [
        emulator.cut_off(0),
        emulator.cut_off(20),
        emulator.hang_up(),
        emulator.nonsense(),
        emulator.reply(200, b'{"result":[{"label":"CAT","sco'),
        emulator.reply(200, b"<html>Just a moment...</html>"),
        emulator.reply(200, b"<html>" + b" " * 70_000),
        emulator.reply(200, b""),
        emulator.reply(502, b"<html>Bad gateway</html>"),
        emulator.refusal(500, 0),
        emulator.result([]),
        emulator.result({"label": "CAT"}),
        emulator.result([{"label": "CAT", "score": "high"}]),
        emulator.reply(200, b"\x1f\x8b\x08\x00 not gzip", content_encoding="gzip"),
    ],
)
async def test_a_vendor_that_misbehaves_is_waited_for(vendor: Vendor, behaviour: Behaviour) -> None:
    vendor.next(behaviour)
    async with client(vendor.url) as made:
        with pytest.raises(ModelError) as refusal:
            await made.classify(CAT)
        assert is_away(refusal.value)
        assert (await made.classify(CAT)).label == "PERSIAN CAT"


@pytest.mark.parametrize("behaviour", [emulator.silence(), emulator.drip()])
async def test_an_answer_that_does_not_come_is_not_waited_for(
    vendor: Vendor, behaviour: Behaviour
) -> None:
    async with asyncio.timeout(20):
        error = await asked(vendor, behaviour, workers_ai_timeout_seconds=0.3)
    assert error.message == "Workers AI did not answer within 0.3 s."


async def test_an_answer_without_end_is_cut(vendor: Vendor) -> None:
    async with asyncio.timeout(20):
        error = await asked(vendor, emulator.endless())
    assert "more than 65536 bytes" in error.message


async def test_a_redirect_is_not_followed(vendor: Vendor) -> None:
    error = await asked(vendor, emulator.reply(302, b"", location=f"{vendor.origin}/elsewhere"))
    assert is_away(error)
    assert len(vendor.requests) == 1


@pytest.mark.parametrize("scheme", ["http://127.0.0.1", "https://127.0.0.1", "http://no.invalid"])
async def test_who_cannot_be_reached_is_waited_for(vendor: Vendor, scheme: str) -> None:
    """Nobody listens there; what listens speaks no TLS; there is no such name."""
    port = 1 if scheme == "http://127.0.0.1" else vendor.port
    async with client(f"{scheme}:{port}/client/v4/accounts/account") as made:
        with pytest.raises(ModelError, match="could not be reached") as refusal:
            await made.classify(CAT)
    assert is_away(refusal.value)


async def test_many_at_once_each_get_their_own_answer(vendor: Vendor) -> None:
    vendor.next(*(emulator.result([{"label": "A", "score": n / 16}]) for n in range(16)))
    async with client(vendor.url) as made:
        found = await asyncio.gather(*(made.classify(CAT) for _ in range(16)))
    assert sorted(one.score for one in found) == [n / 16 for n in range(16)]


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("https://api.example/client/v4/accounts/a", "/client/v4/accounts/a/ai/run/"),
        ("https://api.example/client/v4/accounts/a/ai", "/client/v4/accounts/a/ai/run/"),
        ("https://api.example/client/v4/accounts/a/ai/run", "/client/v4/accounts/a/ai/run/"),
        ("https://gate.example/v1/a/g/workers-ai", "/v1/a/g/workers-ai/"),
        (f"https://api.example/run/{MODEL}", "/run/"),
    ],
)
def test_the_address_may_be_given_in_any_of_its_lengths(address: str, path: str) -> None:
    assert endpoint(address).split("example", 1)[1] == path + MODEL


@pytest.mark.parametrize(
    ("path", "token", "body", "status"),
    [
        ("/ai/run/@cf/microsoft/resnet-50", TOKEN, CAT, 200),
        ("/ai/run/@cf/microsoft/resnet-50", TOKEN, b"no image", 400),
        ("/ai/run/@cf/microsoft/resnet-50", "other", CAT, 401),
        ("/ai/run/@cf/microsoft/resnet-51", TOKEN, CAT, 404),
    ],
)
def test_the_emulator_is_as_strict_as_the_vendor(
    vendor: Vendor, path: str, token: str, body: bytes, status: int
) -> None:
    headers = {"authorization": f"Bearer {token}"}
    assert httpx.post(vendor.url + path, content=body, headers=headers).status_code == status
