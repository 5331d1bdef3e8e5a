"""What keeps a pod's claims from being used at all, and what would help.

For pods that PreFilter of a volume plugin rejected. These plugins share it: whichever comes first in the profile
rejects the pod, and all that is wrong with its claims is told at once.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from itertools import islice, product
from typing import NamedTuple

from podberth.cache.storage import Storage
from podberth.framework.changes import HOSTNAME, Change, Fix, FreeClaim
from podberth.framework.explaining import Detail, Explainer, Inquiry
from podberth.framework.status import Reason
from podberth.framework.storage_changes import CreateClaim, CreateClass, RecreateClaim, ReplaceVolume
from podberth.model.migration import REGION, ZONE, ZONE_DELIMITER
from podberth.model.pod import Pod
from podberth.model.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolumeClaim,
    StorageClass,
)
from podberth.model.volumes import ClaimVolume

_CLASSES = 2
"""Other classes that are offered."""
_FIXES = 4
_CLAIMS = 8
_HOLDERS = 2
"""Pods that are offered to be deleted for one claim, at most."""


class Fault(NamedTuple):
    """What is wrong with a claim, and what would help; each of `fixes` is an alternative."""

    claim: str
    text: str
    fixes: Sequence[Fix]


class ClaimsExplainer(Explainer):
    """Says what is wrong with the claims of a pod that PreFilter of a volume plugin has rejected for them."""

    def explain_pod(self, inquiry: Inquiry, reason: Reason) -> Detail:
        """Every claim of the pod that can't be used, with what is wrong with it."""
        faults = _faults(inquiry)
        text = "; ".join(fault.text for fault in faults)
        return text, {"claims": [{"claim": fault.claim, "problem": fault.text} for fault in faults]}

    def fixes_of_pod(self, inquiry: Inquiry, reason: Reason) -> list[Fix]:
        """Return what would help all of them together."""
        faults = _faults(inquiry)
        if not faults or len(faults) == _CLAIMS:
            return []
        plans = islice(product(*(fault.fixes for fault in faults)), _FIXES)
        return [tuple(dict.fromkeys(change for fix in plan for change in fix)) for plan in plans]


def usable_classes(storage: Storage) -> list[StorageClass]:
    """Classes that make volumes where the pod is to run; the default class first."""
    found = [c for c in storage.classes.values() if c.binding_mode == WAIT_FOR_FIRST_CONSUMER and c.provisions]
    return sorted(found, key=lambda c: (not c.default, c.name))


def class_for_new_volume(storage: Storage, wanted: str) -> str | None:
    """The class with which to make a claim again: the one that is wanted if it is usable, else the first that is."""
    usable = [c.name for c in usable_classes(storage)]
    return wanted if wanted in usable else next(iter(usable), None)


def where_volumes_are(inquiry: Inquiry) -> dict[str, str]:
    """The labels that a node needs to reach the volumes that the pod has, as far as one can give them to a new node."""
    storage, pod = inquiry.cluster.storage, inquiry.pod
    found: dict[str, str] = {}
    for used in pod.shape.volumes.claims:
        claim = storage.claims.stored((pod.namespace, used.claim(pod.name)))
        volume = storage.volumes.stored(claim.volume_name) if claim is not None and claim.volume_name else None
        if volume is None:
            continue
        for key in (ZONE, REGION):
            if key in volume.labels:
                found[key] = volume.labels[key].split(ZONE_DELIMITER)[0]
        affinity = volume.affinity
        for requirement in affinity.terms[0].labels if affinity is not None and affinity.terms else ():
            if requirement.operator == "In" and requirement.values and requirement.key != HOSTNAME:
                found[requirement.key] = min(requirement.values)
    return found


def users_of(inquiry: Inquiry, claim: str) -> list[tuple[Pod, str]]:
    """The placed pods that use a claim of the pod's namespace, and their nodes."""

    def find() -> dict[str, list[tuple[Pod, str]]]:
        found: dict[str, list[tuple[Pod, str]]] = {}
        names = inquiry.cluster.nodes.names
        for placement in inquiry.cluster.placements():
            pod = placement.pod
            if pod.namespace == inquiry.pod.namespace:
                for used in pod.shape.volumes.claims:
                    found.setdefault(used.claim(pod.name), []).append((pod, names[placement.row] or ""))
        return found

    users = inquiry.once("users of claims", find).get(claim, [])
    return sorted(users, key=lambda user: (user[0].priority, user[0].key))


def _faults(inquiry: Inquiry) -> list[Fault]:
    def find() -> list[Fault]:
        found = []
        for used in inquiry.pod.shape.volumes.claims:
            fault = _fault(inquiry, used)
            if fault is not None:
                found.append(fault)
            if len(found) == _CLAIMS:
                break
        return found

    return inquiry.once("faults of claims", find)


def _fault(inquiry: Inquiry, used: ClaimVolume) -> Fault | None:
    pod, storage = inquiry.pod, inquiry.cluster.storage
    name = used.claim(pod.name)
    claim = storage.claims.stored((pod.namespace, name))
    if claim is None:
        return _missing(inquiry, used, name)
    said = f"the claim {name} of this pod"
    if claim.terminating:
        return _leaving(inquiry, claim, said)
    if used.ephemeral and claim.owner != pod.uid:
        return Fault(name, f"{said} was made for another pod: delete it, and another one is made", ())
    gone = claim.volume_name and storage.volumes.stored(claim.volume_name) is None
    if claim.lost or gone:
        text = f"{said} is bound to the volume {claim.volume_name}, which does not exist"
        of_class = class_for_new_volume(storage, claim.storage_class)
        again = [] if of_class is None else [(ReplaceVolume(pod.namespace, name, of_class, claim.volume_name),)]
        return Fault(name, text, again)
    return None if claim.volume_name else _unbound(storage, claim, said)


def _missing(inquiry: Inquiry, used: ClaimVolume, name: str) -> Fault:
    pod, storage = inquiry.pod, inquiry.cluster.storage
    if used.ephemeral:
        text = f"the claim {name} of this pod is not made yet: the ephemeral volume controller makes it"
        return Fault(name, text, ())
    near = get_close_matches(name, _names(inquiry), n=1)
    text = f"the claim {name} of this pod does not exist{f'; did you mean {near[0]}?' if near else ''}"
    made = [(CreateClaim(pod.namespace, name, c.name),) for c in usable_classes(storage)[:_CLASSES]]
    return Fault(name, text, made)


def _names(inquiry: Inquiry) -> list[str]:
    return inquiry.once(
        "names of claims",
        lambda: [c.name for c in inquiry.cluster.storage.claims if c.namespace == inquiry.pod.namespace],
    )


def _leaving(inquiry: Inquiry, claim: PersistentVolumeClaim, said: str) -> Fault:
    users = users_of(inquiry, claim.name)
    held = f", and is held by {', '.join(pod.key for pod, _ in users[:3])} until then" if users else ""
    text = f"{said} is being deleted{held}"
    of_class = class_for_new_volume(inquiry.cluster.storage, claim.storage_class)
    if of_class is None or len(users) > _HOLDERS:
        return Fault(claim.name, text, ())
    free = tuple(FreeClaim(pod.key, node, claim.name) for pod, node in users)
    again: Change
    if claim.volume_name:
        again = ReplaceVolume(claim.namespace, claim.name, of_class, claim.volume_name)
    else:
        again = RecreateClaim(claim.namespace, claim.name, of_class, claim.storage_class)
    return Fault(claim.name, text, [(*free, again)])


def _unbound(storage: Storage, claim: PersistentVolumeClaim, said: str) -> Fault | None:
    of = storage.classes.get(claim.storage_class)
    others = [c.name for c in usable_classes(storage) if c.name != claim.storage_class][:_CLASSES]
    again: list[Fix] = [(RecreateClaim(claim.namespace, claim.name, c, claim.storage_class),) for c in others]
    if not claim.storage_class:
        return Fault(claim.name, f"{said} has no volume and names no storage class", again)
    if of is None:
        near = get_close_matches(claim.storage_class, storage.classes, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        others = sorted(others, key=lambda c: c not in near)
        again = [(RecreateClaim(claim.namespace, claim.name, c, claim.storage_class),) for c in others]
        provisioners = (c.provisioner for c in usable_classes(storage))
        create: list[Fix] = [(CreateClass(claim.storage_class, p),) for p in sorted(set(provisioners))[:1]]
        text = f"{said} names the storage class {claim.storage_class}, which does not exist{meant}"
        return Fault(claim.name, text, [*again[:1], *create, *again[1:]])
    if of.binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return None
    if of.provisions:
        text = (
            f"{said} has no volume yet: {of.provisioner} has to make it before the pod is scheduled (class {of.name})"
        )
    else:
        text = (
            f"{said} has no volume yet, and nobody makes one: a volume of the class {of.name} must be bound to it first"
        )
    return Fault(claim.name, text, again)
