"""What the most expensive legal policies cost the operator and `berth policy lint`: CPU, and memory at its peak.

`python -m bench.hostile_policies [--shape NAME]… [-o json]`. Each shape is a namespace's policies, all within the CRD's
bounds. Each is looked at by a process of its own, so that a peak is that shape's: policies are read and judged as the
operator does it (the conditions of every policy), and analysed as lint does it. CPU is the process's own time, so
neighbours on the machine do not count. `rows()` is for other tables.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from podberth.model.selectors import Requirement
from podberth.policy.analyse import Report, analyse
from podberth.policy.operator import judge
from podberth.policy.operator.reconcile import entry, read_all, too_large
from podberth.policy.parse import parse
from podberth.policy.spec import MAX_CRITERIA, MAX_RULES, MAX_VALUES, MAX_WRITES, Policies

Object = dict[str, Any]
MOST_BYTES = 1_500_000
"""etcd takes no larger request (--max-request-bytes)."""


class Row(NamedTuple):
    """What one shape cost. Peaks are what the process grew by, in MB."""

    shape: str
    policies: int
    kilobytes: int
    operator_cpu: float
    operator_peak: float
    operator_says: str
    lint_cpu: float
    lint_peak: float
    lint_says: str


# -- shapes ----------------------------------------------------------------------------------------------------------


def policy(name: str, rules: Iterable[Object]) -> Object:
    """A policy as the API server stores it."""
    metadata = {"name": name, "namespace": "team", "uid": f"uid-{name}", "resourceVersion": "1", "generation": 1}
    return {
        "apiVersion": "podberth.dev/v1alpha1",
        "kind": "MetadataPolicy",
        "metadata": metadata,
        "spec": {"mode": "enforce", "rules": [*rules]},
    }


def rule(labels: Iterable[Object] = (), *, writes: dict[str, str] | None = None) -> Object:
    """A rule that writes labels, or rejects."""
    action: Object = {"reject": True} if writes is None else {"updatedLabels": writes}
    return {"policyPredicate": {"labelSelector": {"matchExpressions": [*labels]}}, "policyAction": action}


def one(key: str, operator: str, *values: str) -> Object:
    """A criterion."""
    return {"key": key, "operator": operator, "values": [*values]} if values else {"key": key, "operator": operator}


def split(rules: Iterable[Object], name: str = "p") -> list[Object]:
    """Rules as policies that hold as many as are allowed."""
    return [policy(f"{name}{i:05}", part) for i, part in enumerate(_chunks(rules, MAX_RULES))]


def values(number: int, operator: str = "NotIn") -> list[Object]:
    """So many values of one key in one policy, a selector taking as many as it may."""
    listed = (one("k", operator, *part) for part in _chunks((f"v{i}" for i in range(number)), MAX_VALUES))
    return split(rule(part) for part in _chunks(listed, MAX_CRITERIA))


def sorts(rules: int) -> list[Object]:
    """Every value in other rules than every other one, so that none stands for another; half reject, half write."""

    def criterion(i: int, x: int) -> Object:
        listed = (f"v{(37 * i + y * (i + 3) + x) % 2000}" for y in range(MAX_VALUES))
        return one(f"k{x}", "NotIn", *dict.fromkeys(listed))

    return split(
        rule((criterion(i, x) for x in range(MAX_CRITERIA)), writes=None if i % 2 else {f"k{i % 16}": f"w{i}"})
        for i in range(rules)
    )


def names(rules: int) -> list[Object]:
    """Every criterion and every write on a key of its own."""
    return split(
        rule(
            (one(f"k{i}-{x}", "DoesNotExist") for x in range(MAX_CRITERIA)),
            writes={f"w{i}-{x}": "y" for x in range(MAX_WRITES)},
        )
        for i in range(rules)
    )


def writers(rules: int, different: int) -> list[Object]:
    """Rules about every object that write one key, with so many different values."""
    return split(rule(writes={"team": f"t{i % different}"}) for i in range(rules))


def rejects(rules: int) -> list[Object]:
    """Rules that reject one value of one key each."""
    return split(rule([one("k", "In", f"v{i}")]) for i in range(rules))


def pigeons(number: int) -> list[Object]:
    """One pigeon more than there are holes, as rules: an object that is accepted would put two into one."""
    holes = [f"h{i}" for i in range(number - 1)]
    keys = [f"pigeon-{i}" for i in range(number)]
    found = [rule([one(key, "NotIn", *holes)]) for key in keys]
    found += [
        rule([one(first, "In", hole), one(second, "In", hole)])
        for first, second in itertools.combinations(keys, 2)
        for hole in holes
    ]
    found += [rule([one("a", "DoesNotExist")], writes={"b": f"x{i}"}) for i in range(8)]
    return split(found)


def chain(rules: int) -> list[Object]:
    """Each rule writes what the next one waits for, and one rejects what comes out at the end."""
    found = [rule([one(f"k{i}", "Exists")], writes={f"k{i + 1}": "x"}) for i in range(rules - 1)]
    return split([*found, rule([one(f"k{rules - 1}", "Exists")])])


def required(rules: int) -> list[Object]:
    """Keys that every object has to have, so that every example is long; and writes that differ."""
    found = [rule([one(f"k{i}", "NotIn", *(f"{i}-{x}" * 8 for x in range(8)))]) for i in range(rules // 2)]
    return split([*found, *(rule(writes={"team": f"t{i}"}) for i in range(rules // 2))])


def largest(policies: int) -> list[Object]:
    """Policies that are each as large as etcd lets an object be."""
    text = "x" * 660
    return [
        policy(
            f"p{j}",
            [
                {
                    "policyPredicate": {
                        "annotationSelector": {
                            "matchExpressions": [
                                one(f"k{x}", "In", *(f"{j}.{i}.{y}{text}" for y in range(MAX_VALUES))) for x in range(2)
                            ]
                        }
                    },
                    "policyAction": {"reject": True},
                }
                for i in range(32)
            ],
        )
        for j in range(policies)
    ]


SHAPES: dict[str, Callable[[], list[Object]]] = {
    "one policy, 1,000 values": lambda: values(1000),
    "one policy, 4,000 values": lambda: values(4000),
    "one policy, 32,768 values": lambda: values(MAX_RULES * MAX_CRITERIA * MAX_VALUES),
    "one policy, every value of a sort of its own": lambda: sorts(MAX_RULES),
    "one policy, 3,072 keys": lambda: names(MAX_RULES),
    "four policies, 12,288 keys": lambda: names(4 * MAX_RULES),
    "one policy, 64 writers of one key": lambda: writers(MAX_RULES, MAX_RULES),
    "32 policies, 2,048 writers of one key": lambda: writers(32 * MAX_RULES, 2),
    "100 policies, 6,400 rejects": lambda: rejects(100 * MAX_RULES),
    "ten pigeons in nine holes": lambda: pigeons(10),
    "a chain of 512 rules": lambda: chain(512),
    "long examples": lambda: required(8 * MAX_RULES),
    "1,000 policies of one rule": lambda: [
        policy(f"p{i}", [rule(writes={f"k{i % 100}": f"v{i}"})]) for i in range(1000)
    ],
    "four of the largest policies": lambda: largest(4),
    "150 policies of 32 KB": lambda: [document for i in range(150) for document in _renamed(sorts(6), f"n{i}")],
}


# -- measuring -------------------------------------------------------------------------------------------------------


def rows(names: Iterable[str] = SHAPES) -> list[Row]:
    """One row for each shape, by its name."""
    context = multiprocessing.get_context("spawn")
    found = []
    for name in names:
        with context.Pool(1) as pool:
            operator = pool.apply(_operator, (name,))
        with context.Pool(1) as pool:
            lint = pool.apply(_lint, (name,))
        documents = SHAPES[name]()
        size = sum(len(json.dumps(document, separators=(",", ":"))) for document in documents)
        found.append(Row(name, len(documents), size // 1000, *operator, *lint))
    return found


def _operator(name: str) -> tuple[float, float, str]:
    raw = [json.dumps(document) for document in SHAPES[name]()]

    def work() -> str:
        entries = [entry({"metadata": {"uid": ""}, **json.loads(text)}) for text in raw]
        if too_large(sum(one.size for one in entries), sum(one.texts for one in entries)):
            return "not looked at"
        stored = read_all(text.encode() for text in raw)
        told = judge.findings(stored).told
        said = [judge.conditions(item, told.get(item.name, judge.NOTHING_TOLD), frozenset()) for item in stored]
        whys = {condition.reason for conditions in said for condition in conditions}
        return "undecided" if "Undecided" in whys else "decided"

    return _measured(work)


def _lint(name: str) -> tuple[float, float, str]:
    raw = [json.dumps(document) for document in SHAPES[name]()]

    def work() -> str:
        criteria: dict[Requirement, Requirement] = {}
        report: Report = analyse(Policies(parse(json.loads(text), criteria=criteria) for text in raw))
        return f"{len(report.findings)} findings" + ("" if report.decided else ", undecided")

    return _measured(work)


def _measured(work: Callable[[], str]) -> tuple[float, float, str]:
    before, started = _peak(), time.process_time()
    said = work()
    return time.process_time() - started, _peak() - before, said


def _peak() -> float:
    """Of this program alone: what getrusage says begins with the peak of whoever started it."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def _chunks(items: Iterable[Any], size: int) -> Iterable[list[Any]]:
    rest = iter(items)
    while part := [*itertools.islice(rest, size)]:
        yield part


def _renamed(documents: list[Object], name: str) -> list[Object]:
    return [policy(f"{name}-{i}", document["spec"]["rules"]) for i, document in enumerate(documents)]


def table(found: Iterable[Row]) -> str:
    """The rows for people."""
    head = ("SHAPE", "POLICIES", "KB", "OPERATOR CPU s", "PEAK MB", "SAYS", "LINT CPU s", "PEAK MB", "SAYS")
    lines = [head, *(tuple(f"{v:.2f}" if isinstance(v, float) else str(v) for v in row) for row in found)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--shape", action="append", choices=[*SHAPES], help="only this one; may be repeated")
    parser.add_argument("-o", "--output", choices=["table", "json"], default="table")
    given = parser.parse_args()
    found = rows(given.shape or SHAPES)
    print(table(found) if given.output == "table" else json.dumps([row._asdict() for row in found], indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
