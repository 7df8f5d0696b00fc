"""The rules, in the order they are asked; the first that blocks gives the reason."""

from typing import Final

from safelight.submissions.lifecycle import RejectionCode
from safelight.submissions.rules.rule import FileCase, PictureCase, Rule
from safelight.submissions.rules.tier1 import (
    blocklist,
    bomb,
    duplicate,
    limits,
    privacy,
    real_type,
    structure,
    trailing_data,
)
from safelight.submissions.rules.tier2 import labels, safety, vision

TIER1: Final[tuple[Rule[FileCase], ...]] = (
    real_type.RULE,
    bomb.RULE,
    limits.RULE,
    structure.RULE,
    trailing_data.RULE,
    blocklist.RULE,
    duplicate.RULE,
    privacy.RULE,
)
TIER2: Final[tuple[Rule[PictureCase], ...]] = (
    safety.RULE,
    labels.RULE,
    vision.RULE,
)
CODES: Final[dict[str, RejectionCode]] = {
    **{rule.name: rule.code for rule in TIER1},
    **{rule.name: rule.code for rule in TIER2},
}
