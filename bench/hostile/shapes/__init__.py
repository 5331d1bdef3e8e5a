"""What a tenant may write, by kind. Each module has its `SCENARIOS`."""

from bench.hostile.scenario import Scenario
from bench.hostile.shapes import (
    absurd,
    arranged,
    changed,
    claims,
    crossed,
    dense,
    devices,
    gangs,
    mixed,
    nodes,
    odd,
    placed,
    queueing,
    renewed,
    restless,
    selecting,
    sly,
    specs,
    terms,
)

SCENARIOS: list[Scenario] = [
    scenario
    for module in (
        *(terms, specs, placed, queueing, selecting, claims, devices, nodes, odd, crossed, gangs, restless),
        *(changed, arranged, sly, mixed, dense, absurd, renewed),
    )
    for scenario in module.SCENARIOS
]
