"""What the rows of the busiest tables are like. In production no CHECK says so, since PostgreSQL would
read it anew for every image (migration 0007). The databases that tests are given have them, so that
a statement that writes something else is found here. Those that a test makes for itself have not."""

import asyncpg

_RULES = {
    "jobs": """
        status IN ('queued', 'delayed', 'running', 'dead')
        AND (status = 'running') = (lease_until IS NOT NULL)
        AND (status = 'running') = (owner IS NOT NULL)
        AND (status = 'dead') = (died_at IS NOT NULL)
    """,
    "images": "status IN ('UPLOADED', 'INGESTED', 'STORED', 'FAILED')",
    "classification_runs": "status IN ('pending', 'running', 'done', 'failed', 'dropped')",
    "uploads": "classification_status IN ('pending', 'running', 'done', 'failed')",
}
_OF_AN_ORGANIZATION = (
    "ALTER TABLE images ADD CONSTRAINT of_an_organization "
    "FOREIGN KEY (organization) REFERENCES organizations (id)"
)


async def check(url: str) -> None:
    """From here on, in this database and what is cloned from it."""
    connection = await asyncpg.connect(url)
    try:
        for table, rule in _RULES.items():
            await connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT sound CHECK ({rule})")
        await connection.execute(_OF_AN_ORGANIZATION)
    finally:
        await connection.close()
