"""Wrong input: exit code 2, one line a problem on stderr that names file, field and value, and never a traceback."""

import gzip
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from podberth.service.serving import listen
from tests.builders import configuration, container, node, pod, profile
from tests.unit.cli.conftest import Berth

Object = dict[str, Any]
TWINS = {"kind": "List", "items": [node("n"), pod("web", uid="1"), pod("web", uid="2")]}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "no such file or directory", id="missing"),
        pytest.param("", "is empty", id="empty"),
        pytest.param(
            "a: [1\nb: 2", "line 2, column 2: not YAML: did not find expected ',' or ']'", id="malformed YAML"
        ),
        pytest.param('{"kind": "List", "items": [', "not JSON", id="truncated JSON"),
        pytest.param(b"\x7fELF\x00\x00", "expected text, got a binary file", id="binary"),
        pytest.param("hello", "expected API objects as `kubectl get", id="not a dump"),
        pytest.param({"kind": "Service", "metadata": {"name": "s"}}, "holds no Node", id="no nodes"),
        pytest.param(TWINS, "Pod default/web: is there twice: bad items[1] and bad items[2]", id="duplicate pods"),
        pytest.param(
            node("n") | {"spec": {"taints": "x"}}, 'Node n: spec.taints: "x": expected a list', id="wrong type"
        ),
    ],
)
def test_dumps(berth: Berth, content: Any, said: str) -> None:
    """A dump's fault is told in one line."""
    found = berth("explain", "web", "--cluster", _written(content))
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"berth: bad: {said}")
    assert len(found.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "no such file or directory", id="missing"),
        pytest.param("- a", "Invalid value: want a mapping", id="a list"),
        pytest.param("", "Invalid value: want a mapping of kind KubeSchedulerConfiguration, got an empty", id="empty"),
        pytest.param({"kind": "Pod"}, "apiVersion: Required value", id="another kind"),
        pytest.param(configuration(foo=1), "foo: Unknown field", id="unknown field"),
        pytest.param(
            configuration(profile(plugins={"score": {"enable": []}})),
            "profiles[0].plugins.score.enable: Unknown field",
            id="unknown field inside",
        ),
        pytest.param(configuration(parallelism="many"), "parallelism: Invalid value", id="wrong type"),
        pytest.param(configuration(parallelism=0), "parallelism: Invalid value: 0", id="out of range"),
        pytest.param(
            configuration(profile(NodeAffinity={"added": 1})), "profiles[0].pluginConfig[0].args", id="plugin arguments"
        ),
        pytest.param("a: 1\na: 2", 'line 2, column 1: not YAML: "a" is there twice', id="key twice"),
    ],
)
def test_configurations(berth: Berth, content: Any, said: str) -> None:
    """The fault of a KubeSchedulerConfiguration is told in one line."""
    found = berth("explain", "web", "--cluster", "cluster.json", "--config", _written(content))
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"berth: bad: {said}")
    assert len(found.err.splitlines()) == 1


def test_two_problems_are_two_lines(berth: Berth) -> None:
    """Each with the file and the field."""
    content = configuration(profile("a"), profile("a"), parallelism=-1)
    found = berth("explain", "web", "--cluster", "cluster.json", "--config", _written(content))
    assert found.code == 2
    assert [line.split(": ")[:3] for line in found.err.splitlines()] == [
        ["berth", "bad", "parallelism"],
        ["berth", "bad", "profiles[1].schedulerName"],
    ]


SELECTOR = {"topologyKey": "x", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(None, "no such file or directory", id="missing"),
        pytest.param(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}},
            "holds no pod: expected one of",
            id="no pod",
        ),
        pytest.param({"kind": "List", "items": [pod("a"), pod("b")]}, "holds a, b: name one", id="two pods"),
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}},
            "Pod p: spec.containers: Required",
            id="no spec",
        ),
        pytest.param(
            {key: value for key, value in pod("p").items() if key != "apiVersion"},
            "Pod p: apiVersion: Required value",
            id="no version",
        ),
        pytest.param(
            pod("p", containers=[container() | {"image": 5}]),
            "Pod p: spec.containers[0].image: 5: expected text",
            id="wrong type",
        ),
        pytest.param(
            pod("p", "lots"),
            'Pod p: spec.containers[0].resources.requests[cpu]: "lots": expected a quantity such as 500m or 2Gi',
            id="absurd quantity",
        ),
        pytest.param(pod("p", near=[SELECTOR]), "Pod p: spec.affinity.podAffinity.requiredDuring", id="bad selector"),
    ],
)
def test_manifests(berth: Berth, content: Any, said: str) -> None:
    """The fault of a file's pod is told in one line."""
    found = berth("explain", "-f", _written(content), "--cluster", "cluster.json")
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"berth: bad: {said}")
    assert len(found.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["wbe"], "default/wbe: no such pod in cluster.json (did you mean shop/web?)"),
        (["nobody"], "default/nobody: no such pod in cluster.json"),
        (["web", "-n", "other"], "other/web: no such pod in cluster.json (did you mean shop/web?)"),
        (["shop/web", "-n", "other"], "shop/web: the pod's namespace is shop, and -n says other"),
        (["web", "--scheduler", "x"], '--scheduler: "x": expected one of the profiles berth'),
    ],
)
def test_names(berth: Berth, arguments: list[str], said: str) -> None:
    """Pods, profiles and files that are not there."""
    found = berth("explain", *arguments, "--cluster", "cluster.json")
    assert (found.code, found.out, found.err) == (2, "", f"berth: {said}\n")


def test_an_ambiguous_name_is_not_guessed(berth: Berth) -> None:
    """Two pods of one name in two namespaces, none in the usual one."""
    objects = [node("n"), pod("p", namespace="a"), pod("p", namespace="b")]
    found = berth("explain", "p", "--cluster", _written({"kind": "List", "items": objects}))
    assert (found.code, found.err) == (2, "berth: p: more than one pod has this name: a/p, b/p; say which with -n\n")


def test_a_finished_pod_has_nothing_to_explain(berth: Berth) -> None:
    """It is known, and that is said."""
    objects = [node("n"), pod("p", on="n", phase="Failed")]
    found = berth("explain", "p", "--cluster", _written({"kind": "List", "items": objects}))
    assert (found.code, found.err) == (2, "berth: default/p: the pod has finished, there is nothing to schedule\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kubeconfig", "nope"], "nope: no such file"),
        ([], "no cluster to talk to"),
        (["--kubeconfig", "cluster.json"], "cluster.json"),
    ],
)
def test_clusters_that_are_not_there(berth: Berth, arguments: list[str], said: str) -> None:
    """A kubeconfig that is missing or none ends in one line."""
    found = berth("explain", "web", *arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"berth: {said}")
    assert len(found.err.splitlines()) == 1


def _nobody() -> Object:
    """A kubeconfig for a server that nobody is."""
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context]}
    return config | {"users": [{"name": "u", "user": {}}], "current-context": "c"}


def test_a_server_that_does_not_answer(berth: Berth) -> None:
    """Nobody listens there: one line with the address."""
    found = berth("explain", "web", "--kubeconfig", _written(_nobody()))
    assert found.code == 2
    assert "can't list nodes of http://127.0.0.1:1" in found.err
    assert len(found.err.splitlines()) == 1


def _written(content: Any) -> str:
    """A file named `bad` with this content; none for None."""
    if isinstance(content, bytes):
        Path("bad").write_bytes(content)
    elif content is not None:
        Path("bad").write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return "bad"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param("-1", "invalid value for --verify: -1: want 0 (none) or more", id="negative"),
        pytest.param("often", "invalid value for --verify: want a whole number", id="no number"),
    ],
)
def test_how_many_decisions_to_verify(berth: Berth, value: str, said: str) -> None:
    """Said before anything is connected to."""
    found = berth("run", f"--verify={value}")
    assert (found.code, found.out) == (2, "")
    assert said in found.err
    assert len(found.err.splitlines()) == 1


SERVICES = """
import json, sys
from podberth.cli.main import run
for words in json.load(sys.stdin):
    print(run(words), flush=True)
    print("---", file=sys.stderr, flush=True)
"""
"""Runs the services one after the other in one process: to import what each needs takes seconds."""
SETTINGS = {
    "operator --port=99999": "--port 99999: want 0 to 65535",
    "operator --audit-kind=x.y": "--audit-kind x.y: want PLURAL",
    "operator --log-level=loud": 'invalid value for --log-level: "loud": want one of debug, info',
    "operator --host=127.0.0.1 --port={taken}": "127.0.0.1:{taken}: can't listen there: address already in use",
    "operator --secure-port={taken} --bind-address=127.0.0.1": "127.0.0.1:{taken}: can't listen there",
    "admission --port=99999": "--port 99999: want 0 to 65535",
    "admission --drain=-1": "--drain",
    "evictor --grace=-1": "--grace: Invalid value: -1: must be greater than 0",
    "evictor --secure-port={taken} --bind-address=127.0.0.1": "127.0.0.1:{taken}: can't listen there",
    "run --secure-port={taken} --bind-address=127.0.0.1": "127.0.0.1:{taken}: can't listen there",
}


def test_settings_of_services(tmp_path: Path) -> None:
    """A service tells unusable settings, and an address that is taken, in one line after those of the log."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(_nobody()))
    (taken,) = listen("127.0.0.1", 0)
    with taken:
        port = taken.getsockname()[1]
        words = [[*each.format(taken=port).split(), f"--kubeconfig={kubeconfig}"] for each in SETTINGS]
        found = subprocess.run(
            [sys.executable, "-c", SERVICES],
            input=json.dumps(words),
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    assert found.stdout.split() == ["2"] * len(SETTINGS)
    for said, told in zip(SETTINGS.values(), found.stderr.split("---\n")[:-1], strict=True):
        *logged, last = told.splitlines()
        assert last.startswith(f"berth: {said.format(taken=port)}")
        assert all(json.loads(line)["level"] == "info" for line in logged)


def test_packed_files_that_are_none(berth: Berth) -> None:
    """Cut off, damaged in the middle, no gzip at all, or a small file that is a large one."""
    packed = gzip.compress(json.dumps(TWINS).encode() * 50)
    damaged = bytearray(packed)
    damaged[20:40] = bytes(20)
    wrong = {"cut": packed[:-30], "damaged": bytes(damaged), "plain": b"kind: Node", "empty": b""}
    for name, content in wrong.items():
        Path(f"{name}.gz").write_bytes(content)
        found = berth("explain", "web", "--cluster", f"{name}.gz")
        said = "is empty" if name == "empty" else "expected a gzip file: "
        assert (found.code, len(found.err.splitlines())) == (2, 1), found.err
        assert found.err.startswith(f"berth: {name}.gz: {said}")
    Path("bomb.gz").write_bytes(gzip.compress(bytes(65 << 20)))
    found = berth("explain", "web", "--cluster", "bomb.gz")
    assert (found.code, found.err) == (2, "berth: bomb.gz: unpacks to more than 200 times its size\n")


def test_what_is_no_file(berth: Berth) -> None:
    """A directory, a device, and a name that can't be one."""
    Path("folder").mkdir()
    wrong = {
        "folder": "is a directory",
        "/dev/zero": "expected a file, got a device",
        "a\0b": "expected the name of a file",
        "x" * 300: "file name too long",
    }
    for name, said in wrong.items():
        for option in ("--cluster", "--config", "-f"):
            found = berth("explain", "--cluster", "cluster.json", option, name, *(() if option == "-f" else ("web",)))
            assert (found.code, found.out) == (2, "")
            more = " without files of JSON or YAML: expected a cluster's dump"
            said_here = said + more if name == "folder" and option != "--config" else said
            assert found.err == f"berth: {name.replace(chr(0), chr(0xFFFD))}: {said_here}\n"


def test_a_pipe(berth: Berth) -> None:
    """As `-f <(kubectl get pod web -o yaml)`: it is read to its end."""
    content = Path("cluster.json").read_bytes()
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_bytes(content))
    writer.start()
    assert berth("explain", "web", "-n", "shop", "--cluster", "pipe").code == 0
    writer.join()
