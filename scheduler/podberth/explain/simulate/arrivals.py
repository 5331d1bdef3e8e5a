"""Pods that come to a cluster, as many as their workloads want, less those that are there already.

The pods of a workload are equal but for their names, and for the claims that are made for each: of volumes by a
StatefulSet, of devices from templates. They are made when their turn comes, so a billion of them take no more room
than those that find a node.

Pods that are there are matched by their owner, or by the labels that an operator sets. A Deployment whose pods of
before ask for something else is rolled out: all pods of its new revision come, beside those of the old one. So does one
whose pods select by their own pod-template-hash, if their ReplicaSet is not in the dump. Where pods are replaced in
their places (StatefulSets, DaemonSets, kinds of operators), a roll-out is not simulated, and that is said.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import chain
from typing import Any

from msgspec.structs import replace

from podberth.explain.judging.schema import shown
from podberth.explain.objects import manifest, resource_claims
from podberth.explain.objects.admission import RefusedError, lets
from podberth.explain.objects.controllers import Owner, Workload, number_in, of_daemon
from podberth.explain.objects.documents import ObjectError, located
from podberth.explain.objects.world import World
from podberth.explain.report.wording import count
from podberth.framework.runtime import Framework
from podberth.model.devices import ResourceClaim
from podberth.model.kinds import Modelled
from podberth.model.pod import Pod
from podberth.model.taints import untolerated

_MOST, _MOST_UNEQUAL = 50_000, 20_000
"""The largest numbers of pods of one workload that are decided: of equal ones, and of those with claims of their own,
which take some ten times as long.
"""

Object = Mapping[str, Any]


# --- pods that come ---------------------------------------------------------------------------------------------------


class Batch:
    """The pods of one workload, made one by one. `made`: the number of pods made so far."""

    def __init__(
        self, workload: Workload, world: World, namespace: str | None, usual: str, profile: str | None = None
    ) -> None:
        """`profile`: the scheduler of the pods, whatever they name. Raises ObjectError."""
        self.notes: list[str] = []
        self.made = 0
        self.waits_as: str | None = None
        """UID of the pod that waits for all that were not made, as they are its equals."""
        self.preempted = 0
        """The number of pods that were removed for its pods."""
        self.stopped = False
        """True if the rest of its pods is not tried."""
        self._world = world
        self.workload = workload
        """The template of its pods, and how many are wanted."""
        asked = workload.pod
        own = (asked.get("metadata") or {}).get("namespace")
        if namespace and own and own != namespace:
            raise ObjectError(
                f"{workload.name}: metadata.namespace: {shown(own)}: expected {namespace}, as --namespace says"
            )
        if profile is not None:
            asked = {**asked, "spec": {**asked["spec"], "schedulerName": profile}}
        self._asked, self._namespace, self._usual = asked, namespace, usual
        self.whole = self._created(self._asked, 0, self.notes)
        """The first of its pods as the API server would store it."""
        self._varying = frozenset(workload.numbered(0, "") if workload.numbered else ())
        """Keys of labels that each of its pods has its own value of."""
        world.selected |= _named_in(self.whole["spec"])
        self._claims = {str((each.get("metadata") or {}).get("name", "")): each for each in workload.claims}
        self._ephemeral = _ephemeral(self.whole)
        self._templated = list(resource_claims.templated(self.whole["spec"]))
        self._nodes: list[str] = []
        self.first = self._decoded(0)
        """Its first pod; of a DaemonSet, without a node."""
        self.count = workload.wanted or 0
        first = self.first
        self._uid = f"new/{first.namespace}/"
        self.owner = f"{workload.written or workload.kind} {first.namespace}/{workload.name}"
        if node := asked["spec"].get("nodeName"):
            self.notes.append(
                f"{first.namespace}/{workload.name}: spec.nodeName {node} was left out: a pod that has one is not "
                "scheduled; that node's kubelet takes it or refuses it"
            )
        if workload.note:
            self.notes.append(f"{self.owner}: {workload.note}")

    def relabelled(self, labels: Mapping[str, str]) -> "Batch":
        """Return the batch as it would be with these labels from its controller on all pods. Raises ObjectError."""
        workload = self.workload._replace(labels=labels, numbered=None, pod=self._asked)
        return Batch(workload, self._world, self._namespace, self._usual)

    def find_nodes(self) -> int:
        """Look where a DaemonSet runs, as nodes may have been added since it was read; return how many of its nodes
        have its pod already.
        """
        if not self.workload.daemon:
            return 0
        namespace, workload = self.first.namespace, self.workload._replace(kind="DaemonSet")
        pods = (pod for pod in _unfinished(self._world) if pod.namespace == namespace and _is_its(pod, workload))
        there = set(chain.from_iterable(map(_nodes_of_daemon, pods)))
        nodes = _daemon_nodes({**workload.made(self._asked, 0), "metadata": self.whole["metadata"]}, self._world)
        self._nodes = [node for node in nodes if node not in there]
        self.count = len(self._nodes)
        having = len(nodes) - self.count
        if having:
            self.notes.append(
                f"DaemonSet {namespace}/{workload.name}: {having:,} of {len(nodes):,} nodes have its pod already"
            )
        return having

    @property
    def nodes(self) -> Sequence[str]:
        """Return the nodes that a DaemonSet's pods are for, one each, once `find_nodes` was asked."""
        return self._nodes

    @property
    def most(self) -> int:
        """Return the largest number of its pods that are decided."""
        return _MOST if self.equal else _MOST_UNEQUAL

    def stop(self, why: str) -> None:
        """Say that the rest of its pods is not tried."""
        self.stopped = True
        self.notes.append(f"{self.owner}: {why}; the other {self.count - self.made:,} were not tried")

    @property
    def _varies(self) -> bool:
        """Return whether a label that differs from pod to pod matters, as a selector uses it."""
        if not self._varying or not self._varying.isdisjoint(self._world.selected):
            return bool(self._varying)
        return self._selected_there

    @cached_property
    def _selected_there(self) -> bool:
        """Return whether any selector in the cluster uses such a label; it is looked up once."""
        return self._world.selects(self._varying)

    @property
    def equal(self) -> bool:
        """Return whether all pods share a shape, so that the answer for one holds for all."""
        own = self._claims or self._ephemeral or self._templated or self._varies
        return not self.workload.daemon and not own

    @property
    def claimed(self) -> Iterable[str]:
        """Return the names of the templates of which a StatefulSet makes claims for each pod."""
        return self._claims

    @property
    def claims(self) -> dict[str, str]:
        """Return the claims that templates make for each pod, in words."""
        namespace, known = self.whole["metadata"]["namespace"], self._world.claim_templates
        return {
            each.name: resource_claims.described(known[namespace, each.template])
            for each in self._templated
            if (namespace, each.template) in known
        }

    def holds(self, key: str) -> bool:
        """Return whether one of its pods has this namespace/name."""
        if self.workload.alone:
            return self.count > 0 and key == self.key(0)
        stem, _, text = key.rpartition("-")
        number = number_in(text)
        if number is None or str(number) != text or stem != _stem(self.key(0)):
            return False
        return 0 <= number - self.workload.start < self.count

    def key(self, number: int) -> str:
        """Return namespace/name of a pod."""
        return f"{self.first.namespace}/{self._named(number)}"

    def pod(self, number: int) -> Pod:
        """Return one of its pods as it waits to be scheduled. Raises ObjectError."""
        if self.equal:
            name = self._named(number)
            return replace(self.first, name=name, uid=f"{self._uid}{name}")
        return self._decoded(number)

    def equals(self, end: int) -> Iterator[Pod]:
        """Yield the pods that are still to come, up to a number, of a workload whose pods are equal."""
        first, prefix, uid = self.first, self.workload.prefix, self._uid
        for number in range(self.workload.start + self.made, self.workload.start + end):
            name = f"{prefix}{number}"
            yield replace(first, name=name, uid=f"{uid}{name}")

    def uids(self) -> Iterator[str]:
        """Return the UIDs of the pods that were made."""
        start, uid = self.workload.start, self._uid
        if self.workload.alone:
            return iter([f"{uid}{self.workload.name}"] if self.made else [])
        stem = f"{uid}{self.workload.prefix}"
        return (f"{stem}{number}" for number in range(start, start + self.made))

    def alike(self, number: int) -> bool:
        """Return whether a pod finds what its successors find: none of its claims existed before."""
        if self.workload.daemon:
            return False
        storage, devices = self._world.cluster.storage.claims, self._world.cluster.devices.claims
        namespace, pod = self.whole["metadata"]["namespace"], self._named(number)
        names = [resource_claims.claim_name(pod, each.name) for each in self._templated]
        return all(
            storage.get((namespace, name)) is None for namespace, name, _ in self._named_claims(number)
        ) and not any((namespace, name) in devices for name in names)

    def objects(self, number: int) -> list[Modelled]:
        """Return the claims that are made for a pod, but for those that are there; before the first pod, its
        ReplicaSet.
        """
        found: list[Modelled] = [] if number else self._replica_set()
        storage = self._world.cluster.storage
        for namespace, name, template in self._named_claims(number):
            if storage.claims.get((namespace, name)) is None:
                found += self._claim(namespace, name, template, number)
        return [*found, *self._device_claims(number)]

    def _replica_set(self) -> list[Modelled]:
        """Return the ReplicaSet of a Deployment: pods without spread constraints are spread by its selector."""
        by = self.workload.controller
        if by is None or by.selector is None:
            return []
        metadata = {"namespace": self.whole["metadata"]["namespace"], "name": by.name}
        made = {"apiVersion": by.api_version, "kind": by.kind, "metadata": metadata, "spec": {"selector": by.selector}}
        return [self._world.decode(made)]

    def _device_claims(self, number: int) -> Iterator[ResourceClaim]:
        """Yield the claims that templates make for a pod; if a template is not known, the pod waits for its claim."""
        namespace, pod = self.whole["metadata"]["namespace"], self._named(number)
        for each in self._templated:
            template = self._world.claim_templates.get((namespace, each.template))
            name = resource_claims.claim_name(pod, each.name)
            if template is None:
                self._note(
                    f"the ResourceClaimTemplate {namespace}/{each.template} is not known: claims are not made from it"
                )
            elif (namespace, name) not in self._world.cluster.devices.claims:
                made = resource_claims.claim(
                    template, each, owner=pod, namespace=namespace, uid=f"new/{namespace}/{pod}"
                )
                made["metadata"] |= {"uid": f"new/{namespace}/{name}", "resourceVersion": "1"}
                claim = self._world.decode(made)
                assert isinstance(claim, ResourceClaim)
                yield claim

    def _named(self, number: int) -> str:
        return self.workload.named(number)

    def _named_claims(self, number: int) -> Iterable[tuple[str, str, Object]]:
        namespace, name = self.whole["metadata"]["namespace"], self._named(number)
        for each, template in self._claims.items():
            yield namespace, f"{each}-{name}", template
        for each, template in self._ephemeral.items():
            yield namespace, f"{name}-{each}", template

    def _claim(self, namespace: str, name: str, template: Object, number: int) -> list[Modelled]:
        """Return a new claim, with its volume if the class makes volumes at once."""
        metadata: dict[str, Any] = {"name": name, "namespace": namespace}
        pod = self._named(number)
        if name.removeprefix(f"{pod}-") in self._ephemeral:
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": f"{self._uid}{pod}", "controller": True}
            metadata["ownerReferences"] = [owner]
        classes = self._world.cluster.storage.classes
        made, said = self._world.claimed({"metadata": metadata, "spec": template.get("spec")}, classes)
        if said:
            self._note(said)
        return made

    def _note(self, said: str) -> None:
        if said not in self.notes:
            self.notes.append(said)

    def _created(self, pod: Mapping[str, Any], number: int, notes: list[str]) -> dict[str, Any]:
        """Return a pod of this template as its controller makes it and the API server stores it. Raises ObjectError."""
        return manifest.completed(
            self.workload.made(pod, number), self._namespace, self._usual, self._world.admission, notes
        )

    def stored(self, number: int) -> dict[str, Any]:
        """Return one of its pods as the API server would store it. Raises ObjectError."""
        return self._stored(number, own_labels=bool(self._varying))

    def _stored(self, number: int, *, own_labels: bool) -> dict[str, Any]:
        """Return a pod as stored. `own_labels`: with the labels whose values differ by pod; else it may have those of
        the first.
        """
        name = self._named(number)
        whole = self.whole
        if self._nodes:
            asked = {**self._asked, "spec": of_daemon(self._asked["spec"], self._nodes[number])}
            whole = self._created(asked, number, [])
        elif number and own_labels:
            whole = self._created(self._asked, number, [])
        metadata = {**whole["metadata"], "name": name}
        metadata["uid"] = f"new/{metadata['namespace']}/{name}"
        spec = whole["spec"]
        if self._claims:
            spec = {**spec, "volumes": _with_claims(spec.get("volumes") or [], self._claims, name)}
        whole = {**whole, "metadata": metadata, "spec": spec}
        if self._templated:
            known = self._world.claim_templates
            made = resource_claims.status(name, spec)
            there = {each.name for each in self._templated if (metadata["namespace"], each.template) in known}
            statuses = [each for each in made if each["name"] in there]
            whole["status"] = {**whole.get("status", {}), "resourceClaimStatuses": statuses}
        return whole

    def _decoded(self, number: int) -> Pod:
        """Return a pod as the API server would have it. Raises ObjectError."""
        done = self._world.decode(self._stored(number, own_labels=self._varies))
        assert isinstance(done, Pod)
        if done.shape.problem:
            raise ObjectError(f"Pod {done.key}: {done.shape.problem}")
        return replace(done, node_name="")


def batches(
    workloads: Iterable[Workload],
    world: World,
    framework: Framework,
    namespace: str | None,
    usual: str,
    refused: list[str] | None = None,
) -> list[Batch]:
    """Return the batches of a file's workloads; `refused`, if given, gets those whose pods the API server does not
    create.

    Raises ObjectError with a line for each that can't be read.
    """
    found, wrong = [], []
    for workload in workloads:
        try:
            found.append(Batch(workload, world, namespace, usual, framework.profile.name))
        except ObjectError as error:
            if isinstance(error, RefusedError) and (workload.wanted == 0 or workload.paused):
                continue  # nobody makes one
            if isinstance(error, RefusedError) and refused is not None:
                refused.append(located(workload.place, f"{workload.kind} {workload.name}: {error}"))
            else:
                wrong.append(located(workload.place, str(error)))
    if wrong:
        raise ObjectError("\n".join(wrong))
    return found


def quota_notes(batches: Iterable[Batch], world: World, number: int | None = None) -> list[str]:
    """Return notes on batches that ResourceQuotas let be created only in part, taken one after the other.

    `number`: how many of each; without it, as many as it has.
    """
    said = []
    known: dict[str, list[dict[str, Any]]] = {}
    for batch in batches:
        namespace = batch.whole["metadata"]["namespace"]
        if namespace not in known:
            known[namespace] = world.admission.quotas(namespace, chain(world.placed.values(), world.waiting.values()))
        wanted = batch.count if number is None else number
        verdict = lets(batch.whole, wanted, known[namespace]) if wanted else None
        if verdict is not None:
            some = f"only {verdict.allowed:,}" if verdict.allowed else "none"
            lets_so_many = f"ResourceQuota {verdict.quota} lets {some} of {wanted:,} be created"
            said.append(f"{batch.owner}: {lets_so_many}: {verdict.why}")
    return said


def refuse_twins(batches: Iterable[Batch], earlier: Iterable[Batch], world: World) -> None:
    """Raise ObjectError with a line for each pod of a name that another one has. `earlier`: batches of other files."""
    singles: dict[str, set[str]] = {}
    numbered: dict[str, Batch] = {}
    for key in (*world.placed, *world.waiting):
        singles.setdefault(_stem(key), set()).add(key)

    def add(batch: Batch) -> None:
        first = batch.key(0)
        if batch.workload.alone:
            singles.setdefault(_stem(first), set()).add(first)
        else:
            numbered[_stem(first)] = batch

    for batch in earlier:
        add(batch)
    wrong = []
    for batch in batches:
        twin = _twin(batch, singles, numbered) if batch.count else None
        if twin is not None:
            wrong.append(f"Pod {twin}: there is one of this name already")
        add(batch)
    if wrong:
        raise ObjectError("\n".join(wrong))


def _twin(batch: Batch, singles: Mapping[str, Set[str]], numbered: Mapping[str, Batch]) -> str | None:
    """Return an existing pod that corresponds to one of a batch. `singles`, `numbered`: by the stem of the names of
    pods.
    """
    first = batch.key(0)
    alike, other = singles.get(_stem(first), frozenset()), numbered.get(_stem(first))
    if batch.workload.alone:
        return first if first in alike or (other is not None and other.holds(first)) else None
    if other is not None and other.count and (other.holds(first) or batch.holds(other.key(0))):
        return first
    return min((key for key in alike if batch.holds(key)), default=None)


def _stem(key: str) -> str:
    """Return the part of a pod's name before its number."""
    return key.rpartition("-")[0]


def _ephemeral(pod: Object) -> dict[str, Object]:
    """Return volume → the template of its claim, of volumes that live as long as the pod."""
    found: dict[str, Object] = {}
    volumes = pod["spec"].get("volumes")
    for volume in volumes if isinstance(volumes, list) else ():
        source = volume.get("ephemeral") if isinstance(volume, dict) else None
        template = source.get("volumeClaimTemplate") if isinstance(source, dict) else None
        if isinstance(template, dict):
            found[str(volume.get("name"))] = template
    return found


def _with_claims(volumes: list[Any], claims: Mapping[str, Object], pod: str) -> list[Any]:
    """Return the volumes with those of the claims, which come before others of the same name."""
    others = [volume for volume in volumes if not isinstance(volume, dict) or volume.get("name") not in claims]
    own = [{"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{pod}"}} for name in claims]
    return [*own, *others]


def _daemon_nodes(pod: Object, world: World) -> list[str]:
    """Return the nodes on which a DaemonSet runs: its affinity allows them, and it tolerates their hard taints.

    Its template may say Gt and Lt in a cluster with the gate for it only, so these count.
    """
    asked = world.decode(pod)
    assert isinstance(asked, Pod)
    shape = asked.shape
    affinity = shape.required_node_affinity
    return [
        node.name
        for _, node in world.cluster.nodes.live()
        if all(requirement.accepts(node.labels.get(requirement.key)) for requirement in shape.node_selector)
        and (affinity is None or (affinity.terms and not any(affinity.missed(node.name, node.labels)[1:])))
        and untolerated(shape.tolerations, node.taints, comparing=True) is None
    ]


def _nodes_of_daemon(pod: Pod) -> Iterable[str]:
    """Return the node of a DaemonSet's pod: where it is, or where it is to go."""
    required = pod.shape.required_node_affinity
    return [pod.node_name] if pod.node_name else (required and required.names) or ()


def _named_in(spec: Object) -> set[str]:
    """Return keys of labels that a pod's affinity and spread constraints may name, and other texts in them."""
    found: set[str] = set()
    left: list[Any] = [spec.get("affinity"), spec.get("topologySpreadConstraints")]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            found.update(value)
            left += value.values()
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str):
            found.add(value)
    return found


# --- pods that are there already --------------------------------------------------------------------------------------

_HASHES = {"Deployment": "pod-template-hash", "Rollout": "rollouts-pod-template-hash"}
"""Kinds whose pods are owned by a ReplicaSet → the label that tells their revisions apart."""
_NUMBERS = {"StatefulSet": "apps.kubernetes.io/pod-index", "Job": "batch.kubernetes.io/job-completion-index"}
"""Kinds whose pods have numbers → the label that says which."""
_NEVER = ("Pod", "PodTemplate", "CronJob")
"""Kinds whose pods are never matched with existing ones: a run of a CronJob is new."""
_LASTING = ("ReplicaSet", "ReplicationController", "Job")
"""Kinds whose pods stay as they are when the template changes."""


def rolled_out(batch: Batch, world: World) -> str:
    """Say that pods of a workload are replaced in their places, which is not simulated; empty if none are."""
    kind = batch.workload.kind
    if kind in (*_NEVER, *_LASTING, *_HASHES):
        return ""
    there = list(_its(batch, _unfinished(world)))
    changed = len(there) - len(_as_it_makes_them(there, batch, world))
    if not changed:
        return ""
    asks = "asks" if changed == 1 else "ask"
    return (
        f"{batch.owner}: {changed:,} of its pods {asks} for something else than its file; a roll-out replaces "
        "them where they are, and whether the new ones fit is not tried"
    )


def still_to_come(batch: Batch, world: World) -> tuple[list[Workload], list[str]]:
    """Return the workloads for the pods of a batch that do not exist yet, and notes on the others."""
    workload = batch.workload
    # The nodes of a DaemonSet are looked at later.
    there = [] if workload.kind in (*_NEVER, "DaemonSet") else list(_its(batch, _unfinished(world)))
    notes = []
    if workload.kind in _HASHES and there:
        same = _as_it_makes_them(there, batch, world)
        if len(same) < len(there):
            others = count(len(there) - len(same), "pod")
            notes.append(
                f"{batch.owner}: {others} of another revision counted beside the new ones; "
                "a new one without a node may only have to wait until an old one has ended"
            )
        there = same
    if there and workload.labels:
        workload = _like(workload, there[0])
    wanted = workload.wanted or 0
    # What has succeeded does not run again; a file seldom says how many pods of a Job have.
    ended = (pod for pod in _its(batch, world.finished.values()) if pod.phase == "Succeeded")
    done = list(ended) if workload.kind == "Job" else []
    if workload.most is not None:
        wanted = min(wanted, max(0, workload.most - len(done)))
    if not there and not done:
        return [workload._replace(wanted=0) if workload.paused else workload], notes
    if len(there) > wanted:
        surplus = count(len(there) - wanted, "pod")
        notes.append(
            f"{batch.owner}: it has {len(there):,} pods and wants {wanted:,}; {surplus} too many, counted still"
        )
    elif there:
        notes.append(f"{batch.owner}: {len(there):,} of its {wanted:,} pods are there already")
    left, label = max(0, wanted - len(there)), _NUMBERS.get(workload.kind, "")
    if workload.numbered is None or not label:
        return [workload._replace(start=workload.start + len(there), wanted=left)], notes
    taken = {_number(pod, label) for pod in (*there, *done)}
    if workload.kind == "StatefulSet":  # it wants these numbers, where a Job wants so many pods at once
        left = wanted - sum(0 <= number - workload.start < wanted for number in taken)
    return _lowest(workload, left, taken), notes


def beyond(batch: Batch, world: World) -> int:
    """Return the number from which on a StatefulSet has neither pods nor claims.

    A pod whose claim is there goes where the claim's volume is, which says nothing of one more.
    """
    workload, namespace = batch.workload, batch.first.namespace
    if workload.kind != "StatefulSet":
        return workload.start
    pods = chain(world.placed.values(), world.waiting.values(), world.finished.values())
    names = [pod.name for pod in pods if pod.namespace == namespace]
    for claim in world.cluster.storage.claims:
        if claim.namespace == namespace:
            names += [claim.name.removeprefix(f"{own}-") for own in batch.claimed if claim.name.startswith(f"{own}-")]
    numbers = (number_in(name.removeprefix(workload.prefix)) for name in names if name.startswith(workload.prefix))
    return max([workload.start, *(number + 1 for number in numbers if number is not None)])


def _its(batch: Batch, pods: Iterable[Pod]) -> Iterator[Pod]:
    """Yield those of some pods that are a workload's, but for those that are being deleted."""
    namespace = batch.key(0).partition("/")[0]
    for pod in pods:
        if pod.namespace == namespace and not pod.terminating and _is_its(pod, batch.workload):
            yield pod


def _unfinished(world: World) -> Iterable[Pod]:
    return chain(world.placed.values(), world.waiting.values())


def _is_its(pod: Pod, workload: Workload) -> bool:
    if workload.own is not None:
        return workload.own(pod.labels)
    if pod.owner is None:
        return False
    kind, name, _ = pod.owner
    label = _HASHES.get(workload.kind)
    if label is None:
        return (kind, name) == (workload.kind.partition(".")[0], workload.owner)
    by_hash = f"{workload.owner}-{pod.labels[label]}" if label in pod.labels else ""
    return kind == "ReplicaSet" and (name == by_hash or name.rpartition("-")[0] == workload.owner)


def _as_it_makes_them(pods: Iterable[Pod], batch: Batch, world: World) -> list[Pod]:
    """Return the pods that ask for what a batch would, had its pods the same hashes and numbers.

    Of a revision whose ReplicaSet is not known, as a dump by hand may lack it, the hash is no longer that of the file.
    """
    numbered = batch.workload.numbered
    each_its_own = numbered(0, "") if numbered else {}
    firsts: dict[tuple[str, ...], Pod] = {}

    def first(pod: Pod, labels: Mapping[str, str]) -> Pod:
        own = {key: pod.labels.get(key, value) for key, value in labels.items()}
        key = tuple(own.values())
        if key not in firsts:
            firsts[key] = batch.relabelled(own).first
        return firsts[key]

    def known(pod: Pod) -> bool:
        if batch.workload.kind not in _HASHES:
            return True
        sets = world.cluster.selecting.get("ReplicaSet", {}).get(pod.namespace, {})
        return pod.owner is not None and pod.owner[1] in sets

    shared = batch.workload.labels
    return [
        pod
        for pod in pods
        if _asks_the_same(pod, batch.first)
        or (shared and known(pod) and _asks_the_same(pod, first(pod, shared)))
        or (each_its_own and _asks_the_same(pod, first(pod, {**shared, **each_its_own})))
    ]


def _like(workload: Workload, pod: Pod) -> Workload:
    """Return a workload with the hashes and UIDs of one of its pods that is there, and with its ReplicaSet."""
    labels = {key: pod.labels.get(key, value) for key, value in workload.labels.items()}
    by = workload.controller
    if workload.kind in _HASHES and pod.owner is not None:
        by = Owner("apps/v1", *pod.owner[:2])
    return workload._replace(labels=labels, controller=by)


def _asks_the_same(pod: Pod, other: Pod) -> bool:
    """Return whether two pods have the same requests and constraints; images and labels are not compared."""
    # A DaemonSet's controller gives each of its pods the name of its node.
    of_daemon = pod.owner is not None and pod.owner[0] == "DaemonSet"
    return _asked(pod, of_daemon) == _asked(other, of_daemon)


def _asked(pod: Pod, of_daemon: bool) -> tuple[object, ...]:
    shape = pod.shape
    return (
        pod.priority,
        shape.requests,
        shape.host_ports,
        frozenset(shape.node_selector),  # in any order: the API server gives it back by key
        None if of_daemon else shape.required_node_affinity,
        shape.affinity_terms,
        shape.anti_affinity_terms,
        shape.preferred_pod_terms,
        shape.spread,
    )


def _number(pod: Pod, label: str) -> int:
    """Return the number of a pod, by its label or its name; -1 where neither says it."""
    number = number_in(pod.labels.get(label) or pod.name.rpartition("-")[2])
    return -1 if number is None else number


def _lowest(workload: Workload, number: int, taken: Set[int]) -> list[Workload]:
    """Return the workload for each run of numbers; they are the lowest so many that are not taken."""
    found: list[Workload] = []
    begin, last = workload.start, workload.start + number + len(taken)
    for end in sorted({each for each in taken if begin <= each < last} | {last}):
        if size := min(number, end - begin):
            found.append(workload._replace(start=begin, wanted=size))
        number -= size
        begin = end + 1
    return found or [workload._replace(wanted=0)]
