"""The pages that the frame leads to, in this order. A new page adds its line here. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from safelight.accounts.access import Caller, Role


@dataclass(frozen=True, slots=True)
class Link:
    label: str
    path: str  # {org} is the organization at hand
    icon: str
    also: tuple[str, ...] = ()  # beginnings of other addresses that belong to it
    operator: bool = False
    counts: str | None = None  # what is counted beside it


# What people come for, and what keeps it running.
PAGES: Final = (
    Link("Library", "/app/{org}/upload", "library", also=("/app/{org}/images",)),
    Link("Generate", "/app/{org}/generate", "spark", also=("/app/{org}/library",)),
    Link("Publish", "/app/{org}/submissions", "publish", also=("/submit/",)),
    Link("Approvals", "/app/{org}/workflow", "approve", counts="approvals"),
    Link("Activity", "/app/{org}/inspector", "pulse"),
)
UPKEEP: Final = (
    Link("Settings", "/app/{org}/settings", "settings"),
    Link("Operations", "/admin/queue", "operations", also=("/admin/",), operator=True),
    Link("API", "/reference", "book"),
)
# What a thumb reaches on a phone; the others are behind the last of its four, More.
AT_HAND: Final = ("Library", "Publish", "Approvals")


@dataclass(frozen=True, slots=True)
class NavigationItem:
    label: str
    url: str
    icon: str
    current: bool
    counts: str | None = None
    count: int = 0

    @property
    def at_hand(self) -> bool:
        return self.label in AT_HAND

    @property
    def shown(self) -> str:
        return "99+" if self.count > 99 else str(self.count)  # noqa: PLR2004


@dataclass(frozen=True, slots=True)
class OrganizationLink:
    """An organization to go to."""

    name: str
    role: Role
    url: str
    current: bool


def items(
    links: tuple[Link, ...],
    caller: Caller,
    organization: str | None,
    here: str,
    counts: Mapping[str, int],
) -> list[NavigationItem]:
    """The links this caller can follow."""
    return [
        NavigationItem(
            link.label,
            link.path.format(org=organization),
            link.icon,
            _is_here(link, organization, here),
            link.counts,
            counts.get(link.counts or "", 0),
        )
        for link in links
        if (caller.operator or not link.operator) and ("{org}" not in link.path or organization)
    ]


def places(caller: Caller, organization: str | None, here: str) -> list[OrganizationLink]:
    """The same page of each organization, where it is one of the pages that all have."""
    page = next((link for link in (*PAGES, *UPKEEP) if _is_here(link, organization, here)), None)
    path = page.path if page and "{org}" in page.path else PAGES[0].path
    return [
        OrganizationLink(name, role, path.format(org=name), name == organization)
        for name, role in sorted(caller.organizations.items())
    ]


def _is_here(link: Link, organization: str | None, here: str) -> bool:
    path, *others = (part.format(org=organization) for part in (link.path, *link.also))
    return here == path or here.startswith((f"{path}/", *others))
