"""`berth replay`: what a recording holds, any second of it, and whether all is decided the same again."""

import asyncio
import json
from pathlib import Path

import pytest

from podberth.framework.config import decode
from podberth.lab import read_world, run
from podberth.lab.recording import reading
from podberth.lab.recording.log import Limits, segments
from tests.builders import configuration, node, pod, profile
from tests.unit.cli.conftest import Berth
from tests.unit.lab.recording.flights import Flight, busy


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a minute, in which a pod of 9 cores waits."""
    directory = tmp_path_factory.mktemp("flown") / "recording"

    async def fly() -> None:
        flight = Flight(directory)
        busy(flight)
        flight.close()

    asyncio.run(fly())
    return directory


def test_contents(flown: Path, berth: Berth) -> None:
    """For people, and as data."""
    found = berth("replay", str(flown))
    assert (found.code, found.err) == (0, "")
    assert "berth run, from its start" in found.out
    assert "60 pods came" in found.out
    (figures,) = json.loads(berth("replay", str(flown), "-o", "json").out)["processes"]
    assert figures["podsCame"] == 60
    assert figures["whole"] is True
    assert figures["bytes"] == sum(each.stat().st_size for each in segments(flown))


def test_verify(flown: Path, berth: Berth) -> None:
    """Equal, and exit code 0; another seed differs, and 1."""
    found = berth("replay", str(flown), "--verify")
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith("equal: ")
    assert json.loads(berth("replay", str(flown), "--verify", "-o", "json").out)["processes"][0]["differ"] == 0


def test_why_explains_in_the_state_that_the_decision_saw(flown: Path, berth: Berth) -> None:
    """A pod that was placed went to that node; one that was not is told as it was told then."""
    placed = berth("replay", str(flown), "--why", "default/p12", "-o", "json")
    where = placed.err.rpartition("placed on ")[2].strip()
    answer = json.loads(placed.out)
    assert placed.code == 0
    assert where in answer["choice"]["best"]
    failed = berth("replay", str(flown), "--why", "p14", "-o", "json")
    assert failed.code == 1
    assert json.loads(failed.out)["message"] in failed.err


def test_any_second(flown: Path, berth: Berth) -> None:
    """Commands answer as of then: a pod that came later is not known."""
    asked = ("replay", str(flown), "--at")
    assert berth(*asked, "6s", "explain", "p50").code == 2
    early = berth(*asked, "6s", "explain", "default/p14", "-o", "json")
    assert json.loads(early.out)["outcome"] == "unschedulable"
    assert berth(*asked, "5s", "--dump", "then.json").code == 0
    items = json.loads(Path("then.json").read_text())["items"]
    assert [each["metadata"]["name"] for each in items if each["kind"] == "Node"] == ["n0", "n1", "n2", "n3"]
    assert berth("explain", "p13", "--cluster", "then.json").code == 2


def test_an_older_dump_stays_until_there_is_another(flown: Path, berth: Berth, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever presses Ctrl-C while the recording is read has what was in the file."""

    def interrupted(part: reading.Part) -> None:
        raise KeyboardInterrupt

    Path("then.json").write_text("older")
    monkeypatch.setattr(reading.Part, "state", interrupted)
    assert berth("replay", str(flown), "--dump", "then.json").code == 130
    assert Path("then.json").read_text() == "older"


def test_a_time_is_one_of_the_day_on_which_it_ended(tmp_path: Path) -> None:
    """The recording began in the afternoon before."""

    async def fly() -> None:
        flight = Flight(tmp_path)
        flight.put(node("n0", "4"))
        flight.now += 12 * 3600
        flight.put(node("n1", "4"))
        flight.close()

    asyncio.run(fly())
    until = reading.part(tmp_path, "01:00:00").until
    assert until is not None
    assert 100 < until < 100 + 12 * 3600


def test_masked(flown: Path, berth: Berth) -> None:
    """It has other names, says the same, and its placements are decided the same."""
    assert berth("replay", str(flown), "--masked", "masked").code == 0
    found = berth("replay", "masked", "--verify")
    assert (found.code, found.err) == (0, "")
    one, other = (
        json.loads(berth("replay", name, "-o", "json").out)["processes"][0] for name in (str(flown), "masked")
    )
    assert {**one, "bytes": 0, "bytesPerPod": 0} == {**other, "bytes": 0, "bytesPerPod": 0}
    assert berth("replay", "masked", "--dump", "masked.json").code == 0
    items = json.loads(Path("masked.json").read_text())["items"][1:]
    assert all(each["metadata"]["name"].startswith("mask") for each in items)
    assert {each["spec"]["nodeName"][:4] for each in items if each["spec"].get("nodeName")} == {"mask"}


def test_pods_of_one_name(tmp_path: Path, berth: Berth) -> None:
    """A name alone is not enough; a namespace may be called as kinds are."""
    directory = tmp_path / "two"

    async def fly() -> None:
        flight = Flight(directory)
        flight.put(node("n0", "4"))
        for namespace in ("job", "shop"):
            flight.put(pod("web", "1", namespace=namespace))
            flight.work()
        flight.close()

    asyncio.run(fly())
    found = berth("replay", str(directory), "--why", "web")
    assert (found.code, found.err.splitlines()[-1]) == (
        2,
        f"berth: {directory}: web: pods of job and shop have this name: expected NAMESPACE/NAME",
    )
    for name in ("job/web", "shop/web"):
        found = berth("replay", str(directory), "--why", name)
        assert found.code == 0
        assert found.out.startswith(f"✓ {name} ")


PACKED = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
OTHER = configuration(profile(NodeResourcesFit=PACKED))


def test_difference(flown: Path, berth: Berth) -> None:
    """Nothing of equal configurations; of one that packs, the pods that go elsewhere, and what that is good for."""
    Path("same.yaml").write_text(json.dumps(configuration(profile())))
    Path("other.yaml").write_text(json.dumps(OTHER))
    same = berth("replay", str(flown), "--diff", "same.yaml", "-o", "json")
    found = json.loads(same.out)
    assert (same.code, same.err) == (0, "")
    assert (found["moved"], found["podsThatDiffer"], found["regret"]["points"]) == (0, [], 0)
    assert found["regret"]["pods"] == found["regret"]["same"] + found["regret"]["tie"] > 40
    assert found["ours"] == found["others"]
    other = berth("replay", str(flown), "--diff", "other.yaml", "-o", "json")
    found = json.loads(other.out)
    assert other.code == 1
    assert found["moved"] == len([1 for each in found["podsThatDiffer"] if each["node"] != each["other"]]) > 10
    assert found["regret"]["points"] == sum(found["regret"]["plugins"].values()) > 0
    assert found["others"]["nodes_in_use"] < found["ours"]["nodes_in_use"]
    assert "go elsewhere" in berth("replay", str(flown), "--diff", "other.yaml").out
    assert "<title>berth and other.yaml" in berth("replay", str(flown), "--diff", "other.yaml", "-o", "html").out
    later = json.loads(berth("replay", str(flown), "--at", "15s", "--diff", "other.yaml", "-o", "json").out)
    assert 0 < later["pods"] < found["pods"]
    assert 0 < later["regret"]["pods"] < found["regret"]["pods"]
    assert later["regret"]["pods"] <= later["pods"]


@pytest.fixture
def reloaded(tmp_path: Path) -> Path:
    """A recording in two segments: in the second one nodes are packed since a reload, whatever their taints."""
    directory = tmp_path / "reloaded"
    packs = profile(NodeResourcesFit=PACKED)
    packs["plugins"] = {
        "score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]},
        "filter": {"disabled": [{"name": "TaintToleration"}]},
    }
    (tmp_path / "packs.yaml").write_text(json.dumps(configuration(packs)))

    async def fly() -> None:
        flight = Flight(directory, limits=Limits(age=60.0))
        for name in ("n0", "n1", "n2"):
            flight.put(node(name, "8"))
        for name in ("a", "b"):
            flight.put(pod(name, "1", on="n0"))
            flight.now += 4
        flight.put(pod("spread", "1"))
        flight.work()
        flight.written()
        flight.now += 1
        flight.reload(decode(configuration(packs)))
        flight.now += 1
        flight.put(node("n2", "8", taints=["maintenance:NoSchedule"]))
        for name in ("c", "d"):
            flight.put(pod(name, "1"))
            flight.work()
        flight.put(pod("e", "1", select={"host": "n2"}))
        flight.work()
        flight.close()

    asyncio.run(fly())
    return directory


def test_after_a_reload_the_new_configuration_answers(reloaded: Path, berth: Berth) -> None:
    """A decision is explained, verified and compared by the configuration that made it."""
    packs = str(reloaded.parent / "packs.yaml")
    for name, best in (("d", "n0"), ("e", "n2")):
        why = berth("replay", str(reloaded), "--why", name, "-o", "json")
        assert why.err.endswith(f"placed on {best}\n")
        assert json.loads(why.out)["choice"]["best"] == [best]
    assert berth("replay", str(reloaded), "--verify").out.startswith("equal: 4 placed")
    since = json.loads(berth("replay", str(reloaded), "--diff", packs, "-o", "json").out)
    assert since["moved"] > 0
    assert any("configured otherwise meanwhile" in note for note in since["notes"])
    later = berth("replay", str(reloaded), "--at", "9.5s", "--diff", packs, "-o", "json")
    assert (later.code, json.loads(later.out)["asRecorded"]) == (0, 3)
    segments(reloaded)[0].unlink()
    assert berth("replay", str(reloaded), "--verify").out.startswith("equal: 3 placed, 0 failed, 0 preemptions, 0 of")


def test_world(flown: Path) -> None:
    """Experiments read it: its pods come as they came, and as many are bound."""
    world = read_world(flown)
    assert len(world.objects) == 4
    assert len(world.arrivals) == 60
    result = run(world, decode(configuration(profile())), seed=3)
    assert result.summary["bound"] == 51


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none",), "none: no such file or directory"),
        ((".",), ".: expected a directory that berth run --record or berth shadow --record has written"),
        (("REC", "--verify", "--why", "p"), "--verify and --why: expected one of them"),
        (("REC", "--verify", "--at", "5s"), "--at and --verify: expected one of them"),
        (("REC", "--masked", "new", "--at", "5s"), "--at and --masked: expected one of them"),
        (("REC", "-o", "html"), "-o html: expected table, json or yaml, as there is no page of this answer"),
        (
            ("REC", "--verify", "-o", "html"),
            "-o html: expected table, json or yaml, as there is no page of this answer",
        ),
        (("REC", "--at", "5s", "explain", "p", "--scheduler", "x"), '--scheduler: "x": expected one of the profiles'),
        (("REC", "--at", "soon", "explain", "p"), "REC: --at soon: expected a time such as 23:15:02, "),
        (
            ("REC", "--at", "1999-01-01T00:00:00Z", "--dump", "x"),
            "REC: --at 1999-01-01T00:00:00Z: the recording begins",
        ),
        (("REC", "--at", "5s"), "--at: expected a command after it: explain, simulate, capacity; or --dump FILE"),
        (("REC", "explain", "p"), "explain: expected one of explain, simulate, capacity after --at TIME"),
        (("REC", "--why", "nobody"), "REC: nobody: no such pod was seen until then"),
        (("REC", "--masked", "REC"), "REC: expected a directory that is empty, or none"),
        (("REC", "--masked", "other"), "other: expected an empty directory or a recording, and there is a.txt"),
        (("REC", "--masked", "logs"), "logs: expected an empty directory or a recording, and there is 20261130.log"),
    ],
)
def test_wrong_input(flown: Path, berth: Berth, words: tuple[str, ...], said: str) -> None:
    """One line that names the option or the directory."""
    Path("REC").symlink_to(flown)
    Path("other").mkdir()
    Path("other/a.txt").touch()
    Path("logs").mkdir()
    Path("logs/20261130.log").write_text("of something else")
    found = berth("replay", *words)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(f"berth: {said}"), found.err
    assert len(found.err.splitlines()) == 1
