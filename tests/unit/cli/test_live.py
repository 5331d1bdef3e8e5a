"""`berth explain` and others against an embedded API server, a process of its own, over real HTTP."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml

from podberth.cli import live
from podberth.kube.client import Client
from tests.unit.cli.conftest import Berth
from tests.unit.explain.story import DUMP

ROOT = Path(__file__).parents[3]
Object = dict[str, Any]


def send(url: str, method: str, body: Object) -> None:
    """Send an object; an HTTP error fails the test."""
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    with urlopen(Request(url, json.dumps(body).encode(), {"Content-Type": kind}, method=method)) as answer:
        answer.read()


def put(url: str, made: Object) -> None:
    """Create an object, and its status where the server takes that apart."""
    made = deepcopy(made)
    made["metadata"].pop("uid")
    status = made.pop("status", None)
    place = {"Node": "nodes", "Namespace": "namespaces", "Pod": "namespaces/shop/pods"}[made["kind"]]
    send(f"{url}/api/v1/{place}", "POST", made)
    if made["kind"] == "Node":
        send(f"{url}/api/v1/{place}/{made['metadata']['name']}/status", "PATCH", {"status": status})


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that holds the story's cluster."""
    path = tmp_path_factory.mktemp("live") / "kubeconfig"
    command = [sys.executable, "-m", "podberth.apiserver", "--kubeconfig", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        for made in DUMP["items"]:
            put(url, made)
        yield str(path)
        server.terminate()


@pytest.mark.parametrize(("name", "code"), [("shop/web", 0), ("shop/big", 1)])
def test_says_what_a_dump_of_it_says(berth: Berth, kubeconfig: str, name: str, code: int) -> None:
    """The live cluster and its dump give the same explanation; of the dump, pods are as old as they are there."""
    (server,) = yaml.safe_load(Path(kubeconfig).read_text(encoding="utf-8"))["clusters"]
    with urlopen(f"{server['cluster']['server']}/api/v1/pods") as answer:
        born = {pod["metadata"]["name"]: pod["metadata"]["creationTimestamp"] for pod in json.load(answer)["items"]}
    dump = deepcopy(DUMP)
    for each in dump["items"]:
        if each["kind"] == "Pod":
            each["metadata"]["creationTimestamp"] = born[each["metadata"]["name"]]
    Path("cluster.json").write_text(json.dumps(dump), encoding="utf-8")
    live = berth("explain", name, "--kubeconfig", kubeconfig, "-o", "json")
    dumped = berth("explain", name, "--cluster", "cluster.json", "-o", "json")
    assert (live.code, live.err) == (code, "")
    said = [json.loads(each.out) for each in (live, dumped)]
    for each in said:
        for remedy in each["remedies"]:
            del remedy["commands"]  # the API server has given the pod tolerations, which a patch comes after
    assert said[0] == said[1]


def test_a_manifest_against_a_live_cluster(berth: Berth, kubeconfig: str) -> None:
    """A pod that is not there yet."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": spec}
    Path("new.json").write_text(json.dumps(made), encoding="utf-8")
    found = berth("explain", "-f", "new.json", "--kubeconfig", kubeconfig)
    assert (found.code, found.out.startswith("✓ default/new goes to ")) == (0, True)


def test_an_unknown_pod_names_the_server(berth: Berth, kubeconfig: str) -> None:
    """One line, exit code 2."""
    found = berth("explain", "nobody", "--kubeconfig", kubeconfig)
    assert (found.code, found.err.startswith("berth: default/nobody: no such pod in http://127.0.0.1:")) == (2, True)


def test_the_evictors_plan_lists_what_its_role_may_list(
    berth: Berth, kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`berth evictor --dry-run` with the account that the manifests give it asks for nothing that is forbidden."""
    may: set[tuple[str, str]] = set()
    for role in yaml.safe_load_all((ROOT / "manifests" / "evictor-rbac.yaml").read_text()):
        for rule in role["rules"] if role["kind"] == "ClusterRole" else ():
            if "list" in rule["verbs"]:
                may |= set(product(rule["apiGroups"], rule["resources"]))
    listed: set[tuple[str, str]] = set()
    get = Client.get

    async def noted(self: Client, path: str, **settings: Any) -> bytes:
        *_, group, _, plural = ("", *path.removeprefix("/api/").removeprefix("/apis/").split("/"))
        listed.add((group, plural))
        return await get(self, path, **settings)

    monkeypatch.setattr(Client, "get", noted)
    found = berth("evictor", "--dry-run", "--kubeconfig", kubeconfig)
    assert (found.code, found.err) == (0, "")
    assert {("", "nodes"), ("", "pods"), ("events.k8s.io", "events")} <= listed
    assert listed - may == set()


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[str]:
    """A kubeconfig for a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        made = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"http://{host}:{port}"}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        }
        path = tmp_path / "silent.json"
        path.write_text(json.dumps(made))
        yield str(path)


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "web"],
        ["explain", "--pending"],
        ["simulate", "--drain", "a"],
        ["evictor", "--dry-run"],
    ],
    ids=" ".join,
)
def test_a_silent_server_is_said_and_given_up(
    berth: Berth, silent: str, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """One line while waiting, one at the end."""
    monkeypatch.setattr(live, "SILENCE", 0.0)
    found = berth(*arguments, "--kubeconfig", silent, "--request-timeout", "1s")
    assert found.code == 2
    first, second = found.err.splitlines()
    assert first.startswith("berth: http://127.0.0.1:")
    assert first.endswith("has not answered yet; --request-timeout ends it after 1 s")
    assert "can't list " in second


def test_a_silent_server_is_said_and_given_up_by_story(
    berth: Berth, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks the scheduler's own port."""
    monkeypatch.setattr(live, "SILENCE", 0.0)
    Path("token").write_text("t")
    address = json.loads(Path(silent).read_text())["clusters"][0]["cluster"]["server"].replace("http:", "https:")
    words = ("--server", address, "--token-file", "token", "--kubeconfig", silent)
    found = berth("story", "web", *words, "--request-timeout", "1s")
    assert found.code == 2
    first, second = found.err.splitlines()
    assert first == f"berth: {address} has not answered yet; --request-timeout ends it after 1 s"
    assert second.startswith(f"berth: {address}: ")


def test_a_silent_server_is_said_and_given_up_by_shadow(
    berth: Berth, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the commands that list once."""
    monkeypatch.setattr(live, "SILENCE", 0.0)
    found = berth("shadow", "--kubeconfig", silent, "--request-timeout", "1s")
    assert found.code == 2
    first, second = found.err.splitlines()
    assert first.endswith("has not answered yet; --request-timeout ends it after 1 s")
    assert "can't list nodes" in second


class Healthy(BaseHTTPRequestHandler):
    """A proxy that is well, whatever it is asked for."""

    def do_GET(self) -> None:
        said = b'{"status":"ok"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def healthy(tmp_path: Path) -> Iterator[str]:
    """A kubeconfig for such a one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
        config = {"clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}]}
        path = tmp_path / "healthy"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", **config, "current-context": "c"}))
        yield str(path)
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("arguments", [["explain", "web"], ["evictor", "--dry-run"]], ids=" ".join)
def test_json_of_a_proxy_is_no_answer(berth: Berth, healthy: str, arguments: list[str]) -> None:
    """One line, as for a server that does not answer."""
    found = berth(*arguments, "--kubeconfig", healthy)
    assert (found.code, found.out) == (2, "")
    (line,) = found.err.splitlines()
    assert line.startswith("berth: ")
    assert "can't list " in line
    assert """none of an API server's: {"status":"ok"}""" in line


@pytest.mark.parametrize("given", ["soon", "-1", "", "-1s"])
def test_request_timeout_is_a_time(berth: Berth, silent: str, given: str) -> None:
    """One line, exit code 2."""
    found = berth("explain", "web", "--kubeconfig", silent, "--request-timeout", given)
    assert (found.code, len(found.err.splitlines())) == (2, 1)
    assert found.err.startswith(f"berth: --request-timeout: {json.dumps(given)}: expected seconds")


COMMANDS = [
    ["explain", "web"],
    ["simulate", "--drain", "a"],
    ["dump", "-f", "made.json"],
    ["story", "web", "--server", "{address}", "--token-file", "token"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda words: words[0])
def test_who_is_given_up_is_not_asked_again(berth: Berth, arguments: list[str]) -> None:
    """When nodes and pods were not answered, other kinds do not have their turns: each would be waited for, too.

    All commands that ask a server know how long to wait for it.
    """
    Path("token").write_text("t")
    with socket.create_server(("127.0.0.1", 0), backlog=200) as server:
        host, port = server.getsockname()
        cluster = {"name": "c", "cluster": {"server": f"http://{host}:{port}"}}
        context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
        made = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [cluster]}
        made |= {"users": [{"name": "c", "user": {}}], "contexts": [context]}
        Path("silent.json").write_text(json.dumps(made))
        words = [word.format(address=f"https://{host}:{port}") for word in arguments]
        found = berth(*words, "--kubeconfig", "silent.json", "--request-timeout", "1s")
        server.setblocking(False)
        asked = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                server.accept()[0].close()
                asked += 1
    assert (found.code, found.out) == (2, "")
    assert asked == (1 if arguments[0] in ("policy", "story") else 2)
