"""A stuck submission in the hands of an operator, who does not wait for recovery: it is started
again at once, or given up.

Guarantees
- What has got on meanwhile, is at work or waits in the queue is refused, and nothing
  changes: it is judged under its row's lock, as recovery does, and by the same rules but for the
  pause.
- Beside recovery, or pressed twice, it is done once: the second finds a job in the queue, or an
  end.
"""

from dataclasses import dataclass

from safelight.errors import Conflict, NotFound
from safelight.infra.activity import Unit, Units
from safelight.submissions import repo
from safelight.submissions.lifecycle import Rejection, RejectionCode, SubmissionState
from safelight.submissions.moves import SubmissionMove, move
from safelight.submissions.recovery.decide import Leave, StartAgain, Tempo, Why, asked
from safelight.submissions.recovery.records import SubmissionView
from safelight.submissions.recovery.recover import Overtaken, count_unseen, start_again

ENDED_BY_HAND = Rejection(
    RejectionCode.STUCK_EXHAUSTED,
    "We could not finish checking this image, and whoever runs this server ended it. It is not "
    "your image's fault; please submit it again later.",
)
_WORDS = {
    Why.MOVED_ON: "It is not stuck any more.",
    Why.IN_LINE: "It is in the queue already.",
    Why.AT_WORK: "It is being checked right now.",
}


class NotStuck(Conflict):
    """This submission is not stuck any more. Look again."""


@dataclass(frozen=True, slots=True)
class ByHand:
    units: Units
    tempo: Tempo

    async def try_now(self, submission_id: str, actor: dict[str, str]) -> None:
        """Its next run does not wait for its time."""
        async with self.units.open(await self._owner(submission_id)) as unit:
            view, decision = await self._stuck(unit, submission_id)
            await count_unseen(unit, view, view.progress.inflight, decision.incident)
            try:
                await start_again(unit, view, decision, actor)
            except Overtaken as error:
                raise NotStuck(_WORDS[Why.IN_LINE]) from error

    async def give_up(self, submission_id: str, actor: dict[str, str]) -> None:
        """It is rejected, and its submitter told that it was nobody's fault."""
        async with self.units.open(await self._owner(submission_id)) as unit:
            view, decision = await self._stuck(unit, submission_id)
            await count_unseen(unit, view, view.progress.inflight, decision.incident)
            change = SubmissionMove(SubmissionState.REJECTED, ENDED_BY_HAND, actor)
            await move(unit, view.submission, change)

    async def _owner(self, submission_id: str) -> str:
        submission = await repo.find(self.units.db, submission_id)
        if submission is None:
            raise NotFound
        return submission.organization

    async def _stuck(self, unit: Unit, submission_id: str) -> tuple[SubmissionView, StartAgain]:
        view = await repo.view_locked(unit.connection, submission_id, unit.now)
        if view is None:
            raise NotFound
        decision = asked(view.progress, unit.now, self.tempo)
        if isinstance(decision, Leave):
            raise NotStuck(_WORDS.get(decision.why))
        return view, decision
