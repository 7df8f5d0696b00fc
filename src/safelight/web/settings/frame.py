"""What the pages of an organization's settings have in common."""

from dataclasses import dataclass
from typing import ClassVar, Final

from starlette.responses import RedirectResponse

from safelight.accounts.access import Role
from safelight.errors import InvalidRequest
from safelight.web.rendering import Context

_SECTIONS: Final = {
    "members": "Members",
    "tokens": "Tokens",
    "publishing": "Publishing",
    "usage": "Usage",
    "spending": "Spending",
}


def address_of(organization: str, section: str) -> str:
    below = "" if section == "members" else f"/{section}"
    return f"/app/{organization}/settings{below}"


def saved(organization: str, section: str) -> RedirectResponse:
    """Back to the section, so that reloading it does nothing again."""
    return RedirectResponse(f"{address_of(organization, section)}?saved=true", 303)


def role_in(text: str) -> Role:
    try:
        return Role(text)
    except ValueError:
        raise InvalidRequest("Choose one of the roles in the list.") from None


@dataclass(frozen=True, kw_only=True)
class SettingsPage(Context):
    """One section. What its reader may not change it only shows, or leaves out."""

    section: ClassVar[str]
    title: str = "Settings"
    organization: str
    role: Role
    saved: bool = False
    problem: str | None = None

    @property
    def section_words(self) -> str:
        return _SECTIONS[self.section]

    @property
    def here(self) -> str:
        return address_of(self.organization, self.section)

    @property
    def below(self) -> str:
        """What the addresses of its forms begin with."""
        return f"/app/{self.organization}/settings/{self.section}"

    @property
    def administers(self) -> bool:
        return self.role is Role.ADMIN

    @property
    def roles(self) -> list[Role]:
        return list(Role)

    @property
    def sections(self) -> list[tuple[str, str, bool, None]]:
        return [
            (words, address_of(self.organization, name), name == self.section, None)
            for name, words in _SECTIONS.items()
        ]
