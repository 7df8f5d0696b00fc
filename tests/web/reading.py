"""Pages as a browser without scripts reads them."""

import html
import re

import httpx

from harness import TOKEN
from inprocess import Application
from safelight.accounts.access import Grant, Role
from safelight.accounts.tokens import Tokens
from safelight.testing.waiting import until

HTML = {"accept": "text/html,application/xhtml+xml"}


def browser(app: Application, token: str = TOKEN) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {token}", **HTML}
    return httpx.AsyncClient(base_url=app.url, headers=headers, timeout=30)


async def as_role(
    app: Application, role: Role, organization: str = "default", name: str | None = None
) -> httpx.AsyncClient:
    tokens = app.registry.get(Tokens)
    _, secret = await tokens.make(organization, Grant(role), name=name or role, maker=None)
    return browser(app, secret)


def words(page: str) -> str:
    main = page.partition("<main")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", main.partition(">")[2])).split())


async def read(client: httpx.AsyncClient, path: str, status: int = 200) -> str:
    answer = await client.get(path)
    assert answer.status_code == status, words(answer.text)
    assert "style=" not in answer.text, "the content security policy would drop it"
    return answer.text


async def shows(client: httpx.AsyncClient, path: str, part: str) -> str:
    """The page, as soon as this stands in it."""

    async def check() -> str | None:
        page = (await client.get(path)).text
        return page if part in page else None

    page: str = await until(check, 30)
    return page
