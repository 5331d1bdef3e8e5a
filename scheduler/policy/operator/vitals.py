"""What `berth operator` tells of itself over HTTPS: its watch, its role, who lives."""

from __future__ import annotations

from scheduler.policy.operator.replica import Operator
from scheduler.telemetry.instruments import Asked, Family, Instrument, Labels
from scheduler.telemetry.serving import Endpoints

LEADER = Family("leader_election_master_status", "gauge", "1 for the replica that writes, 0 for others.", ("name",))
WATCH_AGE = Family(
    "berth_operator_watch_age_seconds", "gauge", "Since the watch of policies was last answered; up to 55 s is normal."
)
SCHEDULERS = Family("berth_operator_live_schedulers", "gauge", "1 for each scheduler that lives.", ("name",))
FAMILIES = (LEADER, WATCH_AGE, SCHEDULERS)


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
            Asked(SCHEDULERS, lambda: {(name,): 1.0 for name in operator.schedulers.live or ()}),
        ]

    return Endpoints(
        live={"watch": pulse.dead},
        ready={"watch": pulse.unready},
        instruments=instruments,
        ports=operator.probe.ports,
    )
