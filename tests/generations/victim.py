"""A process that makes something and dies on the way, by order of a test."""

import asyncio
from pathlib import Path
from typing import Any

from generations.world import Client, World, later_sweep, once, world
from safelight.generations.lifecycle import key_of
from safelight.infra import failpoints
from safelight.objects.store import Facts
from safelight.testing.waiting import until


async def live(order: dict[str, Any]) -> None:
    here = {
        "database_url": order["url"],
        "directory": Path(order["directory"]),
        "port": order["port"],
    }
    async with world(**here, **order["settings"]) as made, made.client() as client:
        failpoints.arm(*order["point"])
        async with asyncio.timeout(30):
            await act(order, made, client)


async def act(order: dict[str, Any], made: World, client: Client) -> None:
    wanted = order["wanted"]
    headers = {"Idempotency-Key": "the-one"}
    response = await client.http.post("/generations", json=wanted, headers=headers)
    generation = response.json()["id"]
    if order["then"] == "cancel":

        async def submitted() -> bool:
            task = (await client.show(generation))["tasks"][0]
            return bool(task["status"] == "submitted")

        await until(submitted)
        await client.http.post(f"/generations/{generation}/cancel")
    done = await client.over(generation)
    artifact = f"/artifacts/{done['tasks'][0]['artifactId']}"
    if order["then"] == "delete":
        await client.http.delete(artifact)
    if order["then"] == "tag":
        for path in (f"/generations/{generation}", artifact):
            await client.http.put(f"{path}/tags/red")
            await client.http.delete(f"{path}/tags/red")
    if order["then"] == "thumbnail":
        await client.http.get(f"{artifact}/thumbnail")
    if order["then"] == "sweep":
        await made.store.put(key_of("nobodys"), once(b"bytes"), Facts("image/png"))
        later = later_sweep(made)
        await later.purge()
        await later.orphans()
    await asyncio.sleep(0.3)
