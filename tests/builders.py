"""Builders that give plain API dicts: `pod("web", cpu="500m", prefer=[(10, "zone in a,b")])`.

Selectors are text, requirements joined by `;`: `zone in a,b`, `zone notin a`, `gpu`, `!gpu`, `app=web`, `gen > 3`,
and `@name in n1` for the node's name. Short label keys (`zone`, `region`, `host`) stand for the well-known ones.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Object = dict[str, Any]

WELL_KNOWN = {
    "zone": "topology.kubernetes.io/zone",
    "region": "topology.kubernetes.io/region",
    "host": "kubernetes.io/hostname",
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS = {"in": "In", "notin": "NotIn", ">": "Gt", "<": "Lt"}


def definition(plural: str, group: str, version: str, kind: str, **metadata: Any) -> Object:
    """A CustomResourceDefinition of a namespaced kind that has a status, and any fields."""
    return {
        "metadata": {"name": f"{plural}.{group}", **metadata},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "scope": "Namespaced",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }


COSCHEDULING_CRD = definition(
    "podgroups",
    "scheduling.x-k8s.io",
    "v1alpha1",
    "PodGroup",
    annotations={"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"},
)
"""scheduler-plugins' own."""


def label(key: str) -> str:
    """The full label key of a short one."""
    return WELL_KNOWN.get(key, key)


def labels(pairs: Mapping[str, str]) -> dict[str, str]:
    """A label map with short keys spelled out."""
    return {label(key): value for key, value in pairs.items()}


def requirement(text: str) -> Object:
    """One requirement as the API spells it."""
    text = text.strip()
    if match := re.fullmatch(r"(\S+) (in|notin|>|<) ?(.*)", text):
        values = [value.strip() for value in match[3].split(",")]
        return {"key": label(match[1].lstrip("@")), "operator": _OPERATORS[match[2]], "values": values}
    if "=" in text:
        key, _, value = text.partition("=")
        return {"key": label(key), "operator": "In", "values": [value]}
    if text.startswith("!"):
        return {"key": label(text[1:]), "operator": "DoesNotExist"}
    return {"key": label(text), "operator": "Exists"}


def node_term(text: str) -> Object:
    """A nodeSelectorTerm; requirements that start with `@` are matchFields (`@name` is metadata.name)."""
    term: Object = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        found = requirement(part)
        if part.startswith("@"):
            found["key"] = f"metadata.{found['key']}"
        term.setdefault("matchFields" if part.startswith("@") else "matchExpressions", []).append(found)
    return term


def node_selector(*terms: str) -> Object:
    """A NodeSelector of ORed terms."""
    return {"nodeSelectorTerms": [node_term(term) for term in terms]}


def selector(text: str | None) -> Object | None:
    """A labelSelector; None is null (nothing), "" is {} (everything)."""
    if text is None:
        return None
    parts = [requirement(part) for part in text.split(";") if part.strip()]
    return {"matchExpressions": parts} if parts else {}


def term(
    select: str | None, per: str = "host", *, namespaces: Sequence[str] = (), namespaces_with: str | None = None
) -> Object:
    """A pod (anti-)affinity term: pods that `select` means, per value of the node label `per`."""
    made: Object = {"topologyKey": label(per)}
    if select is not None:
        made["labelSelector"] = selector(select)
    if namespaces:
        made["namespaces"] = list(namespaces)
    if namespaces_with is not None:
        made["namespaceSelector"] = selector(namespaces_with)
    return made


def _term(given: str | Object) -> Object:
    """`"app=db per zone"` or a ready term."""
    if isinstance(given, str):
        select, _, per = given.partition(" per ")
        return term(select, per or "host")
    return given


def _affinity(required: Iterable[str | Object], preferred: Iterable[tuple[int, str | Object]]) -> Object:
    made: Object = {}
    if required:
        made[REQUIRED] = [_term(one) for one in required]
    if preferred:
        made[PREFERRED] = [{"weight": weight, "podAffinityTerm": _term(one)} for weight, one in preferred]
    return made


def taint(text: str) -> Object:
    """`gpu=true:NoSchedule` or `spot:PreferNoSchedule`."""
    pair, _, effect = text.rpartition(":")
    key, equals, value = pair.partition("=")
    return {"key": key, "effect": effect} | ({"value": value} if equals else {})


def toleration(text: str) -> Object:
    """`gpu=true:NoSchedule`, `gpu` (exists, any effect), `gpu:NoExecute` (exists), `*` (all), `sla>9`, `sla<9`."""
    pair, _, effect = text.partition(":")
    made: Object = {"effect": effect} if effect else {}
    for sign, operator in ((">", "Gt"), ("<", "Lt")):
        key, found, value = pair.partition(sign)
        if found:
            return made | {"key": key, "operator": operator, "value": value}
    key, equals, value = pair.partition("=")
    if key != "*":
        made["key"] = key
    return made | ({"operator": "Equal", "value": value} if equals else {"operator": "Exists"})


def container(
    cpu: str | None = None,
    memory: str | None = None,
    *,
    name: str = "main",
    image: str = "registry.test/app:1",
    ports: Sequence[str] = (),
    sidecar: bool = False,
    others: Mapping[str, str] | None = None,
) -> Object:
    """A container; `others` are more resources; ports read `80`, `80/UDP`, `10.0.0.1:80`."""
    made: Object = {"name": name, "image": image}
    requests = amounts(cpu, memory, others)
    if requests:
        made["resources"] = {"requests": requests}
    if ports:
        made["ports"] = [_port(port) for port in ports]
    if sidecar:
        made["restartPolicy"] = "Always"
    return made


def amounts(cpu: str | None, memory: str | None, others: Mapping[str, str] | None) -> dict[str, str]:
    """A ResourceList."""
    found = {"cpu": cpu, "memory": memory} | dict(others or {})
    return {name: value for name, value in found.items() if value is not None}


def _port(text: str) -> Object:
    address, _, rest = text.rpartition(":")
    number, _, protocol = rest.partition("/")
    made: Object = {"containerPort": int(number), "hostPort": int(number), "protocol": protocol or "TCP"}
    return made | ({"hostIP": address} if address else {})


def pod(
    name: str,
    cpu: str | None = None,
    memory: str | None = None,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    on: str | None = None,
    images: Sequence[str] = (),
    ports: Sequence[str] = (),
    containers: Sequence[Object] = (),
    init: Sequence[Object] = (),
    level: Mapping[str, str] | None = None,
    overhead: Mapping[str, str] | None = None,
    select: Mapping[str, str] | None = None,
    need: Sequence[str] = (),
    prefer: Sequence[tuple[int, str]] = (),
    near: Sequence[str | Object] = (),
    apart: Sequence[str | Object] = (),
    rather_near: Sequence[tuple[int, str | Object]] = (),
    rather_apart: Sequence[tuple[int, str | Object]] = (),
    tolerate: Sequence[str] = (),
    priority: int | None = None,
    gates: Sequence[str] = (),
    scheduler: str = "berth",
    uid: str | None = None,
    phase: str | None = None,
    status: Object | None = None,
    others: Mapping[str, str] | None = None,
) -> Object:
    """A pod. `on`: its node; `need`, `prefer`: node affinity; `near`, `apart`: pod affinity (`"app=db per zone"`)."""
    made = list(containers)
    for i, image in enumerate(images):
        made.append(container(name=f"c{i}", image=image))
    if not made:
        made = [container(cpu, memory, ports=ports, others=others)]
    spec: Object = {"schedulerName": scheduler, "containers": made}
    node_affinity: Object = {}
    if need:
        node_affinity[REQUIRED] = node_selector(*need)
    if prefer:
        node_affinity[PREFERRED] = [{"weight": weight, "preference": node_term(text)} for weight, text in prefer]
    affinity = {
        "nodeAffinity": node_affinity,
        "podAffinity": _affinity(near, rather_near),
        "podAntiAffinity": _affinity(apart, rather_apart),
    }
    optional: Object = {
        "nodeName": on,
        "initContainers": list(init),
        "resources": {"requests": dict(level)} if level else None,
        "overhead": dict(overhead) if overhead else None,
        "nodeSelector": _labels(select) if select else None,
        "affinity": {kind: value for kind, value in affinity.items() if value},
        "tolerations": [toleration(text) for text in tolerate],
        "priority": priority,
        "schedulingGates": [{"name": gate} for gate in gates],
    }
    spec.update({key: value for key, value in optional.items() if value not in (None, [], {})})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": uid or f"{namespace}/{name}"}
        | ({"labels": dict(labels)} if labels else {}),
        "spec": spec,
        "status": (status or {}) | ({"phase": phase} if phase else {}),
    }


_labels = labels


def node(
    name: str,
    cpu: str | None = "4",
    memory: str | None = "16Gi",
    *,
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    zone: str | None = None,
    region: str | None = None,
    taints: Sequence[str] = (),
    cordoned: bool = False,
    images: Mapping[str, int] | None = None,
    others: Mapping[str, str] | None = None,
) -> Object:
    """A node whose hostname label is its name; `images` maps a name to its size in bytes."""
    well_known = {"host": name, "zone": zone, "region": region}
    found = _labels({key: value for key, value in well_known.items() if value is not None} | dict(labels or {}))
    spec: Object = {}
    if taints:
        spec["taints"] = [taint(text) for text in taints]
    if cordoned:
        spec["unschedulable"] = True
    status: Object = {"allocatable": amounts(cpu, memory, {"pods": pods} | dict(others or {}))}
    if images:
        status["images"] = [{"names": [image], "sizeBytes": size} for image, size in images.items()]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"node/{name}", "labels": found},
        "spec": spec,
        "status": status,
    }


def namespace(name: str, **labels: str) -> Object:
    """A namespace with the label that the API server gives each."""
    found = {"kubernetes.io/metadata.name": name} | labels
    metadata = {"name": name, "uid": f"namespace/{name}", "labels": found}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def configuration(*profiles: Object, **fields: Any) -> Object:
    """A KubeSchedulerConfiguration."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": list(profiles) or [{"schedulerName": "berth"}],
    } | fields


def profile(name: str = "berth", plugins: Object | None = None, **args: Object) -> Object:
    """A profile; keyword arguments are plugins with their args."""
    made: Object = {"schedulerName": name}
    if plugins:
        made["plugins"] = plugins
    if args:
        made["pluginConfig"] = [{"name": plugin, "args": given} for plugin, given in args.items()]
    return made
