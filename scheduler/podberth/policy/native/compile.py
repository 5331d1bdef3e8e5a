"""The policies of one namespace as objects of `admissionregistration.k8s.io/v1`.

A request meets them in this order, as it meets the webhook's two passes:

1. The MutatingAdmissionPolicy asks every rule about the object as it came in. If a rule rejects, it writes one thing:
   the reasons, into the annotation `keys.VERDICT`. Else it writes what the rules want, the QoS class of a pod, and the
   scheduler that the annotation names. It is not asked again when another mutation follows.
2. The ValidatingAdmissionPolicy turns the annotation into a refusal, so that an object that is stored never has it. It
   asks the rules that reject once more, about the object as it will be stored, and checks the class.
3. What modes warn and observe would do are ValidatingAdmissionPolicies of their own, bound by Warn and by Audit.

The dry run by which the operator sees what is in force (`requests.SEEN`) is refused with the version of either half.

Whoever sends the annotation by himself has it taken away in 1. Names say release and namespace.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct

from podberth.policy import evaluate, keys
from podberth.policy.keys import Reserved
from podberth.policy.native import mutation, pod_class, requests
from podberth.policy.native.budget import CLOSED, fit
from podberth.policy.native.expressions import NAMED, Scope, chunks, every, held, meets, some, text
from podberth.policy.spec import GROUP, Field, Mode, Policies, Rule, Write

API_VERSION = "admissionregistration.k8s.io/v1"
LABELS = {"app.kubernetes.io/managed-by": "berth", "app.kubernetes.io/component": "policy"}
RELEASE_LABEL, NAMESPACE_LABEL = f"{GROUP}/release", f"{GROUP}/policies-of"
POLICIES = "podberth.dev/policies"
"""On each object that the operator writes: the names of the policies that it enforces."""
MOST_BYTES = 5120
"""The message of a refusal may have so many bytes; the API server shows another message in place of a longer one."""
_CUT = MOST_BYTES // 4 - 1
"""Characters of what is left of a longer one, whatever its alphabet."""

Object = dict[str, Any]


class Compiled(Struct, frozen=True):
    """Objects to apply, the meaning of each variable, and the policies that are left out, each with the reason."""

    objects: tuple[Object, ...]
    comments: Mapping[str, str]
    left: Mapping[str, str]
    native: tuple[str, ...] = ()
    """Names of the policies that the objects enforce."""
    version: str = ""
    """Of the objects; the answer to the dry run has it twice, once for each half."""


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
    refused: Mapping[str, str] | None = None,
    stamp: bool = True,
    closed: str = "",
) -> Compiled:
    """The objects for a namespace's policies; `policies` hold those of this namespace only.

    `refused`: as for `fit`. `stamp`: whether every pod gets its QoS class as an annotation, or only pods that bring the
    annotation along. `closed`: why nothing is let into the namespace at all; empty where it is open.
    """
    fitted = fit(policies, refused)
    if fitted.closed:
        closed = closed or CLOSED
    if not fitted.native.policies and not fitted.closed:
        return Compiled((), {}, fitted.left)
    build = _Namespace(fitted.native, namespace, release, reserved, stamp, closed)
    names = tuple(policy.name for policy in fitted.native.policies)
    objects = tuple(build.objects())
    version = sha256(msgspec.json.encode(objects)).hexdigest()[:32]
    for one in objects:
        for variable in one["spec"].get("variables", ()):
            if variable["name"] == "version":
                variable["expression"] = text(version)
    return Compiled(objects, build.comments, fitted.left, names, version)


def label_of(release: str) -> str:
    """The release as a label's value, which has 63 characters at most."""
    return release if len(release) <= 63 else f"{release[:46]}-{sha256(release.encode()).hexdigest()[:16]}"


def name_of(release: str, namespace: str, mode: Mode = "enforce") -> str:
    """The name of policy and binding alike."""
    return f"{release}.{namespace}.{'' if mode == 'enforce' else f'{mode}.'}metadatapolicies.{GROUP}"


class _Namespace:
    """One namespace while it is compiled."""

    def __init__(
        self, policies: Policies, namespace: str, release: str, reserved: Reserved, stamp: bool, closed: str
    ) -> None:
        self._policies = policies.policies
        self._stamp = stamp
        self._closed = closed
        self._namespace, self._release, self._reserved = namespace, release, reserved
        self.comments: dict[str, str] = {}

    def objects(self) -> Iterator[Object]:
        """Policies and bindings, in the order in which a request meets them."""
        yield from self._mutating()
        yield from self._validating()
        for mode in ("warn", "observe"):
            yield from self._telling(mode)

    def _rules(self, mode: Mode) -> Iterator[Rule]:
        return (rule for policy in self._policies if policy.mode == mode for rule in policy.rules)

    def _rejecting(self) -> list[Rule]:
        return [rule for rule in self._rules("enforce") if rule.action.reject]

    def _snapshot(self) -> _Variables:
        """Return what every rule is asked about, but for the class of a pod."""
        found = _Variables()
        found.add("labels", held("object", "labels"))
        found.add("annotations", held("object", "annotations"))
        found.add("pod", requests.POD)
        for name, expression in pod_class.variables():
            found.add(name, expression)
        return found

    def _refusal(self, variables: _Variables) -> str:
        """Return why rules reject, or the version for who asks that; an empty text when the object is let in."""
        variables.add("version", text(""))  # its value follows from all the rest
        rules = self._rejecting()
        if not rules:
            return variables.add("refusal", f'{requests.SEEN} ? variables.version : ""')
        found = []
        for number, part in enumerate(chunks(rules, _size)):
            # Nearly always no rule rejects, and then nothing but this is evaluated.
            rejects = variables.add(f"rejects{number}", some(map(_asked, part)), _lines(part))
            said = (f"{_asked(rule)} ? [{text(_line(rule.rejection))}] : []" for rule in part)
            found.append(variables.add(f"reasons{number}", f"{rejects} ? [{', '.join(said)}].flatten() : []"))
        variables.add("reasons", " + ".join(found))
        most = evaluate.MOST_REASONS
        more = f'"; and " + string(size(variables.reasons) - {most}) + " more rules"'
        variables.add(
            "allReasons",
            f'size(variables.reasons) <= {most} ? variables.reasons.join("; ") : '
            f'variables.reasons.slice(0, {most}).join("; ") + {more}',
        )
        return variables.add(
            "refusal",
            f"{requests.SEEN} ? variables.version : "
            f'size(variables.reasons) == 0 ? "" : size(bytes(variables.allReasons)) <= {MOST_BYTES} ? '
            "variables.allReasons : "
            f'variables.allReasons.substring(0, [{_CUT}, size(variables.allReasons)].min()) + "..."',
        )

    def _mutating(self) -> Iterator[Object]:
        old = pod_class.stored("oldObject")
        kept = f'(request.operation == "UPDATE" ? {old} : optional.none())'
        variables = self._snapshot()
        variables.add("qos", f"string({kept}.orValue(variables.classOfPod))")
        refusal = self._refusal(variables)
        writing = [(rule, list(self._written(rule))) for rule in self._rules("enforce")]
        writing = [(rule, writes) for rule, writes in writing if writes]
        labels = self._wishes(variables, "label", writing)
        annotations = self._wishes(variables, "annotation", writing)
        scheduler = self._scheduler(variables, writing)
        self.comments |= variables.comments
        expression = mutation.patch(refusal, labels, annotations, scheduler, self._stamp)
        spec = {
            "matchConstraints": self._constraints(),
            "matchConditions": self._concerned([*self._rejecting(), *(rule for rule, _ in writing)]),
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "variables": variables.spelled(),
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        }
        yield self._object("MutatingAdmissionPolicy", "enforce", spec)
        yield self._binding("MutatingAdmissionPolicyBinding", "enforce", None)

    def _wishes(
        self, variables: _Variables, field: Field, writing: Sequence[tuple[Rule, Sequence[Write]]]
    ) -> list[str]:
        """Name what the rules write into labels or annotations: lists of pairs of path and value."""
        wanted = [(rule, [write for write in writes if write.field == field]) for rule, writes in writing]
        found = []
        parts = chunks([(rule, writes) for rule, writes in wanted if writes], lambda one: _size(one[0]))
        for number, part in enumerate(parts):
            wishes = [wish for rule, writes in part for wish in mutation.wishes(_asked(rule), writes)]
            comment = _lines(rule for rule, _ in part)
            found.append(variables.add(f"{field}s{number}", f"[{', '.join(wishes)}].flatten()", comment))
        return found

    def _concerned(self, rules: Iterable[Rule]) -> list[Object]:
        """The match condition of the mutating policy; `rules` are those that would do something."""
        always = [f"{text(keys.VERDICT)} in annotations", requests.SEEN]
        if self._stamp:
            return requests.before_storing([*always, *(_asked(rule, requests.NO_POD) for rule in rules)])
        own = [f"pod && {text(key)} in annotations" for key in (keys.QOS, keys.SCHEDULER_NAME)]
        return requests.of_what_comes([*always, *own, *(_asked(rule, requests.OF_ANY_CLASS) for rule in rules)])

    def _written(self, rule: Rule) -> Iterator[Write]:
        """Yield what a rule writes where policies may write it."""
        for write in rule.writes:
            if self._reserved.why(write.key, write.reserved_for) is None:
                yield write

    def _scheduler(self, variables: _Variables, writing: Sequence[tuple[Rule, Sequence[Write]]]) -> str:
        """A list whose last element is what the annotation will say, empty where there is none."""
        name = text(keys.SCHEDULER_NAME)
        found = [f"{name} in variables.annotations ? [string(variables.annotations[{name}])] : []"]
        for rule, writes in writing:
            named = [one for one in writes if (one.field, one.key) == ("annotation", keys.SCHEDULER_NAME)]
            found += [f"{_asked(rule)} ? [{text(write.value)}] : []" for write in named]
        parts = [
            variables.add(f"schedulers{number}", f"[{', '.join(part)}].flatten()")
            for number, part in enumerate(chunks(found, len))
        ]
        return variables.add("schedulers", " + ".join(parts))

    def _validating(self) -> Iterator[Object]:
        stamp = text(keys.QOS)
        variables = self._snapshot()
        variables.add("hasStamp", f"variables.pod && {stamp} in variables.annotations")
        variables.add("stamp", f'variables.hasStamp ? string(variables.annotations[{stamp}]) : ""')
        variables.add(
            "qos",
            "variables.stamp == variables.classOfPod ? variables.classOfPod : "
            f"string({pod_class.stored('object')}.orValue(variables.classOfPod))",
        )
        refusal = self._refusal(variables)
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
            f'[{first}, variables.wrongClass, {refusal}, {text(self._closed)}].filter(reason, reason != "")',
        )
        self.comments |= variables.comments
        validation = {
            "expression": "size(variables.verdict) == 0",
            "messageExpression": f'{requests.SEEN} ? variables.verdict.join(" ") : variables.verdict[0]',
            "message": "a MetadataPolicy of this namespace rejects the object",
            "reason": "Forbidden",
        }
        suspect = [
            f"{key} in annotations",
            f"(pod && {stamp} in annotations && annotations[{stamp}] != qos)",
            requests.SEEN,
        ]
        suspect += ["true"] if self._closed else [_asked(rule, requests.HERE) for rule in self._rejecting()]
        yield self._object(
            "ValidatingAdmissionPolicy", "enforce", self._checks(variables, [validation], suspect, "Fail")
        )
        yield self._binding("ValidatingAdmissionPolicyBinding", "enforce", "Deny")

    def _telling(self, mode: Mode) -> Iterator[Object]:
        """Yield what a mode that changes nothing would do."""
        variables = self._snapshot()
        variables.add("qos", f"string({pod_class.stored('object')}.orValue(variables.classOfPod))")
        validations, suspect = [], []
        for number, rule in enumerate(self._rules(mode)):
            would = list(self._would(rule, mode))
            if would:
                condition = variables.add(f"rule{number}", _asked(rule), _line(f"{rule}: {rule.predicate}"))
                validations += [
                    {"expression": f"!({condition}{more})", "message": said, "reason": "Forbidden"}
                    for more, said in would
                ]
                suspect.append(_asked(rule, requests.HERE))
        if not validations:
            return
        self.comments |= variables.comments
        yield self._object("ValidatingAdmissionPolicy", mode, self._checks(variables, validations, suspect, "Ignore"))
        yield self._binding("ValidatingAdmissionPolicyBinding", mode, "Warn" if mode == "warn" else "Audit")

    def _would(self, rule: Rule, mode: Mode) -> Iterator[tuple[str, str]]:
        """Further conditions under which a rule would do something, and what is said then."""
        if rule.action.reject:
            yield "", _line(rule.would_reject if mode == "warn" else f"{rule.place}:reject")
            return
        changing = []
        for write, announced in rule.announced:
            if self._reserved.why(write.key, write.reserved_for) is not None:
                continue
            change = _changes(write)
            if mode == "warn":
                yield f" && {change}", _line(announced)
            else:
                changing.append(change)
        if changing:
            yield f" && ({' || '.join(changing)})", _line(f"{rule.place}:write")

    def _checks(
        self, variables: _Variables, validations: Sequence[Object], suspect: Sequence[str], on_failure: str
    ) -> Object:
        return {
            "matchConstraints": self._constraints(),
            "matchConditions": requests.of_stored(suspect),
            "failurePolicy": on_failure,
            "variables": variables.spelled(),
            "validations": list(validations),
        }

    def _constraints(self) -> Object:
        """Return which requests; the namespace first, as it is what keeps the requests of all others cheap."""
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


def _asked(rule: Rule, scope: Scope = NAMED) -> str:
    """Return whether the rule's predicate holds."""
    criteria = [meets("labels", one, scope) for one in rule.predicate.labels]
    criteria += [meets("annotations", one, scope) for one in rule.predicate.annotations]
    return every(criteria)


def _size(rule: Rule) -> int:
    """Characters that a rule takes where it is asked, with what it says or writes."""
    said = [rule.rejection, *(write.key + write.value for write in rule.writes)]
    return len(_asked(rule)) + sum(len(text(one)) + 40 for one in said)


def _lines(rules: Iterable[Rule]) -> str:
    return "\n".join(_line(f"{rule}: {rule.predicate}") for rule in rules)


def _changes(write: Write) -> str:
    """Return whether a write would change something, were it alone."""
    map_ = f"variables.{write.field}s"
    differs = f"{map_}[?{text(write.key)}] != optional.of({text(write.value)})"
    if (write.field, write.key) == ("annotation", keys.QOS):
        return f"(!variables.pod && {differs})"
    return f"({differs})"


def _line(said: str) -> str:
    return " ".join(said.split("\n"))
