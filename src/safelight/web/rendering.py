"""Templates become answers. A page hands over one dataclass, and its template sees that as `page`
and, as `shell`, what the frame around every page shows.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from safelight.accounts.access import Caller
from safelight.accounts.guard import COOKIE
from safelight.http.frame import provided, services
from safelight.infra.injected import iso
from safelight.settings import Settings
from safelight.web import navigation
from safelight.web.assets import Assets
from safelight.web.session_cookie import set_cookie


@dataclass(frozen=True, kw_only=True)
class Context:
    """What one template may use."""

    template: ClassVar[str]
    title: str


@dataclass(frozen=True, slots=True)
class Shell:
    caller: Caller | None
    organization: str | None
    navigation: list[navigation.NavigationItem]


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

    def render(self, request: Request, page: Context, status: int = 200) -> HTMLResponse:
        shell = _shell(request)
        template = self._templates.get_template(page.template)
        response = HTMLResponse(template.render(page=page, shell=shell), status)
        cookie = request.cookies.get(COOKIE)
        if cookie and shell.caller and shell.caller.kind == "user":
            # The session slides on the server; the browser's copy slides with every page.
            set_cookie(response, services(request).get(Settings), cookie)
        return response


PagesDep = Annotated[Pages, provided(Pages)]


def _shell(request: Request) -> Shell:
    caller: Caller | None = request.scope.get("state", {}).get("caller")
    organization = _organization(request, caller)
    return Shell(caller, organization, navigation.items(caller, organization, request.url.path))


def _organization(request: Request, caller: Caller | None) -> str | None:
    """The one in the path, else the one where the caller may do most."""
    if caller is None:
        return None
    roles, named = caller.organizations, request.path_params.get("org")
    return named if named in roles else max(roles, key=lambda name: roles[name], default=None)
