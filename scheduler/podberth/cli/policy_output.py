"""Prints the answers of `berth policy`: tables for people, JSON for machines."""

import sys
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.table import Table

from podberth.explain.report.tables import console_for
from podberth.explain.report.wording import count, printable
from podberth.policy.findings import Finding
from podberth.policy.impact import Impact

_NAMES = 6
_EXAMPLE = 1000
"""Characters of an example that a table shows."""


def verdict(got: dict[str, Any]) -> None:
    """The verdict on one object."""
    print("allowed" if got["allowed"] else printable(f"denied: {got['message']}"))
    for operation in got["patch"]:
        value = msgspec.json.encode(operation["value"]).decode()
        print(printable(f"  {operation['op']} {operation['path']} {value}"))
    for warning in got["warnings"]:
        print(printable(f"warning: {warning}"))


def findings(found: Sequence[Finding], policies: int) -> None:
    """Print what lint found: one row each, and the example object below."""
    if not found:
        print(f"{_policies(policies)}, nothing found")
        return
    table = Table("FINDING", "RULES", "WHAT", box=SIMPLE_HEAD, pad_edge=False)
    for finding in found:
        table.add_row(finding.kind, printable(_named(finding.rules or finding.policies)), _told(finding))
    _print(table)
    print(f"{_policies(policies)}, {count(len(found), 'finding')}")


def impact(found: Impact) -> None:
    """The counts of an impact preview."""
    total = found.total
    print(
        f"{total.objects} objects: {total.rejected} would be rejected, {total.relabelled} relabelled, "
        f"{total.exempt} exempt"
    )
    kinds = Table("KIND", "OBJECTS", "REJECTED", "RELABELLED", "EXEMPT", box=SIMPLE_HEAD, pad_edge=False)
    for name, kind in sorted(found.kinds.items()):
        kinds.add_row(printable(name), *map(str, (kind.objects, kind.rejected, kind.relabelled, kind.exempt)))
    _print(kinds)
    policies = Table("POLICY", "REJECTS", "RELABELS", box=SIMPLE_HEAD, pad_edge=False)
    for name, effects in sorted(found.policies.items()):
        policies.add_row(printable(name), str(effects.rejected), str(effects.relabelled))
    _print(policies)
    if found.schedulers:
        moves = Table("SCHEDULER NOW", "THEN", "PODS", box=SIMPLE_HEAD, pad_edge=False)
        for now, targets in sorted(found.schedulers.items()):
            for then, pods in sorted(targets.items()):
                moves.add_row(printable(now), "stays" if then == now else printable(then), str(pods))
        _print(moves)
    for rejection in found.rejections:
        name = f"{rejection.kind} {rejection.namespace}/{rejection.name}"
        print(printable(f"rejected: {name}: {rejection.message}"))
    for loss in found.losses:
        name = f"{loss.kind} {loss.namespace}/{loss.name}"
        print(printable(f'{name} would not find what it makes: {loss.policy} writes label {loss.label}="{loss.value}"'))
    for warning, objects in found.warnings.items():
        print(printable(f"warning for {objects} objects: {warning}"))


def tests(results: Sequence[dict[str, Any]]) -> None:
    """One line for each case, and below a failed one what differs."""
    failed = 0
    for result in results:
        failed += bool(result["failures"])
        sign = "✗" if result["failures"] else "✓"
        print(printable(f"{sign} {result['file']}: {result['name']}"))
        for failure in result["failures"]:
            print(printable(f"    {failure}"))
    print(f"{len(results) - failed} passed, {failed} failed")


def _policies(number: int) -> str:
    return f"{number} {'policy' if number == 1 else 'policies'}"


def _print(table: Table) -> None:
    console = console_for(sys.stdout)
    with console.capture() as captured:
        console.print(table)
    kept = [line.rstrip() for line in captured.get().splitlines()]
    print("\n".join(line for line in kept if line))


def _named(names: Sequence[str]) -> str:
    """The names, or the first few of many."""
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more


def _told(finding: Finding) -> str:
    if finding.example is None:
        return printable(finding.message)
    shown = {"kind": finding.example["kind"]}
    metadata = finding.example["metadata"]
    shown |= {field: metadata[field] for field in ("labels", "annotations") if field in metadata}
    containers = finding.example.get("spec", {}).get("containers", [])
    shown |= {field: value for container in containers for field, value in container.items() if field == "resources"}
    example = msgspec.json.encode(shown).decode()
    if len(example) > _EXAMPLE:
        example = f"{example[:_EXAMPLE]}… (-o json shows all of it)"
    return printable(f"{finding.message}. Example: {example}")
