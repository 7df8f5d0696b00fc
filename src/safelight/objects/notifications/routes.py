"""Where a bucket's notifications arrive."""

import base64
import hmac
import json
from dataclasses import asdict
from typing import Annotated, ClassVar

from fastapi import APIRouter, Depends, Request, Response
from starlette.responses import JSONResponse

from safelight.accounts.guard import Guard
from safelight.errors import InvalidJson, NotFound, Unauthenticated
from safelight.http.described import Described
from safelight.http.frame import provided, services
from safelight.objects.notifications.answers import TakenAnswer
from safelight.objects.notifications.intake import Intake
from safelight.settings import Settings

router = APIRouter(tags=["events"], route_class=Described)


class EventsTokenMissing(Unauthenticated):
    """The events token is missing or wrong. Send it as a Bearer token, or as Basic's password."""

    headers: ClassVar[dict[str, str]] = {"www-authenticate": 'Bearer, Basic realm="safelight"'}


class EventsSender(Guard):
    """A bucket's notifications, which know one shared token and no organization."""

    async def __call__(self, request: Request) -> None:
        settings = services(request).get(Settings)
        if settings.events_token is None:
            raise NotFound
        expected = settings.events_token.get_secret_value()
        if not hmac.compare_digest(_given_token(request).encode(), expected.encode()):
            raise EventsTokenMissing


def _given_token(request: Request) -> str:
    """Bearer; Basic with it as the password, all that SNS can do; or in the address."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except ValueError:
            return ""
    return request.query_params.get("token", "")


@router.post(
    "/api/events/objects",
    status_code=202,
    dependencies=[Depends(EventsSender())],
    summary="Tell of what happened in the bucket",
    response_model=TakenAnswer,
)
async def receive(request: Request, intake: Annotated[Intake, provided(Intake)]) -> Response:
    """Cloudflare R2, S3, MinIO, SeaweedFS, SNS, SQS and EventBridge shapes, one or many. What can
    never be processed is kept as a dead letter and still answered 2xx: some senders retry for
    ever."""
    try:
        # SNS sends its JSON as text/plain, so the content type is not asked.
        body = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise InvalidJson from error
    return JSONResponse(asdict(await intake.take(body)), 202)
