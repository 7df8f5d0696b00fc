"""The web process: an upload becomes a file, a row and a task; a socket tells what is published."""

import hashlib
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import asyncpg
import redis.asyncio as redis
from fastapi import FastAPI, Header, HTTPException, UploadFile, WebSocket, WebSocketDisconnect
from fastapi.concurrency import run_in_threadpool

from bench.common_way import settings
from bench.common_way.tasks import classify

_CHUNK = 1024 * 1024


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings.FILES.mkdir(exist_ok=True)
    async with asyncpg.create_pool(settings.DATABASE, min_size=10, max_size=10) as pool:
        app.state.pool = pool
        app.state.redis = redis.from_url(settings.REDIS)
        yield
        await app.state.redis.aclose()


app = FastAPI(lifespan=_lifespan)


@app.post("/api/upload", status_code=201)
async def upload(file: UploadFile, authorization: Annotated[str, Header()]) -> dict[str, str]:
    pool: asyncpg.Pool[Any] = app.state.pool
    organization = await pool.fetchval(
        "SELECT organization FROM tokens WHERE token = $1", authorization.removeprefix("Bearer ")
    )
    if organization is None:
        raise HTTPException(401)
    image, name = uuid.uuid4(), file.filename or "unnamed"
    path = settings.FILES / f"{image}.jpg"
    checksum, size = await run_in_threadpool(_keep, file.file, path)
    await pool.execute(
        "INSERT INTO images (id, organization, name, path, checksum, size_bytes) "
        "VALUES ($1, $2, $3, $4, $5, $6)",
        image, organization, name, str(path), checksum, size,
    )  # fmt: skip
    await run_in_threadpool(classify.delay, str(image))
    return {"id": str(image), "name": name}


def _keep(source: BinaryIO, path: Path) -> tuple[str, int]:
    """On disk under its name, or not at all."""
    digest, size, hidden = hashlib.sha256(), 0, path.with_suffix(".part")
    with hidden.open("wb") as target:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            target.write(chunk)
            size += len(chunk)
        target.flush()
        os.fsync(target.fileno())
    hidden.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
    return digest.hexdigest(), size


@app.get("/api/done")
async def done() -> dict[str, int]:
    pool: asyncpg.Pool[Any] = app.state.pool
    return {"done": await pool.fetchval("SELECT count(*) FROM images WHERE status = 'done'")}


@app.websocket("/live")
async def live(socket: WebSocket) -> None:
    await socket.accept()
    async with app.state.redis.pubsub() as heard:
        await heard.subscribe(settings.CHANNEL)
        with suppress(WebSocketDisconnect, RuntimeError):
            async for message in heard.listen():
                if message["type"] == "message":
                    await socket.send_text(message["data"].decode())
