"""docs/buckets.md: what it has people paste is what works here."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from objects import notification_samples as sample
from objects.stores import Watch
from safelight.objects.events import Action
from safelight.objects.notifications.couriers.registry import COURIERS, open_courier
from safelight.objects.notifications.normalise import normalise

PAGE = (Path(__file__).parents[2] / "docs/buckets.md").read_text()
NODE = shutil.which("node")
# What the page has people ask for, and the names of what then comes.
ASKED = {
    "s3:ObjectCreated:*": ["Put", "Post", "Copy", "CompleteMultipartUpload"],
    "s3:ObjectRemoved:*": ["Delete", "DeleteMarkerCreated"],
    "s3:LifecycleExpiration:*": ["Delete", "DeleteMarkerCreated"],
    "s3:ObjectLifecycle:Expiration:Current": [""],
}
_HARNESS = """
import worker from "./worker.mjs";
const seen = [];
for (const outcome of ["taken", "refused", "away"]) {
  const fates = [];
  globalThis.fetch = async (url, request) => {
    if (outcome === "away") throw new TypeError("fetch failed");
    seen.push({ url, method: request.method, headers: request.headers, body: request.body });
    return { ok: outcome === "taken" };
  };
  const batch = {
    messages: MESSAGES,
    ackAll: () => fates.push("acked"),
    retryAll: ({ delaySeconds }) => fates.push(delaySeconds),
  };
  await worker.queue(batch, { SAFELIGHT: "https://images.example", TOKEN: "secret" });
  seen.push(fates);
}
console.log(JSON.stringify(seen));
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_each_kind_of_queue_is_there_as_it_is_written() -> None:
    addresses = re.findall(r"SAFELIGHT_NOTIFICATIONS_URL='(.*)'", PAGE)
    assert [address.partition("://")[0] for address in addresses] == list(COURIERS)
    for address in addresses:
        open_courier(address, {"access_key_id": "key", "secret_access_key": "s"}, Watch())


def test_what_is_asked_for_is_what_is_read() -> None:
    rules = [json.loads(block) for block in blocks("json")]
    [policy] = [json.loads(rule["Policy"]) for rule in rules if "Policy" in rule]
    assert policy["Statement"][0]["Action"] == "sqs:SendMessage"
    asked = [
        event
        for rule in rules
        for part in ("QueueConfigurations", "TopicConfigurations")
        for configuration in rule.get(part, [])
        for event in configuration["Events"]
    ]
    assert set(asked) == set(ASKED)
    for name, kinds in ASKED.items():
        for kind in kinds:
            [event] = normalise(sample.s3(name.removesuffix("*") + kind)).events
            assert event.action is (Action.CREATED if "Created:*" in name else Action.DELETED)


def test_seaweedfs_is_told_to_tell_what_is_read() -> None:
    [block] = blocks("toml")
    webhook = tomllib.loads(block)["notification"]["webhook"]
    told = [normalise(sample.seaweedfs(kind)).events for kind in webhook["event_types"]]
    assert [len(events) for events in told] == [1, 1, 1]


def test_the_worker_is_as_short_as_it_can_be() -> None:
    [worker] = blocks("js")
    assert len(worker.splitlines()) <= 15


@pytest.mark.skipif(NODE is None, reason="there is no node here")
def test_the_worker_sends_what_is_read_and_acknowledges_what_was_taken(tmp_path: Path) -> None:
    [worker] = blocks("js")
    messages = sample.forwarded(sample.r2(), sample.r2("LifecycleDeletion"))["messages"]
    (tmp_path / "worker.mjs").write_text(worker)
    harness = _HARNESS.replace("MESSAGES", json.dumps(messages))
    (tmp_path / "harness.mjs").write_text(harness)
    assert NODE
    done = subprocess.run(
        [NODE, str(tmp_path / "harness.mjs")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    sent, taken, _, refused, away = json.loads(done.stdout)
    assert (taken, refused, away) == (["acked"], [30], [30])
    assert (sent["method"], sent["url"]) == ("POST", "https://images.example/api/events/objects")
    assert sent["headers"]["authorization"] == "Bearer secret"
    body: Any = json.loads(sent["body"])
    assert [event.action for event in normalise(body).events] == [Action.CREATED, Action.DELETED]
