"""Line charts as inline SVG: points scaled into a box, with axes and a few ticks. Colours come from the page's CSS."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 24, 12, 34


@dataclass(frozen=True)
class Line:
    """A named series of (x, y)."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Tick:
    """A mark on an axis, in pixels, and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class Chart:
    """Lines in one box, ready for the template: `paths` are `points` attributes of SVG polylines."""

    title: str
    x_title: str
    paths: Sequence[tuple[str, str]]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    right: int = WIDTH - _RIGHT
    bottom: int = HEIGHT - _BOTTOM


def line_chart(title: str, x_title: str, lines: Sequence[Line], *, counts: bool = False) -> Chart:
    """A chart with the x axis, in percent, from the first point to the last; the y axis, counts or percent, from 0."""
    xs = [x for line in lines for x, _ in line.points] or [0.0]
    ys = [y for line in lines for _, y in line.points] or [0.0]
    low, high = min(xs), max(xs)
    y_step = max(_step(max(ys)), 1 if counts else 0.01)
    top = y_step * max(math.ceil(max(ys) / y_step - 1e-9), 1)
    y_format = "{:,.0f}" if counts else "{:.0%}"
    wide, tall = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def across(x: float) -> float:
        return _LEFT + wide * (x - low) / ((high - low) or 1)

    def up(y: float) -> float:
        return _TOP + tall * (1 - y / top)

    return Chart(
        title=title,
        x_title=x_title,
        paths=[(line.name, " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line.points)) for line in lines],
        x_ticks=[Tick(across(x), f"{x:.0%}") for x in _multiples(max(_step(high - low), 0.01), low, high)],
        y_ticks=[Tick(up(y), y_format.format(y)) for y in _multiples(y_step, 0.0, top)],
    )


def _step(span: float) -> float:
    """The least of 1, 2 or 5 times a power of ten that divides a span into five parts at most; at least a millionth."""
    wanted = max(span / 5, 1e-6)
    power: float = 10 ** math.floor(math.log10(wanted))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= wanted * (1 - 1e-9))


def _multiples(step: float, low: float, high: float) -> Sequence[float]:
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]
