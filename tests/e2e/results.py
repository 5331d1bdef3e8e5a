"""Results of Kubernetes' end-to-end tests: ginkgo's reports, the record of a whole run, and the table of both."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

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


def recorded(focus: str, skip: str, path: Path = RECORD) -> dict[str, Result]:
    """Return what the record has of kube-scheduler, of the tests that ginkgo would choose by these expressions."""
    return {
        test: Result(*columns["kube-scheduler"])
        for suite in json.loads(path.read_text())["suites"].values()
        for test, columns in suite.items()
        if re.search(focus, test) and not re.search(skip, test) and "kube-scheduler" in columns
    }


def record(found: Mapping[str, Iterable[Row]], date: str, commit: str, path: Path = RECORD) -> None:
    """Write these suites into the record, with the date and commit of each; others stay as they are."""
    kept = json.loads(path.read_text()) if path.exists() else {"runs": {}, "suites": {}}
    for suite, those in found.items():
        kept["runs"][suite] = {"date": date, "commit": commit}
        kept["suites"][suite] = {
            row.test: {
                "kube-scheduler": [row.kube.status, round(row.kube.seconds)],
                "berth": [row.berth.status, round(row.berth.seconds)],
            }
            for row in those
        }
    path.write_text(json.dumps(kept, indent=1) + "\n")


def table(those: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of a table in Markdown, which also reads well on a terminal."""
    yield "| | kube-scheduler | Berth | test |"
    yield "| --- | --- | --- | --- |"
    for row in those:
        yield f"|{_mark(row)} | {row.kube} | {row.berth} | {row.test} |"


def _mark(row: Row) -> str:
    if row.fault:
        return " **differs**"
    if row.kube.status != PASSED:
        return " Berth alone passes" if row.berth.status == PASSED else " fails with both"
    return ""


def summary(suite: str, those: Iterable[Row]) -> str:
    """Return one line: how many tests of a suite passed with each."""
    listed = list(those)
    kube, berth = (sum(getattr(row, who).status == PASSED for row in listed) for who in ("kube", "berth"))
    seconds = [sum(getattr(row, who).seconds for row in listed) for who in ("kube", "berth")]
    return (
        f"{suite}: {len(listed)} tests; {kube} pass with kube-scheduler ({seconds[0]:.0f} s),"
        f" {berth} with Berth ({seconds[1]:.0f} s)."
    )
