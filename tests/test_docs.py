"""What the documents say is what the code does."""

import re
import subprocess
import sys
from pathlib import Path

from safelight import __version__
from safelight.ingest import contract

ROOT = Path(__file__).parents[1]


def test_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


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
