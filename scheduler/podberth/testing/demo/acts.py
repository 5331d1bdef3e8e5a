"""The story itself, act by act. Each says what it wants of the cluster; what comes of it is the scheduler's doing."""

from collections.abc import Awaitable, Callable
from typing import Any

from podberth.testing.demo import devices, words
from podberth.testing.demo.cast import DEVICES, DISK, REPORT_CPU, TRAINER_IMAGE
from podberth.testing.demo.gang import gang
from podberth.testing.demo.governed import governed
from podberth.testing.demo.objects import GATE, GPU, HOSTNAME, ZONE, Object, affinity, near, pod
from podberth.testing.demo.pending import free_by_asking_less, free_by_uncordoning
from podberth.testing.demo.play import PATIENCE, Play


async def opening(play: Play) -> None:
    """Show the nodes and what is on them."""
    mirror, setting = play.mirror, play.setting
    nodes = sorted(mirror.nodes.values(), key=lambda node: node.name)
    for node in nodes:
        play.node_card(node)
    foreign = [pod for pod in mirror.pods.values() if pod.node_name in mirror.nodes]
    puts: dict[str, str | None] = {}
    for found in sorted(foreign, key=lambda pod: pod.key):
        play.card(found)
        puts[play.label(found)] = play.short(found.node_name)
    zones = sorted({node.labels.get(ZONE, "") for node in nodes} - {""})
    where = f" in zones {', '.join(zones)}" if len(zones) > 1 else ""
    await play.act(
        "A cluster that is already in use",
        f"{len(nodes)} nodes{where}. {len(foreign)} pods run here already, placed by another scheduler. "
        "Berth counts the room they take and leaves them alone.",
    )
    total = sum(node.allocatable.get("cpu", 0) for node in nodes)
    used = sum(mirror.used(node.name) for node in nodes)
    lines = [f"{words.cores(used)} of {words.cores(total)} cores are asked for."]
    tainted = [play.short(node.name) for node in nodes if node.taints]
    cordoned = [play.short(node.name) for node in nodes if node.unschedulable]
    if tainted:
        lines.append(f"{_listed(tainted)} {_be(tainted)} tainted: only for pods that tolerate it.")
    if cordoned:
        lines.append(f"{_listed(cordoned)} {_be(cordoned)} cordoned: closed for maintenance.")
    title = f"Berth watches for pods that name “{setting.scheduler}” as their scheduler"
    await play.show("scene", title, lines, puts=puts, beats=2.0)


async def database(play: Play) -> None:
    """Replicas that must not share a zone."""
    zones = {node.labels[ZONE] for node in play.mirror.nodes.values() if ZONE in node.labels}
    hosts = {node.labels[HOSTNAME] for node in play.mirror.nodes.values() if HOSTNAME in node.labels}
    key, places = (ZONE, zones) if len(zones) > 1 else (HOSTNAME, hosts)
    word = "zone" if key == ZONE else "node"
    if len(places) < 2:
        await _skipped(play, "A database that must spread", "this needs nodes in two zones, or two nodes")
        return
    count = min(3, len(places))
    await play.act(
        "A database that must spread",
        f"{count} replicas, and no two may share a {word} (required anti-affinity): so one {word} may burn.",
    )
    apart = affinity(without=[near("db", key)])
    await play.place(*(_pod(play, f"db-{i}", 2000, 4096, affinity=apart) for i in range(count)))


async def web(play: Play) -> None:
    """A web tier near its cache, but not in one heap."""
    if any(HOSTNAME not in node.labels for node in play.mirror.nodes.values()):
        await _skipped(play, "A web tier that wants its cache near", f"this needs the label {HOSTNAME} on each node")
        return
    zoned = play.setting.own_nodes
    where = "must be in a zone with a cache, would like" if zoned else "would like"
    await play.act(
        "A web tier that wants its cache near",
        f"Two caches on different nodes. Each web pod {where} a cache on its own node, and prefers nodes without "
        "other web pods: three wishes at once.",
    )
    apart = affinity(without=[near("cache", HOSTNAME)])
    await play.place(*(_pod(play, f"cache-{i}", 1000, 4096, affinity=apart) for i in range(2)))
    wishes = affinity(
        with_apps=[near("cache", ZONE)] if zoned else [],
        rather_with=[(100, near("cache", HOSTNAME))],
        rather_without=[(40, near("web", HOSTNAME))],
    )
    await play.place(*(_pod(play, f"web-{i}", 500, 512, affinity=wishes) for i in range(5)))


async def batch(play: Play) -> None:
    """Another profile of the same scheduler packs."""
    await play.act(
        "Batch jobs that pack in",
        f"The same scheduler has a second profile, “{play.setting.packer}”, that prefers the fullest node with room "
        "(MostAllocated): so big holes stay free for big pods.",
    )
    jobs = [_pod(play, f"batch-{i}", 1000, 2048, packed=True) for i in range(6)]
    await play.place(*jobs, together=True)


async def training(play: Play) -> None:
    """Claiming a device, tolerating a taint, and an image that is there already."""
    title, setting = "A GPU job that claims its device", play.setting
    if not setting.own_nodes:
        await _skipped(play, title, "this would take somebody's real GPU")
        return
    if not play.has_devices:
        await _skipped(play, title, "it serves no devices (resource.k8s.io/v1)")
        return
    await play.act(
        title,
        "Two machines publish their GPUs in ResourceSlices. The job claims one with 40Gi or more, and tolerates the "
        "taint. Both machines have one that is free; one of them has its 6 GB image too.",
    )
    name, least = "train-0", "40Gi"
    await play.create_claim(devices.claim(setting, f"{name}-gpu", devices.larger_than(least)))
    lines = [f"1 of class {devices.class_name(setting)}, selected by {devices.larger_than(least)}"]
    await play.show("change", f"{name} has a ResourceClaim, {name}-gpu", lines)
    tolerations = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    await play.place(_pod(play, name, 4000, 16384, claim=f"{name}-gpu", image=TRAINER_IMAGE, tolerations=tolerations))
    (device,) = await devices.given(play.client, setting, f"{name}-gpu")
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
    await play.create(_pod(play, name, 500, 512, schedulingGates=[{"name": GATE}]))
    key = f"{play.setting.namespace}/{name}"
    await play.mirror.until(lambda: _gated(play, key), f"pod {name} to be reported as gated", PATIENCE)
    tries = sum(verdict.pod == key for verdict in play.witness.verdicts)
    lines = [f"Its condition is PodScheduled=False, reason SchedulingGated; decisions on it so far: {tries}."]
    await play.show("gated", f"{name} waits at its gate", lines, pod=name, puts={name: ""}, beats=1.5)
    await play.patch_pod(name, {"spec": {"schedulingGates": None}})
    await play.show("change", f"The gate of {name} is lifted", ["PATCH spec.schedulingGates: none left."], pod=name)
    await play.show_outcome(name)


async def misfit(play: Play) -> None:
    """A pod that fits nowhere, why, what would free it, and that it does."""
    if play.setting.own_nodes:
        await play.act(
            "One pod that does not fit",
            "A report asks for 6 cores and a node with an SSD. From kube-scheduler you would get only the next line.",
        )
        report = _pod(play, "report-0", REPORT_CPU, 12288, nodeSelector={DISK: "ssd"})
        await free_by_uncordoning(play, report)
    else:
        await play.act(
            "One pod that does not fit",
            "It asks for more than any node has free. From kube-scheduler you would get only the next line.",
        )
        await free_by_asking_less(play, lambda cpu: pod("report-0", play.setting.scheduler, cpu=cpu, memory=32))


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


def _pod(play: Play, name: str, cpu: int, memory: int, *, packed: bool = False, **spec: Any) -> Object:
    setting = play.setting
    scheduler = setting.packer if packed else setting.scheduler
    return pod(name, scheduler, cpu=max(cpu // setting.scale, 1), memory=max(memory // setting.scale, 1), **spec)


def _gated(play: Play, key: str) -> bool:
    found = play.mirror.pods.get(key)
    return found is not None and found.condition is not None and found.condition[1] == "SchedulingGated"


async def _skipped(play: Play, title: str, reason: str) -> None:
    await play.act(title, f"Left out on this cluster: {reason}.")


def _be(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _listed(names: list[str]) -> str:
    if len(names) > 6:
        return f"{', '.join(names[:5])} and {len(names) - 5} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
