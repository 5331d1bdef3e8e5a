"""Recompute the indexes of `podberth.cache.storage` and `podberth.cache.attachments` from the objects, the slow way.

Part of `podberth.cache.validate`.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from podberth.cache.attachments import NOT_INSTALLED, UNLIMITED, of_translated
from podberth.cache.cluster import Cluster
from podberth.model.pod import Pod


def validate_storage(cluster: Cluster) -> Iterator[str]:
    """One line for each thing that differs from what the objects say."""
    yield from _users(cluster)
    yield from _classes(cluster)
    yield from _csi_nodes(cluster)
    yield from _attached(cluster)


def _differ(what: str, has: Any, should: Any) -> Iterator[str]:
    if has != should:
        yield f"storage: {what} is {has}, should be {should}"


def _users(cluster: Cluster) -> Iterator[str]:
    storage = cluster.storage
    references: Counter[tuple[str, str]] = Counter()
    disks: Counter[tuple[tuple[str, ...], int, bool]] = Counter()
    for placement in cluster.placements():
        pod = placement.pod
        references.update((pod.namespace, used.name) for used in pod.shape.volumes.claims if not used.ephemeral)
        disks.update((disk.key, placement.row, disk.exclusive) for disk in pod.shape.volumes.disks)
    yield from _differ("references to claims", dict(storage.references), dict(references))
    has = {
        (key, row, exclusive): count
        for key, rows in storage._disks.items()
        for row, users in rows.items()
        for exclusive, count in ((True, users.exclusive), (False, users.shared))
        if count
    }
    yield from _differ("users of disks", has, dict(disks))
    yield from _differ("suppositions outside a dry run", dict(storage._supposed), {})


def _classes(cluster: Cluster) -> Iterator[str]:
    storage = cluster.storage
    by_class: dict[str, set[str]] = {}
    for volume in storage.volumes:
        by_class.setdefault(volume.storage_class, set()).add(volume.name)
    yield from _differ("volumes by class", {name: set(found) for name, found in storage._by_class.items()}, by_class)
    for name, capacities in storage._capacities.items():
        for key, capacity in capacities.items():
            yield from _differ(f"class of capacity {key}", capacity.storage_class, name)
            yield from _differ(f"indexed class of capacity {key}", storage._class_of_capacity.get(key), name)
    for name, volume in storage.volumes.assumed.items():
        yield from _version(f"volume {name}", volume.resource_version, storage.volumes.stored(name))
    for key, claim in storage.claims.assumed.items():
        yield from _version(f"claim {key}", claim.resource_version, storage.claims.stored(key))


def _version(what: str, assumed: str, stored: Any) -> Iterator[str]:
    yield from _differ(f"version of assumed {what}", assumed, None if stored is None else stored.resource_version)


def _csi_nodes(cluster: Cluster) -> Iterator[str]:
    storage = cluster.storage
    attached = storage.attached
    drivers = {driver for csi_node in storage.csi_nodes.values() for driver in csi_node.drivers}
    plugins = {plugin for csi_node in storage.csi_nodes.values() for plugin in csi_node.migrated}
    for row, node in cluster.nodes.live():
        csi_node = storage.csi_nodes.get(node.name)
        yield from _differ(f"CSINode of {node.name}", bool(attached.with_csi_node()[row]), csi_node is not None)
        for driver in {*drivers, *attached._limits}:
            limit: int | None = NOT_INSTALLED
            if csi_node is not None and driver in csi_node.drivers:
                limit = csi_node.drivers[driver]
            should = UNLIMITED if limit is None else limit
            yield from _differ(f"limit of {driver} on {node.name}", int(attached.limits(driver)[row]), should)
        for plugin in {*plugins, *attached._migrated}:
            migrated = csi_node is not None and plugin in csi_node.migrated
            yield from _differ(f"migration of {plugin} on {node.name}", bool(attached.migrated(plugin)[row]), migrated)


def _attached(cluster: Cluster) -> Iterator[str]:
    attached = cluster.storage.attached
    holders: dict[str, set[int]] = {}
    known = set(attached._counts)
    for row, node in cluster.nodes.live():
        volumes: dict[str, str] = {}
        for pod in cluster.pods_on(row):
            volumes.update(_of_pod(cluster, pod, with_csi_node=node.name in cluster.storage.csi_nodes))
        for volume in volumes:
            holders.setdefault(volume, set()).add(row)
        drivers = Counter(volumes.values())
        others = {}
        for attachment in cluster.storage.attachments.values():
            found = cluster.storage.volumes.stored(attachment.volume)
            if attachment.node == node.name and attachment.attacher and found is not None and found.driver:
                others[f"{attachment.attacher}/{found.handle}"] = attachment.attacher
        drivers.update(driver for volume, driver in others.items() if volume not in volumes)
        for driver in {*known, *drivers}:
            count = int(attached.counts(driver)[row])
            yield from _differ(f"volumes of {driver} on {node.name}", count, drivers[driver])
    for volume in {*holders, *attached._holders}:
        yield from _differ(f"rows that hold {volume!r}", attached.holders(volume), holders.get(volume, set()))


def _of_pod(cluster: Cluster, pod: Pod, *, with_csi_node: bool) -> dict[str, str]:
    found: dict[str, str] = {}
    for used in pod.shape.volumes.claims:
        claim = cluster.storage.claims.stored((pod.namespace, used.claim(pod.name)))
        if claim is None or (used.ephemeral and claim.owner != pod.uid):
            continue
        counted = cluster.storage.attached.of_claim(claim, with_csi_node=with_csi_node)
        if counted is not None:
            found[counted[0]] = counted[1]
    for _, disk in pod.shape.volumes.translated if with_csi_node else ():
        inline = of_translated(disk)
        if inline is not None:
            found[inline[0]] = inline[1]
    return found
