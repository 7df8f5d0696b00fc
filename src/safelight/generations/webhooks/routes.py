"""Where providers call when they are done. The token in the address is the credential."""

import json
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from safelight.accounts.guard import open_to_everyone
from safelight.errors import InvalidJson, NotFound
from safelight.generations.webhooks.receive import Webhooks
from safelight.http.frame import provided

router = APIRouter(tags=["generations"])


@router.post(
    "/webhooks/{provider}",
    dependencies=[open_to_everyone],
    summary="For providers: a task is done, or is not going to be",
    response_class=Response,
)
async def webhook(
    provider: str,
    request: Request,
    webhooks: Annotated[Webhooks, provided(Webhooks)],
    generation_id: Annotated[str, Query()] = "",
    token: Annotated[str, Query()] = "",
    task: Annotated[str | None, Query(description="The artifact this is about.")] = None,
) -> Response:
    known = webhooks.known(provider, generation_id, token)
    if known is None:
        raise NotFound
    body = await request.body()
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidJson from error
    headers = dict(request.headers)
    if not await webhooks.receive(known, generation_id, task, headers, body, payload):
        raise NotFound
    return Response(status_code=200)
