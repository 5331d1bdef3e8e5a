"""Completion: what may come next, in a real bash, and as kubectl asks for it."""

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest

from scheduler.cli.commands import COMMANDS
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


@pytest.mark.parametrize(
    ("shell", "parts"),
    [
        ("zsh", ["#compdef berth", '__complete "${(@)words[2,$CURRENT]}"', "_describe berth values", "_files"]),
        ("fish", ["__complete $words[2..-1]", "__fish_complete_path", "complete -c berth -f -a '(__berth_complete)'"]),
    ],
)
def test_other_shells(berth: Berth, shell: str, parts: list[str]) -> None:
    """These shells are not here, so their scripts are read."""
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
