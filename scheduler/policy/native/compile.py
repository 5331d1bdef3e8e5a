"""The policies of one namespace as objects of `admissionregistration.k8s.io/v1`.

A request meets them in this order, as it meets the webhook's two passes:

1. The MutatingAdmissionPolicy asks every rule about the object as it came in. If a rule rejects, it writes one thing:
   the reasons, into the annotation `keys.VERDICT`. Else it writes what the rules want, the QoS class of a pod, and the
   scheduler that the annotation names. It is not asked again when another mutation follows.
2. The ValidatingAdmissionPolicy turns the annotation into a refusal, so that an object that is stored never has it. It
   asks the rules that reject once more, about the object as it will be stored, and checks the class.
3. What modes warn and observe would do are ValidatingAdmissionPolicies of their own, bound by Warn and by Audit.

Whoever sends the annotation by himself has it taken away in 1. Names say release and namespace.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct

from scheduler.policy import keys, verdict
from scheduler.policy.native import pod_class, requests
from scheduler.policy.native.expressions import chunks, every, held, meets, some, text
from scheduler.policy.native.partition import Stays, partition
from scheduler.policy.powers import Reserved
from scheduler.policy.spec import GROUP, Mode, Policies, Policy, Rule, Write

API_VERSION = "admissionregistration.k8s.io/v1"
LABELS = {"app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/component": "policy"}
RELEASE_LABEL, NAMESPACE_LABEL = f"{GROUP}/release", f"{GROUP}/policies-of"
MOST_BYTES = 5120
"""Of a refusal's message; the API server shows another message in place of a longer one."""
_CUT = MOST_BYTES // 4 - 1
"""Characters of what is left of a longer one, whatever its alphabet."""

Object = dict[str, Any]


class Compiled(Struct, frozen=True):
    """What to apply, what each variable stands for, and which policies still need the webhook."""

    objects: tuple[Object, ...]
    comments: Mapping[str, str]
    webhook: tuple[Stays, ...]
    native: tuple[str, ...] = ()
    """Names of the policies that the objects enforce. Without any there are no objects."""


class _Variables:
    """The named expressions of one admission policy, each needed once."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self.comments: dict[str, str] = {}

    def add(self, name: str, expression: str, comment: str = "") -> str:
        """Name an expression, and how others refer to it."""
        self._found[name] = expression
        if comment:
            self.comments[name] = comment
        return f"variables.{name}"

    def spelled(self) -> list[Object]:
        """As the API takes them."""
        return [{"name": name, "expression": expression} for name, expression in self._found.items()]


def compile_namespace(
    policies: Policies,
    namespace: str,
    release: str,
    reserved: Reserved,
    *,
    elsewhere: Mapping[str, str] | None = None,
    closed: str = "",
) -> Compiled:
    """The objects for a namespace's policies; `policies` hold those of this namespace only.

    `elsewhere`: as for `partition`. `closed`: why nothing is let into the namespace at all; empty where it is open.
    """
    split = partition(policies, reserved, elsewhere)
    if not split.native.policies:
        return Compiled((), {}, split.webhook)
    build = _Namespace(split.native, namespace, release, reserved, closed)
    names = tuple(policy.name for policy in split.native.policies)
    return Compiled(tuple(build.objects()), build.comments, split.webhook, names)


def label_of(release: str) -> str:
    """The release as a label's value, which has 63 characters at most."""
    return release if len(release) <= 63 else f"{release[:46]}-{sha256(release.encode()).hexdigest()[:16]}"


def name_of(release: str, namespace: str, mode: Mode = "enforce") -> str:
    """The name of policy and binding alike."""
    return f"{release}.{namespace}.{'' if mode == 'enforce' else f'{mode}.'}metadatapolicies.{GROUP}"


class _Namespace:
    """One namespace while it is compiled."""

    def __init__(self, policies: Policies, namespace: str, release: str, reserved: Reserved, closed: str) -> None:
        self._policies = policies.policies
        self._closed = closed
        self._namespace, self._release, self._reserved = namespace, release, reserved
        self.comments: dict[str, str] = {}
        self._numbers = {
            id(rule): f"rule{number}"
            for number, rule in enumerate(rule for policy in self._policies for rule in policy.rules)
        }

    def objects(self) -> Iterator[Object]:
        """Policies and bindings, in the order in which a request meets them."""
        yield from self._mutating()
        yield from self._validating()
        for mode in ("warn", "observe"):
            yield from self._telling(mode)

    def _rules(self, mode: Mode) -> Iterator[tuple[Policy, Rule]]:
        return ((policy, rule) for policy in self._policies if policy.mode == mode for rule in policy.rules)

    def _snapshot(self) -> _Variables:
        """What every rule is asked about."""
        found = _Variables()
        found.add("labels", held("object", "labels"))
        found.add("annotations", held("object", "annotations"))
        found.add("pod", requests.POD)
        for name, expression in pod_class.variables():
            found.add(name, expression)
        return found

    def _condition(self, rule: Rule, variables: _Variables) -> str:
        """Whether the rule's predicate holds."""
        return variables.add(self._numbers[id(rule)], self._asked(rule), f"{rule}: {rule.predicate}")

    def _asked(self, rule: Rule) -> str:
        criteria = [meets("labels", one) for one in rule.predicate.labels]
        criteria += [meets("annotations", one) for one in rule.predicate.annotations]
        return every(criteria)

    def _refusal(self, variables: _Variables) -> str:
        """Why rules reject; an empty text when none does."""
        reasons, asked = [], []
        for _, rule in self._rules("enforce"):
            if rule.action.reject:
                asked.append(self._asked(rule))
                condition = self._condition(rule, variables)
                reason = " ".join(rule.rejection.split("\n"))
                said = f'{condition} ? {text(reason)} : ""'
                reasons.append(variables.add(f"{self._numbers[id(rule)]}Reason", said))
        if not reasons:
            return variables.add("refusal", '""')
        variables.add("reasons", f'[{", ".join(reasons)}].filter(reason, reason != "")')
        most = verdict.MOST_REASONS
        more = f'"; and " + string(size(variables.reasons) - {most}) + " more rules"'
        variables.add(
            "allReasons",
            f'size(variables.reasons) <= {most} ? variables.reasons.join("; ") : '
            f'variables.reasons.slice(0, {most}).join("; ") + {more}',
        )
        # Nearly always no rule rejects, and then nothing but this is evaluated.
        rejects = [variables.add(f"rejects{i}", some(part)) for i, part in enumerate(chunks(asked))]
        return variables.add(
            "refusal",
            f'!{some(rejects)} ? "" : size(bytes(variables.allReasons)) <= {MOST_BYTES} ? variables.allReasons : '
            f'variables.allReasons.substring(0, [{_CUT}, size(variables.allReasons)].min()) + "..."',
        )

    def _mutating(self) -> Iterator[Object]:
        variables = self._snapshot()
        old = pod_class.stored("oldObject")
        kept = f'(request.operation == "UPDATE" ? {old} : optional.none())'
        variables.add("qos", f"string({kept}.orValue(variables.classOfPod))")
        self._refusal(variables)
        wishes = self._wishes(variables)
        wishes[keys.QOS] = self._stamp(variables, wishes.get(keys.QOS))
        variables.add("writes", f"[{', '.join(wishes.values())}].flatten()")
        name = text(keys.SCHEDULER_NAME)
        scheduler = f"{name} in variables.annotations ? [string(variables.annotations[{name}])] : []"
        if keys.SCHEDULER_NAME in wishes:
            wish = wishes[keys.SCHEDULER_NAME]
            scheduler = f"size({wish}) > 0 ? [{wish}[0][1]] : {scheduler}"
        variables.add("scheduler", scheduler)
        self.comments |= variables.comments
        spec = {
            "matchConstraints": self._constraints(),
            "matchConditions": requests.of_requests(),
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "variables": variables.spelled(),
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _patch()}}],
        }
        yield self._object("MutatingAdmissionPolicy", "enforce", spec)
        yield self._binding("MutatingAdmissionPolicyBinding", "enforce", None)

    def _wishes(self, variables: _Variables) -> dict[str, str]:
        """By annotation: a list with one pair of key and value, or none. Of rules that differ the last one wins."""
        wished: dict[str, list[tuple[Rule, Write]]] = {}
        for _, rule in self._rules("enforce"):
            for write in rule.writes:
                if write.field == "annotation" and self._reserved.why(write.key, write.power) is None:
                    wished.setdefault(write.key, []).append((rule, write))
        conditions: dict[int, str] = {}
        found: dict[str, str] = {}
        for number, key in enumerate(sorted(wished)):
            values = []
            for rule, write in wished[key]:
                if id(rule) not in conditions:
                    conditions[id(rule)] = self._condition(rule, variables)
                values.append(f"{conditions[id(rule)]} ? [{text(write.value)}] : []")
            if len(wished[key]) == 1:
                (rule, write), *_ = wished[key]
                pair = f"[[{text(key)}, {text(write.value)}]]"
                found[key] = variables.add(
                    f"write{number}", f"{conditions[id(rule)]} ? {pair} : []", f"annotation {key}"
                )
                continue
            listed = variables.add(f"values{number}", f"[{', '.join(values)}].flatten()", f"annotation {key}")
            last = f"string({listed}[size({listed}) - 1])"
            pair = f"size({listed}) > 0 ? [[{text(key)}, {last}]] : []"
            found[key] = variables.add(f"write{number}", pair)
        return found

    def _stamp(self, variables: _Variables, wish: str | None) -> str:
        """The class of a pod; no rule writes it there, but on other objects the annotation is like any other."""
        return variables.add("stamp", f"variables.pod ? [[{text(keys.QOS)}, variables.qos]] : {wish or '[]'}")

    def _validating(self) -> Iterator[Object]:
        variables = self._snapshot()
        stamp = text(keys.QOS)
        variables.add("hasStamp", f"variables.pod && {stamp} in variables.annotations")
        variables.add("stamp", f'variables.hasStamp ? string(variables.annotations[{stamp}]) : ""')
        variables.add(
            "qos",
            "variables.stamp == variables.classOfPod ? variables.classOfPod : "
            f"string({pod_class.stored('object')}.orValue(variables.classOfPod))",
        )
        self._refusal(variables)
        said = text(f'metadata.annotations[{keys.QOS}]: Invalid value: "')
        variables.add(
            "wrongClass",
            "variables.hasStamp && variables.stamp != variables.qos ? "
            f"{said} + variables.stamp.substring(0, [40, size(variables.stamp)].min()) + "
            '"\\": the class of this pod is " + variables.qos : ""',
        )
        key = text(keys.VERDICT)
        first = f'({key} in variables.annotations ? string(variables.annotations[{key}]) : "")'
        variables.add(
            "verdict",
            f'[{first}, variables.wrongClass, variables.refusal, {text(self._closed)}].filter(reason, reason != "")',
        )
        self.comments |= variables.comments
        validation = {
            "expression": "size(variables.verdict) == 0",
            "messageExpression": "variables.verdict[0]",
            "message": "a MetadataPolicy of this namespace rejects the object",
            "reason": "Forbidden",
        }
        yield self._object("ValidatingAdmissionPolicy", "enforce", self._checks(variables, [validation], "Fail"))
        yield self._binding("ValidatingAdmissionPolicyBinding", "enforce", "Deny")

    def _telling(self, mode: Mode) -> Iterator[Object]:
        """What a mode that changes nothing would do."""
        variables = self._snapshot()
        variables.add("qos", f"string({pod_class.stored('object')}.orValue(variables.classOfPod))")
        validations = []
        for _, rule in self._rules(mode):
            would = list(self._would(rule, mode))
            if would:
                condition = self._condition(rule, variables)
                validations += [
                    {"expression": f"!({condition}{more})", "message": said, "reason": "Forbidden"}
                    for more, said in would
                ]
        if not validations:
            return
        self.comments |= variables.comments
        yield self._object("ValidatingAdmissionPolicy", mode, self._checks(variables, validations, "Ignore"))
        yield self._binding("ValidatingAdmissionPolicyBinding", mode, "Warn" if mode == "warn" else "Audit")

    def _would(self, rule: Rule, mode: Mode) -> Iterator[tuple[str, str]]:
        """Further conditions under which a rule would do something, and what is said then."""
        if rule.action.reject:
            yield "", _line(rule.would_reject if mode == "warn" else f"{rule.place}:reject")
            return
        changing = []
        for write, announced in rule.announced:
            if self._reserved.why(write.key, write.power) is not None:
                continue
            change = _changes(write)
            if mode == "warn":
                yield f" && {change}", _line(announced)
            else:
                changing.append(change)
        if changing:
            yield f" && ({' || '.join(changing)})", _line(f"{rule.place}:write")

    def _checks(self, variables: _Variables, validations: Sequence[Object], on_failure: str) -> Object:
        return {
            "matchConstraints": self._constraints(),
            "matchConditions": requests.of_requests(),
            "failurePolicy": on_failure,
            "variables": variables.spelled(),
            "validations": list(validations),
        }

    def _constraints(self) -> Object:
        """Which requests; the namespace first, as it is what keeps the requests of all others cheap."""
        return {
            "namespaceSelector": self._here(),
            "excludeResourceRules": requests.excluded(),
            "resourceRules": requests.rules(),
        }

    def _here(self) -> Object:
        here = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [self._namespace]}
        return {"matchExpressions": [here]}

    def _object(self, kind: str, mode: Mode, spec: Object) -> Object:
        labels = {**LABELS, RELEASE_LABEL: label_of(self._release), NAMESPACE_LABEL: self._namespace}
        meta = {"name": name_of(self._release, self._namespace, mode), "labels": labels}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec}

    def _binding(self, kind: str, mode: Mode, action: str | None) -> Object:
        spec: Object = {"policyName": name_of(self._release, self._namespace, mode)}
        if action is not None:
            spec["validationActions"] = [action]
        spec["matchResources"] = {"namespaceSelector": self._here()}
        return self._object(kind, mode, spec)


def _patch() -> str:
    """The reasons alone, or all writes, the scheduler, and no reasons that the object brought along."""
    place = f'"/metadata/annotations/" + jsonpatch.escapeKey({text(keys.VERDICT)})'
    rejected = f'[JSONPatch{{op: "add", path: {place}, value: variables.refusal}}]'
    forged = f"{text(keys.VERDICT)} in variables.annotations"
    taken = f'({forged} ? [JSONPatch{{op: "remove", path: {place}}}] : [])'
    write = 'JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey(write[0]), value: write[1]}'
    scheduler = (
        '(variables.pod && request.operation == "CREATE" && size(variables.scheduler) > 0 && '
        f"size(variables.scheduler[0]) <= 253 && variables.scheduler[0].matches({text(_SUBDOMAIN)}) ? "
        '[JSONPatch{op: "add", path: "/spec/schedulerName", value: variables.scheduler[0]}] : [])'
    )
    first = '[JSONPatch{op: "add", path: "/metadata/annotations", value: {}}]'
    needed = '!has(object.metadata.annotations) && (variables.refusal != "" || size(variables.writes) > 0)'
    made = f"variables.writes.map(write, {write}) + {taken} + {scheduler}"
    return f'({needed} ? {first} : []) + (variables.refusal != "" ? {rejected} : {made})'


_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def _changes(write: Write) -> str:
    """Whether a write would change something, were it alone."""
    map_ = f"variables.{write.field}s"
    differs = f"{map_}[?{text(write.key)}] != optional.of({text(write.value)})"
    if (write.field, write.key) == ("annotation", keys.QOS):
        return f"(!variables.pod && {differs})"
    if write.field == "label" and write.key in keys.OWNERS_OWN:
        return f"!({text(write.key)} in {map_})"
    return f"({differs})"


def _line(said: str) -> str:
    return " ".join(said.split("\n"))
