"""Results of Kubernetes' end-to-end tests: ginkgo's reports, the record of whole suites, and the tables of both."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RECORD = Path(__file__).with_name("record.json")
PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Result:
    """The end of one test with one scheduler: "passed", "failed", "timedout", … as ginkgo says it, and its seconds."""

    status: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.status} {self.seconds:.0f} s"


NOT_RUN = Result("not run", 0.0)
Results = Mapping[str, Result]
"""Test → its result with one scheduler."""


@dataclass(frozen=True, slots=True)
class Row:
    """A test, with kube-scheduler and with Berth."""

    test: str
    kube: Result
    berth: Result

    @property
    def fault(self) -> bool:
        """It passes with kube-scheduler, and not with Berth."""
        return self.kube.status == PASSED and self.berth.status != PASSED


@dataclass(frozen=True, slots=True)
class Recorded:
    """A suite as it was run on a day, with a commit of Berth."""

    suite: str
    date: str
    commit: str
    rows: Sequence[Row]


def read(report: Path) -> dict[str, Result]:
    """Return the results of the tests that were run, by a JUnit report of ginkgo's; none if there is no report."""
    if not report.exists():
        return {}
    found = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        # Ginkgo puts all labels of a test behind its name.
        name = re.sub(r"^\[It\] | \[[^]]*\]$", "", case.attrib["name"])
        status = case.attrib["status"]
        # What is done before and after all tests is a case, too, without a group in front.
        if status != "skipped" and name.startswith("[sig-"):
            found[name] = Result(status, float(case.attrib["time"]))
    return found


def rows(kube: Results, berth: Results) -> list[Row]:
    """Return a row for each test that was run with either, by name."""
    return [Row(test, kube.get(test, NOT_RUN), berth.get(test, NOT_RUN)) for test in sorted(kube.keys() | berth.keys())]


def record(found: Iterable[Recorded], path: Path = RECORD) -> None:
    """Write these suites into the record; others stay as they are."""
    kept = {run.suite: run for run in (*recorded(path), *found)}
    document = {
        run.suite: {
            "date": run.date,
            "commit": run.commit,
            "results": {row.test: [_written(row.kube), _written(row.berth)] for row in run.rows},
        }
        for run in kept.values()
    }
    path.write_text(json.dumps(document, indent=1) + "\n")


def recorded(path: Path = RECORD) -> list[Recorded]:
    """Return the suites of the record; none if there is no record."""
    document = json.loads(path.read_text()) if path.exists() else {}
    return [
        Recorded(
            suite, run["date"], run["commit"], [Row(test, *map(_read, two)) for test, two in run["results"].items()]
        )
        for suite, run in document.items()
    ]


def of_kube_scheduler(focus: str, skip: str, path: Path = RECORD) -> dict[str, Result]:
    """Return what the record has of kube-scheduler, of the tests that ginkgo would choose by these expressions."""
    return {
        row.test: row.kube
        for run in recorded(path)
        for row in run.rows
        if row.kube != NOT_RUN and re.search(focus, row.test) and not re.search(skip, row.test)
    }


def table(those: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a table in Markdown, which also reads well on a terminal."""
    yield "| | kube-scheduler | Berth | test |"
    yield "| --- | --- | --- | --- |"
    for row in those:
        yield f"|{_mark(row)} | {row.kube} | {row.berth} | {row.test} |"


def summary(runs: Iterable[Recorded]) -> Iterator[str]:
    """Yield the lines of a table in Markdown: how many tests of each suite pass with each."""
    yield "| suite | tests | pass with kube-scheduler | pass with Berth | date | commit |"
    yield "| --- | ---: | ---: | ---: | --- | --- |"
    for run in runs:
        kube = sum(row.kube.status == PASSED for row in run.rows)
        berth = sum(row.berth.status == PASSED for row in run.rows)
        yield f"| {run.suite} | {len(run.rows)} | {kube} | {berth} | {run.date} | {run.commit} |"


def page(runs: Sequence[Recorded]) -> str:
    """Return the page that shows a record, `docs/evidence/recorded-e2e.md`."""
    parts = [_INTRODUCTION, *summary(runs)]
    for run in runs:
        parts += ["", f"## {run.suite}", "", *table(run.rows)]
    return "\n".join(parts) + "\n"


_INTRODUCTION = """\
# Kubernetes' own end-to-end tests, recorded

`make e2e RECORD=1` runs the tests of Kubernetes 1.37 that a scheduler decides, with kube-scheduler and with Berth as
the default scheduler, and writes this page. [Here](../../tests/e2e/README.md) is how, and what is left out. The cores
were busy, so the seconds say nothing about speed.
"""


def _mark(row: Row) -> str:
    if row.fault:
        return " **differs**"
    if row.kube.status != PASSED:
        return " Berth alone passes" if row.berth.status == PASSED else " fails with both"
    return ""


def _written(result: Result) -> list[Any]:
    return [result.status, round(result.seconds)]


def _read(written: list[Any]) -> Result:
    status, seconds = written
    return Result(status, float(seconds))
