"""Kinds that decide about a pod and of which a dump holds no object: nobody knows if the cluster has any.

`kubectl get` writes only the kinds that it was asked for, so "the dump has none" never means "there is none".
"""

from collections.abc import Iterable, Iterator

from podberth.explain import claim_templates
from podberth.explain.explanation import GATED, UNSCHEDULABLE, Explanation
from podberth.explain.world import World
from podberth.model.pod import Pod
from podberth.model.pod_group import NATIVE

LIMITS = "CSINode"
"""Says how many volumes a node can attach: without it no node is full, and all else is decided rightly."""


def unheld(pod: Pod, world: World) -> list[str]:
    """Return these kinds; none for a live cluster, whose lists are complete."""
    return [kind for kind in dict.fromkeys(_deciding(pod, world)) if world.dump and not world.holds(kind)]


def lack(kinds: Iterable[str]) -> str:
    """Return what is to be said of them."""
    return "this dump holds no " + " or ".join(", ".join(kinds).rsplit(", ", 1))


def undecided(answer: Explanation) -> str:
    """Return why it is not known what keeps a pod; nothing where it fits, or where the dump holds what decides."""
    kinds = [kind for kind in answer.unheld if kind != LIMITS]
    return lack(kinds) if kinds and answer.outcome in (GATED, UNSCHEDULABLE) else ""


def note(pods: Iterable[Pod], world: World) -> Iterator[str]:
    """Yield a line about all kinds that these pods lack, if any."""
    kinds = dict.fromkeys(kind for pod in pods for kind in unheld(pod, world))
    if kinds:
        yield f"{lack(kinds)}, and the cluster may have some: berth dump writes all that counts"


def _deciding(pod: Pod, world: World) -> Iterator[str]:
    cluster = world.cluster
    if pod.scheduling_group is not None and pod.scheduling_group.api == NATIVE:
        yield "PodGroup"
    made = dict(pod.made_claims)
    for one in pod.shape.claims:
        name = one.claim or made.get(one.name)
        if name is None and pod.key in world.waiting:
            continue  # its status says that no claim has been made yet
        of_pod = None if name is None else cluster.devices.claims.get((pod.namespace, name))
        if of_pod is None and (pod.namespace, one.template or "") not in world.claim_templates:
            yield "ResourceClaim" if name is not None else claim_templates.KIND
        if of_pod is None or of_pod.allocation is None:
            yield from ("DeviceClass", "ResourceSlice")
    for used in pod.shape.volumes.claims:
        yield from ("PersistentVolumeClaim", LIMITS)
        claim = cluster.storage.claims.stored((pod.namespace, used.claim(pod.name)))
        if claim is not None:
            yield "PersistentVolume" if claim.volume_name else "StorageClass"
