"""What a prompt asks for, by its words. Pure; whatever it leaves open the seed decides."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

_WORD: Final = re.compile(r"[a-zà-ÿ]+", re.IGNORECASE)


def _signs(table: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    return {name: frozenset(words.split()) for name, words in table.items()}


# The first that is named wins.
HOURS: Final = _signs(
    {
        "night": "night midnight nocturnal dark starry stars moonlit moonlight",
        "dawn": "dawn sunrise morning daybreak early",
        "dusk": "dusk sunset evening twilight golden sundown autumn warm",
        "day": "day noon daylight midday afternoon sunny summer bright",
    }
)
THINGS: Final = _signs(
    {
        "lighthouse": "lighthouse lighthouses beacon",
        "sea": "sea ocean coast coastal beach shore waves wave bay harbour harbor",
        "lake": "lake pond river fjord still reflection reflections water",
        "mountains": "mountain mountains peak peaks alps alpine summit hills hill",
        "forest": "forest forests tree trees pine pines wood woods spruce taiga",
        "city": "city skyline town downtown street metropolis towers buildings",
        "boat": "boat boats sail sailing ship sailboat yacht fisherman",
        "birds": "bird birds gull gulls geese swallows flock",
        "moon": "moon moonlit moonlight crescent",
        "sun": "sun sunny sunset sunrise",
        "clouds": "cloud clouds cloudy overcast dramatic storm stormy",
        "mist": "mist misty fog foggy haze hazy",
        "snow": "snow snowy winter frozen ice icy frost cold",
        "rain": "rain rainy wet storm stormy drizzle",
        "poppies": "poppy poppies",
        "tulips": "tulip tulips",
        "daisies": "daisy daisies chamomile",
        "lavender": "lavender lupine lupines",
        "cosmos": "cosmos blossom blossoms",
        "calm": "calm quiet serene still peaceful",
    }
)
COLOURS: Final[Mapping[str, str]] = {
    "red": "#e0402f", "crimson": "#c01f3a", "scarlet": "#e8341c", "orange": "#f58a2b",
    "amber": "#f6a736", "gold": "#f2be4b", "golden": "#f2be4b", "yellow": "#f7d94c",
    "green": "#45b56a", "emerald": "#1fa67a", "teal": "#1f9c9c", "turquoise": "#33c2bd",
    "cyan": "#3cc8e0", "blue": "#3a78d8", "indigo": "#4a46b5", "violet": "#7d52c9",
    "purple": "#8a45b8", "magenta": "#c93fa5", "pink": "#f27fa5", "rose": "#ee8f9c",
    "peach": "#f9b28a", "coral": "#f47a63", "lilac": "#b79ae0", "white": "#f2f0ea",
    "silver": "#c3cbd4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """The hour or None, what is named, and colours in the order they are named."""

    hour: str | None
    things: frozenset[str]
    colours: tuple[str, ...]

    def has(self, *things: str) -> bool:
        return any(thing in self.things for thing in things)


def read(prompt: str) -> Reading:
    words = [word.lower() for word in _WORD.findall(prompt)]
    said = frozenset(words)
    hour = next((name for name, signs in HOURS.items() if said & signs), None)
    things = frozenset(name for name, signs in THINGS.items() if said & signs)
    return Reading(hour, things, tuple(_colours(words)))


def _colours(words: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(COLOURS[word] for word in words if word in COLOURS)
