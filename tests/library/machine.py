"""The moves in any order: a state machine for Hypothesis.

One rule plays a move drawn from all of them. Rules of their own would be switched off, some in each
example, which is good for finding bugs in a stack and bad where each needs three others first.
"""

import asyncio
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from library.moves import Moves
from library.scripted import BROKEN, Mood
from library.world import World

Move = tuple[Any, ...]

NAMES = st.sampled_from(["a.jpg", "a.jpg", "a.jpg", "b é.jpg"])
CONTENTS = st.sampled_from([b"one", b"two", b"one", b"two", BROKEN])
WAITS = st.sampled_from([0, 1, 1, 400, 1000])
PICKS = st.integers(0, 11)
THEN = st.lists(PICKS, max_size=3)
CRASHES = st.one_of(st.none(), st.integers(0, 5))
MOODS = st.sampled_from(["answer", "fail", "fail for good"])
YES = st.booleans()
DIALECTS = st.sampled_from(["r2", "seconds", "s3"])
OFFSETS = st.sampled_from([-90_000_000, -1, 0, 700, 90_000_000])


def move(name: str, *parts: st.SearchStrategy[Any], then: bool = False) -> st.SearchStrategy[Move]:
    more = THEN if then else st.just(())
    return st.tuples(st.just(name), st.tuples(*parts), more).map(lambda m: (m[0], *m[1], *m[2]))


UPLOAD = move("upload", NAMES, CONTENTS, WAITS, then=True)
DELETE = move("delete", NAMES, WAITS, then=True)
WORK = move("work", PICKS, PICKS, PICKS, then=True)
THINK = move("think", PICKS, YES, then=True)
WAKE_UP = move("wake_up", PICKS, CRASHES, MOODS, YES)
BADLY = move("work_badly", PICKS, CRASHES, MOODS, YES)
COMMON = [
    UPLOAD, UPLOAD, DELETE, DELETE, WORK, WORK, WORK, THINK, WAKE_UP, BADLY, BADLY,
    move("delete_in_vain", NAMES, PICKS),
    move("lose_the_file", PICKS),
    move("redrive", PICKS, then=True),
    move("claim", PICKS, YES, then=True),
    move("race", PICKS, PICKS, PICKS),
    move("restart", then=True),
    move("retain", st.sampled_from([1, 15, 40])),
    move("deliver_again", PICKS, then=True),
]  # fmt: skip
BUILT_IN = st.one_of(
    *COMMON,
    move("retell", PICKS, DIALECTS, YES, then=True),
    move("mislead", NAMES, st.none() | CONTENTS, YES, OFFSETS, DIALECTS, PICKS, then=True),
)
NOTIFY = move("notify", PICKS, PICKS)
TELLING = st.one_of(*COMMON, NOTIFY, NOTIFY, NOTIFY, move("expire", NAMES))


class Machine(RuleBasedStateMachine):
    """One example is one organization; its end is judged after everything was delivered."""

    moves: st.SearchStrategy[Move]

    def __init__(self, world: World, runner: asyncio.Runner) -> None:
        super().__init__()
        self._world = world
        self._runner = runner
        self._sound = False

    @initialize(
        first=st.lists(UPLOAD, min_size=1, max_size=2),
        employed=YES,
        backwards=YES,
        late_mood=MOODS,
        dialect=DIALECTS,
    )
    def begin(
        self, first: list[Move], employed: bool, backwards: bool, late_mood: Mood, dialect: str
    ) -> None:
        story = self._runner.run(self._world.begin(employed=employed))
        story.dialect = dialect
        self._moves = Moves(self._world, backwards=backwards, late_mood=late_mood)
        for one in first:
            self._play(one)

    def _play(self, one: Move) -> None:
        name, *parts = one
        self._sound = False
        self._runner.run(getattr(self._moves, name)(*parts))
        self._sound = True

    def teardown(self) -> None:
        if self._sound:
            self._play(("end",))


class BuiltInStore(Machine):
    """With events of our own, and others that come from outside: repeated, late or made up."""

    @rule(one=BUILT_IN)
    def play(self, one: Move) -> None:
        self._play(one)


class TellingBucket(Machine):
    """With a bucket whose notifications are the only events."""

    @rule(one=TELLING)
    def play(self, one: Move) -> None:
        self._play(one)
