"""Replicate over its HTTP API: predictions that it names itself, with signed webhooks.

A call whose answer was lost cannot be asked about, since nobody knows its id: then the task is
submitted again, and the first prediction, if there is one, still finds it by the webhook's address.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import structlog

from safelight.errors import ConfigurationError, InvalidRequest, Unavailable
from safelight.generations.lifecycle import Media, MediaKind, TaskErrorCode
from safelight.generations.providers.base import (
    NAME,
    Accepted,
    Finished,
    Order,
    Provider,
    ProviderAnswer,
    ProviderDeps,
    ProviderTrouble,
    Refused,
    Report,
    TaskUnknown,
    check_name,
    media_from,
    one_line,
)
from safelight.generations.providers.signatures import is_usable, verify
from safelight.generations.providers.wire import Reply, Wire
from safelight.infra.injected import Clock
from safelight.infra.queue.jobs import Backoff

LONGEST_WAIT = 60  # seconds that it holds a call open
_ASKING_SECONDS = 30.0
_MARGIN_SECONDS = 15.0
_KEY_AGAIN = Backoff(
    first=5, cap=300
)  # between questions for the key that webhooks are signed with
_NOT_FOUND = 404
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_MODEL = re.compile(rf"{NAME}/{NAME}(:{NAME})?|{NAME}")


class KeyAway(Unavailable):
    """The provider's webhook key could not be asked for. Send it again."""


class Replicate(Provider):
    name = "replicate"
    hint = "Any model by `owner/name`, or `owner/name:version`."
    model_names = re.compile(r"[^\s/:@]+/[^\s/:@]+(:[^\s/:@]+)?")
    hosts = ("replicate.delivery", "*.replicate.delivery")
    chooses_ids = True
    can_be_asked = True
    cancels = True
    signs = True
    per_minute = 600

    def __init__(self, url: str, wire: Wire, clock: Clock, secret: str | None = None) -> None:
        self._url = url
        self._wire = wire
        self._clock = clock
        self._secret = secret
        self._asks_for_it = secret is None
        self._questions = 0
        self._ask_again_at = 0.0

    @classmethod
    def build(cls, deps: ProviderDeps) -> "Replicate | None":
        token = deps.settings.replicate_api_token
        if token is None:
            return None
        headers = {"authorization": f"Bearer {token.get_secret_value().strip()}"}
        given = deps.settings.replicate_webhook_secret
        secret = given.get_secret_value().strip() if given else None
        if secret is not None and not is_usable(secret):
            raise ConfigurationError(
                "SAFELIGHT_REPLICATE_WEBHOOK_SECRET is not a signing key. Copy it whole from "
                "Replicate's settings: whsec_ and what follows."
            )
        wire = Wire("Replicate", headers, deps.clock)
        return cls(deps.settings.replicate_url, wire, deps.clock, secret)

    def check(self, model: str, kind: MediaKind, wanted: Mapping[str, Any]) -> None:  # noqa: ARG002 - the vendor judges the rest
        """The name becomes a part of an address that our token is sent to."""
        check_name(model, _MODEL, "Replicate names models owner/name, or owner/name:version")

    async def submit(self, order: Order) -> ProviderAnswer:
        try:
            self.check(order.model, order.kind, order.input)
        except InvalidRequest as error:
            return Refused.because(error.message)
        held = min(LONGEST_WAIT, int(order.seconds))
        waits = {"prefer": f"wait={max(held, 1)}"} if order.kind is MediaKind.IMAGE else {}
        path, body = request_of(order)
        reply = await self._wire.ask(
            "POST", f"{self._url}{path}", body, seconds=held + _MARGIN_SECONDS, headers=waits
        )
        return reply if isinstance(reply, ProviderTrouble) else answer_of(reply)

    async def poll(self, order: Order) -> ProviderAnswer:
        if order.task_id is None:
            return TaskUnknown()
        reply = await self._wire.ask("GET", self._prediction(order), seconds=_ASKING_SECONDS)
        if isinstance(reply, ProviderTrouble):
            return reply
        return TaskUnknown() if reply.status == _NOT_FOUND else answer_of(reply)

    async def cancel(self, order: Order) -> bool:
        if order.task_id is None:
            return True
        url = f"{self._prediction(order)}/cancel"
        reply = await self._wire.ask("POST", url, seconds=_ASKING_SECONDS)
        return isinstance(reply, Reply) and reply.trouble("Replicate") is None

    async def signed(self, headers: Mapping[str, str], body: bytes) -> bool:
        """What does not fit the key may be signed with the vendor's next one."""
        secret = self._secret or await self._ask_for_secret()
        if verify(secret, headers, body, self._clock.now_ms()):
            return True
        if not self._asks_for_it or self._clock.monotonic() < self._ask_again_at:
            return False
        return verify(await self._ask_for_secret(), headers, body, self._clock.now_ms())

    def reports(self, payload: Any) -> Sequence[Report]:
        outcome = outcome_of(payload)
        return [] if outcome is None else [Report(_id(payload), outcome)]

    async def close(self) -> None:
        await self._wire.close()

    def _prediction(self, order: Order) -> str:
        return f"{self._url}/predictions/{quote(order.task_id or '', safe='')}"

    async def _ask_for_secret(self) -> str:
        """Without the key nothing is believed; it is asked for again, after growing waits."""
        now = self._clock.monotonic()
        if now < self._ask_again_at:
            raise KeyAway
        self._questions += 1
        self._ask_again_at = now + _KEY_AGAIN.longest(self._questions)
        url = f"{self._url}/webhooks/default/secret"
        reply = await self._wire.ask("GET", url, seconds=_ASKING_SECONDS)
        payload = reply.payload if isinstance(reply, Reply) and reply.fine else None
        key = payload.get("key") if isinstance(payload, Mapping) else None
        if not isinstance(key, str) or not is_usable(key):
            structlog.get_logger().warning(
                "replicate did not show its webhook key; until it does, tasks are asked about "
                "instead. Set SAFELIGHT_REPLICATE_WEBHOOK_SECRET if this token may not see it",
                status=reply.status if isinstance(reply, Reply) else None,
            )
            raise KeyAway
        self._secret = key
        return key


def request_of(order: Order) -> tuple[str, dict[str, Any]]:
    """The path and the body: models with a version are named in the body, others in the path."""
    wanted = order.passed_on
    if order.prompt is not None:
        wanted["prompt"] = order.prompt
    if order.seed is not None:
        wanted["seed"] = order.seed
    body: dict[str, Any] = {
        "input": wanted,
        "webhook": order.webhook_url,
        "webhook_events_filter": ["completed"],
    }
    owned, colon, version = order.model.partition(":")
    if colon:
        return "/predictions", {"version": version, **body}
    if "/" in owned:
        path = "/".join(quote(segment, safe="") for segment in owned.split("/"))
        return f"/models/{path}/predictions", body
    return "/predictions", {"version": owned, **body}


def answer_of(reply: Reply) -> ProviderAnswer:
    if (trouble := reply.trouble("Replicate")) is not None:
        return trouble
    if not reply.fine:
        detail = reply.payload.get("detail") if isinstance(reply.payload, Mapping) else None
        words = one_line(detail, "no reason given")
        return Refused.because(f"Replicate answered {reply.status}: {words}")
    outcome = outcome_of(reply.payload)
    return outcome or ProviderTrouble("Replicate's answer is not a prediction.", sent=True)


def outcome_of(prediction: Any) -> ProviderAnswer | None:
    """None: this is not a prediction."""
    task_id = _id(prediction)
    if task_id is None:
        return None
    status = prediction.get("status")
    if status == "succeeded":
        media = media_of(prediction)
        reason = "Replicate: the prediction has no file as its output."
        return (
            Finished(media, task_id)
            if media
            else Refused.because(reason, TaskErrorCode.PROVIDER_ERROR)
        )
    if status in ("failed", "canceled", "aborted"):  # not a set: it may be anything
        words = one_line(prediction.get("error"), f"the prediction {status}")
        return Refused.because(f"Replicate: {words}", TaskErrorCode.PROVIDER_ERROR)
    return Accepted(task_id)


def media_of(prediction: Mapping[str, Any]) -> Media | None:
    """Of several outputs the first is taken: one task, one result."""
    output = prediction.get("output")
    while isinstance(output, list) and output:
        output = output[0]
    if isinstance(output, Mapping):
        output = next((one for one in output.values() if _is_address(one)), None)
    if not _is_address(output):
        return None
    metrics = prediction.get("metrics")
    facts = {"predictSeconds": metrics.get("predict_time")} if isinstance(metrics, Mapping) else {}
    return media_from(str(output), facts)


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("https:", "http:", "data:"))


def _id(prediction: Any) -> str | None:
    found = prediction.get("id") if isinstance(prediction, Mapping) else None
    return found if isinstance(found, str) and _ID.fullmatch(found) else None
