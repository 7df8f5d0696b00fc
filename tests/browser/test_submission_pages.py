"""Submitting, waiting, deciding: the pages move by themselves."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from browser.conftest import PATIENCE, Visit
from conftest import reachable_directory
from harness import Server, eventually, picture, running
from submissions.pictures import photo

LIST, WORKFLOW = "/app/default/submissions", "/app/default/workflow"
STALE_AFTER = {"SAFELIGHT_STALE_AFTER_SECONDS": "3", "SAFELIGHT_STUCK_AFTER_SECONDS": "60"}
pytestmark = pytest.mark.browser
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Instead of the usual one: what takes seconds counts as stale, and nothing works yet."""
    with reachable_directory() as directory, running(directory / "data", **STALE_AFTER) as server:
        yield server
