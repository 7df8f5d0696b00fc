"""A server that takes one upload, and may die on the way."""

from pathlib import Path

from harness import picture
from inprocess import application


async def upload(url: str, directory: str, on_conflict: str) -> None:
    async with application(url, Path(directory)) as app, app.client() as client:
        left = [path.name for path in (Path(directory) / "ingest").glob("*img_*")]
        assert left == [], "an earlier life has left something behind"
        files = {"file": ("a.jpg", picture())}
        await client.post("/api/upload", files=files, params={"onConflict": on_conflict})


async def upload_directly(url: str, directory: str) -> None:
    """To a server that answers when the bytes are stored."""
    async with (
        application(url, Path(directory), worker=True, ingest="direct") as app,
        app.client() as client,
    ):
        await client.post("/api/upload", files={"file": ("a.jpg", picture())})
