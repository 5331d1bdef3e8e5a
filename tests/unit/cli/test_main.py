"""The command itself: help, version, laziness, and clean ends."""

import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from scheduler import __version__
from scheduler.cli import errors
from scheduler.cli.commands import COMMANDS, imported
from tests.unit.cli.conftest import Berth


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_version(berth: Berth, arguments: list[str]) -> None:
    """One line on stdout."""
    found = berth(*arguments)
    assert (found.code, found.out, found.err) == (0, f"berth {__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_lists_the_commands(berth: Berth, arguments: list[str]) -> None:
    """Every command with its summary."""
    found = berth(*arguments)
    assert found.code == 0
    for name in COMMANDS:
        assert f" {name} " in found.out


def test_help_of_a_command(berth: Berth) -> None:
    """Options and exit codes are told."""
    found = berth("explain", "--help")
    assert found.code == 0
    for words in ("--cluster", "--cases", "exit code"):
        assert words in found.out


@pytest.mark.parametrize("arguments", [["-h"], ["explain", "-h"], ["policy", "eval", "-h"], ["config", "lint", "-h"]])
def test_help_is_short_too(berth: Berth, arguments: list[str]) -> None:
    """-h is --help, for every command."""
    found = berth(*arguments)
    assert (found.code, found.err) == (0, "")
    assert found.out == berth(*arguments[:-1], "--help").out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_imported_and_explains_itself(berth: Berth, name: str) -> None:
    """A command in the list has its module."""
    assert berth(name, "--help").code == 0


def _commands(command: Any) -> Iterator[Any]:
    """A command, or those of a group."""
    below = getattr(command, "commands", None)
    if below is None:
        yield command
    for each in (below or {}).values():
        yield from _commands(each)


@pytest.mark.parametrize("name", COMMANDS)
def test_answers_come_in_the_same_forms(name: str) -> None:
    """Whatever has a form can be had as JSON and as YAML; what is no file by itself, as a table unless one asks."""
    for command in _commands(typer.main.get_command(imported(name))):
        for option in (each for each in command.params if "-o" in each.opts):
            forms = set(map(str, option.type_descriptor.choices))
            assert {"json", "yaml"} <= forms <= {"json", "yaml", "table", "html"}, command.name
            assert str(option.default) == ("table" if "table" in forms else "yaml"), command.name


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explian"], "berth: no such command 'explian'. Did you mean 'explain'? (see berth --help)"),
        (["version", "--foo"], "berth: no such option: --foo (see berth version --help)"),
        (["explain", "-o", "xml", "p"], "berth: invalid value for '-o' / '--output'"),
        (["explain"], "berth: name a pod, give one with -f FILE, or ask about all with --pending"),
    ],
)
def test_wrong_usage_is_one_line(berth: Berth, arguments: list[str], said: str) -> None:
    """Exit code 2, and one line that says where to look."""
    found = berth(*arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(said)
    assert len(found.err.splitlines()) == 1


def test_help_and_version_import_nothing_heavy() -> None:
    """Neither numpy nor a Kubernetes client is loaded before a command needs it."""
    code = (
        "import sys; from scheduler.cli.main import run; run(['version']); assert 'typer' not in sys.modules;"
        "run(['--help']); sys.exit(any(m in sys.modules for m in ('numpy', 'kubernetes', 'aiohttp', 'yaml')))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (typer.Abort(), 130), (typer.Exit(1), 1)],
)
def test_ends(error: BaseException, code: int) -> None:
    """An interrupt and an exit end with their codes and no words."""

    def fails() -> int:
        raise error

    assert errors.guard(fails) == code


def test_a_bug_is_not_hidden() -> None:
    """What is not about input comes out as it is."""

    def fails() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        errors.guard(fails)


def test_control_characters_in_complaints_are_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    """A name with an escape sequence does not reach the terminal as one."""
    errors.complain(["pod a\x1b[2Jb"])
    assert capsys.readouterr().err == "berth: pod a�[2Jb\n"


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    """`berth … | head -1` leaves no traceback, and nor does a reader that went before the first byte."""
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"id": "x"}\n' * 20_000, encoding="utf-8")
    command = Path(sysconfig.get_path("scripts")) / "berth"
    with subprocess.Popen(
        [command, "explain", "--cases", cases], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == errors.PIPE_CLOSED


def test_a_terminal_without_unicode(berth: Berth) -> None:
    """What it can't show becomes a question mark, not a traceback."""
    command = [str(Path(sysconfig.get_path("scripts")) / "berth"), "explain", "web", "--cluster", "cluster.json"]
    found = subprocess.run(command, capture_output=True, env={"PYTHONIOENCODING": "ascii"}, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout.startswith(b"? shop/web goes to a-2")
