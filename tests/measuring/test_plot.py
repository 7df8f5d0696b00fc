"""What `make bench` draws: an SVG that can be read, with every point inside its paper."""

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from bench.plot import Axis, bars, curves

SVG = "{http://www.w3.org/2000/svg}"


def points(svg: str) -> list[list[tuple[float, float]]]:
    found = ET.fromstring(svg).iter(f"{SVG}polyline")
    return [
        [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]  # type: ignore[misc]
        for line in found
    ]


def texts(svg: str) -> list[str]:
    return [text.text or "" for text in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_curve_lies_on_the_paper_and_rises_with_its_values() -> None:
    x = Axis("clients", log=True, at=(1, 8, 64))
    svg = curves("Many & few", x, Axis("ms"), {"<p50>": [(1, 5), (8, 20), (64, 80)]})
    (line,) = points(svg)
    assert [at for at, _ in line] == sorted(at for at, _ in line)
    assert [down for _, down in line] == sorted((down for _, down in line), reverse=True)
    assert all(0 < at < 720 and 0 < down < 380 for at, down in line)
    assert line[1][0] - line[0][0] == pytest.approx(line[2][0] - line[1][0], abs=0.2)  # by log
    assert {"Many & few", "<p50>", "clients", "ms", "64"} <= set(texts(svg))


def test_names_at_the_ends_do_not_lie_on_each_other() -> None:
    lines = {f"line {n}": [(0.0, 1.0), (1.0, 1.0 + n / 1000)] for n in range(8)}
    svg = curves("Close", Axis("x"), Axis("y"), lines)
    named = re.findall(r'class="d\d" x="[\d.]+" y="([\d.]+)" text-anchor="start">line', svg)
    places = sorted(map(float, named))
    assert len(places) == 8
    assert min(b - a for a, b in pairwise(places)) >= 16


@pytest.mark.parametrize("values", [[(1, 3), (2, 3)], [(1, 0.02), (2, 9000)], [(5, 1)]])
@pytest.mark.parametrize("log", [True, False])
def test_any_values(values: list[tuple[float, float]], log: bool) -> None:
    svg = curves("Any", Axis("x", log=log), Axis("y", log=log), {"one": values}, (4, "at most"))
    assert all(0 < at < 720 and 0 < down < 380 for line in points(svg) for at, down in line)


def test_bars_are_as_long_as_their_parts() -> None:
    svg = bars("CPU", "ms", {"bare": {"model": 20}, "whole": {"model": 20, "ours": 10}})
    wide = [
        float(w)
        for w in re.findall(
            r'<rect class="d\d" x="[\d.]+" y="\d+" width="([\d.]+)" height="30"', svg
        )
    ]
    assert wide[0] == wide[1] == pytest.approx(2 * wide[2], abs=0.2)
    assert {"20.0 ms", "30.0 ms", "model", "ours"} <= set(texts(svg))


def test_it_has_colours_for_dark_pages() -> None:
    assert "prefers-color-scheme: dark" in bars("CPU", "ms", {"bare": {"model": 20}})
