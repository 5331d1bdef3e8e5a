"""Workload files: what is refused, and what scaling does."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from podberth.testing.workloads.workload import CreatePods, Mode, WorkloadError, read

SHIPPED = sorted((Path(__file__).parents[4] / "bench" / "workloads").glob("*.yaml"))
NODES = {"createNodes": {"count": 10}}
PODS = {"createPods": {"count": 20, "namespace": "measured", "measured": True}}


def workload(*steps: Any, **more: Any) -> bytes:
    """A file with these steps, or the usual two."""
    document = {"name": "w", "about": "a", "steps": list(steps) or [NODES, PODS], **more}
    return yaml.safe_dump(document).encode()


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped(file: Path) -> None:
    """Every workload that we ship can be read, is called as its file is, and can be made small."""
    found = read(file.read_bytes())
    assert found.name == file.stem
    assert found.scaled(0.001).measured >= 1


def pods(**more: Any) -> Any:
    """The pods step, changed."""
    return {"createPods": {**PODS["createPods"], **more}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(b"", "expected a mapping, got nothing", id="empty"),
        pytest.param(b"a: [", "not YAML", id="no YAML"),
        pytest.param(b"- name: A\n  workloadTemplate: []", "a list, as of scheduler_perf's test cases", id="perf"),
        pytest.param(workload(nmae="x"), "unknown field nmae", id="unknown field"),
        pytest.param(workload(name="A b"), 'name: "A b": expected lower-case', id="name"),
        pytest.param(workload(modes=["later"]), 'modes[0]: "later"', id="mode"),
        pytest.param(workload(modes=[]), "modes: []: expected some of backlog, stream", id="no mode"),
        pytest.param(
            workload({}, NODES, PODS), "steps[0]: 0 operations: expected one of createNodes", id="no operation"
        ),
        pytest.param(workload({**NODES, **PODS}), "steps[0]: 2 operations", id="two operations"),
        pytest.param(workload(PODS), "steps: no createNodes", id="no nodes"),
        pytest.param(workload(NODES), "steps: no createPods with measured: true", id="nothing measured"),
        pytest.param(workload({"createNodes": {"count": 0}}, PODS), "steps[0].createNodes.count: 0", id="count"),
        pytest.param(
            workload({"createNodes": {"count": "x"}}, PODS),
            "steps[0].createNodes.count: expected a whole number, got text",
            id="type",
        ),
        pytest.param(workload(NODES, pods(rate=0)), "steps[1].createPods.rate: 0", id="rate"),
        pytest.param(workload(NODES, pods(steady=0)), "steps[1].createPods.steady: 0: expected 1", id="steady"),
        pytest.param(
            workload(NODES, pods(steady=1), modes=["backlog"]), "modes: backlog: expected stream alone", id="backlog"
        ),
        pytest.param(
            workload(NODES, pods(steady=1, rate=5)), "steady: 1: expected neither bound nor rate", id="steady rate"
        ),
        pytest.param(workload(NODES, pods(bound=True)), "steps[1].createPods.measured: true", id="bound and measured"),
        pytest.param(
            workload(NODES, pods(namespaces="x")), "steps[1].createPods.namespace: expected either", id="both"
        ),
        pytest.param(
            workload(NODES, pods(namespace=None, namespaces="x")),
            'steps[1].createPods.namespaces: "x": expected the name of an earlier createNamespaces',
            id="unknown namespaces",
        ),
        pytest.param(
            workload(NODES, pods(pod={"metadata": {"name": "$(j)"}})),
            "steps[1].createPods.pod: $(j): expected",
            id="place",
        ),
        pytest.param(
            workload(NODES, PODS, {"createPods": {"count": 1, "namespace": "n", "bound": True}}),
            "steps[2].createPods: expected before the first step that needs a scheduler",
            id="bound pods beside a scheduler",
        ),
        pytest.param(
            workload({"barrier": {}}, NODES, PODS),
            "steps: no createNodes: expected one at least, before",
            id="late nodes",
        ),
        pytest.param(
            workload(NODES, PODS, {"updateAny": {"count": 1, "object": {"kind": "Pod", "metadata": {"name": "p"}}}}),
            "steps[2].updateAny.namespace: a Pod lives in one",
            id="an update without a namespace",
        ),
        pytest.param(
            workload(NODES, PODS, {"deletePods": {"namespace": "n", "rate": 0}}),
            "steps[2].deletePods.rate: 0: expected more than 0",
            id="rate of deletes",
        ),
        pytest.param(
            workload(NODES, PODS, {"barrier": {"stageRequirement": "Bound"}}), 'stageRequirement: "Bound"', id="stage"
        ),
        pytest.param(
            workload(NODES, PODS, {"churn": {"interval": 0, "objects": []}}),
            "steps[2].churn.interval: 0",
            id="interval",
        ),
        pytest.param(
            workload(NODES, PODS, {"createObjects": {"count": 1, "object": {"kind": "Secret"}}}),
            'steps[2].createObjects.object.kind: "Secret": expected one of',
            id="kind",
        ),
        pytest.param(
            workload(NODES, PODS, {"createObjects": {"count": 1, "object": {"kind": "Service"}}}),
            "steps[2].createObjects.namespace: a Service lives in one",
            id="no namespace",
        ),
    ],
)
def test_refused(text: bytes, said: str) -> None:
    """The first line says where, what and what was expected."""
    with pytest.raises(WorkloadError) as error:
        read(text)
    assert said in str(error.value).splitlines()[0]


def test_what_lasts() -> None:
    """What is made before a scheduler is needed is there for all of them; nodes that come later are not counted."""
    later = {"createNodes": {"count": 7, "scales": False}}
    update = {"updateAny": {"count": 20, "measured": True, "object": {"kind": "Node", "metadata": {"name": "$(i)"}}}}
    found = read(workload(NODES, {"barrier": {"stageRequirement": "Attempted"}}, later, PODS, update))
    assert (found.lasting, found.nodes) == (1, 10)
    small = found.scaled(0.5, 0.1)
    assert [getattr(step.operation, "count", None) for step in small.steps] == [5, None, 7, 1, 1]


def test_scaled() -> None:
    """All counts shrink alike, and what is measured once more; nothing shrinks to nothing."""
    found = read(workload(NODES, {"createPods": {"count": 3, "namespace": "init", "bound": True}}, PODS))
    small = found.scaled(0.1, 0.25)
    counts = [step.operation.count for step in small.steps if isinstance(step.operation, CreatePods)]
    assert (small.nodes, counts, small.measured) == (1, [1, 1], 1)
    assert found.scaled(2, 0.5).measured == 20
    fixed = {"count": 5, "object": {"kind": "DeviceClass", "metadata": {"name": "c"}}, "scales": False}
    classes = read(workload(NODES, {"createObjects": fixed}, PODS)).scaled(0.1).steps[1].create_objects
    assert classes is not None and classes.count == 5
    assert found.modes == (Mode.STREAM,)
