"""The forms of an answer, and what prints them."""

import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from podberth.cli.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from podberth.explain.report.parts import Report


class Output(StrEnum):
    """Forms of an answer: for people, or for machines."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class PageOutput(StrEnum):
    """Forms of an answer: for people, for machines, or as a page to pass on."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    HTML = "html"


class DataOutput(StrEnum):
    """Forms of an answer for machines, and for kubectl to apply."""

    YAML = "yaml"
    JSON = "json"


def private(path: str) -> BinaryIO:
    """Return a new file that only its owner may read, so that nobody has it open who could read an older one.

    Raises InputError, also for what is no file: a device would be gone for all.
    """
    try:
        target = replaceable(path)
        target.unlink(missing_ok=True)
        return os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or type(error).__name__).lower()}") from None


def replaceable(path: str) -> Path:
    """Return where a file is that may be written anew, behind any link. Raises InputError, OSError."""
    if path == "-":
        raise InputError(f"{path}: expected the name of a file: standard output has the answer")
    target = Path(path).resolve()
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        raise InputError(f"{path}: expected the name of a file, got a {'directory' if target.is_dir() else 'device'}")
    return target


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Show what is being done while the block runs, and what the given function is told; on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as status:
        yield status.update


def as_data(answer: Any, output: Output | PageOutput | DataOutput) -> None:
    """Print an answer for machines: as YAML where that is asked for, else as JSON."""
    import msgspec

    if output == Output.YAML:
        sys.stdout.write(yaml_of(msgspec.to_builtins(answer)))
        return
    as_json(msgspec.json.format(msgspec.json.encode(answer)))


def as_json(raw: bytes) -> None:
    """Print a JSON text, and the end of a line, with nothing in it that a terminal obeys."""
    from podberth.explain.report.wording import escaped

    sys.stdout.write(f"{escaped(raw.decode())}\n")


def yaml_of(document: Any, width: int = 80) -> str:
    """Return a document as YAML, in which what is there twice is written twice."""
    import yaml

    from podberth.explain.report.wording import visible

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def analyze_scalar(self, scalar: str) -> Any:
            """Quote what has characters that a terminal obeys."""
            found = super().analyze_scalar(scalar)
            if visible(scalar) != scalar:
                found.allow_flow_plain = found.allow_block_plain = False
                found.allow_single_quoted = found.allow_block = False
            return found

        def write_double_quoted(self, text: str, split: bool = True) -> None:
            """And write them as escapes."""
            self.allow_unicode = visible(text) == text
            super().write_double_quoted(text, split)
            self.allow_unicode = True

    return str(yaml.dump(document, Dumper=Plain, sort_keys=False, allow_unicode=True, width=width))


def as_report(answer: Any, output: Output | PageOutput, *, fitted: bool = False, **how: bool) -> None:
    """Print an answer of `podberth.explain` in the form that was asked for. `how`: its report is made; `fitted`: to the
    width of the terminal, too.
    """
    from podberth.explain.report import report_of

    def report(paged: bool) -> "Report":
        from podberth.explain.report.terminal import console_for

        width = {"width": console_for(sys.stdout).width} if fitted and not paged else {}
        return report_of(answer, **how, **width)

    as_asked(answer, output, report)


def as_asked(answer: Any, output: Output | PageOutput, report: "Callable[[bool], Report]") -> None:
    """Print an answer in the form that was asked for. `report`: its report, for a page or else for a terminal; it is
    only made, and what draws it imported, where it is to be drawn.
    """
    if output in (Output.JSON, Output.YAML):
        as_data(answer, output)
    elif output == PageOutput.HTML:
        from podberth.explain.report.pages import page

        sys.stdout.write(page(report(True)))
    else:
        from podberth.explain.report.terminal import Drawn

        _print(Drawn(report(False)))


def as_cells(texts: Sequence[str], numbers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print a table that is in no report, columns of texts before those of numbers; nothing if it has no rows."""
    from rich.console import Group

    from podberth.explain.report.parts import Column, Rows
    from podberth.explain.report.terminal import rows

    columns = [*map(Column, texts), *(Column(title, number=True) for title in numbers)]
    _print(Group(*rows(Rows("", columns, cells, lambda row: row))))


def _print(table: "RenderableType") -> None:
    """Print what rich draws, as wide as the terminal, and without blanks at the ends of lines."""
    from podberth.explain.report.terminal import Visible, console_for

    console = console_for(sys.stdout)
    with console.capture() as captured:
        console.print(Visible(table), crop=False)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())
