"""What the feed is made of: the public messages of all features, and the inner types that tell a
subject's story to those who ask for them. A type nobody declared is shown to admins only."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from safelight.errors import Forbidden, InvalidRequest
from safelight.infra.history import Activity
from safelight.infra.injected import iso

INNER: Final = frozenset({
    "artifact_deleted", "classification_asked", "event_dropped", "event_received",
    "generation_cancelled", "generation_timed_out", "image_failed", "image_superseded",
    "image_uploaded", "offload_attempt", "original_damaged", "original_healed", "run_attempt",
    "run_dropped", "submission_retried", "task_attempt", "upload_delete_requested",
    "upload_expired", "upload_reconciled", "webhook_accepted", "webhook_ignored",
})  # fmt: skip
# Members, tokens, policy, quotas, dead letters, and what is classified anew.
FOR_ADMINS: Final = frozenset({
    "blocklist_added", "blocklist_removed", "job_dead", "job_discarded", "job_redriven",
    "member_invitation_declined", "member_invitation_withdrawn", "member_invited", "member_put",
    "member_removed", "organization_closed", "organization_made", "quotas_changed",
    "reclassification_asked", "reclassification_cancelled", "reclassification_done",
    "retention_changed", "submission_policy_changed", "token_made", "token_revoked",
})  # fmt: skip
EVERYTHING: Final = "*"


class Messages:
    """The public messages of all features, and the fields each has beyond seq, type and at."""

    def __init__(self, *declared: Mapping[str, tuple[str, ...]]) -> None:
        self._fields = {kind: names for one in declared for kind, names in one.items()}

    @property
    def types(self) -> list[str]:
        return list(self._fields)

    def inner(self, *, admin: bool) -> list[str]:
        """The declared types that a caller gets beyond the public ones."""
        return sorted(INNER | FOR_ADMINS if admin else INNER)

    @property
    def fields(self) -> Mapping[str, tuple[str, ...]]:
        return self._fields

    def show(self, activity: Activity) -> dict[str, Any]:
        data, names = activity.data, self._fields.get(activity.type)
        fields = data if names is None else {name: data[name] for name in names if name in data}
        return {"seq": activity.seq, "type": activity.type, "at": iso(activity.at), **fields}

    def show_inner(self, activity: Activity) -> dict[str, Any]:
        """For whoever asks for more than the public ones, whose fields say what they are about."""
        kind, _, name = activity.subject.partition(":")
        return {**self.show(activity), "subject": {"type": kind, "id": name}}

    def choose(self, asked: Sequence[str], *, admin: bool) -> list[str] | None:
        """The types a caller gets who asks for these; None: all there are."""
        inner = self.inner(admin=admin)
        known = {*self._fields, *INNER, *FOR_ADMINS, EVERYTHING}
        if unknown := [kind for kind in asked if kind not in known]:
            raise InvalidRequest(f"types: there is no type {unknown[0]}. Name types, or *.")
        if EVERYTHING in asked:
            return None if admin else [*self._fields, *inner]
        if not asked:
            raise InvalidRequest("types: give message types separated by commas, or *.")
        if any(kind not in {*self._fields, *inner} for kind in asked):
            raise Forbidden(
                "Messages about members, tokens, policy and dead letters are for admins."
            )
        return list(asked)


def out_of_bounds(after: int | None, floor: int, newest: int) -> dict[str, Any] | None:
    """What somebody is told first whose place in the feed is not there (any more): it was cut, or
    the database is older than it was, after a restore."""
    if after is None:
        return None
    if after > newest:
        return {"type": "reset", "seq": newest}
    return {"type": "history_truncated", "seq": floor} if after < floor else None
