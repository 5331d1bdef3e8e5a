"""Completion: what may come next, in a real shell, and as kubectl asks for it; names from the cluster."""

import asyncio
import json
import os
import subprocess
import sysconfig
from pathlib import Path

import aiohttp
import pytest

from podberth.apiserver import ApiServer
from podberth.cli import options
from podberth.cli.commands import COMMANDS
from tests.unit.cli.conftest import Berth

SCRIPTS = Path(sysconfig.get_path("scripts"))
ASK = """\
source <(_BERTH_COMPLETE=source_bash berth)
COMP_WORDS=({words} "$1"); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_berth_completion berth
printf '%s\\n' "${{COMPREPLY[@]}}"
complete -p berth
"""


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question in the environment does not stay there."""
    for name in ("_BERTH_COMPLETE", "_TYPER_COMPLETE_FISH_ACTION", "_TYPER_COMPLETE_ARGS", "COLUMNS"):
        monkeypatch.setenv(name, "")


@pytest.mark.parametrize(
    ("words", "wanted", "last"),
    [
        ([""], set(COMMANDS), ":4"),
        (["ex"], {"explain"}, ":4"),
        (["config", ""], {"view", "lint", "schema"}, ":4"),
        (["policy", "im"], {"impact"}, ":4"),
        (["explain", "--clu"], {"--cluster"}, ":4"),
        (["explain", "-o", ""], {"table", "json", "yaml", "html"}, ":4"),
        (["simulate", "-f", ""], set(), ":0"),
        (["config", "lint", ""], set(), ":0"),
        (["nothing", "--x"], set(), ":0"),
    ],
)
def test_what_may_come_next(words: list[str], wanted: set[str], last: str) -> None:
    """Commands, options and values; else files."""
    *found, end = options.for_kubectl(words).splitlines()
    assert ({line.partition("\t")[0] for line in found}, end) == (wanted, last)


def test_every_command_can_be_completed() -> None:
    """All have options, and each has a description, in one line."""
    for name in COMMANDS:
        *found, end = options.for_kubectl([name, "--"]).splitlines()
        assert end == ":4" and "--help" in {line.partition("\t")[0] for line in found}
        assert all(line.startswith("--") and line.partition("\t")[2] for line in found), name


@pytest.mark.parametrize(("words", "wanted"), [("berth", "explain"), ("berth explain -o", "json")])
def test_bash_completes(tmp_path: Path, words: str, wanted: str) -> None:
    """The script that is printed, in a real shell, which completes files where we say nothing."""
    environment = {name: value for name, value in os.environ.items() if "COMPLETE" not in name}
    environment["PATH"] = f"{SCRIPTS}:{os.environ['PATH']}"
    script = ASK.format(words=words)
    done = subprocess.run(
        ["bash", "-c", script, "bash", wanted[:2]], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.stdout.splitlines(), done.stderr) == ([wanted, "complete -o default -F _berth_completion berth"], "")


def test_kubectl_asks_the_same_way() -> None:
    """kubectl runs kubectl_complete-NAME with the words after the plugin's name, and reads cobra's own protocol."""
    done = subprocess.run([SCRIPTS / "kubectl_complete-berth", "expl"], capture_output=True, text=True)
    line, end = done.stdout.splitlines()
    assert (line.partition("\t")[0], end) == ("explain", ":4")


def kubeconfig(home: Path, url: str) -> Path:
    """A file with two contexts of one cluster."""
    contexts = {"here": {"cluster": "it", "namespace": "shop"}, "other": {"cluster": "it"}}
    written = home / "kubeconfig"
    written.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "here",
                "clusters": [{"name": "it", "cluster": {"server": url}}],
                "contexts": [{"name": name, "context": inner} for name, inner in contexts.items()],
            }
        )
    )
    return written


async def test_names_come_from_the_cluster(tmp_path: Path) -> None:
    """Contexts, namespaces, nodes, and the pods of the namespace that counts."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    async with ApiServer() as server, aiohttp.ClientSession(server.url) as session:
        for path, name, more in (
            ("/api/v1/namespaces", "shop", {}),
            ("/api/v1/nodes", "n-1", {}),
            ("/api/v1/namespaces/shop/pods", "web", {"spec": spec}),
            ("/api/v1/namespaces/default/pods", "other", {"spec": spec}),
        ):
            async with session.post(path, json={"metadata": {"name": name}, **more}) as answer:
                answer.raise_for_status()
        at = ["--kubeconfig", str(kubeconfig(tmp_path, server.url))]
        (tmp_path / "config.yaml").write_text(
            "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, "
            "profiles: [{schedulerName: one}, {schedulerName: two}]}"
        )
        for words, wanted in (
            (["explain", *at, "--context", ""], ["here", "other", ":4"]),
            (["explain", *at, "-n", "sh"], ["shop", ":4"]),
            (["explain", *at, ""], ["web", ":4"]),
            (["story", *at, "-n", "default", ""], ["other", ":4"]),
            (["simulate", *at, "--drain", "n"], ["n-1", ":4"]),
            (["explain", "--cluster", "cluster.json", *at, ""], [":0"]),
            (["explain", "--config", str(tmp_path / "config.yaml"), "--scheduler", ""], ["one", "two", ":4"]),
        ):
            said = await asyncio.to_thread(options.for_kubectl, words)
            assert said.splitlines() == wanted, words


def test_nobody_waits_for_what_is_not_there(tmp_path: Path) -> None:
    """No kubeconfig, no API server, no configuration: nothing is offered, and nothing is said."""
    at = ["--kubeconfig", str(kubeconfig(tmp_path, "http://127.0.0.1:1"))]
    for words in (
        ["explain", *at, "-n", ""],
        ["explain", "--kubeconfig", "none", "--context", ""],
        ["explain", "--config", "none", "--scheduler", ""],
    ):
        assert options.for_kubectl(words) == ":0"


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
