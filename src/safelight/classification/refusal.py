"""How a child of a classifier says that it has no answer, and how that is read. Pure."""

from typing import Any

from safelight.classification.base import ModelError, Undecodable
from safelight.sandbox import facts as said
from safelight.sandbox.facts import printable
from safelight.sandbox.protocol import LONGEST_WORDS


def to_facts(refusal: Undecodable | ModelError, digest: str = "") -> dict[str, str]:
    """`digest` is of bytes that cannot be decoded: they may not be what was stored."""
    words = printable(refusal.message, LONGEST_WORDS)
    if isinstance(refusal, ModelError):
        return {"failed": words}
    decoder = printable(refusal.decoder, LONGEST_WORDS)
    return {"undecodable": words, "decoder": decoder, "digest": digest}


def of_facts(facts: dict[str, Any]) -> Undecodable | ModelError | None:
    """None: there is an answer."""
    if "failed" in facts:
        given = said.fields(facts, ("failed",))
        return ModelError(said.words(given["failed"], LONGEST_WORDS))
    if "undecodable" in facts:
        given = said.fields(facts, ("undecodable", "decoder", "digest"))
        decoder = said.words(given["decoder"], LONGEST_WORDS)
        words, digest = (
            said.words(given["undecodable"], LONGEST_WORDS),
            said.digest(given["digest"]),
        )
        return Undecodable(words, decoder=decoder, digest=digest)
    return None
