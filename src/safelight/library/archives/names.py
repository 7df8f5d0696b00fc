"""What files are called in an archive: names that every system takes, each once. Pure."""

import unicodedata
from typing import Final

from safelight.objects.keys import around_number

_REFUSED: Final = frozenset('<>:"/\\|?*')  # by some system that archives are opened on
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"{kind}{n}" for kind in ("com", "lpt") for n in range(1, 10))}
)


class ArchiveNames:
    """Gives out names; `taken` are the archive's own."""

    def __init__(self, *taken: str) -> None:
        self._last = {_folded(name): 1 for name in taken}  # the number given last, by the name

    def take(self, name: str) -> str:
        safe = safe_name(name)
        if (key := _folded(safe)) not in self._last:
            self._last[key] = 1
            return safe
        while True:
            self._last[key] += 1
            number = str(self._last[key])
            before, after = around_number(safe, len(number))
            numbered = f"{before}{number}{after}"
            if _folded(numbered) not in self._last:
                self._last[_folded(numbered)] = 1
                return numbered


def safe_name(name: str) -> str:
    shown = "".join("_" if _is_refused(character) else character for character in name)
    trimmed = shown.strip(" ").rstrip(" .") or "_"
    return f"_{trimmed}" if trimmed.partition(".")[0].lower() in _DEVICES else trimmed


def _is_refused(character: str) -> bool:
    return character in _REFUSED or unicodedata.category(character) in _UNSEEN


def _folded(name: str) -> str:
    """As a file system sees it that is careless of case and composition."""
    return unicodedata.normalize("NFC", name).casefold()
