"""What people did, done as they do it: through the API of a running server."""

from collections.abc import Iterable, Sequence
from typing import Any

import httpx

from harness import Server, eventually
from scene.photographs import Photograph, photographs
from submissions.pictures import holiday_photo, near_copy, photo, truncated, with_archive

ORGANIZATION = "default"
HERE = f"/api/organizations/{ORGANIZATION}"
PATIENCE = 90
TWIN, SAME, HIDING, HOLIDAY = (
    "Chelsea (copy).jpg", "Espresso again.jpg", "Section 7, with notes.jpg", "Reykjavik.jpg",
)  # fmt: skip
BROKEN = "Card error 0417.jpg"
ASKED = (
    ("Use the harbour series for the annual report", "Twelve pages, print run of 400."),
    ("Hand the museum's coins to the press", "They would credit us."),
)
DECIDED = (
    (
        "Show the lab's sections in public",
        "No names are on them.",
        "approve",
        "Cleared by the lab.",
    ),
    ("Sell prints of the moon plates", "", "reject", "The plates are not ours to sell."),
)
Made = dict[str, Any]


class Maker:
    """Remembers what came of it, for pages that show one thing."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client

    def upload(self, name: str, data: bytes) -> str:
        made = self.post("/api/upload", files={"file": (name, data)})
        return str(made["imageId"])

    def order(self, prompt: str, *tags: str, model: str = "horizon", **more: Any) -> str:
        count, kind = more.pop("count", 1), more.pop("kind", "image")
        wanted = {"prompt": prompt, "width": 420, "height": 280, **more}
        body = {"model": f"studio/{model}", "kind": kind, "input": wanted, "count": count}
        return str(self.post("/generations", json={**body, "tags": list(tags)})["id"])

    def submit(self, title: str, **source: str) -> str:
        body = {"source": source, "title": title}
        return str(self.post("/api/v1/submissions", json=body)["id"])

    def become(self, submission: str, *states: str) -> Made:
        return self.until(f"/api/v1/submissions/{submission}", "state", *states)

    def until(self, path: str, field: str, *values: str) -> Made:
        def there() -> Made | None:
            answer = self._client.get(path)
            found: Made = answer.json()
            return found if answer.is_success and found.get(field) in values else None

        made: Made = eventually(there, PATIENCE)
        return made

    def items(self, path: str) -> list[Made]:
        answer = self._client.get(path)
        assert answer.is_success, answer.text
        found: list[Made] = answer.json()["items"]
        return found

    def post(self, path: str, **body: Any) -> Made:
        return self._changed("POST", path, **body)

    def put(self, path: str, **body: Any) -> Made:
        return self._changed("PUT", path, json=body)

    def delete(self, path: str) -> None:
        assert self._client.delete(path).is_success

    def _changed(self, method: str, path: str, **body: Any) -> Made:
        answer = self._client.request(method, path, **body)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        found: Made = answer.json() if answer.content else {}
        return found


def limits(maker: Maker) -> None:
    """Uploads by the hundred are no matter of the minute."""
    maker.put(
        f"/api/v1/admin/organizations/{ORGANIZATION}/quotas",
        storedBytes=9_000_000,
        uploadsPerMinute=0,
        generationsPerDay=40,
        submissionsPerDay=12,
    )


def library(maker: Maker) -> dict[str, str]:
    """The image ids by name; the order is that of their days."""
    images = {each.name: maker.upload(each.name, each.data) for each in photographs()}
    more = {
        TWIN: near_copy(_named("Chelsea.jpg").data),
        SAME: _named("Espresso.jpg").data,
        HIDING: with_archive(_named("Section 7, detail.jpg").data),
        HOLIDAY: holiday_photo(1),
        BROKEN: truncated(photo("daisy")),
    }
    return images | {name: maker.upload(name, data) for name, data in more.items()}


def _named(name: str) -> Photograph:
    return next(each for each in photographs() if each.name == name)


def labelled(maker: Maker, names: Iterable[str]) -> None:
    """The labels of all, and no label of the broken one."""
    wanted = set(names)

    def settled() -> bool:
        found = [*maker.items(f"{HERE}/uploads?limit=200")]
        done = {one["name"] for one in found if one["classificationStatus"] in {"done", "failed"}}
        return wanted <= done

    eventually(settled, PATIENCE)


def generations(maker: Maker) -> dict[str, str]:
    """By what they are for; those that end have ended."""
    made = {
        "coast": maker.order("a lighthouse at dawn above a rough sea", "calendar", "sea", count=3),
        "city": maker.order("a city in the snow", "calendar", model="nocturne", count=2),
        "some": maker.order("peonies", "draft", model="bloom", count=2, failTasks=[1]),
        "failed": maker.order("a forbidden forest", model="aurora", fail="refused"),
        "clip": maker.order(
            "green lights", "sea", model="aurora", kind="video", width=256, height=144, duration=0.6
        ),
        "active": maker.order("a calm bay at noon", "calendar", count=3, delaySeconds=3600),
    }
    for name, one in made.items():
        if name != "active":
            maker.until(f"/generations/{one}", "status", "ready", "failed")
    return made


def artifacts(maker: Maker, generation: str) -> list[str]:
    return [str(one["id"]) for one in maker.items(f"/generations/{generation}/artifacts")]


def submissions(maker: Maker, coast: Sequence[str]) -> dict[str, str]:
    """One of each end, and two to be stopped on their way (ageing.py)."""
    upload = f"{HERE}/blocklist"
    maker.post(upload, json={"upload": "Helmet.jpg", "note": "The visor mirrors the crew."})
    made = {
        "published": maker.submit("Espresso", upload="Espresso.jpg"),
        "rejected": maker.submit("Section 7, with notes", upload=HIDING),
        "blocked": maker.submit("The helmet", upload="Helmet.jpg"),
        "holiday": maker.submit("Reykjavik in June", upload=HOLIDAY),
        "artwork": maker.submit("Lighthouse, first light", artifact=coast[0]),
        "withdrawn": maker.submit("Poppies", upload="Poppies.jpg"),
        "stale": maker.submit("Launch at night", upload="Launch pad at night.jpg"),
        "received": maker.submit("Northern lights", upload="Northern lights.jpg"),
    }
    for one in made.values():
        maker.become(one, "PUBLISHED", "REJECTED", "AWAITING_APPROVAL")
    maker.post(f"/api/v1/submissions/{made['withdrawn']}/withdraw")
    made["waiting"] = maker.submit("Espresso, once more", upload=SAME)
    made["artwork, again"] = maker.submit("Lighthouse, again", artifact=coast[0])
    made["refused"] = maker.submit("Espresso, closer", upload=SAME)
    for name in ("waiting", "artwork, again", "refused"):
        maker.become(made[name], "AWAITING_APPROVAL")
    return made


def approvals(maker: Maker, refused: str) -> None:
    path = f"{HERE}/approvals"
    for title, description, verb, reason in DECIDED:
        one = maker.post(path, json={"title": title, "description": description})
        maker.post(f"{path}/{one['id']}/{verb}", json={"reason": reason})
    for title, description in ASKED:
        maker.post(path, json={"title": title, "description": description})
    about = next(one for one in maker.items(path) if (one["subject"] or {}).get("id") == refused)
    maker.post(f"{path}/{about['id']}/reject", json={"reason": "One of it is enough."})
    maker.become(refused, "REJECTED")


def people(maker: Maker) -> dict[str, str]:
    """Who may do what, by tokens and by invitation; the links of those who are to come in."""
    for name, role, life in (
        ("Camera by the harbour", "member", None),
        ("Nightly export", "viewer", 90 * 86_400),
        ("Old laptop", "member", None),
    ):
        body = {"name": name, "role": role, "expiresInSeconds": life}
        made = maker.post(f"{HERE}/tokens", json=body)
        if name == "Old laptop":
            maker.delete(f"{HERE}/tokens/{made['id']}")
    invited = {
        "ines": "admin",
        "arvid": "approver",
        "linus": "viewer",
        "mara": "member",
        "otto": "viewer",
    }
    links = {
        name: maker.put(f"{HERE}/members/{name}", role=role)["signInLink"]
        for name, role in invited.items()
    }
    return {name: links[name] for name in ("ines", "arvid", "linus")}


def come_in(server: Server, link: str) -> dict[str, str]:
    """The cookies of whoever used a link."""
    with httpx.Client(base_url=server.url, headers={"sec-fetch-site": "same-origin"}) as client:
        answer = client.post("/login", json={"code": link.partition("code=")[2]})
        assert answer.is_success, answer.text
        return dict(client.cookies)
