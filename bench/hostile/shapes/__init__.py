"""What a tenant may write, by kind. Each module has its `SCENARIOS`."""

from bench.hostile.scenario import Scenario
from bench.hostile.shapes import claims, crossed, devices, nodes, odd, placed, queueing, selecting, specs, terms

SCENARIOS: list[Scenario] = [
    scenario
    for module in (terms, specs, placed, queueing, selecting, claims, devices, nodes, odd, crossed)
    for scenario in module.SCENARIOS
]
