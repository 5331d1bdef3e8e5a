"""An act with a gang: eight workers that start together or not at all, first with too little room, then with enough."""

import msgspec

from podberth.explain.report.group import headline, stop
from podberth.kube.errors import ApiError
from podberth.kube.resources import POD_GROUPS
from podberth.model.node import Node
from podberth.testing.demo import words
from podberth.testing.demo.objects import Object, pod
from podberth.testing.demo.play import PATIENCE, Play

TITLE = "A gang: all or nothing"
GROUP, SIZE, FIT = "epoch", 8, 6
_STEP = 50
"""Milli-cores between two amounts that the workers may ask for."""
_LEAST, _MOST = 200, 4000
_NOT_SERVED = (403, 404)


async def gang(play: Play) -> None:
    """Close a node, so that six of eight workers fit; then open it again."""
    if not play.setting.own_nodes:
        await play.act(TITLE, "Left out on this cluster: a node would have to be closed for a while.")
        return
    if not await _served(play):
        await play.act(TITLE, "Left out on this cluster: it serves no PodGroups (scheduling.k8s.io/v1beta1).")
        return
    found = _plan(play)
    if found is None:
        await play.act(TITLE, f"Left out: there is no room for just {FIT} of {SIZE} workers.")
        return
    node, cpu = found
    await play.act(
        TITLE,
        f"{SIZE} workers of a training run are of use only together. Their PodGroup says so: minCount {SIZE}. One by "
        f"one, {FIT} of them would take their room, and wait for the others for ever.",
    )
    await play.patch_node(node, {"spec": {"unschedulable": True}})
    await play.mirror.until(lambda: _node(play, node).unschedulable, f"node {node} to be closed", PATIENCE)
    await play.show(
        "change",
        f"{node} is closed for maintenance",
        ["PATCH spec.unschedulable: true."],
        node=node,
        cordons={node: True},
    )
    await _create(play, cpu)
    names = [f"{GROUP}-{i}" for i in range(SIZE)]
    await play.mirror.until(lambda: all(_waits(play, name) for name in names), f"the gang {GROUP} to wait", PATIENCE)
    answer = play.explain_group(GROUP)
    lines = [
        f"{play.shorten(headline(answer))}, none is bound.",
        f"{play.shorten(stop(answer))}.",
        f"In kube-scheduler's words: {answer.message}.",
        "Any of these would start it; each was tried with the whole gang before it is offered:",
        *(f"  {play.shorten(remedy.text)}" for remedy in answer.remedies),
    ]
    before = {name: play.witness.last(f"{play.setting.namespace}/{name}") for name in names}
    puts: dict[str, str | None] = dict.fromkeys(names, "")
    await play.show("pending", f"{GROUP} waits as a whole", lines, pod=names[FIT], puts=puts, beats=4.0)
    await play.uncordon(node, f" Now all {SIZE} fit, and are bound together.")
    for name in names:
        await play.show_outcome(name, after=before[name], beats=0.4)


async def _served(play: Play) -> bool:
    try:
        await play.client.get(POD_GROUPS.path(play.setting.namespace))
    except ApiError as error:
        if error.status in _NOT_SERVED:
            return False
        raise
    return True


async def _create(play: Play, cpu: int) -> None:
    """Create the group and its pods."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": GROUP},
        "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}},
    }
    await play.client.create(POD_GROUPS.path(play.setting.namespace), msgspec.json.encode(group))
    line = f"Each worker asks for {words.cores(cpu)} cores."
    await play.show("change", f"The PodGroup {GROUP} and its {SIZE} workers are created", [line])
    for i in range(SIZE):
        await play.create(_worker(play, f"{GROUP}-{i}", cpu))


def _worker(play: Play, name: str, cpu: int) -> Object:
    member = {"podGroupName": GROUP}
    return pod(name, play.setting.scheduler, cpu=cpu, memory=16, schedulingGroup=member)


def _plan(play: Play) -> tuple[str, int] | None:
    """(node to close, milli-cores of a worker), so that six fit without the node, and all with it."""
    mirror = play.mirror
    open_nodes = sorted(
        (node for node in mirror.nodes.values() if not (node.taints or node.unschedulable)), key=lambda node: node.name
    )
    free = {node.name: node.allocatable.get("cpu", 0) - mirror.used(node.name) for node in open_nodes}
    for cpu in range(_MOST, _LEAST, -_STEP):
        takes = {name: max(left, 0) // cpu for name, left in free.items()}
        for name in sorted(takes, key=lambda name: (-takes[name], name)):
            if sum(takes.values()) - takes[name] == FIT and sum(takes.values()) >= SIZE:
                return play.short(name), cpu
    return None


def _node(play: Play, name: str) -> Node:
    return play.mirror.nodes[play.setting.full(name)]


def _waits(play: Play, name: str) -> bool:
    """Return whether the API server says of a pod that it was tried in vain."""
    found = play.mirror.pod(play.setting.namespace, name)
    return found is not None and found.condition is not None and found.condition[:2] == ("False", "Unschedulable")
