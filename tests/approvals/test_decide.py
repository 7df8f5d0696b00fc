"""Who decides first decides; the rest is a table."""

from itertools import product

import pytest

from safelight.approvals.decide import Keep, Refuse, Settle, decide, decide_expiry
from safelight.approvals.lifecycle import TRANSITIONS, IllegalTransition, Status, check

PENDING, APPROVED, REJECTED = Status
END = 1000


@pytest.mark.parametrize(
    ("status", "wanted", "now", "expected"),
    [
        (PENDING, APPROVED, END - 1, Settle(APPROVED)),
        (PENDING, REJECTED, END - 1, Settle(REJECTED)),
        (PENDING, APPROVED, END, Settle(REJECTED, expired=True)),
        (PENDING, REJECTED, END, Settle(REJECTED, expired=True)),
        (PENDING, APPROVED, END + 99, Settle(REJECTED, expired=True)),
        (APPROVED, APPROVED, END - 1, Keep()),
        (APPROVED, APPROVED, END + 99, Keep()),
        (APPROVED, REJECTED, END - 1, Refuse()),
        (APPROVED, REJECTED, END + 99, Refuse()),
        (REJECTED, REJECTED, END - 1, Keep()),
        (REJECTED, APPROVED, END - 1, Refuse()),
        (REJECTED, APPROVED, END + 99, Refuse()),
    ],
)
def test_decide(status: Status, wanted: Status, now: int, expected: Settle | Keep | Refuse) -> None:
    assert decide(status, END, wanted, now) == expected


@pytest.mark.parametrize(("status", "now"), list(product(Status, [END - 1, END, END + 1])))
def test_only_what_is_pending_and_due_expires(status: Status, now: int) -> None:
    due = status is PENDING and now >= END
    expected = Settle(REJECTED, expired=True) if due else Keep()
    assert decide_expiry(status, END, now) == expected


@pytest.mark.parametrize(("before", "after"), list(product(Status, Status)))
def test_only_a_pending_one_moves(before: Status, after: Status) -> None:
    if after in TRANSITIONS[before]:
        assert (before, after) in {(PENDING, APPROVED), (PENDING, REJECTED)}
        check(before, after)
    else:
        with pytest.raises(IllegalTransition, match=f"{before} → {after}"):
            check(before, after)
