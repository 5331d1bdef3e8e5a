"""`berth story` against a serving port over real HTTPS, with an engine of plain objects behind it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from podberth.app.endpoints import PATH, Storyteller
from podberth.app.scheduler import Scheduler
from podberth.cli import story as story_module
from podberth.engine.history import LONGEST
from podberth.engine.story import Failed
from podberth.explain.report.wording import duration
from podberth.service.certificate import Certificate, self_signed
from podberth.service.serving import Address, Endpoints, Gate, Serving
from tests.unit.cli.conftest import Berth
from tests.unit.engine.conftest import Harness, node, pod

TOKEN = "let-me-in"


@dataclass
class Term:
    holder: str = "berth-1"


@dataclass
class Elected:
    """Another replica leads."""

    term: Term = field(default_factory=Term)
    follows: bool = False


class Port:
    """A serving port on a loop and a thread of its own."""

    def __init__(self, home: Path) -> None:
        self.harness = Harness()
        self.leading = True
        self.leads_since: float | None = None
        self.asked: list[str] = []
        self.server = ""
        self.certificate = home / "tls.crt"
        certificate, key = self_signed()
        self.certificate.write_bytes(certificate)
        (home / "tls.key").write_bytes(key)
        self.token = home / "token"
        self.token.write_text(TOKEN)
        told = Storyteller(
            cast(Scheduler, self),
            cast(Any, Elected()),
            monotonic=lambda: self.harness.now,
            calendar=lambda: 1_700_000_000.5,
        )
        files = Certificate(str(self.certificate), str(home / "tls.key"))
        self._serving = Serving(
            Address("127.0.0.1", 0, files), Gate(self._authorize), Endpoints(lookups={PATH: told.answer})
        )
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="port")

    def __enter__(self) -> Port:
        self._serving.listen()
        self.server = f"https://127.0.0.1:{self._serving.port}"
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._running.cancel)
        self._thread.join(60)

    @property
    def engine(self) -> Any:
        return self.harness.engine

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._running = self._loop.create_task(self._serving.run())
        self._loop.call_soon(self._ready.set)
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until())

    async def _until(self) -> None:
        await asyncio.gather(self._running, return_exceptions=True)

    async def _authorize(
        self, authorization: str | None, path: str, _certificate: bytes | None, _peer: str
    ) -> tuple[int, str]:
        self.asked.append(path)
        if authorization != f"Bearer {TOKEN}":
            return 401, "the bearer token is not valid"
        return 200, "somebody"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[Port]:
    """A port; its engine has seen one pod wait and be bound."""
    with capture_logs(), Port(tmp_path) as made:
        harness = made.harness
        harness.put(node("n1", cpu="1"), pod("web", cpu="2"))
        harness.cycles()
        harness.after(200.0)
        harness.put(node("n4"))
        harness.cycles()
        harness.now += 0.5
        harness.bound("web")
        harness.now += 60.0
        yield made


def options(port: Port) -> list[str]:
    return ["--server", port.server, "--token-file", str(port.token), "--insecure-skip-tls-verify"]


def test_a_story(berth: Berth, port: Port) -> None:
    """The story names the pod and its state, and has a line for each thing that happened."""
    found = berth("story", "web", *options(port))
    assert (found.code, found.err) == (0, "")
    assert (
        found.out
        == """\
default/web: bound
UID web, scheduled by berth
Seen first at 2023-11-14 22:09:00 UTC. It is now 2023-11-14 22:13:20 UTC.

      0.0 s  queued: the pod was added
      0.0 s  attempt 1: unschedulable: 0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are \
available: 1 Preemption is not helpful for scheduling.
      0.0 s  waits for a change that may help against NodeResourcesFit
3 min 20 s  woken: node n4 was added, which may help against NodeResourcesFit
3 min 20 s  attempt 2: assumed on n4 (2 nodes evaluated, 1 feasible)
3 min 20 s  bound to n4
""".replace("\n3 min", "\n 3 min")
    )
    assert port.asked == ["/debug/story"]


def test_json(berth: Berth, port: Port) -> None:
    """JSON is the port's answer as it is: kind and version, and the calendar's time of each entry."""
    found = berth("story", "default/web", "-o", "json", *options(port))
    told = json.loads(found.out)
    assert (told["apiVersion"], told["kind"], told["state"]) == ("podberth.dev/v1alpha1", "Story", "bound")
    assert told["pod"] == {"namespace": "default", "name": "web", "uid": "web", "schedulerName": "berth"}
    assert (told["leads"], told["leader"], told["toldAt"]) == (True, "berth-1", "2023-11-14T22:13:20.500000Z")
    assert [entry["kind"] for entry in told["entries"]] == ["queued", "failed", "queued", "queued", "assumed", "bound"]
    assert [entry["time"][14:23] for entry in told["entries"]] == ["09:00.000"] * 3 + ["12:20.000"] * 2 + ["12:20.500"]


@pytest.mark.parametrize(
    ("arguments", "namespaced"),
    [(["web", "-n", "default"], True), (["--uid", "web"], True), (["web", "-n", "other"], False)],
    ids=["-n", "--uid", "another namespace"],
)
def test_which_pod(berth: Berth, port: Port, arguments: list[str], namespaced: bool) -> None:
    """By namespace and name, or by UID."""
    found = berth("story", *arguments, *options(port))
    assert found.code == (0 if namespaced else 1)


def test_nothing_is_known(berth: Berth, port: Port) -> None:
    """One line, exit code 1; from a replica that stands by, it names the leader."""
    found = berth("story", "nobody", *options(port))
    assert (found.code, found.out) == (1, "")
    assert found.err.startswith("berth: default/nobody: no story of this pod; there is one of each pod that ")
    assert "stands by" not in found.err
    port.leading = False
    assert berth("story", "nobody", *options(port)).err.endswith("This replica stands by: ask the leader, berth-1\n")


def test_a_replica_that_stands_by(berth: Berth, port: Port) -> None:
    """It says so, and who leads."""
    port.leading = False
    found = berth("story", "web", *options(port))
    assert found.code == 0
    assert "This replica stands by and decides nothing: berth-1 leads, and has the rest of the story.\n" in found.out


def test_what_was_left_out(berth: Berth, port: Port) -> None:
    """The gap has its place and number; control characters of messages are not obeyed."""
    story = port.engine.history.stories.get("web")
    for i in range(3 * LONGEST):
        story.note(Failed(port.harness.now, i, "Unschedulable", f"{i}\x1b[2J", frozenset(), None))
    found = berth("story", "web", *options(port))
    (line,) = [line for line in found.out.splitlines() if "not kept" in line]
    assert line == f"          …  {story.left_out} entries not kept, to make room"
    assert "\x1b" not in found.out
    assert found.out.splitlines().index(line) == 4 + 12


def test_points(berth: Berth, port: Port) -> None:
    """With durations, where the attempt was measured."""
    story = port.engine.history.stories.get("web")
    story.note(Failed(port.harness.now, 3, "Unschedulable", "no", frozenset(), [1.0, "PreFilter", "Success", 1.002]))
    found = berth("story", "pod/web", "--points", *options(port))
    assert "               PreFilter        2.000 ms  Success\n" in found.out
    assert "PreFilter" not in berth("story", "web", *options(port)).out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a pod, or give its --uid (see berth story --help)"),
        (["web", "--uid", "x"], "name a pod, or give its --uid (see berth story --help)"),
        (["a/web", "-n", "b"], "a/web: the pod's namespace is a, and -n says b"),
        (["a/b/c"], '"a/b/c": expected a pod\'s name, or NAMESPACE/NAME'),
        (["pod/"], '"pod/": expected a pod\'s name, or NAMESPACE/NAME'),
        (["/web"], '"/web": expected a pod\'s name, or NAMESPACE/NAME'),
        (["deploy/web"], '"deploy/web": expected a pod\'s name, or NAMESPACE/NAME'),
        (["web", "-n", ""], '-n: "": expected the name of a namespace'),
        (["web", "--server", "http://x:1"], "http://x:1: expected https://HOST:PORT"),
        (["web", "--server", "localhost"], "localhost: expected https://HOST:PORT"),
        (
            ["web", "--server", "https://x:y"],
            "https://x:y: expected a URL (Port could not be cast to integer value as 'y')",
        ),
        (
            ["web", "--certificate-authority", "nowhere"],
            "nowhere: no such file; expected the cluster's CA certificates",
        ),
        (["web", "--token-file", "nowhere"], "nowhere: no such file; expected a token"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_input(berth: Berth, arguments: list[str], said: str, tmp_path: Path) -> None:
    """One line, exit code 2."""
    token = tmp_path / "token"
    token.write_text("x")
    given = [*arguments, *(() if "--token-file" in arguments else ("--token-file", str(token)))]
    found = berth("story", *given)
    assert (found.code, found.out, found.err) == (2, "", f"berth: {said}\n")


def test_who_may_not(berth: Berth, port: Port) -> None:
    """The port's refusal is told with its address."""
    port.token.write_text("somebody-elses")
    found = berth("story", "web", *options(port))
    assert (found.code, found.err) == (2, f"berth: {port.server}: the bearer token is not valid\n")


def test_a_certificate_that_nobody_signed(berth: Berth, port: Port) -> None:
    """Nothing is asked, so that the token goes nowhere; the line says what to do. With the CA, all is well."""
    plain = ["--server", port.server, "--token-file", str(port.token)]
    found = berth("story", "web", *plain)
    assert found.code == 2
    assert "give --certificate-authority FILE, or --insecure-skip-tls-verify where you trust the way there" in found.err
    assert len(found.err.splitlines()) == 1
    assert port.asked == []
    trusted = ["--certificate-authority", str(port.certificate), "--tls-server-name", "localhost"]
    assert berth("story", "web", *plain, *trusted).code == 0


def test_nobody_there(berth: Berth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says how to get there."""
    token = tmp_path / "token"
    token.write_text("x")
    found = berth("story", "web", "--server", "https://127.0.0.1:1", "--token-file", str(token))
    assert (found.code, len(found.err.splitlines())) == (2, 1)
    assert found.err.endswith("; kubectl port-forward makes a way to the scheduler's port 10259\n")
    assert story_module.SERVER == "https://localhost:10259"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({}, 400),
        ({"pod": "web"}, 400),
        ({"pod": "a/b/c"}, 400),
        ({"pod": "/web"}, 400),
        ({"pod": "default/web", "uid": "web"}, 400),
        ({"pod": "default/web"}, 200),
        ({"uid": "web"}, 200),
        ({"uid": "x" * 10_000}, 404),
    ],
    ids=str,
)
def test_queries(query: dict[str, str], status: int) -> None:
    """The page refuses wrong queries, and bounds its answers."""
    harness = Harness()
    harness.put(pod("web"))

    class Alone:
        engine = harness.engine
        leading = True

    found, said = Storyteller(cast(Scheduler, Alone()), None).answer(query)
    assert found == status
    assert len(said) < 1024


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(0.0, "0.0 s"), (119.94, "119.9 s"), (120.0, "2 min 00 s"), (3_725.0, "1 h 02 min"), (90_000.0, "1 d 01 h")],
)
def test_times(seconds: float, want: str) -> None:
    """As precise as it matters."""
    assert duration(seconds) == want
