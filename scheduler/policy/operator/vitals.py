"""What `berth operator` tells of itself over HTTPS: its watch, its role, who lives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scheduler.kube.client import Client
from scheduler.kube.reviews import Reviews
from scheduler.policy.operator.launch import Operator, Served, nowhere
from scheduler.telemetry.instruments import Asked, Family, Instrument, Labels
from scheduler.telemetry.serving import Address, Endpoints, beside

LEADER = Family("leader_election_master_status", "gauge", "1 for the replica that writes, 0 for others.", ("name",))
WATCH_AGE = Family(
    "berth_operator_watch_age_seconds", "gauge", "Since the watch of policies was last answered; up to 55 s is normal."
)
SCHEDULERS = Family("berth_operator_live_schedulers", "gauge", "1 for each scheduler that lives.", ("name",))
FAMILIES = (LEADER, WATCH_AGE, SCHEDULERS)


def serving(address: Address | None, lease: str) -> Served:
    """Serve there while the operator runs; None is nowhere."""
    if address is None:
        return nowhere

    @asynccontextmanager
    async def served(client: Client, operator: Operator) -> AsyncIterator[None]:
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

        reviews, checks = Reviews(client), {"watch": pulse.unready}
        what = Endpoints(
            reviews.authorize,
            reviews.authorities,
            live={"watch": pulse.dead},
            ready=checks,
            instruments=instruments,
            ports=operator.probe.ports,
        )
        async with beside(address, what):
            yield

    return served
