"""The routes: who may, what is refused, how lists page, and that doing it twice is fine."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from emulators.runware import Plan, Runware
from generations.world import Client, World, world
from safelight.accounts.access import Role
from safelight.testing.waiting import until

FIELDS = [
    "id", "status", "provider", "kind", "model", "input", "tags", "count", "artifactCount",
    "progress", "tasks", "cost", "createdAt", "timeoutAt", "completedAt",
]  # fmt: skip
ARTIFACT_FIELDS = [
    "id", "generationId", "contentType", "sizeBytes", "checksum", "metadata", "tags", "createdAt",
]  # fmt: skip
SMALL = {"prompt": "p", "width": 64, "height": 64}


@pytest.fixture
def here(database_url: str, directory: Path) -> dict[str, Any]:
    return {"database_url": database_url, "directory": directory}


async def code_of(response: httpx.Response) -> tuple[int, str]:
    body = response.json()
    assert set(body) == {"error", "code"}, body
    return response.status_code, body["code"]


BAD_BODIES: list[tuple[Any, int, str]] = [
    ({"input": {}}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora"}, 422, "INVALID_REQUEST"),
    ({"model": "", "input": {}}, 422, "INVALID_REQUEST"),
    ({"model": 5, "input": {}}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora", "input": []}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora", "input": {}, "count": 0}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora", "input": {}, "count": 21}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora", "input": {}, "count": True}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora", "input": {}, "count": "2"}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora", "input": {}, "kind": "audio"}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora", "input": {}, "tags": ["a/b"]}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora", "input": {}, "tags": "red"}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora", "input": {}, "cuont": 2}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora", "input": {"width": 9}}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora", "input": {"prompt": "\0"}}, 422, "INVALID_REQUEST"),
    ({"model": "studio/aurora", "input": {"prompt": "\ud800"}}, 422, "INVALID_REQUEST"),
    ({"model": "studio/unknown", "input": {}}, 422, "INVALID_REQUEST"),
    ({"model": "anything", "input": {}}, 422, "INVALID_REQUEST"),
    ({"model": "m", "input": {}, "provider": "nobody"}, 422, "INVALID_REQUEST"),
    ({"model": "runware:1@1", "input": {}}, 422, "INVALID_REQUEST"),
    ({"model": "m", "input": {}, "provider": "replicate"}, 422, "INVALID_REQUEST"),
    ([], 422, "INVALID_REQUEST"),
    (b"{", 400, "INVALID_JSON"),
    (b'{"model": "studio/aurora", "input": {"n": NaN}}', 422, "INVALID_REQUEST"),
    (b'{"model": "m", "input": ' + b"[" * 5000 + b"]" * 5000 + b"}", 422, "INVALID_REQUEST"),
]


async def test_bodies_that_are_refused(here: dict[str, Any]) -> None:
    async with world(**here, worker=False) as made, made.client() as client:
        kind = {"content-type": "application/json"}
        for body, status, code in BAD_BODIES:
            content = body if isinstance(body, bytes) else json.dumps(body)
            response = await client.http.post("/generations", content=content, headers=kind)
            assert await code_of(response) == (status, code), body
        plain = await client.http.post(
            "/generations", content="{}", headers={"content-type": "text/plain"}
        )
        assert await code_of(plain) == (415, "UNSUPPORTED_MEDIA_TYPE")
        assert await made.db.fetchval("SELECT count(*) FROM generations_inflight") == 0
        assert await made.db.fetchval("SELECT count(*) FROM jobs") == 0


async def test_shapes_in_flight_and_afterwards(here: dict[str, Any]) -> None:
    async with world(**here) as made, made.client() as client:
        response = await client.http.post(
            "/generations",
            json={"model": "studio/horizon", "input": {**SMALL, "delaySeconds": 0.5}},
        )
        assert response.status_code == 202
        assert list(response.json()) == ["id"]
        generation = response.json()["id"]
        assert (len(generation), generation[14]) == (36, "7")
        active = await client.show(generation)
        assert list(active) == FIELDS
        assert (active["count"], active["kind"], active["tags"]) == (1, "image", [])
        assert list(active["tasks"][0]) == ["artifactId", "status", "error"]
        assert active["createdAt"].endswith("Z")
        done = await client.over(generation)
        assert list(done) == FIELDS
        for same in ("id", "createdAt", "timeoutAt", "input", "model"):
            assert done[same] == active[same]
        [artifact] = await client.items("/artifacts")
        assert list(artifact) == ARTIFACT_FIELDS
        assert artifact["id"] == done["tasks"][0]["artifactId"]


async def test_who_may(here: dict[str, Any]) -> None:
    async with world(**here) as made, made.client() as client:
        done = await client.over(await client.ask("studio/horizon", input=SMALL))
        artifact = done["tasks"][0]["artifactId"]
        reads = [f"/generations/{done['id']}", f"/generations/{done['id']}/artifacts",
                 f"/generations/{done['id']}/history", f"/artifacts/{artifact}",
                 f"/artifacts/{artifact}/content"]  # fmt: skip
        writes = [("POST", f"/generations/{done['id']}/cancel"),
                  ("PUT", f"/generations/{done['id']}/tags/t"),
                  ("DELETE", f"/generations/{done['id']}/tags/t"),
                  ("PUT", f"/artifacts/{artifact}/tags/t"),
                  ("DELETE", f"/artifacts/{artifact}/tags/t"),
                  ("DELETE", f"/artifacts/{artifact}")]  # fmt: skip
        async with made.client("globex") as stranger, made.client(role=Role.VIEWER) as viewer:
            for path in reads:
                assert await code_of(await stranger.http.get(path)) == (404, "NOT_FOUND")
                assert (await viewer.http.get(path)).status_code == 200
            for method, path in writes:
                assert await code_of(await stranger.http.request(method, path)) == (
                    404,
                    "NOT_FOUND",
                )
                assert await code_of(await viewer.http.request(method, path)) == (403, "FORBIDDEN")
            refused = await viewer.http.post(
                "/generations", json={"model": "studio/aurora", "input": {}}
            )
            assert await code_of(refused) == (403, "FORBIDDEN")
            assert await stranger.items("/artifacts") == []
            assert await stranger.items("/generations") == []
        async with httpx.AsyncClient(base_url=made.url, trust_env=False) as nobody:
            for path in (*reads, "/generations", "/artifacts", "/api/models"):
                assert await code_of(await nobody.get(path)) == (401, "UNAUTHENTICATED")


async def test_the_same_key_is_the_same_request(here: dict[str, Any]) -> None:
    async with world(**here, worker=False) as made, made.client() as client:
        key = {"Idempotency-Key": "order-1"}
        wanted = {"model": "studio/aurora", "input": SMALL, "count": 2}
        respelt = {
            "count": 2,
            "input": dict(reversed(SMALL.items())),
            "model": "studio/aurora",
            "tags": [],
        }
        answers = await asyncio.gather(
            *(
                client.http.post("/generations", json=body, headers=key)
                for body in [wanted, respelt] * 4
            )
        )
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert await made.db.fetchval("SELECT count(*) FROM generations_inflight") == 1
        other = await client.http.post("/generations", json={**wanted, "count": 3}, headers=key)
        assert await code_of(other) == (409, "IDEMPOTENCY_KEY_REUSED")
        async with made.client("globex") as elsewhere:
            theirs = await elsewhere.http.post("/generations", json=wanted, headers=key)
            assert theirs.json()["id"] != answers[0].json()["id"]
        bad = await client.http.post(
            "/generations", json=wanted, headers={"Idempotency-Key": "a b"}
        )
        assert await code_of(bad) == (422, "INVALID_REQUEST")
        await made.db.execute("UPDATE kv SET expires_at = 1 WHERE key LIKE 'idempotency:acme:%'")
        later = await client.http.post("/generations", json=wanted, headers=key)
        assert later.json()["id"] != answers[0].json()["id"]


async def test_a_refused_request_leaves_its_key_free(here: dict[str, Any]) -> None:
    async with world(**here, worker=False) as made, made.client() as client:
        key = {"Idempotency-Key": "k"}
        bad = {"model": "studio/none", "input": {}}
        assert (await client.http.post("/generations", json=bad, headers=key)).status_code == 422
        assert await client.ask("studio/aurora", input=SMALL, headers=key)


# Tags


async def tags_of(client: Client, path: str) -> list[str]:
    return list((await client.http.get(path)).json()["tags"])


async def test_tags_of_a_generation(database_url: str, directory: Path, vendor: Runware) -> None:
    gate = asyncio.Event()
    vendor.plans = {1: Plan(gate=gate)}
    async with world(database_url, directory, **vendor.settings) as made, made.client() as client:
        generation = await client.ask(count=2, input={"prompt": "p", "seed": 0}, tags=["red"])
        path = f"/generations/{generation}"
        for _ in range(2):
            assert (await client.http.put(f"{path}/tags/e%CC%81t%C3%A9")).status_code == 204
            assert (await client.http.delete(f"{path}/tags/red")).status_code == 204
        assert await tags_of(client, path) == ["été"]
        await until(lambda: client.items("/artifacts"))
        assert len(await client.items("/artifacts", tag="été")) == 1  # while it is under way too
        assert await client.items("/artifacts", tag="red") == []
        assert await client.items("/generations", tag="été") == []
        assert len(await client.items("/generations", tag="été", status="active")) == 1
        assert await made.db.fetchval("SELECT count(*) FROM tags") == 0
        gate.set()
        await client.over(generation)
        assert await tags_of(client, path) == ["été"]
        await client.http.put(f"{path}/tags/late")
        await client.http.put(f"{path}/tags/late")
        assert await tags_of(client, path) == ["late", "été"]
        assert len(await client.items("/artifacts", tag="late")) == 2
        assert [one["id"] for one in await client.items("/generations", tag="late")] == [generation]
        await client.http.delete(f"{path}/tags/late")
        assert await client.items("/generations", tag="late") == []
        for bad in ("a%2Fb", "a/b", "%00", "x" * 65):
            answer = await client.http.put(f"{path}/tags/{bad}")
            assert await code_of(answer) == (422, "INVALID_REQUEST"), bad
        assert (await client.http.put("/generations/none/tags/x")).status_code == 404


async def test_tags_of_an_artifact(here: dict[str, Any]) -> None:
    async with world(**here) as made, made.client() as client:
        wanted = {**SMALL, "seed": 1}
        done = await client.over(
            await client.ask("studio/horizon", count=2, input=wanted, tags=["both"])
        )
        first, second = (task["artifactId"] for task in done["tasks"])
        for _ in range(2):
            assert (await client.http.put(f"/artifacts/{first}/tags/best")).status_code == 204
        assert await tags_of(client, f"/artifacts/{first}") == ["best"]
        assert await tags_of(client, f"/artifacts/{second}") == []
        assert [one["id"] for one in await client.items("/artifacts", tag="best")] == [first]
        assert len(await client.items("/artifacts", tag="both")) == 2
        assert await client.items("/generations", tag="best") == []
        await client.http.put(f"/artifacts/{first}/tags/both")
        assert len(await client.items("/artifacts", tag="both")) == 2  # no one twice
        await client.http.delete(f"/artifacts/{first}/tags/best")
        assert await client.items("/artifacts", tag="best") == []
        assert (await client.http.put("/artifacts/none/tags/x")).status_code == 404


# Lists


async def seeded(made: World, amount: int) -> None:
    """Finished generations with an artifact each; two share every moment."""
    await made.db.execute(
        """
        INSERT INTO generations SELECT 'g' || lpad(n::text, 4, '0'), 'acme', 'ready', 'studio',
            'image', 'm', '{}', 1, 1, '[]', 0, 1000 + n / 2, 2000, 3000
        FROM generate_series(1, $1::int) AS n
        """,
        amount,
    )
    await made.db.execute(
        """
        INSERT INTO artifacts SELECT 'a' || lpad(n::text, 4, '0'), 'acme',
            'g' || lpad(n::text, 4, '0'), 'image/png', 1, 'x', '{}', 1000 + n / 2
        FROM generate_series(1, $1::int) AS n
        """,
        amount,
    )
    await made.db.execute(
        "INSERT INTO tags SELECT 'acme', 'odd', 'generation', id FROM generations "
        "WHERE right(id, 1)::int % 2 = 1"
    )


async def walked(client: Client, path: str, limit: int, **query: Any) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        asked = {**query, "limit": limit, **({"cursor": cursor} if cursor else {})}
        answer = (await client.http.get(path, params=asked)).json()
        found += [item["id"] for item in answer["items"]]
        cursor = answer["nextCursor"]
        if cursor is None:
            return found


async def test_paging(here: dict[str, Any]) -> None:
    async with world(**here, worker=False) as made, made.client() as client:
        await seeded(made, 25)
        for path, letter in (("/generations", "g"), ("/artifacts", "a")):
            expected = [f"{letter}{n:04d}" for n in range(25, 0, -1)]
            for limit in (4, 25, 200):
                assert await walked(client, path, limit) == expected
            odd = [one for one in expected if int(one[-1]) % 2]
            assert await walked(client, path, 4, tag="odd") == odd
            for bad in ({"limit": 0}, {"limit": 201}, {"cursor": "nonsense"}, {"tag": ""}):
                assert await code_of(await client.http.get(path, params=bad)) == (
                    422,
                    "INVALID_REQUEST",
                )
        first = (await client.http.get("/artifacts", params={"limit": 5})).json()
        crossed = await client.http.get("/generations", params={"cursor": first["nextCursor"]})
        assert await code_of(crossed) == (422, "INVALID_REQUEST")
        assert await code_of(await client.http.get("/generations?status=nonsense")) == (
            422,
            "INVALID_REQUEST",
        )
        assert await walked(client, "/generations", 9, status="failed") == []
        assert await walked(client, "/artifacts", 9, generationId="g0007") == ["a0007"]


async def test_paging_while_rows_come_and_go(here: dict[str, Any]) -> None:
    async with world(**here, worker=False) as made, made.client() as client:
        await seeded(made, 30)
        first = (await client.http.get("/artifacts", params={"limit": 10})).json()
        await made.db.execute(
            "INSERT INTO artifacts SELECT 'new', 'acme', 'g', 'image/png', 1, 'x', '{}', 9999"
        )
        await made.db.execute("DELETE FROM artifacts WHERE id IN ('a0030', 'a0021', 'a0020')")
        rest = await client.http.get(
            "/artifacts", params={"limit": 100, "cursor": first["nextCursor"]}
        )
        ids = [item["id"] for item in rest.json()["items"]]
        assert ids == [f"a{n:04d}" for n in range(19, 0, -1)]


async def test_active_ones_page_too(here: dict[str, Any]) -> None:
    async with world(**here, worker=False) as made, made.client() as client:
        ids = [await client.ask("studio/aurora", input=SMALL) for _ in range(5)]
        assert sorted(await walked(client, "/generations", 2, status="active")) == sorted(ids)


# Deleting


async def test_deleting_an_artifact(here: dict[str, Any]) -> None:
    async with world(**here) as made, made.client() as client:
        done = await client.over(await client.ask("studio/horizon", input=SMALL, tags=["kept"]))
        artifact = done["tasks"][0]["artifactId"]
        await client.http.put(f"/artifacts/{artifact}/tags/own")
        path = f"/artifacts/{artifact}"
        answers = await asyncio.gather(*(client.http.delete(path) for _ in range(4)))
        assert [answer.status_code for answer in answers] == [204] * 4
        assert (await client.http.delete(path)).status_code == 204
        for gone in (path, f"{path}/content"):
            assert await code_of(await client.http.get(gone)) == (404, "NOT_FOUND")
        assert (await client.http.put(f"{path}/tags/x")).status_code == 404
        assert await client.items("/artifacts") == []
        assert list(await made.store.list("artifacts/")) == []
        assert await made.db.fetchval("SELECT count(*) FROM tags") == 1
        assert (await client.show(done["id"]))["status"] == "ready"
        assert (await client.story(done["id"])).count("artifact_deleted") == 1
        assert (await client.http.delete("/artifacts/never")).status_code == 404
        async with made.client("globex") as stranger:
            assert (await stranger.http.delete(path)).status_code == 404
        async with made.client(role=Role.VIEWER) as viewer:
            assert (await viewer.http.delete(path)).status_code == 403


async def test_counts_are_of_what_is_there(here: dict[str, Any]) -> None:
    """What was made, and what it cost, stays what it was."""
    async with world(**here) as made, made.client() as client:
        wanted = {**SMALL, "fail": "silent", "failTasks": [2]}
        generation = await client.ask("studio/horizon", count=3, input=wanted)
        path = f"/generations/{generation}/artifacts"

        async def two() -> list[dict[str, Any]] | None:
            found = await client.items(path)
            return found if len(found) == 2 else None

        first, second = await until(two)
        await client.http.delete(f"/artifacts/{first['id']}")
        [active] = await client.items("/generations", status="active")
        assert (active["artifactCount"], active["progress"]["ready"]) == (1, 2)
        assert (await client.show(generation))["artifactCount"] == 1
        await client.http.post(f"/generations/{generation}/cancel")
        assert (await client.show(generation))["artifactCount"] == 1
        await client.http.delete(f"/artifacts/{second['id']}")
        [done] = await client.items("/generations")
        assert (done["status"], done["artifactCount"]) == ("ready", 0)
        assert done["progress"] == {"ready": 2, "failed": 1, "total": 3}
        spent = (await client.http.get("/api/organizations/acme/spending")).json()
        assert spent["providers"][0]["artifacts"] == 2


async def test_models(here: dict[str, Any]) -> None:
    async with world(**here, worker=False, runware_api_key="k") as made, made.client() as client:
        listed = (await client.http.get("/api/models")).json()
        assert {model["id"] for model in listed["items"]} == {
            "studio/horizon", "studio/aurora", "studio/nocturne", "studio/bloom",
        }  # fmt: skip
        configured = {one["name"]: one["configured"] for one in listed["providers"]}
        assert configured == {"runware": True, "replicate": False, "studio": True}
