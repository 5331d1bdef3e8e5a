"""Walk one pod through the code, from its bytes to its Binding: every stop with file, line, and what happened there.

`make tour` prints it. Nothing of it is written down: a pod is scheduled, the calls are watched, and file, line and
description are read from the code that ran. A stop that the pod does not pass is an error, and a test makes the tour.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from podberth.cache.cluster import Cluster
from podberth.engine.binding_cycle import BindingCycles
from podberth.engine.engine import Engine
from podberth.engine.instructions import Bind, Outbox
from podberth.engine.queue.scheduling_queue import SchedulingQueue
from podberth.engine.schedule_one import SchedulingCycle
from podberth.engine.stimuli import Bound, Cycle, Put
from podberth.framework.binding import BindingPlugins
from podberth.framework.config import default_configuration
from podberth.framework.profiles import build
from podberth.framework.result_cache import Asked, EquivalenceClass
from podberth.framework.runtime import Framework
from podberth.model.kinds import Decoder
from podberth.model.shape import parse_shape
from podberth.plugins.default_binder import DefaultBinder
from podberth.plugins.node_resources import NodeResourcesFit
from podberth.plugins.registry import registry
from podberth.plugins.taint_toleration import TaintToleration

ROOT = Path(__file__).parents[1]
ALLOCATABLE = {"cpu": "2", "memory": "4Gi", "pods": "110"}
NODES: list[dict[str, Any]] = [
    {"kind": "Node", "metadata": {"name": "a", "uid": "a"}, "status": {"allocatable": ALLOCATABLE}},
    {
        "kind": "Node",
        "metadata": {"name": "b", "uid": "b"},
        "spec": {"taints": [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]},
        "status": {"allocatable": ALLOCATABLE},
    },
]
POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "web", "namespace": "default", "uid": "web"},
    "spec": {
        "schedulerName": "berth",
        "containers": [{"name": "c", "image": "web:1", "resources": {"requests": {"cpu": "500m"}}}],
    },
}
Seen = dict[str, Any]
"""What a function was called with."""


class Stop(NamedTuple):
    """A function that the pod passes, and what to say of the call, by its arguments and result; empty: nothing."""

    function: Callable[..., Any]
    says: Callable[[Seen, Any], str]


def _rejects(_: Seen, result: Any) -> str:
    nodes = [node["metadata"]["name"] for node in NODES]
    names = sorted(f"{nodes[row]}: {reason.text}" for reason, mask in result for row in mask.nonzero()[0])
    return f"rejects {', '.join(names)}" if names else "rejects no node"


def _amounts(requests: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in requests.items()) + " (CPU in thousandths)"


def _asked(_: Seen, found: Asked) -> str:
    names = ", ".join(plugin.name for plugin in found.filters) or "no filter"
    return f"asked beyond what is kept: {names}"


STOPS = (
    Stop(Decoder.pod, lambda seen, pod: f"{len(seen['raw'])} bytes became pod {pod.key}"),
    Stop(parse_shape, lambda _, shape: f"it asks for {_amounts(shape.requests)}"),
    Stop(Engine.handle, lambda _, done: f"the pod is put; instructions so far: {len(done)}"),
    Stop(SchedulingQueue.add, lambda _, queued: f"it waits in the {queued.place} queue"),
    Stop(SchedulingQueue.pop, lambda _, queued: f"attempt {queued.attempts} begins"),
    Stop(SchedulingCycle.decide, lambda _, outcome: f"the outcome is a {type(outcome).__name__}"),
    Stop(Framework.decide_quickly, lambda _, decision: f"{decision.fitting} of {decision.nodes} nodes fit"),
    Stop(TaintToleration.filter, _rejects),
    Stop(NodeResourcesFit.filter, _rejects),
    Stop(NodeResourcesFit.score, lambda _, scores: f"scores by row: {scores.tolist()}"),
    Stop(EquivalenceClass.asked_about, _asked),
    Stop(BindingCycles.assume, lambda seen, _: f"the chosen row is {seen['row']}"),
    Stop(Cluster.assume, lambda seen, _: f"node {seen['self'].nodes.names[seen['row']]} counts the pod from now on"),
    Stop(BindingPlugins.ask, lambda seen, _: f"the first point is {seen['point']}"),
    Stop(DefaultBinder.bind, lambda _, result: f"it answers {result.name}: the API server is to bind the pod"),
    Stop(Outbox.take, lambda _, done: ", ".join(f"{type(one).__name__} {one.pod.key} to {one.node}" for one in done)),
    Stop(BindingCycles.handle, lambda seen, _: f"the API server answered: {type(seen['stimulus']).__name__}"),
    Stop(Cluster.put_pod, lambda _, before: f"the watch shows the pod on its node; assumed before: {before.assumed}"),
)


def started() -> tuple[Decoder, Engine]:
    """A decoder, and an engine that knows the nodes."""
    decoder, engine = Decoder(), Engine(build(default_configuration(), registry()), in_full=False)
    for node in NODES:
        engine.handle(Put(decoder.of_kind("Node")(json.dumps(node).encode())), 0.0)
    return decoder, engine


def schedule(pod: Mapping[str, Any], decoder: Decoder, engine: Engine, now: float) -> None:
    """Have a pod come, decided, bound, and shown on its node."""
    engine.handle(Put(decoder.pod(json.dumps(pod).encode())), now)
    (bind,) = [one for one in engine.handle(Cycle(), now + 1.0) if isinstance(one, Bind)]
    engine.handle(Bound(bind.pod.uid), now + 2.0)
    placed = {**pod, "spec": pod["spec"] | {"nodeName": bind.node}}
    engine.handle(Put(decoder.pod(json.dumps(placed).encode())), now + 3.0)


def files_passed() -> set[Path]:
    """The files that the fourth of four equal pods passes through: decoder, engine, plugins and columns."""
    found: set[Path] = set()
    code = ROOT / "scheduler"

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (file := Path(frame.f_code.co_filename)).is_relative_to(code):
            found.add(file)

    decoder, engine = started()
    for i in range(4):
        schedule(
            {**POD, "metadata": POD["metadata"] | {"name": f"web-{i}", "uid": f"web-{i}"}}, decoder, engine, 5.0 * i
        )
        if i == 2:
            sys.setprofile(note)
    sys.setprofile(None)
    return found


def walk() -> list[str]:
    """One text for each stop, in the order in which the pod passed them. Raises LookupError for one that it missed."""
    codes: dict[CodeType, int] = {inspect.unwrap(stop.function).__code__: i for i, stop in enumerate(STOPS)}
    passed: dict[int, tuple[int, str]] = {}
    entered: dict[int, int] = {}
    calls = 0

    def watch(frame: FrameType, event: str, result: Any) -> None:
        nonlocal calls
        number = codes.get(frame.f_code)
        if number is None or number in passed:
            return
        if event == "call":
            calls += 1
            entered[number] = calls
        elif event == "return" and (said := STOPS[number].says(frame.f_locals, result)):
            passed[number] = entered[number], said

    decoder, engine = started()
    sys.setprofile(watch)
    try:
        schedule(POD, decoder, engine, 1.0)
    finally:
        sys.setprofile(None)
    missed = [stop.function.__qualname__ for i, stop in enumerate(STOPS) if i not in passed]
    if missed:
        raise LookupError(f"the pod did not pass {', '.join(missed)}: mend STOPS in {Path(__file__).name}")
    in_order = sorted(passed, key=lambda number: passed[number][0])
    return [_text(place, STOPS[number], passed[number][1]) for place, number in enumerate(in_order, 1)]


def _text(place: int, stop: Stop, said: str) -> str:
    function = inspect.unwrap(stop.function)
    code = function.__code__
    about = (inspect.getdoc(function) or "").split("\n")[0]
    file = Path(code.co_filename).relative_to(ROOT)
    return f"{place:2}. {file}:{code.co_firstlineno}  {function.__qualname__}\n    {about}\n    here: {said}"


if __name__ == "__main__":
    print("One pod, through the code that schedules it. docs/architecture.md says how the parts belong together.\n")
    print("\n".join(walk()))
    files = files_passed()
    lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
    print(
        f"\nThe fourth pod of the same template passes through {len(files)} files of {lines:,} lines, the watch and the"
    )
    print("writes of `berth run` not counted: from its bytes to its confirmed Binding.")
