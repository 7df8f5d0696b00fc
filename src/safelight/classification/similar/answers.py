"""What looks like what, as the API answers it."""

from typing_extensions import TypedDict

from safelight.library.answers import EntryAnswer


class SimilarAnswer(EntryAnswer):
    similarity: float  # 0 to 1


class SimilarsAnswer(TypedDict):
    items: list[SimilarAnswer]
