"""What may be asked for, and when two requests are the same."""

from typing import Any

import pytest

from safelight.errors import InvalidRequest
from safelight.generations.lifecycle import MediaKind
from safelight.generations.orders import WebhookAddresses
from safelight.generations.providers.registry import names, provider_of
from safelight.generations.request import (
    LARGEST_SEED,
    GenerationRequest,
    check_key,
    clean_tag,
    clean_tags,
)


def wanted(**changes: Any) -> GenerationRequest:
    asked = {
        "model": "m",
        "wanted": {"prompt": "p"},
        "count": 1,
        "tags": [],
        "provider": None,
        "kind": MediaKind.IMAGE,
    }
    return GenerationRequest.of(**{**asked, **changes})


def test_the_order_of_names_does_not_matter() -> None:
    one = wanted(wanted={"prompt": "p", "seed": 1, "nested": {"a": 1, "b": 2}})
    two = wanted(wanted={"nested": {"b": 2, "a": 1}, "seed": 1, "prompt": "p"})
    assert one.digest == two.digest


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "n"}, {"wanted": {"prompt": "q"}}, {"count": 2}, {"tags": ["t"]},
        {"provider": "studio"}, {"kind": MediaKind.VIDEO},
    ],
)  # fmt: skip
def test_everything_else_does(changes: dict[str, Any]) -> None:
    assert wanted(**changes).digest != wanted().digest


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt": 5}, {"prompt": "x" * 20_001}, {"prompt": "nul\0"}, {"prompt": "\ud800"},
        {"seed": -1}, {"seed": 1.5}, {"seed": True}, {"seed": "1"}, {"seed": LARGEST_SEED + 1},
        {"n": float("nan")}, {"n": float("inf")}, {"n": 10**200}, {"a\0": 1},
        {"deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]},
    ],
)  # fmt: skip
def test_inputs_that_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        wanted(wanted=wrong)


def test_a_model_that_cannot_be_stored() -> None:
    with pytest.raises(InvalidRequest):
        wanted(model="a\0b")


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "x" * 256, "a\n"])
def test_keys_that_are_refused(key: str) -> None:
    with pytest.raises(InvalidRequest):
        check_key(key)


def test_keys_that_are_fine() -> None:
    assert check_key(None) is None
    assert check_key("x" * 255) == "x" * 255


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("red", "red"),
        ("e\u0301", "é"),
        ("x" * 64, "x" * 64),
        (" spaced out ", "spaced out"),
        ("\u3000b\u2003", "b"),
        ("x" * 64 + " ", "x" * 64),
        ("日本", "日本"),
    ],
)
def test_tags(raw: str, clean: str) -> None:
    assert clean_tag(raw) == clean


@pytest.mark.parametrize(
    "raw", ["", "  ", "a/b", "x" * 65, "x" * 5000, "tab\t", "nul\0", "\ud800", "\x7f"]
)
def test_tags_that_are_refused(raw: str) -> None:
    with pytest.raises(InvalidRequest):
        clean_tag(raw)


def test_tags_are_kept_once_and_in_order() -> None:
    assert clean_tags(["b", "a", "b ", "e\u0301", "é"]) == ("b", "a", "é")
    with pytest.raises(InvalidRequest):
        clean_tags([f"t{n}" for n in range(101)])


@pytest.mark.parametrize(
    ("model", "configured", "provider"),
    [
        ("studio/aurora", names(), "studio"),
        ("studio/nothing", names(), "studio"),
        ("runware:100@1", ("studio",), "runware"),
        ("civitai:618692@691639", names(), "runware"),
        ("acme/film", ("studio",), "replicate"),
        ("acme/film:0a1b2c", names(), "replicate"),
        ("something", names(), "runware"),
        ("something", ("replicate", "studio"), "replicate"),
        ("something", ("studio",), "studio"),
        ("a/b/c", ("studio",), "studio"),
    ],
)
def test_whose_model_it_is(model: str, configured: tuple[str, ...], provider: str) -> None:
    assert provider_of(model, configured) == provider


def test_webhook_tokens() -> None:
    addresses = WebhookAddresses("k" * 32, lambda: "https://there.test")
    token = addresses.token("g1")
    assert len(token) == 43
    assert addresses.fits("g1", token)
    assert not addresses.fits("g2", token)
    assert not addresses.fits("g1", token + "=")
    assert not addresses.fits("g1", "é")
    assert WebhookAddresses("j" * 32, str).token("g1") != token
    path = f"/webhooks/runware?generation_id=g1&token={token}&task=a1"
    assert addresses.url("runware", "g1", "a1") == f"https://there.test{path}"
