"""Who decides first decides; the rest is a table."""

from itertools import product

import pytest

from safelight.approvals.decide import DecideNow, Keep, Refuse, decide, decide_expiry
from safelight.approvals.lifecycle import MACHINE, ApprovalStatus
from safelight.infra.states import IllegalTransition

PENDING, APPROVED, REJECTED = ApprovalStatus
END = 1000


@pytest.mark.parametrize(
    ("status", "wanted", "now", "expected"),
    [
        (PENDING, APPROVED, END - 1, DecideNow(APPROVED)),
        (PENDING, REJECTED, END - 1, DecideNow(REJECTED)),
        (PENDING, APPROVED, END, DecideNow(REJECTED, expired=True)),
        (PENDING, REJECTED, END, DecideNow(REJECTED, expired=True)),
        (PENDING, APPROVED, END + 99, DecideNow(REJECTED, expired=True)),
        (APPROVED, APPROVED, END - 1, Keep()),
        (APPROVED, APPROVED, END + 99, Keep()),
        (APPROVED, REJECTED, END - 1, Refuse()),
        (APPROVED, REJECTED, END + 99, Refuse()),
        (REJECTED, REJECTED, END - 1, Keep()),
        (REJECTED, APPROVED, END - 1, Refuse()),
        (REJECTED, APPROVED, END + 99, Refuse()),
    ],
)
def test_decide(
    status: ApprovalStatus, wanted: ApprovalStatus, now: int, expected: DecideNow | Keep | Refuse
) -> None:
    assert decide(status, END, wanted, now) == expected


@pytest.mark.parametrize(("status", "now"), list(product(ApprovalStatus, [END - 1, END, END + 1])))
def test_only_what_is_pending_and_due_expires(status: ApprovalStatus, now: int) -> None:
    due = status is PENDING and now >= END
    expected = DecideNow(REJECTED, expired=True) if due else Keep()
    assert decide_expiry(status, END, now) == expected


@pytest.mark.parametrize(("before", "after"), list(product(ApprovalStatus, ApprovalStatus)))
def test_only_a_pending_one_moves(before: ApprovalStatus, after: ApprovalStatus) -> None:
    if after in MACHINE.moves[before]:
        assert (before, after) in {(PENDING, APPROVED), (PENDING, REJECTED)}
        MACHINE.check(before, after)
    else:
        with pytest.raises(IllegalTransition, match=f"{before} → {after}"):
            MACHINE.check(before, after)
