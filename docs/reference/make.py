"""Write docs/reference/metrics.md from the families that the code declares.

`make reference` runs this; a test holds the page equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from prometheus_client import PROCESS_COLLECTOR

from podberth.app import metrics
from podberth.app.evictor import launch as evictor
from podberth.policy.operator import replica as operator
from podberth.service import port
from podberth.service.loop import LAG
from podberth.service.metrics import PROCESS, Family

PAGE = Path(__file__).parent / "metrics.md"
HEAD = """\
# Metrics

`make reference` writes this page from the code. `berth run` serves these metrics at `https://…:10259/metrics`, to
clients that may `get` the path ([operations](../operations.md)). A metric is there once it has a value. Metrics of
kube-scheduler keep its names, types, labels and buckets, so that its dashboards and alerts work. Durations are measured
by Berth's own clock; counts begin at the start of the process.
"""


def scheduler() -> list[Family]:
    """Those of `berth run`, in the order of their declaration."""
    return [value for value in vars(metrics).values() if isinstance(value, Family)]


def collected() -> list[Family]:
    """Those of prometheus-client, which it has on Linux."""
    found = PROCESS_COLLECTOR.collect()
    return [Family(one.name + "_total" * (one.type == "counter"), one.type, one.documentation) for one in found]


def page() -> str:
    """The whole page."""
    own = scheduler()
    theirs = [family for family in own if not family.name.startswith("berth_")]
    parts = [
        HEAD,
        *_section("kube-scheduler's metrics", theirs),
        *_lacking(),
        *_section("Further metrics of berth run", [family for family in own if family not in theirs]),
        *_section("berth operator", operator.FAMILIES),
        *_section("berth evictor", evictor.FAMILIES),
        *_section("Every process", (LAG, port.CONNECTIONS, port.REFUSED, *PROCESS, *collected())),
        "\nThe metrics of the admission server are in [admission](../operator.md#its-metrics).\n",
    ]
    return "".join(parts)


LACKING = {
    "scheduler_goroutines": "Berth decides on one thread: there are none.",
    "scheduler_inflight_events": "One thread applies events and decides, so nothing arrives during an attempt.",
    "scheduler_batch_attempts_total, scheduler_batch_cache_flushed_total, scheduler_batch_rescore_attempts_total, "
    "scheduler_batch_rescore_duration_seconds, scheduler_get_node_hint_duration_seconds, "
    "scheduler_store_schedule_results_duration_seconds": "Berth has no batches. What equal pods share is in "
    "`berth_decisions_total`.",
    "scheduler_queueing_hint_execution_duration_seconds, scheduler_pre_queueing_hint_evaluations_total": "Hints are "
    "asked for whole groups of pods, and not timed.",
    "scheduler_preemption_goroutines_duration_seconds, scheduler_preemption_goroutines_execution_total": "There are "
    "none.",
    "scheduler_preemption_evaluation_duration_seconds, scheduler_preemption_execution_duration_seconds": "Victims are "
    "chosen within the attempt (extension point `PostFilter`), and told to go by writes like any other.",
    "scheduler_async_api_call_execution_total, scheduler_async_api_call_execution_duration_seconds, "
    "scheduler_pending_async_api_calls": "Berth has no dispatcher of API calls. What waits is in "
    "`berth_writes_in_flight` and `berth_statuses_waiting`.",
    "scheduler_dra_bindingconditions_allocations_total, scheduler_dra_bindingconditions_wait_duration_seconds": "Berth "
    "does not keep apart for which driver's conditions a pod waits.",
    "scheduler_generated_placements_total, scheduler_placement_evaluations_total, "
    "scheduler_placement_evaluation_duration_seconds": "Where sums say what comes of a placement, it is not tried, "
    "so the counts would mean something else.",
}
"""Metrics of kube-scheduler 1.37 (`pkg/scheduler/metrics`) → why Berth has none of that name."""


def _lacking() -> list[str]:
    rows = [f"| {', '.join(f'`{name}`' for name in names.split(', '))} | {why} |\n" for names, why in LACKING.items()]
    return ["\n## kube-scheduler's metrics that Berth has not\n\n", "| name | why |\n", "| --- | --- |\n", *rows]


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
