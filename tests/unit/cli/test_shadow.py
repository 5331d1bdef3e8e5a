"""`berth shadow` beside an embedded API server over real HTTP: what it says, what it asks for, how it ends."""

import asyncio
import gzip
import json
import os
import re
import signal
import sysconfig
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp
import pytest
import yaml
from msgspec import Raw

from podberth.apiserver.server import ApiServer
from podberth.apiserver.users import MASTER, User
from podberth.cli.errors import PIPE_CLOSED, InputError
from podberth.cli.shadow import FOLLOWED, Recorder
from podberth.explain.shadow.record import Change
from tests.builders import Object, node, pod
from tests.unit.cli.conftest import Berth

BERTH = Path(sysconfig.get_path("scripts")) / "berth"
RECORDED = Path(__file__).parents[3] / "examples/shadow/seen.jsonl"
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
        shadow = await there.shadow("--pods", "3", "-o", "json", "--record", "seen.jsonl.gz", "--mask")
        await there.bind("before", "small")
        await there.put_pod("good")
        await there.bind("good", "large")
        await there.put_pod("big", "6")
        await there.bind("big", "large")
        out, err = await asyncio.wait_for(shadow.communicate(), 60)
    *told, summary = of_json(out)
    assert shadow.returncode == 1
    assert re.fullmatch(r"berth: seen\.jsonl\.gz: \d+ changes\n", err.decode())
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
    assert not (tmp_path / "seen.jsonl.gz.unmasked").exists()
    again = berth("shadow", "--from", "seen.jsonl.gz", "-o", "json")
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
        shadow = await there.shadow("--record", "seen.jsonl", stdout=writer)
        os.close(writer)
        os.close(reader)
        await there.put_pod("good")
        await there.bind("good", "large")
        _, err = await asyncio.wait_for(shadow.communicate(), 60)
    assert shadow.returncode == PIPE_CLOSED
    assert re.fullmatch(r"berth: seen\.jsonl: \d+ changes\n", err.decode())


SYNCED = Change(at=1.0, synced=True)


@pytest.mark.parametrize("name", ["seen.jsonl", "seen.jsonl.gz"])
@pytest.mark.parametrize("mask", [False, True])
def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mask: bool, name: str) -> None:
    """The file is named, an older one stays, and nothing else is left."""
    Path(tmp_path / name).write_bytes(b"older")

    def full(path: str) -> BinaryIO:
        Path(path).touch()
        return Path("/dev/full").open("wb")  # what is written to it fails when it is closed

    monkeypatch.setattr("podberth.cli.shadow.private", full)
    recorder = Recorder(str(tmp_path / name), "other", 0.0, mask=mask)
    recorder.write(SYNCED)
    with pytest.raises(InputError, match=r"seen.jsonl(.gz)?: no space left on device"):
        recorder.close()
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [(name, b"older")]


@pytest.mark.parametrize("mask", [False, True])
def test_an_older_recording_stays_until_there_is_a_newer_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mask: bool
) -> None:
    """It was gone before the server had answered."""
    path = tmp_path / "seen.jsonl"
    path.write_bytes(b"older")
    recorder = Recorder(str(path), "other", 0.0, mask=mask)
    assert path.read_bytes() == b"older"
    recorder.write(SYNCED)
    assert path.read_bytes() == b"older"
    recorder.close()
    assert path.read_bytes().startswith(b'{"kind":"ShadowRecording"')
    assert [each.name for each in tmp_path.iterdir()] == ["seen.jsonl"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert capsys.readouterr().err == f"berth: {path}: 1 changes\n"


@pytest.mark.parametrize("mask", [False, True])
def test_what_was_never_listed_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], mask: bool) -> None:
    """Some kinds had come, and then it was interrupted."""
    path = tmp_path / "seen.jsonl"
    path.write_bytes(b"older")
    recorder = Recorder(str(path), "other", 0.0, mask=mask)
    recorder.write(Change(kind="Node", object=Raw(json.dumps(node("n")).encode())))
    recorder.close()
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("seen.jsonl", b"older")]
    assert capsys.readouterr().err == f"berth: {path}: nothing was written: the cluster was not listed\n"


def test_a_link_to_a_recording_stays_one(tmp_path: Path) -> None:
    """What it names is replaced."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/seen.jsonl").write_bytes(b"older")
    (tmp_path / "link").symlink_to("kept/seen.jsonl")
    recorder = Recorder(str(tmp_path / "link"), "other", 0.0, mask=False)
    recorder.write(SYNCED)
    recorder.close()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "kept/seen.jsonl").read_bytes().startswith(b"{")


@pytest.mark.parametrize("packed", [False, True])
def test_a_recording_of_standard_input(berth: Berth, monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    """As - is everywhere else; whether it is packed is seen."""
    raw = RECORDED.read_bytes()
    given = TextIOWrapper(BytesIO(gzip.compress(raw) if packed else raw))
    monkeypatch.setattr("sys.stdin", given)
    found = berth("shadow", "--from", "-")
    assert (found.code, found.err) == (1, "")
    assert found.out == berth("shadow", "--from", str(RECORDED)).out
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(raw)))
    found = berth("shadow", "--from", "-", "--config", "-")
    said = "berth: standard input: is given for two things, and can be read once\n"
    assert (found.code, found.out, found.err) == (2, "", said)


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    """What is no file is left alone, also behind a link."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    for name in ("pipe", "link"):
        with pytest.raises(InputError, match=f"{name}: expected the name of a file, got a device"):
            Recorder(str(tmp_path / name), "other", 0.0, mask=False)
    with pytest.raises(InputError, match="expected the name of a file, got a directory"):
        Recorder(str(tmp_path), "other", 0.0, mask=False)
    assert (tmp_path / "pipe").is_fifo()


async def test_a_cluster_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, berth: Berth) -> None:
    """One line, exit code 2, and an older recording is still there."""
    monkeypatch.chdir(tmp_path)
    async with ApiServer(tokens={"reader": User("reader")}, authorizer=lambda *_: False) as server:
        server.kubeconfig("kubeconfig")
        (tmp_path / "seen.jsonl").write_text("older")
        words = ("--for", "5s", "--record", "seen.jsonl")
        found = await asyncio.to_thread(berth, "shadow", "--kubeconfig", "kubeconfig", *words)
        # The server accepts connections in their order: those that were opened last are not left half open.
        async with aiohttp.ClientSession() as session, session.get(f"{server.url}/healthz") as answer:
            assert answer.status == 200
    assert (found.code, found.out) == (2, "")
    assert found.err.splitlines()[-1].startswith("berth: can't follow nodes of http://127.0.0.1:")
    assert (tmp_path / "seen.jsonl").read_text() == "older"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--pods", "0"), "--pods: 0: expected 1 or more"),
        (("--for", "soon"), '--for: "soon": expected a time such as 90s, 15m or 1h30m'),
        (("--for", "0s"), '--for: "0s": expected a time such as 90s, 15m or 1h30m'),
        (("--for", "9" * 5000), '--for: "9999'),
        (("--for", "9" * 400 + "h"), '--for: "9999'),
        (("--mask",), "--mask: expected only together with --record"),
        (("--from", "x", "--record", "y"), "--from reads a recording: --record, --for, --kubeconfig and --context"),
        (("--record", "-"), "-: expected the name of a file: standard output has the answer"),
        (("--from", "cluster.json"), "cluster.json: expected what berth shadow --record writes"),
        (("--from", "nothing.gz"), "nothing.gz: no such file or directory"),
        (("--from", "cut.jsonl"), "cut.jsonl: ends within a line: the recording was cut off"),
        (("--from", "cut.gz"), "cut.gz: the recording was cut off, or is damaged"),
        (("--from", "other.gz"), "other.gz: expected a gzip file"),
        (("--scheduler", "nobody"), '--scheduler: "nobody": expected one of the profiles berth'),
    ],
)
def test_wrong_input(berth: Berth, words: tuple[str, ...], said: str) -> None:
    """One line that names the option or the file."""
    head = b'{"kind": "ShadowRecording", "version": 1}\n'
    Path("cut.jsonl").write_bytes(head + b'{"at": 1')
    Path("cut.gz").write_bytes(gzip.compress(head + b'{"at": 1, "synced": true}\n' * 9)[:-12])
    Path("other.gz").write_bytes(head)
    found = berth("shadow", *words)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"berth: {said}"), found.err
    assert len(found.err.splitlines()) == 1
