"""The command itself: help, version, laziness, and clean ends."""

import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from podberth import __version__
from podberth.cli import errors
from podberth.cli.commands import COMMANDS, imported
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


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_imported_and_explains_itself(berth: Berth, name: str) -> None:
    """A command in the list has its module."""
    assert berth(name, "--help").code == 0


def _commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command, or those of a group, each with the words that name it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
    for name, each in (below or {}).items():
        yield from _commands(each, *path, name)


def _tree() -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name in COMMANDS:
        found |= dict(_commands(typer.main.get_command(imported(name)), name))
    return found


TREE = _tree()
LETTERS = {
    "-A": "--all-namespaces",
    "-f": "--filename",
    "-l": "--selector",
    "-n": "--namespace",
    "-o": "--output",
    "-s": "--scheduler-name",
}
"""What a letter stands for, as in kubectl; -s is of `berth bench` alone."""
OF_A_SERVICE = {"--drain", "--verify"}
"""Of `berth admission`, where it is a time, and of `berth run`, which verifies every Nth: what else has a name has one
meaning."""
ONE_TEXT = {"--context", "--request-timeout", "--scheduler", "--validate", "--log-level", "--cases", "--bind-address"}


@pytest.mark.parametrize("path", [(), *TREE], ids=" ".join)
def test_help_is_short_too(berth: Berth, path: tuple[str, ...]) -> None:
    """-h is --help, for every command."""
    found = berth(*path, "-h")
    assert (found.code, found.err) == (0, "")
    assert found.out == berth(*path, "--help").out


@pytest.mark.parametrize("path", TREE, ids=" ".join)
def test_help_names_no_type_of_python(berth: Berth, path: tuple[str, ...]) -> None:
    """Help names values by words such as FILE."""
    assert not re.search(r"<[a-z]|\bstr\b|\bbool\b|\bfloat\b", berth(*path, "-h").out)


@pytest.mark.parametrize("path", [(), ("config",), ("policy",), *TREE], ids=" ".join)
def test_help_fits_the_terminal(berth: Berth, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]) -> None:
    """On 80 columns, and nothing is cut: each option, value and text is there whole."""
    monkeypatch.setenv("COLUMNS", "80")
    found = berth(*path, "-h").out
    assert max(map(len, found.splitlines())) <= 80
    texts = [str(TREE[each].help).partition("\n\n")[0] for each in TREE if path and each[:-1] == path]
    texts += [] if path else COMMANDS.values()
    command = TREE.get(path)
    for option in command.params if command else ():
        values = [str(getattr(each, "value", each)) for each in option.type_descriptor.choices or ()]
        texts += [*(each for each in option.opts if each.startswith("-")), str(option.help), "|".join(values)]
    shown = " ".join(found.split())
    assert [text for text in texts if " ".join(text.split()) not in shown] == []


@pytest.mark.parametrize("group", ["config", "policy"])
def test_a_group_alone_shows_its_help(berth: Berth, group: str) -> None:
    """As kubectl's do: that is no mistake."""
    found = berth(group)
    assert (found.code, found.err) == (0, "")
    assert "Commands" in found.out


def test_letters_mean_the_same_everywhere() -> None:
    """Each stands for one long option; whoever has the long one has the letter."""
    for path, command in TREE.items():
        for option in command.params:
            letters = {LETTERS[each] for each in option.opts if len(each) == 2}
            assert letters == {each for each in option.opts if each in LETTERS.values()}, path


def _taken(option: Any) -> object:
    """The value that an option takes, once or several times."""
    annotation = option.type_descriptor.annotation
    return next(iter(get_args(annotation)), annotation)


def test_options_of_one_name_are_of_one_kind() -> None:
    """A flag is one everywhere, and what takes a number takes numbers everywhere; some have one text, too."""
    kinds: dict[str, set[object]] = {}
    texts: dict[str, set[str]] = {}
    for option in (each for command in TREE.values() for each in command.params):
        for name in (each for each in option.opts if each.startswith("--") and each not in OF_A_SERVICE):
            kinds.setdefault(name, set()).add("a form" if name == "--output" else _taken(option))
            texts.setdefault(name, set()).add(str(option.help))
    assert {name: each for name, each in kinds.items() if len(each) > 1} == {}
    assert {name: texts[name] for name in ONE_TEXT if len(texts[name]) > 1} == {}


def test_who_asks_a_cluster_takes_its_context() -> None:
    """--kubeconfig and --context come together; who reads a dump instead can say how long to wait for the cluster."""
    for path, command in TREE.items():
        names = {name for option in command.params for name in option.opts}
        assert ("--kubeconfig" in names) == ("--context" in names), path
        answers = {"--kubeconfig", "--cluster"} <= names
        assert not answers or "--request-timeout" in names, path


@pytest.mark.parametrize("path", TREE, ids=" ".join)
def test_answers_come_in_the_same_forms(path: tuple[str, ...]) -> None:
    """Whatever has a form can be had as JSON and as YAML; what is no file by itself, as a table unless one asks."""
    for option in (each for each in TREE[path].params if "-o" in each.opts):
        forms = set(map(str, option.type_descriptor.choices))
        assert {"json", "yaml"} <= forms <= {"json", "yaml", "table", "html"}
        assert str(option.default) == ("table" if "table" in forms else "yaml")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["simulat"], 'berth: no such command "simulat" (did you mean simulate?) (see berth --help)'),
        (["version", "--foo"], "berth: no such option: --foo (see berth version --help)"),
        (["explain", "-o", "xml", "p"], 'berth: invalid value for -o / --output: "xml" is not one of "table", "json"'),
        (["explain", "--clustre", "x"], "berth: no such option: --clustre (did you mean --cases, --cluster?) (see"),
        (["capacity"], "berth: missing option -f / --filename (see"),
        (["explain"], "berth: name a pod, give one with -f FILE, or ask about all with --pending"),
    ],
)
def test_wrong_usage_is_one_line(berth: Berth, arguments: list[str], said: str) -> None:
    """Exit code 2, and one line that says where to look."""
    found = berth(*arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(said)
    assert len(found.err.splitlines()) == 1


def test_help_names_the_fast_way_to_make_a_dump() -> None:
    """JSON: YAML takes ten times as long to read."""
    texts = [str(option.help) for command in TREE.values() for option in command.params if "--cluster" in option.opts]
    assert [text for text in texts if "-o yaml" in text] == []
    assert sum("-o json" in text for text in texts) >= 4


@pytest.mark.parametrize("form", ["jsonpath={.causes}", "go-template={{.kind}}", "custom-columns=A:.b", "name", "wide"])
@pytest.mark.parametrize(
    "path", [each for each in TREE if any("-o" in option.opts for option in TREE[each].params)], ids=" ".join
)
def test_forms_that_only_kubectl_has(berth: Berth, path: tuple[str, ...], form: str) -> None:
    """One line that names what does the same, for each command that has forms."""
    found = berth(*path, "-o", form)
    assert (found.code, found.out) == (2, "")
    said = re.escape(f'berth: invalid value for -o / --output: "{form}" is not one of ')
    assert re.fullmatch(
        rf'{said}("[a-z]+"(, )?)+; to take a part out of the answer: -o json \| jq \(see berth [a-z ]+ --help\)\n',
        found.err,
    )


def test_help_and_version_import_nothing_heavy() -> None:
    """Neither numpy nor a Kubernetes client is loaded before a command needs it."""
    code = (
        "import sys; from podberth.cli.main import run; run(['version']); assert 'typer' not in sys.modules;"
        "run(['--help']); sys.exit(any(m in sys.modules for m in ('numpy', 'kubernetes', 'aiohttp', 'yaml')))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0


@pytest.mark.parametrize("command", ["capacity", "explain", "simulate"])
def test_answers_about_a_dump_import_no_server(command: str) -> None:
    """The rules of the embedded API server are read, and neither it nor aiohttp, which take as long as all the rest."""
    code = f"import sys, podberth.cli.{command}; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
    """An exception that is not about input comes out as it is."""

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
    """A sign that it can't show becomes a question mark, not a traceback."""
    command = [str(Path(sysconfig.get_path("scripts")) / "berth"), "explain", "web", "--cluster", "cluster.json"]
    found = subprocess.run(command, capture_output=True, env={"PYTHONIOENCODING": "ascii"}, check=False)
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout.startswith(b"? shop/web goes to a-2")
