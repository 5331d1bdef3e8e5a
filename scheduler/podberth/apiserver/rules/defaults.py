"""Defaults that the demo and fast tests rely on, put in on create and again after mutating admission.

Upstream: pkg/apis/*/v1/defaults.go.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from podberth.apiserver import storage
from podberth.apiserver.rules import podgroups, quantity
from podberth.apiserver.rules.quantity import containers
from podberth.apiserver.rules.status import JsonObject, bad_request


def quantities(kind: str, amounts: JsonObject | None) -> None:
    """Bring a resource list to canonical texts, refusing what is no quantity as the decoder would."""
    try:
        quantity.canonicalise(amounts or {})
    except ValueError as error:
        raise bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {error}') from error


def pull_policy(image: str) -> str:
    """Always for :latest or no tag, unless a digest says which image is meant."""
    name, _, digest = image.partition("@")
    tag = name.rpartition(":")[2] if ":" in name.rpartition("/")[2] else ""
    return "Always" if tag == "latest" or not (tag or digest) else "IfNotPresent"


def _container(kind: str, container: JsonObject) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    resources = container.setdefault("resources", {})
    quantities(kind, resources.get("limits"))
    quantities(kind, resources.get("requests"))
    for port in container.get("ports") or []:
        port.setdefault("protocol", "TCP")


def pod_spec(kind: str, spec: JsonObject) -> None:
    """Defaults of a PodSpec, in pods and in templates alike."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if not spec["schedulerName"]:
        spec["schedulerName"] = "default-scheduler"
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers(spec):
        _container(kind, container)
    quantities(kind, spec.get("overhead"))
    for name in ("limits", "requests"):
        quantities(kind, (spec.get("resources") or {}).get(name))


def pod(obj: JsonObject) -> None:
    """Defaults of a Pod beyond those of its spec."""
    spec = obj.setdefault("spec", {})
    pod_spec("Pod", spec)
    spec.setdefault("enableServiceLinks", True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in containers(spec):
        if limits := container["resources"].get("limits"):
            _fill(container["resources"].setdefault("requests", {}), limits)
        for port in container.get("ports") or [] if spec.get("hostNetwork") else []:
            if not port.get("hostPort"):
                port["hostPort"] = port.get("containerPort")


def _template(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    pod_spec("Pod", template.setdefault("spec", {}))


def _replicated(obj: JsonObject) -> None:
    _template(obj)
    if obj["spec"].get("replicas") is None:
        obj["spec"]["replicas"] = 1


def _deployment(obj: JsonObject) -> None:
    _replicated(obj)
    spec = obj["spec"]
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _namespace(obj: JsonObject) -> None:
    if name := obj["metadata"].get("name"):
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def _node(obj: JsonObject) -> None:
    obj.setdefault("spec", {})
    status = obj.setdefault("status", {})
    quantities("Node", status.get("capacity"))
    quantities("Node", status.get("allocatable"))
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = status.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        info.setdefault(name, "")
    for condition in status.get("conditions") or []:
        condition.setdefault("lastHeartbeatTime", None)
        condition.setdefault("lastTransitionTime", None)
    if status.get("allocatable") is None and status.get("capacity") is not None:
        status["allocatable"] = dict(status["capacity"])


def _priority_class(obj: JsonObject) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
    obj.setdefault("value", 0)


def _webhooks(obj: JsonObject) -> None:
    for hook in obj.get("webhooks") or []:
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("matchPolicy", "Equivalent")
        hook.setdefault("namespaceSelector", {})
        hook.setdefault("objectSelector", {})
        hook.setdefault("timeoutSeconds", 10)
        for rule in hook.get("rules") or []:
            rule.setdefault("scope", "*")
        if service := (hook.get("clientConfig") or {}).get("service"):
            service.setdefault("port", 443)


def _mutating_webhooks(obj: JsonObject) -> None:
    _webhooks(obj)
    for hook in obj.get("webhooks") or []:
        hook.setdefault("reinvocationPolicy", "Never")


def _crd(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def _runtime_class(obj: JsonObject) -> None:
    quantities("RuntimeClass", (obj.get("overhead") or {}).get("podFixed"))


def _limit_range(obj: JsonObject) -> None:
    for limit in (obj.get("spec") or {}).get("limits") or []:
        for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            quantities("LimitRange", limit.get(name))
        if limit.get("type") == "Container":
            default = limit.setdefault("default", {})
            _fill(default, limit.get("max"))
            _fill(limit.setdefault("defaultRequest", {}), default, limit.get("min"))
            for name in ("default", "defaultRequest"):
                if not limit[name]:
                    del limit[name]


def _fill(amounts: JsonObject, *others: JsonObject | None) -> None:
    for other in others:
        for name, amount in (other or {}).items():
            amounts.setdefault(name, amount)


def _resource_quota(obj: JsonObject) -> None:
    for part in (obj.get("spec") or {}, obj.get("status") or {}):
        for name in ("hard", "used"):
            quantities("ResourceQuota", part.get(name))


def _secret(obj: JsonObject) -> None:
    obj.setdefault("type", "Opaque")
    for name, text in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[name] = base64.b64encode(text.encode()).decode()


def _lease(obj: JsonObject) -> None:
    obj.setdefault("spec", {})


_DEFAULTS: dict[str, Callable[[JsonObject], None]] = {
    "Pod": pod,
    "Node": _node,
    "Namespace": _namespace,
    "Deployment": _deployment,
    "ReplicaSet": _replicated,
    "Lease": _lease,
    "RuntimeClass": _runtime_class,
    "PriorityClass": _priority_class,
    "LimitRange": _limit_range,
    "ResourceQuota": _resource_quota,
    "MutatingWebhookConfiguration": _mutating_webhooks,
    "ValidatingWebhookConfiguration": _webhooks,
    "CustomResourceDefinition": _crd,
    "Secret": _secret,
    "Event": storage.set_defaults,
    "PodGroup": podgroups.set_defaults,
}


def apply(kind: str, obj: JsonObject) -> None:
    """Put a kind's defaults into an object, in place."""
    if fill := _DEFAULTS.get(kind):
        fill(obj)
