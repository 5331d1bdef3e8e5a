"""How long gangs and small pods wait: whole runs in virtual time on a trace of a few pods."""

from random import Random
from typing import Any
from xml.etree import ElementTree

import msgspec

from bench.waiting import SETTINGS, Coming, picture, run, stream, table
from podberth.lab import Arrival, World
from podberth.lab.traces.rows import node, pod

GPU = "alibabacloud.com/gpu-milli"
NODES = [node(f"n{i}", {"cpu": "96", "memory": "786432Mi", GPU: "8000"}) for i in range(4)]


def small_trace() -> World:
    """Sixty pods of up to eight GPUs and half an hour."""
    dice = Random(1)
    arrivals = []
    for i in range(60):
        requests = {"cpu": "1", "memory": "1Gi", GPU: str(1000 * dice.choice((1, 2, 4, 8)))}
        arrivals.append(Arrival(float(i), pod(f"p{i}", requests), float(dice.randint(60, 1800))))
    return World("small", tuple(NODES), tuple(arrivals))


def nodes(world: World) -> list[dict[str, Any]]:
    """Its nodes as objects of the API."""
    return [msgspec.json.decode(raw) for raw in world.objects]


def told(trace: World) -> list[Coming]:
    return stream(trace, len(trace.objects), 60, 0.9, 3, 20, 1)


def test_all_start_in_every_setting() -> None:
    """Three gangs of three, and sixty small pods; where room is kept, gangs wait less than where none is."""
    trace = small_trace()
    coming = told(trace)
    found = [(setting, run(nodes(trace), coming, setting)) for setting in SETTINGS]
    for _, waits in found:
        assert (len(waits.gangs), len(waits.small), waits.left) == (9, 60, 0)
        assert 0 < waits.used <= 1
    plain, kept = found[0][1], found[1][1]
    assert sum(kept.gangs) < sum(plain.gangs)
    lines = table(found).splitlines()
    assert [line.split(" | ")[0].strip("| ") for line in lines[2:]] == [setting.title for setting in SETTINGS]
    drawn = ElementTree.fromstring(picture(found))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == 2 * len(SETTINGS)


def test_a_run_is_the_same_each_time() -> None:
    """Nothing is left to chance, so figures can be compared."""
    trace = small_trace()
    first, second = (run(nodes(trace), told(trace), SETTINGS[1]) for _ in range(2))
    assert (first.gangs, first.small, first.used) == (second.gangs, second.small, second.used)
