"""One real thing of every kind that an address can name, so that a fuzzer gets past the 404.

What is costly is made once, by the worker as in life; what an operation uses up and is cheap is made
anew each time. Names, titles and tags carry a script, which no page may hand on unescaped.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from accounts.world import CHEAP, PASSWORD
from harness import picture
from inprocess import Application
from safelight.accounts import repo
from safelight.accounts.access import Grant, Role
from safelight.accounts.members import Members
from safelight.accounts.sign_in.flow import SignIn
from safelight.accounts.tokens import Tokens
from safelight.generations.orders import WebhookAddresses
from safelight.generations.webhooks import Webhooks
from safelight.infra.injected import Clock, Ids
from safelight.testing.waiting import until

SCRIPT = "<script>fuzz</script>"
UPLOAD = f"ä {SCRIPT} #1?&%.jpg"
SPARE = "spare"  # another organization, whose quotas may become nothing
PATIENCE = 60.0
EVENTS_TOKEN = "e" * 40
# What a fuzzer orders is accepted and waits: nobody has to draw it.
SETTINGS: dict[str, Any] = {"events_token": EVENTS_TOKEN, "studio_delay_seconds": 3600}


@dataclass
class Things:
    app: Application
    client: httpx.AsyncClient
    known: dict[str, str] = field(default_factory=dict)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    async def make(self) -> None:
        await self.app.registry.get(Members).make_organization(SPARE)
        new = await self._post("/api/upload", files={"file": (UPLOAD, picture())})
        image = (await self.client.get(f"/api/images/{new['imageId']}")).json()
        await self._in_library(image["name"])
        generation = await self._generation()
        published = await self._submission(image["name"], "PUBLISHED")
        await self._put("submission-policy", safetyReview=0, safetyBlock=1)
        waiting = await self._submission(image["name"], "AWAITING_APPROVAL")
        anew = await self._post("/api/organizations/default/reclassify", json={})
        self.known = {
            "org": "default",
            "reclassification_id": anew["id"],
            "organization": SPARE,
            "organizationId": "default",
            "image_id": image["imageId"],
            "marker": image["idempotencyKey"],
            "name": image["name"],
            "upload": image["name"],
            "generation_id": generation["id"],
            "generationId": generation["id"],
            "artifact_id": generation["tasks"][0]["artifactId"],
            "task": generation["tasks"][0]["artifactId"],
            "artifact": generation["tasks"][0]["artifactId"],
            "provider": "studio",
            "token": self._addresses().token(generation["id"]),
            "submission_id": waiting,
            "submission": waiting,
            "published": published,
            "model": "studio/horizon",
            "from": generation["id"],
            "generation": generation["id"],
            "prompt": SCRIPT,
            "count": "1",
            "add": "kept",
            "group": "library",
        }

    def here(self, method: str, path: str) -> dict[str, str]:
        """What the parameters of a route may be, from the fuzzer's own thread."""
        found = dict(self.known)
        if path.startswith("/public/"):
            found["submission_id"] = found["published"]
        for name, fresh in self._used_up(path).items():
            if method != "GET" or name not in self.known:
                coming = asyncio.run_coroutine_threadsafe(fresh(), self._loop)
                self.known[name] = found[name] = coming.result(PATIENCE)
        return found

    def _used_up(self, path: str) -> dict[str, Callable[[], Coroutine[Any, Any, str]]]:
        makers = {
            "approval_id": self._approval,
            "job_id": self._dead_letter,
            "node_id": self._lost_machine,
            "token_id": self._token,
            "entry_id": self._blocked,
            "username": self._invited if "/invitations/" in path else self.member,
        }
        return {name: make for name, make in makers.items() if f"{{{name}}}" in path}

    async def member(self, *, operator: bool = False, role: Role = Role.MEMBER) -> str:
        registry, db = self.app.registry, self.app.db
        user_id, now = registry.get(Ids).short("usr"), registry.get(Clock).now_ms()
        name = user_id.replace("_", "-").lower()
        await repo.add_user(db, user_id, name, now, operator=operator)
        await repo.set_password(db, user_id, await CHEAP.hash(PASSWORD))
        await repo.put_member(db, "default", user_id, role, now)
        return name

    async def session(self) -> str:
        """The cookie of somebody who may do everything, with an invitation to decline."""
        name = await self.member(operator=True, role=Role.ADMIN)
        tokens = self.app.registry.get(Tokens)
        _, host = await tokens.make(SPARE, Grant(Role.ADMIN), name="host", maker=None)
        async with self.app.client(host) as inviting:
            path = f"/api/organizations/{SPARE}/members/{name}"
            assert (await inviting.put(path, json={"role": "viewer"})).is_success
        opened = await self.app.registry.get(SignIn).with_password(
            name, PASSWORD, address=None, cookie=None
        )
        return opened.cookie

    async def _invited(self) -> str:
        name = self.app.registry.get(Ids).short("usr").replace("_", "-").lower()
        await self._put(f"members/{name}", role="viewer")
        return name

    async def _approval(self) -> str:
        asked = {"title": SCRIPT, "description": SCRIPT}
        return str((await self._post("/api/organizations/default/approvals", json=asked))["id"])

    async def _token(self) -> str:
        wanted = {"role": "viewer", "name": SCRIPT}
        return str((await self._post("/api/organizations/default/tokens", json=wanted))["id"])

    async def _blocked(self) -> str:
        number = self.app.registry.get(Ids).uuid4().replace("-", "")
        wanted = {"checksum": number * 2, "note": SCRIPT}
        return str((await self._post("/api/organizations/default/blocklist", json=wanted))["id"])

    async def _dead_letter(self) -> str:
        number = await self.app.db.fetchval(
            """
            INSERT INTO jobs (kind, organization, node, payload, priority, status, run_at, error,
                              died_at)
            VALUES ('submissions.process', 'default', '', $1, 0, 'dead', now(), $2, now())
            RETURNING id
            """,
            {"submissionId": f"sub_{SCRIPT}"},
            {"code": "E", "message": SCRIPT},
        )
        return str(number)

    async def _lost_machine(self) -> str:
        node = self.app.registry.get(Ids).short("node")
        await self.app.db.execute(
            "INSERT INTO nodes (id, host, directory, version, answered) "
            "VALUES ($1, $2, $2, $2, now() - interval '1 hour')",
            node,
            SCRIPT,
        )
        return node

    async def _generation(self) -> dict[str, Any]:
        small = {"prompt": SCRIPT, "width": 64, "height": 64, "delaySeconds": 0}
        wanted = {"model": "studio/horizon", "input": small, "tags": ["kept"]}
        new = await self._post("/generations", json=wanted)
        return await self._until(f"/generations/{new['id']}", status="ready")

    async def _submission(self, name: str, state: str) -> str:
        wanted = {"source": {"upload": name}, "title": SCRIPT}
        new = await self._post("/api/v1/submissions", json=wanted)
        await self._until(f"/api/v1/submissions/{new['id']}", state=state)
        return str(new["id"])

    async def _in_library(self, name: str) -> None:
        await self._until(f"/api/organizations/default/uploads/{quote(name, safe='')}", name=name)

    async def _until(self, path: str, **facts: str) -> dict[str, Any]:
        async def there() -> dict[str, Any] | None:
            found = (await self.client.get(path)).json()
            return found if facts.items() <= found.items() else None

        found: dict[str, Any] = await until(there, PATIENCE, every=0.05)
        return found

    async def _post(self, path: str, **body: Any) -> dict[str, Any]:
        answer = await self.client.post(path, **body)
        assert answer.is_success, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def _put(self, path: str, **body: Any) -> None:
        answer = await self.client.put(f"/api/organizations/default/{path}", json=body)
        assert answer.is_success, answer.text

    def _addresses(self) -> WebhookAddresses:
        return self.app.registry.get(Webhooks)._addresses
