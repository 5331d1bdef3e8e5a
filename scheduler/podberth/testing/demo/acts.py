"""The story itself, act by act. Each says what it wants of the cluster; what comes of it is the scheduler's doing."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from podberth.explain.changes import Uncordon
from podberth.explain.report.group import headline, stop
from podberth.explain.report.wording import some
from podberth.kube.errors import ApiError
from podberth.kube.resources import METADATA_POLICIES, POD_GROUPS, PODS
from podberth.model.node import Node
from podberth.policy.keys import DEFAULT_SCHEDULER, QOS, SCHEDULER_NAME
from podberth.testing.demo import cast, witness
from podberth.testing.demo.cast import (
    DEVICES,
    DISK,
    GATE,
    GPU,
    HOSTNAME,
    NAMESPACE,
    PACKER,
    REPORT_CPU,
    SCHEDULER,
    TRAINER_IMAGE,
    ZONE,
    Object,
    affinity,
    near,
    pod,
)
from podberth.testing.demo.play import PATIENCE, Play
from podberth.testing.demo.policed import Policed
from podberth.testing.demo.recording import Explained

TITLE = "A gang: all or nothing"
GROUP, SIZE, FIT = "epoch", 8, 6
_STEP = 50
"""Milli-cores between two amounts that the workers may ask for."""
_LEAST, _MOST = 200, 4000
OWNER = "owner"
SHOWN_REMEDIES = 5


async def gang(play: Play) -> None:
    """Close a node, so that six of eight workers fit; then open it again."""
    node, cpu = _plan(play)
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
    before = {name: play.witness.last(f"{NAMESPACE}/{name}") for name in names}
    puts: dict[str, str | None] = dict.fromkeys(names, "")
    await play.show("pending", f"{GROUP} waits as a whole", lines, pod=names[FIT], puts=puts, beats=4.0)
    await play.uncordon(node, f" Now all {SIZE} fit, and are bound together.")
    for name in names:
        await play.show_outcome(name, after=before[name], beats=0.4)


async def _create(play: Play, cpu: int) -> None:
    """Create the group and its pods."""
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": GROUP},
        "spec": {"schedulingPolicy": {"gang": {"minCount": SIZE}}},
    }
    await play.client.create(POD_GROUPS.path(NAMESPACE), msgspec.json.encode(group))
    line = f"Each worker asks for {witness.cores(cpu)} cores."
    await play.show("change", f"The PodGroup {GROUP} and its {SIZE} workers are created", [line])
    for i in range(SIZE):
        await play.create(_worker(f"{GROUP}-{i}", cpu))


def _worker(name: str, cpu: int) -> Object:
    member = {"podGroupName": GROUP}
    return pod(name, SCHEDULER, cpu=cpu, memory=16, schedulingGroup=member)


def _plan(play: Play) -> tuple[str, int]:
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
                return name, cpu
    raise RuntimeError(f"there is no room for just {FIT} of {SIZE} workers")


def _node(play: Play, name: str) -> Node:
    return play.mirror.nodes[name]


def _waits(play: Play, name: str) -> bool:
    """Return whether the API server says of a pod that it was tried in vain."""
    found = play.mirror.pod(NAMESPACE, name)
    return found is not None and found.condition is not None and found.condition[:2] == ("False", "Unschedulable")


async def governed(play: Play) -> None:
    """Two policies, a pod for each."""
    await play.act(
        "Policies decide which objects may be created, and which scheduler gets a pod",
        "Berth's admission server is up, and the API server asks it about every create, over HTTPS. One policy wants "
        "an owner on every object; the other sends pods that ask for nothing to the profile that packs.",
    )
    policies = [require_owner(), route_best_effort(PACKER)]
    async with Policed(play.client.connection, NAMESPACE, policies):
        names = [policy["metadata"]["name"] for policy in policies]
        lines = ["$ kubectl apply -f policies.yaml", *(f"metadatapolicy.podberth.dev/{name} created" for name in names)]
        await play.show("change", "Two policies are applied", lines)
        await _refused(play, "stray-0")
        await _routed(play, "sweep-0")


async def _refused(play: Play, name: str) -> None:
    """A pod without an owner."""
    lines = [f"$ kubectl create -f {name}.yaml"]
    try:
        await play.client.create(PODS.path(NAMESPACE), msgspec.json.encode(_modest(name)))
    except ApiError as error:
        lines.append(f"Error from server ({error.reason}): {error.message}")
        await play.show("rejected", f"{name} is refused: it has no owner label", lines, beats=2.0)
        return
    raise RuntimeError(f"pod {name} was to be refused")


async def _routed(play: Play, name: str) -> None:
    """A pod that asks for nothing, not even for a scheduler."""
    sent = _modest(name, **{OWNER: "ann"})
    await play.create(sent)
    path = PODS.path(NAMESPACE, name)
    stored = msgspec.json.decode(await play.client.get(path))
    notes = stored["metadata"]["annotations"]
    lines = [
        f"$ kubectl create -f {name}.yaml",
        f"pod/{name} created",
        f"Its author named no scheduler, which means {DEFAULT_SCHEDULER}. What is stored says otherwise:",
        f"  {QOS}: {notes[QOS]}",
        f"  {SCHEDULER_NAME}: {notes[SCHEDULER_NAME]}",
        f"  spec.schedulerName: {stored['spec']['schedulerName']}",
    ]
    scheduler = stored["spec"]["schedulerName"]
    await play.show("change", f"{name} is sent to {scheduler}", lines, pod=name, puts={name: ""}, beats=2.0)
    await play.show_outcome(name)


def require_owner() -> Object:
    """Refuse what nobody owns."""
    return _policy(
        "require-owner",
        {
            "name": "owner-missing",
            "policyPredicate": {"labelSelector": {"matchExpressions": [{"key": OWNER, "operator": "DoesNotExist"}]}},
            "policyAction": {"reject": True, "message": f'add the label "{OWNER}": who answers for this?'},
        },
    )


def route_best_effort(scheduler: str) -> Object:
    """Send pods without requests and limits to this scheduler."""
    return _policy(
        "route-best-effort",
        {
            "name": "best-effort",
            "policyPredicate": {"annotationSelector": {"matchLabels": {QOS: "BestEffort"}}},
            "policyAction": {"updatedAnnotations": {SCHEDULER_NAME: scheduler}},
        },
    )


def _policy(name: str, rule: Object) -> Object:
    head = {"apiVersion": METADATA_POLICIES.api_version, "kind": METADATA_POLICIES.kind}
    return {**head, "metadata": {"name": name}, "spec": {"rules": [rule]}}


def _modest(name: str, **labels: str) -> Object:
    """Return a pod without requests, limits and a scheduler's name."""
    found = pod(name, "", cpu=0, memory=0)
    found["metadata"]["labels"] |= labels
    del found["spec"]["schedulerName"]
    del found["spec"]["containers"][0]["resources"]
    return found


async def opening(play: Play) -> None:
    """Show the nodes and what is on them."""
    mirror = play.mirror
    nodes = sorted(mirror.nodes.values(), key=lambda node: node.name)
    for node in nodes:
        play.node_card(node)
    foreign = sorted(mirror.pods.values(), key=lambda pod: pod.name)
    puts = {play.card(found).name: found.node_name for found in foreign}
    zones = ", ".join(sorted({node.labels[ZONE] for node in nodes}))
    await play.act(
        "A cluster that is already in use",
        f"{len(nodes)} nodes in zones {zones}. {len(foreign)} pods run here already, placed by another scheduler. "
        "Berth counts the room they take and leaves them alone.",
    )
    total = sum(node.allocatable.get("cpu", 0) for node in nodes)
    used = sum(mirror.used(node.name) for node in nodes)
    tainted = " and ".join(node.name for node in nodes if node.taints)
    [cordoned] = [node.name for node in nodes if node.unschedulable]
    lines = [
        f"{witness.cores(used)} of {witness.cores(total)} cores are asked for.",
        f"{tainted} are tainted: only for pods that tolerate it.",
        f"{cordoned} is cordoned: closed for maintenance.",
    ]
    title = f"Berth watches for pods that name “{SCHEDULER}” as their scheduler"
    await play.show("scene", title, lines, puts=puts, beats=2.0)


async def database(play: Play) -> None:
    """Replicas that must not share a zone."""
    await play.act(
        "A database that must spread",
        "3 replicas, and no two may share a zone (required anti-affinity): so one zone may burn.",
    )
    apart = affinity(without=[near("db", ZONE)])
    await play.place(*(_pod(f"db-{i}", 2000, 4096, affinity=apart) for i in range(3)))


async def web(play: Play) -> None:
    """A web tier near its cache, but not in one heap."""
    await play.act(
        "A web tier that wants its cache near",
        "Two caches on different nodes. Each web pod must be in a zone with a cache, would like a cache on its own "
        "node, and prefers nodes without other web pods: three wishes at once.",
    )
    apart = affinity(without=[near("cache", HOSTNAME)])
    await play.place(*(_pod(f"cache-{i}", 1000, 4096, affinity=apart) for i in range(2)))
    wishes = affinity(
        with_apps=[near("cache", ZONE)],
        rather_with=[(100, near("cache", HOSTNAME))],
        rather_without=[(40, near("web", HOSTNAME))],
    )
    await play.place(*(_pod(f"web-{i}", 500, 512, affinity=wishes) for i in range(5)))


async def batch(play: Play) -> None:
    """Another profile of the same scheduler packs."""
    await play.act(
        "Batch jobs that pack in",
        f"The same scheduler has a second profile, “{PACKER}”, that prefers the fullest node with room "
        "(MostAllocated): so big holes stay free for big pods.",
    )
    jobs = [_pod(f"batch-{i}", 1000, 2048, packed=True) for i in range(6)]
    await play.place(*jobs, together=True)


async def training(play: Play) -> None:
    """Claiming a device, tolerating a taint, and an image that is there already."""
    await play.act(
        "A GPU job that claims its device",
        "Two machines publish their GPUs in ResourceSlices. The job claims one with 40Gi or more, and tolerates the "
        "taint. Both machines have one that is free; one of them has its 6 GB image too.",
    )
    name, least = "train-0", "40Gi"
    await play.create_claim(cast.claim(f"{name}-gpu", cast.at_least(least)))
    lines = [f"1 of class {cast.DEVICE_CLASS}, selected by {cast.at_least(least)}"]
    await play.show("change", f"{name} has a ResourceClaim, {name}-gpu", lines)
    tolerations = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    await play.place(_pod(name, 4000, 16384, claim=f"{name}-gpu", image=TRAINER_IMAGE, tolerations=tolerations))
    (device,) = await cast.given(play.client, f"{name}-gpu")
    model, memory = DEVICES[device.partition("/")[0]][device.partition("/")[2]]
    lines = ["Written to the claim before the pod was bound: status.allocation, and for whom it is reserved."]
    await play.show("change", f"{name}-gpu has {device}, an {model} with {memory}", lines)


async def gated(play: Play) -> None:
    """A pod that waits for a gate costs nothing until it is lifted."""
    await play.act(
        "A pod that waits at a gate",
        "It has a scheduling gate: somebody must approve it first. Until then no node is looked at.",
    )
    name = "migrate-0"
    await play.create(_pod(name, 500, 512, schedulingGates=[{"name": GATE}]))
    key = f"{NAMESPACE}/{name}"
    await play.mirror.until(lambda: _gated(play, key), f"pod {name} to be reported as gated", PATIENCE)
    tries = sum(verdict.pod == key for verdict in play.witness.verdicts)
    lines = [f"Its condition is PodScheduled=False, reason SchedulingGated; decisions on it so far: {tries}."]
    await play.show("gated", f"{name} waits at its gate", lines, pod=name, puts={name: ""}, beats=1.5)
    await play.patch_pod(name, {"spec": {"schedulingGates": None}})
    await play.show("change", f"The gate of {name} is lifted", ["PATCH spec.schedulingGates: none left."], pod=name)
    await play.show_outcome(name)


async def misfit(play: Play) -> None:
    """A pod that fits nowhere, why, what would free it, and that it does."""
    await play.act(
        "One pod that does not fit",
        "A report asks for 6 cores and a node with an SSD. From kube-scheduler you would get only the next line.",
    )
    name = "report-0"
    [verdict] = await play.place(_pod(name, REPORT_CPU, 12288, nodeSelector={DISK: "ssd"}))
    answer = play.explain(name)
    nodes = [
        (each.node, play.shorten("; ".join(finding.detail for finding in (*each.findings, *each.also))))
        for each in answer.rejected
    ]
    remedies = [(play.shorten(each.text), some(each.nodes, 3)) for each in answer.remedies]
    [(taken, closed)] = [
        (i, change.node)
        for i, each in enumerate(answer.remedies)
        for change in each.changes
        if isinstance(change, Uncordon) and len(each.changes) == 1
    ]
    wide = max(len(node) for node, _ in nodes)
    lines = [
        *(f"{node:<{wide}}  {text}" for node, text in nodes),
        "Any of these would free it; each was tried with all filters before it is offered:",
        *(f"  {text} (then it fits on {where})" for text, where in remedies[:SHOWN_REMEDIES]),
    ]
    told = Explained(nodes, remedies, taken)
    title = f"Why {name} waits, and what would free it"
    await play.show("pending", title, lines, pod=name, explanation=told, beats=5.0)
    await play.uncordon(closed)
    await play.show_outcome(name, after=verdict)


ACTS: tuple[Callable[[Play], Awaitable[None]], ...] = (
    opening,
    database,
    web,
    batch,
    training,
    gated,
    governed,
    misfit,
    gang,
)


def _pod(name: str, cpu: int, memory: int, *, packed: bool = False, **spec: Any) -> Object:
    return pod(name, PACKER if packed else SCHEDULER, cpu=cpu, memory=memory, **spec)


def _gated(play: Play, key: str) -> bool:
    found = play.mirror.pods.get(key)
    return found is not None and found.condition is not None and found.condition[1] == "SchedulingGated"
