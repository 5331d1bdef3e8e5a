"""Equal pods with claims of their own, placed one after the other without a decision for each.

Where no pod takes what one on another node would have got, each node takes so many of them (`claimed_room`), and
totals alone say which node is next (`scheduler.whatif.ranking`). What each of them claims is made, and given to it on
its node, so that whoever comes later finds the cluster as it would be.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from scheduler.framework.ahead import Ahead
from scheduler.framework.runtime import Framework
from scheduler.framework.status import PluginError
from scheduler.model.pod import Pod
from scheduler.plugins.dynamic_resources.claims import device_resources
from scheduler.plugins.dynamic_resources.plugin import DynamicResources
from scheduler.whatif.arrivals import Batch
from scheduler.whatif.claimed_room import claimed_room, without_claims
from scheduler.whatif.claims import held, made
from scheduler.whatif.ranking import Ranking
from scheduler.whatif.simulation import Simulation

_BY_CLAIMS = ("VolumeBinding", "DynamicResources")
"""What reserves and prepares claims, and may score by them."""


def place_crowd(simulation: Simulation, framework: Framework, batch: Batch, *, prepare: bool) -> None:
    """Place the next pods of a batch, one of which was placed just now; none where each has to be decided.

    `prepare`: that one waits for its volumes, and so will they. Raises PluginError.
    """
    names = simulation.cluster.nodes.names
    for row in list(_rows(simulation, framework, batch)):
        simulation.put_all(batch.objects(batch.made))
        pod = batch.pod(batch.made)
        _give(pod, row, simulation, framework)
        simulation.place(pod, names[row] or "", prepares=prepare)
        batch.made += 1


def _rows(simulation: Simulation, framework: Framework, batch: Batch) -> Iterator[int]:
    """Where the next pods go, until one fits nowhere, or finds a claim that was there before."""
    first = batch.made
    if first == batch.count or not batch.alike(first):
        return
    simulation.put_all(batch.objects(first))
    found = _ahead(batch.pod(first), simulation, framework, batch)
    if found is None:
        return
    ranking = Ranking(found)
    for number in range(first, batch.count):
        best = ranking.best()
        if not best or (number > first and not batch.alike(number)):
            return
        yield ranking.take(simulation.engine.choice.pick(f"new/{batch.key(number)}", best))


def _ahead(pod: Pod, simulation: Simulation, framework: Framework, batch: Batch) -> Ahead | None:
    """What the pods find, where claims only say how many of them a node takes."""
    cluster = simulation.cluster
    if not simulation.plain(pod, framework, besides=_BY_CLAIMS) or _shares_volumes(pod, batch):
        return None
    try:
        room = claimed_room(pod, framework, cluster, batch.volume_claims(batch.made))
        if room is None:
            return None
        scores = framework.decide(pod, cluster, score_always=True).scores
        resources = device_resources(pod, cluster.devices)
        if any(each.raw.any() for each in scores if each.plugin in _BY_CLAIMS) or (
            resources and cluster.devices.scored
        ):
            return None
        bare = without_claims(pod.shape)
        bare.requests = {name: amount for name, amount in bare.requests.items() if name not in resources}
        return framework.ahead(replace(pod, shape=bare), cluster, room.counts)
    except PluginError:
        return None  # the engine says so of the pod when it comes to it


def _shares_volumes(pod: Pod, batch: Batch) -> bool:
    """Whether the pods use claims for volumes that are not made for each of them."""
    own = batch.volume_claims(batch.made)
    return any((pod.namespace, used.claim(pod.name)) not in own for used in pod.shape.volumes.claims)


def _give(pod: Pod, row: int, simulation: Simulation, framework: Framework) -> None:
    """Have the pod's claims hold the devices that they get on a node; one for extended resources is made."""
    plugin, devices = framework.plugin("DynamicResources"), simulation.cluster.devices
    if not (pod.shape.claims or pod.shape.containers) or not isinstance(plugin, DynamicResources):
        return
    reservation = plugin.reserve(pod, simulation.cluster, row)
    for one in reservation.claims if reservation is not None else ():
        if one.extended is not None:
            devices.restore(one.uid)  # it was reserved under a name of its own until there is a claim
        if one.allocation is not None:
            claim = devices.claims[one.key] if one.extended is None else made(one.key, one.extended.spec, pod)
            simulation.put(held(claim, one.allocation, pod))
