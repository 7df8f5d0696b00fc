"""Curves and bars as SVG, written by hand: small, sharp, and readable on light and dark pages."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "docs/images"
Points = Sequence[tuple[float, float]]
_WIDTH, _HEIGHT = 720, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 52, 52
_LIGHT = ("#1f6feb", "#cf5b00", "#1a7f37", "#8250df", "#bf3989", "#0a7d8c", "#9a6700", "#57606a")
_DARK = ("#6cb2ff", "#ff9d57", "#56d364", "#c297ff", "#ff80c8", "#4fd2e0", "#e3b341", "#a5afba")
_STYLE = """
text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-size:16px;font-weight:600}
.quiet{fill:#59636e}.grid{stroke:#d1d9e0;stroke-width:1}.axis{stroke:#59636e;stroke-width:1}
.limit{stroke:#59636e;stroke-width:1.5;stroke-dasharray:6 4}.line{fill:none;stroke-width:2.5}
.paper{fill:#fff}
"""
_STYLE_DARK = """
text{fill:#e6edf3}.quiet{fill:#9aa4af}.grid{stroke:#30363d}.axis{stroke:#9aa4af}
.limit{stroke:#9aa4af}.paper{fill:#0d1117}
"""


@dataclass(frozen=True)
class Axis:
    says: str
    log: bool = False
    at: tuple[float, ...] = ()  # where its marks are; empty: at round numbers
    floor: float | None = 0.0  # where a linear one begins; None: at the smallest value


@dataclass(frozen=True)
class Scale:
    low: float
    high: float
    log: bool

    def share(self, value: float) -> float:
        if self.high == self.low:
            return 0.5
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def curves(
    title: str,
    x: Axis,
    y: Axis,
    lines: Mapping[str, Points],
    limit: tuple[float, str] | None = None,
) -> str:
    """Each line is named at its end."""
    xs = [point[0] for line in lines.values() for point in line]
    ys = [point[1] for line in lines.values() for point in line]
    ys += [limit[0]] if limit else []
    across, up = _scale(x, xs), _scale(y, ys)
    parts = [*_frame(title, x, y, across, up)]
    if limit:
        parts += _limit(limit, up)
    ends = _apart([(_down(up, line[-1][1]), name) for name, line in lines.items()])
    for number, (name, line) in enumerate(lines.items()):
        path = " ".join(f"{_right(across, a):.1f},{_down(up, b):.1f}" for a, b in line)
        parts.append(f'<polyline class="line s{number % 8}" points="{path}"/>')
        parts += [
            f'<circle class="d{number % 8}" cx="{_right(across, a):.1f}" '
            f'cy="{_down(up, b):.1f}" r="3.5"/>'
            for a, b in line
        ]
        at = _right(across, line[-1][0]) + 10
        parts.append(_text(at, ends[name] + 4, name, kind=f"d{number % 8}"))
    return _svg(title, parts, _HEIGHT)


def bars(title: str, unit: str, rows: Mapping[str, Mapping[str, float]]) -> str:
    """One bar a row, made of its parts, which are named below."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    left, thick, gap = 190, 30, 16
    most = max(sum(row.values()) for row in rows.values())
    per = (_WIDTH - left - 90) / most
    parts = [_text(20, 30, title, kind="title")]
    for index, (label, row) in enumerate(rows.items()):
        top, at = 52 + index * (thick + gap), float(left)
        middle = top + thick / 2 + 5
        parts.append(
            f'<text x="{left - 12}" y="{middle:.0f}" text-anchor="end">{escape(label)}</text>'
        )
        for name, value in row.items():
            shade = f'class="d{names.index(name) % 8}"'
            told = f"<title>{escape(name)}: {value:.1f} {escape(unit)}</title>"
            parts.append(
                f'<rect {shade} x="{at:.1f}" y="{top}" width="{max(0.0, value) * per:.1f}" '
                f'height="{thick}">{told}</rect>'
            )
            at += max(0.0, value) * per
        whole = f"{sum(row.values()):.1f} {unit}"
        parts.append(_text(at + 8, middle, whole))
    bottom = 52 + len(rows) * (thick + gap)
    return _svg(
        title, [*parts, *_legend(names, bottom + 8)], bottom + 26 * ((len(names) + 1) // 2) + 8
    )


def save(name: str, svg: str, directory: Path = IMAGES) -> str:
    (directory / name).write_text(svg)
    return name


def _scale(axis: Axis, values: Sequence[float]) -> Scale:
    low, high = min(values), max(values)
    if axis.log:
        return Scale(low, high, log=True) if axis.at else Scale(*_decades(low, high), log=True)
    low = low if axis.floor is None else min(axis.floor, low)
    if axis.at:
        return Scale(low, max(high, *axis.at), log=False)
    step = _step(high - low)
    return Scale(low, math.ceil(high / step) * step, log=False)


def _decades(low: float, high: float) -> tuple[float, float]:
    """Whole decades would waste much of the paper where there are few: halves of them."""
    ladder = [base * 10**power for power in range(-4, 10) for base in (1, 3)]
    return (
        max(step for step in ladder if step <= low * 1.0001),
        min(step for step in ladder if step >= high * 0.9999),
    )


def _marks(axis: Axis, scale: Scale) -> list[float]:
    if axis.at:
        return list(axis.at)
    if scale.log:
        ladder = [base * 10**power for power in range(-4, 10) for base in (1, 3)]
        return [mark for mark in ladder if scale.low * 0.999 <= mark <= scale.high * 1.001]
    step = _step(scale.high - scale.low)
    return [scale.low + step * n for n in range(round((scale.high - scale.low) / step) + 1)]


def _step(span: float) -> float:
    """Round, with four to eight of them in the span."""
    rough = max(span, 1e-9) / 5
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(base * power for base in (1, 2, 5, 10) if base * power >= rough)


def _frame(title: str, x: Axis, y: Axis, across: Scale, up: Scale) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = [
        _text(20, 26, title, kind="title"),
        _text(20, 44, y.says, kind="quiet"),
        _text((_LEFT + right) / 2, _HEIGHT - 12, x.says, kind="quiet", anchor="middle"),
    ]
    for mark in _marks(y, up):
        at = _down(up, mark)
        parts.append(_line("grid", (_LEFT, at), (right, at)))
        parts.append(_text(_LEFT - 8, at + 4, _short(mark), kind="quiet", anchor="end"))
    for mark in _marks(x, across):
        at = _right(across, mark)
        parts.append(_line("axis", (at, bottom), (at, bottom + 5)))
        parts.append(_text(at, bottom + 20, _short(mark), kind="quiet", anchor="middle"))
    return [*parts, _line("axis", (_LEFT, bottom), (right, bottom))]


def _limit(limit: tuple[float, str], up: Scale) -> list[str]:
    at, right = _down(up, limit[0]), _WIDTH - _RIGHT
    return [
        _line("limit", (_LEFT, at), (right, at)),
        _text(_LEFT + 8, at - 6, limit[1], kind="quiet"),
    ]


def _legend(names: Sequence[str], top: float) -> list[str]:
    parts = []
    for number, name in enumerate(names):
        left, down = 20 + (number % 2) * 350, top + (number // 2) * 26
        parts.append(
            f'<rect class="d{number % 8}" x="{left}" y="{down:.0f}" width="14" height="14"/>'
        )
        parts.append(_text(left + 22, down + 12, name))
    return parts


def _apart(wanted: list[tuple[float, str]], least: float = 17) -> dict[str, float]:
    """Names at the ends of lines, moved until none lies on another; within the paper."""
    placed: dict[str, float] = {}
    last = -math.inf
    for at, name in sorted(wanted):
        last = max(at, last + least)
        placed[name] = last
    bound = _HEIGHT - _BOTTOM + least
    for name in sorted(placed, key=lambda each: -placed[each]):
        bound = placed[name] = min(placed[name], bound - least)
    return placed


def _right(scale: Scale, value: float) -> float:
    return _LEFT + 12 + scale.share(value) * (_WIDTH - _RIGHT - _LEFT - 24)


def _down(scale: Scale, value: float) -> float:
    return _HEIGHT - _BOTTOM - scale.share(value) * (_HEIGHT - _BOTTOM - _TOP - 12)


def _short(value: float) -> str:
    for power, letter in ((6, "M"), (3, "k")):
        if abs(value) >= 10**power:
            return f"{value / 10**power:g}{letter}"
    return f"{value:.4g}"


def _text(x: float, y: float, says: str, *, kind: str = "", anchor: str = "start") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{kind}" {where}>{escape(says)}</text>'


def _line(kind: str, begin: tuple[float, float], end: tuple[float, float]) -> str:
    (a, b), (c, d) = begin, end
    return f'<line class="{kind}" x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}"/>'


def _svg(title: str, parts: Sequence[str], height: float) -> str:
    light = "".join(f".s{n}{{stroke:{c}}}.d{n}{{fill:{c}}}" for n, c in enumerate(_LIGHT))
    dark = "".join(f".s{n}{{stroke:{c}}}.d{n}{{fill:{c}}}" for n, c in enumerate(_DARK))
    style = f"{_STYLE}{light}\n@media (prefers-color-scheme: dark){{{_STYLE_DARK}{dark}}}"
    size = f'viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}" height="{height:.0f}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">'
    )
    paper = f'<rect class="paper" width="{_WIDTH}" height="{height:.0f}" rx="8"/>'
    return "\n".join([head, f"<style>{style}</style>", paper, *parts, "</svg>", ""])
