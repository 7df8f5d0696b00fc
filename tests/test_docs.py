"""What the documents say is what the code does."""

import importlib.util
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from gates import errors, package
from gates.sources import clean, texts_of_tests
from points import sources
from safelight import __version__
from safelight.infra.states import Machine
from safelight.ingest import contract

ROOT = Path(__file__).parents[1]


@cache
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.load_everything()
    return module


@pytest.mark.parametrize("name", ["settings.md", "errors.md", "states.md"])
def test_generated_pages_are_fresh(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == generate().PAGES[name](), "run `make docs`"


def test_the_schema_is_fresh(postgres_url: str) -> None:
    page = generate().schema_page(postgres_url)
    assert (ROOT / "docs/schema.sql").read_text() == page, "run `make docs`"


def test_every_page_is_looked_at() -> None:
    looked_at = {"settings.md", "errors.md", "states.md", "schema.sql"}
    assert set(generate().PAGES) == looked_at


def test_every_error_is_documented() -> None:
    page = (ROOT / "docs/errors.md").read_text()
    clean(errors.undocumented(errors.ours(), page))
    for code in ("ALREADY_DECIDED", "IDEMPOTENCY_KEY_REUSED", "UNKNOWN_ERROR"):
        assert f"| `{code}` |" in page


def test_every_error_is_used() -> None:
    clean(errors.unused(errors.ours(), sources()))


def test_every_error_code_is_named_by_some_test() -> None:
    clean(errors.untested(errors.ours(), texts_of_tests()))


def test_every_machine_is_drawn_with_every_move() -> None:
    page = (ROOT / "docs/states.md").read_text()
    machines = list(package.everything(Machine))
    assert len(machines) == page.count("stateDiagram-v2")
    for machine in machines:
        for before, allowed in machine.moves.items():
            assert [after for after in allowed if f"    {before} --> {after}\n" not in page] == []


def test_links_between_documents_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)} → {target}")
    assert broken == []


def test_the_upload_contract_names_its_version_and_every_code() -> None:
    page = (ROOT / "docs/upload-contract.md").read_text()
    assert f"Version {contract.VERSION}" in page
    assert [error.code for error in contract.ERRORS if f"`{error.code}`" not in page] == []


def test_the_changelog_is_open() -> None:
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
    assert __version__ in (ROOT / "pyproject.toml").read_text()
