"""`berth shadow` beside an embedded API server over real HTTP: what it says, what it asks for, how it ends."""

import asyncio
import json
import os
import re
import signal
import sysconfig
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from podberth.apiserver.server import ApiServer
from podberth.apiserver.users import MASTER, User
from podberth.cli.errors import PIPE_CLOSED
from podberth.cli.shadow import FOLLOWED
from tests.builders import Object, node, pod
from tests.unit.cli.conftest import Berth

BERTH = Path(sysconfig.get_path("scripts")) / "berth"
RECORDED = Path(__file__).parents[3] / "examples/shadow/seen"
PAGE = Path(__file__).parents[3] / "docs/beside.md"
ROLE = yaml.safe_load(next(text for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.S)))
PODS = "/api/v1/namespaces/default/pods"


class Town:
    """A server with two nodes, and what a person or another scheduler does there."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self._session = session

    async def send(self, method: str, path: str, body: Object) -> None:
        """A request of somebody who may do everything."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": "Bearer master", "Content-Type": kind}
        url = f"{self.server.url}{path}"
        async with self._session.request(method, url, data=json.dumps(body), headers=headers) as answer:
            assert answer.status < 300, await answer.text()

    async def put_node(self, made: Object) -> None:
        """A node with its status."""
        made["metadata"].pop("uid")
        await self.send("POST", "/api/v1/nodes", made)
        await self.send("PATCH", f"/api/v1/nodes/{made['metadata']['name']}/status", {"status": made["status"]})

    async def put_pod(self, name: str, cpu: str = "1") -> None:
        """A pod of the default scheduler."""
        made = pod(name, cpu, "1Gi", scheduler="default-scheduler")
        made["metadata"].pop("uid")
        await self.send("POST", PODS, made)

    async def bind(self, name: str, where: str) -> None:
        """What its scheduler does."""
        target = {"apiVersion": "v1", "kind": "Node", "name": where}
        await self.send("POST", f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})

    async def shadow(self, *words: str, stdout: int = asyncio.subprocess.PIPE) -> asyncio.subprocess.Process:
        """A shadow that follows."""
        made = await asyncio.create_subprocess_exec(
            BERTH,
            "shadow",
            "--kubeconfig",
            "kubeconfig",
            *words,
            stdout=stdout,
            stderr=asyncio.subprocess.PIPE,
        )
        assert made.stderr is not None
        said = (await made.stderr.readline()).decode()
        assert said.startswith("berth: follows http://127.0.0.1:"), said + (await made.stderr.read()).decode()
        return made

    def asked(self) -> dict[tuple[str, str], set[int]]:
        """(verb, path without query) → answers, of what the shadow has asked for."""
        found: dict[tuple[str, str], set[int]] = {}
        for entry in self.server.audit:
            if entry.user == "reader":
                found.setdefault((entry.verb, entry.path.partition("?")[0]), set()).add(entry.code)
        return found


def allowed(user: User, verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
    """What the role of the page allows."""
    return any(
        group in rule["apiGroups"] and resource in rule["resources"] and verb in rule["verbs"] for rule in ROLE["rules"]
    )


@asynccontextmanager
async def town(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Town]:
    """The server, and a kubeconfig of somebody who has the role."""
    monkeypatch.chdir(tmp_path)
    tokens: Mapping[str, User | str] = {"reader": User("reader"), "master": MASTER}
    async with ApiServer(tokens=tokens, authorizer=allowed) as server, aiohttp.ClientSession() as session:
        server.kubeconfig("kubeconfig")
        made = Town(server, session)
        await made.put_node(node("small", "4"))
        await made.put_node(node("large", "16"))
        yield made


def of_json(raw: bytes) -> list[dict[str, Any]]:
    """Lines of JSON."""
    return [json.loads(line) for line in raw.splitlines()]


async def test_follows_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, berth: Berth) -> None:
    """Every pod that is bound is told; each request is a list or a watch that the page's role allows, and no more."""
    async with town(tmp_path, monkeypatch) as there:
        await there.put_pod("before")
        shadow = await there.shadow("--pods", "3", "-o", "json", "--record", "seen")
        await there.bind("before", "small")
        await there.put_pod("good")
        await there.bind("good", "large")
        await there.put_pod("big", "6")
        await there.bind("big", "large")
        out, err = await asyncio.wait_for(shadow.communicate(), 60)
    *told, summary = of_json(out)
    assert shadow.returncode == 1
    assert re.fullmatch(r"berth: seen: \d+ changes\n", err.decode())
    assert {(each["pod"], each["verdict"]) for each in told} == {
        ("default/before", "better"),
        ("default/good", "same"),
        ("default/big", "same"),
    }
    assert (summary["kind"], summary["pods"], summary["better"]) == ("ShadowSummary", 3, 1)
    asked = there.asked()
    assert {verb for verb, _ in asked} == {"list", "watch"}
    assert {path for _, path in asked} == {each.path() for each in FOLLOWED}
    assert set().union(*asked.values()) == {200, 404}  # kinds that this server does not have
    again = berth("shadow", "--from", "seen", "-o", "json")
    assert (again.code, again.err) == (1, "")
    *replayed, _ = of_json(again.out.encode())
    assert [(each["verdict"], each["lead"]) for each in replayed] == [(each["verdict"], each["lead"]) for each in told]


def test_the_role_is_what_is_followed() -> None:
    """No kind too many, none too few, and no verb that writes."""
    named = {(group, plural) for rule in ROLE["rules"] for group in rule["apiGroups"] for plural in rule["resources"]}
    assert named == {(each.group, each.plural) for each in FOLLOWED}
    assert {verb for rule in ROLE["rules"] for verb in rule["verbs"]} == {"list", "watch"}


async def test_an_interrupt_ends_it_with_the_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is the ordinary end, so the exit code is about what was found."""
    async with town(tmp_path, monkeypatch) as there:
        shadow = await there.shadow()
        assert shadow.stdout is not None
        await there.put_pod("good")
        await there.bind("good", "large")
        line = (await asyncio.wait_for(shadow.stdout.readline(), 60)).decode()
        assert re.fullmatch(r"= default/good on large: the same node, \d+ points\n", line)
        shadow.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(shadow.communicate(), 60)
    assert (shadow.returncode, err) == (0, b"")
    assert out.decode().startswith("1 pod of default-scheduler compared with profile berth in ")


async def test_it_ends_when_nobody_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`berth shadow | head -1`: it ends as other commands do then, with no words, and the recording is whole."""
    async with town(tmp_path, monkeypatch) as there:
        reader, writer = os.pipe()
        shadow = await there.shadow("--record", "seen", stdout=writer)
        os.close(writer)
        os.close(reader)
        await there.put_pod("good")
        await there.bind("good", "large")
        _, err = await asyncio.wait_for(shadow.communicate(), 60)
    assert shadow.returncode == PIPE_CLOSED
    assert re.fullmatch(r"berth: seen: \d+ changes\n", err.decode())


async def test_a_cluster_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, berth: Berth) -> None:
    """One line, and exit code 2."""
    monkeypatch.chdir(tmp_path)
    async with ApiServer(tokens={"reader": User("reader")}, authorizer=lambda *_: False) as server:
        server.kubeconfig("kubeconfig")
        words = ("--for", "5s", "--record", "seen")
        found = await asyncio.to_thread(berth, "shadow", "--kubeconfig", "kubeconfig", *words)
        # The server accepts connections in their order: those that were opened last are not left half open.
        async with aiohttp.ClientSession() as session, session.get(f"{server.url}/healthz") as answer:
            assert answer.status == 200
    assert (found.code, found.out) == (2, "")
    assert found.err.splitlines()[-1].startswith("berth: can't follow nodes of http://127.0.0.1:")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--pods", "0"), "--pods: 0: expected 1 or more"),
        (("--for", "soon"), '--for: "soon": expected a time such as 90s, 15m or 1h30m'),
        (("--for", "0s"), '--for: "0s": expected a time such as 90s, 15m or 1h30m'),
        (("--for", "9" * 5000), '--for: "9999'),
        (("--for", "9" * 400 + "h"), '--for: "9999'),
        (("--from", "x", "--record", "y"), "--from reads a recording: --record, --for, --kubeconfig and --context"),
        (("--record", "cluster.json"), "cluster.json: expected a directory"),
        (("--record", "."), ".: expected an empty directory or a recording, and there is cluster.json"),
        (("--from", "nothing"), "nothing: no such file or directory"),
        (("--from", "cluster.json"), "cluster.json: not a directory"),
        (("--from", "."), ".: expected a directory that berth run --record or berth shadow --record has written"),
        (("--from", "cut"), "cut: holds nothing yet: nothing was written to it for a second"),
        (("--scheduler", "nobody"), '--scheduler: "nobody": expected one of the profiles berth'),
    ],
)
def test_wrong_input(berth: Berth, words: tuple[str, ...], said: str) -> None:
    """One line that names the option or the file."""
    Path("cut").mkdir()
    Path("cut/00000001.log").write_bytes((RECORDED / "00000001.log").read_bytes()[:40])
    found = berth("shadow", *words)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"berth: {said}"), found.err
    assert len(found.err.splitlines()) == 1
