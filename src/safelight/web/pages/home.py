"""The first page: leads on to the library, unless there is something to say first."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.access import Invitation
from safelight.accounts.guard import AsAnyone
from safelight.accounts.invitations.invitations import Invitations
from safelight.http.frame import provided
from safelight.web.rendering import Context, PagesDep, organization_of

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, kw_only=True)
class HomePage(Context):
    template: ClassVar[str] = "home.html"
    title: str = "Welcome"
    name: str
    invitations: list[Invitation]
    library: str | None


@router.get("/")
async def home(
    request: Request,
    caller: AsAnyone,
    pages: PagesDep,
    invitations: Annotated[Invitations, provided(Invitations)],
) -> Response:
    invited = await invitations.to(caller.name) if caller.kind == "user" else []
    organization = organization_of(request, caller)
    library = f"/app/{organization}/upload" if organization else None
    if library and not invited:
        return RedirectResponse(library, 303)
    page = HomePage(name=caller.name, invitations=invited, library=library)
    return await pages.render(request, page)
