"""What the database says of itself."""

from safelight.admin.health.facts import DatabaseFacts
from safelight.infra.db import Database, read


@read
async def facts(db: Database) -> DatabaseFacts:
    row = await db.fetchrow(
        """
        SELECT current_setting('server_version') AS version,
               pg_database_size(current_database()) AS size,
               (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
                   AS connections,
               current_setting('max_connections')::integer AS most
        """
    )
    assert row is not None  # noqa: S101 - a SELECT without FROM has one row
    return DatabaseFacts(**row)
