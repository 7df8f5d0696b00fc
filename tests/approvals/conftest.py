import pytest

from approvals.office import ORG, Office
from safelight.infra.db import Database


@pytest.fixture
async def office(database: Database) -> Office:
    made = Office(database)
    await made.organization(ORG, "globex")
    return made
