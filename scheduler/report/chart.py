"""Line charts as inline SVG: points scaled into a box, with axes and a few ticks. Colours come from the page's CSS."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 34


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
    bottom: int = HEIGHT - _BOTTOM


def line_chart(
    title: str, x_title: str, lines: Sequence[Line], *, y_format: str = "{:.0%}", x_format: str = "{:g}"
) -> Chart:
    """A chart with the x axis from the first point to the last, and the y axis from 0."""
    xs = [x for line in lines for x, _ in line.points] or [0.0]
    ys = [y for line in lines for _, y in line.points] or [0.0]
    low, high, top = min(xs), max(xs), _round_up(max(max(ys), 1e-9))
    wide, tall = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def across(x: float) -> float:
        return _LEFT + wide * (x - low) / ((high - low) or 1)

    def up(y: float) -> float:
        return _TOP + tall * (1 - y / top)

    return Chart(
        title=title,
        x_title=x_title,
        paths=[(line.name, " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line.points)) for line in lines],
        x_ticks=[Tick(across(x), x_format.format(x)) for x in _steps(low, high)],
        y_ticks=[Tick(up(y), y_format.format(y)) for y in _steps(0.0, top)],
    )


def _steps(low: float, high: float) -> Iterable[float]:
    return [low + (high - low) * i / 4 for i in range(5)]


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 5, 8 or 10 times a power of ten."""
    power = 1e-9
    while power * 10 < value:
        power *= 10
    return next(power * step for step in (1, 2, 4, 5, 8, 10) if power * step >= value * (1 - 1e-9))
