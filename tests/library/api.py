"""The library as a caller sees it."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from harness import picture
from inprocess import Application
from safelight.infra.queue.queue import Queue
from safelight.testing.waiting import until

ORGANIZATION = "/api/organizations/default"
LIBRARY = f"{ORGANIZATION}/uploads"
EVENTS = "/api/events/objects"
EVENTS_TOKEN = "e" * 32
Json = dict[str, Any]


@dataclass
class Api:
    app: Application
    client: httpx.AsyncClient

    async def upload(self, name: str, content: bytes | None = None) -> Json:
        files = {"file": (name, content or picture())}
        answer = await self.client.post("/api/upload", files=files)
        assert answer.status_code == 201, answer.text
        body: Json = answer.json()
        return body

    async def image(self, image_id: str) -> Json:
        body: Json = (await self.client.get(f"/api/images/{image_id}")).json()
        return body

    async def stored(self, image: Json) -> Json:
        async def check() -> Any:
            found = await self.image(image["imageId"])
            return found if found["status"] == "STORED" else None

        found: Json = await until(check)
        return found

    async def entry(self, name: str) -> Json | None:
        answer = await self.client.get(f"{LIBRARY}/{quote(name)}")
        body: Json = answer.json()
        return body if answer.status_code == 200 else None

    async def settled(self, name: str, status: str = "done", label: str | None = None) -> Json:
        """The entry, once its classification has come that far."""

        async def check() -> Any:
            found = await self.entry(name)
            if found is None or found["classificationStatus"] != status:
                return None
            return found if label in {None, found["classificationLabel"]} else None

        found: Json = await until(check)
        return found

    async def delete(self, name: str) -> int:
        return (await self.client.delete(f"{LIBRARY}/{quote(name)}")).status_code

    async def gone(self, name: str) -> None:
        async def check() -> bool:
            return await self.entry(name) is None

        await until(check)

    async def content(self, name: str) -> bytes | None:
        answer = await self.client.get(f"{LIBRARY}/{quote(name)}/content")
        return answer.content if answer.status_code == 200 else None

    async def story(self, name: str) -> list[Json]:
        answer = await self.client.get(f"{LIBRARY}/{quote(name)}/history", params={"limit": 200})
        items: list[Json] = answer.json()["items"]
        return items

    async def types(self, name: str) -> list[str]:
        return [item["type"] for item in await self.story(name)]

    async def skipped(self, name: str) -> list[str]:
        """Why events of a name changed nothing."""
        kind = "classification_workflow_skipped"
        return [item["reason"] for item in await self.story(name) if item["type"] == kind]

    async def told(self, name: str, kind: str, times: int = 1) -> list[Json]:
        """The lines of a kind in a name's history, once there are so many."""

        async def check() -> Any:
            found = [item for item in await self.story(name) if item["type"] == kind]
            return found if len(found) >= times else None

        found: list[Json] = await until(check)
        return found

    async def messages(self, kind: str) -> list[Json]:
        """What everybody was told, of one type."""
        answer = await self.client.get(
            f"{ORGANIZATION}/activity", params={"types": kind, "limit": 200}
        )
        items: list[Json] = answer.json()["items"]
        return items

    async def tell(self, *events: Json) -> None:
        async with self.app.client(EVENTS_TOKEN) as sender:
            answer = await sender.post(EVENTS, json=list(events))
        assert answer.json()["accepted"] == len(events), answer.text

    async def letters(self) -> list[Json]:
        items: list[Json] = (await self.client.get(f"{ORGANIZATION}/dead-letters")).json()["items"]
        return items

    async def dead(self, count: int = 1) -> list[Json]:
        async def check() -> Any:
            found = await self.letters()
            return found if len(found) >= count else None

        found: list[Json] = await until(check)
        return found

    async def redrive(self, letter: Json) -> int:
        path = f"{ORGANIZATION}/dead-letters/{letter['id']}/redrive"
        return (await self.client.post(path)).status_code

    async def idle(self) -> None:
        """Returns when nothing is left to do."""

        async def check() -> bool:
            left = "SELECT count(*) FROM jobs WHERE status <> 'dead'"
            return not await self.app.db.fetchval(left)

        await until(check)

    async def hurry(self) -> None:
        """What waits for a later time is due now."""
        await self.app.db.execute("UPDATE jobs SET run_at = now() WHERE status = 'delayed'")
        self.app.registry.get(Queue).wake()


def created(name: str, time: str, etag: str | None = None) -> Json:
    """As R2 tells of it."""
    about = {"key": f"default/{name}"} | ({"eTag": etag} if etag else {})
    return {"action": "PutObject", "object": about, "eventTime": time}


def deleted(name: str, time: str) -> Json:
    return {"action": "DeleteObject", "object": {"key": f"default/{name}"}, "eventTime": time}
