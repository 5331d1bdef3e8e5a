"""The API server's own admission policies for a release: they read each namespace's set (`policy_set`).

A request meets them in this order, as it meets the webhook's two passes:

1. The MutatingAdmissionPolicy asks every rule about the object as it came in. If a rule rejects, it writes one thing:
   the reasons, into the annotation `keys.VERDICT`. Else it writes what the rules want, the QoS class of a pod, and the
   scheduler that the annotation names. It is not asked again when another mutation follows.
2. The ValidatingAdmissionPolicy turns the annotation into a refusal, so that an object that is stored never has it. It
   asks the rules that reject once more, about the object as it will be stored, and checks the class.
3. Another ValidatingAdmissionPolicy tells what policies in modes warn and observe would do: a warning for each rule,
and an audit annotation. It reads only sets that have something to tell.

The dry run by which the operator sees what is in force (`requests.SEEN`) is refused with the set's version by either
half, and the third policy warns with it: as its audit annotation is in the same object, that is in force as well.
Whoever sends the annotation by himself has it taken away in 1. Nobody but the operator writes sets: that is a
ValidatingAdmissionPolicy, too, without parameters.

The objects are the same for every cluster but for names, exempt namespaces, the operator's user and the stamp.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from podberth.policy import evaluate, keys
from podberth.policy.evaluate import pointer
from podberth.policy.native import pod_class, requests
from podberth.policy.native.expressions import held, text
from podberth.policy.native.policy_set import API_VERSION as SET_VERSION
from podberth.policy.native.policy_set import (
    BY_CLASS_KEY,
    CLOSED_KEY,
    FIELD,
    ITEM,
    LABELS,
    PAIR,
    RECORD,
    RELEASE_LABEL,
    SET_KIND,
    SET_PLURAL,
    TELLS_LABEL,
    VERSION_KEY,
    key_of,
    label_of,
)
from podberth.policy.objects import JsonObject
from podberth.policy.spec import GROUP

API_VERSION = "admissionregistration.k8s.io/v1"
IN_FORCE = f"{GROUP}/in-force"
"""Annotation of a release's mutating binding: "true" once all policies were seen to be enforced by the API server. Then
the admission server keeps no webhook.
"""
MOST_BYTES = 5120
"""The message of a refusal may have so many bytes; the API server shows another message in place of a longer one."""
_CUT = MOST_BYTES // 4 - 1
"""Characters of what is left of a longer one, whatever its alphabet."""
_SET = "params.metadata.annotations"


def admission_policies(
    release: str, operator: str, exempt: Iterable[str] = (), *, stamp: bool = True
) -> tuple[JsonObject, ...]:
    """Return the objects of a release, in the order in which they are to be written: without the validating half, the
    reasons for a refusal would be stored as an annotation. They are taken away in the opposite order.

    `operator`: the name of the user, mostly system:serviceaccount:NAMESPACE:NAME, who alone may write sets.
    `exempt`: namespaces that no policy applies to. `stamp`: whether every pod of a namespace with policies gets its QoS
    class as an annotation, or only pods that bring the annotation along.
    """
    made = _Release(release, sorted(exempt))
    return (*made.guard(operator), *made.validating(), *made.telling(), *made.mutating(stamp))


def name_of(release: str, *, tells: bool = False) -> str:
    """Return the name of the policies and bindings that enforce, or that tell what modes warn and observe would do."""
    return f"{release}.{'tells.' if tells else ''}metadatapolicies.{GROUP}"


def guard_name(release: str) -> str:
    """Return the name of the policy and the binding that let nobody but the operator write sets."""
    return f"{release}.sets.{GROUP}"


def same(found: Any, wanted: Any) -> bool:
    """Return whether the spec of an object on the API server is the one that we want.

    The API server fills in defaults, so both are compared without what is a default, and without what is empty.
    """
    return bool(_plain(found) == _plain(wanted))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        said = {key: _plain(one) for key, one in value.items() if key not in _DEFAULTS or one != _DEFAULTS[key]}
        return {key: one for key, one in said.items() if one not in (None, [], {})}
    return [_plain(one) for one in value] if isinstance(value, list) else value


_DEFAULTS: JsonObject = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "scope": "*",
}


class _Release:
    """The objects of one release while they are made."""

    def __init__(self, release: str, exempt: Sequence[str]) -> None:
        self._release = release
        self._exempt = exempt

    def guard(self, operator: str) -> Iterator[JsonObject]:
        """Yield the policy and the binding that let nobody but the operator write sets.

        The garbage collector takes references to owners away that are gone.
        """
        parts = ("spec", "metadata.?annotations", "metadata.?labels")
        unchanged = " && ".join(f"object.{part} == oldObject.{part}" for part in parts)
        sets = {"apiGroups": [""], "apiVersions": ["*"], "resources": [SET_PLURAL], "scope": "Namespaced"}
        spec = {
            "matchConstraints": {
                "objectSelector": {"matchLabels": self._labels},
                "resourceRules": [{"operations": ["CREATE", "UPDATE"], **sets}],
            },
            "failurePolicy": "Fail",
            "validations": [
                {
                    "expression": f"request.userInfo.username == {text(operator)} || "
                    f'(request.operation == "UPDATE" && {unchanged})',
                    "message": "nobody but Berth's operator writes what is in force: change the MetadataPolicies",
                    "reason": "Forbidden",
                }
            ],
        }
        name = guard_name(self._release)
        yield self._object("ValidatingAdmissionPolicy", name, spec)
        bound = {"policyName": name, "validationActions": ["Deny"]}
        yield self._object("ValidatingAdmissionPolicyBinding", name, bound)

    def validating(self) -> Iterator[JsonObject]:
        """Yield what refuses."""
        stamp, key = text(keys.QOS), text(keys.VERDICT)
        said = text(f'metadata.annotations[{keys.QOS}]: Invalid value: "')
        variables = {
            **_snapshot(),
            "hasStamp": f"variables.pod && {stamp} in variables.annotations",
            "stamp": f'variables.hasStamp ? string(variables.annotations[{stamp}]) : ""',
            "qos": "variables.stamp == variables.classOfPod ? variables.classOfPod : "
            f"string({pod_class.stored('object')}.orValue(variables.classOfPod))",
            **_refusal("rejects"),
            "wrongClass": "variables.hasStamp && variables.stamp != variables.qos ? "
            f"{said} + variables.stamp.substring(0, [40, size(variables.stamp)].min()) + "
            '"\\": the class of this pod is " + variables.qos : ""',
            "verdict": f'[{key} in variables.annotations ? string(variables.annotations[{key}]) : "", '
            f'variables.wrongClass, variables.refusal, string({_SET}[?{text(CLOSED_KEY)}].orValue(""))]'
            '.filter(said, said != "")',
        }
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
            f"{text(CLOSED_KEY)} in {_SET}",
            f"[{_facts('rejects')}].exists(facts, {_some('rejects')})",
        ]
        spec = self._checks(variables, [validation], requests.of_stored(suspect), "Fail")
        yield self._object("ValidatingAdmissionPolicy", name_of(self._release), spec)
        yield self._binding("ValidatingAdmissionPolicyBinding", "Deny")

    def telling(self) -> Iterator[JsonObject]:
        """Yield what tells of modes that change nothing."""
        variables = {
            **_snapshot(),
            "qos": f"string({pod_class.stored('object')}.orValue(variables.classOfPod))",
            "facts": _facts("tells", "variables."),
            "told": f"{_holding('warns')}.map(rule, rule[3]).distinct()",
        }
        suspect = [requests.SEEN, f"[{_facts('tells')}].exists(facts, {_some('warns')} || {_some('observes')})"]
        spec = self._checks(variables, [_seen(), *_warnings()], requests.of_stored(suspect), "Ignore")
        observed = f'{_holding("observes")}.map(rule, rule[3]).distinct().join(",")'
        spec["auditAnnotations"] = [{"key": "observed", "valueExpression": observed}]
        yield self._object("ValidatingAdmissionPolicy", name_of(self._release, tells=True), spec)
        yield self._binding("ValidatingAdmissionPolicyBinding", "Warn", tells=True)

    def mutating(self, stamp: bool) -> Iterator[JsonObject]:
        """Yield what writes."""
        old = pod_class.stored("oldObject")
        kept = f'(request.operation == "UPDATE" ? {old} : optional.none())'
        scheduler = text(keys.SCHEDULER_NAME)
        variables = {
            **_snapshot(),
            "qos": f"string({kept}.orValue(variables.classOfPod))",
            **_refusal("mutating"),
            "writing": _holding("writes"),
            "schedulers": f"({scheduler} in variables.annotations ? "
            f"[string(variables.annotations[{scheduler}])] : []) + "
            'variables.writing.map(rule, rule[3]).filter(name, name != "")',
        }
        holds = f"{_some('rejects')} || {_some('writes')}"
        always = [f"{text(keys.VERDICT)} in annotations", requests.SEEN]
        if stamp:
            conditions = requests.before_storing(
                [*always, f"[{_facts('mutating', pod='false')}].exists(facts, {holds})"]
            )
        else:
            own = [f"pod && {text(key)} in annotations" for key in (keys.QOS, keys.SCHEDULER_NAME)]
            by_class = f"pod && {text(BY_CLASS_KEY)} in {_SET}"  # which is not known yet
            asked = [*always, *own, by_class, f"[{_facts('mutating', qos='')}].exists(facts, {holds})"]
            conditions = requests.of_what_comes(asked)
        spec = {
            "paramKind": _PARAM_KIND,
            "matchConstraints": self._constraints(),
            "matchConditions": conditions,
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "variables": _spelled(variables),
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": _patch(stamp)}}],
        }
        yield self._object("MutatingAdmissionPolicy", name_of(self._release), spec)
        yield self._binding("MutatingAdmissionPolicyBinding", None)

    def _checks(
        self,
        variables: dict[str, str],
        validations: list[JsonObject],
        conditions: list[dict[str, str]],
        on_failure: str,
    ) -> JsonObject:
        return {
            "paramKind": _PARAM_KIND,
            "matchConstraints": self._constraints(),
            "matchConditions": conditions,
            "failurePolicy": on_failure,
            "variables": _spelled(variables),
            "validations": validations,
        }

    def _constraints(self) -> JsonObject:
        """Return which requests; the namespace first, as it is what keeps the requests of others cheap."""
        found: JsonObject = {"excludeResourceRules": requests.excluded(), "resourceRules": requests.rules()}
        if self._exempt:
            others = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": list(self._exempt)}
            found["namespaceSelector"] = {"matchExpressions": [others]}
        return found

    @property
    def _labels(self) -> dict[str, str]:
        return {RELEASE_LABEL: label_of(self._release)}

    def _object(self, kind: str, name: str, spec: JsonObject) -> JsonObject:
        meta = {"name": name, "labels": {**LABELS, **self._labels}}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec}

    def _binding(self, kind: str, action: str | None, *, tells: bool = False) -> JsonObject:
        name = name_of(self._release, tells=tells)
        read = {**self._labels, **({TELLS_LABEL: "true"} if tells else {})}
        spec: JsonObject = {
            "policyName": name,
            "paramRef": {"selector": {"matchLabels": read}, "parameterNotFoundAction": "Allow"},
        }
        if action is not None:
            spec["validationActions"] = [action]
        return self._object(kind, name, spec)


_PARAM_KIND = {"apiVersion": SET_VERSION, "kind": SET_KIND}


def _snapshot() -> dict[str, str]:
    """Return what every rule is asked about, but for the class of a pod."""
    return {
        "labels": held("object", "labels"),
        "annotations": held("object", "annotations"),
        "pod": requests.POD,
        **dict(pod_class.variables()),
    }


def _refusal(reader: str) -> dict[str, str]:
    """Return why rules reject, or the version for who asks that; an empty text when the object is let in."""
    most = evaluate.MOST_REASONS
    more = f'"; and " + string(size(variables.reasons) - {most}) + " more rules"'
    return {
        "facts": _facts(reader, "variables."),
        "reasons": f"{_holding('rejects')}.map(rule, rule[3])",
        "allReasons": f'size(variables.reasons) <= {most} ? variables.reasons.join("; ") : '
        f'variables.reasons.slice(0, {most}).join("; ") + {more}',
        "refusal": f"{requests.SEEN} ? string({_SET}[{text(VERSION_KEY)}]) : "
        f'size(variables.reasons) == 0 ? "" : size(bytes(variables.allReasons)) <= {MOST_BYTES} ? '
        "variables.allReasons : "
        f'variables.allReasons.substring(0, [{_CUT}, size(variables.allReasons)].min()) + "..."',
    }


def _facts(reader: str, named: str = "", *, pod: str = "", qos: str | None = None) -> str:
    """Return the facts that an object comes to, of those that are asked for. `named`: where labels and so on are found.

    `qos`: empty where the class of a pod is not known; then a pod has no facts about it.
    """
    pod = pod or f"{named}pod"
    qos = f"{named}qos" if qos is None else qos
    stamp, annotations = text(f"@{keys.QOS}"), f"{named}annotations"
    of_pod = f'[{stamp}, {stamp} + "=" + {qos}]' if qos else "[]"
    stamped = f"{annotations}[{text(keys.QOS)}]"
    of_others = f'({text(keys.QOS)} in {annotations} ? [{stamp}, {stamp} + "=" + string({stamped})] : [])'
    parts = [f'["", "#" + {_KIND}]', of_others if pod == "false" else f"({pod} ? {of_pod} : {of_others})"]
    for field, prefix in (("label", ""), ("annotation", "@")):
        there, asked = f"{named}{field}s", _list(f"{reader}.{field}s")
        # Whichever are fewer: the keys that are asked for, or those that are there. The stamp is above.
        all_there = f"{there}.filter(key, key != {text(keys.QOS)})" if prefix else f"{there}.map(key, key)"
        found = f"(size({there}) < size({asked}) ? {all_there} : {asked}.filter(key, key in {there}))"
        before = f"{text(prefix)} + " if prefix else ""
        parts.append(
            f"[{found}].map(keys, keys{f'.map(key, {before}key)' if prefix else ''} + "
            f'keys.map(key, {before}key + "=" + string({there}[key])))[0]'
        )
    return f"({' + '.join(parts)})"


def _list(name: str) -> str:
    """Return a list of texts of the set."""
    return f"{_SET}[{text(key_of(name))}].split({text(RECORD)})"


def _triggered(name: str, facts: str = "facts") -> str:
    """Return whether one of these rules may hold for an object that comes to these facts."""
    return (
        f"(sets.intersects({facts}, {_list(f'{name}.if-any')}) || "
        f"!sets.contains({facts}, {_list(f'{name}.unless-all')}))"
    )


def _some(name: str) -> str:
    """Return whether one of these rules holds, of an object that comes to `facts`. A match condition has no variables,
    so things are named by `exists` of one value.
    """
    holds = f"[lines[number].split({text(FIELD)})].exists(rule, {_holds('facts')})"
    return (
        f"({_triggered(name)} && [{_list(name)}].exists(lines, [{_with_absent(name, 'facts')}].exists(known, "
        f"{_list(f'{name}.triggers')}.exists(number, trigger, trigger in known && {holds}))))"
    )


def _holding(name: str) -> str:
    """Return the rules that hold, each as the fields of its line, of an object that comes to `variables.facts`."""
    facts = "variables.facts"
    looked_at = (
        f"[{_list(name)}].map(lines, [{_with_absent(name, facts)}].map(known, {_list(f'{name}.triggers')}"
        f".transformList(number, trigger, trigger in known, lines[number].split({text(FIELD)}))))[0][0]"
    )
    return f"({_triggered(name, facts)} ? {looked_at}.filter(rule, {_holds(facts)}) : [])"


def _with_absent(name: str, facts: str) -> str:
    """Return the facts, and with ! before it each that does not hold and so may trigger a rule."""
    return f'({facts} + {_list(f"{name}.unless-all")}.filter(fact, !(fact in {facts})).map(fact, "!" + fact))'


def _holds(facts: str) -> str:
    """Return whether `rule`, the fields of a line whose trigger is as it needs it, holds."""
    item = text(ITEM)
    return (
        f'(rule[0] == "" || sets.contains({facts}, rule[0].split({item}))) && '
        f'(rule[1] == "" || !sets.intersects({facts}, rule[1].split({item}))) && '
        f'(rule[2] == "" || rule[2].split({item}).all(one, sets.intersects({facts}, one.split({text(PAIR)}))))'
    )


_KIND = '(request.kind.group == "" ? request.kind.kind : request.kind.kind + "." + request.kind.group)'


def _patch(stamp: bool) -> str:
    """Return the JSON patch: the reasons alone, or all writes, the scheduler, and no reasons that the object brought
    along. Of two operations on one path the later one holds.
    """
    there = "has(object.metadata.annotations)"
    over = f"[{_add(_path(keys.QOS), 'variables.qos')}]"
    room = f"({there} ? [] : [{_add(text(_ANNOTATIONS), '{}')}])"
    if stamp:
        stamped = f"(variables.pod ? ({there} ? {over} : [{_first(keys.QOS, 'variables.qos')}]) : {room})"
    else:
        stamped = f"(variables.pod && {text(keys.QOS)} in variables.annotations ? {over} : {room})"
    labels_room = (
        '(has(object.metadata.labels) || !variables.writing.exists(rule, rule[4] != "") ? [] : '
        f"[{_add(text(_LABELS), '{}')}])"
    )
    written = (
        f"variables.writing.map(rule, rule[5].split({text(ITEM)})).flatten()"
        f".map(write, write.split({text(PAIR)})).map(write, {_add('write[0]', 'write[1]')})"
    )
    verdict_there = f"{text(keys.VERDICT)} in variables.annotations"
    forged = f'({verdict_there} ? [JSONPatch{{op: "remove", path: {_path(keys.VERDICT)}}}] : [])'
    last = "variables.schedulers[size(variables.schedulers) - 1]"
    chosen = (
        f'(variables.pod && request.operation == "CREATE" && size(variables.schedulers) > 0 && '
        f"size({last}) <= 253 && {last}.matches({text(_SUBDOMAIN)}) ? "
        f"[{_add(text('/spec/schedulerName'), last)}] : [])"
    )
    allowed = " + ".join([stamped, labels_room, written, forged, chosen])
    refusal = "variables.refusal"
    rejected = f"({there} ? [{_add(_path(keys.VERDICT), refusal)}] : [{_first(keys.VERDICT, refusal)}])"
    return f'{refusal} != "" ? {rejected} : {allowed}'


_ANNOTATIONS, _LABELS = "/metadata/annotations", "/metadata/labels"
_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def _path(key: str) -> str:
    return text(pointer("metadata", "annotations", key))


def _add(path: str, value: str) -> str:
    return f'JSONPatch{{op: "add", path: {path}, value: {value}}}'


def _first(key: str, value: str) -> str:
    return _add(text(_ANNOTATIONS), f"{{{text(key)}: {value}}}")


def _seen() -> JsonObject:
    """Return the validation that tells the operator which version is in force."""
    version = f"string({_SET}[{text(VERSION_KEY)}])"
    return {"expression": f"!{requests.SEEN}", "messageExpression": version, "message": "it is in force"}


def _warnings() -> Iterator[JsonObject]:
    """Yield one validation for each warning, and the last one for all that are too many."""
    most = evaluate.MOST_WARNINGS
    for number in range(most - 1):
        yield {
            "expression": f"size(variables.told) <= {number}",
            "messageExpression": f"variables.told[{number}]",
            "message": "a MetadataPolicy of this namespace would do something",
        }
    yield {
        "expression": f"size(variables.told) < {most}",
        "messageExpression": f"size(variables.told) == {most} ? variables.told[{most - 1}] : "
        f'"and " + string(size(variables.told) - {most - 1}) + " more warnings about metadata policies"',
        "message": "more MetadataPolicies of this namespace would do something",
    }


def _spelled(variables: dict[str, str]) -> list[JsonObject]:
    return [{"name": name, "expression": expression} for name, expression in variables.items()]
