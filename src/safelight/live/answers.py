"""The feed's messages as the API answers them."""

from typing import NotRequired

from pydantic import ConfigDict
from typing_extensions import TypedDict


class MessageAnswer(TypedDict):
    """With the fields of its type beside these; each feature declares them (`MESSAGES`)."""

    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]  # pydantic's own way

    seq: int
    type: str
    at: NotRequired[str]
