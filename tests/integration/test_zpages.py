"""/statusz and /flagz of Berth and of kube-scheduler: the same forms, with what each has to say of itself."""

from __future__ import annotations

import json
import re
import ssl
import urllib.error
import urllib.request
from typing import NamedTuple

import pytest
import yaml

from tests.controlplane.cluster import Cluster
from tests.controlplane.process import Process
from tests.integration import test_serving
from tests.integration.berth import Harbour
from tests.integration.test_serving import wait_serving

pytestmark = pytest.mark.newest

AS = {path: f"g=config.k8s.io;v=v1beta1;as={kind}" for path, kind in (("/statusz", "Statusz"), ("/flagz", "Flagz"))}
ACCEPT = [
    "",
    "text/plain",
    "*/*",
    "application/json;{}",
]
"""What both answer alike. Of other forms kube-scheduler has YAML and an older version, and refuses the rest."""


class Answer(NamedTuple):
    """What a client is answered, as far as it does not depend on who answers."""

    status: int
    content_type: str
    cache: str
    warning: str
    shape: object
    """The lines with their values left out, or the object's fields."""


def ask(server: Process, path: str, accept: str, token: str) -> tuple[Answer, str]:
    """The answer, and its text. The certificate is the server's own, and nobody's secret goes there."""
    headers = {"Authorization": f"Bearer {token}", "Accept": accept}
    request = urllib.request.Request(f"{server.url}{path}", headers=headers)
    try:
        answer = urllib.request.urlopen(request, timeout=30, context=ssl._create_unverified_context())
    except urllib.error.HTTPError as error:
        answer = error
    with answer:
        text = answer.read().decode()
        form, cache, warning = (answer.headers.get(one, "") for one in ("Content-Type", "Cache-Control", "Warning"))
    return Answer(answer.status, form, cache, warning, _shape(form, text)), text


def _shape(content_type: str, text: str) -> object:
    if not content_type.startswith("text/"):
        made = yaml.safe_load(text)
        return {
            name: value if name in ("kind", "apiVersion", "status", "message", "reason", "code") else type(value)
            for name, value in made.items()
        }
    # The delimiter is drawn by lot there, and flags are each component's own.
    _, name, *lines = text.replace("Go version", "Python version").splitlines()
    labels = [re.split(r"[:= ]", line)[0] for line in lines]
    return [name.split()[-1], lines[0], *(labels if "Started" in labels else [])]


def test_side_by_side(control_plane: Cluster, harbour: Harbour) -> None:
    """As text and as an object, both answer in the same form; of ours, the facts are right."""
    berth = harbour.berth(control_plane, serving=True)
    kube, _ = harbour.kube_scheduler(control_plane)
    wait_serving(berth)
    token = control_plane.admin["token"]
    for path, own in AS.items():
        assert test_serving.ask(berth, path)[0] == 401
        for accept in (each.format(own) for each in ACCEPT):
            ours, theirs = (ask(server, path, accept, token)[0] for server in (berth, kube))
            assert ours == theirs, (path, accept)
    text = ask(berth, "/statusz", "", token)[1].splitlines()
    assert text[1] == "berth statusz"
    status, theirs = (
        json.loads(ask(server, "/statusz", f"application/json;{AS['/statusz']}", token)[1]) for server in (berth, kube)
    )
    assert status["emulationVersion"] == theirs["emulationVersion"]
    assert status["paths"] == sorted({*theirs["paths"], "/debug/story"})
    flags = json.loads(ask(berth, "/flagz", f"application/json;{AS['/flagz']}", token)[1])["flags"]
    assert flags["config"] == str(berth.config)
    assert (flags["bind-address"], flags["seed"], flags["tls-cert-file"]) == ("127.0.0.1", "0", "")
    berth.end()
