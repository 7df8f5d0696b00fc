"""Every page, and what it can look like: one line each. What is proved of pages, and what is
photographed, goes through this list; a page that is not on it fails test_every_page.py."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

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


def at_rest(page: Page) -> None:
    """What is inert for a moment, after another was put in its place, is not any more."""
    page.wait_for_selector("[data-inert]", state="detached")


LIBRARY, IMAGES = "/app/{org}/upload", "/app/{org}/images"
SUBMISSIONS, WORKFLOW = "/app/{org}/submissions", "/app/{org}/workflow"

GENERATE, ARTIFACTS = "/app/{org}/generate", "/app/{org}/library"
INSPECTOR, SETTINGS = "/app/{org}/inspector", "/app/{org}/settings"

SIGHTS: Final = (
    Sight("home", "/"),
    Sight("home, a menu open", "/", then=opened(".menu > summary")),
    Sight("library", LIBRARY),
    Sight("library, found", LIBRARY + "?q=lighthouse"),
    Sight("library, nothing found", LIBRARY + "?q=zebra"),
    Sight("library, alike", LIBRARY + "?like=Chelsea.jpg"),
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
    Sight("image, without scripts", IMAGES + "/{image}", scripts=False),
    Sight("generate", GENERATE),
    Sight("generate, without anything", "/app/{empty}/generate"),
    Sight("generate, to a viewer", GENERATE, who=VIEWER),
    Sight("generate, without scripts", GENERATE, scripts=False),
    Sight("generation", GENERATE + "/{generation}"),
    Sight("generation, on its way", GENERATE + "/{generation_active}"),
    Sight("generation, failed", GENERATE + "/{generation_failed}"),
    Sight("artifacts", ARTIFACTS),
    Sight("artifacts, of a tag", ARTIFACTS + "?tag=calendar"),
    Sight("artifacts, without anything", "/app/{empty}/library"),
    Sight("artifact", ARTIFACTS + "/{artifact}"),
    Sight("artifact, a clip", ARTIFACTS + "/{clip}"),
    Sight("artifact, to a viewer", ARTIFACTS + "/{artifact}", who=VIEWER),
    Sight("artifact, to be deleted", ARTIFACTS + "/{artifact}/delete"),
    Sight("submissions", SUBMISSIONS),
    Sight("submissions, without anything", "/app/{empty}/submissions"),
    Sight("submissions, without scripts", SUBMISSIONS, scripts=False),
    Sight("new submission", SUBMISSIONS + "/new"),
    Sight("new submission, without scripts", SUBMISSIONS + "/new", scripts=False),
    Sight("submission", "/submit/{submission_published}"),
    Sight("submission, rejected", "/submit/{submission_rejected}"),
    Sight("submission, waiting", "/submit/{submission_waiting}"),
    Sight("submission, stale", "/submit/{submission_stale}"),
    Sight("submission, withdrawn", "/submit/{submission_withdrawn}"),
    Sight("workflow", WORKFLOW, then=at_rest),
    Sight("workflow, to a viewer", WORKFLOW, who=VIEWER),
    Sight("workflow, without anything", "/app/{empty}/workflow"),
    Sight("workflow, without scripts", WORKFLOW, scripts=False),
    Sight("inspector", INSPECTOR),
    Sight("inspector, without scripts", INSPECTOR, scripts=False),
    Sight("dead letters", INSPECTOR + "/dead-letters"),
    Sight("queue", "/admin/queue"),
    Sight("queue, without scripts", "/admin/queue", scripts=False),
    Sight("health", "/admin/health"),
    Sight("members", SETTINGS),
    Sight("members, to a viewer", SETTINGS, who=VIEWER, status=403),
    Sight("tokens", SETTINGS + "/tokens"),
    Sight("publishing", SETTINGS + "/publishing"),
    Sight("usage", SETTINGS + "/usage"),
    Sight("spending", SETTINGS + "/spending"),
    Sight("account", "/account"),
    Sight("signing out", "/account/sign-out"),
    Sight("password", "/account/password"),
    Sight("login", "/login", who=NOBODY),
    Sight("login, by a dead link", "/login?code=gone", who=NOBODY, status=401),
    Sight("reference", "/reference"),
    Sight("reference, of uploads", "/reference/library"),
    Sight("patterns", "/patterns"),
    Sight("missing, to somebody", "/app/{org}/nowhere", status=404),
)
