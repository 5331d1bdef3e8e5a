"""Pictures by Vega-Altair, as SVG that needs no script and no network. They need the extra `podberth[lab]`."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from podberth.explain.objects.documents import ObjectError

GREY = "#98a2b3"
COLOURS = ("#1570ef", "#b54708", "#067647", "#6938ef", GREY)
_LOOK = {
    "background": "transparent",
    "view": {"stroke": "transparent"},
    "axis": {"domainColor": GREY, "tickColor": GREY, "gridColor": GREY, "gridOpacity": 0.25},
    "font": "system-ui, sans-serif",
    "range": {"category": COLOURS},
}
Points = Sequence[Mapping[str, Any]]


def require() -> None:
    """Raise ObjectError where the extra is not installed."""
    if any(find_spec(name) is None for name in ("altair", "vl_convert")):
        raise ObjectError("pictures: expected the extra podberth[lab]: pip install 'podberth[lab]'")


def lines(points: Points, across: str, up: str) -> str:
    """Return the SVG of a line for each `profile` through its points `x`, `y`."""
    import altair

    chart = (
        altair.Chart(_data(points))
        .mark_line(interpolate="step-after")
        .encode(
            x=altair.X("x:Q").title(across),
            y=altair.Y("y:Q").title(up),
            color=altair.Color("profile:N", sort=None).title(None),
        )
    )
    return _svg(chart.properties(width=420, height=200))


def dots(points: Points, across: str, up: str, colours: Mapping[str, str]) -> str:
    """Return the SVG of a dot for each point (`kind`, `x`, `y`), in the colour of its kind, small for the first kind;
    with the bars from `xlow` to `xhigh` and from `ylow` to `yhigh` that points have.
    """
    import altair

    kinds = [kind for kind in colours if any(point["kind"] == kind for point in points)]
    scale = altair.Scale(domain=kinds, range=[colours[kind] for kind in kinds])
    small = f"datum.kind == '{next(iter(colours))}'"
    chart: Any = (
        altair.Chart(_data(points))
        .mark_circle(opacity=0.9)
        .encode(
            x=altair.X("x:Q", scale=altair.Scale(zero=False)).title(across),
            y=altair.Y("y:Q", scale=altair.Scale(zero=False)).title(up),
            color=altair.Color("kind:N", scale=scale).title(None),
            size=altair.condition(small, altair.value(18), altair.value(70)),
        )
    )
    if any("xlow" in point for point in points):
        bars = altair.Chart(_data(points)).mark_rule(strokeWidth=1, color=GREY)
        chart += bars.encode(x="xlow:Q", x2="xhigh:Q", y="y:Q") + bars.encode(x="x:Q", y="ylow:Q", y2="yhigh:Q")
    return _svg(chart.properties(width=420, height=300))


def _data(points: Points) -> Any:
    import altair

    return altair.Data(values=list(points))  # type: ignore[no-untyped-call]


def _svg(chart: Any) -> str:
    import vl_convert

    found: str = vl_convert.vegalite_to_svg({**chart.to_dict(), "config": _LOOK})
    return found
