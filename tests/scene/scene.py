"""One server with believable content: what the pages are looked at with, measured with, and
photographed with. Some seconds, and the same each time."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import reachable_directory
from harness import Server, eventually, running
from scene import making
from scene.ageing import EMPTY, aged
from scene.photographs import photographs

OPERATOR, VIEWER = "operator", "linus"
_LINK = re.compile(r"Sign in once with this link:\s+\S+(/login\S+)")
STILL = {"SAFELIGHT_RECOVERY_INTERVAL_SECONDS": "3600"}  # what stands still is to stand still
LATE = "Lake.jpg"


@dataclass(frozen=True, slots=True)
class Scene:
    """`names` are what an address in pages.py may have in braces."""

    server: Server
    names: dict[str, str]
    cookies: dict[str, dict[str, str]]  # by who came in

    def cookies_of(self, who: str) -> list[dict[str, Any]]:
        """As a browser is given them."""
        url = self.server.url
        return [{"name": n, "value": v, "url": url} for n, v in self.cookies[who].items()]

    def address(self, path: str) -> str:
        return path.format(**self.names)


@contextmanager
def staged(directory: Path | None = None) -> Iterator[Scene]:
    with ThreadPoolExecutor(1) as beside:
        drawn = beside.submit(photographs)  # while the server starts
        with (
            reachable_directory() as made,
            running((directory or made) / "data", **STILL) as server,
        ):
            drawn.result()
            yield filled(server)


def filled(server: Server) -> Scene:
    with server.client() as client:
        maker = making.Maker(client)
        making.limits(maker)
        images = making.library(maker)
        made = making.generations(maker)
        coast, clip = making.artifacts(maker, made["coast"]), making.artifacts(maker, made["clip"])
        for artifact, tag in zip(coast, ("cover", "spare", "spare"), strict=False):
            maker.put(f"/artifacts/{artifact}/tags/{tag}")
        making.labelled(maker, images)
        submitted = making.submissions(maker, coast)
        making.approvals(maker, submitted["refused"])
        links = making.people(maker) | {OPERATOR: eventually(lambda: _printed(server))}
    aged(server, _days(made, submitted), {**submitted, "generation": made["failed"]}, LATE)
    names = {
        "org": making.ORGANIZATION,
        "empty": EMPTY,
        "image": images["Chelsea.jpg"],
        "broken": images[making.BROKEN],
        "late": images[LATE],
        "artifact": coast[0],
        "clip": clip[0],
        "generation": made["coast"],
        "generation_active": made["active"],
        "generation_failed": made["failed"],
        **{f"submission_{name.replace(', ', '_')}": one for name, one in submitted.items()},
    }
    cookies = {name: making.come_in(server, link) for name, link in links.items()}
    return Scene(server, names, cookies)


def _printed(server: Server) -> str | None:
    """The link for whoever starts a server first."""
    return next((found[1] for line in server.lines if (found := _LINK.search(line))), None)


def _days(made: dict[str, str], submitted: dict[str, str]) -> dict[str, float]:
    """Generations and submissions came one after the other, in the weeks before now and the hour before it."""
    days = {f"upload:{each.name}": each.days for each in photographs()}
    days |= {
        f"upload:{making.TWIN}": 1.3,
        f"upload:{making.SAME}": 0.09,
        f"upload:{making.HIDING}": 33,
        f"upload:{making.HOLIDAY}": 70.2,
        f"upload:{making.BROKEN}": 1.47,
    }
    for number, one in enumerate(reversed(made.values())):
        days[f"generation:{one}"] = number * 2.7
    for number, one in enumerate(reversed(submitted.values())):
        days[f"submission:{one}"] = number * 0.005 + 0.002
    return days
