"""Every piece that pages are made of, in each of its states, for those who make pages. A piece of
css/components has its pattern in templates/patterns, by the same name; the page finds it there."""

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Any, ClassVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from safelight.accounts.guard import AsOperator
from safelight.http.frame import ClockDep
from safelight.infra.history import Activity
from safelight.infra.states import State
from safelight.quotas.lifecycle import Meter, Quota
from safelight.submissions.findings import Severity
from safelight.web.charts import BarPart, Chart, Hour, draw
from safelight.web.gauges import Gauge, gauges
from safelight.web.rendering import Context, PagesDep
from safelight.web.sentences import Sentence, sentence_of

router = APIRouter(include_in_schema=False)

_ABOUT = re.compile(r"\{# (?P<group>[\w ]+): (?P<words>.*?) #\}", re.DOTALL)
_HOUR = 3600 * 1000
_WORK = (
    (12, 1, 0),
    (30, 0, 0),
    (0, 0, 0),
    (18, 4, 2),
    (44, 2, 1),
    (25, 0, 0),
    (3, 0, 9),
    (16, 1, 0),
)


@dataclass(frozen=True, slots=True)
class PiecePattern:
    name: str
    group: str
    words: str

    @property
    def template(self) -> str:
        return f"patterns/{self.name}.html"


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """The states of one thing."""

    title: str
    states: tuple[State | Severity, ...]


@dataclass(frozen=True, kw_only=True)
class PatternsPage(Context):
    template: ClassVar[str] = "patterns.html"
    title: str = "Patterns"
    groups: list[tuple[str, list[PiecePattern]]]
    lifecycles: list[Lifecycle]
    gauges: list[Gauge]
    chart: Chart
    sentences: list[Sentence]
    now: int


@router.get("/patterns")
async def patterns_page(
    request: Request, caller: AsOperator, pages: PagesDep, clock: ClockDep
) -> Response:
    del caller
    now = clock.now_ms()
    page = PatternsPage(
        groups=[(name, list(found)) for name, found in groupby(patterns(), lambda one: one.group)],
        lifecycles=lifecycles(),
        gauges=gauges(_quotas(now)),
        chart=draw([_hour(now, n, counts) for n, counts in enumerate(_WORK)], 60),
        sentences=[sentence_of(one) for one in _lines(now)],
        now=now,
    )
    return await pages.render(request, page)


@cache
def patterns() -> list[PiecePattern]:
    folder = resources.files("safelight.web").joinpath("templates", "patterns")
    found = []
    for file in folder.iterdir():
        about = _ABOUT.match(file.read_text())
        if about is None:
            raise LookupError(f"{file.name} does not begin with its group and words")
        words = " ".join(about["words"].split())
        found.append(PiecePattern(file.name.removesuffix(".html"), about["group"], words))
    return sorted(found, key=lambda one: (one.group, one.name))


def lifecycles() -> list[Lifecycle]:
    """Of all that this process knows; a new one is here by itself."""
    kinds: list[type[State | Severity]] = [*State.__subclasses__(), Severity]
    found = [
        Lifecycle(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", one.__name__), tuple(one)) for one in kinds
    ]
    return sorted((one for one in found if one.states), key=lambda one: one.title)


def _quotas(now: int) -> list[Quota]:
    return [
        Quota(Meter.STORED_BYTES, 50 * 2**30, own=False, used=12 * 2**30, resets_at=None),
        Quota(Meter.UPLOADS, 600, own=True, used=520, resets_at=now),
        Quota(Meter.GENERATIONS, 100, own=False, used=100, resets_at=now + _HOUR),
        Quota(Meter.SUBMISSIONS, None, own=False, used=31, resets_at=None),
    ]


def _hour(now: int, n: int, counts: tuple[int, int, int]) -> Hour:
    kinds = zip(("processed", "retried", "failed"), counts, strict=True)
    return Hour(now - (len(_WORK) - n) * _HOUR, tuple(BarPart(*one) for one in kinds))


def _lines(now: int) -> list[Activity]:
    ada = {"actor": {"type": "user", "name": "ada"}}
    error = {"error": {"code": "MODEL_ERROR", "message": "The model did not give an answer."}}
    told: list[tuple[str, dict[str, Any]]] = [
        ("upload_ingested", {"sizeBytes": 2_418_733, **ada}),
        (
            "classification_updated",
            {"classificationLabel": "lakeside", "classificationScore": 0.87},
        ),
        ("classification_error", error),
        ("approval_approved", ada),
        ("upload_deleted", ada),
    ]
    return [
        Activity(n, kind, now, data, "upload:harbour.jpg") for n, (kind, data) in enumerate(told)
    ]
