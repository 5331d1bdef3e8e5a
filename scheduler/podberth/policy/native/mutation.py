"""The mutating policy of a namespace: it writes one JSON patch, which is worked out from the object as it came in.

Writes are pairs of a path and a value, in the order of the rules: of two with one path, the later one holds.
"""

from collections.abc import Iterable, Sequence

from podberth.policy import keys
from podberth.policy.evaluate import pointer
from podberth.policy.native.expressions import text
from podberth.policy.spec import Field, Write

_ANNOTATIONS, _LABELS = "/metadata/annotations", "/metadata/labels"
_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_THERE = "has(object.metadata.annotations)"


def wishes(asked: str, writes: Sequence[Write]) -> list[str]:
    """Return what a rule writes where its predicate, which is `asked`, holds: lists of pairs.

    The QoS class of a pod is no rule's to write, but on other objects its annotation is like any other.
    """
    stamps = [write for write in writes if (write.field, write.key) == ("annotation", keys.QOS)]
    free = [write for write in writes if write not in stamps]
    found = [f"{asked} ? {_pairs(free)} : []"] if free else []
    return [*found, f"!variables.pod && {asked} ? {_pairs(stamps)} : []"] if stamps else found


def patch(refusal: str, labels: Sequence[str], annotations: Sequence[str], scheduler: str, stamp: bool) -> str:
    """The reasons alone, or all writes, the scheduler, and no reasons that the object brought along.

    `refusal` is the reasons, `labels` and `annotations` are lists of pairs, `scheduler` is a list with the name last.
    `stamp`: whether pods get their class also where they do not bring the annotation along.
    """
    over = f"[{_add(_path(keys.QOS), 'variables.qos')}]"
    room = f"({_THERE} ? [] : [{_add(text(_ANNOTATIONS), '{}')}])"
    if stamp:
        made = [f"(variables.pod ? ({_THERE} ? {over} : [{_first(keys.QOS, 'variables.qos')}]) : {room})"]
    else:
        made = [f"(variables.pod && {text(keys.QOS)} in variables.annotations ? {over} : {room})"]
    if labels:
        written = f"({' + '.join(labels)})"
        there = f"has(object.metadata.labels) || size({written}) == 0"
        made.append(f"({there} ? [] : [{_add(text(_LABELS), '{}')}])")
        made.append(f"{written}.map(write, {_add('write[0]', 'write[1]')})")
    if annotations:
        made.append(f"({' + '.join(annotations)}).map(write, {_add('write[0]', 'write[1]')})")
    verdict = _path(keys.VERDICT)
    forged = f"{text(keys.VERDICT)} in variables.annotations"
    made.append(f'({forged} ? [JSONPatch{{op: "remove", path: {verdict}}}] : [])')
    last = f"{scheduler}[size({scheduler}) - 1]"
    made.append(
        f'(variables.pod && request.operation == "CREATE" && size({scheduler}) > 0 && '
        f"size({last}) <= 253 && {last}.matches({text(_SUBDOMAIN)}) ? "
        f"[{_add(text('/spec/schedulerName'), last)}] : [])"
    )
    allowed = " + ".join(made)
    rejected = f"({_THERE} ? [{_add(verdict, refusal)}] : [{_first(keys.VERDICT, refusal)}])"
    return f'{refusal} != "" ? {rejected} : {allowed}'


def _pairs(writes: Iterable[Write]) -> str:
    return "[" + ", ".join(f"[{_path(write.key, write.field)}, {text(write.value)}]" for write in writes) + "]"


def _path(key: str, field: Field = "annotation") -> str:
    return text(pointer("metadata", f"{field}s", key))


def _add(path: str, value: str) -> str:
    return f'JSONPatch{{op: "add", path: {path}, value: {value}}}'


def _first(key: str, value: str) -> str:
    return _add(text(_ANNOTATIONS), f"{{{text(key)}: {value}}}")
