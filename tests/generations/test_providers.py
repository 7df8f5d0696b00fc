"""The parts of providers that need no vendor: replies, signatures, waits, pace."""

import asyncio
import base64
import time
from typing import Any, get_args

import pytest

from safelight.generations.lifecycle import MediaKind, TaskErrorCode
from safelight.generations.pace import LONGEST_PAUSE, LOOK_AGAIN, Pace
from safelight.generations.providers.base import (
    Accepted,
    Finished,
    Order,
    ProviderAnswer,
    ProviderTrouble,
    Refused,
    TaskUnknown,
)
from safelight.generations.providers.replicate import KeyAway, Replicate, media_of, request_of
from safelight.generations.providers.replicate import answer_of as prediction_answer
from safelight.generations.providers.runware import answer_of
from safelight.generations.providers.runware_replies import MOST_REPORTS, errors_of, reports_of
from safelight.generations.providers.signatures import is_usable, sign, verify
from safelight.generations.providers.wire import Reply, Wire
from safelight.infra.injected import SystemClock
from safelight.infra.retry_after import seconds_of
from safelight.infra.turns import whose
from safelight.testing.injected import Watch
from safelight.testing.waiting import until

NOW = 1_700_000_000_000
SECRET = "whsec_" + base64.b64encode(b"s" * 24).decode()
CHANGED = "whsec_" + base64.b64encode(b"c" * 24).decode()
URL = "https://im.runware.ai/x.png"


def reply(payload: Any, status: int = 200, after: float | None = None) -> Reply:
    return Reply(status, payload, after)


def error(code: str, uuid: str | None = "me", task_type: str = "imageInference") -> dict[str, Any]:
    return {"errors": [{"code": code, "message": "m", "taskUUID": uuid, "taskType": task_type}]}


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (reply({"data": [{"taskUUID": "me", "imageURL": URL}]}), Finished),
        (
            reply({"data": [{"taskUUID": "me", "imageURL": URL}], **error("invalidSeed", "you")}),
            Finished,
        ),
        (reply({"data": [{"taskUUID": "me"}]}), Accepted),
        (reply({"data": [{"taskUUID": "me", "status": "processing"}]}), Accepted),
        (reply({"data": [{"taskUUID": "you", "imageURL": URL}]}), TaskUnknown),
        (reply({}), TaskUnknown),
        (reply({"data": [], **error("invalidModel")}), Refused),
        (reply(error("contentPolicyViolation"), 400), Refused),
        (reply(error("invalidApiKey", None), 401), Refused),
        (reply(error("insufficientCredits"), 402), Refused),
        (reply(error("rateLimitExceeded"), 200), ProviderTrouble),
        (reply(error("timeoutProvider"), 200), ProviderTrouble),
        (reply(error("noAvailableServer"), 200), ProviderTrouble),
        (reply({"error": {"code": "invalidSeed", "message": "m"}, "taskUUID": "me"}), Refused),
        (reply({"data": [{"taskUUID": "me", "status": "error", "error": {"code": "x"}}]}), Refused),
        (reply(None, 404), Refused),
        (reply(None, 429), ProviderTrouble),
        (reply(None, 500), ProviderTrouble),
        (reply(None, 200), ProviderTrouble),
        (reply([], 200), TaskUnknown),
        (reply({"data": "?", "errors": "?"}), TaskUnknown),
    ],
)
def test_runware_answers(answer: Reply, kind: type[ProviderAnswer]) -> None:
    assert isinstance(answer_of(answer, "me"), kind)


def test_whether_a_task_may_have_been_taken() -> None:
    for status, sent, busy in (
        (429, False, True),
        (503, False, False),
        (500, True, False),
        (502, True, False),
    ):
        outcome = answer_of(reply(None, status, 4.0), "me")
        assert outcome == ProviderTrouble(f"Runware answered {status}.", 4.0, sent=sent, busy=busy)


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        (reply(error("timeoutProvider")), True),
        (
            reply({"data": [{"taskUUID": "me", "status": "error", "error": {"code": "timeout"}}]}),
            True,
        ),
        (reply(error("serviceUnavailable"), 503), False),
        (reply(error("internalServerError"), 500), False),
        (reply(error("timeoutProvider"), 504), False),
        (reply(error("internalServerError", task_type="getResponse")), False),
        (
            reply({"error": {"code": "timeout"}, "taskUUID": "me", "taskType": "getResponse"}),
            False,
        ),
        (reply(error("timeoutProvider", None)), False),
        (reply(error("rateLimitExceeded")), False),
    ],
)
def test_an_error_about_the_question_is_not_the_tasks_end(answer: Reply, ended: bool) -> None:
    """A question carries its task's id, and so does what goes wrong with it; whoever took that for
    the end would submit the task anew, and pay twice."""
    outcome = answer_of(answer, "me", asked=True)
    assert isinstance(outcome, ProviderTrouble)
    assert outcome.ended is ended


def test_in_a_webhook_every_error_is_final() -> None:
    codes = {}
    for code in ("timeoutProvider", "invalidPrompt", "nsfwContentDetected", "insufficientCredits"):
        [report] = reports_of(error(code))
        assert isinstance(report.outcome, Refused)
        codes[code] = report.outcome.error.code
    assert codes == {
        "timeoutProvider": TaskErrorCode.PROVIDER_ERROR, "invalidPrompt": TaskErrorCode.REFUSED,
        "nsfwContentDetected": TaskErrorCode.REFUSED, "insufficientCredits": TaskErrorCode.PROVIDER_ERROR,
    }  # fmt: skip


def test_results_and_errors_in_one_body() -> None:
    body = {"data": [{"taskUUID": "a", "videoURL": URL, "cost": 0.5}], **error("x", "b")}
    assert [(report.task_id, type(report.outcome)) for report in reports_of(body)] == [
        ("a", Finished), ("b", Refused),
    ]  # fmt: skip
    assert [one["code"] for one in errors_of(body)] == ["x"]


def test_a_body_of_very_many_reports_is_cut() -> None:
    """It is judged while the generation's row is locked."""
    assert len(reports_of({"data": [{}] * 10_000, "errors": [{}] * 10_000})) == MOST_REPORTS


def test_a_vendors_words_are_cut() -> None:
    long = {"errors": [{"code": "c", "message": "line\n" * 500 + "\0"}]}
    [report] = reports_of(long)
    assert isinstance(report.outcome, Refused)
    assert len(report.outcome.error.message) < 400
    assert "\n" not in report.outcome.error.message
    assert "\0" not in report.outcome.error.message


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (reply({"id": "p1", "status": "succeeded", "output": [URL]}, 201), Finished),
        (reply({"id": "p1", "status": "succeeded", "output": "no file"}), Refused),
        (reply({"id": "p1", "status": "failed", "error": "NSFW"}), Refused),
        (reply({"id": "p1", "status": "canceled"}), Refused),
        (reply({"id": "p1", "status": "starting"}, 201), Accepted),
        (reply({"id": "p1", "status": "something new"}), Accepted),
        (reply({"detail": "bad input"}, 422), Refused),
        (reply({"detail": "slow down"}, 429), ProviderTrouble),
        (reply({"status": "succeeded"}, 200), ProviderTrouble),
        (reply(None, 200), ProviderTrouble),
    ],
)
def test_replicate_answers(answer: Reply, kind: type[ProviderAnswer]) -> None:
    assert isinstance(prediction_answer(answer), kind)


@pytest.mark.parametrize(
    ("output", "url"),
    [
        (URL, URL), ([URL, "https://b"], URL), ({"video": URL, "n": 1}, URL), ([[URL]], URL),
        ("data:image/png;base64,AA==", "data:image/png;base64,AA=="),
        (None, None), ([], None), ("text", None), ({"a": 1}, None), (5, None), ("ftp://x", None),
    ],
)  # fmt: skip
def test_where_replicates_result_is(output: Any, url: str | None) -> None:
    media = media_of({"output": output})
    assert (media.url if media else None) == url


@pytest.mark.parametrize(
    ("model", "path", "version"),
    [
        ("acme/film", "/models/acme/film/predictions", None),
        ("acme/film:v1", "/predictions", "v1"),
        ("5c7d5dc6", "/predictions", "5c7d5dc6"),
    ],
)
def test_replicates_request(model: str, path: str, version: str | None) -> None:
    wanted = {"prompt": "p", "seed": 4, "taskUUID": "x", "steps": 2}
    order = Order("g", "a", 2, None, MediaKind.VIDEO, model, wanted, "https://w", 9.0)
    found, body = request_of(order)
    assert (found, body.get("version")) == (path, version)
    assert body["input"] == {"prompt": "p", "seed": 6, "steps": 2}
    assert (body["webhook"], body["webhook_events_filter"]) == ("https://w", ["completed"])


# Signatures


def headers(body: bytes = b"{}", sent: int = NOW // 1000, secret: str = SECRET) -> dict[str, str]:
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(sent),
        "webhook-signature": f"v1,AAAA {sign(secret, 'msg_1', str(sent), body)}",
    }


def test_a_signature_that_fits() -> None:
    assert verify(SECRET, headers(), b"{}", NOW)
    assert verify(SECRET, headers(sent=NOW // 1000 - 299), b"{}", NOW)


@pytest.mark.parametrize(
    "wrong",
    [
        {**headers(), "webhook-id": "msg_2"},
        {**headers(), "webhook-signature": ""},
        {**headers(), "webhook-signature": "v1,é"},
        {**headers(), "webhook-timestamp": str(NOW // 1000 + 1)},
        {**headers(), "webhook-timestamp": "soon"},
        {**headers(), "webhook-timestamp": "9" * 400},
        headers(body=b"{ }"),
        headers(sent=NOW // 1000 - 301),
        headers(sent=NOW // 1000 + 301),
        headers(secret="whsec_b3RoZXI="),
        {},
    ],
)
def test_signatures_that_do_not(wrong: dict[str, str]) -> None:
    assert not verify(SECRET, wrong, b"{}", NOW)


def test_keys_that_can_be_used() -> None:
    assert is_usable(SECRET)
    assert not any(is_usable(one) for one in (None, 5, "", "whsec_", "whsec_x"))


class Keys(Wire):
    """A vendor's present keys, one for each time it is asked; None: it does not say."""

    def __init__(self, *keys: str | None) -> None:
        self.keys = list(keys)

    async def ask(self, *_: Any, **__: Any) -> Reply:
        key = self.keys.pop(0)
        return reply({"key": key}) if key else reply(None, 500)


async def test_a_key_that_the_vendor_has_changed_is_asked_for_again() -> None:
    """But not whenever somebody sends a signature that does not fit."""
    watch, wire = Watch(NOW), Keys(SECRET, CHANGED)
    vendor = Replicate("https://vendor", wire, watch)
    assert await vendor.signed(headers(), b"{}")
    assert not await vendor.signed(headers(secret=CHANGED), b"{}")
    assert wire.keys == [CHANGED]
    watch.move(seconds=5)
    assert await vendor.signed(headers(secret=CHANGED), b"{}")
    assert not await vendor.signed(headers(), b"{}")
    assert wire.keys == []


async def test_while_the_changed_key_is_away_the_vendor_is_asked_instead() -> None:
    watch = Watch(NOW)
    vendor = Replicate("https://vendor", Keys(SECRET, None), watch)
    assert await vendor.signed(headers(), b"{}")
    watch.move(seconds=5)
    with pytest.raises(KeyAway):
        await vendor.signed(headers(secret=CHANGED), b"{}")
    assert await vendor.signed(headers(), b"{}"), "the one it has may be right all the same"


async def test_an_operators_key_is_not_asked_for() -> None:
    vendor = Replicate("https://vendor", Keys(), Watch(NOW), SECRET)
    assert not await vendor.signed(headers(secret=CHANGED), b"{}")


# Waiting


@pytest.mark.parametrize(
    ("hint", "seconds"),
    [("7", 7.0), ("0", 0.0), (None, None), ("soon", None), ("-3", None),
     ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0), ("Tue, 14 Nov 2023 22:13:10 GMT", 0.0)],
)  # fmt: skip
def test_retry_after(hint: str | None, seconds: float | None) -> None:
    assert seconds_of(hint, NOW) == seconds


async def test_pace_at_once() -> None:
    pace, running, most = Pace(SystemClock(), 3), 0, 0

    async def work() -> None:
        nonlocal running, most
        async with pace.turn("acme"):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1

    await asyncio.gather(*(work() for _ in range(12)))
    assert most == 3


async def test_long_calls_of_one_organization_leave_one_for_another() -> None:
    pace, over, calling = Pace(SystemClock(), 3), asyncio.Event(), []

    async def call(organization: str) -> None:
        whose.set(organization)
        async with pace.turn(organization):
            calling.append(organization)
            await over.wait()

    whale = [asyncio.create_task(call("whale")) for _ in range(20)]
    await until(lambda: len(calling) == 3)
    shrimp = asyncio.create_task(call("shrimp"))
    await until(lambda: "shrimp" in calling)
    assert calling == ["whale", "whale", "whale", "shrimp"]
    over.set()
    await asyncio.gather(*whale, shrimp)


async def test_pace_per_minute() -> None:
    pace, starts = Pace(SystemClock(), 10, per_minute=1200), []

    async def work() -> None:
        async with pace.turn("acme"):
            starts.append(time.monotonic())

    await asyncio.gather(*(work() for _ in range(5)))
    assert starts[-1] - starts[0] >= 0.19


async def test_who_was_told_waits_and_the_others_go_one_at_a_time() -> None:
    watch = Watch()
    pace = Pace(watch, 3)

    async def pause(organization: str) -> float:
        async with pace.turn(organization) as seconds:
            return seconds

    async with pace.turn("globex") as early:
        assert (early, await pause("acme")) == (0.0, 0.0)
        pace.slow_down(20.0, "acme")
        assert (await pause("acme"), await pause("initech")) == (20.0, LOOK_AGAIN)
    assert (await pause("globex"), await pause("initech")) == (0.0, 0.0)  # one after another
    assert await pause("acme") == 20.0, "what goes well for others lifts nothing"
    async with pace.turn("globex"):
        assert await pause("globex") == LOOK_AGAIN
        pace.slow_down(30.0, "globex")  # it is told too, and is none of the others any more
        assert (await pause("globex"), await pause("initech")) == (30.0, 0.0)
    pace.slow_down(1.0, "acme")
    assert await pause("acme") == 20.0, "sooner than it was told before is not what was meant"
    watch.move(seconds=20)
    async with pace.turn("acme") as back:
        assert (back, await pause("acme")) == (0.0, LOOK_AGAIN)
    watch.move(seconds=10)
    async with pace.turn("acme"):
        assert (await pause("acme"), await pause("globex")) == (0.0, 0.0)
    pace.slow_down(3600.0, "acme")
    assert await pause("acme") == LONGEST_PAUSE


async def test_a_turn_that_comes_late_may_be_none() -> None:
    """Whoever waited for a turn asks again when it comes: somebody may have been told meanwhile."""
    pace, over = Pace(Watch(), 1), asyncio.Event()
    seen: list[float] = []

    async def call(organization: str) -> None:
        async with pace.turn(organization) as seconds:
            seen.append(seconds)
            if len(seen) == 1:
                await over.wait()
                pace.slow_down(20.0, "acme")

    calls = [asyncio.create_task(call("acme")) for _ in range(3)]
    await until(lambda: seen)
    over.set()
    await asyncio.gather(*calls)
    assert seen == [0.0, 20.0, 20.0]


# What others read


def test_answers_are_counted_by_words_that_stay() -> None:
    """Dashboards know them, whatever the classes are called."""
    labels = [one.label for one in get_args(ProviderAnswer)]
    assert labels == ["accepted", "finished", "refused", "trouble", "unknown"]
