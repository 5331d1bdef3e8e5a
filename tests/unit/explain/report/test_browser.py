"""The pages that have no script in a real browser: readable, offline, and on a phone."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from podberth.explain.changes import Uncordon
from podberth.explain.explanation import Limit, Remedy
from podberth.explain.gangs.capacity import DomainGangs, GangCapacity
from podberth.explain.pending import Cause, Pending, SharedChange
from podberth.explain.report import report_of
from podberth.explain.report.pages import page
from podberth.explain.simulate.capacity import Capacity, NodeRoom, OneMore, Stranded
from podberth.explain.simulate.outcome import Blocked, GroupOutcome, Placed, Preempted, Waiting, WorkloadOutcome
from podberth.explain.simulate.removable import Kept, Movable, Removals
from podberth.lab.study_report import report as study_report
from podberth.model.pod_group import NATIVE
from tests.browser.axe import dressed, faults
from tests.browser.tab import opened
from tests.builders import node, pod
from tests.unit.explain.gangs.dumps import asked, group, members
from tests.unit.explain.report.test_simulation_page import EVIL, OUTCOME, USED
from tests.unit.explain.story import BIG, explained
from tests.unit.lab.test_study_report import STUDY

LONG = "ip-10-0-0-1.eu-west-1.compute.internal"
NODE = "gpu-pool-large-node-07"
POD = "shop/checkout-worker-6c9f5d7b8-x2x4k"
CAPACITY = Capacity(
    profile="p",
    pod="ns/a",
    requests={"cpu": "1"},
    fits=12,
    exhausted=True,
    nodes=[NodeRoom(LONG, 12, ["Too many pods"]), NodeRoom(EVIL, 0, [EVIL])],
    limits=[Limit("Too many pods", 1), Limit(EVIL, 1)],
    message=None,
    stranded=[Stranded("cpu", "3", 0.25, "2", EVIL)],
    one_more=[OneMore(LONG, 2, 7)],
    notes=[EVIL],
)
FREES = Remedy(
    text="uncordon b-1", changes=[Uncordon("b-1")], nodes=["b-1"], instead=[], commands=["kubectl uncordon b-1"]
)
PENDING = Pending(
    pods=3,
    causes=[Cause(EVIL, "unschedulable", 3, {f"ReplicaSet ns/{LONG}": 3}, "ns/a", [FREES])],
    changes=[SharedChange("uncordon b-1", [Uncordon("b-1")], 3)],
    not_explained=0,
    notes=[EVIL],
)
GANG = replace(
    asked([node(LONG, "8", zone="a"), pod("x", "3", on=LONG), group(3), *members(4)]), notes=[EVIL], domain=EVIL
)
GANGS = GangCapacity(
    profile="p",
    group="ns/train",
    pods=4,
    needed=3,
    equal=True,
    requests={"cpu": "4"},
    claims={},
    gangs=2,
    exhausted=True,
    domains=[DomainGangs("zone-a", 2, 8), DomainGangs(EVIL, 0, 0)],
    limits=[Limit(EVIL, 1)],
    message="",
    one_more=[OneMore(LONG, 2, 1)],
    notes=[EVIL],
)
USUAL = replace(
    USED,
    allocated={"cpu": 0.512, "memory": 0.976},
    stranded={"cpu": 0.006, "memory": 0.018},
    load_spread={"cpu": 0.1, "memory": 0.1},
)
MOVES = replace(
    OUTCOME,
    placed=[*OUTCOME.placed, Placed(POD, NODE), Placed(POD, NODE, LONG)],
    waiting=[*OUTCOME.waiting, Waiting(POD, f"0/2 nodes are available: 1 {EVIL}, 1 node(s) had untolerated taint(s).")],
    workloads=[*OUTCOME.workloads, WorkloadOutcome(f"Deployment {POD}", 1_000_000, 530_000, 470_000, {NODE: 530_000})],
    preempted=[*OUTCOME.preempted, Preempted(POD, NODE, POD)],
    blocked=[*OUTCOME.blocked, Blocked(POD, NODE, ["checkout-worker-budget"])],
    groups=[GroupOutcome(POD, NATIVE, 3, 4, 3, 1, True, "")],
    before=USUAL,
    after=USUAL,
)
REMOVALS = Removals(
    profile="p",
    removable=[Movable(LONG, 1, {POD: NODE})],
    together=[LONG],
    together_pods=1,
    kept=[Kept(EVIL, 2, {POD: f"0/2 nodes are available: 1 {EVIL}.", "ns/b": "no controller would create it again"})],
    not_tried=[f"{NODE}-b"],
    notes=[EVIL],
)
FAR = explained(
    pod("far", "1", namespace="shop", select={"disk": "ssd"}),
    [node(NODE, "4", "8Gi", labels={"disk": "ssd"}), node(LONG, "8", labels={"disk": "ssd"}), node(f"{NODE}-b", "1m")],
)
PAGES = [
    pytest.param(page(report_of(MOVES, only_mine=False)), ["ns/a", "ns/c", EVIL, POD, NODE, LONG], id="outcome"),
    pytest.param(page(study_report(STUDY, page=True)), ["pods placed", "3 of 4", EVIL], id="study"),
    pytest.param(page(report_of(CAPACITY)), ["12 more pods like ns/a", "Too many pods", EVIL], id="capacity"),
    pytest.param(page(report_of(PENDING)), ["3 pods wait, for 1 cause", "kubectl uncordon b-1", EVIL], id="pending"),
    pytest.param(
        page(report_of(REMOVALS)),
        [
            "1 of 3 nodes could be removed",
            "which moves 1 pod",
            f"{POD} and 1 more",
            f"not tried, to save time: {NODE}-b",
        ],
        id="removable",
    ),
    pytest.param(page(report_of(GANG)), ["default/train does not start", EVIL, "fit"], id="gang"),
    pytest.param(page(report_of(GANGS)), ["gangs like ns/train", "zone-a", EVIL], id="capacity for gangs"),
    pytest.param(
        page(report_of(explained(BIG))), ["shop/big fits on none of 5 nodes", "uncordon b-1"], id="explanation"
    ),
    pytest.param(page(report_of(FAR)), ["can go: 2 nodes", NODE, LONG], id="choice"),
]
UNSEEN = """
[...document.querySelectorAll('h1, h2, td, th, svg')].filter(one => {
  const box = one.getBoundingClientRect();
  return one.checkVisibility() && one.textContent.trim() && (box.width === 0 || box.height === 0);
}).length
"""


@pytest.mark.parametrize(("text", "words"), PAGES)
async def test_the_page_works(chromium: Path, axe: Path, tmp_path: Path, text: str, words: list[str]) -> None:
    """The page is visible, asks nothing of a network, runs no script, needs no sideways scrolling on a phone, breaks no
    word, and axe has nothing against it, in light and in dark.
    """
    file = tmp_path / "page.html"
    file.write_text(text, encoding="utf-8")
    async with opened(chromium, file, tmp_path / "profile") as tab:
        seen = await tab.ask("document.body.innerText")
        assert [word for word in words if word not in seen] == []
        assert await tab.ask(UNSEEN) == 0
        found = []
        for width in (3840, 1280, 420, 375, 320):
            assert not await tab.overflows(width)
            assert await tab.broken_words() == []
        for scheme in ("light", "dark"):
            await dressed(tab, scheme)
            found += [f"{scheme}: {fault}" for fault in await faults(tab, axe)]
        assert found == []
        assert tab.complaints == []


CUT = """
[...document.querySelectorAll('.words')].filter(one =>
  one.checkVisibility() && one.getBoundingClientRect().right > innerWidth).map(one => one.textContent.trim())
"""
STAY = replace(REMOVALS, kept=[Kept(LONG, 2, {POD: "the disruption budget checkout allows no disruption"})], notes=[])


@pytest.mark.parametrize(
    "text", [page(report_of(explained(BIG))), page(report_of(STAY))], ids=["explanation", "removable"]
)
async def test_reasons_are_in_sight_on_a_phone(chromium: Path, tmp_path: Path, text: str) -> None:
    """They were cut, and one had to push each table aside to read why."""
    file = tmp_path / "page.html"
    file.write_text(text, encoding="utf-8")
    async with opened(chromium, file, tmp_path / "profile") as tab:
        assert not await tab.overflows(320)
        assert await tab.ask(CUT) == []
