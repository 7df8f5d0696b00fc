"""How a child of a classifier says that it has no answer, and how that is read. Pure."""

from typing import Any

from safelight.classification.base import ModelError, Undecodable
from safelight.sandbox import facts as said
from safelight.sandbox.facts import printable
from safelight.sandbox.protocol import LONGEST_WORDS


def to_facts(refusal: Undecodable | ModelError) -> dict[str, str]:
    words = printable(refusal.message, LONGEST_WORDS)
    if isinstance(refusal, ModelError):
        return {"failed": words}
    return {"undecodable": words, "decoder": printable(refusal.decoder, LONGEST_WORDS)}


def of_facts(facts: dict[str, Any]) -> Undecodable | ModelError | None:
    """None: there is an answer."""
    if "failed" in facts:
        given = said.fields(facts, ("failed",))
        return ModelError(said.words(given["failed"], LONGEST_WORDS))
    if "undecodable" in facts:
        given = said.fields(facts, ("undecodable", "decoder"))
        decoder = said.words(given["decoder"], LONGEST_WORDS)
        return Undecodable(said.words(given["undecodable"], LONGEST_WORDS), decoder=decoder)
    return None
