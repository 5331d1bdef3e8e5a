"""Why a pod is unschedulable, in one line: the cause that a person would name first."""

from collections import Counter
from collections.abc import Iterator, Sequence

from podberth.explain.asking import Asking
from podberth.explain.plugins.volume_claims import where_volumes_are
from podberth.explain.stuck import KEPT_FOR, Stuck
from podberth.framework.decision import Decision
from podberth.framework.explaining import domain
from podberth.model.migration import REGION, ZONE

_REASONS = 3
_HELD = "VolumeRestrictions"
"""What it says of a claim that somebody holds is in the way on every node."""
_BY_VOLUME = ("VolumeZone", "VolumeBinding")


def cause(asking: Asking, decision: Decision, stuck: Sequence[Stuck], meant: Sequence[str]) -> str | None:
    """The line; None where there are no nodes. `meant`: labels that are perhaps misspelt."""
    if decision.verdict is not None:
        return asking.detail_of_pod(*decision.verdict)[0]
    if not stuck:
        return None
    by_volumes = next(_where_the_volumes_are(asking, stuck), None)
    if by_volumes is not None:
        return by_volumes
    if meant:
        return meant[0]
    said = {"; ".join(obstacle.detail for obstacle in each.obstacles if obstacle.first) for each in stuck}
    if len(said) == 1:
        return said.pop()
    held = set.intersection(*({o.detail for o in each.obstacles if o.plugin == _HELD} for each in stuck)) - {""}
    return "; ".join(sorted(held)) or _reasons(stuck)


def goes_after(stuck: Sequence[Stuck]) -> str:
    """Say that the pod waits for others, if some node would take it that is kept for them; else empty."""
    nodes = [each for each in stuck if all(KEPT_FOR in o.numbers for o in each.obstacles if o.first)]
    pods = list(dict.fromkeys(key for each in nodes for o in each.obstacles for key in o.numbers.get(KEPT_FOR, ())))
    if not pods:
        return ""
    some = ", ".join(pods[:_REASONS]) + (" and others" if len(pods) > _REASONS else "")
    where = f"{nodes[0].node} is" if len(nodes) == 1 else f"{len(nodes):,} nodes are"
    return f"it waits for {some}" + (f", for which {where} kept" if len(stuck) > 1 else "")


def _where_the_volumes_are(asking: Asking, stuck: Sequence[Stuck]) -> Iterator[str]:
    """Yield which claims keep the pod off which nodes, and what is wrong with the others."""
    elsewhere = [each for each in stuck if any(o.plugin in _BY_VOLUME for o in each.obstacles)]
    places = where_volumes_are(asking.inquiry)
    if not elsewhere or not places:
        return
    storage, pod = asking.inquiry.cluster.storage, asking.inquiry.pod
    names = []
    for used in pod.shape.volumes.claims:
        claim = storage.claims.stored((pod.namespace, used.claim(pod.name)))
        if claim is not None and claim.volume_name:
            names.append(claim.name)
    zones = {key: value for key, value in places.items() if key in (ZONE, REGION)}
    where = " and ".join(domain(key, value) for key, value in (zones or places).items())
    which = f"claim {names[0]} of this pod is bound to a volume" if len(names) == 1 else "its claims have volumes"
    there = [each for each in stuck if each not in elsewhere]
    if not there:
        yield f"{which} in {where}, and no node is there"
        return
    nodes = "the one node there does not fit" if len(there) == 1 else f"none of the {len(there):,} nodes there fits"
    yield f"{which} in {where}, and {nodes}: {_reasons(there)}"


def _reasons(stuck: Sequence[Stuck]) -> str:
    """The most frequent reasons."""
    counts = Counter(obstacle.reason.text for each in stuck for obstacle in each.obstacles if obstacle.first)
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    said = ", ".join(text if len(stuck) == 1 else f"{number:,} {text}" for text, number in common[:_REASONS])
    return f"{said} and more" if len(common) > _REASONS else said
