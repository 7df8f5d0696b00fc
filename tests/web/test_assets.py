"""Static files: one version over all of them, kept for ever, found nowhere else."""

import re
from pathlib import Path

import pytest

from accounts.world import World
from safelight.web.assets import Assets

STATIC = Path(__file__).parents[2] / "src/safelight/web/static"
FILES = sorted(str(path.relative_to(STATIC)) for path in STATIC.rglob("*") if path.is_file())


async def test_every_file_is_served_for_ever(world: World) -> None:
    assets = Assets()
    async with world.client() as client:
        for path in FILES:
            response = await client.get(assets.url(path))
            assert response.status_code == 200
            assert response.content == (STATIC / path).read_bytes()
            assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
            kind = response.headers["content-type"]
            assert kind.startswith(("text/css", "text/javascript", "image/svg+xml"))


@pytest.mark.parametrize(
    "path",
    ["", "css/app.css", "{v}/css/none.css", "old/css/app.css", "{v}/", "{v}", "{v}/../assets.py", "{v}/%2e%2e/assets.py",
     "{v}/css", "{v}//etc/passwd", "{v}/css%00"],
)  # fmt: skip
async def test_nothing_else_is_found(world: World, path: str) -> None:
    async with world.client() as client:
        response = await client.get("/static/" + path.format(v=Assets().version))
        assert (response.status_code, response.json()["code"]) == (404, "NOT_FOUND")


def test_any_change_changes_the_version(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/one.js").write_text("1")
    versions = [Assets(tmp_path).version]
    (tmp_path / "a/one.js").write_text("2")
    versions.append(Assets(tmp_path).version)
    (tmp_path / "a/one.js").rename(tmp_path / "a/two.js")
    versions.append(Assets(tmp_path).version)
    assert len(set(versions)) == 3
    assert Assets(tmp_path).version == versions[-1]


def test_a_missing_file_fails_while_the_page_is_made() -> None:
    with pytest.raises(LookupError):
        Assets().url("css/none.css")


@pytest.mark.parametrize("path", [path for path in FILES if path.endswith((".css", ".js"))])
def test_files_refer_to_files_that_are_there(path: str) -> None:
    source = (STATIC / path).read_text()
    for target in re.findall(r'(?:url\(|import |from )"([^"]+)"', source):
        assert not target.startswith(("http", "//", "/")), "relative, so that it has the version"
        assert ((STATIC / path).parent / target).is_file()


@pytest.mark.parametrize("path", [path for path in FILES if path.endswith(".css")])
def test_colours_are_written_in_tokens_only(path: str) -> None:
    if not path.endswith("tokens.css"):
        assert not re.search(
            r"#[0-9a-f]{3,8}\b|\b(?:rgb|hsl|oklch)a?\(", (STATIC / path).read_text()
        )
