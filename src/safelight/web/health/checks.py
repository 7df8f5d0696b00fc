"""The state of the instance in words, each with what to do about it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from safelight.admin.health.facts import DatabaseFacts
from safelight.infra.states import Phase, State
from safelight.settings import Settings
from safelight.web.gallery.card import readable_size
from safelight.web.operations.shown import Disk
from safelight.web.story.words import counted

_NEARLY: Final = 0.85
_SKEW_SECONDS: Final = 1.0


class CheckState(State):
    FINE = "fine", "Fine", "check", "good", Phase.OVER
    LOOK = "look", "Look at this", "alert", "problem", Phase.WAITING
    NOTED = "noted", "As it is set", "info", "plain", Phase.OVER


@dataclass(frozen=True, slots=True)
class Check:
    """`mend` says what helps, where something should."""

    title: str
    state: CheckState
    words: str
    mend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReadings:
    """None: nobody could be asked."""

    database: DatabaseFacts | None
    pool: int  # connections of this process at the moment
    store: bool
    engine: bool
    workers: int
    unprotected: Sequence[str]
    skew: float | None
    disk: Disk | None
    differences: Mapping[str, int]
    confirmations: int
    forwarded: bool  # whether this very request came through a proxy


def checks(found: HealthReadings, settings: Settings) -> list[Check]:
    return [
        _database(found, settings),
        _connections(found, settings),
        _store(found, settings),
        _differences(found),
        _workers(found),
        _model(settings),
        _children(found),
        _disk(found),
        _clock(found),
        _address(settings),
        _proxy(found, settings),
        _events(found, settings),
    ]


def _database(found: HealthReadings, settings: Settings) -> Check:
    which = "of your own" if settings.database_url else "embedded"
    if found.database is None:
        mend = "See whether PostgreSQL runs, and whether this machine reaches it."
        return Check("Database", CheckState.LOOK, "It does not answer.", mend)
    facts = found.database
    words = f"PostgreSQL {facts.version}, {which}, {readable_size(facts.size)}."
    if settings.database_read_url:
        words += " A replica answers lists, histories and feeds when it has caught up."
    return Check("Database", CheckState.FINE, words)


def _connections(found: HealthReadings, settings: Settings) -> Check:
    title, facts = "Connections", found.database
    words = f"This process has {found.pool} of at most {settings.database_pool_size}."
    if facts is None:
        return Check(title, CheckState.NOTED, words)
    words += f" The server has {facts.connections} of {facts.most}."
    if facts.connections < _NEARLY * facts.most:
        return Check(title, CheckState.FINE, words)
    mend = "Raise max_connections of PostgreSQL, or lower SAFELIGHT_DATABASE_POOL_SIZE."
    return Check(title, CheckState.LOOK, words, mend)


def _store(found: HealthReadings, settings: Settings) -> Check:
    local = settings.object_store_url == "local"
    which = "Originals are files in the data directory." if local else "Originals are in a bucket."
    if found.store:
        return Check("Object store", CheckState.FINE, which)
    mend = (
        "See whether the disk of the data directory is there and can be written."
        if local
        else "See whether the bucket can be reached, and whether its keys still hold."
    )
    return Check("Object store", CheckState.LOOK, f"{which} It does not answer.", mend)


def _differences(found: HealthReadings) -> Check:
    left = sum(found.differences.values())
    if not left:
        words = "The last comparison of store and library left nothing over."
        return Check("Store and library", CheckState.FINE, words)
    kinds = ", ".join(f"{kind.replace('_', ' ')}: {n:,}" for kind, n in found.differences.items())
    words = f"The last comparison left {counted(left, 'difference')} over ({kinds})."
    mend = "Run safelight reconcile to see them by name, and to put them right."
    return Check("Store and library", CheckState.LOOK, words, mend)


def _workers(found: HealthReadings) -> Check:
    if not found.workers:
        mend = "Start safelight worker, or safelight serve without --no-worker."
        return Check("Workers", CheckState.LOOK, "No worker is there: nothing is done.", mend)
    words = f"{counted(found.workers, 'worker')} can be seen."
    if found.engine:
        return Check("Workers", CheckState.FINE, words)
    mend = "Its log says why; it goes on by itself once it gets through to the database."
    return Check("Workers", CheckState.LOOK, f"{words} The one of this process is cut off.", mend)


def _model(settings: Settings) -> Check:
    """One that cannot work stops the start."""
    words = f"Images are labelled by {settings.classifier}, which was ready at the start."
    if settings.thumbnails == "off":
        words += " No thumbnails are made: galleries show originals."
    return Check("Model", CheckState.FINE, words)


def _children(found: HealthReadings) -> Check:
    title = "Protection from images"
    if not found.unprotected:
        words = "Images are opened by processes that are locked in every way there is."
        return Check(title, CheckState.FINE, words)
    lacking = "; ".join(found.unprotected)
    words = f"The processes that open images have to do without {lacking}."
    mend = "A newer kernel, or starting as root so that each gets a user of its own, offers it."
    return Check(title, CheckState.LOOK, words, mend)


def _disk(found: HealthReadings) -> Check:
    if found.disk is None:
        return Check("Disk", CheckState.NOTED, "The system does not say how much is free.")
    free, total = readable_size(found.disk.free), readable_size(found.disk.total)
    words = f"{free} of {total} are free where uploads arrive."
    if not found.disk.is_short:
        return Check("Disk", CheckState.FINE, words)
    mend = "Make room: when it is full, uploads are refused."
    return Check("Disk", CheckState.LOOK, words, mend)


def _clock(found: HealthReadings) -> Check:
    if found.skew is None:
        return Check("Clock", CheckState.NOTED, "The database could not be asked for the time.")
    if abs(found.skew) <= _SKEW_SECONDS:
        return Check("Clock", CheckState.FINE, "It agrees with the database's.")
    way = "ahead of" if found.skew > 0 else "behind"
    words = f"It is {abs(found.skew):.1f} seconds {way} the database's."
    return Check("Clock", CheckState.LOOK, words, "Set both by the same source, such as NTP.")


def _address(settings: Settings) -> Check:
    title, public = "Public address", settings.public_url
    if public is None:
        words = "None is set: links lead to the address by which somebody came."
        mend = "Set SAFELIGHT_PUBLIC_URL, or providers cannot call back with what they made."
        return Check(title, CheckState.NOTED, words, mend)
    if public.startswith("https:"):
        return Check(title, CheckState.FINE, f"{public}, and cookies travel encrypted only.")
    words = f"{public}, without encryption: whoever listens reads passwords."
    return Check(title, CheckState.LOOK, words, "Put a proxy with TLS before it, and say https.")


def _proxy(found: HealthReadings, settings: Settings) -> Check:
    title, trusted = "Proxies", settings.trusted_proxies
    if "*" in trusted:
        words = "Everybody is believed who says where a request came from."
        return Check(title, CheckState.LOOK, words, "Name your proxies' addresses instead of *.")
    if trusted:
        named = ", ".join(str(one) for one in trusted)
        return Check(title, CheckState.FINE, f"Believed: {named}.")
    if not found.forwarded:
        return Check(title, CheckState.FINE, "You came to this server without one.")
    words = "You came through a proxy that is not believed: all its visitors count as one."
    mend = "Set SAFELIGHT_TRUSTED_PROXIES to its address."
    return Check(title, CheckState.LOOK, words, mend)


def _events(found: HealthReadings, settings: Settings) -> Check:
    title = "Events of a bucket"
    if found.confirmations:
        words = f"{counted(found.confirmations, 'topic')} of SNS waits to be confirmed."
        return Check(title, CheckState.LOOK, words, "Its address is on the page Queue.")
    if settings.notifications_url:
        return Check(title, CheckState.FINE, "They are fetched from a queue.")
    if settings.events_token:
        return Check(title, CheckState.FINE, "They may be sent here by whoever has the token.")
    words = "Nobody may send them, since there is no token; Safelight tells itself what it stores."
    return Check(title, CheckState.NOTED, words)
