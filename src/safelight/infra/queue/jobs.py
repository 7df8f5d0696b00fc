"""What a job is: its kind, its verdicts, and the pure decisions about both.

A feature declares its kinds and writes handlers for them:

    OFFLOAD = JobKind("ingest.offload", payload=OffloadPayload, limit=8, retry=Backoff(attempts=5))

    async def offload(job: Job[OffloadPayload]) -> Verdict: ...

A payload is a frozen dataclass of ids. A handler may run twice, late, or beside itself: it reads
its row, decides, and writes back with a guard. It ends with `Done`, `Retry` or `Dead`; raising is a
retry by the kind's backoff, or, where the surroundings are away (infra/away.py), a wait that costs
nothing. A handler whose unit of work ended the job (`unit.ends`, or
`job_finish` inside its own statement) returns `Done(already=True)`, or `job.ended(answer)`.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, NewType, TypeVar, get_type_hints

from safelight.errors import ConfigurationError, SafelightError, full_words, public_words
from safelight.infra.states import Machine, Phase, State

P = TypeVar("P")
JobId = NewType("JobId", int)

ACTIVITY = "activity"  # of the bus; the detail is the organization that has news
TOPIC = "jobs"  # likewise; the detail is the kind that has work
TIMETABLE = ""  # announced instead of a kind: something was put off, or moved
MINUTE, HOUR, DAY = 60, 3600, 86400
_LONGEST_MESSAGE = 2000
SUSPECT = 2  # deaths from which on a job runs alone, as sql/queue.sql has it
DEATHS = 5  # the budget


class LeaseLost(SafelightError):
    """This job was taken over by another worker; nothing was written."""

    code = "LEASE_LOST"


class JobStatus(State):
    """A job is born queued, delayed, or running (leased to whoever made it necessary). A finished
    or cancelled one has no row: deleting is the cheapest end there is."""

    QUEUED = "queued", "Ready to run", "inbox"
    DELAYED = "delayed", "Waiting for its time", "loop"
    RUNNING = "running", "Running", "loop", "plain"
    DEAD = "dead", "Gave up", "cross", "problem", Phase.WAITING


# sql/queue.sql makes the moves. Those from RUNNING are made by the holder of the latest claim, or
# by the end of its lease.
MACHINE = Machine(
    "A job",
    {
        JobStatus.QUEUED: (JobStatus.RUNNING, JobStatus.DELAYED),
        JobStatus.DELAYED: (JobStatus.QUEUED,),
        JobStatus.RUNNING: (JobStatus.QUEUED, JobStatus.DELAYED, JobStatus.DEAD),
        JobStatus.DEAD: (JobStatus.QUEUED,),
    },
)


def _storable(text: str) -> str:
    """Without what PostgreSQL refuses in text: NUL and lone surrogates."""
    plain = text[:_LONGEST_MESSAGE].encode("utf-8", "backslashreplace").decode()
    return plain.replace("\0", "\\0")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed, as the dead letter shows it; always something that can be kept. What
    is for operators only, since it may name hosts and paths, is its `detail`."""

    code: str
    message: str
    detail: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", _storable(self.code))
        object.__setattr__(self, "message", _storable(self.message))
        object.__setattr__(self, "detail", _storable(self.detail))

    @classmethod
    def of(cls, error: "Failure | BaseException") -> "Failure":
        if isinstance(error, Failure):
            return error
        code = error.code if isinstance(error, SafelightError) else type(error).__name__
        message, detail = public_words(error), full_words(error)
        return cls(code, message, detail if detail != message else "")

    @property
    def in_full(self) -> "Failure":
        """For operators' eyes."""
        return Failure(self.code, self.detail) if self.detail else self

    def to_json(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


WORKER_DIED = Failure("WORKER_DIED", "Its worker was lost while it ran, again and again.")


@dataclass(frozen=True, slots=True)
class Done:
    """The work is done. `already`: the handler's own statement ended the job too. The others are
    for who has retries of their own, and only counted: `failed` says that it came to nothing,
    `again` that it was not the first to try."""

    already: bool = False
    failed: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Retry:
    """Not now, but by the kind's backoff, or `after` seconds. `away`: it is not the job's failure;
    it has its attempt back and waits `after` at least. An error may say so itself."""

    error: Failure | BaseException
    after: float | None = None
    away: bool = False


@dataclass(frozen=True, slots=True)
class Dead:
    """Trying again will not help: a person has to look."""

    error: Failure | BaseException


Verdict = Done | Retry | Dead


@dataclass(frozen=True, slots=True)
class PutBack:
    """Back to the queue after some seconds. The attempt is refunded where there was no failure, or
    it was not the job's (`away`)."""

    after: float
    failure: Failure | None
    away: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """Somebody else's by now; nothing to write."""


JobOutcome = Done | PutBack | Dead | Lost


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often to try, and the waits in between: growing from `first` to `cap`, or to `away` while
    something the job needs is not there: without end, or for about `patience` seconds."""

    attempts: int = 5
    first: float = 1.0
    cap: float = 300.0
    factor: float = 2.0
    away: float = 60.0
    patience: float | None = None

    def longest(self, attempt: int) -> float:
        return min(self.cap, self.first * self.factor ** min(attempt - 1, 60))

    def wait(self, attempt: int, jitter: float) -> float:
        """Between half of the longest and all of it, so that what failed together parts."""
        return self.longest(attempt) * (0.5 + jitter / 2)

    def wait_for_others(self, waits: int, jitter: float) -> float:
        longest = min(self.away, self.first * self.factor ** min(waits, 60))
        return longest * (0.5 + jitter / 2)

    def patient(self, waits: int) -> bool:
        """Whether one more is to follow so many waits, each of its usual length."""
        waited = sum(self.wait_for_others(n, 0.5) for n in range(waits)) if self.patience else 0.0
        return self.patience is None or waited < self.patience


# Three retries of its own failures; what is away is looked for up to 15 minutes apart, for a day.
STEADFAST = Backoff(attempts=4, away=15 * MINUTE, patience=DAY)


@dataclass(frozen=True, slots=True)
class Nothing:
    """The payload of jobs that need none, such as scheduled ones."""


@dataclass(frozen=True)
class JobKind(Generic[P]):
    """`limit` is how many run at once in one process, `ahead` how many more may wait there for
    their turn: for short jobs of which there are many. `subject` names what a job is about
    (`image:ID`) for its history and its dead letter. `waits_itself`: it spends its time waiting,
    or goes on where it was, so a worker that stops does not wait for its end."""

    name: str
    payload: type[P]
    limit: int = 4
    ahead: int = 0
    retry: Backoff = Backoff()
    subject: Callable[[P], str] | None = None
    waits_itself: bool = False

    def __post_init__(self) -> None:
        if problem := _problem_with(self.payload):
            raise ConfigurationError(f"The payload of job kind {self.name} {problem}.")
        if self.limit < 1 or self.retry.attempts < 1:
            raise ConfigurationError(f"Job kind {self.name} must run and be tried at least once.")

    def dump(self, payload: P) -> dict[str, Any]:
        return {name: getattr(payload, name) for name in payload.__dataclass_fields__}  # type: ignore[attr-defined]  # checked to be a dataclass

    def subject_of(self, raw: Mapping[str, Any]) -> str | None:
        """None as well for a payload written by a version that shaped it differently."""
        try:
            return self.subject(self.payload(**raw)) if self.subject else None
        except (TypeError, AttributeError):
            return None


@dataclass(frozen=True, slots=True)
class Job(Generic[P]):
    id: JobId
    kind: JobKind[P]
    organization: str
    raw: Mapping[str, Any]
    claim: int
    attempt: int
    deaths: int = 0
    waits: int = 0
    error: Mapping[str, str] | None = None  # of the last attempt that ended in words

    @classmethod
    def load(cls, kind: JobKind[P], row: Any) -> "Job[P]":
        """Of a row that was claimed, by the names of its columns."""
        return cls(
            JobId(row["id"]),
            kind,
            row["organization"],
            row["payload"],
            row["claim"],
            row["attempts"],
            row["deaths"],
            row["waits"],
            row["error"],
        )

    @property
    def payload(self) -> P:
        return self.kind.payload(**self.raw)

    @property
    def last_attempt(self) -> bool:
        return self.attempt >= self.kind.retry.attempts

    @property
    def suspect(self) -> bool:
        """Of killing its workers. It runs when no other suspect does, so that of those who were
        there at two deaths only the guilty one is there at the next."""
        return self.deaths >= SUSPECT

    @property
    def exhausted(self) -> bool:
        """Not to be run again: too many workers died of it, or its end could not be written."""
        return self.attempt > self.kind.retry.attempts or self.deaths >= DEATHS

    @property
    def starts(self) -> int:
        """That are counted against it, for people to read."""
        spent = self.attempt - 1 if self.exhausted else self.attempt
        return min(spent, self.kind.retry.attempts) + self.deaths

    @property
    def last_words(self) -> Failure:
        """Why, for one that is exhausted."""
        if self.error is None or self.error["code"] == WORKER_DIED.code:
            return WORKER_DIED
        if self.deaths < DEATHS:
            return Failure(**self.error)
        said = f"{WORKER_DIED.message} Before that: {self.error['code']}: {self.error['message']}"
        return Failure(WORKER_DIED.code, said)

    def ended(self, mine: bool | None) -> Done:
        """For what `job_finish` answered inside the handler's own statement."""
        if not mine:
            raise LeaseLost
        return Done(already=True)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A job that gave up. `cursor` is its place in the list."""

    id: JobId
    kind: str
    organization: str | None
    subject: str | None
    error: dict[str, str]
    attempts: int
    first_at: int
    died_at: int
    payload: dict[str, Any]
    cursor: tuple[int, int]


@dataclass(frozen=True, slots=True)
class KindStatus:
    """Of those delayed, `away` wait for something that is not there, and spend no attempt."""

    name: str
    queued: int = 0
    running: int = 0
    delayed: int = 0
    away: int = 0
    dead_letters: int = 0
    oldest_seconds: float | None = None


class Tended(NamedTuple):
    """Kinds with ready work; seconds until something is due, and until a suspect is; workers that
    hold jobs and are gone."""

    ready: list[str]
    wait: float | None
    suspect: float | None
    absent: list[str]


@dataclass(frozen=True, slots=True)
class HourCount:
    hour: int
    processed: int
    failed: int
    retried: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Enqueues its kind once per `every` seconds, aligned to the epoch, however many processes run;
    once for all ticks missed. `per_node`: once on each node instead."""

    kind: JobKind[Nothing]
    every: int
    per_node: bool = False

    def name(self, node: str) -> str:
        return f"{self.kind.name}@{node}" if self.per_node else self.kind.name


def by_name(kinds: Iterable[JobKind[Any]]) -> dict[str, JobKind[Any]]:
    found: dict[str, JobKind[Any]] = {}
    for kind in kinds:
        if kind.name in found:
            raise ConfigurationError(f"Two job kinds are called {kind.name}. Rename one of them.")
        found[kind.name] = kind
    return found


def _problem_with(payload: type) -> str | None:
    if not dataclasses.is_dataclass(payload) or not payload.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # a dataclass has them
        return "must be a frozen dataclass"
    odd = [name for name, kind in get_type_hints(payload).items() if kind not in {str, int}]
    return f"may hold only ids (str or int), not {', '.join(odd)}" if odd else None
