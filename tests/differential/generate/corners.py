"""Selectors from a seed that give functions odd arguments, and tell the value that comes of it.

`generate/calls.py` compares what it calls, so a wrong value may pass. Here a value is joined to others as if it were a
text: the error names it. `corners.txt` has the arguments: what they are for, and a text, with the escapes of JSON.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from random import Random

_TOLD = '[dyn([{}])].join() == ""'
_OF_QUANTITY = "{}.asApproximateFloat(), {}.sign(), {}.isInteger()"
_OF_VERSION = "{}.major(), {}.minor(), {}.patch()"
_CALLS: tuple[str, ...] = (
    "isQuantity(<quantity>)",
    "[" + _OF_QUANTITY.replace("{}", "quantity(<quantity>)") + "]",
    "quantity(<quantity>).asInteger()",
    "quantity(<quantity>).compareTo(quantity(<quantity>))",
    "quantity(<quantity>).add(quantity(<quantity>)).asApproximateFloat()",
    "quantity(<quantity>).sub(quantity(<quantity>)).asApproximateFloat()",
    "quantity(<quantity>).add(<int>).asApproximateFloat()",
    "quantity(<quantity>).sub(<int>).asApproximateFloat()",
    "quantity(<quantity>).sub(<int>).sub(<int>).isInteger()",
    "quantity(<quantity>).add(<int>).asInteger()",
    "quantity(<quantity>) == quantity(<quantity>).add(<int>)",
    "isSemver(<version>)",
    "isSemver(<version>, <bool>)",
    "[" + _OF_VERSION.replace("{}", "semver(<version>)") + "]",
    "[" + _OF_VERSION.replace("{}", "semver(<version>, true)") + "]",
    "semver(<version>).compareTo(semver(<version>))",
    "semver(<version>, true).compareTo(semver(<version>, <bool>))",
    "semver(<version>).isLessThan(semver(<version>))",
    "isIP(<ip>)",
    "ip.isCanonical(<ip>)",
    "string(ip(<ip>))",
    "[ip(<ip>).family(), ip(<ip>).isLoopback(), ip(<ip>).isGlobalUnicast(), ip(<ip>).isUnspecified()]",
    "[ip(<ip>).isLinkLocalUnicast(), ip(<ip>).isLinkLocalMulticast()]",
    "ip(<ip>) == ip(<ip>)",
    "isCIDR(<cidr>)",
    "string(cidr(<cidr>))",
    "string(cidr(<cidr>).masked())",
    "[string(cidr(<cidr>).ip()), string(cidr(<cidr>).prefixLength())]",
    "cidr(<cidr>).containsIP(<ip>)",
    "cidr(<cidr>).containsIP(ip(<ip>))",
    "cidr(<cidr>).containsCIDR(<cidr>)",
    "cidr(<cidr>) == cidr(<cidr>)",
    "<text>.matches(<pattern>)",
    "<text>.find(<pattern>)",
    "<text>.findAll(<pattern>)",
    "<text>.findAll(<pattern>, <int>)",
    "<text>.substring(<int>)",
    "<text>.substring(<int>, <int>)",
    "<text>.charAt(<int>)",
    "<text>.indexOf(<text>)",
    "<text>.indexOf(<text>, <int>)",
    "<text>.lastIndexOf(<text>)",
    "<text>.lastIndexOf(<text>, <int>)",
    "<text>.split(<text>)",
    "<text>.split(<text>, <int>)",
    "<text>.replace(<text>, <text>)",
    "<text>.replace(<text>, <text>, <int>)",
    "<text>.lowerAscii() + <text>.upperAscii() + <text>.trim()",
    "<text>.reverse()",
    "strings.quote(<text>)",
    "[<text>, <text>].join(<text>)",
    "<text>.size()",
    "size(bytes(<text>))",
    "bytes(<text>)",
    "string(bytes(<text>))",
    "<text> < <text>",
    "<text>.contains(<text>)",
    "<text>.startsWith(<text>)",
    "int(<number>)",
    "uint(<number>)",
    "double(<number>)",
    "bool(<number>)",
    "string(double(<number>))",
    "int(double(<number>))",
    "uint(double(<number>))",
    "int(uint(<number>))",
    "<int> + <int>",
    "<int> - <int>",
    "<int> * <int>",
    "<int> / <int>",
    "<int> % <int>",
    "-(<int>)",
    "uint(<int>)",
    "double(<int>)",
    "dyn(<int>) == double(<number>)",
    "dyn(<int>) < double(<number>)",
    "double(<number>) / double(<number>)",
    "[<int>, <int>, <int>].slice(<int>, <int>)",
    "[<int>, <int>].indexOf(<int>)",
    "[<int>, <int>, <int>].sort()",
    "[double(<number>), double(<number>)].sort()",
    "[double(<number>), double(<number>)].max()",
    "[double(<number>), double(<number>)].min()",
    "[<int>, <int>].sum()",
    "[<any>, <any>, <any>].distinct()",
    "[<any>, [<any>, [<any>]]].flatten(<int>)",
    "[<text>, <text>].isSorted()",
    "lists.range(<count>)",
    "[<any>][<int>]",
    "[<any>][?<int>].hasValue()",
    "{<any>: 1, <any>: 2}.size()",
    "{dyn(<int>): 1}[double(<number>)]",
    "sets.contains([<any>], [<any>])",
    "sets.equivalent([<any>, <any>], [<any>])",
    "sets.intersects([<any>], [<any>, <any>])",
    "dyn(<any>) == dyn(<any>)",
    "dyn(<any>) < dyn(<any>)",
    "dyn(<any>) in [<any>]",
    "type(dyn(<any>)) == type(dyn(<any>))",
    "string(dyn(<any>))",
    "size(dyn(<any>))",
    "dyn(<any>) + dyn(<any>)",
)
_LOOSE = (
    *("-(D)", "!(D)", "D + D", "D - D", "D * D", "D / D", "D % D", "D == D", "D != D", "D < D", "D >= D", "D in D"),
    *("D in [D]", "D in {D: 1}", "D ? 1 : 2", "D && true", "D || false", "D[D]", "D.a", "has(D.a)", "D.?a.hasValue()"),
    *("D[?D].hasValue()", "{D: D}.size()", "int(D)", "uint(D)", "double(D)", "bool(D)", "string(D)", "bytes(D)"),
    *("string(type(D))", "size(D)", "D.size()", "quantity(D).sign()", "isQuantity(D)"),
    *("semver(D).major()", "semver(<version>, D).major()", "isSemver(D)", "string(ip(D))", "isIP(D)", "isCIDR(D)"),
    *("string(cidr(D))", "ip.isCanonical(D)", "cidr(<cidr>).containsIP(D)"),
    *("cidr(<cidr>).containsCIDR(D)", "D.isGreaterThan(D)", "D.compareTo(D)", "D.add(D).sign()", "D.sub(D).sign()"),
    *("quantity(<quantity>).add(D).sign()", "D.asInteger()", "D.family()", "D.masked() == D", "D.prefixLength()"),
    *("D.matches(<pattern>)", "<text>.matches(D)", "D.find(D)", "<text>.findAll(D)", "<text>.findAll(<pattern>, D)"),
    *(
        "D.contains(D)",
        "D.startsWith(D)",
        "<text>.substring(D)",
        "<text>.substring(D, D)",
        "D.charAt(D)",
        "D.reverse()",
    ),
    *("D.indexOf(D)", "D.lastIndexOf(D)", "<text>.indexOf(<text>, D)", "D.split(D)", "<text>.split(D, D)"),
    *("D.replace(D, D)", "<text>.replace(<text>, <text>, D)", "D.lowerAscii()", "D.upperAscii()", "D.trim()"),
    *("strings.quote(D)", "D.join(D)", "[D].join()"),
    *("[D, D].join(D)", "[D, D].sort()", "D.sort()", "[D, D].isSorted()", "[D, D].sum()", "[D, D].max()", "[D].min()"),
    *("D.distinct()", "D.flatten()", "[D].flatten(D)", "D.slice(D, D)", "[1, 2].slice(D, D)", "D.first().hasValue()"),
    *(
        "lists.range(<count>).last().hasValue()",
        "sets.contains(D, D)",
        "sets.equivalent([D], D)",
        "sets.intersects(D, D)",
    ),
    *("D.map(x, x)", "D.filter(x, D)", "D.all(x, x == D)", "D.exists(x, D)", "D.exists_one(x, true)", "[1].map(x, D)"),
    *(
        "D.all(k, v, k == v)",
        "D.transformList(k, v, v)",
        "D.transformMap(k, v, k)",
        "D.sortBy(x, x)",
        "[1, 2].sortBy(x, D)",
    ),
    *("optional.ofNonZeroValue(D).hasValue()", "optional.of(D).value()", "D.hasValue()", "D.orValue(D)", "D.or(D)"),
    *("D.value()", "D.optMap(x, x).hasValue()", "D.optFlatMap(x, optional.of(x)).hasValue()", "cel.bind(x, D, x)"),
    *("D.includes(D)", "D.unwrapOpt()"),
)
"""Calls whose arguments D are of any type: most of them fail when they run."""
_CALLS += tuple([re.sub(r"\bD\b", "dyn(<any>)", call) for call in _LOOSE])
_NUMBERS = (
    *("0", "1", "-1", "2", "3", "7", "-3", "31", "64", "100000", "1000000", "2147483647", "2147483648", "-2147483649"),
    *("9223372036854775807", "9223372036854775806", "-9223372036854775808", "-9223372036854775807", "253402300799"),
    *("253402300800", "-62135596800", "-62135596801", "4611686018427387904"),
)
_COUNTS = ("0", "1", "-1", "3", "1000", "-9223372036854775808")
"""Of `lists.range`: upstream makes a list of any length before it looks at the cost."""
_VALUES = (
    *("1", "-1", "1u", "1.0", "0", "0.0", "-0.0", '""', '"a"', '"é"', "b'a'", "b'\\xff'", "true", "false", "null"),
    *("[]", "{}", "[1, 'a', null]", "{'a': 1.5}", "int", "type"),
    *("double('NaN')", "double('Infinity')", "-double('Infinity')", "1e300", "5e-324", "123456789012345678.0", "1e21"),
    *("18446744073709551615u", "-9223372036854775808", "9007199254740993", "optional.none()", "optional.of(1)"),
    *('quantity("1Ki")', 'semver("1.2.3")', 'ip("::1")', 'cidr("10.0.0.0/8")', "1e-7"),
)


def literal(text: str) -> str:
    """The text as an expression writes it."""
    return '"' + "".join(_escaped(letter) for letter in text) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    return letter if letter.isprintable() else f"\\U{ord(letter):08x}"


def _arguments() -> dict[str, list[str]]:
    found = defaultdict(list)
    for line in (Path(__file__).parent / "corners.txt").read_text(encoding="utf-8").splitlines():
        kind, _, text = line.partition(" ")
        found[kind].append(literal(json.loads(f'"{text}"')))
    return {**found, "int": [*_NUMBERS], "any": [*_VALUES], "bool": ["true", "false"], "count": [*_COUNTS]}


_ARGUMENTS = _arguments()


def corner(seed: int, number: int) -> str:
    """The expression of this name, the same one every time. The calls take turns; each seed begins with another one."""
    dice = Random(f"corners-{seed}-{number}")
    chosen: dict[str, str] = {}

    def argument(found: re.Match[str]) -> str:
        # Mostly another one each time: what is compared with itself is not telling.
        kind = found[1]
        if kind not in chosen or dice.random() < 0.7:
            chosen[kind] = dice.choice(_ARGUMENTS[kind])
        return chosen[kind]

    return _TOLD.format(re.sub(r"<(\w+)>", argument, _CALLS[(97 * seed + number) % len(_CALLS)]))
