"""The pages in the header, in this order. A new page adds its line here."""

from dataclasses import dataclass

from safelight.accounts.access import Caller


@dataclass(frozen=True, slots=True)
class Link:
    label: str
    path: str  # {org} is the organization at hand
    operator: bool = False


PAGES: tuple[Link, ...] = (
    Link("Home", "/"),
    Link("Upload", "/app/{org}/upload"),
    Link("Submissions", "/app/{org}/submissions"),
    Link("Approvals", "/app/{org}/workflow"),
    Link("Queue", "/admin/queue", operator=True),
)


@dataclass(frozen=True, slots=True)
class NavigationItem:
    label: str
    url: str
    current: bool


def items(caller: Caller | None, organization: str | None, here: str) -> list[NavigationItem]:
    """The links this caller can follow."""
    if caller is None:
        return []
    shown = []
    for link in PAGES:
        if (link.operator and not caller.operator) or ("{org}" in link.path and not organization):
            continue
        url = link.path.format(org=organization)
        shown.append(NavigationItem(link.label, url, here == url))
    return shown
