"""The plan of evictions, and what explain says of one pod's promise."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from podberth.cli.main import run
from podberth.evictor.gates import Settings
from podberth.explain.objects.world import World
from podberth.explain.promises import Plan, plan
from podberth.framework.config import decode
from podberth.framework.profiles import build
from tests.builders import Object, node, pod
from tests.registered import registry
from tests.unit.evictor.conftest import CONFIG, OWNER, disk, keeping

MINE: dict[str, Any] = {"labels": {"app": "web"}}


def planned(*objects: Object, **settings: Any) -> Plan:
    """The plan for these objects."""
    world = World()
    world.add_all(objects)
    return plan(world.cluster, build(decode(CONFIG), registry()), Settings(**settings))


def budget(name: str, allowed: int) -> Object:
    """A PodDisruptionBudget of app=web."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": allowed},
    }


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param([keeping("p", "b")], [], id="kept"),
        pytest.param([keeping("p", "a")], [("p", "evict", "b", "")], id="evict"),
        pytest.param([keeping("p", "a", cpu="9")], [("p", "stays", None, "2 Insufficient cpu")], id="no room"),
        pytest.param(
            [keeping("p", "a", priority=2_000_000_000)], [("p", "leftAlone", None, "critical")], id="critical"
        ),
        pytest.param([keeping("p", "a", scheduler="other")], [], id="another scheduler's"),
        pytest.param(
            [keeping("p", "a", **MINE), keeping("q", "a", **MINE), budget("one", 1)],
            [("p", "evict", "b", ""), ("q", "budget", "b", "budget one allows no disruption")],
            id="budget",
        ),
        pytest.param(
            [keeping("p", "a", **MINE), budget("one", 1), budget("two", 1)],
            [("p", "budget", "b", "refuses a pod that has more than one")],
            id="two budgets",
        ),
    ],
)
def test_actions(objects: list[Object], want: list[tuple[str, str, str | None, str]]) -> None:
    """The plan says what would be done, or why not."""
    found = planned(disk("a", "hdd"), disk("b"), *objects).evictions
    assert [(one.name, one.action, one.target) for one in found] == [(n, a, t) for n, a, t, _ in want]
    assert all(says.lower() in one.text.lower() for one, (*_, says) in zip(found, want, strict=True))


def test_room_is_given_once() -> None:
    """Of two pods for which the other node has room by itself, one goes; a pod that stays takes none."""
    world = World()
    crowd = [keeping(name, "a", cpu="2500m") for name in ("p", "q")]
    world.add_all([disk("a", "hdd"), disk("b"), *crowd, keeping("big", "a", cpu="9"), keeping("small", "a", cpu="1")])
    frameworks = build(decode(CONFIG), registry())
    found = [plan(world.cluster, frameworks, Settings()).evictions for _ in range(2)]
    assert [(one.name, one.action) for one in found[0]] == [
        ("p", "evict"),
        ("small", "evict"),
        ("big", "stays"),
        ("q", "stays"),
    ]
    assert found[1] == found[0], "a plan leaves nothing behind"


def test_breaker() -> None:
    """Nodes whose promises nobody would act on do not count."""
    nodes = [disk(f"n{i}", "hdd") for i in range(4)]
    made = planned(*nodes, *(keeping(f"p{i}", f"n{i}") for i in range(3)), changed_share=0.5)
    assert (made.broken_nodes, made.limit, made.breaker_open) == (3, 2, True)


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Table and JSON, and the exit code that says whether a promise is broken."""
    dump = tmp_path / "dump.yaml"
    objects = [disk("a", "hdd"), disk("b"), keeping("web", "a"), keeping("bad", "b", "{}")]
    dump.write_text(yaml.safe_dump_all(objects))
    asked = ["evictor", "--dry-run", f"--cluster={dump}"]
    assert run([*asked, "-o", "json"]) == 1
    made = json.loads(capsys.readouterr().out)
    assert (made["kind"], made["pods"], len(made["unreadable"])) == ("EvictionPlan", 1, 1)
    assert made["evictions"] == [
        {
            "namespace": "default",
            "name": "web",
            "node": "a",
            "breach": 'disk in (ssd): the label is "hdd"',
            "action": "evict",
            "target": "b",
            "text": "",
            "notBefore": None,
        }
    ]
    assert run(asked) == 1
    said = capsys.readouterr().out
    assert "1 of 1 promise broken, on 1 node of 2" in said and "to b" in said
    dump.write_text(yaml.safe_dump_all([disk("b"), keeping("web", "b")]))
    assert run(asked) == 0
    assert "All promises of 1 pod are kept" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--grace", "0"], "--grace: Invalid value: 0: must be greater than 0"),
        (["--node-rate", "inf"], "--node-rate: Invalid value: inf: must be greater than 0, and finite"),
        (["--max-changed", "1.5"], "--max-changed: Invalid value: 1.5: must be at most 1"),
        (["--node-burst", "0"], "--node-burst: Invalid value: 0: must be greater than 0"),
        (["--cluster", "dump.yaml"], "--cluster: a dump can only be looked at, with --dry-run"),
        (["--log-level", "loud"], '--log-level: "loud": want one of'),
    ],
)
def test_wrong_options(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit code 2."""
    assert run(["evictor", *options]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and says in said[0]


@pytest.mark.parametrize(
    ("pod", "state", "says"),
    [
        (keeping("web", "b"), "kept", "node b is disk in (ssd)"),
        (keeping("web", "a"), "broken", "1 other node can take it"),
        (keeping("web", "a", cpu="9"), "broken", "it stays"),
        (keeping("web", "a", meta={"ownerReferences": []}), "broken", "leaves it alone"),
        (keeping("web", None), "waiting", "has to stay disk in (ssd)"),
        (keeping("web", "b", "{}"), "unreadable", "nodeSelectorTerms"),
        (keeping("web", "b", None), None, ""),
    ],
)
def test_explain(pod: Object, state: str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The state of the promise is in the JSON, and in the table."""
    dump = tmp_path / "dump.yaml"
    dump.write_text(yaml.safe_dump_all([disk("a", "hdd"), disk("b"), pod]))
    run(["explain", "web", f"--cluster={dump}", "-o", "json"])
    promise = json.loads(capsys.readouterr().out)["promise"]
    assert (None if promise is None else promise["state"]) == state
    assert promise is None or says in promise["text"]
    run(["explain", "web", f"--cluster={dump}"])
    assert (f"promise {state}:" in capsys.readouterr().out) is (state is not None)


def told(reason: str, seconds_ago: float, form: str, **marks: str) -> Object:
    """An Event of an evictor about a pod that is gone, as the API has it (events) or as kubectl prints it (core)."""
    at = (datetime.now(UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
    annotations = {f"podberth.dev/{key.replace('_', '-')}": value for key, value in marks.items()}
    name = f"{reason}-{seconds_ago}".lower()
    meta = {"name": name, "namespace": "default", "creationTimestamp": at, "annotations": annotations}
    about = {"kind": "Pod", "namespace": "default", "name": "web-0", "uid": "gone"}
    made = {"kind": "Event", "metadata": meta, "reason": reason}
    if form == "events":
        return {**made, "regarding": about, "reportingController": "podberth.dev/evictor"}
    return {**made, "involvedObject": about, "reportingComponent": "podberth.dev/evictor"}


MARKS = {"owner": "rs", "eviction_round": "2", "successors_wait_seconds": "600"}
NEW = {"creationTimestamp": "2999-01-01T00:00:00Z"}
OLD = {"creationTimestamp": "2020-01-01T00:00:00Z"}


@pytest.mark.parametrize("form", ["events", "core"])
@pytest.mark.parametrize(
    ("meta", "events", "waits"),
    [
        pytest.param(NEW, [("Evicting", 400), ("Evicted", 100)], 501, id="successor"),
        pytest.param(OLD, [("Evicting", 400), ("Evicted", 100)], None, id="sibling"),
        pytest.param(NEW, [("Evicting", 700), ("Evicted", 601.9)], None, id="over"),
        pytest.param(NEW, [("Evicting", 100)], 600, id="nobody wrote down whether it was evicted"),
        pytest.param(NEW, [], None, id="nothing known"),
    ],
)
def test_a_successor_is_not_said_to_go_at_once(
    meta: Object,
    events: list[tuple[str, float]],
    waits: float | None,
    form: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The plan and explain say until when an evictor leaves the pod alone, and why; both say the same."""
    dump = tmp_path / "dump.yaml"
    there = [disk("a", "hdd"), disk("b"), keeping("web-1", "a", meta=meta)]
    dump.write_text(yaml.safe_dump_all([*there, *(told(reason, ago, form, **MARKS) for reason, ago in events)]))
    run(["evictor", "--dry-run", f"--cluster={dump}", "-o", "json"])
    (planned,) = json.loads(capsys.readouterr().out)["evictions"]
    run(["explain", "web-1", f"--cluster={dump}", "-o", "json"])
    promise = json.loads(capsys.readouterr().out)["promise"]
    if waits is None:
        assert (planned["action"], planned["text"], planned["notBefore"]) == ("evict", "", None)
        assert "an evictor moves it, 1 other node can take it" in promise["text"] and promise["notBefore"] is None
        return
    until = planned["notBefore"]
    left = (datetime.fromisoformat(until) - datetime.now(UTC)).total_seconds()
    assert waits - 60 <= left <= waits + 2
    why = "because a pod of its owner was evicted, and pods created since are left alone for 10 min"
    assert (planned["action"], planned["target"]) == ("waits", "b")
    assert planned["text"].startswith(f"not before {until}, {why}")
    if events[-1][0] == "Evicted":  # else it counts from when one asks
        assert promise["notBefore"] == until
    assert f"an evictor moves it, not before {promise['notBefore']}, {why}" in promise["text"]
    run(["evictor", "--dry-run", f"--cluster={dump}"])
    said = " ".join(capsys.readouterr().out.split())
    assert "evict later" in said and "to b; not before" in said


def test_events_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are named and left out."""
    dump = tmp_path / "dump.yaml"
    broken = {**told("Evicted", 1, "events", **MARKS), "reason": 7}
    dump.write_text(yaml.safe_dump_all([disk("a", "hdd"), disk("b"), keeping("web", "a"), broken]))
    assert run(["evictor", "--dry-run", f"--cluster={dump}"]) == 1
    assert "Events of the dump can't be read" in capsys.readouterr().err


EARLY, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
ZONE = "topology.kubernetes.io/zone"
TRUE = {"podberth.dev/required-during-execution": "true"}


def web(
    name: str, place: str, *, scheduler: str = "berth", at: int = 0, own: bool = False, made_at: str = EARLY
) -> Object:
    """A pod that is bound, so many seconds after others; `own`: it keeps away from its like, in its zone."""
    made = pod(name, labels={"app": "web"}, scheduler=scheduler, on=place)
    made["metadata"] |= {"annotations": dict(TRUE) if own else {}, "ownerReferences": [OWNER]}
    made["metadata"]["creationTimestamp"] = made_at
    bound = f"2026-01-01T00:00:{at:02}Z"
    made["status"] = {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": bound}]}
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE}
    if own:
        made["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return made


def zone(name: str, where: str) -> Object:
    """A node."""
    return node(name, zone=where)


BROKEN = "pod anti-affinity does not hold: pod default/theirs of scheduler other was placed in"


def test_a_race_is_planned() -> None:
    """Another scheduler's pod came into the zone about the same time: ours goes to another zone."""
    nodes = [zone("a1", "a"), zone("a2", "a"), zone("b1", "b")]
    theirs = web("theirs", "a2", scheduler="other", at=5)
    (one,) = planned(*nodes, web("ours", "a1", own=True), theirs).evictions
    assert (one.name, one.action, one.target) == ("ours", "evict", "b1")
    assert one.breach.startswith(BROKEN)
    late = web("theirs", "a2", scheduler="other", at=40)
    assert planned(*nodes, web("ours", "a1", own=True), late).evictions == [], "it came much later: no race"


def test_one_of_a_race_goes_at_a_time() -> None:
    """Of several in one conflict, the evictor takes one; the others have their turn when that was not enough."""
    nodes = [zone("a1", "a"), zone("a2", "a"), zone("a3", "a"), zone("b1", "b")]
    made = planned(
        *nodes,
        web("old", "a1", own=True),
        web("young", "a3", own=True, made_at=LATER),
        web("theirs", "a2", scheduler="other", at=5),
    )
    assert [(one.name, one.action) for one in made.evictions] == [("young", "evict"), ("old", "waits")]
    assert "default/young of the same conflict goes first" in made.evictions[1].text


@pytest.mark.parametrize("own", [True, False])
def test_explain_shows_a_race(tmp_path: Path, capsys: pytest.CaptureFixture[str], own: bool) -> None:
    """Also for a pod that nobody moves: then it says who would."""
    ours = web("ours", "a1", own=True)
    if not own:
        ours["metadata"]["annotations"] = {}
    dump, config = tmp_path / "dump.yaml", tmp_path / "config.yaml"
    there = [zone("a1", "a"), zone("a2", "a"), zone("b1", "b"), ours, web("theirs", "a2", scheduler="other", at=5)]
    dump.write_text(yaml.safe_dump_all(there))
    config.write_text(yaml.safe_dump(CONFIG))
    run(["explain", "ours", "--cluster", str(dump), "--config", str(config), "-o", "json"])
    (note,) = (one for one in json.loads(capsys.readouterr().out)["notes"] if "anti-affinity does not hold" in one)
    assert ("the evictor moves one of them" if own else "nobody mends that") in note
