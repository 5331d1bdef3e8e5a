"""The QoS class of a pod in CEL: `podberth.policy.qos` says the same in Python, and has the sources.

Amounts are compared as quantities. Only where the pod as a whole asks for resources have amounts of containers to be
added up, which CEL does for whole numbers: there they are thousandths.
"""

from podberth.policy.native.expressions import text, texts
from podberth.policy.qos import CLASSES

_COUNTED = ("cpu", "memory")
_NAMES = '["cpu", "memory"]'
_ZERO = 'quantity("0")'
_LIMIT = 'quantity(c.?resources.?limits[?name].orValue("0"))'
_REQUEST = 'quantity(c.?resources.?requests[?name].orValue(c.?resources.?limits[?name].orValue("0")))'


def variables() -> list[tuple[str, str]]:
    """Return names and expressions, in the order that they need each other; `classOfPod` is the result.

    They read `object.spec` of a pod, and must not be asked of another kind.
    """
    found = [
        ("mainContainers", "object.spec.?containers.orValue([])"),
        ("initContainers", "object.spec.?initContainers.orValue([])"),
        ("allContainers", "variables.initContainers + variables.mainContainers"),
        ("classOfContainers", _of_containers()),
        ("podRequests", "object.spec.?resources.?requests.orValue({})"),
        ("podLimits", "object.spec.?resources.?limits.orValue({})"),
    ]
    for name in _COUNTED:
        found += _of_pod(name)
    asked = "size(variables.podRequests) + size(variables.podLimits) > 0"
    found.append(("classOfPod", f"{asked} ? {_of_whole()} : variables.classOfContainers"))
    return found


def stored(whose: str) -> str:
    """Return the class that the API server has written into an object's status, as an optional."""
    known = f"c in {texts(CLASSES)} ? optional.of(c) : optional.none()"
    return f"{whose}.?status.?qosClass.optFlatMap(c, {known})"


def _of_containers() -> str:
    zero = f"{_REQUEST}.compareTo({_ZERO}) == 0 && {_LIMIT}.compareTo({_ZERO}) == 0"
    exact = f"{_LIMIT}.compareTo({_ZERO}) != 0 && {_REQUEST}.compareTo({_LIMIT}) == 0"
    none, full = (f"variables.allContainers.all(c, {_NAMES}.all(name, {each}))" for each in (zero, exact))
    # Quantities take the API server long to read, and many containers have none.
    some = "variables.allContainers.exists(c, c.?resources.?limits.hasValue() || c.?resources.?requests.hasValue())"
    return f'!{some} || {none} ? "BestEffort" : {full} ? "Guaranteed" : "Burstable"'


def _of_pod(name: str) -> list[tuple[str, str]]:
    """Return request and limit of the pod as a whole, in thousandths, after DefaultPodLevelResources."""
    key = text(name)
    title = name.capitalize()
    somewhere = (
        f"variables.allContainers.exists(c, {key} in c.?resources.?requests.orValue({{}}) || "
        f"{key} in c.?resources.?limits.orValue({{}}))"
    )
    request = (
        f"{key} in variables.podRequests ? {_thousandths(f'variables.podRequests[{key}]')} : "
        f"{somewhere} ? {_sum(name, requests=True)} : "
        f"{key} in variables.podLimits ? {_thousandths(f'variables.podLimits[{key}]')} : 0"
    )
    everywhere = f"variables.allContainers.all(c, {key} in c.?resources.?limits.orValue({{}}))"
    limit = (
        f"{key} in variables.podLimits ? {_thousandths(f'variables.podLimits[{key}]')} : "
        f"{everywhere} ? [variables.request{title}, {_sum(name, requests=False)}].max() : 0"
    )
    return [(f"request{title}", request), (f"limit{title}", limit)]


def _of_whole() -> str:
    same = " && ".join(
        f"variables.request{name.capitalize()} == variables.limit{name.capitalize()}" for name in _COUNTED
    )
    zero = " && ".join(f"variables.request{name.capitalize()} == 0" for name in _COUNTED)
    some = " && ".join(f"variables.request{name.capitalize()} != 0" for name in _COUNTED)
    return f'({same} && {zero} ? "BestEffort" : {same} && {some} ? "Guaranteed" : "Burstable")'


def _sum(name: str, *, requests: bool) -> str:
    """AggregateContainerRequests or -Limits: containers with sidecars, or an init container that needs more."""

    def of(container: str) -> str:
        limit = f'{container}.?resources.?limits[?{text(name)}].orValue("0")'
        if not requests:
            return _thousandths(limit)
        return _thousandths(f"{container}.?resources.?requests[?{text(name)}].orValue({limit})")

    sidecar = 'd.?restartPolicy.orValue("") == "Always"'
    main = f"variables.mainContainers.map(c, {of('c')}).sum()"
    sidecars = f"variables.initContainers.filter(d, {sidecar}).map(d, {of('d')}).sum()"
    before = f"variables.initContainers.transformList(j, d, j < i && {sidecar}, {of('d')}).sum()"
    init = (
        f'variables.initContainers.transformList(i, c, c.?restartPolicy.orValue("") != "Always", {of("c")} + {before})'
    )
    return f"([{main} + {sidecars}] + {init}).max()"


def _thousandths(amount: str) -> str:
    return (
        f"(quantity({amount}).isInteger() ? quantity({amount}).asInteger() * 1000 : "
        f"int(quantity({amount}).asApproximateFloat() * 1000.0 + 0.5))"
    )
