"""`make shots`: every page of the list in each of its states, at four widths, in the light and in the
dark, into shots/, with a page to look through them. Those that the documents show are written to
docs/images as WebP; docs/images/NOTICE says whose photographs they show.

`SHOTS="--only library --widths 390,1440"` takes some; `--judge` also asks axe about each.
"""

import argparse
import html
import io
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, TimeoutError, sync_playwright  # noqa: A004 - theirs

import programs
from browser.axe import look
from browser.conftest import OPTIONS
from browser.pages import SIGHTS, Sight
from browser.windows import Window, Windows
from scene.scene import staged

ROOT = Path(__file__).parents[2]
SHOTS, IMAGES = ROOT / "shots", ROOT / "docs/images"
WIDTHS = {390: 844, 820: 1180, 1440: 900, 2560: 1440}
SCHEMES = ("light", "dark")
QUALITY = 80
_PATIENCE = 10_000  # milliseconds
# The pictures in sight have come.
_STILL = """() => [...document.images].every((one) => {
  const box = one.getBoundingClientRect();
  return one.complete || !one.checkVisibility() || box.top > innerHeight || box.bottom < 0;
})"""


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture of the documents: its name there, the sight, and how it is seen."""

    name: str
    sight: str
    width: int
    scheme: str


SHOWN = (
    Shown("library.webp", "library", 1440, "dark"),
    Shown("library-phone.webp", "library", 390, "light"),
    Shown("image.webp", "image", 1440, "dark"),
    Shown("approvals.webp", "workflow", 1440, "light"),
    Shown("generate.webp", "generate", 1440, "dark"),
)


@dataclass(frozen=True, slots=True)
class Shot:
    sight: Sight
    width: int
    scheme: str

    @property
    def file(self) -> str:
        words = re.sub(r"\W+", "-", self.sight.name).strip("-")
        return f"{words}.{self.width}.{self.scheme}.png"


def main(arguments: Sequence[str]) -> None:
    wanted = _wanted(arguments)
    sights = [sight for sight in SIGHTS if any(part in sight.name for part in wanted.only)]
    SHOTS.mkdir(exist_ok=True)
    executable = programs.find("chromium") or sys.exit("python tests/programs.py chromium")
    begun = time.monotonic()
    print("Filling a server …", flush=True)
    with staged() as scene, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=OPTIONS)
        windows = Windows(browser, scene)
        faults: dict[str, list[str]] = {}
        taken = [*_taken(windows, sights, wanted.widths, faults if wanted.judge else None)]
        windows.close()
        browser.close()
    (SHOTS / "index.html").write_text(_sheet(taken, faults))
    _show(taken)
    seconds = time.monotonic() - begun
    print(f"{len(taken)} pictures in {seconds:.0f} s: {SHOTS / 'index.html'}")
    for file, found in faults.items():
        print(*(f"{file}: {each}" for each in found), sep="\n")


def _wanted(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make shots SHOTS=…", description=__doc__)
    parser.add_argument("--only", type=_parts, default=("",), help="parts of names: image,library")
    parser.add_argument("--judge", action="store_true", help="ask axe about each")
    parser.add_argument("--widths", type=_widths, default=tuple(WIDTHS))
    return parser.parse_args(arguments)


def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _widths(text: str) -> tuple[int, ...]:
    return tuple(map(int, _parts(text)))


def _taken(
    windows: Windows,
    sights: Sequence[Sight],
    widths: Sequence[int],
    faults: dict[str, list[str]] | None,
) -> Iterator[Shot]:
    for number, sight in enumerate(sights, 1):
        print(f"{number:3} of {len(sights)}  {sight.name}", flush=True)
        for width in widths:
            window = windows.open(sight, width, WIDTHS.get(width, 900))
            for scheme in SCHEMES:
                shot = Shot(sight, width, scheme)
                window.light(scheme)
                _take(window.page, SHOTS / shot.file)
                if faults is not None and (found := look(window.page)):
                    faults[shot.file] = found
                yield shot
            _told(window, faults, f"{sight.name}, {width}")
            window.page.close()


def _told(window: Window, faults: dict[str, list[str]] | None, name: str) -> None:
    if faults is not None and window.complaints:
        faults[name] = window.complaints


def _take(page: Page, path: Path) -> None:
    """What a window shows, with its pictures and without a blinking caret."""
    try:
        page.wait_for_function(_STILL, timeout=_PATIENCE)
    except TimeoutError:
        print(f"     {path.name}: not all of its pictures came", flush=True)
    page.screenshot(path=path, animations="disabled")


def _show(taken: Sequence[Shot]) -> None:
    for shown in SHOWN:
        for shot in taken:
            if (shot.sight.name, shot.width, shot.scheme) == (
                shown.sight,
                shown.width,
                shown.scheme,
            ):
                size = _webp(SHOTS / shot.file, IMAGES / shown.name)
                print(f"docs/images/{shown.name}: {size // 1024} KiB")


def _webp(source: Path, target: Path) -> int:
    out = io.BytesIO()
    with Image.open(source) as image:
        image.convert("RGB").save(out, "WEBP", quality=QUALITY, method=6)
    target.write_bytes(out.getvalue())
    return out.tell()


def _sheet(taken: Sequence[Shot], faults: dict[str, list[str]]) -> str:
    rows: dict[str, list[Shot]] = {}
    for shot in taken:
        rows.setdefault(shot.sight.name, []).append(shot)
    body = "\n".join(_row(name, shots, faults) for name, shots in rows.items())
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Shots</title>
<style>
body {{ margin: 2rem; background: #777; font: 15px system-ui; color: #fff }}
div {{ display: flex; gap: 12px; align-items: start; overflow-x: auto; padding-bottom: 12px }}
img {{ height: 22rem; background: #555 }} figure {{ margin: 0 }} a {{ color: inherit }}
.bad img {{ outline: 4px solid #e33 }}
</style>
{body}
"""


def _row(name: str, shots: Sequence[Shot], faults: dict[str, list[str]]) -> str:
    pictures = "".join(
        f'<figure{" class=bad" if shot.file in faults else ""}><a href="{shot.file}">'
        f'<img loading="lazy" src="{shot.file}" alt=""></a>'
        f"<figcaption>{shot.width} {shot.scheme}</figcaption></figure>"
        for shot in shots
    )
    return f"<h2>{html.escape(name)}</h2><div>{pictures}</div>"
