"""Static files: one version over all of them, kept for ever, found nowhere else."""

import re
from pathlib import Path

import pytest

from accounts.world import World
from safelight.web.assets import Assets

STATIC = Path(__file__).parents[2] / "src/safelight/web/static"
FILES = sorted(str(path.relative_to(STATIC)) for path in STATIC.rglob("*") if path.is_file())
SERVED = [
    "app.css",
    "app.js",
    "sum.worker.js",
    "upload-later.js",
    "upload.js",
    *(path for path in FILES if not path.endswith((".css", ".js"))),
]
FOR_EVER = "public, max-age=31536000, immutable"


async def test_what_pages_name_is_served_for_ever(world: World) -> None:
    assets = Assets()
    async with world.client() as client:
        for path in SERVED:
            response = await client.get(assets.url(path))
            assert response.status_code == 200
            assert response.headers["cache-control"] == FOR_EVER
            kind = response.headers["content-type"]
            assert kind.startswith(("text/css", "text/javascript", "image/svg+xml", "image/webp"))


@pytest.mark.parametrize(
    ("accepts", "encoding"),
    [("gzip, deflate, br", "br"), ("gzip", "gzip"), ("br;q=0, gzip;q=0.5", "gzip"),
     ("identity", None), ("", None), ("GZIP", "gzip")],
)  # fmt: skip
@pytest.mark.parametrize("path", ["app.css", "app.js"])
async def test_a_file_is_as_small_as_the_browser_can_read(
    world: World, path: str, accepts: str, encoding: str | None
) -> None:
    assets = Assets()
    async with world.client() as client:
        whole = await client.get(assets.url(path), headers={"accept-encoding": "identity"})
        asked = await client.get(assets.url(path), headers={"accept-encoding": accepts})
    assert asked.headers.get("content-encoding") == encoding
    assert asked.content == whole.content
    assert "accept-encoding" in asked.headers["vary"].lower()


@pytest.mark.parametrize(
    "path",
    ["", "app.css", "{v}/css/base.css", "{v}/js/main.js", "{v}/css/none.css", "old/css/app.css", "{v}/", "{v}", "{v}/../assets.py", "{v}/%2e%2e/assets.py",
     "{v}/css", "{v}//etc/passwd", "{v}/css%00"],
)  # fmt: skip
async def test_nothing_else_is_found(world: World, path: str) -> None:
    async with world.client() as client:
        response = await client.get("/static/" + path.format(v=Assets().version))
        assert (response.status_code, response.json()["code"]) == (404, "NOT_FOUND")


def test_any_change_changes_the_version(tmp_path: Path) -> None:
    (tmp_path / "js").mkdir()
    (tmp_path / "js/main.js").write_text("one();")
    versions = [Assets(tmp_path).version]
    (tmp_path / "js/main.js").write_text("two();")
    versions.append(Assets(tmp_path).version)
    (tmp_path / "one.svg").write_text("<svg/>")
    versions.append(Assets(tmp_path).version)
    (tmp_path / "one.svg").rename(tmp_path / "two.svg")
    versions.append(Assets(tmp_path).version)
    assert len(set(versions)) == 4
    assert Assets(tmp_path).version == versions[-1]


def test_a_missing_file_fails_while_the_page_is_made() -> None:
    with pytest.raises(LookupError):
        Assets().url("css/none.css")


@pytest.mark.parametrize("path", [path for path in FILES if path.endswith(".css")])
def test_a_style_sheet_needs_no_other_file(path: str) -> None:
    assert not re.search(r"url\(|@import", (STATIC / path).read_text()), (
        "it would be one more request"
    )


@pytest.mark.parametrize("path", [path for path in FILES if path.endswith(".css")])
def test_colours_are_written_in_tokens_only(path: str) -> None:
    if not path.endswith("tokens.css"):
        assert not re.search(
            r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl|oklch)a?\(", (STATIC / path).read_text()
        )
