"""The states of a submission and the only moves between them."""

from enum import StrEnum
from typing import Final

from safelight.errors import SafelightError

# What the world is told, and the fields of each message.
MESSAGES = {
    "submission_state_changed": ("id", "from", "to"),
}


class State(StrEnum):
    RECEIVED = "RECEIVED"  # pinned, and waiting for its turn
    TIER1_SCANNING = "TIER1_SCANNING"  # the file itself is examined
    TIER2_SCANNING = "TIER2_SCANNING"  # models look at what it shows
    AWAITING_APPROVAL = "AWAITING_APPROVAL"  # a person decides
    PUBLISHED = "PUBLISHED"  # everybody can see it
    REJECTED = "REJECTED"  # nobody ever will
    WITHDRAWN = "WITHDRAWN"  # nobody can any more


TRANSITIONS: Final[dict[State, tuple[State, ...]]] = {
    State.RECEIVED: (State.TIER1_SCANNING, State.REJECTED),
    State.TIER1_SCANNING: (State.TIER2_SCANNING, State.REJECTED),
    State.TIER2_SCANNING: (State.AWAITING_APPROVAL, State.PUBLISHED, State.REJECTED),
    State.AWAITING_APPROVAL: (State.PUBLISHED, State.REJECTED),
    State.PUBLISHED: (State.WITHDRAWN,),
    State.REJECTED: (),
    State.WITHDRAWN: (),
}

# What a machine is to do next; the others wait for a person, or for nothing.
UNDER_WAY: Final = frozenset({State.RECEIVED, State.TIER1_SCANNING, State.TIER2_SCANNING})
TERMINAL: Final = frozenset({State.PUBLISHED, State.REJECTED, State.WITHDRAWN})


class RejectionCode(StrEnum):
    STUCK_EXHAUSTED = "STUCK_EXHAUSTED"
    POLICY = "POLICY"
    MALFORMED = "MALFORMED"
    APPROVAL_REJECTED = "APPROVAL_REJECTED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    SOURCE_GONE = "SOURCE_GONE"


class IllegalTransition(SafelightError):
    """A submission cannot make that move."""

    code = "ILLEGAL_TRANSITION"


def check(before: State, after: State) -> None:
    allowed = TRANSITIONS[before]
    if after not in allowed:
        names = ", ".join(allowed) or "none: it is final"
        raise IllegalTransition(f"A submission cannot go {before} → {after}. Allowed: {names}.")
