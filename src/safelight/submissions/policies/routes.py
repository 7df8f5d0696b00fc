"""What an organization does not publish, for its admins: thresholds, labels, and a blocklist."""

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from safelight.accounts.guard import AsAdmin
from safelight.classification.labels import label_of
from safelight.errors import NotReady
from safelight.http.frame import DatabaseDep, SettingsDep, provided
from safelight.http.paging import CursorsDep, PageRequest, page
from safelight.infra.db import Database
from safelight.infra.injected import iso
from safelight.submissions import repo
from safelight.submissions.endings import UnknownSubmission
from safelight.submissions.policies.policies import Policies
from safelight.submissions.policies.policy import (
    BlocklistEntry,
    Fingerprint,
    Policy,
    PolicyOverrides,
    combined,
)

router = APIRouter(tags=["submissions"], prefix="/api/organizations/{org}")

PoliciesDep = Annotated[Policies, provided(Policies)]
Threshold = Annotated[float, Field(ge=0, le=1)]
LabelText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]


class _Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")


class PolicyBody(_Camel):
    """A threshold that is left out is the server's."""

    safety_block: Threshold | None = None
    safety_review: Threshold | None = None
    blocked_labels: Annotated[list[LabelText], Field(max_length=1000)] = []


class BlockBody(_Camel):
    """Exactly one of the first three."""

    checksum: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    fingerprint: (
        Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}-[0-9a-f]{16}$")] | None
    ) = None
    submission: Annotated[str, Field(max_length=64)] | None = None
    note: Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)] = ""

    @model_validator(mode="after")
    def _exactly_one(self) -> "BlockBody":
        if (
            sum(given is not None for given in (self.checksum, self.fingerprint, self.submission))
            != 1
        ):
            raise ValueError("give one of checksum, fingerprint and submission")
        return self


@router.get("/submission-policy", summary="What this organization publishes")
async def policy(access: AsAdmin, db: DatabaseDep, settings: SettingsDep) -> dict[str, Any]:
    own = await repo.policy_overrides(db, access.organization)
    return show_policy(combined(settings, own), own)


@router.put("/submission-policy", summary="Change what this organization publishes")
async def put_policy(body: PolicyBody, access: AsAdmin, policies: PoliciesDep) -> dict[str, Any]:
    labels = tuple(sorted({label_of(label) for label in body.blocked_labels}))
    own = PolicyOverrides(body.safety_block, body.safety_review, labels)
    changed = await policies.change(access.organization, own, access.caller.as_actor())
    return show_policy(changed, own)


@router.get("/blocklist", summary="Pictures that are never published, newest first")
async def blocklist(
    access: AsAdmin, db: DatabaseDep, cursors: CursorsDep, wanted: PageRequest
) -> dict[str, Any]:
    limit, cursor = wanted
    purpose = f"blocklist:{access.organization}"
    before = cursors.read(purpose, cursor)
    rows = await repo.blocklist(
        db, access.organization, (before[0], before[1]) if before else None, limit
    )
    return page(rows, limit, show, lambda row: cursors.make(purpose, [row.created_at, row.id]))


@router.post("/blocklist", status_code=201, summary="Never publish this picture")
async def block(
    body: BlockBody, access: AsAdmin, db: DatabaseDep, policies: PoliciesDep
) -> dict[str, Any]:
    """A checksum rules out exactly those bytes, a fingerprint whatever looks alike, a submission
    both."""
    checksum = body.checksum
    fingerprint = Fingerprint.parse(body.fingerprint) if body.fingerprint else None
    if body.submission:
        checksum, fingerprint = await _of_submission(db, access.organization, body.submission)
    entry = await policies.block(
        access.organization, checksum, fingerprint, body.note, access.caller.as_actor()
    )
    return show(entry)


@router.delete("/blocklist/{entry_id}", status_code=204, summary="Allow this picture again")
async def unblock(entry_id: str, access: AsAdmin, policies: PoliciesDep) -> Response:
    await policies.unblock(access.organization, entry_id, access.caller.as_actor())
    return Response(status_code=204)


async def _of_submission(
    db: Database, organization: str, submission_id: str
) -> tuple[str, Fingerprint | None]:
    found = await repo.find(db, submission_id)
    if found is None or found.organization != organization:
        raise UnknownSubmission
    if found.run == 0:
        raise NotReady("This submission has not been examined yet; try again soon.")
    if found.dhash is None or found.phash is None:
        return found.checksum, None
    return found.checksum, Fingerprint(found.dhash, found.phash)


def show_policy(policy: Policy, own: PolicyOverrides) -> dict[str, Any]:
    return {
        "safetyBlock": policy.safety_block,
        "safetyReview": policy.safety_review,
        "blockedLabels": sorted(policy.blocked_labels),
        "own": {"safetyBlock": own.safety_block, "safetyReview": own.safety_review},
    }


def show(entry: BlocklistEntry) -> dict[str, Any]:
    return {
        "id": entry.id,
        "note": entry.note,
        "checksum": entry.checksum,
        "fingerprint": None if entry.fingerprint is None else str(entry.fingerprint),
        "createdBy": entry.created_by,
        "createdAt": iso(entry.created_at),
    }
