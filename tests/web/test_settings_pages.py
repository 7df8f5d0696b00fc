"""An organization's settings as a browser without scripts meets them, by every role."""

import html
import re
from decimal import Decimal
from typing import Any

import httpx
import pytest

from accounts.world import World
from safelight.accounts.access import Role
from safelight.errors import InvalidRequest
from safelight.library.retention.retention import RetentionLimits
from safelight.quotas.lifecycle import Meter
from safelight.quotas.limits import QuotaLimits
from safelight.submissions.policies.policies import Policies
from safelight.submissions.policies.policy import Fingerprint, Looks
from safelight.web.settings.amounts import exact_bytes, limit_in
from safelight.web.settings.spent import dollars

HERE = "/app/acme/settings"
SECTIONS = ("", "/tokens", "/publishing", "/usage", "/spending")
DAY = 86_400_000


@pytest.fixture
async def world(world: World) -> World:
    for service in (
        Policies(world.units, world.settings, world.ids),
        QuotaLimits(world.units),
        RetentionLimits(world.units, telling=False),
    ):
        world.registry.add(service)
    await world.organization("acme", "globex")
    await world.user("ada", {"acme": Role.ADMIN})
    await world.user("bob", {"acme": Role.VIEWER, "globex": Role.ADMIN})
    await world.user("op", {"acme": Role.MEMBER}, operator=True)
    return world


def text(response: httpx.Response) -> str:
    return " ".join(html.unescape(response.text).split())


async def browser(world: World, name: str) -> httpx.AsyncClient:
    return world.browser(await world.cookie(name))


async def test_who_may_not_change_anything_sees_no_form(world: World) -> None:
    bob = await browser(world, "bob")
    for section in SECTIONS:
        page = await bob.get(HERE + section)
        assert page.status_code == 200
        assert f'action="{HERE}' not in page.text
        assert "/admin/" not in page.text
        assert 'aria-current="true"' in page.text
    for action in ("/members", "/tokens", "/publishing", "/usage"):
        assert (await bob.post(HERE + action)).status_code == 403
    assert (await bob.get("/app/nowhere/settings")).status_code == 404
    assert "last seen" not in text(await bob.get(HERE))
    assert "Ask an admin of acme for a token." in text(await bob.get(HERE + "/tokens"))


async def test_inviting_and_what_becomes_of_it(world: World) -> None:
    ada = await browser(world, "ada")
    made = await ada.post(HERE + "/members", data={"username": " Dora ", "role": "member"})
    assert (made.status_code, made.headers["location"]) == (303, HERE)
    page = await ada.get(HERE)
    [code] = re.findall(r"http://safelight\.test/login\?code=([\w-]+)", page.text)
    assert "Give this link to" in page.text
    again = text(await ada.get(HERE))
    assert code not in again, "it is shown once"
    assert "Withdraw" in again
    assert "ends" in again
    async with world.browser() as dora:
        assert (await dora.post("/login", data={"code": code})).status_code == 303
        assert (await dora.get(HERE)).status_code == 200
        path = f"{HERE}/members/dora"
        changed = await ada.post(f"{path}/role", data={"role": "admin"})
        assert changed.headers["location"] == f"{HERE}?saved=true"
        assert "Saved." in text(await ada.get(changed.headers["location"]))
        assert (await dora.post(f"{HERE}/members/ada/role", data={"role": "viewer"})).is_redirect
        refused = await dora.post(f"{path}/role", data={"role": "viewer"})
        assert refused.status_code == 409
        assert "last admin" in text(refused)
        assert (await dora.post(f"{HERE}/members/ada/remove")).is_redirect
        assert (await dora.post(f"{HERE}/members/ada/remove")).status_code == 404
        assert (await dora.post(f"{HERE}/members/bob/role", data={"role": "admin"})).is_redirect
        assert (await dora.post(f"{path}/remove")).headers["location"] == "/", "herself"
    assert (await ada.get(HERE)).status_code == 404


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"username": "bob", "role": "admin"}, 409, "bob is a member already."),
        ({"username": "Ä<b>", "role": "admin"}, 422, "A username has 1 to 64 characters"),
        ({"username": "dora", "role": "king"}, 422, "Choose one of the roles"),
    ],
)
async def test_an_invitation_that_cannot_be(
    world: World, given: dict[str, str], status: int, words: str
) -> None:
    ada = await browser(world, "ada")
    refused = await ada.post(HERE + "/members", data=given)
    assert refused.status_code == status
    assert words in text(refused)
    assert "<b>" not in refused.text
    roles = await world.db.fetchval("SELECT count(*) FROM memberships WHERE role = 'admin'")
    assert roles == 2


async def test_withdrawing_and_a_link_of_another_organization(world: World) -> None:
    ada, bob = await browser(world, "ada"), await browser(world, "bob")
    await ada.post(HERE + "/members", data={"username": "dora", "role": "member"})
    withdrawn = f"{HERE}/invitations/dora/withdraw"
    assert (await ada.post(withdrawn)).is_redirect
    assert (await ada.post(withdrawn)).status_code == 404
    assert "Give this link" not in (await ada.get(HERE)).text, "it leads nowhere"
    await bob.post("/app/globex/settings/members", data={"username": "dora", "role": "member"})
    [planted] = [c.value for c in bob.cookies.jar if c.name == "safelight_new_link"]
    ada.cookies.set("safelight_new_link", str(planted), domain="safelight.test")
    assert "Give this link" not in (await ada.get(HERE)).text


async def test_a_token_is_shown_once_used_and_revoked(world: World) -> None:
    ada, here = await browser(world, "ada"), f"{HERE}/tokens"
    made = await ada.post(here, data={"name": "laptop <b>", "role": "viewer", "days": "30"})
    assert (made.status_code, made.headers["location"]) == (303, here)
    page = await ada.get(here)
    [secret] = set(re.findall(r"slt_[\w-]{20,}", page.text))
    assert "<b>" not in page.text
    again = text(await ada.get(here))
    assert secret not in again
    assert "Not used yet" in again
    assert await world.db.fetchval("SELECT count(*) FROM tokens") == 1, "looking makes none"
    async with world.program(secret) as program:
        body = (await program.get("/api/me")).json()
        assert (body["name"], body["organizations"][0]["role"]) == ("laptop <b>", "viewer")
        assert "Used" in text(await ada.get(here))
        [token] = re.findall(rf"{here}/(\w+)/revoke", (await ada.get(here)).text)
        assert (await ada.post(f"{here}/{token}/revoke")).is_redirect
        assert (await program.get("/api/me")).status_code == 401
    ended = text(await ada.get(here))
    assert "revoked" in ended
    assert "/revoke" not in ended
    assert (await ada.post(f"{here}/nothing/revoke")).status_code == 404


@pytest.mark.parametrize(
    "given",
    [
        {"name": "", "role": "viewer"},
        {"name": "x", "role": "king"},
        {"name": "a\nb", "role": "viewer"},
        {"name": "x", "role": "viewer", "days": "5000"},
    ],
)
async def test_a_token_that_cannot_be(world: World, given: dict[str, str]) -> None:
    ada = await browser(world, "ada")
    refused = await ada.post(f"{HERE}/tokens", data=given)
    assert refused.status_code == 422
    assert 'role="alert"' in refused.text
    assert await world.db.fetchval("SELECT count(*) FROM tokens") == 0


async def test_nobody_is_shown_the_token_of_another(world: World) -> None:
    ada = await browser(world, "ada")
    planted = await world.token("acme", Role.ADMIN)
    ada.cookies.set("safelight_new_token", planted, domain="safelight.test")
    assert "Your new token" not in (await ada.get(f"{HERE}/tokens")).text


async def test_what_is_published(world: World) -> None:
    ada, here = await browser(world, "ada"), f"{HERE}/publishing"
    given = {"review": "0,25", "block": "0.5", "labels": "Tabby, tabby cat\n\nseashore\r\ntabby"}
    assert (await ada.post(here, data=given)).is_redirect
    page = await ada.get(here)
    assert "From 0.25 on a person decides; from 0.5 on" in text(page)
    assert "SEASHORE\nTABBY</textarea>" in page.text
    for wrong, words in (
        ({"review": "2"}, "A score is a number from 0 to 1"),
        ({"review": "nan"}, "A score is a number from 0 to 1"),
        ({"review": "0.9", "block": "0.1"}, "must not be larger"),
        ({"labels": "x" * 101}, "at most 100 characters"),
        ({"labels": "\n".join(map(str, range(1001)))}, "At most 1,000 labels"),
    ):
        refused = await ada.post(here, data=wrong)
        assert refused.status_code == 422
        assert words in text(refused)
    assert "From 0.25 on" in text(await (await browser(world, "bob")).get(here))
    assert "seashore" in (await (await browser(world, "bob")).get(here)).text
    await ada.post(here, data={})
    assert 'placeholder="0.4"' in (await ada.get(here)).text


async def test_pictures_that_are_never_published(world: World) -> None:
    actor, policies = {"type": "user", "name": "ada"}, world.registry.get(Policies)
    looks = Looks(Fingerprint.parse("0123456789abcdef-0123456789abcdef"))
    await world.db.execute(
        "INSERT INTO uploads (organization, name, event_time, idempotency_key, checksum, image_id, "
        "classification_status, source) "
        "VALUES ('acme', 'a b.jpg', 1, 'k', $1, 'img_1', 'pending', 'upload')",
        "a" * 64,
    )
    await policies.block("acme", "a" * 64, looks, "logo <b>", actor)
    await policies.block("acme", None, looks, "", actor)
    ada = await browser(world, "ada")
    page = await ada.get(f"{HERE}/publishing")
    assert 'src="/api/organizations/acme/uploads/a%20b.jpg/thumbnail"' in page.text
    assert 'href="/app/acme/images/img_1"' in page.text
    assert "These bytes, and what looks like them" in page.text
    assert "<b>" not in page.text
    remove = re.findall(r'action="(/app/acme/settings/blocklist/\w+/remove)"', page.text)
    assert len(remove) == 2
    for action in remove:
        assert (await ada.post(action)).is_redirect
    assert (await ada.post(remove[0])).status_code == 404
    assert "/remove" not in (await ada.get(f"{HERE}/publishing")).text


async def test_how_long_originals_are_kept(world: World) -> None:
    ada, here = await browser(world, "ada"), f"{HERE}/usage"
    assert "Originals are kept for ever." in text(await ada.get(here))
    assert (await ada.post(here, data={"days": "30"})).is_redirect
    assert "Originals are kept for 30 days" in text(await ada.get(here))
    for wrong in ("0", "-1", "1.5", "40000", "٣", "x"):
        refused = await ada.post(here, data={"days": wrong})
        assert refused.status_code == 422
        assert "Give a number of days" in text(refused)
    assert (await ada.post(here, data={"days": " "})).is_redirect
    assert "Originals are kept for ever." in text(await ada.get(here))


async def test_operators_change_limits_where_they_are_shown(world: World) -> None:
    op, here, action = (
        await browser(world, "op"),
        f"{HERE}/usage",
        "/admin/organizations/acme/quotas",
    )
    given: dict[str, Any] = {"stored_bytes": "1.5 GiB", "uploads_per_minute": "0"}
    assert (await op.post(action, data=given)).headers["location"] == f"{here}?saved=true"
    page = await op.get(here)
    assert 'value="1536 MiB"' in page.text
    assert "0 bytes of 1.5 GiB" in text(page).replace("</strong>", "").replace("<strong>", "")
    refused = await op.post(action, data={"stored_bytes": "lots"})
    assert refused.status_code == 422
    assert "'lots' is no limit. Write it as 20 GiB, or 0 for none." in text(refused)
    elsewhere = action.replace("acme", "globex")
    assert (await op.post(elsewhere, data=given)).headers["location"] == "/admin/queue"
    assert (await op.post(elsewhere, data={"stored_bytes": "lots"})).status_code == 422
    assert (await op.post(action.replace("acme", "nowhere"), data=given)).status_code == 404
    ada = await browser(world, "ada")
    assert action not in (await ada.get(here)).text
    assert (await ada.post(action, data=given)).status_code == 403


@pytest.mark.parametrize(
    ("meter", "typed", "limit"),
    [
        (Meter.STORED_BYTES, "", None),
        (Meter.STORED_BYTES, "0", 0),
        (Meter.STORED_BYTES, "20 GiB", 20 * 1024**3),
        (Meter.STORED_BYTES, "2.5gb", 5 * 1024**3 // 2),
        (Meter.STORED_BYTES, "1,024 bytes", 1024),
        (Meter.STORED_BYTES, "512 M", 512 * 1024**2),
        (Meter.UPLOADS, " 1,000 ", 1000),
    ],
)
def test_limits_as_typed(meter: Meter, typed: str, limit: int | None) -> None:
    assert limit_in(meter, typed) == limit


@pytest.mark.parametrize("typed", ["-1", "1 XB", "GiB", "1e9", "9999999 PiB", "٣", ".", "x" * 99])
@pytest.mark.parametrize("meter", [Meter.STORED_BYTES, Meter.UPLOADS])
def test_no_limits(meter: Meter, typed: str) -> None:
    with pytest.raises(InvalidRequest):
        limit_in(meter, typed)


@pytest.mark.parametrize("amount", [0, 1, 1023, 1024, 1536 * 1024**2, 5 * 1024**4, 2**60])
def test_bytes_come_back_as_they_were(amount: int) -> None:
    assert limit_in(Meter.STORED_BYTES, exact_bytes(amount)) == amount


async def generation(
    world: World, provider: str, cost: str, days: int, organization: str = "acme"
) -> None:
    await world.db.execute(
        "INSERT INTO generations (id, organization, kind, provider, model, status, input, count, "
        "tasks, artifact_count, cost, created_at, timeout_at, completed_at) "
        "VALUES ($1, $2, 'image', $3, 'm', 'ready', '{}', 2, '[]', 2, $4, 0, 0, $5)",
        world.ids.short("gen"), organization, provider, Decimal(cost),
        world.clock.now_ms() - days * DAY,
    )  # fmt: skip


async def test_what_was_spent(world: World) -> None:
    ada, here = await browser(world, "ada"), f"{HERE}/spending"
    assert "There were no generations in that time." in text(await ada.get(here))
    await generation(world, "studio", "0", 0)
    page = text(await ada.get(here))
    assert "Nothing spent in 30 days" in page
    assert "free" in page
    assert '<svg class="chart' not in page
    for provider, cost, days in (
        ("runware", "0.0013", 0), ("runware", "1.5", 0), ("replicate", "0.25", 3), ("runware", "9", 31),
    ):  # fmt: skip
        await generation(world, provider, cost, days)
    await generation(world, "runware", "7", 0, "globex")
    page = text(await ada.get(here))
    assert "$1.75 spent in 30 days" in page
    assert re.search(r'runware</th><td class="number">2</td><td class="number">4</td>', page)
    assert page.count("chart__bar--spent") == 2
    assert re.search(r"\d{4}-\d\d-\d\d: runware \$1\.50<", page)


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ("0", "$0.00"),
        ("1.5", "$1.50"),
        ("0.0013", "$0.0013"),
        ("0.285", "$0.285"),
        ("3.495", "$3.50"),
        ("1234.5", "$1,234.50"),
    ],
)
def test_dollars(amount: str, words: str) -> None:
    assert dollars(Decimal(amount)) == words
