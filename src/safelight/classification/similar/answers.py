"""What looks like what, as the API answers it."""

from typing_extensions import TypedDict

from safelight.library.answers import EntryAnswer


class SimilarAnswer(EntryAnswer):
    similarity: float  # 0 to 1


class SimilarsAnswer(TypedDict):
    items: list[SimilarAnswer]


class DuplicatesAnswer(TypedDict):
    """Entries that look alike, the first of them by name."""

    id: str
    count: int  # in all
    identical: bool  # to the byte
    items: list[SimilarAnswer]  # each with how like its nearest it is
