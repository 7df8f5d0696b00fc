"""What an organization does not publish, as its admins say it."""

from safelight.accounts.access import Role
from submissions.desk import ORG, Desk
from submissions.pictures import photo, plain

PATH = f"/api/organizations/{ORG}/blocklist"
SUM = "a" * 64
PRINT = "0123456789abcdef-fedcba9876543210"


async def test_adding_listing_and_removing(desk: Desk) -> None:
    async with await desk.as_role(Role.ADMIN) as admin:
        made = []
        for body in ({"checksum": SUM, "note": "spam"}, {"fingerprint": PRINT}):
            desk.clock.advance(seconds=1)
            response = await admin.post(PATH, json=body)
            assert response.status_code == 201
            made.append(response.json())
        assert (made[0]["checksum"], made[0]["fingerprint"], made[0]["note"]) == (SUM, None, "spam")
        assert (made[1]["checksum"], made[1]["fingerprint"]) == (None, PRINT)
        page = (await admin.get(f"{PATH}?limit=1")).json()
        assert page["items"] == made[1:]
        rest = (await admin.get(f"{PATH}?cursor={page['nextCursor']}")).json()
        assert (rest["items"], rest["nextCursor"]) == (made[:1], None)
        assert (await admin.delete(f"{PATH}/{made[0]['id']}")).status_code == 204
        assert (await admin.delete(f"{PATH}/{made[0]['id']}")).status_code == 404
        assert [entry["id"] for entry in (await admin.get(PATH)).json()["items"]] == [made[1]["id"]]


async def test_what_cannot_be_blocked(desk: Desk) -> None:
    async with await desk.as_role(Role.ADMIN) as admin:
        for body, status in (
            ({}, 422),
            ({"checksum": SUM, "fingerprint": PRINT}, 422),
            ({"checksum": SUM.upper()}, 422),
            ({"checksum": "a"}, 422),
            ({"fingerprint": "zz"}, 422),
            ({"fingerprint": PRINT[:-1]}, 422),
            ({"submission": "sub_none"}, 404),
            ({"checksum": SUM, "note": "x" * 501}, 422),
        ):
            response = await admin.post(PATH, json=body)
            assert response.status_code == status, body


async def test_admins_of_the_organization_only(desk: Desk) -> None:
    for role in (Role.VIEWER, Role.MEMBER, Role.APPROVER):
        async with await desk.as_role(role) as client:
            assert (await client.get(PATH)).status_code == 403
            assert (await client.post(PATH, json={"checksum": SUM})).status_code == 403
    async with await desk.as_role(Role.ADMIN) as admin:
        entry = (await admin.post(PATH, json={"checksum": SUM})).json()["id"]
    async with await desk.as_role(Role.ADMIN, "globex") as stranger:
        assert (await stranger.get(PATH)).status_code == 404
        elsewhere = f"/api/organizations/globex/blocklist/{entry}"
        assert (await stranger.delete(elsewhere)).status_code == 404


async def test_a_checksum_is_for_exactly_those_bytes(desk: Desk) -> None:
    submission = await desk.submit(plain("red"), "red.png", "image/png")
    await desk.work()
    async with await desk.as_role(Role.ADMIN) as admin:
        entry = (await admin.post(PATH, json={"submission": submission})).json()
        assert entry["fingerprint"] is None  # no contrast, so nothing to compare by looks
        again = await desk.submit(plain("red"), "again.png", "image/png")
        other = await desk.submit(plain("blue"), "blue.png", "image/png")
        await desk.work()
        assert (await desk.see(again))["rejection"]["code"] == "POLICY"
        assert (await desk.see(other))["state"] == "PUBLISHED"
        await admin.delete(f"{PATH}/{entry['id']}")
    third = await desk.submit(plain("red"), "third.png", "image/png")
    await desk.work()
    assert (await desk.see(third))["state"] == "AWAITING_APPROVAL"  # a duplicate, no more


async def test_another_organizations_list_does_not_count(desk: Desk) -> None:
    first = await desk.submit(photo("daisy"))
    await desk.work()
    async with await desk.as_role(Role.ADMIN) as admin:
        await admin.post(PATH, json={"submission": first})
    await desk.put("daisy.jpg", photo("daisy"), organization="globex")
    async with await desk.as_role(Role.MEMBER, "globex") as client:
        wanted = {"source": {"upload": "daisy.jpg"}}
        other = (await client.post("/api/v1/submissions", json=wanted)).json()["id"]
    await desk.work()
    assert (await desk.public(other)).status_code == 200
