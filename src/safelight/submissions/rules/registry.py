"""The rules, in the order they are asked; the first that blocks gives the reason. One line each."""

from typing import Final

from safelight.submissions.findings import FileCase, KnownCase, PictureCase, Rule
from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.rules import baggage, known, opinions, well_formed

TIER1: Final[tuple[Rule[FileCase], ...]] = (
    well_formed.REAL_TYPE,
    well_formed.BOMB,
    well_formed.LIMITS,
    well_formed.STRUCTURE,
    baggage.TRAILING_DATA,
    baggage.PRIVACY,
)
KNOWN: Final[tuple[Rule[KnownCase], ...]] = (
    known.BLOCKLIST,
    known.DUPLICATE,
)
TIER2: Final[tuple[Rule[PictureCase], ...]] = (
    opinions.SAFETY,
    opinions.LABELS,
    opinions.VISION,
)
CODES: Final[dict[str, RejectionCode]] = {
    **{rule.name: rule.code for rule in TIER1},
    **{rule.name: rule.code for rule in KNOWN},
    **{rule.name: rule.code for rule in TIER2},
}
