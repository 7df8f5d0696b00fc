"""Templates become answers. A page hands over one dataclass, and its template sees that as `page`
and, as `shell`, what the frame around every page shows.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from safelight.accounts.access import Caller
from safelight.accounts.guard import COOKIE
from safelight.approvals import repo as approvals
from safelight.http.frame import provided, services
from safelight.infra import feed
from safelight.infra.db import Database
from safelight.infra.injected import iso
from safelight.settings import Settings
from safelight.web import navigation
from safelight.web.assets import Assets, compressed
from safelight.web.navigation import NavigationItem, OrganizationLink
from safelight.web.session_cookie import ORGANIZATION_COOKIE, remember_organization, set_cookie
from safelight.web.theme import theme_of


@dataclass(frozen=True, kw_only=True)
class Context:
    """What one template may use. `after` is the newest seq of the feed from before the page's
    things were read, so that whatever changes from there on is news to it. A page that shows
    nothing of the feed leaves it out; then only what the frame counts follows it."""

    template: ClassVar[str]
    title: str
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Shell:
    caller: Caller | None
    organization: str | None
    pages: list[NavigationItem]
    upkeep: list[NavigationItem]
    places: list[OrganizationLink]
    theme: str  # one of theme.py

    @property
    def at_hand(self) -> list[NavigationItem]:
        return [item for item in self.pages if item.at_hand]

    @property
    def others(self) -> list[NavigationItem]:
        return [item for item in (*self.pages, *self.upkeep) if not item.at_hand]


class Pages:
    def __init__(self, assets: Assets) -> None:
        self.assets = assets
        self._templates = Environment(
            loader=PackageLoader("safelight.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.globals["static"] = assets.url
        self._templates.filters["iso"] = iso

    def fragment(self, template: str, **things: Any) -> str:
        """A part that is the same for everybody, for whoever keeps it."""
        return self._templates.get_template(template).render(**things)

    async def render(self, request: Request, page: Context, status: int = 200) -> HTMLResponse:
        caller = _caller(request)
        organization, db = organization_of(request, caller, page), services(request).get(Database)
        if organization and page.after is None:
            _, newest = await feed.bounds(db, organization)
            page = replace(page, after=newest)
        counts = await counted(db, organization)
        return self._answer(request, page, status, _shell(request, caller, organization, counts))

    def render_error(self, request: Request, page: Context, status: int) -> HTMLResponse:
        """Asks nobody: what an error page would ask may be what is away."""
        caller = _caller(request)
        organization = organization_of(request, caller, page)
        return self._answer(request, page, status, _shell(request, caller, organization, {}))

    def _answer(self, request: Request, page: Context, status: int, shell: Shell) -> HTMLResponse:
        template = self._templates.get_template(page.template)
        accepted = request.headers.get("accept-encoding", "")
        body, encoding = compressed(template.render(page=page, shell=shell).encode(), accepted)
        headers = {"vary": "accept-encoding"} | ({"content-encoding": encoding} if encoding else {})
        response = HTMLResponse(body, status, headers)
        settings, cookie = services(request).get(Settings), request.cookies.get(COOKIE)
        if cookie and shell.caller and shell.caller.kind == "user":
            # The session slides on the server; the browser's copy slides with every page.
            set_cookie(response, settings, cookie)
            if shell.organization and shell.organization == request.path_params.get("org"):
                remember_organization(response, settings, shell.organization)
        return response


PagesDep = Annotated[Pages, provided(Pages)]


async def counted(db: Database, organization: str | None) -> dict[str, int]:
    """What the frame counts, by the names that navigation.py has for it."""
    if organization is None:
        return {}
    return {"approvals": await approvals.pending_count(db, organization)}


def organization_of(request: Request, caller: Caller | None, page: object = None) -> str | None:
    """The one in the path or of the page's thing, else the one visited last, else the one where the
    caller may do most."""
    if caller is None:
        return None
    roles = caller.organizations
    named = (
        request.path_params.get("org"),
        getattr(page, "organization", None),
        request.cookies.get(ORGANIZATION_COOKIE),
    )
    most = max(roles, key=lambda name: roles[name], default=None)
    return next((name for name in named if name in roles), most)


def _caller(request: Request) -> Caller | None:
    caller: Caller | None = request.scope.get("state", {}).get("caller")
    return caller


def _shell(
    request: Request, caller: Caller | None, organization: str | None, counts: dict[str, int]
) -> Shell:
    theme = theme_of(request)
    if caller is None:
        return Shell(None, None, [], [], [], theme)
    here = request.url.path

    def items(links: tuple[navigation.Link, ...]) -> list[NavigationItem]:
        return navigation.items(links, caller, organization, here, counts)

    places = navigation.places(caller, organization, here)
    pages, upkeep = items(navigation.PAGES), items(navigation.UPKEEP)
    return Shell(caller, organization, pages, upkeep, places, theme)
