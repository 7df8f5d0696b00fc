"""The rules, in the order they are asked; the first that blocks gives the reason. One line each."""

from typing import Final

from safelight.submissions.findings import FileCase, PictureCase, Rule
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.rules import baggage, file_format, known, opinions, size

TIER1: Final[tuple[Rule[FileCase], ...]] = (
    file_format.REAL_TYPE,
    size.BOMB,
    size.LIMITS,
    file_format.STRUCTURE,
    baggage.TRAILING_DATA,
    known.BLOCKLIST,
    known.DUPLICATE,
    baggage.PRIVACY,
)
TIER2: Final[tuple[Rule[PictureCase], ...]] = (
    opinions.SAFETY,
    opinions.LABELS,
    opinions.VISION,
)
CODES: Final[dict[str, RejectionCode]] = {
    **{rule.name: rule.code for rule in TIER1},
    **{rule.name: rule.code for rule in TIER2},
}
