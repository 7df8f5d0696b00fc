"""Every page and every form against whatever a browser, or somebody who writes addresses by hand,
may send: the answer is a page of ours or leads to one, and nothing that was sent, now or before,
stands in it as markup."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext, iter_route_contexts
from hypothesis import given
from hypothesis import strategies as st

from accounts.world import PASSWORD, SAME_ORIGIN
from fuzzing.examples import ATTRIBUTE, SECONDS, SEED, run_of, words
from fuzzing.things import SCRIPT, SETTINGS, Things
from harness import picture
from inprocess import application
from safelight.accounts.guard import COOKIE
from safelight.app import create_api

EXAMPLES = 8
HTML = {"accept": "text/html,application/xhtml+xml"}
# Their bodies are read by hand, so that the route does not tell what is in them.
FIELDS = {
    "/login": ("username", "password", "code", "next"),
    "/app/{org}/upload/download": ("name",),
}
CHOICES = ("approve", "reject", "ready", "done", "pending", "PUBLISHED", "admin", "true", PASSWORD)
TYPED = {"current": PASSWORD, "reason": SCRIPT, "title": SCRIPT}
NOWHERE = ("GET", "/{anything}")
# What scripts of a page fetch, and what is saved as a file: nothing of it is shown as a page.
DATA = ("application/json", "application/zip")


@dataclass(frozen=True)
class Page:
    method: str
    path: str
    query: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.method} {self.path}"


def pages() -> Iterator[Page]:
    """What is not part of the described API, and the forms that are; forms first, so that what they
    leave behind is there to be shown."""
    yield Page(*NOWHERE)
    for route in sorted(
        iter_route_contexts(create_api(development=False).routes), key=_forms_first
    ):
        path, methods = route.path_format or "", route.methods or set()
        if path.startswith(("/api/", "/static/")) or not methods & {"GET", "POST"}:
            continue
        if path in {"/login", "/logout"} or not getattr(route, "include_in_schema", False):
            for method in sorted(methods & {"GET", "POST"}):
                yield _page(route, method, path)


def _forms_first(route: RouteContext) -> tuple[bool, bool]:
    path = route.path_format or ""
    return "POST" not in (route.methods or ()), path.endswith(("/delete", "/logout", "/password"))


def _page(route: RouteContext, method: str, path: str) -> Page:
    parts = list(_parts(route.dependant))
    fields = tuple(one.alias for part in parts for one in part.body_params)
    query = tuple(one.alias for part in parts for one in part.query_params)
    return Page(method, path, query, (fields or FIELDS.get(path, ())) if method == "POST" else ())


def _parts(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for inner in dependant.dependencies:
        yield from _parts(inner)


@pytest.mark.timeout(SECONDS)
async def test_every_page_is_ours(database_url: str, tmp_path: Path) -> None:
    async with (
        application(database_url, tmp_path, worker=True, **SETTINGS) as app,
        app.client() as client,
    ):
        things = Things(app, client)
        await things.make()
        visitor = Visitor(app.url, things)
        for page in pages():
            await asyncio.to_thread(visitor.visit, page, await things.session())
    assert not visitor.wrong, "\n".join(f"{what} {how}" for what, how in visitor.wrong.items())
    assert visitor.never_past() == set()


def sent_to(page: Page) -> st.SearchStrategy[dict[str, Any]]:
    """Each part of a request to it; None stands for what there is, or for leaving it out."""
    value = st.none() | words | st.sampled_from(CHOICES)
    segments = re.findall(r"\{(\w+)", page.path)
    return st.fixed_dictionaries(
        {
            "path": st.fixed_dictionaries(dict.fromkeys(segments, st.none() | value)),
            "query": st.fixed_dictionaries({}, optional=dict.fromkeys((*page.query, "x"), value)),
            "form": st.fixed_dictionaries({}, optional=dict.fromkeys(page.fields, value)),
        }
    )


def as_meant(page: Page) -> dict[str, Any]:
    """Whatever chance makes of the rest: once with all that there is."""
    segments = re.findall(r"\{(\w+)", page.path)
    return {
        "path": dict.fromkeys(segments),
        "query": dict.fromkeys(page.query),
        "form": dict.fromkeys(page.fields),
    }


@dataclass
class Visitor:
    url: str
    things: Things
    wrong: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Counter[int]] = field(default_factory=dict)

    def visit(self, page: Page, cookie: str) -> None:
        self.answers[page.label] = Counter()
        with httpx.Client(base_url=self.url, headers={**HTML, **SAME_ORIGIN}, timeout=60) as client:
            client.cookies.set(COOKIE, cookie, domain="127.0.0.1")

            @run_of(page.label, EXAMPLES)
            @given(parts=sent_to(page))
            def each(parts: dict[str, Any]) -> None:
                self.ask(client, page, parts)

            self.ask(client, page, as_meant(page))
            each()

    def ask(self, client: httpx.Client, page: Page, parts: dict[str, Any]) -> None:
        known = {**self.things.here(page.method, page.path), **TYPED}
        if page.path.startswith("/account/invitations/"):
            known["org"] = known["organization"]
        answer = client.request(page.method, **request_to(page, parts, known))
        self.answers[page.label][answer.status_code] += 1
        for fault in judged(answer):
            what = f"{page.label}: {fault}"
            self.wrong.setdefault(what, f"to {parts!r} (seed {SEED})")

    def never_past(self) -> set[str]:
        named = {label: seen for label, seen in self.answers.items() if "{" in label}
        only = {label for label, seen in named.items() if not set(seen) - {401, 404}}
        return only - {" ".join(NOWHERE)}


def request_to(page: Page, parts: dict[str, Any], known: dict[str, str]) -> dict[str, Any]:
    def real(values: dict[str, Any]) -> dict[str, str]:
        told = {name: known.get(name) if value is None else value for name, value in values.items()}
        return {name: value for name, value in told.items() if value is not None}

    segments = {name: _segment(value) for name, value in real(parts["path"]).items()}
    query = "&".join(f"{name}={_quoted(value)}" for name, value in real(parts["query"]).items())
    url = re.sub(r"\{(\w+)[^}]*\}", lambda match: segments.get(match[1], "x"), page.path)
    form = "&".join(f"{name}={_quoted(value)}" for name, value in real(parts["form"]).items())
    request: dict[str, Any] = {"url": f"{url}?{query}" if query else url}
    if page.label == "POST /app/{org}/upload":
        return {**request, **_upload(parts["query"].get("x") or "a.jpg")}
    if page.method == "POST":
        request["content"] = form.encode()
        request["headers"] = {"content-type": "application/x-www-form-urlencoded"}
    return request


def _upload(name: str) -> dict[str, Any]:
    """Written by hand: a name may well hold what ends it."""
    told = b'--fuzz\r\ncontent-disposition: form-data; name="file"; filename="%b"\r\n\r\n'
    named = told % name.encode(errors="surrogatepass")
    return {
        "content": named + picture() + b"\r\n--fuzz--\r\n",
        "headers": {"content-type": "multipart/form-data; boundary=fuzz"},
    }


def _segment(value: str) -> str:
    """Dots alone would be taken away on the way."""
    return _quoted(value) if value.strip(".") else "%2E" * len(value) or "x"


def _quoted(value: str) -> str:
    """Half a letter goes as the bytes that are no text."""
    return quote(value.encode(errors="surrogatepass"), safe="")


def judged(answer: httpx.Response) -> Iterator[str]:
    status, text = answer.status_code, answer.text
    if status >= 500:
        yield f"{status} {text[:200]}"
    kind = answer.headers.get("content-type", "")
    if kind.startswith(DATA) and status < 400:
        return
    if SCRIPT in text or ATTRIBUTE in text:
        yield f"{status} with markup that was sent in"
    if status in {302, 303, 307}:
        target = answer.headers["location"]
        if not re.fullmatch(r"/([^/\\\s][^\\\s]*)?", target):
            yield f"{status} leads elsewhere: {target[:100]}"
    elif not kind.startswith("text/html"):
        yield f"{status} is no page: {kind}"
