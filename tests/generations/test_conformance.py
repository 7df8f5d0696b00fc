"""What every provider promises, whoever is behind it."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from generations.benches import WEBHOOK, Bench, an_order, bench, built
from generations.strange import VENDORS_OFFLINE, likely
from safelight.errors import ConfigurationError, InvalidRequest
from safelight.generations.addresses import target_of
from safelight.generations.lifecycle import MediaKind, TaskErrorCode
from safelight.generations.providers.base import (
    DRAWN,
    Accepted,
    Finished,
    Order,
    ProviderTrouble,
    Refused,
    Report,
    TaskUnknown,
)
from safelight.generations.providers.registry import PROVIDERS, names
from sandbox.shared import shared_sandbox

VENDORS = [name for name in names() if name != "studio"]  # the studio is in this very process


@pytest.fixture(params=[*names(), "newcomer"])
async def on_bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    async with bench(request.param) as found:
        yield found


async def submitted(
    on_bench: Bench, how: str, kind: MediaKind = MediaKind.IMAGE
) -> tuple[Order, Any]:
    order = an_order(on_bench, kind, **on_bench.behave(how))
    outcome = await on_bench.provider.submit(order)
    known = getattr(outcome, "task_id", None) or order.task_id
    return replace(order, task_id=known), outcome


async def test_an_image_comes_with_its_call(on_bench: Bench) -> None:
    order, outcome = await submitted(on_bench, "fine")
    assert isinstance(outcome, Finished)
    assert order.task_id
    json.dumps(outcome.media.to_json(), allow_nan=False)
    if outcome.media.url == DRAWN:
        assert (await on_bench.provider.draw(order)).content
    else:
        target_of(outcome.media.url, (), [outcome.media.url.split("/")[2]])


async def test_a_video_is_taken_and_told_of(on_bench: Bench) -> None:
    order, outcome = await submitted(on_bench, "fine", MediaKind.VIDEO)
    assert isinstance(outcome, Accepted)
    [report] = on_bench.provider.reports(on_bench.told(order.task_id))
    assert report.task_id == order.task_id
    assert isinstance(report.outcome, Finished)


async def test_a_refusal_is_final(on_bench: Bench) -> None:
    _, outcome = await submitted(on_bench, "refused")
    assert isinstance(outcome, Refused)
    assert outcome.error.code is TaskErrorCode.REFUSED
    assert outcome.error.message


async def test_being_turned_away_is_not(on_bench: Bench) -> None:
    _, outcome = await submitted(on_bench, "busy")
    assert isinstance(outcome, ProviderTrouble)
    assert (outcome.busy, outcome.sent) == (True, False)
    _, again = await submitted(on_bench, "fine")
    assert isinstance(again, Finished)


@pytest.mark.parametrize("name", VENDORS)
async def test_a_lost_answer_may_have_been_taken(name: str) -> None:
    async with bench(name) as on_bench:
        order, outcome = await submitted(on_bench, "lost")
        assert isinstance(outcome, ProviderTrouble)
        assert outcome.sent
        if not on_bench.provider.chooses_ids:
            assert isinstance(await on_bench.provider.poll(order), Finished)


async def test_asking(on_bench: Bench) -> None:
    provider = on_bench.provider
    if not provider.can_be_asked:
        with pytest.raises(NotImplementedError):
            await provider.poll(an_order(on_bench))
        return
    order, _ = await submitted(on_bench, "fine")
    outcome = await provider.poll(order)
    assert isinstance(outcome, Finished)
    never = replace(order, task_id="00000000-0000-4000-8000-000000000000")
    assert isinstance(await provider.poll(never), TaskUnknown)
    assert isinstance(await provider.poll(replace(order, task_id="../../etc")), TaskUnknown)


async def test_cancelling(on_bench: Bench) -> None:
    if not on_bench.provider.cancels:
        with pytest.raises(NotImplementedError):
            await on_bench.provider.cancel(an_order(on_bench))
        return
    order, _ = await submitted(on_bench, "fine", MediaKind.VIDEO)
    assert await on_bench.provider.cancel(order)


@pytest.mark.parametrize("name", VENDORS)
async def test_a_vendor_that_cannot_be_reached(name: str) -> None:
    away = {
        f"{name}_url": "http://127.0.0.1:9/v1",
        "runware_api_key": "k",
        "replicate_api_token": "k",
    }
    async with built(name, **away) as provider:
        order = Order("g", "a", 0, "id", MediaKind.IMAGE, "m", {"prompt": "p"}, WEBHOOK, 5.0)
        for ask in (provider.submit, provider.poll):
            outcome = await ask(order)
            assert isinstance(outcome, ProviderTrouble)
            assert not outcome.sent


async def test_a_wrong_key_is_a_refusal() -> None:
    async with bench("runware") as one:
        settings = {**one.emulator.settings, "runware_api_key": "wrong"}  # type: ignore[attr-defined]  # its own
        async with built("runware", **settings) as provider:
            outcome = await provider.submit(an_order(one))
    assert isinstance(outcome, Refused)
    assert "wrong" not in outcome.error.message


def test_without_a_key_it_is_not_offered() -> None:
    from safelight.generations.providers.base import ProviderDeps
    from safelight.infra.injected import SystemClock
    from safelight.settings import load

    async def deliver(order: Order, outcome: str, delay: float) -> None:
        return None

    deps = ProviderDeps(load(), SystemClock(), deliver, shared_sandbox())
    assert [one.name for one in PROVIDERS if one.build(deps) is not None] == ["studio"]


async def test_a_signing_key_that_is_none_is_said_at_start() -> None:
    given = {"replicate_api_token": "k", "replicate_webhook_secret": "whsec_x"}
    with pytest.raises(ConfigurationError, match="SAFELIGHT_REPLICATE_WEBHOOK_SECRET"):
        async with built("replicate", **given):
            pass


def test_an_order_does_not_show_its_webhook() -> None:
    order = Order("g", "a", 0, "id", MediaKind.IMAGE, "m", {}, WEBHOOK, 5.0)
    assert "token=" not in repr(order)


NAMES = {
    "runware": ["runware:100@1", "civitai:618692@691639", "something", "a/b/c", "x" * 200],
    "replicate": ["acme/film", "acme/film-2.1:0a1b2c", "5c7d5dc6", "a_b/c.d"],
}
NO_NAMES = [
    "", " ", "../deployments/x", "a/..", "..", ".", "a/.", "a//b", "/a", "a/", "a/b:", ":v", "a/b/../c",
    "a b", "a/b?x=1", "a/b#x", "a/%2e%2e", "a\\b", "a/b\n", "\u202ea/b", "é/b", "x" * 201, "a/" + "x" * 300,
]  # fmt: skip


@pytest.mark.parametrize("name", VENDORS)
async def test_names_that_a_model_can_have(name: str) -> None:
    """They become part of an address or of a message that carries the operator's key."""
    async with bench(name) as on_bench:
        for model in NAMES[name]:
            on_bench.provider.check(model, MediaKind.IMAGE, {})
        for model in NO_NAMES:
            with pytest.raises(InvalidRequest, match=r"^model: "):
                on_bench.provider.check(model, MediaKind.IMAGE, {})


async def test_an_order_of_an_older_version_leaves_no_path_behind() -> None:
    """It was accepted when names were not looked at."""
    async with bench("replicate") as on_bench:
        order = replace(an_order(on_bench), model="../deployments/x")
        assert isinstance(await on_bench.provider.submit(order), Refused)
        assert on_bench.emulator.server.seen == []  # type: ignore[attr-defined]  # its own


# Whatever a vendor, or somebody who knows a token, sends


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(likely)
@example({"id": "x", "status": []})  # no member of any set
def test_no_body_is_too_strange(payload: Any) -> None:
    for provider in VENDORS_OFFLINE:
        for report in provider.reports(payload):
            assert isinstance(report, Report)
            assert report.task_id is None or isinstance(report.task_id, str)
            if isinstance(report.outcome, Finished):
                text = json.dumps(report.outcome.media.to_json(), allow_nan=False)
                assert "\\u0000" not in text
            elif isinstance(report.outcome, Refused):
                assert 0 < len(report.outcome.error.message) < 1000
