"""Light, dark, or as the system has it: remembered by the browser, so that no page flashes."""

from typing import Annotated

from fastapi import APIRouter, Form
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from safelight.accounts.guard import AsUser
from safelight.errors import InvalidRequest
from safelight.http.frame import SettingsDep
from safelight.web.session_cookie import remember_theme
from safelight.web.theme import THEMES
from safelight.web.way_back import way_back

router = APIRouter(include_in_schema=False)


@router.post("/account/theme")
async def choose_theme(
    request: Request, caller: AsUser, settings: SettingsDep, theme: Annotated[str, Form()] = ""
) -> Response:
    del caller
    if theme not in THEMES:
        raise InvalidRequest("Choose System, Light or Dark.")
    is_browser = "text/html" in request.headers.get("accept", "")
    response: Response = (
        RedirectResponse(way_back(request) or "/", 303) if is_browser else Response(status_code=204)
    )
    remember_theme(response, settings, theme)
    return response
