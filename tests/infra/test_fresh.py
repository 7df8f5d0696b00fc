"""What was just written is known once, and never too much of it."""

from safelight.infra.fresh import Fresh


def test_whoever_takes_it_forgets_it() -> None:
    fresh: Fresh[str, int] = Fresh()
    fresh.remember("a", 1)
    assert (fresh.take("a"), fresh.take("a"), fresh.take("b")) == (1, None, None)
    assert len(fresh) == 0


def test_the_oldest_make_room() -> None:
    """Another process may have done the work."""
    fresh: Fresh[int, str] = Fresh(most=3)
    for n in range(5):
        fresh.remember(n, f"of {n}")
    assert len(fresh) == 3
    assert [fresh.take(n) for n in range(5)] == [None, None, "of 2", "of 3", "of 4"]


def test_a_process_that_dies_knows_nothing() -> None:
    fresh: Fresh[str, int] = Fresh()
    fresh.remember("a", 1)
    fresh.clear()
    assert (len(fresh), fresh.take("a")) == (0, None)
