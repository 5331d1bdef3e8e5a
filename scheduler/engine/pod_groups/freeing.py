"""Claims that keep a group that did not fit from nodes, and that nobody else uses: they are freed.

Mirrors kube-scheduler `plugins/dynamicresources` (PodGroupPostFilter): what PostFilter does, for each pod of the group.
"""

from collections.abc import Iterable

from scheduler.engine.instructions import PostFilterWrite
from scheduler.framework.runtime import Framework
from scheduler.model.devices import ClaimKey
from scheduler.model.pod import Pod
from scheduler.plugins.dynamic_resources.plugin import DynamicResources
from scheduler.plugins.dynamic_resources.reservation import freed
from scheduler.state.cluster import Cluster


def freed_for(pods: Iterable[Pod], framework: Framework, cluster: Cluster) -> list[PostFilterWrite]:
    """What to write for these pods of the group, all of which have given back what they held. One claim for each."""
    plugins = framework.profile.plugins("post_filter")
    plugin = next((one for one in plugins if isinstance(one, DynamicResources)), None)
    found: list[PostFilterWrite] = []
    if plugin is None or not cluster.devices.claims:
        return found
    done: set[ClaimKey] = set()
    first: Pod | None = None
    for pod in pods:
        claim = plugin.to_free(pod, cluster) if pod.shape.claims else None
        if claim is not None and claim.key not in done:
            done.add(claim.key)
            found.append(PostFilterWrite(pod, (freed(claim),)))
        first = pod if first is None and pod.shape.claims else first
    out = None if found or first is None else plugin.to_unreserve(first, cluster)
    if out is not None and first is not None:
        found.append(PostFilterWrite(first, (out,)))
    return found
