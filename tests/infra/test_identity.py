"""Directories say whose they are, and files that are made once are whole or absent."""

from pathlib import Path

import pytest

from points import points_of
from safelight.errors import ConfigurationError
from safelight.infra import failpoints, identity
from safelight.infra.db import Database
from safelight.infra.failpoints import FailpointError
from safelight.infra.files import make_directory, write_once
from safelight.infra.identity import DEED, Deed, claim, deed_in, where_is
from safelight.infra.injected import RandomIds

IDS = RandomIds()
URL = "postgresql://safelight:secret@db.example:5433/safelight"


def claimed(directory: Path, database: str = "db_a") -> Deed:
    return claim(directory, database, IDS, what="The ingest directory", database=URL)


async def test_a_database_has_one_identity(database: Database) -> None:
    first = await identity.identity_of(database)
    assert first.startswith("db_")
    assert await identity.identity_of(database) == first
    assert await database.fetchval("SELECT count(*) FROM identity") == 1


async def test_one_place_is_the_stores(database: Database) -> None:
    assert await identity.established(database) is None
    failpoints.arm("identity.establish", "raise@1")
    with pytest.raises(FailpointError):
        await identity.establish(database, "place_a", "here:/a")
    assert await identity.established(database) is None
    assert await identity.establish(database, "place_a", "here:/a")
    assert not await identity.establish(database, "place_b", "there:/b")
    assert await identity.establish(database, "place_a", "here:/moved")
    assert await identity.established(database) == ("place_a", "here:/moved")


def test_a_directory_is_claimed_once(tmp_path: Path) -> None:
    first = claimed(tmp_path / "new" / "ingest")
    assert claimed(tmp_path / "new" / "ingest").line == first.line
    assert first.database == "db_a"


def test_another_databases_directory_is_refused_in_words(tmp_path: Path) -> None:
    claimed(tmp_path)
    before = (tmp_path / DEED).read_bytes()
    with pytest.raises(ConfigurationError, match="belongs to another database") as refused:
        claimed(tmp_path, "db_b")
    for part in (str(tmp_path), "db_a", "db_b", "db.example:5433/safelight", "own database"):
        assert part in refused.value.message
    assert "secret" not in refused.value.message
    assert (tmp_path / DEED).read_bytes() == before


@pytest.mark.parametrize("text", ["", "\n", "db_a", "db_a\n"])
def test_a_deed_that_says_nothing_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / DEED).write_text(text)
    with pytest.raises(ConfigurationError, match="does not say which database"):
        deed_in(tmp_path)


def test_addresses_without_secrets() -> None:
    assert where_is(URL) == "db.example:5433/safelight"
    several = (
        "postgresql://u:p%40@one:5432,two,[::1]:5433/safelight?target_session_attrs=read-write"
    )
    assert where_is(several) == "one:5432,two,[::1]:5433/safelight"
    assert (
        where_is("postgresql://u:p@/safelight?host=%2Fdata%2Frun&port=5432")
        == "/data/run/safelight"
    )


@pytest.mark.parametrize("point", points_of("files.once_", "files.sync_made"))
def test_whole_or_absent_however_it_ended(tmp_path: Path, point: str) -> None:
    path = tmp_path / "new" / "once"

    def make(text: str) -> None:
        make_directory(path.parent)
        write_once(path, text, IDS)

    failpoints.arm(point, "raise@1")
    with pytest.raises(FailpointError):
        make("first")
    assert not path.exists() or path.read_text() == "first"
    make("second")
    assert path.read_text() in {"first", "second"}
    settled = path.read_text()
    make("third")
    assert path.read_text() == settled
