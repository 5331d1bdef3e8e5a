"""What VolumeBinding says of a node that it rejects: which claim, which volume, and what would help."""

from collections.abc import Iterator, Sequence
from functools import partial

from podberth.cache.storage import Storage
from podberth.explain.plugins.node_affinity import missed_requirements
from podberth.explain.plugins.volume_claims import ClaimsExplainer, class_for_new_volume, usable_classes
from podberth.framework.changes import Fix
from podberth.framework.explaining import Detail, Inquiry, domain
from podberth.framework.status import Reason
from podberth.framework.storage_changes import ForgetClaim, ForgetNode, RecreateClaim, ReplaceVolume, ShrinkClaim
from podberth.model.quantity import show, units
from podberth.model.selectors import NodeSelector, Requirement
from podberth.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from podberth.plugins.volume_binding.matching import Found, allowed_nodes, free_for, may_serve, reached_by
from podberth.plugins.volume_binding.plugin import VolumeBinding

_MEBI = 1 << 20
_OTHERS = 2


class VolumeBindingExplainer(ClaimsExplainer):
    """Says of a node that VolumeBinding rejects: which claim, which volume, and what would help."""

    plugin: VolumeBinding

    def explain(self, inquiry: Inquiry, row: int, reason: Reason) -> Detail:
        """Return which claim, which volume, and what keeps the two or the node apart."""
        found = self.plugin.find(inquiry.pod, inquiry.cluster)
        match reason:
            case self.plugin.unreachable:
                return _say_unreachable(inquiry, row, found)
            case self.plugin.unmatched:
                return _say_unmatched(inquiry, row, found)
            case self.plugin.full:
                return _say_full(inquiry, row, found)
        return _say_lost(inquiry, found)

    def fixes(self, inquiry: Inquiry, row: int, reasons: Sequence[Reason]) -> list[Fix]:
        """Other classes, smaller claims, or new claims: what suits this one reason."""
        if len(reasons) != 1:
            return []
        found = self.plugin.find(inquiry.pod, inquiry.cluster)
        match reasons[0]:
            case self.plugin.unreachable:
                return _replacing(inquiry, row, found)
            case self.plugin.unmatched:
                return _matching(inquiry, row, found)
            case self.plugin.full:
                return _shrinking(inquiry, row, found)
        return _restoring(inquiry, found)


def _say_unreachable(inquiry: Inquiry, row: int, found: Found) -> Detail:
    """The bound volumes that the node does not reach, and which nodes do."""
    node = inquiry.node(row)
    parts, data = [], []
    for claim, volume in _unreached(inquiry, row, found):
        text, numbers = missed_requirements(
            node, (), _affinity(volume), f"claim {claim.name} has the volume {volume.name}: "
        )
        parts.append(text)
        data.append({"claim": claim.name, "volume": volume.name, **numbers})
    return "; ".join(parts), {"claims": data}


def _replacing(inquiry: Inquiry, row: int, found: Found) -> list[Fix]:
    """Give up the volumes that the node does not reach."""
    storage = inquiry.cluster.storage
    plan = []
    for claim, volume in _unreached(inquiry, row, found):
        of_class = class_for_new_volume(storage, claim.storage_class)
        if of_class is None:
            return []
        plan.append(ReplaceVolume(claim.namespace, claim.name, of_class, volume.name))
    return [tuple(plan)] if plan else []


def _say_lost(inquiry: Inquiry, found: Found) -> Detail:
    """The bound claims whose volume is gone."""
    gone = [c for c in found.claims.bound if inquiry.cluster.storage.volumes.get(c.volume_name) is None]
    text = "; ".join(f"claim {c.name} is bound to the volume {c.volume_name}, which does not exist" for c in gone)
    return text, {"claims": [{"claim": c.name, "volume": c.volume_name} for c in gone]}


def _restoring(inquiry: Inquiry, found: Found) -> list[Fix]:
    """Make the claims whose volume is gone anew."""
    storage = inquiry.cluster.storage
    gone = [c for c in found.claims.bound if storage.volumes.get(c.volume_name) is None]
    plan = [
        ReplaceVolume(claim.namespace, claim.name, of_class, claim.volume_name)
        for claim in gone
        if (of_class := class_for_new_volume(storage, claim.storage_class)) is not None
    ]
    return [tuple(plan)] if plan and len(plan) == len(gone) else []


def _say_unmatched(inquiry: Inquiry, row: int, found: Found) -> Detail:
    """The claims for which there is no volume here and none is made, and why."""
    parts, data = [], []
    for claim in _unmatched(inquiry, row, found):
        parts.append(f"claim {claim.name}: {_why_unmatched(inquiry, row, claim)}")
        data.append({"claim": claim.name, "storageClass": claim.storage_class, "selectedNode": claim.selected_node})
    return "; ".join(parts), {"claims": data}


def _matching(inquiry: Inquiry, row: int, found: Found) -> list[Fix]:
    """Other classes that make volumes here, or no more word of another node."""
    storage = inquiry.cluster.storage
    plans: list[list[Fix]] = []
    for claim in _unmatched(inquiry, row, found):
        chosen = claim.selected_node
        if chosen is not None and chosen != inquiry.node(row).name:
            plans.append([(ForgetNode(claim.namespace, claim.name, chosen),)])
            continue
        others = [c.name for c in usable_classes(storage) if c.name != claim.storage_class][:_OTHERS]
        again: list[Fix] = [(RecreateClaim(claim.namespace, claim.name, c, claim.storage_class),) for c in others]
        plans.append([*_released(inquiry, row, claim), *again])
    return [tuple(change for fix in plan for change in fix) for plan in zip(*plans, strict=False)]


def _released(inquiry: Inquiry, row: int, claim: PersistentVolumeClaim) -> Iterator[Fix]:
    """Volumes that would serve the claim here if theirs, which is gone, were forgotten."""
    number = 0
    for volume in inquiry.cluster.storage.volumes_of_class(claim.storage_class):
        change = ForgetClaim(volume.name)
        if volume.released and not volume.is_for(claim) and not volume.terminating and number < _OTHERS:
            free = change.made(inquiry.cluster.storage)
            reached = inquiry.once(("reached", volume.name), partial(reached_by, volume, inquiry.cluster))
            serves = isinstance(free, PersistentVolume) and may_serve(free, claim) and free_for(free, claim)
            if serves and (reached is None or reached[row]):
                number += 1
                yield (change,)


def _say_full(inquiry: Inquiry, row: int, found: Found) -> Detail:
    """Return how much room a driver has published for the node, against what the claims ask for."""
    parts, data = [], []
    needed = free = 0
    for claim, room in _full(inquiry, row, found):
        asked, most = claim.size, room
        text = f"at most {show('memory', most)}" if most else "none"
        parts.append(
            f"claim {claim.name} asks for {show('memory', asked)}: of the storage class {claim.storage_class} "
            f"there is {text} here"
        )
        data.append({"claim": claim.name, "asked": asked, "room": most})
        if asked - most > needed - free:
            needed, free = asked, most
    return "; ".join(parts), {"claims": data, "needed": needed, "free": free}


def _shrinking(inquiry: Inquiry, row: int, found: Found) -> list[Fix]:
    """Ask for as much as there is."""
    plan = []
    for claim, room in _full(inquiry, row, found):
        size = room - room % _MEBI
        if size < claim.size // 10 or not size:
            return []
        plan.append(ShrinkClaim(claim.namespace, claim.name, size, claim.size))
    return [tuple(plan)] if plan else []


def _unreached(inquiry: Inquiry, row: int, found: Found) -> Iterator[tuple[PersistentVolumeClaim, PersistentVolume]]:
    for claim in found.claims.bound:
        volume = inquiry.cluster.storage.volumes.get(claim.volume_name)
        if volume is None:
            continue
        reached = inquiry.once(("reached", volume.name), partial(reached_by, volume, inquiry.cluster))
        if reached is not None and not reached[row]:
            yield claim, volume


def _affinity(volume: PersistentVolume) -> NodeSelector | None:
    return volume.affinity if volume.affinity is not None else volume.translated_affinity


def _unmatched(inquiry: Inquiry, row: int, found: Found) -> Iterator[PersistentVolumeClaim]:
    storage = inquiry.cluster.storage
    chosen = {choice.claim.key for choice in found.choices if choice.on(row) is not None}
    for claim in found.claims.waiting:
        wanted = storage.classes.get(claim.storage_class)
        elsewhere = claim.selected_node not in (None, inquiry.node(row).name)
        if claim.key in chosen or wanted is None:
            continue
        allowed = inquiry.once(("allowed", wanted.name), partial(allowed_nodes, wanted, inquiry.cluster.nodes))
        if elsewhere or not allowed[row]:
            yield claim


def _why_unmatched(inquiry: Inquiry, row: int, claim: PersistentVolumeClaim) -> str:
    storage = inquiry.cluster.storage
    if claim.selected_node not in (None, inquiry.node(row).name):
        return f"its volume is to be made for the node {claim.selected_node}"
    wanted = storage.classes[claim.storage_class]
    if wanted.provisions:
        return f"the storage class {wanted.name} makes volumes only in {_where(wanted)}"
    return (
        f"no volume of the storage class {wanted.name} reaches the node ({_volumes(storage, claim)}), and it makes none"
    )


def _where(wanted: StorageClass) -> str:
    terms = [" and ".join(_domains(requirement) for requirement in term) for term in wanted.topologies or () if term]
    return " or ".join(terms) or "no place at all"


def _domains(requirement: Requirement) -> str:
    return " or ".join(domain(requirement.key, value) for value in sorted(requirement.values))


def _volumes(storage: Storage, claim: PersistentVolumeClaim) -> str:
    """Return how many volumes of the claim's class there are, and what keeps them from serving it."""
    of_class = storage.volumes_of_class(claim.storage_class)
    if not of_class:
        return "there is none"
    released = [volume.name for volume in of_class if volume.released and not volume.is_for(claim)]
    taken = sum(one.claim is not None and not one.is_for(claim) and not one.released for one in of_class)
    small = sum(volume.claim is None and volume.capacity < (claim.requested or 0) for volume in of_class)
    fit = sum(may_serve(volume, claim) and (volume.is_for(claim) or free_for(volume, claim)) for volume in of_class)
    reserved = [one for one in of_class if one.claim is None and one.capacity >= (claim.requested or 0)]
    away = sum(not one.released and (not one.available or one.terminating) for one in reserved)
    counts = [
        (taken, "taken"),
        (len(released), f"Released: {released[0]} can be used again without its spec.claimRef" if released else ""),
        (small, f"smaller than {show('memory', units(claim.requested or 0))}"),
        (fit, "elsewhere"),
        (away, "not Available"),
    ]
    rest = len(of_class) - len(released) - taken - small - fit - away
    return f"{len(of_class)} in all: " + ", ".join(
        f"{number} {what}" for number, what in (*counts, (rest, "of other modes or labels")) if number > 0
    )


def _full(inquiry: Inquiry, row: int, found: Found) -> Iterator[tuple[PersistentVolumeClaim, int]]:
    """Claims for which a driver has not enough room here, and how much it has for a volume."""
    cluster = inquiry.cluster
    for provision in found.provisions:
        claim, storage = provision.claim, cluster.storage
        wanted = storage.classes.get(claim.storage_class)
        driver = None if wanted is None else storage.drivers.get(wanted.provisioner)
        if not provision.rows[row] or wanted is None or driver is None or not driver.storage_capacity:
            continue
        labels = inquiry.node(row).labels
        room = [
            capacity.limit or 0
            for capacity in storage.capacities(wanted.name)
            if capacity.topology is not None and capacity.topology.matches(labels)
        ]
        most = max(room, default=0)
        if most < claim.size:
            yield claim, most
