"""`berth explain` against an API server: the embedded one, as a process of its own, over real HTTP."""

import json
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from tests.unit.cli.conftest import Berth
from tests.unit.whatif.story import DUMP

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
    command = [sys.executable, "-m", "scheduler.apiserver", "--kubeconfig", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        for made in DUMP["items"]:
            put(url, made)
        yield str(path)
        server.terminate()


@pytest.mark.parametrize(("name", "code"), [("shop/web", 0), ("shop/big", 1)])
def test_says_what_a_dump_of_it_says(berth: Berth, kubeconfig: str, name: str, code: int) -> None:
    """The live cluster and its dump give the same explanation."""
    live = berth("explain", name, "--kubeconfig", kubeconfig, "-o", "json")
    dumped = berth("explain", name, "--cluster", "cluster.json", "-o", "json")
    assert (live.code, live.err) == (code, "")
    assert json.loads(live.out) == json.loads(dumped.out)


def test_a_manifest_against_a_live_cluster(berth: Berth, kubeconfig: str) -> None:
    """A pod that is not there yet."""
    made = {"kind": "Pod", "metadata": {"name": "new"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    Path("new.json").write_text(json.dumps(made), encoding="utf-8")
    found = berth("explain", "-f", "new.json", "--kubeconfig", kubeconfig)
    assert (found.code, found.out.startswith("✓ default/new goes to ")) == (0, True)


def test_an_unknown_pod_names_the_server(berth: Berth, kubeconfig: str) -> None:
    """One line, exit code 2."""
    found = berth("explain", "nobody", "--kubeconfig", kubeconfig)
    assert (found.code, found.err.startswith("berth: default/nobody: no such pod in http://127.0.0.1:")) == (2, True)
