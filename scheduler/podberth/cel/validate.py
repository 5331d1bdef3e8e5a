"""What is looked at after the types: literals of durations, timestamps and patterns, lists of one type, templates."""

from podberth.cel import conversions, template
from podberth.cel.errors import EvaluationError
from podberth.cel.pattern import PatternError, parse
from podberth.cel.source import Issue
from podberth.cel.tree import Call, ListLiteral, Literal, MapLiteral, Node, walk
from podberth.cel.types import DYN, Type, shown, unwrapped
from podberth.cel.unify import equivalent


def validate(root: Node) -> list[Issue]:
    """All that is wrong with a checked tree."""
    nodes = list(walk(root))
    calls = [node for node in nodes if type(node) is Call]
    issues = [issue for call in calls for issue in _literals(call)]
    issues += _homogeneous(root)
    return issues + [issue for call in calls for issue in _template(call)]


def _literals(call: Call) -> list[Issue]:
    if call.function not in ("duration", "timestamp", "matches") or not call.args:
        return []
    arg = call.args[0]
    if type(arg) is not Literal:
        return []
    try:
        if call.function == "matches":
            if type(arg.value) is str:
                parse(arg.value)
        elif type(arg.value) is str:
            conversions.OVERLOADS[f"string_to_{call.function}"](arg.value)
        elif type(arg.value) is int and call.function == "timestamp":
            conversions.OVERLOADS["int64_to_timestamp"](arg.value)
    except (EvaluationError, PatternError):
        return [Issue(arg.position, f"invalid {call.function} argument")]
    return []


def _homogeneous(root: Node) -> list[Issue]:
    """Lists and maps whose literals differ in type, but for those in the arguments of `format`."""
    lists: list[ListLiteral] = []
    maps: list[MapLiteral] = []
    waiting: list[Node] = [root]
    while waiting:
        node = waiting.pop()
        if type(node) is Call and node.function == "format":
            continue
        if type(node) is ListLiteral:
            lists.append(node)
        elif type(node) is MapLiteral:
            maps.append(node)
        waiting.extend(reversed(list(node.parts())))
    return [issue for node in lists for issue in _elements(node)] + [issue for node in maps for issue in _entries(node)]


def _elements(node: ListLiteral) -> list[Issue]:
    expected: Type | None = None
    for index, element in enumerate(node.elements):
        known = unwrapped(element.type)[0] if index in node.optional else element.type
        if expected is None:
            expected = known
        elif not equivalent(expected, known):
            return [_differs(element, expected, known)]
    return []


def _entries(node: MapLiteral) -> list[Issue]:
    issues: list[Issue] = []
    keys: Type | None = None
    values: Type | None = None
    for key, value, optional in node.entries:
        known = unwrapped(value.type)[0] if optional else value.type
        if keys is None or values is None:
            keys, values = key.type, known
            continue
        if not equivalent(keys, key.type):
            issues.append(_differs(key, keys, key.type))
        if not equivalent(values, known):
            issues.append(_differs(value, values, known))
    return issues


def _differs(node: Node, expected: Type, known: Type) -> Issue:
    return Issue(node.position, f"expected type '{shown(expected)}' but found '{shown(known)}'")


_FITS = {
    "d": ("int", "uint"),
    "f": ("double", "string"),
    "e": ("double", "string"),
    "b": ("int", "uint", "bool"),
    "x": ("int", "uint", "string", "bytes"),
    "X": ("int", "uint", "string", "bytes"),
    "o": ("int", "uint"),
    "s": ("list", "map", "int", "uint", "double", "bool", "string", "google.protobuf.Timestamp", "bytes",
          "google.protobuf.Duration", "type", "null_type"),
}  # fmt: skip


def _template(call: Call) -> list[Issue]:
    """`"%d".format(["a"])`: clauses that don't take their arguments, or too many of those."""
    if call.function != "format" or call.target is None or len(call.args) != 1:
        return []
    target, args = call.target, call.args[0]
    if type(target) is not Literal or type(target.value) is not str or type(args) is not ListLiteral:
        return []
    requested: list[int] = []
    misfits: list[Node] = []

    def clause(index: int, letter: str, precision: int | None) -> str:
        requested.append(index)
        misfit = _misfit(args.elements[index], letter)
        if misfit is not None:
            misfits.append(misfit)
            raise template.refused(letter, misfit.type.name)
        return ""

    try:
        template.run(target.value, len(args.elements), clause, compiling=True)
    except EvaluationError as error:
        return [Issue(misfits[0].position if misfits else call.position, str(error))]
    if len(args.elements) > len(requested):
        text = f"too many arguments supplied to string.format (expected {len(requested)}, got {len(args.elements)})"
        return [Issue(call.position, text)]
    return []


def _misfit(node: Node, letter: str) -> Node | None:
    """The node, or one in it, that the clause doesn't take."""
    if node.type != DYN and node.type.name not in _FITS[letter]:
        return node
    if letter == "s" and type(node) in (ListLiteral, MapLiteral):
        for part in node.parts():
            found = _misfit(part, letter)
            if found is not None:
                return found
    return None
