"""Goals beside figures."""

from hashlib import sha256
from pathlib import Path
from types import ModuleType

import pytest
from msgspec.structs import replace

from bench import binder, claim_binder, page
from bench.__main__ import WORKLOADS
from bench.goals import Goal, Goals, Verdict, goals, lines
from bench.history import Record
from bench.page import chart, replace_between
from bench.run import Row
from bench.table import costs, summary, tables
from podberth.testing.workloads.driver import Figures
from podberth.testing.workloads.workload import Mode

FROZEN = "df382257e293aee9f29ceb56c366b0267be4d6e3cf17ba79c0cd502ce92e1bc8"
FROZEN_CLAIMS = "deaab022655c88793014d37b1300f4415529b81df29a0e827480490dd189a573"
GOALS = Goals(
    {"first_to_kube": Goal(at_most=1.0), "rate_to_kube": Goal(at_least=2.0)}, {"w": {"cpu_to_kube": Goal(at_most=0.5)}}
)


def row(contender: str, rate: float, cpu: float, mode: Mode = Mode.BACKLOG, bound: int = 10) -> Row:
    """One contender's row."""
    return Row("w", mode, contender, Figures(10, bound, rate, 1.0, 5.0, 9.0), cpu, 100.0, 0.05, 1.5)


def test_ratios_and_goals() -> None:
    """Each ratio, whether it meets its goal, and what the goal is."""
    (line,) = lines([row("kube", 100, 8), row("berth", 300, 6), row("binder", 150, 1)])
    assert line.measures() == {
        "rate_to_kube": 3.0,
        "rate_to_binder": 2.0,
        "cpu_to_kube": 0.75,
        "cpu_to_binder": 6.0,
        "memory_to_kube": 1.0,
        "first_to_kube": 1.0,
        "decision_p50": 0.05,
        "decision_p99": 1.5,
    }
    said = tables([line], GOALS)
    assert "3.00 ✓ ≥ 2" in said
    assert "0.75 ✗ ≤ 0.5" in said
    assert "2 of 3 goals met." in said


def test_what_the_binder_misses_is_not_counted() -> None:
    """A goal that it misses in the same runs, in the median, is bound by the API server; Berth may meet it still."""
    slow = [row("kube", 100, 8), row("berth", 150, 6), row("binder", 150, 5)]
    (line,) = lines([*slow, *slow, row("kube", 100, 8), row("berth", 150, 6), row("binder", 250, 1)])
    said = tables([line], GOALS)
    assert "1.50 (1.50 to 1.50) ○ ≥ 2" in said
    assert "0.75 (0.75 to 0.75) ○ ≤ 0.5" in said
    assert "1 of 1 goals met." in said
    assert "2 more (○) are bound by the API server" in said
    (line,) = lines([row("kube", 100, 8), row("berth", 250, 6), row("binder", 150, 5)])
    assert "2.50 ✓ ≥ 2" in tables([line], GOALS)


def test_several_runs() -> None:
    """Ratios are of one run each, and their median counts; the least and the most stand beside it."""
    rows = [
        row(*one) for one in (("kube", 100, 8), ("berth", 300, 6), ("kube", 50, 8), ("berth", 100, 2, Mode.BACKLOG, 9))
    ]
    (line,) = lines([*rows, row("kube", 100, 4), row("berth", 600, 9)])
    assert len(line.runs) == 3
    assert line.rows["berth"].figures.rate == 300
    assert line.measures()["rate_to_kube"] == 3.0
    assert line.spread("rate_to_kube") == (2.0, 6.0)
    said = tables([line], GOALS)
    assert "3.00 (2.00 to 6.00) ✓ ≥ 2" in said
    assert "0.75 (0.25 to 2.25) ✗ ≤ 0.5" in said
    assert "berth bound 9 of 10." in said


def test_how_long_the_loop_was_held() -> None:
    """By CPU against the goal, and by the clock beside it; nothing for a run that did not tell."""
    told = replace(row("berth", 300, 6), held_p99=4.2, held_longest=31.0, held_longest_wall=88.0)
    said = tables(lines([told]), goals())
    assert "31.00 ✗ ≤ 20" in said
    assert "88" in said.splitlines()[-3]
    assert "by the clock" not in tables(lines([row("berth", 300, 6)]), goals())


def test_a_stream_has_no_goal_for_its_start() -> None:
    """The first binding counts from a start."""
    assert "first_to_kube" in GOALS.of("w", Mode.BACKLOG)
    assert "first_to_kube" not in GOALS.of("w", Mode.STREAM)


def test_who_binds_less_is_named() -> None:
    """A figure of an unfinished run does not stand alone."""
    said = tables(lines([row("kube", 100, 8), row("berth", 300, 6, bound=7)]), GOALS)
    assert "w, backlog: berth bound 7 of 10." in said


@pytest.mark.parametrize(
    ("workload", "name", "want"),
    [
        ("basic", "rate_to_kube", 2.2),
        ("basic", "cpu_to_kube", 0.25),
        ("affinity", "rate_to_kube", 11),
        ("affinity", "cpu_to_kube", 0.04),
        ("csi", "rate_to_binder", 0.9),
        ("csi", "rate_to_kube", 2),
        ("csi", "cpu_to_binder", 1.5),
        ("basic", "cpu_to_binder", 1.2),
    ],
)
def test_file(workload: str, name: str, want: float) -> None:
    """The file of goals is read, common ones apply to all."""
    goal = goals().of(workload, Mode.BACKLOG)[name]
    assert want in (goal.at_least, goal.at_most)


def test_goals_of_the_ceiling() -> None:
    """Where the server does almost nothing only its own goals hold."""
    beside_binder = {"rate_to_binder": Goal(at_least=0.9), "cpu_to_binder": Goal(at_most=1.2)}
    assert goals(ceiling=True).of("spread", Mode.STREAM) == {"rate_to_kube": Goal(at_least=25), **beside_binder}
    assert goals(ceiling=True).of("gated", Mode.STREAM) == beside_binder


@pytest.mark.parametrize("workload", sorted(file.stem for file in WORKLOADS.glob("*.yaml")))
def test_each_workload_has_goals(workload: str) -> None:
    """Its rate and CPU are held against kube-scheduler's and the binder's."""
    wanted = {f"{figure}_to_{whom}" for figure in ("rate", "cpu") for whom in ("kube", "binder")}
    assert wanted <= goals().of(workload, Mode.STREAM).keys()


def test_goals_are_of_workloads() -> None:
    """No goal is for a workload that is not there."""
    there = {file.stem for file in WORKLOADS.glob("*.yaml")}
    assert {*goals().workloads, *goals(ceiling=True).workloads} <= there


@pytest.mark.parametrize(("module", "frozen"), [(binder, FROZEN), (claim_binder, FROZEN_CLAIMS)])
def test_the_yardsticks_stay_as_they_are(module: ModuleType, frozen: str) -> None:
    """What Berth costs is held against the frozen binders, so figures of two years can be compared."""
    assert sha256(Path(module.__file__ or "").read_bytes()).hexdigest() == frozen


def test_claims_are_held_against_the_binder_that_writes_them() -> None:
    """The yardstick of a run that has both is the one that makes all the writes."""
    (line,) = lines([row("berth", 45, 6), row("binder", 150, 1), row("claim-binder", 50, 2)])
    assert line.measures()["rate_to_binder"] == 0.9
    assert line.measures()["cpu_to_binder"] == 3.0
    assert " 50 |" in tables([line], GOALS)
    assert " 150 |" not in tables([line], GOALS)


@pytest.mark.parametrize(
    ("kube", "binder", "verdict"),
    [
        (10, 100, Verdict.MET),
        (100, 100, Verdict.MET),
        (100, 200, Verdict.MISSED),
        (10, 200, Verdict.MET),
        (None, 100, Verdict.MET),
    ],
)
def test_one_of_two_goals_is_enough(kube: float | None, binder: float, verdict: Verdict) -> None:
    """Eight times kube-scheduler's rate or 0.9 of the binder's: together they count as one."""
    either = Goals(
        {"rate_to_kube": Goal(at_least=8, or_else="rate_to_binder"), "rate_to_binder": Goal(at_least=0.9)}, {}
    )
    rows = [row("berth", 100, 6), row("claim-binder", binder, 1)]
    rows += [] if kube is None else [row("kube", kube, 8)]
    (line,) = lines(rows)
    assert either.verdicts(line) == [verdict]


def test_devices_in_turn() -> None:
    """Nodes take turns; on each the next devices that no claim has; what a claim had is there again when it is gone."""
    device = claim_binder.Device
    slices = [
        claim_binder.Slice(claim_binder.SliceSpec("d", claim_binder.Pool(node), node, [device("0"), device("1")]))
        for node in ("a", "b")
    ]
    holds = claim_binder.Allocation(claim_binder.Results([claim_binder.Result("a", "0")]))
    there = claim_binder.Claim(
        claim_binder.Meta("c"), claim_binder.ClaimSpec(claim_binder.Devices()), claim_binder.ClaimStatus(holds)
    )
    stock = claim_binder.Stock(slices, [there])
    one = [claim_binder.Request("gpu", exactly=claim_binder.Asked())]
    given = {name: stock.take(("ns", name), one) for name in "xyz"}
    assert [(node, found["device"]) for node, (found,) in given.values()] == [("a", "1"), ("b", "0"), ("b", "1")]
    with pytest.raises(LookupError, match="no node has 1 devices left"):
        stock.take(("ns", "w"), one)
    stock.put_back(("ns", "y"))
    assert stock.take(("ns", "w"), one)[0] == "b"


def test_a_page_leaves_out_ratios_without_a_goal() -> None:
    """Rates and CPU are there all the same."""
    found = lines([row("kube", 100, 8), row("berth", 300, 6)])
    assert "Berth / kube" in costs(found, goals())
    without = costs(found, Goals({}, {}))
    assert "| 100 |" in " ".join(without.split())
    assert "Berth / kube" not in without


def test_the_first_page_has_both_modes_side_by_side() -> None:
    """A row for each workload, with its goal once; a ratio without a goal is there all the same."""
    rows = [row(one, rate, cpu) for one, rate, cpu in (("kube", 100, 8), ("berth", 300, 1), ("binder", 310, 1))]
    both = lines([*rows, *(replace(each, mode=Mode.STREAM) for each in rows[:2])])
    held = Goals({"rate_to_kube": Goal(at_least=4), "rate_to_binder": Goal(at_least=0.9)}, {})
    header, _, one, *_ = summary(both, held).splitlines()
    assert [cell.strip() for cell in header.split("|")[1:5]] == [
        "workload",
        "kube-scheduler pods/s",
        "Berth pods/s",
        "binder pods/s",
    ]
    cells = [cell.strip() for cell in one.split("|")[1:-1]]
    assert cells[:3] == ["w", "100, 100", "300, 300"]
    assert cells[4:] == ["3.00 ○, 3.00 ✗ (≥ 4)", "0.97 ✓ (≥ 0.9)", "0.12, 0.12", "1.00"]
    assert "| w, backlog " in summary(both[:1], held)


def test_chart() -> None:
    """A bar for each who was measured."""
    drawn = chart(lines([row("kube", 100, 8), row("berth", 300, 6)]))
    assert drawn.count("<rect") == 3 + 2
    assert ">300</text>" in drawn


def test_pod_groups_have_a_table_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of them alone leaves the other tables, and the chart, as they are."""
    path, chart_path = tmp_path / "page.md", tmp_path / "chart.svg"
    path.write_text("".join(f"<!-- {mark} -->\nold\n<!-- /{mark} -->\n" for mark in ("figures", "groups", "devices")))
    monkeypatch.setattr(page, "PAGE", path)
    monkeypatch.setattr(page, "CHART", chart_path)
    rows = [replace(row(one, 100, 8), workload=name) for name in ("gangs", "racks-512") for one in ("kube", "berth")]
    page.write(Record("today", "c0ffee", 2, "3.13", 1.0, 1.0, 60.0, rows))
    figures, groups, devices = path.read_text().split("<!-- /")[:3]
    assert figures.endswith("old\n")
    assert devices.endswith("old\n")
    assert "| gangs, backlog " in groups
    assert "| racks-512, backlog " in groups
    assert not chart_path.exists()


@pytest.mark.parametrize(("ceiling", "mark"), [(False, "figures"), (True, "ceiling")])
def test_both_pages_have_the_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ceiling: bool, mark: str) -> None:
    """The whole table, the short one, and the chart of the server."""
    places = {name: tmp_path / name for name in ("PAGE", "FIRST_PAGE", "CHART", "CEILING_CHART")}
    for name, place in places.items():
        monkeypatch.setattr(page, name, place)
    for name in ("PAGE", "FIRST_PAGE"):
        places[name].write_text(f"<!-- {mark} -->\nold\n<!-- /{mark} -->\n")
    rows = [row(one, 100, 8) for one in ("kube", "berth", "binder")] * 2
    page.write(Record("today", "c0ffee", 2, "3.13", 1.0, 1.0, 60.0, rows, ceiling=ceiling, runs=2))
    whole, short = (places[name].read_text() for name in ("PAGE", "FIRST_PAGE"))
    assert "| w, backlog | " in whole
    assert "each 2 times: medians, with the least and the most.\n" in whole
    assert "each 2 times: medians.\n" in short
    assert "CPU Berth / kube-scheduler" in short
    assert [places[name].exists() for name in ("CHART", "CEILING_CHART")] == [not ceiling, ceiling]


def test_page(tmp_path: Path) -> None:
    """Only what stands between the marks is replaced."""
    path = tmp_path / "page.md"
    path.write_text("a\n<!-- figures -->\nold\n<!-- /figures -->\nb\n")
    replace_between(path, "figures", "new")
    assert path.read_text() == "a\n<!-- figures -->\nnew\n<!-- /figures -->\nb\n"
    with pytest.raises(ValueError, match=r"page.md has no <!-- x -->"):
        replace_between(path, "x", "new")
