"""Pages that `berth operator` serves over HTTPS: health, metrics of its watch and its role, and the live schedulers."""

from __future__ import annotations

from podberth.policy.operator.replica import Operator
from podberth.service.metrics import Asked, Family, Instrument, Labels
from podberth.service.serving import Endpoints

LEADER = Family(
    "leader_election_master_status",
    "gauge",
    "1 for the replica that holds the Lease and writes statuses, 0 for others.",
    ("name",),
)
WATCH_AGE = Family(
    "berth_operator_watch_age_seconds",
    "gauge",
    "Seconds since the API server last answered the watch of policies. Up to 55 is normal.",
)
SCHEDULERS = Family(
    "berth_operator_live_schedulers", "gauge", "1 for each schedulerName that a live scheduler serves.", ("name",)
)
NATIVES = Family(
    "berth_operator_admission_policies",
    "gauge",
    "Admission policies and bindings by which the API server enforces MetadataPolicies.",
)
NATIVE_NAMESPACES = Family(
    "berth_operator_native_namespaces",
    "gauge",
    "Namespaces in which the API server enforces MetadataPolicies by itself.",
)
NATIVE_WRITES = Family(
    "berth_operator_admission_policy_writes_total", "counter", "Admission policies and bindings written or deleted."
)
NATIVE_REPAIRS = Family(
    "berth_operator_admission_policy_repairs_total",
    "counter",
    "Admission policies and bindings that somebody else had changed or deleted.",
)
FAMILIES = (LEADER, WATCH_AGE, SCHEDULERS, NATIVES, NATIVE_NAMESPACES, NATIVE_WRITES, NATIVE_REPAIRS)


def endpoints(operator: Operator, lease: str) -> Endpoints:
    """All that there is to serve about one operator."""
    pulse = operator.watch.pulse

    def age() -> dict[Labels, float]:
        found = pulse.age()
        return {} if found is None else {(): found}

    def instruments() -> list[Instrument]:
        return [
            Asked(LEADER, lambda: {(lease,): float(operator.elector.leading)}),
            Asked(WATCH_AGE, age),
            Asked(NATIVES, lambda: {(): float(len(operator.natives))}),
            Asked(NATIVE_NAMESPACES, lambda: {(): float(len(operator.natives.namespaces))}),
            Asked(NATIVE_WRITES, lambda: {(): float(operator.natives.writes)}),
            Asked(NATIVE_REPAIRS, lambda: {(): float(operator.natives.repairs)}),
            Asked(SCHEDULERS, lambda: {(name,): 1.0 for name in operator.schedulers.live or ()}),
        ]

    return Endpoints(
        live={"watch": pulse.dead},
        ready={"watch": pulse.unready},
        instruments=instruments,
        ports=operator.probe.ports,
    )
