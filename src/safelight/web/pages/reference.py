"""What programs may ask for, as pages made of our own description of it."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, ClassVar

from fastapi import APIRouter, FastAPI
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import Response

from safelight.accounts.access import Caller
from safelight.accounts.guard import AsAnyone, guarded_routes
from safelight.errors import NotFound
from safelight.http.frame import provided, services
from safelight.live.messages import Messages
from safelight.settings import Settings
from safelight.web.reference.codes import error_codes
from safelight.web.reference.curl import ORIGIN, curl
from safelight.web.reference.document import OperationGroup, groups
from safelight.web.reference.examples import ORGANIZATION
from safelight.web.rendering import Context, Pages, organization_of

router = APIRouter(include_in_schema=False)

ERRORS = OperationGroup("errors", "Errors", "Every refusal, by its code.", ())


@dataclass(frozen=True)
class Reference:
    """The description, read once, and the parts of pages that have been asked for."""

    groups: list[OperationGroup]
    kept: dict[str, str] = field(default_factory=dict)

    def group(self, slug: str) -> OperationGroup:
        found = next((one for one in (*self.groups, ERRORS) if one.slug == slug), None)
        if found is None:
            raise NotFound
        return found


@dataclass(frozen=True, kw_only=True)
class ReferencePage(Context):
    template: ClassVar[str] = "reference.html"
    groups: list[OperationGroup]
    group: OperationGroup | None  # None: the way in
    address: str
    organization: str | None
    body: Markup

    @property
    def total(self) -> int:
        return sum(len(one.operations) for one in self.groups)


@router.get("/reference")
async def overview(
    request: Request, caller: AsAnyone, pages: Annotated[Pages, provided(Pages)]
) -> Response:
    return await pages.render(request, _page(request, caller, None, ""))


@router.get("/reference/{group}")
async def group_page(
    group: str, request: Request, caller: AsAnyone, pages: Annotated[Pages, provided(Pages)]
) -> Response:
    reference = _reference(request.app)
    found = reference.group(group)
    if found.slug not in reference.kept:
        reference.kept[found.slug] = _made(request, pages, found)
    return await pages.render(request, _page(request, caller, found, reference.kept[found.slug]))


@lru_cache(maxsize=2)
def _reference(api: FastAPI) -> Reference:
    return Reference(groups(api.openapi(), guarded_routes(api)))


def _made(request: Request, pages: Pages, group: OperationGroup) -> str:
    if group is ERRORS:
        return pages.fragment("_reference_errors.html", codes=error_codes())
    messages = services(request).get(Messages).fields if group.slug == "live" else {}
    return pages.fragment("_reference_group.html", group=group, curl=curl, messages=messages)


def _page(
    request: Request, caller: Caller, group: OperationGroup | None, body: str
) -> ReferencePage:
    settings = services(request).get(Settings)
    address = settings.public_url or str(request.base_url).rstrip("/")
    organization = organization_of(request, caller)
    placed = body.replace(ORIGIN, escape(address))
    placed = placed.replace(ORGANIZATION, escape(organization or "ORGANIZATION"))
    return ReferencePage(
        title=f"{group.title} · API" if group else "API",
        groups=_reference(request.app).groups,
        group=group,
        address=address,
        organization=organization,
        body=Markup(placed),  # noqa: S704 - a template of ours made it, and what is put in is escaped
    )
