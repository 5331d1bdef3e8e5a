"""Write docs/metrics.md from the families that the code declares. `make reference` runs this; a test holds it equal."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from scheduler.controller import families
from scheduler.controller.eviction import vitals as evictor
from scheduler.policy.operator import vitals as operator
from scheduler.telemetry import complaints, heartbeat, port, process
from scheduler.telemetry.instruments import Family

PAGE = Path(__file__).parents[1] / "metrics.md"
HEAD = """\
# Metrics

`make reference` writes this page from the code. `berth run` serves these metrics at `https://…:10259/metrics`, to
clients that may `get` the path ([operations](operations.md)). A metric is there once it has a value. Metrics of
kube-scheduler keep its names, types, labels and buckets, so that its dashboards and alerts work. Durations are measured
by Berth's own clock; counts begin at the start of the process.
"""


def scheduler() -> list[Family]:
    """Those of `berth run`, in the order of their declaration."""
    return [value for value in vars(families).values() if isinstance(value, Family)]


def page() -> str:
    """The whole page."""
    own = scheduler()
    theirs = [family for family in own if not family.name.startswith("berth_")]
    parts = [
        HEAD,
        *_section("kube-scheduler's metrics", theirs),
        *_section("Further metrics of berth run", [family for family in own if family not in theirs]),
        *_section("berth operator", operator.FAMILIES),
        *_section("berth evictor", evictor.FAMILIES),
        *_section("Every process", (heartbeat.LAG, port.CONNECTIONS, complaints.REFUSED, *process.FAMILIES)),
        "\nThe metrics of the admission server are in [admission](admission.md#its-metrics).\n",
    ]
    return "".join(parts)


def _section(title: str, found: Iterable[Family]) -> list[str]:
    lines = [f"\n## {title}\n\n", "| name | type | labels | what it is |\n", "| --- | --- | --- | --- |\n"]
    for family in found:
        kind = family.kind
        if family.buckets:
            kind += f", {family.buckets[0]:g} to {family.buckets[-1]:.4g} in {len(family.buckets)} buckets"
        lines.append(f"| `{family.name}` | {kind} | {', '.join(family.labels)} | {family.about} |\n")
    return lines


if __name__ == "__main__":
    PAGE.write_text(page())
