"""What is known of what the instance stands on. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """`connections` are everybody's to this server, of `most` that it allows."""

    version: str
    size: int
    connections: int
    most: int
