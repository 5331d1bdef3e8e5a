"""`berth config`: what a configuration comes to, what is wrong with it, and the schema by which editors check one.

None of them needs a cluster.
"""

import sys
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Annotated

import typer

from podberth.cli.errors import FOUND, InputError, about
from podberth.cli.inputs import configuration, named, world
from podberth.cli.output import DataOutput, Output, as_data
from podberth.explain.lint.checks import lint as checked
from podberth.explain.lint.finding import Example, Finding
from podberth.explain.lint.settings import between_files
from podberth.explain.report.wording import count, printable
from podberth.framework.profiles import effective
from podberth.framework.schema import configuration_schema
from podberth.plugins.registry import registry

_WIDTH = 100
DEFAULTS = "the defaults"


def findings(found: Mapping[str, Sequence[Finding]]) -> str:
    """Return a paragraph for each finding: where, what, why, what to do; then how many there are."""
    paragraphs = [_paragraph(file, finding) for file, each in found.items() for finding in each]
    total = sum(map(len, found.values()))
    summary = f"{count(len(found), 'file')}, {count(total, 'finding') if total else 'nothing found'}"
    return _printable_lines("\n\n".join([*paragraphs, summary]))


def _printable_lines(text: str) -> str:
    """Return lines of text with whatever would steer a terminal made visible."""
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


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="Print a configuration with all defaults filled in, and find mistakes in it.",
)


@app.command()
def view(
    file: Annotated[
        str | None,
        typer.Argument(
            help="The KubeSchedulerConfiguration file; - is standard input. Without one: the defaults.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", help="The same file, given as `berth run` takes it.")
    ] = None,
    output: Annotated[DataOutput, typer.Option("-o", "--output", help="The form of the answer.")] = DataOutput.YAML,
) -> None:
    """Print the effective configuration: every default filled in, and the plugins of each profile by extension point.

    What is printed is a configuration again, and means the same.
    """
    if file is not None and config is not None:
        raise InputError(f"{file} and --config {config}: give one file to view")
    path = config if file is None else file
    settings = configuration(path)
    with about(named(path) if path else "configuration"):
        found = effective(settings, registry())
    as_data(found, output)


@app.command()
def lint(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            help="KubeSchedulerConfiguration files; - is standard input. Without any: the defaults.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="Another of these files, given as `berth run` takes it; may be repeated."),
    ] = None,
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            help="A dump of the cluster that the configuration is for: `kubectl get nodes,pods,ns -A -o json`."
        ),
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="The form of the answer.")] = Output.TABLE,
) -> int:
    """Find settings that are valid and do not do what they seem to do: unknown plugins, weights that never decide.

    The exit code is 0 when nothing is found, 1 when something is, 2 when a file is not valid.
    """
    known, there = registry(), world(cluster) if cluster else None
    errors: list[str] = []
    found: dict[str, list[Finding]] = {}
    read = {}
    paths: list[str | None] = list(dict.fromkeys((*(files or ()), *(config or ())))) or [None]
    for path in paths:
        name = named(path) if path else DEFAULTS
        try:
            read[name] = configuration(path)
            with about(name):
                found[name] = checked(read[name], known, there)
        except InputError as error:
            errors += str(error).splitlines()
    if errors:
        raise InputError("\n".join(errors))
    for name, finding in between_files(read):
        found[name].append(finding)
    if output is not Output.TABLE:
        as_data({"files": [{"file": name, "findings": list(each)} for name, each in found.items()]}, output)
    else:
        sys.stdout.write(findings(found))
    return FOUND if any(found.values()) else 0


@app.command()
def schema() -> None:
    """Print the JSON Schema of a configuration, by which an editor completes and checks one.

    It knows the arguments of Berth's plugins and of those of installed packages. Write it to a file, and name the file
    in the first line of the configuration: # yaml-language-server: $schema=FILE
    """
    known = registry()
    with about("plugins"):
        plugins = {name: known[name] for name in known}
    as_data(configuration_schema(plugins), DataOutput.JSON)
