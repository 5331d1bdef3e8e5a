"""The parts with modules of their own, as rows: the admission server, the operator."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from bench import hostile_admission, hostile_policies
from bench.hostile import town
from bench.hostile.row import Chosen, Row, Say

MEMORY = 20.0
"""MB by which the operator may grow."""


def admission(chosen: Chosen, say: Say) -> Iterator[Row]:
    """One namespace at its worst against the admission server, and what another's reviews take meanwhile."""
    wanted = [one for one in hostile_admission.scenarios() if chosen.wants(_name("admission", one.__name__))]
    if not wanted:
        return
    with asyncio.Runner() as runner:
        stage = hostile_admission.stage()
        made = runner.run(stage.__aenter__())
        try:
            for scenario in wanted:
                name = _name("admission", scenario.__name__)
                say(name)
                found = runner.run(_measured(scenario, made))
                yield Row(
                    "admission server",
                    found.kind,
                    name,
                    found.shape,
                    found.bytes,
                    found.objects,
                    found.costs,
                    found.bounds,
                    found.note,
                )
        finally:
            runner.run(stage.__aexit__(None, None, None))


async def _measured(scenario: hostile_admission.Scenario, made: hostile_admission.Stage) -> hostile_admission.Measured:
    return await scenario(made)


def _name(part: str, words: str) -> str:
    return "-".join([part, *words.replace(",", "").replace("_", " ").split()])


def policies(chosen: Chosen, say: Say) -> Iterator[Row]:
    """The largest policies: what the operator and `berth policy lint` take for them, each in a process of its own."""
    for shape, make in hostile_policies.SHAPES.items():
        name = _name("policy", shape)
        if not chosen.wants(name):
            continue
        say(name)
        (found,) = hostile_policies.rows([shape])
        costs = {
            "operator_cpu_ms": 1000 * found.operator_cpu,
            "operator_memory_mb": found.operator_peak,
            "lint_cpu_ms": 1000 * found.lint_cpu,
            "lint_memory_mb": found.lint_peak,
        }
        largest = max(len(town.encoded(document)) for document in make())
        note = f"the operator: {found.operator_says}; lint: {found.lint_says}"
        bounds = {"operator_memory_mb": MEMORY, "lint_memory_mb": MEMORY}
        yield Row("operator", "MetadataPolicy", name, shape, largest, found.policies, costs, bounds, note)
