"""Prints the answers of `berth config`."""

from collections.abc import Mapping, Sequence
from textwrap import fill

from podberth.explain.lint.finding import Example, Finding
from podberth.explain.report.wording import count, printable

_WIDTH = 100


def findings(found: Mapping[str, Sequence[Finding]]) -> str:
    """A paragraph for each finding: where, what, why, what to do; then how many there are."""
    paragraphs = [_paragraph(file, finding) for file, each in found.items() for finding in each]
    total = sum(map(len, found.values()))
    summary = f"{count(len(found), 'file')}, {count(total, 'finding') if total else 'nothing found'}"
    return _printable_lines("\n\n".join([*paragraphs, summary]))


def _printable_lines(text: str) -> str:
    """Lines of text with whatever would steer a terminal made visible."""
    return "".join(f"{printable(line)}\n" for line in text.split("\n"))


def _paragraph(file: str, finding: Finding) -> str:
    lines = [f"{file}: {finding.path}: {finding.code}", _wrapped(f"{finding.what[:1].upper()}{finding.what[1:]}.")]
    lines += [_wrapped(finding.why), _wrapped(finding.remedy)]
    if finding.example is not None:
        lines += _example(finding.example)
    return "\n".join(lines)


def _example(example: Example) -> list[str]:
    plugins = list(dict.fromkeys(name for node in example.nodes for name in node.scores))
    rows = [["node", *plugins, "total"]]
    for node in example.nodes:
        sign = " (meant)" if node.node == example.intended else " (chosen)"
        rows.append([node.node + sign, *(str(node.scores.get(name, 0)) for name in plugins), str(node.total)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    table = [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return [_wrapped(f"Example: {example.scene}."), *(f"    {line}" for line in table)]


def _wrapped(text: str) -> str:
    return fill(text, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_long_words=False)
