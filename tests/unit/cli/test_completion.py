"""Completion: what may come next, in real shells, and as kubectl asks for it."""

import os
import pty
import select
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from podberth.cli.commands import COMMANDS
from tests.unit.cli.conftest import Berth

SCRIPTS = Path(sysconfig.get_path("scripts"))
ASK = """\
COMP_WORDS=({words} "$1"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_berth_complete
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "wanted", "last"),
    [
        ([""], set(COMMANDS), ":4"),
        (["ex"], {"explain"}, ":4"),
        (["config", ""], {"view", "lint"}, ":4"),
        (["policy", "im"], {"impact"}, ":4"),
        (["explain", "--clu"], {"--cluster"}, ":4"),
        (["explain", "-o", ""], {"table", "json", "yaml", "html"}, ":4"),
        (["explain", "web", "--output", "=", "js"], {"json"}, ":4"),
        (["explain", "--namespace", ""], set(), ":4"),
        (["simulate", "-f", ""], set(), ":0"),
        (["config", "lint", ""], set(), ":0"),
        (["explain", ""], set(), ":4"),
        (["completion", ""], set(), ":4"),
        (["nothing", "--x"], set(), ":4"),
    ],
)
def test_what_may_come_next(berth: Berth, words: list[str], wanted: set[str], last: str) -> None:
    """Commands, options and values; files where a file is asked for."""
    *found, end = berth("__complete", *words).out.splitlines()
    assert ({line.partition("\t")[0] for line in found}, end) == (wanted, last)


def test_every_command_can_be_completed(berth: Berth) -> None:
    """All have options, and each has a description."""
    for name in COMMANDS:
        *found, end = berth("__complete", name, "--").out.splitlines()
        assert end == ":4" and "--help" in {line.partition("\t")[0] for line in found}
        assert all(line.partition("\t")[2] for line in found), name


@pytest.mark.parametrize(("words", "wanted"), [("berth", "explain"), ("berth explain -o", "json")])
def test_bash_completes(tmp_path: Path, words: str, wanted: str) -> None:
    """The script that is printed, in a real shell."""
    environment = os.environ | {"PATH": f"{SCRIPTS}:{os.environ['PATH']}"}
    script = "source <(berth completion bash)\n" + ASK.format(words=words)
    done = subprocess.run(
        ["bash", "-c", script, "bash", wanted[:2]], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.stdout.split(), done.stderr) == ([wanted], "")


def test_bash_completes_files(tmp_path: Path) -> None:
    """Where a file is asked for, those of the directory."""
    (tmp_path / "web.yaml").touch()
    environment = os.environ | {"PATH": f"{SCRIPTS}:{os.environ['PATH']}"}
    script = "source <(berth completion bash)\n" + ASK.format(words="berth simulate -f")
    done = subprocess.run(["bash", "-c", script, "bash", "we"], env=environment, cwd=tmp_path, capture_output=True)
    assert done.stdout.split() == [b"web.yaml"]


def test_kubectl_asks_the_same_way() -> None:
    """kubectl runs kubectl_complete-NAME with the words after the plugin's name, and reads cobra's own protocol."""
    done = subprocess.run([SCRIPTS / "kubectl_complete-berth", "expl"], capture_output=True, text=True)
    line, end = done.stdout.splitlines()
    assert (line.partition("\t")[0], end) == ("explain", ":4")


TYPED = [
    ("berth expl", "berth explain"),
    ("berth config li", "berth config lint"),
    ("berth explain -o js", "berth explain -o json"),
    ("berth explain --clu", "berth explain --cluster"),
    ("berth simulate -f we", "berth simulate -f web.yaml"),
]
"""What is typed before the tab key → the line after it."""
ZSHRC = {
    "sourced": "autoload -Uz compinit && compinit -D -u\nsource <(berth completion zsh)",
    "found by fpath": "fpath=($ZDOTDIR $fpath)\nautoload -Uz compinit && compinit -D -u",
}
"""The two ways in which zsh gets to know a completion."""
SHOW = "show() { print -rn -- \"<<<$BUFFER>>>\" }\nzle -N show\nbindkey '^X' show\nPROMPT='READY '\n"


def installed(shell: str) -> str:
    """Where a shell is; the test says so when it is nowhere, and `test_other_shells` reads its script all the same."""
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed here, so its completion was read and not run")
    return found


def environment(directory: Path) -> dict[str, str]:
    """With our own berth, and without the user's own files."""
    path = f"{SCRIPTS}:{os.environ['PATH']}"
    return os.environ | {"PATH": path, "HOME": str(directory), "ZDOTDIR": str(directory), "TERM": "dumb"}


def until(terminal: int, wanted: bytes) -> str:
    """What a terminal shows up to something."""
    shown = b""
    while wanted not in shown:
        ready, _, _ = select.select([terminal], [], [], 60)
        assert ready, shown
        shown += os.read(terminal, 4096)
    return shown.decode()


def typed_in_zsh(directory: Path, keys: str) -> str:
    """What a real zsh at a terminal shows after its prompt for these keys, up to the line it then holds."""
    terminal, other = pty.openpty()
    command = [installed("zsh"), "-o", "NO_GLOBAL_RCS", "-i"]
    try:
        shell = subprocess.Popen(
            command,
            stdin=other,
            stdout=other,
            stderr=other,
            env=environment(directory),
            cwd=directory,
            start_new_session=True,
        )
    finally:
        os.close(other)
    try:
        until(terminal, b"READY ")
        os.write(terminal, f"{keys}\x18".encode())
        return until(terminal, b">>>")
    finally:
        os.close(terminal)
        shell.kill()
        shell.wait()


@pytest.mark.parametrize("way", ZSHRC)
def test_zsh_completes(tmp_path: Path, berth: Berth, way: str) -> None:
    """The script that is printed, in a real zsh at a terminal; also the first time that it is loaded."""
    installed("zsh")
    (tmp_path / "_berth").write_text(berth("completion", "zsh").out)
    (tmp_path / ".zshrc").write_text(f"{ZSHRC[way]}\n{SHOW}")
    (tmp_path / "web.yaml").touch()
    tried = TYPED if way == "sourced" else TYPED[:1]
    lines = [typed_in_zsh(tmp_path, f"{keys}\t").rpartition("<<<")[2] for keys, _ in tried]
    assert [line.removesuffix(">>>").rstrip() for line in lines] == [wanted for _, wanted in tried]


def test_zsh_lists_what_may_come_next(tmp_path: Path) -> None:
    """Values stand alone where there is nothing to say of them; colons of a description stay."""
    (tmp_path / ".zshrc").write_text(f"{ZSHRC['sourced']}\n{SHOW}")
    values = typed_in_zsh(tmp_path, "berth explain -o \t")
    assert "json" in values and "-- json" not in values
    assert "Show why a pod goes to a node, or to none: every node" in typed_in_zsh(tmp_path, "berth e\t")


def test_fish_completes(tmp_path: Path) -> None:
    """The script that is printed, in a real fish, which is asked as its tab key asks it."""
    fish = installed("fish")
    (tmp_path / "web.yaml").touch()
    for keys, wanted in TYPED:
        script = f"berth completion fish | source; complete -C {shlex.quote(keys)}"
        done = subprocess.run(
            [fish, "--no-config", "-c", script],
            env=environment(tmp_path),
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        offered = [line.partition("\t")[0] for line in done.stdout.splitlines()]
        assert (offered, done.stderr) == ([wanted.rpartition(" ")[2]], ""), keys


@pytest.mark.parametrize(
    ("shell", "parts"),
    [
        ("zsh", ["#compdef berth", '__complete "${(@)words[2,$CURRENT]}"', "_describe berth values", "_files"]),
        ("fish", ["__complete $words[2..-1]", "__fish_complete_path", "complete -c berth -f -a '(__berth_complete)'"]),
    ],
)
def test_other_shells(berth: Berth, shell: str, parts: list[str]) -> None:
    """Where these shells are not, their scripts are read at least."""
    text = berth("completion", shell).out
    assert [part for part in parts if part not in text] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "big", "-n", "shop"],
        ["explain", "--pending", "-A"],
        ["capacity", "-f", "pod.yaml"],
        ["simulate", "-f", "pod.yaml"],
    ],
)
def test_yaml_says_what_json_says(berth: Berth, arguments: list[str]) -> None:
    """The same answer in both forms."""
    import json

    import yaml

    Path("pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}"
    )
    as_yaml = berth(*arguments, "--cluster", "cluster.json", "-o", "yaml").out
    assert yaml.safe_load(as_yaml) == json.loads(berth(*arguments, "--cluster", "cluster.json", "-o", "json").out)
    assert "!!" not in as_yaml and "&id" not in as_yaml
