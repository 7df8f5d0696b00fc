"""Every route against whatever its description allows and whatever it forbids, about things that
there are and things that there are not: each answer is one of ours and one that is described, and
none is an error of ours. Each route is seen to get past its 404."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.core.result import Ok

from fuzzing.examples import SECONDS, SEED, changed, json_values, ranges, run_of, words
from fuzzing.things import EVENTS_TOKEN, SETTINGS, Things
from harness import TOKEN
from inprocess import application
from objects import notification_samples as samples

EXAMPLES = {GenerationMode.POSITIVE: 2, GenerationMode.NEGATIVE: 1}
FORMS = {"/login"}  # a form is answered with the form again
NEVER_PAST: set[str] = set()
UNDESCRIBED: dict[str, st.SearchStrategy[Any]] = {  # bodies whose shape is the sender's to choose
    "/webhooks/{provider}": changed({"taskId": "t", "status": "succeeded"}) | json_values,
    "/api/events/objects": st.one_of(
        *map(changed, (samples.r2(), samples.s3_records(samples.s3()), samples.minio())),
        json_values,
    ),
}
Operation = APIOperation[Any, Any, Any, Any]


@pytest.mark.timeout(SECONDS)
async def test_every_answer_is_ours(database_url: str, tmp_path: Path) -> None:
    async with (
        application(database_url, tmp_path, worker=True, **SETTINGS) as app,
        app.client() as client,
    ):
        things = Things(app, client)
        await things.make()
        described = (await client.get("/api/openapi.json")).json()
        with requests.Session() as session:
            fuzzer = Fuzzer(app.url, session, things)
            await asyncio.to_thread(fuzzer.run, described)
    assert not fuzzer.wrong, "\n".join(f"{what} {how}" for what, how in fuzzer.wrong.items())
    assert fuzzer.never_past() == NEVER_PAST


def destruction(operation: Operation) -> tuple[bool, bool, int]:
    """What ends something comes last, a part before the whole."""
    deletes = operation.method.upper() == "DELETE"
    return deletes, operation.path.endswith("/withdraw"), -len(operation.path) if deletes else 0


@dataclass
class Fuzzer:
    url: str
    session: requests.Session
    things: Things
    wrong: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Counter[int]] = field(default_factory=dict)

    def run(self, described: dict[str, Any]) -> None:
        found = schemathesis.openapi.from_dict(described).get_all_operations()
        operations = [one.ok() for one in found if isinstance(one, Ok)]
        for operation in sorted(operations, key=destruction):
            self.answers[operation.label] = Counter()
            for mode in EXAMPLES:
                with suppress(Unsatisfiable):  # it takes nothing that could be wrong
                    self.ask(operation, mode)

    def ask(self, operation: Operation, mode: GenerationMode) -> None:
        @run_of(f"{operation.label} {mode}", EXAMPLES[mode])
        @given(
            case=operation.as_strategy(mode),
            part=ranges,
            body=UNDESCRIBED.get(operation.path, st.none()),
            odd=st.dictionaries(st.sampled_from(queried(operation)), words, min_size=1, max_size=1),
        )
        def each(case: Case[Any], part: str | None, body: Any, odd: dict[str, str]) -> None:
            known = self.things.here(case.method.upper(), case.path)
            for variant in variants(case, known):
                self.send(operation, variant, part, body, {})
            self.send(operation, case, part, body, odd)

        each()

    def send(
        self,
        operation: Operation,
        case: Case[Any],
        part: str | None,
        body: Any,
        odd: dict[str, str],
    ) -> None:
        sent = case.as_transport_kwargs(base_url=self.url)
        sent["headers"] = {**sent["headers"], "authorization": credential(case.path)}
        half_letters = {name: word.encode(errors="surrogatepass") for name, word in odd.items()}
        sent["params"] = {**(sent.get("params") or {}), **half_letters}
        if part and "206" in operation.definition.raw["responses"]:
            sent["headers"]["range"] = part.encode()
        if operation.path in UNDESCRIBED:
            sent["data"] = json.dumps(body)
        for fault in self.judge(operation, sent):
            what = f"{operation.label}: {fault}"
            self.wrong.setdefault(what, f"to {case!r} {odd!r} {body!r} (seed {SEED})")

    def judge(self, operation: Operation, sent: dict[str, Any]) -> Iterator[str]:
        answer = self.session.request(**sent, allow_redirects=False, timeout=60)
        status, told = answer.status_code, operation.definition.raw["responses"]
        self.answers[operation.label][status] += 1
        if status >= 500:
            yield f"{status} {answer.text[:200]}"
        if not {str(status), f"{status // 100}XX"} & set(told):
            yield f"{status}, which is not described"
        if status >= 400 and operation.path not in FORMS:
            kind = answer.headers.get("content-type", "")
            shape = set(answer.json()) if "json" in kind else None
            if shape != {"error", "code"}:
                yield f"{status} in another shape: {answer.text[:100]}"

    def never_past(self) -> set[str]:
        """Routes about something of which none was ever found."""
        named = {label: seen for label, seen in self.answers.items() if "{" in label}
        return {label for label, seen in named.items() if not set(seen) - {401, 404}}


def credential(path: str) -> str:
    return f"Bearer {EVENTS_TOKEN if path == '/api/events/objects' else TOKEN}"


def queried(operation: Operation) -> list[str]:
    """What may stand behind its question mark; one that it does not know is let pass."""
    told = operation.definition.raw.get("parameters", [])
    return [one["name"] for one in told if one["in"] == "query"] or ["unheard-of"]


def variants(case: Case[Any], known: dict[str, str]) -> Iterator[Case[Any]]:
    """As it was made up; with what there is in its address; and in its body too: behind each are
    other errors."""
    yield case
    made_up = case.path_parameters or {}
    case.path_parameters = {
        name: quote(known[name], safe="") if name in known else value
        for name, value in made_up.items()
    }
    if case.path.startswith("/webhooks/"):
        case.query = {name: known[name] for name in ("generation_id", "token", "task")}
    if case.path_parameters:
        yield case
    if isinstance(case.body, dict):
        case.body = {
            name: {"upload": known["upload"]} if name == "source" else known.get(name, value)
            for name, value in case.body.items()
        }
        yield case
