"""The moves in any order: a state machine for Hypothesis.

One rule plays a move drawn from all of them. Rules of their own would be switched off, some in each
example, which is good for finding bugs in a stack and bad where each needs three others first.
"""

import asyncio
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from library.moves import Moves
from library.own_bucket import OwnBucketMoves
from library.scripted import BROKEN, Mood
from library.world import World

Move = tuple[Any, ...]

NAMES = st.sampled_from(["a.jpg", "a.jpg", "a.jpg", "b é.jpg"])
CONTENTS = st.sampled_from([b"one", b"two", b"one", b"two", BROKEN])
UPLOADS = st.tuples(NAMES, CONTENTS)
WAITS = st.sampled_from([1, 0, 400, 1000])
PICKS = st.integers(0, 11)
THEN = st.sampled_from(
    [(), (0,), (1,), (0, 0), (0, 0, 0), (2, 1), (3, 1, 0), (1, 1, 1, 1), (0,) * 6]
)
CRASHES = st.sampled_from([None, None, *range(15)])  # of as many points as a kind of job has
MOODS = st.sampled_from(["answer", "fail", "give up", "away"])
YES = st.booleans()
KINDS = st.sampled_from([None, "classification.run"])
DIALECTS = st.sampled_from(["r2", "seconds", "s3"])
OFFSETS = st.sampled_from([0, -1, 700, -90_000_000, 90_000_000])


def move(name: str, *parts: st.SearchStrategy[Any], then: bool = False) -> st.SearchStrategy[Move]:
    more = THEN if then else st.just(())
    return st.tuples(*parts, more).map(lambda drawn: (name, *drawn[:-1], *drawn[-1]))


def put() -> st.SearchStrategy[Move]:
    return move("put", NAMES, CONTENTS, WAITS, then=True)


def common() -> list[st.SearchStrategy[Move]]:
    """What is there more than once is likelier, so each is an object of its own."""
    return [
        *(put() for _ in range(3)),
        *(move("upload", NAMES, CONTENTS, WAITS, then=True) for _ in range(2)),
        *(move("delete", NAMES, WAITS, then=True) for _ in range(3)),
        *(move("work", PICKS, PICKS, PICKS, then=True) for _ in range(2)),
        *(move("think", PICKS, YES, then=True) for _ in range(3)),
        *(move("wake_up", PICKS, CRASHES, MOODS, YES) for _ in range(2)),
        *(move("work_badly", KINDS, PICKS, CRASHES, MOODS, YES) for _ in range(3)),
        *(move("deliver_again", PICKS, then=True) for _ in range(2)),
        *(move("reconcile", then=True) for _ in range(2)),
        *(move("lose", PICKS, then=True) for _ in range(2)),
        *(move("put_together", UPLOADS, UPLOADS, UPLOADS) for _ in range(2)),
        move("claim", PICKS, YES, then=True),
        move("redrive", PICKS, then=True),
        move("delete_in_vain", NAMES, PICKS),
        move("lose_the_file", PICKS),
        move("race", PICKS, PICKS, PICKS),
        move("restart", then=True),
        move("retain", st.sampled_from([1, 15, 40])),
    ]


BUILT_IN = st.one_of(
    *common(),
    *(move("retell", PICKS, DIALECTS, YES, then=True) for _ in range(3)),
    move("mislead", NAMES, st.none() | CONTENTS, YES, OFFSETS, DIALECTS, PICKS, then=True),
)
TELLING = st.one_of(
    *common(), *(move("notify", PICKS, PICKS) for _ in range(8)), move("expire", NAMES)
)


LOSING = st.one_of(TELLING, move("lose_notice", PICKS))
OWN = st.one_of(
    *common(),
    *(move("put_late", NAMES, CONTENTS, WAITS, then=True) for _ in range(2)),
    *(move("delete_before_late", NAMES, CONTENTS, then=True) for _ in range(2)),
    *(move("put_before_late", NAMES, CONTENTS, then=True) for _ in range(2)),
    *(move("delete_late", NAMES, WAITS, then=True) for _ in range(2)),
    *(move("apply", PICKS, then=True) for _ in range(2)),
    *(move("settle", YES, CRASHES, then=True) for _ in range(3)),
)
MEDDLED = st.one_of(
    OWN,
    *(move("take_out", NAMES, then=True) for _ in range(2)),
    *(move("bring_in", PICKS, then=True) for _ in range(2)),
)


class Machine(RuleBasedStateMachine):
    """One example is one organization; its end is judged after everything was delivered."""

    world: ClassVar[World]
    moves: ClassVar[type[Moves]] = Moves
    runner: ClassVar[asyncio.Runner]

    def __init__(self) -> None:
        super().__init__()
        self._sound = False

    @initialize(
        first=st.lists(put(), min_size=1, max_size=2),
        employed=YES,
        backwards=YES,
        late_mood=MOODS,
        dialect=DIALECTS,
    )
    def begin(
        self, first: list[Move], employed: bool, backwards: bool, late_mood: Mood, dialect: str
    ) -> None:
        story = self.runner.run(self.world.begin(employed=employed))
        story.dialect = dialect
        self._moves = self.moves(self.world, backwards=backwards, late_mood=late_mood)
        for one in first:
            self._play(one)

    def _play(self, one: Move) -> None:
        name, *parts = one
        self._sound = False
        self.runner.run(getattr(self._moves, name)(*parts))
        self._sound = True

    def teardown(self) -> None:
        if self._sound:
            self._play(("end",))


class BuiltInStore(Machine):
    """With events of our own, and others that come from outside: repeated, late or made up."""

    @rule(one=BUILT_IN)
    def play(self, one: Move) -> None:
        self._play(one)


class LosingBucket(Machine):
    """With one of which some notifications are lost as well. Looking finds what they would have
    told."""

    @rule(one=LOSING)
    def play(self, one: Move) -> None:
        self._play(one)


class OwnBucket(Machine):
    """With one that only we write to, in which writes are late or without an answer."""

    moves = OwnBucketMoves

    @rule(one=OWN)
    def play(self, one: Move) -> None:
        self._play(one)


class MeddledBucket(OwnBucket):
    """With others, who put into it and take out of it."""

    @rule(one=MEDDLED)
    def play(self, one: Move) -> None:
        self._play(one)


class TellingBucket(Machine):
    """With a bucket whose notifications are the only events."""

    @rule(one=TELLING)
    def play(self, one: Move) -> None:
        self._play(one)
