"""Conditions of pod groups: written once, never taken back from True, and only when they say something new."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from podberth.app import group_statuses, reporting
from podberth.app.group_statuses import AT_ONCE, GroupStatuses
from podberth.app.reporting import TOGETHER, TRUST, UnderWay
from podberth.engine.instructions import DisruptGroup, SetGroupCondition
from podberth.kube.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from podberth.kube.errors import ApiError, Unreachable
from podberth.kube.flow import Lane
from podberth.model import wire
from podberth.model.kinds import Decoder
from podberth.model.pod_group import PodGroup
from tests.builders import pod

DECODER = Decoder()
MEMBER = DECODER.pod(wire.encode(pod("member")))
NATIVE, THEIRS = "/apis/scheduling.k8s.io/v1beta1", "/apis/scheduling.x-k8s.io/v1alpha1"
Object = dict[str, Any]


class Api:
    """Groups by path, with versions; patches wait while `open` is not set."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.live: dict[str, Object] = {}
        self.asked: list[tuple[str, Object, str]] = []
        self.errors: list[Exception] = []
        self.pauses: list[float] = []
        self.together: list[int] = []
        """How many patches came on each connection that carried several."""
        self.errors_later: dict[int, Exception] = {}
        """What becomes of this one of the first patches that come together."""
        self.loses = 0
        """So many of these are carried out, and their answers are lost with the connection."""
        self.silent = self.page = False
        """Patches that come together are not answered, or by a page of what stands between."""
        self.under_way = UnderWay()
        self.statuses = GroupStatuses(cast(Client, self), self.under_way, wall=lambda: 0.0, sleep=self.sleep)
        self._version = 10

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def group(self, name: str = "train", namespace: str = "default", root: str = NATIVE, **status: Any) -> PodGroup:
        """A group that the API has, as the watch shows it."""
        self._version += 1
        document = {
            "apiVersion": root.removeprefix("/apis/"),
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"{namespace}/{name}",
                "resourceVersion": str(self._version),
                "generation": 1,
            },
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "minMember": 2},
            "status": status,
        }
        self.live[f"{root}/namespaces/{namespace}/podgroups/{name}"] = document
        return self.shown(name, namespace, root)

    def shown(self, name: str = "train", namespace: str = "default", root: str = NATIVE) -> PodGroup:
        """The group as the watch shows it now."""
        document = self.live[f"{root}/namespaces/{namespace}/podgroups/{name}"]
        found = DECODER.of_kind("PodGroup")(wire.encode(document))
        assert isinstance(found, PodGroup)
        return found

    async def patch(self, path: str, body: bytes, how: str, **_: Any) -> bytes:
        await self.open.wait()
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)
        change = json.loads(body)
        live = self.live.get(path.removesuffix("/status"))
        if live is None:
            raise ApiError(404, "NotFound", "no such group")
        meta = live["metadata"]
        if change["metadata"]["uid"] != meta["uid"]:
            raise ApiError(422, "Invalid", "metadata.uid: field is immutable")
        if change["metadata"]["resourceVersion"] != meta["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        self.asked.append((path, change["status"], how))
        status = live["status"]
        for one in change["status"].pop("conditions", []):
            others = [each for each in status.get("conditions", []) if each["type"] != one["type"]]
            status["conditions"] = [*others, one]
        status.update(change["status"])
        self._version += 1
        meta["resourceVersion"] = str(self._version)
        return json.dumps(live).encode()

    async def turns(self, lane: Lane, most: int) -> int:
        return most

    async def patch_many(self, patches: Sequence[tuple[str, bytes, str]], *, lane: Lane) -> list[tuple[int, bytes]]:
        """One after the other; the connection ends where `errors` has no answer of the API."""
        self.together.append(len(patches))
        if self.silent or self.page:
            return [(200, b"<html>")] * len(patches) if self.page else []
        answers = []
        for i, patch in enumerate(patches):
            try:
                if i in self.errors_later:
                    raise self.errors_later.pop(i)
                answered = await self.patch(*patch)
                if self.loses:
                    self.loses -= 1
                    break
                answers.append((200, answered))
            except ApiError as error:
                answers.append((error.status, json.dumps({"kind": "Status", "message": error.message}).encode()))
            except Unreachable:
                break
        return answers

    async def get(self, path: str, **_: Any) -> bytes:
        if path not in self.live:
            raise ApiError(404, "NotFound", "no such group")
        return json.dumps(self.live[path]).encode()

    def say(self, group: PodGroup, status: str = "False", message: str = "no room", reason: str = "") -> None:
        reason = reason or {"True": "Scheduled", "False": "Unschedulable"}[status]
        self.statuses.set_condition(SetGroupCondition(MEMBER, group, status, reason, message))

    async def done(self) -> None:
        self.open.set()
        assert await self.under_way.drain(30.0) == 0

    def conditions(self, name: str = "train", namespace: str = "default") -> dict[str, tuple[str, str, str]]:
        status = self.live[f"{NATIVE}/namespaces/{namespace}/podgroups/{name}"]["status"]
        return {one["type"]: (one["status"], one["reason"], one["message"]) for one in status.get("conditions", [])}


async def test_a_condition_is_written_as_kube_scheduler_writes_it() -> None:
    api = Api()
    api.say(api.group())
    await api.done()
    ((path, _, how),) = api.asked
    assert (path, how) == (f"{NATIVE}/namespaces/default/podgroups/train/status", STRATEGIC_MERGE_PATCH)
    (condition,) = api.live[path.removesuffix("/status")]["status"]["conditions"]
    assert condition == {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
        "observedGeneration": 1,
    }


async def test_what_is_there_already_is_not_written() -> None:
    """Neither when the watch shows it, nor before it does."""
    api = Api()
    before = api.group()
    for _ in range(5):
        api.say(before)
        await api.done()
    for _ in range(5):
        api.say(api.shown())
        await api.done()
    assert len(api.asked) == 1
    api.say(before, message="still no room")
    await api.done()
    assert api.conditions() == {"PodGroupInitiallyScheduled": ("False", "Unschedulable", "still no room")}


async def test_the_transition_is_the_last_change_of_the_status() -> None:
    api = Api()
    was = {"type": "PodGroupInitiallyScheduled", "status": "False", "reason": "Unschedulable", "message": "a"}
    api.say(api.group(conditions=[{**was, "lastTransitionTime": "2026-01-01T00:00:00Z"}]))
    await api.done()
    (condition,) = api.live[f"{NATIVE}/namespaces/default/podgroups/train"]["status"]["conditions"]
    assert (condition["message"], condition["lastTransitionTime"]) == ("no room", "2026-01-01T00:00:00Z")
    api.say(api.shown(), "True", "")
    await api.done()
    (condition,) = api.live[f"{NATIVE}/namespaces/default/podgroups/train"]["status"]["conditions"]
    assert (condition["status"], condition["lastTransitionTime"]) == ("True", "1970-01-01T00:00:00Z")


@pytest.mark.parametrize("watch", ["late", "in time"])
async def test_true_is_final(watch: str) -> None:
    api = Api()
    group = api.group()
    api.say(group, "True", "")
    await api.done()
    api.say(group if watch == "late" else api.shown(), "False")
    await api.done()
    assert api.conditions() == {"PodGroupInitiallyScheduled": ("True", "Scheduled", "")}
    assert len(api.asked) == 1


async def test_true_is_final_also_when_another_scheduler_wrote_it() -> None:
    """The version tells: it is read again, and then there is nothing to write."""
    api = Api()
    group = api.group()
    done = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "message": ""}
    api.group(conditions=[done])
    api.say(group)
    await api.done()
    assert api.asked == []
    assert api.conditions()["PodGroupInitiallyScheduled"][0] == "True"


async def test_true_that_waits_is_not_replaced_by_false() -> None:
    api = Api()
    api.open.clear()
    for i in range(AT_ONCE):
        api.say(api.group(f"busy{i}"))
    await asyncio.sleep(0)
    group = api.group()
    api.say(group, "True", "")
    api.say(group, "False")
    await api.done()
    assert api.conditions()["PodGroupInitiallyScheduled"][0] == "True"


async def test_what_is_refused_though_nothing_is_newer_is_sent_once_and_then_later() -> None:
    """To send it again at once would be refused again."""
    api = Api()
    group = api.group()
    api.errors = [ApiError(422, "Invalid", "no")] * 3
    api.say(group, "True", "")
    await api.done()
    assert (len(api.asked), api.pauses) == (1, [1.0, 2.0, 4.0])


async def test_a_newer_version_is_no_obstacle() -> None:
    api = Api()
    group = api.group()
    api.group()
    api.say(group)
    await api.done()
    assert api.conditions()["PodGroupInitiallyScheduled"][0] == "False"


@pytest.mark.parametrize("replaced", [False, True], ids=["gone", "replaced"])
async def test_who_is_gone_needs_no_condition(replaced: bool) -> None:
    api = Api()
    group = api.group()
    path = f"{NATIVE}/namespaces/default/podgroups/train"
    if replaced:
        api.live[path]["metadata"].update(uid="another", resourceVersion="99")
    else:
        del api.live[path]
    with capture_logs() as logs:
        api.say(group)
        await api.done()
    assert (api.asked, logs, api.pauses) == ([], [], [])


async def test_what_is_not_answered_is_written_again() -> None:
    """At success it is said once, so that it must not be lost; what is newer replaces it meanwhile."""
    api = Api()
    api.errors = [Unreachable("gone away"), ApiError(503, "ServiceUnavailable", "later")]
    with capture_logs() as logs:
        api.say(api.group(), "True", "")
        await api.done()
    assert api.conditions()["PodGroupInitiallyScheduled"][0] == "True"
    assert api.pauses == [1.0, 2.0]
    assert [line["event"] for line in logs] == ["pod group's status not written"] * 2


async def test_what_is_forbidden_is_told_and_not_tried_again() -> None:
    api = Api()
    api.errors = [ApiError(403, "Forbidden", "podgroups/status is forbidden")] * 100
    with capture_logs() as logs:
        for i in range(100):
            api.say(api.group(f"g{i}"))
        await api.done()
    assert (api.asked, api.pauses, api.errors) == ([], [], [])
    assert 0 < len(logs) <= 10
    assert "podgroups/status is forbidden" in logs[0]["error"]


async def test_those_of_a_moment_go_out_together() -> None:
    api = Api()
    for i in range(40):
        api.say(api.group(f"g{i}"), "True", "")
    await api.done()
    assert (len(api.asked), api.statuses.written) == (40, 40)
    assert max(api.together) == TOGETHER
    assert len(api.together) <= 4


@pytest.mark.parametrize(
    "error", [Unreachable("server disconnected"), ApiError(409, "Conflict", "modified"), ApiError(503, "", "later")]
)
async def test_what_came_to_nothing_on_a_shared_connection_is_written_by_itself(error: Exception) -> None:
    """The connection ends after the first answer, or one of several is refused for now."""
    api = Api()
    groups = [api.group(f"g{i}") for i in range(5)]
    api.errors_later = {2: error}
    for group in groups:
        api.say(group, "True", "")
    await api.done()
    assert sorted(path for path, _, _ in api.asked) == [
        f"{NATIVE}/namespaces/default/podgroups/g{i}/status" for i in range(5)
    ]
    assert (api.together, api.statuses.written, api.pauses) == ([5], 5, [])


async def test_a_patch_whose_answer_was_lost_is_not_written_twice() -> None:
    api = Api()
    groups = [api.group(f"g{i}") for i in range(3)]
    api.loses = 1
    for group in groups:
        api.say(group, "True", "")
    await api.done()
    assert (len(api.asked), api.together) == (3, [3])
    assert {api.conditions(f"g{i}")["PodGroupInitiallyScheduled"][0] for i in range(3)} == {"True"}


async def test_where_connections_are_not_answered_conditions_go_one_by_one() -> None:
    api = Api()
    api.silent = True
    for turn in range(TRUST + 2):
        for i in range(3):
            api.say(api.group(f"g{turn}-{i}"), "True", "")
        await api.done()
    assert api.together == [3] * TRUST
    assert api.statuses.written == 3 * (TRUST + 2)


async def test_a_page_of_what_stands_between_is_no_answer() -> None:
    api = Api()
    api.page = True
    for i in range(3):
        api.say(api.group(f"g{i}"), "True", "")
    await api.done()
    assert api.statuses.written == 3
    assert len(api.asked) == 3


async def test_a_storm_is_written_once_for_each_group_and_namespaces_take_turns() -> None:
    api = Api()
    api.open.clear()
    groups = [api.group(f"g{i}", "storm") for i in range(50)]
    for turn in range(20):
        for group in groups:
            api.say(group, message=f"attempt {turn}")
    api.say(api.group("quiet", "other"))  # all of it in one turn: nothing was taken to be written before
    assert len(api.statuses) <= len(groups) + 1
    await api.done()
    paths = [path for path, _, _ in api.asked]
    assert paths.index(f"{NATIVE}/namespaces/other/podgroups/quiet/status") <= AT_ONCE + 1
    assert len(paths) <= len(groups) + 1 + AT_ONCE
    said = {api.conditions(f"g{i}", "storm")["PodGroupInitiallyScheduled"][2] for i in range(50)}
    assert said == {"attempt 19"}


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_statuses, "MOST", 30)
    monkeypatch.setattr(reporting, "FEW", 5)
    api = Api()
    api.open.clear()
    for i in range(50):
        api.say(api.group(f"g{i}", "storm"))
    assert (len(api.statuses), api.statuses.dropped) == (30, 20)
    for i in range(5):
        api.say(api.group(f"q{i}", "quiet"))
    assert len(api.statuses) == 35
    await api.done()
    assert api.statuses.written == 35


async def test_a_long_message_is_cut() -> None:
    """The API server refuses more than 32 KiB."""
    api = Api()
    api.say(api.group(), message="é" * 40_000)
    await api.done()
    message = api.conditions()["PodGroupInitiallyScheduled"][2]
    assert len(message.encode()) <= 32 << 10
    assert message.endswith("...")


async def test_disruption_is_another_condition() -> None:
    api = Api()
    group = api.group()
    api.say(group)
    api.statuses.disrupt(DisruptGroup(MEMBER, group, "berth: preempting to accommodate a higher priority pod"))
    await api.done()
    assert len(api.asked) == 1
    assert api.conditions() == {
        "PodGroupInitiallyScheduled": ("False", "Unschedulable", "no room"),
        "DisruptionTarget": (
            "True",
            "PreemptionByScheduler",
            "berth: preempting to accommodate a higher priority pod",
        ),
    }


@pytest.mark.parametrize(
    ("phase", "status", "want"),
    [
        ("", "False", "Pending"),
        ("", "True", "Scheduling"),
        ("Pending", "False", None),
        ("Pending", "True", "Scheduling"),
        ("PreScheduling", "True", "Scheduling"),
        ("Scheduling", "False", None),
        ("Scheduling", "True", None),
        ("PreScheduling", "False", None),
        ("Unknown", "False", None),
        ("Scheduled", "True", None),
        ("Scheduled", "False", None),
        ("Running", "False", None),
        ("Running", "True", None),
        ("Finished", "True", None),
        ("Failed", "False", None),
        ("Failed", "True", None),
    ],
)
async def test_phases_of_scheduler_plugins(phase: str, status: str, want: str | None) -> None:
    """Pending and Scheduling; the later ones are their controller's."""
    api = Api()
    api.say(api.group(root=THEIRS, **({"phase": phase} if phase else {})), status)
    await api.done()
    found = api.live[f"{THEIRS}/namespaces/default/podgroups/train"]["status"]
    assert found.get("phase", "") == (want or phase)
    assert [how for _, _, how in api.asked] == ([MERGE_PATCH] if want else [])
    assert ("scheduleStartTime" in found) == (want == "Scheduling")


@pytest.mark.parametrize("theirs", ["Scheduled", "Running", "Finished", "Failed"])
@pytest.mark.parametrize("ours", ["False", "True"])
async def test_a_phase_that_their_controller_has_just_written_stays(theirs: str, ours: str) -> None:
    """The watch does not show it yet: the write is refused, and what is there now is left alone."""
    api = Api()
    known = api.group(root=THEIRS)
    path = f"{THEIRS}/namespaces/default/podgroups/train"
    api.live[path]["metadata"]["resourceVersion"] = "99"
    api.live[path]["status"] = {"phase": theirs, "running": 2}
    api.say(known, ours)
    await api.done()
    assert api.live[path]["status"] == {"phase": theirs, "running": 2}
    assert api.asked == []


def reconciled(phase: str, running: int, pods: int, needed: int = 2) -> str:
    """The phase that scheduler-plugins' controller writes after a look at the pods of a group."""
    if not phase:
        return "Pending"
    if phase == "Pending":
        return "Scheduling" if pods >= needed else phase
    if pods < needed:
        return "Pending"
    return "Running" if running >= needed else "Scheduling"


async def test_both_writers_come_to_rest_after_each_change() -> None:
    """A gang starts, loses a pod, and gets another one: neither takes back what the other one has written."""
    api = Api()
    api.group(root=THEIRS)
    path = f"{THEIRS}/namespaces/default/podgroups/train"
    seen: list[str] = []
    for pods, running, said in [
        (1, 0, ""),
        (2, 0, "False"),
        (2, 0, "True"),
        (2, 2, ""),
        (1, 1, "False"),
        (2, 1, "True"),
        (2, 2, ""),
    ]:
        before = len(api.asked)
        for _ in range(4):
            live = api.live[path]
            phase = reconciled(live["status"].get("phase", ""), running, pods)
            if phase != live["status"].get("phase", ""):
                live["status"]["phase"] = phase
                live["metadata"]["resourceVersion"] += "0"
            if said:
                api.say(api.shown(root=THEIRS), said)
                await api.done()
        assert len(api.asked) - before <= 1
        seen.append(api.live[path]["status"]["phase"])
    assert seen == ["Pending", "Scheduling", "Scheduling", "Running", "Pending", "Scheduling", "Running"]
