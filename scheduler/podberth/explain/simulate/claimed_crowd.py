"""Places the equals of a pod, one after the other, as the engine would and without it.

Pods for which nothing has to be bound but themselves are the business of `Simulation.repeat`. The others have claims of
their own. Where no pod takes what one on another node would have got, each node takes so many of them
(`claimed_room`), and totals alone say which node is next (`podberth.explain.simulate.crowd`). Else each is decided, but
nothing is queued, written and bound for it. What each of them claims is made, and given to it on its node, so that
whoever comes later finds the cluster as it would be.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from podberth.explain.objects.resource_claims import KIND, held, made
from podberth.explain.simulate.arrivals import Batch
from podberth.explain.simulate.crowd import Ahead, Ranking, ahead
from podberth.explain.simulate.room import claimed_room, without_claims
from podberth.explain.simulate.simulation import Simulation
from podberth.framework.runtime import Framework
from podberth.framework.status import PluginError
from podberth.model.devices import ResourceClaim
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod
from podberth.plugins.dynamic_resources.claims import device_resources
from podberth.plugins.dynamic_resources.plugin import DynamicResources

_BY_CLAIMS = ("VolumeBinding", "DynamicResources")
"""The plugins that reserve and prepare claims, and may score by them."""


def place_rest(
    simulation: Simulation,
    framework: Framework,
    batch: Batch,
    placed: Pod,
    end: int,
    singly: int,
    *,
    claims_alike: bool,
) -> int:
    """Place pods of a batch up to a number, after `placed` was just now; none where the engine has to decide.

    `singly`: so many may be decided one by one. `claims_alike`: they may be placed by what the claims of `placed` tell,
    none of which was there before. Returns how many were decided one by one. Raises PluginError.
    """
    if batch.equal and placed.uid in simulation.bound and simulation.plain(placed, framework):
        before = simulation.singly
        batch.made += simulation.repeat(batch.equals(end), framework, singly)
        return simulation.singly - before
    if claims_alike:
        return place_crowd(simulation, framework, batch, end, singly, prepare=placed.uid in simulation.preparing)
    return 0


def place_crowd(
    simulation: Simulation, framework: Framework, batch: Batch, end: int, singly: int, *, prepare: bool
) -> int:
    """Place pods with claims of their own, as `place_rest` does. `prepare`: they will wait for their volumes, as the
    one before does.
    """
    first = batch.made
    if first >= end or not batch.alike(first):
        return 0
    claims = batch.objects(first)
    simulation.put_all(claims)
    ahead = _ahead(batch.pod(first), simulation, framework, batch)
    if ahead is not None:
        for row in list(_rows(ahead, simulation, batch, end)):
            simulation.put_all(batch.objects(batch.made))
            _place(batch.pod(batch.made), row, simulation, framework, batch, prepare=prepare)
        return 0
    _withdraw(claims, simulation)
    if not prepare and _is_decided_by_claims(batch.pod(first), simulation, framework):
        _decide(simulation, framework, batch, min(end, first + singly))
    return batch.made - first


def _rows(ahead: Ahead, simulation: Simulation, batch: Batch, end: int) -> Iterator[int]:
    """Place the next pods, and yield the row of each, until one fits nowhere or finds a claim that was there before."""
    ranking, first = Ranking(ahead), batch.made
    for number in range(first, end):
        best = ranking.best()
        if not best or (number > first and not batch.alike(number)):
            return
        yield ranking.take(simulation.engine.choice.pick(f"new/{batch.key(number)}", best))


def _is_decided_by_claims(pod: Pod, simulation: Simulation, framework: Framework) -> bool:
    """Return whether only devices, all claimed by the pod's own claims, have to be reserved and written."""
    devices = simulation.cluster.devices
    return (
        simulation.plain(pod, framework, besides=("DynamicResources",))
        and all(one.template is not None for one in pod.shape.claims)
        and not any(device.binding_conditions for each in devices.slices.values() for device in each.devices)
    )


def _decide(simulation: Simulation, framework: Framework, batch: Batch, end: int) -> None:
    """Decide the pods one by one, until one fits nowhere, finds a claim that was there before, or a plugin fails."""
    while batch.made < end and batch.alike(batch.made):
        claims = batch.objects(batch.made)
        simulation.put_all(claims)
        pod = batch.pod(batch.made)
        try:
            decision = framework.decide_quickly(pod, simulation.cluster)
        except PluginError:
            return  # the engine says so of the pod when it comes to it
        if not len(decision.feasible):
            _withdraw(claims, simulation)
            return
        _place(pod, simulation.engine.choice.row(decision), simulation, framework, batch, prepare=False)


def _withdraw(made: Iterable[Modelled], simulation: Simulation) -> None:
    """Take away the claims of a pod that is not placed: it is still one of which none was there before."""
    for claim in made:
        if isinstance(claim, ResourceClaim):
            simulation.gone(KIND, *claim.key, claim.uid)


def _place(pod: Pod, row: int, simulation: Simulation, framework: Framework, batch: Batch, *, prepare: bool) -> None:
    _give(pod, row, simulation, framework)
    simulation.place(pod, simulation.cluster.nodes.names[row] or "", prepares=prepare)
    batch.made += 1


def _ahead(pod: Pod, simulation: Simulation, framework: Framework, batch: Batch) -> Ahead | None:
    """Return the levels for pods whose claims only limit how many of them a node takes."""
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
        return ahead(replace(pod, shape=bare), cluster, framework, room.counts)
    except PluginError:
        return None  # the engine says so of the pod when it comes to it


def _shares_volumes(pod: Pod, batch: Batch) -> bool:
    """Return whether the pods use claims for volumes that are not made for each of them."""
    own = batch.volume_claims(batch.made)
    return any((pod.namespace, used.claim(pod.name)) not in own for used in pod.shape.volumes.claims)


def _give(pod: Pod, row: int, simulation: Simulation, framework: Framework) -> None:
    """Give the pod's claims the devices that they get on a node; a claim for extended resources is made."""
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
