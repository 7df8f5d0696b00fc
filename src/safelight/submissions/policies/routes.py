"""What an organization does not publish, for its admins: thresholds, labels, and a blocklist."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel
from starlette.requests import ClientDisconnect

from safelight.accounts.guard import AsAdmin
from safelight.classification.labels import label_of
from safelight.errors import NotFound
from safelight.http.described import Described, PageOf
from safelight.http.frame import DatabaseDep, SettingsDep, provided
from safelight.http.paging import CursorsDep, PageRequest, page
from safelight.infra.db import Database
from safelight.infra.injected import iso
from safelight.ingest.contract import StreamError
from safelight.ingest.receive import FilePart, too_large
from safelight.submissions import repo as submissions
from safelight.submissions.answers import BlockedAnswer, PolicyAnswer
from safelight.submissions.lifecycle import Submission
from safelight.submissions.policies import repo
from safelight.submissions.policies.policies import Policies
from safelight.submissions.policies.policy import (
    BlocklistEntry,
    Fingerprint,
    Looks,
    Policy,
    PolicyOverrides,
    combined,
)
from safelight.submissions.policies.recognition import Recognition

router = APIRouter(tags=["submissions"], prefix="/api/organizations/{org}", route_class=Described)

RecognitionDep = Annotated[Recognition, provided(Recognition)]
PoliciesDep = Annotated[Policies, provided(Policies)]
Threshold = Annotated[float, Field(ge=0, le=1)]
Note = Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)]
LabelText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]


_FORM_BYTES = 64 * 1024  # around the file
ONE_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary"}},
                }
            }
        },
    }
}


class _Camel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid")


class PolicyBody(_Camel):
    """A threshold that is left out is the server's."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"safetyReview": 0.4, "blockedLabels": ["cigarette"]}]}
    )

    safety_block: Threshold | None = None
    safety_review: Threshold | None = None
    blocked_labels: Annotated[list[LabelText], Field(max_length=1000)] = []


class BlockBody(_Camel):
    """Exactly one of the first five."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"upload": "harbour.jpg", "note": "Not ours to show."}]}
    )

    checksum: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    fingerprint: (
        Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}-[0-9a-f]{16}$")] | None
    ) = None
    submission: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    upload: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    artifact: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    note: Note = ""

    @model_validator(mode="after")
    def _exactly_one(self) -> "BlockBody":
        given = (self.checksum, self.fingerprint, self.submission, self.upload, self.artifact)
        if sum(one is not None for one in given) != 1:
            raise ValueError("give one of checksum, fingerprint, submission, upload and artifact")
        return self


@router.get(
    "/submission-policy", summary="What this organization publishes", response_model=PolicyAnswer
)
async def policy(access: AsAdmin, db: DatabaseDep, settings: SettingsDep) -> dict[str, Any]:
    own = await repo.policy_overrides(db, access.organization)
    return show_policy(combined(settings, own), own)


@router.put(
    "/submission-policy",
    summary="Change what this organization publishes",
    response_model=PolicyAnswer,
)
async def put_policy(body: PolicyBody, access: AsAdmin, policies: PoliciesDep) -> dict[str, Any]:
    labels = tuple(sorted({label_of(label) for label in body.blocked_labels}))
    own = PolicyOverrides(body.safety_block, body.safety_review, labels)
    changed = await policies.change(access.organization, own, access.caller.as_actor())
    return show_policy(changed, own)


@router.get(
    "/blocklist",
    summary="Pictures that are never published, newest first",
    response_model=PageOf[BlockedAnswer],
)
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


@router.post(
    "/blocklist",
    status_code=201,
    summary="Never publish this picture",
    response_model=BlockedAnswer,
)
async def block(
    body: BlockBody,
    access: AsAdmin,
    db: DatabaseDep,
    policies: PoliciesDep,
    recognition: RecognitionDep,
) -> dict[str, Any]:
    """A checksum rules out exactly those bytes, a fingerprint whatever looks alike; a submission,
    an upload or an artifact both. What is published already is withdrawn."""
    organization = access.organization
    light = Fingerprint.parse(body.fingerprint) if body.fingerprint else None
    checksum, looks = body.checksum, Looks(light)
    if body.submission is not None:
        found = await _submission(db, organization, body.submission)
        checksum, looks = await recognition.of_submission(found)
    elif body.upload is not None:
        checksum, looks = await recognition.of_source(organization, "upload", body.upload)
    elif body.artifact is not None:
        checksum, looks = await recognition.of_source(organization, "artifact", body.artifact)
    actor = access.caller.as_actor()
    return show(await policies.block(organization, checksum, looks, body.note, actor))


@router.post(
    "/blocklist/pictures",
    status_code=201,
    summary="Never publish the picture in this file",
    openapi_extra=ONE_FILE,
    response_model=BlockedAnswer,
)
async def block_picture(
    request: Request,
    access: AsAdmin,
    settings: SettingsDep,
    policies: PoliciesDep,
    recognition: RecognitionDep,
    note: Annotated[Note, Query()] = "",
) -> dict[str, Any]:
    """One that nobody has submitted: those bytes, and whatever looks alike. The file goes again."""
    pieces = _file(request, settings.max_upload_bytes)
    checksum, looks = await recognition.of_stream(pieces)
    actor = access.caller.as_actor()
    return show(await policies.block(access.organization, checksum, looks, note, actor))


@router.delete("/blocklist/{entry_id}", status_code=204, summary="Allow this picture again")
async def unblock(entry_id: str, access: AsAdmin, policies: PoliciesDep) -> Response:
    await policies.unblock(access.organization, entry_id, access.caller.as_actor())
    return Response(status_code=204)


async def _file(request: Request, limit: int) -> AsyncIterator[bytes]:
    """The bytes of the one file, as they come; complete when this ends without an error."""
    part, came = FilePart(request.headers.get("content-type", "")), 0
    try:
        async for chunk in request.stream():
            came += len(chunk)
            part.feed(chunk)
            if part.size > limit or came > limit + _FORM_BYTES:
                raise too_large(limit)
            for piece in part.take():
                yield bytes(piece)
    except ClientDisconnect as error:
        raise StreamError("The picture broke off before its end.") from error
    part.end()


async def _submission(db: Database, organization: str, submission_id: str) -> Submission:
    found = await submissions.find(db, submission_id)
    if found is None or found.organization != organization:
        raise NotFound
    return found


def show_policy(policy: Policy, own: PolicyOverrides) -> dict[str, Any]:
    return {
        "safetyBlock": policy.safety_block,
        "safetyReview": policy.safety_review,
        "blockedLabels": sorted(policy.blocked_labels),
        "own": {"safetyBlock": own.safety_block, "safetyReview": own.safety_review},
    }


def show(entry: BlocklistEntry) -> dict[str, Any]:
    """A see-through picture has two looks; `fingerprint` is the first of them."""
    looks = [str(look) for look in entry.looks.all]
    return {
        "id": entry.id,
        "note": entry.note,
        "checksum": entry.checksum,
        "fingerprint": looks[0] if looks else None,
        "fingerprints": looks,
        "createdBy": entry.created_by,
        "createdAt": iso(entry.created_at),
    }
