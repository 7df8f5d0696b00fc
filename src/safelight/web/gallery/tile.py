"""A card as a tile of the gallery: what its template and its script need, and no more. Pure."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from safelight.infra.states import State
from safelight.library.entry import RunStatus
from safelight.web.gallery.card import Card, GalleryFilter
from safelight.web.image.shown import address, below

_SMALL, _LARGE = 320, 1280
_LABELLED = RunStatus.DONE
_SHOWN = {"name", "state", "href", "picture"}


@dataclass(frozen=True, slots=True)
class Tile:
    """`picture` is shown at once; it is `small` pixels wide, and another as wide as `large`, where
    there is one, can be asked for."""

    name: str
    at: int
    href: str
    width: int | None
    height: int | None
    tint: str | None
    picture: str | None
    small: int | None
    large: int | None
    state: str
    word: str
    icon: str
    tone: str
    moves: bool
    label: str | None
    percent: str | None
    trouble: str | None

    @property
    def day(self) -> str:
        return datetime.fromtimestamp(self.at / 1000, UTC).strftime("%-d %B %Y")

    @property
    def pictures(self) -> str | None:
        """What a browser may choose from."""
        if not (self.picture and self.large):
            return None
        larger = self.picture.replace("/thumbnail?", f"/thumbnail?size={_LARGE}&")
        return f"{self.picture} {self.small}w, {larger} {self.large}w"

    def as_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}

    @property
    def unshown(self) -> dict[str, Any]:
        """Of that, what cannot be read from the tile of a page."""
        return {key: value for key, value in self.as_json().items() if key not in _SHOWN}


def tile_of(organization: str, card: Card, wanted: GalleryFilter | None = None) -> Tile:
    picture = card.picture and below(organization, card.name) + card.picture
    small, large = _wide(card, _SMALL), _wide(card, _LARGE)
    return Tile(
        name=card.name,
        at=card.at,
        href=address(organization, card.image_id, card.name, wanted),
        width=card.width,
        height=card.height,
        tint=card.tint,
        picture=picture,
        small=small,
        large=large if card.thumbnail and large != small else None,
        state=card.slug,
        word=card.word,
        icon=card.state.icon,
        tone=_tone(card.state),
        moves=card.moves,
        label=_words(card),
        percent=card.percent if card.label else None,
        trouble=card.trouble,
    )


def _words(card: Card) -> str | None:
    if card.label is None:
        return None
    label = card.label.capitalize()
    return f"Maybe {label.lower()}" if card.unsure else label


def _tone(state: State) -> str:
    """A label is nothing to act upon."""
    return "plain" if state is _LABELLED else state.tone


def _wide(card: Card, side: int) -> int | None:
    if not card.width or not card.height:
        return None
    return max(1, round(card.width * min(1.0, side / max(card.width, card.height))))
