"""What may happen in a storm, each by name: what users do, what breaks, and for how long.

A run is a list of these with their times, made by `plan` from a seed. Each takes its chances from a generator named
after itself, so that a run with some of them left out is the same in all else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

from tests.storm.actors import DISK, MERGE, Size, Wanted
from tests.storm.asked import OURS, Asked, Effect, strange_body

if TYPE_CHECKING:
    from tests.storm.world import World


@dataclass(frozen=True)
class Happening:
    """One thing that happens at a time."""

    at: float
    kind: str
    args: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        return f"{self.at:6.1f} s  {self.kind} {' '.join(f'{name}={value}' for name, value in self.args)}".rstrip()


def at(moment: float, kind: str, **args: Any) -> Happening:
    """This happens at that time."""
    return Happening(round(moment, 3), kind, tuple(args.items()))


OPEN_EYED = frozenset(
    {
        "want",
        "ungate",
        "cordon",
        "relabel",
        "policy",
        "delete-node",
        "shrink-node",
        "delete-pods",
        "delete-namespace",
        "reload",
        "compare",
        "wall-clock",
        "lease-gone",
        "half-way",
        "slow-kubelets",
    }
)
"""What happens without keeping anybody's news from getting through."""
AWAY = frozenset(("restart", "freeze", "restore"))
"""What keeps the API server from answering anybody."""
WATCHES_ONLY = frozenset(("watch-lines", "mute", "error-event", "compact", "deny"))
"""What keeps news from getting through, and no request from being answered."""
Act = Callable[..., None]
ACTS: dict[str, Act] = {}


def act(function: Act) -> Act:
    """This may happen."""
    ACTS[function.__name__.replace("_", "-")] = function
    return function


def begin(world: World, happening: Happening) -> None:
    """Have it happen now."""
    world.note(f"happens: {happening.kind}")
    rng = Random(f"{world.seed}/{happening}")
    ACTS[happening.kind](world, rng, **dict(happening.args))


# -- what users do ---------------------------------------------------------------------------------------------------


@act
def want(world: World, rng: Random, **given: Any) -> None:
    """A workload is made, or changed."""
    world.controllers.want(Wanted(**given))


@act
def ungate(world: World, rng: Random) -> None:
    """The gates are taken off."""
    world.controllers.ungate()


@act
def cordon(world: World, rng: Random, node: str, seconds: float) -> None:
    """A node takes no pods for a while."""
    path = f"/api/v1/nodes/{node}"
    world.server.call("user", "PATCH", path, {"spec": {"unschedulable": True}}, MERGE)

    def uncordon() -> None:
        code, _ = world.server.call("user", "PATCH", path, {"spec": {"unschedulable": None}}, MERGE)
        if code == 0:
            world.after(2.0, uncordon)

    world.after(seconds, uncordon)


@act
def delete_node(world: World, rng: Random, node: str, seconds: float, part: float) -> None:
    """A node is deleted, and comes back under its name, with a part of its room."""
    size = world.nodes.sizes[node]
    world.nodes.leave(node)

    def join() -> None:
        if not world.server.up:
            world.after(2.0, join)
            return
        world.nodes.join(node, Size(int(size.cpu * part), size.pods, size.zone))

    world.after(seconds, join)


@act
def shrink_node(world: World, rng: Random, node: str, seconds: float, part: float) -> None:
    """A node has less room for a while."""
    size = world.nodes.sizes[node]
    world.nodes.resize(node, Size(int(size.cpu * part), max(1, int(size.pods * part)), size.zone))
    world.after(seconds, lambda: world.nodes.resize(node, size))


@act
def delete_pods(world: World, rng: Random, count: int) -> None:
    """Some pods are deleted; their controllers make others of the same names."""
    pods = world.server.objects("pods")
    for pod in rng.sample(pods, min(count, len(pods))):
        meta = pod["metadata"]
        world.server.call("user", "DELETE", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}")


@act
def delete_namespace(world: World, rng: Random, namespace: str, seconds: float) -> None:
    """A namespace goes with all that is in it, and is made again."""
    world.server.call("user", "DELETE", f"/api/v1/namespaces/{namespace}")

    def again() -> None:
        code, _ = world.server.call("user", "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        if code == 0:
            world.after(2.0, again)
        else:
            world.controllers.look_again()

    world.after(seconds, again)


@act
def slow_kubelets(world: World, rng: Random, takes: float, seconds: float) -> None:
    """For a while pods take so much longer to start, as where their images are pulled first."""
    world.nodes.slow = takes

    def recover() -> None:
        world.nodes.slow = 0.0

    world.after(seconds, recover)


@act
def relabel(world: World, rng: Random, node: str, disk: str, seconds: float) -> None:
    """A node gets another label, and its own one again."""
    path = f"/api/v1/nodes/{node}"
    own = world.nodes.disks[node]
    world.server.call("user", "PATCH", path, {"metadata": {"labels": {DISK: disk}}}, MERGE)

    def back() -> None:
        code, _ = world.server.call("user", "PATCH", path, {"metadata": {"labels": {DISK: own}}}, MERGE)
        if code == 0:
            world.after(2.0, back)

    if seconds:
        world.after(seconds, back)


@act
def policy(world: World, rng: Random, namespace: str, name: str, rule: str, app: str, seconds: float) -> None:
    """A policy is written or changed, and deleted after some seconds (0: it stays)."""
    policies = world.policies
    assert policies is not None
    policies.write(namespace, name, rule, app)
    if seconds:
        world.after(seconds, lambda: policies.delete(namespace, name))


# -- what happens to replicas of Berth ---------------------------------------------------------------------------------


@act
def pause(world: World, rng: Random, who: str, seconds: float) -> None:
    """SIGSTOP, and SIGCONT."""
    world.process(who).stop_turning(seconds)


@act
def kill(world: World, rng: Random, who: str, seconds: float) -> None:
    """kill -9."""
    world.process(who).kill(seconds)


@act
def power_off(world: World, rng: Random, who: str, seconds: float) -> None:
    """The machine goes, and nobody closes its connections."""
    world.process(who).kill(seconds, told=False)


@act
def terminate(world: World, rng: Random, who: str) -> None:
    """SIGTERM."""
    world.process(who).terminate()


@act
def reload(world: World, rng: Random, who: str) -> None:
    """The configuration changes, SIGHUP."""
    world.berth(who).reload()


@act
def compare(world: World, rng: Random, who: str) -> None:
    """SIGUSR2: the cache is compared, under load."""
    berth = world.berth(who)
    if berth.alive and berth.comparer is not None:
        berth.loop.call_soon(berth.comparer.soon)


@act
def wall_clock(world: World, rng: Random, who: str, jump: float) -> None:
    """The wall clock of one replica jumps."""
    world.process(who).wall_error += jump


# -- what happens to the network ---------------------------------------------------------------------------------------


@act
def cut_off(world: World, rng: Random, who: str, seconds: float) -> None:
    """Nothing gets to a replica or from it, and nobody is told."""
    world.network.cut(who)
    world.after(seconds, lambda: world.network.heal(who))


@act
def silence(world: World, rng: Random, who: str, seconds: float, part: float) -> None:
    """A part of its connections carries nothing any more; new ones work."""
    wires = [wire for wire in world.network.of(who) if rng.random() < part]
    for wire in wires:
        wire.silence()

    def heal() -> None:
        for wire in wires:
            wire.heal()

    world.after(seconds, heal)


@act
def reset(world: World, rng: Random, who: str, part: float) -> None:
    """A part of its connections is reset."""
    for wire in world.network.of(who):
        if rng.random() < part:
            wire.reset()


@act
def cut_mid_line(world: World, rng: Random, who: str, part: float) -> None:
    """What the server sends next stops half way."""
    for wire in world.network.of(who):
        if rng.random() < part:
            wire.cut_next = True


@act
def slow_network(world: World, rng: Random, who: str, most: float, seconds: float) -> None:
    """Bytes take longer, each connection's by itself: what is sent first may come last."""
    world.network.slow[who] = most
    world.after(seconds, lambda: world.network.slow.pop(who, None) and None)


# -- what happens to the API server ------------------------------------------------------------------------------------


@act
def restart(world: World, rng: Random, seconds: float) -> None:
    """The API server ends, and comes back."""
    if world.server.up:
        world.server.stop()
        world.after(seconds, world.start_server)


@act
def freeze(world: World, rng: Random, seconds: float) -> None:
    """The API server stops (its etcd does), and goes on."""
    loop = world.server.loop
    if not loop.stopped:
        loop.stop_turning()
        world.after(seconds, loop.go_on)


@act
def restore(world: World, rng: Random, back: float, seconds: float) -> None:
    """It comes back as it was some time ago."""
    if world.server.up and world.server.restore(back) is not None:
        world.after(seconds, world.start_server)


@act
def compact(world: World, rng: Random) -> None:
    """The history is forgotten: who asks for more gets 410."""
    world.server.store.compact()


@act
def deny(world: World, rng: Random, plural: str, seconds: float) -> None:
    """RBAC refuses one kind."""
    world.server.denied.add(plural)
    for watch in world.server.watches():
        if watch.kind == plural:
            watch.finish()
    world.after(seconds, lambda: world.server.denied.discard(plural))


@act
def requests(world: World, rng: Random, what: str, chance: float, seconds: float, **effect: Any) -> None:
    """Some requests go wrong for a while; `what` is the beginning of `create pods/binding`, or empty."""
    wrong = Effect(**effect)

    def meddle(asked: Asked) -> Effect | None:
        if asked.user.startswith(OURS) and asked.what.startswith(what) and rng.random() < chance:
            world.hit(effect)
            if wrong.strange and not (wrong.page and rng.random() < 0.5):
                if asked.what.startswith("list "):
                    world.judge.watches.misled(asked.user)
                return replace(wrong, body=strange_body(asked, rng))
            return wrong
        return None

    world.server.trouble.requests.append(meddle)
    world.after(seconds, lambda: world.server.trouble.requests.remove(meddle))


@act
def watch_lines(world: World, rng: Random, plural: str, how: str, chance: float, seconds: float) -> None:
    """Events of a watch are lost, come twice or once more later, or are no events."""

    earlier: dict[str, bytes] = {}

    def meddle(kind: str, line: bytes) -> list[bytes] | None:
        if plural not in ("", kind) or rng.random() >= chance:
            return None
        bookmark = line.startswith(b'{"type":"BOOKMARK"')
        if how == "bookmarks-lost":
            return [] if bookmark else None
        if bookmark:
            return None
        world.hit({"lines": how})
        if how == "lost":
            world.lost_at[kind] = world.now
            return []
        if how == "twice":
            return [line, line]
        if how == "older":
            before, earlier[kind] = earlier.get(kind, line), line
            return [line, before]
        return [b'{"type":"NEWS","object":{}}\n', line]

    world.server.trouble.lines.append(meddle)
    world.after(seconds, lambda: world.server.trouble.lines.remove(meddle))


@act
def error_event(world: World, rng: Random, code: int, part: float) -> None:
    """A part of the watches ends with an ERROR event."""
    for watch in world.server.watches():
        if rng.random() < part:
            watch.fail(world.status_error(code))


@act
def mute(world: World, rng: Random, plural: str, part: float) -> None:
    """A part of the watches stays open and says nothing any more."""
    for watch in world.server.watches():
        if plural in ("", watch.kind) and rng.random() < part:
            watch.stuck_at = watch.stuck_at if watch.stuck_at is not None else world.now


@act
def lease_gone(world: World, rng: Random) -> None:
    """Somebody deletes the Lease."""
    world.server.call("user", "DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth")
