"""What an organization publishes: for all of it to see, for admins to change."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import Response

from safelight.accounts.access import Role
from safelight.accounts.guard import Access, AsAdmin, AsViewer
from safelight.classification.labels import label_of
from safelight.errors import InvalidRequest, SafelightError
from safelight.http.frame import provided, services
from safelight.http.paging import Cursors
from safelight.infra.db import Database
from safelight.library.entry import KnownUpload
from safelight.library.lists import repo as lists
from safelight.settings import Settings
from safelight.submissions.policies import repo
from safelight.submissions.policies.policies import Policies
from safelight.submissions.policies.policy import (
    BlocklistEntry,
    Policy,
    PolicyOverrides,
    combined,
)
from safelight.web.image.shown import address, below
from safelight.web.rendering import Pages
from safelight.web.settings.frame import SettingsPage, saved

router = APIRouter(include_in_schema=False)

PER_PAGE = 50
_MOST_LABELS = 1000
_LONGEST_LABEL = 100

PoliciesDep = Annotated[Policies, provided(Policies)]


@dataclass(frozen=True, slots=True)
class BlockedPicture:
    """With an upload that has the same bytes, where there is one."""

    entry: BlocklistEntry
    picture: str | None = None
    page: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class TypedPolicy:
    """What stands in the form."""

    block: str
    review: str
    labels: str


@dataclass(frozen=True, kw_only=True)
class RulesPage(SettingsPage):
    template: ClassVar[str] = "settings_publishing.html"
    section: ClassVar[str] = "publishing"
    policy: Policy
    usual: Policy  # the server's
    typed: TypedPolicy
    blocked: list[BlockedPicture]
    more: str | None


@router.get("/app/{org}/settings/publishing")
async def rules_page(
    request: Request, access: AsViewer, cursor: str | None = None, saved: bool = False
) -> Response:
    return await _render(request, access, cursor=cursor, saved=saved)


@router.post("/app/{org}/settings/publishing")
async def change_rules(
    request: Request,
    access: AsAdmin,
    policies: PoliciesDep,
    block: Annotated[str, Form()] = "",
    review: Annotated[str, Form()] = "",
    labels: Annotated[str, Form()] = "",
) -> Response:
    typed = TypedPolicy(block, review, labels)
    try:
        own = PolicyOverrides(_score(block), _score(review), _labels(labels))
        await policies.change(access.organization, own, access.caller.as_actor())
    except SafelightError as error:
        return await _render(request, access, problem=error, typed=typed)
    return saved(access.organization, "publishing")


@router.post("/app/{org}/settings/blocklist/{entry_id}/remove")
async def allow_again(
    entry_id: str, request: Request, access: AsAdmin, policies: PoliciesDep
) -> Response:
    try:
        await policies.unblock(access.organization, entry_id, access.caller.as_actor())
    except SafelightError as error:
        return await _render(request, access, problem=error)
    return saved(access.organization, "publishing")


def _score(text: str) -> float | None:
    """Empty: the server's."""
    if not text.strip():
        return None
    try:
        score = float(text.strip().replace(",", "."))
    except ValueError:
        score = -1.0
    if not 0 <= score <= 1:
        raise InvalidRequest("A score is a number from 0 to 1, for example 0.85.")
    return score


def _labels(text: str) -> tuple[str, ...]:
    """One in each line."""
    found = {label_of(line.strip()) for line in text.splitlines() if line.strip()}
    if len(found) > _MOST_LABELS:
        raise InvalidRequest(f"At most {_MOST_LABELS:,} labels can be blocked.")
    if any(len(label) > _LONGEST_LABEL or "\0" in label for label in found):
        raise InvalidRequest(f"A label has at most {_LONGEST_LABEL} characters.")
    return tuple(sorted(found))


async def _render(
    request: Request,
    access: Access,
    *,
    cursor: str | None = None,
    saved: bool = False,
    problem: SafelightError | None = None,
    typed: TypedPolicy | None = None,
) -> Response:
    registry, organization = services(request), access.organization
    settings, db = registry.get(Settings), registry.get(Database)
    own = await repo.policy_overrides(db, organization)
    role = access.caller.organizations[organization]
    blocked: list[BlockedPicture] = []
    more = None
    if role is Role.ADMIN:
        blocked, more = await _blocked(request, organization, cursor)
    page = RulesPage(
        organization=organization,
        role=role,
        saved=saved,
        problem=problem.message if problem else None,
        policy=combined(settings, own),
        usual=combined(settings, PolicyOverrides()),
        typed=typed or _as_typed(own),
        blocked=blocked,
        more=more,
    )
    status = problem.status if problem else 200
    return await registry.get(Pages).render(request, page, status)


def _as_typed(own: PolicyOverrides) -> TypedPolicy:
    block, review = (
        "" if score is None else f"{score:g}" for score in (own.safety_block, own.safety_review)
    )
    return TypedPolicy(block, review, "\n".join(own.blocked_labels))


async def _blocked(
    request: Request, organization: str, cursor: str | None
) -> tuple[list[BlockedPicture], str | None]:
    """And the cursor of what follows."""
    registry = services(request)
    db, cursors = registry.get(Database), registry.get(Cursors)
    purpose = f"blocked-page:{organization}"
    before = cursors.read(purpose, cursor)
    place = (before[0], before[1]) if before else None
    found = await repo.blocklist(db, organization, place, PER_PAGE)
    shown = found[:PER_PAGE]
    checksums = [one.checksum for one in shown if one.checksum]
    known = {one.checksum: one for one in await lists.with_checksums(db, organization, checksums)}
    rows = [_row(organization, one, known.get(one.checksum or "")) for one in shown]
    last = shown[-1] if len(found) > PER_PAGE else None
    return rows, cursors.make(purpose, [last.created_at, last.id]) if last else None


def _row(organization: str, entry: BlocklistEntry, known: KnownUpload | None) -> BlockedPicture:
    if known is None:
        return BlockedPicture(entry)
    picture = below(organization, known.name) + "thumbnail"
    page = address(organization, known.image_id, known.name)
    return BlockedPicture(entry, picture, page, known.name)
