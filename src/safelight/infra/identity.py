"""Which database this is, and which directories are its own.

The database has a random id, made with its tables. A directory that holds images carries it in a
file `.safelight`: `DATABASE PLACE`, the second being the directory's own random id, and below it a
line for people.

Guarantees: a directory that carries another database's id is refused before anything in it is swept
or collected. The built-in store has one directory per database: once that is known, any other is
refused, be it an empty mount point or a second machine's own disk. The file is on disk before the
directory is used, so a power cut leaves it whole or absent.
Gap: a copy of a directory, the file included, cannot be told from the directory that was moved.
"""

import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg

from safelight.errors import ConfigurationError
from safelight.infra.connecting import connect
from safelight.infra.db import Connection, Database, read, write
from safelight.infra.files import make_directory, write_once
from safelight.infra.injected import Ids

DEED = ".safelight"


@dataclass(frozen=True, slots=True)
class Deed:
    """What the file says: whose the directory is, which one it is, and where the database was."""

    database: str
    place: str
    where: str = ""

    @property
    def line(self) -> str:
        return f"{self.database} {self.place}"


@read
async def identity_of(db: Database | Connection) -> str:
    identity: str = await db.fetchval("SELECT id FROM identity")
    return identity


@read
async def same_database(db: Database) -> None:
    """Refused: what goes through a pooler goes elsewhere than what does not."""
    address = db.address
    if address.direct == address.url:
        return
    direct = await connect(address.direct, db.limits)
    try:
        same = await identity_of(direct) == await identity_of(db)
    except asyncpg.UndefinedTableError:
        same = False
    finally:
        await direct.close()
    if not same:
        raise ConfigurationError(
            "SAFELIGHT_DATABASE_URL and SAFELIGHT_DATABASE_DIRECT_URL lead to different databases: "
            f"{where_is(address.url)} and {where_is(address.direct)}. Set both to the same one, "
            "the second without the pooler."
        )


@read
async def established(db: Database | Connection) -> tuple[str, str] | None:
    """The place of the built-in store's files, and where it was; None until there is one."""
    row = await db.fetchrow("SELECT blobs, blobs_at FROM identity WHERE blobs IS NOT NULL")
    return None if row is None else (row["blobs"], row["blobs_at"])


@write
async def establish(db: Database | Connection, place: str, where: str) -> bool:
    """Makes it the place of the built-in store's files. False: another one is."""
    return bool(
        await db.fetchval(
            "UPDATE identity SET blobs = $1, blobs_at = $2 WHERE blobs IS NULL OR blobs = $1 "
            "RETURNING true",
            place,
            where,
        )
    )


@read
async def established_bucket(db: Database | Connection) -> str | None:
    """Where the database's bucket is; None until there is one."""
    where: str | None = await db.fetchval("SELECT bucket FROM identity")
    return where


@write
async def establish_bucket(db: Database | Connection, where: str) -> None:
    await db.execute("UPDATE identity SET bucket = $1 WHERE bucket IS DISTINCT FROM $1", where)


def deed_in(directory: Path) -> Deed | None:
    path = directory / DEED
    try:
        text = path.read_text()
    except FileNotFoundError:
        return None
    line, _, where = text.partition("\n")
    database, _, place = line.partition(" ")
    if not database or not place:
        raise ConfigurationError(
            f"{path} does not say which database the directory belongs to. Restore it from a "
            "backup, or remove it if you are sure that the directory is this database's."
        )
    return Deed(database, place, where.strip())


def claim(directory: Path, identity: str, ids: Ids, *, what: str, database: str) -> Deed:
    """Makes a directory the database's own, unless it is; refused when it is another's. `what` it
    is called, and the `database`'s address, are for people."""
    make_directory(directory)
    deed = deed_in(directory)
    if deed is None:
        fresh = Deed(identity, ids.short("place"))
        text = f"{fresh.line}\nthe database at {where_is(database)}\n"
        write_once(directory / DEED, text, ids)
        deed = deed_in(directory) or fresh
    if deed.database != identity:
        raise ConfigurationError(
            f"{what} {directory} belongs to another database: to {deed.database}"
            f"{f', {deed.where}' if deed.where else ''}. The one at {where_is(database)} is "
            f"{identity}. Start it with its own directory, or this directory with its own "
            "database; nothing was changed. (To give the directory to this database for good, "
            f"remove {directory / DEED}: files that the database does not know then go to "
            "lost+found.)"
        )
    return deed


def where_is(url: str) -> str:
    """A database's address without who and how, for people. It may name several hosts."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]  # one, or several
    socket_directory = parse_qs(parts.query).get("host", [""])[0]
    return f"{hosts or socket_directory or 'localhost'}{parts.path}"


def here(directory: Path) -> str:
    return f"{socket.gethostname()}:{directory}"
