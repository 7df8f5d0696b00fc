"""Every page, and what it can look like: one line each. What is proved of pages, and what is
photographed, goes through this list; a page that is not on it fails test_every_page.py."""

from collections.abc import Callable
from dataclasses import dataclass

from playwright.sync_api import Page

from scene.scene import OPERATOR, VIEWER

NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Sight:
    """A page in one state. `path` may name things of the scene in braces; `then` is done once it is
    there. The first sight of a path is the page itself, and the others are its states."""

    name: str
    path: str
    who: str = OPERATOR
    scripts: bool = True
    status: int = 200
    then: Callable[[Page], object] | None = None

    @property
    def is_state(self) -> bool:
        return "," in self.name


def opened(selector: str) -> Callable[[Page], object]:
    """With the first of these that is visible unfolded, or pressed."""
    return lambda page: page.locator(selector).locator("visible=true").first.click()


LIBRARY, IMAGES = "/app/{org}/upload", "/app/{org}/images"
SUBMISSIONS, WORKFLOW = "/app/{org}/submissions", "/app/{org}/workflow"

SIGHTS: tuple[Sight, ...] = (
    Sight("home", "/"),
    Sight("home, a menu open", "/", then=opened(".menu > summary")),
    Sight("library", LIBRARY),
    Sight("library, deleting", LIBRARY, then=opened("a[href*='/upload/delete']")),
    Sight("library, found", LIBRARY + "?q=lighthouse"),
    Sight("library, nothing found", LIBRARY + "?q=zebra"),
    Sight("library, without anything", "/app/{empty}/upload"),
    Sight("library, to a viewer", LIBRARY, who=VIEWER),
    Sight("library, without scripts", LIBRARY, scripts=False),
    Sight("delete", LIBRARY + "/delete?name=Lake.jpg"),
    Sight("duplicates", LIBRARY + "/duplicates"),
    Sight("image", IMAGES + "/{image}"),
    Sight("image, failed", IMAGES + "/{broken}"),
    Sight("image, on its way", IMAGES + "/{late}"),
    Sight("image, by its name", IMAGES + "?name=Chelsea.jpg"),
    Sight("image, to a viewer", IMAGES + "/{image}", who=VIEWER),
    Sight("submissions", SUBMISSIONS),
    Sight("submissions, without anything", "/app/{empty}/submissions"),
    Sight("submission", "/submit/{submission_published}"),
    Sight("submission, rejected", "/submit/{submission_rejected}"),
    Sight("submission, waiting", "/submit/{submission_waiting}"),
    Sight("submission, stale", "/submit/{submission_stale}"),
    Sight("submission, withdrawn", "/submit/{submission_withdrawn}"),
    Sight("workflow", WORKFLOW),
    Sight("workflow, rejecting", WORKFLOW, then=opened(".question > summary")),
    Sight("workflow, to a viewer", WORKFLOW, who=VIEWER),
    Sight("workflow, without anything", "/app/{empty}/workflow"),
    Sight("queue", "/admin/queue"),
    Sight("login", "/login", who=NOBODY),
    Sight("login, by a dead link", "/login?code=gone", who=NOBODY, status=401),
    Sight("password", "/account/password"),
    Sight("missing, to somebody", "/app/{org}/nowhere", status=404),
)

# What is known to be wrong with these goes with them.
UNTIL_REBUILT = {
    sight.name
    for sight in SIGHTS
    if sight.name.partition(",")[0] in {"library", "duplicates", "workflow", "queue"}
}
