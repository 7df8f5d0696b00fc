"""One rule for labels, whichever model gave them: the first synonym, in upper case."""

from functools import cache
from importlib.resources import files

CLASSES = 1000
TOP = 5  # as many as are kept of an image


def label_of(text: str) -> str:
    """`tabby, tabby cat` becomes `TABBY`."""
    return text.partition(",")[0].strip().upper()


@cache
def labels() -> tuple[str, ...]:
    """By class index. Not unique: CRANE, CARDIGAN and MAILLOT name two classes each."""
    text = (files(__package__) / "data/labels.txt").read_text("utf-8")
    return tuple(label_of(line) for line in text.splitlines())


@cache
def known_labels() -> frozenset[str]:
    return frozenset(labels())
