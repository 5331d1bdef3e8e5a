"""The judge of a run is right: which rows are faults of Berth, and what the record keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.__main__ import PAGE
from tests.e2e.results import (
    NOT_RUN,
    Recorded,
    Result,
    Row,
    of_kube_scheduler,
    page,
    read,
    record,
    recorded,
    rows,
    summary,
    table,
)

PASSED, FAILED, TIMED_OUT = Result("passed", 3.4), Result("failed", 9.0), Result("timedout", 600.0)

REPORT = """<testsuites><testsuite>
<testcase name="[SynchronizedBeforeSuite]" status="passed" time="0.2"/>
<testcase name="[It] [sig-scheduling] Filters works [Serial] [sig-scheduling, Serial]" status="passed" time="3.4"/>
<testcase name="[It] [sig-scheduling] Filters is slow [sig-x]" status="timedout" time="600"><failure/></testcase>
<testcase name="[It] [sig-apps] Job runs" status="skipped" time="0"/>
</testsuite></testsuites>"""


@pytest.mark.parametrize(
    ("kube", "berth", "fault"),
    [
        (PASSED, PASSED, False),
        (PASSED, FAILED, True),
        (PASSED, TIMED_OUT, True),
        (PASSED, NOT_RUN, True),
        (FAILED, FAILED, False),
        (FAILED, PASSED, False),
        (NOT_RUN, FAILED, False),
    ],
)
def test_a_fault_is_a_test_that_only_kube_scheduler_passes(kube: Result, berth: Result, fault: bool) -> None:
    """A test that Berth did not get to is one as well."""
    assert Row("t", kube, berth).fault is fault


def test_a_report_of_ginkgo(tmp_path: Path) -> None:
    """Tests that were skipped, and what is done around all of them, are no results."""
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    assert read(report) == {
        "[sig-scheduling] Filters works [Serial]": PASSED,
        "[sig-scheduling] Filters is slow": TIMED_OUT,
    }
    assert read(tmp_path / "missing.xml") == {}


def test_tests_that_one_scheduler_did_not_run_have_a_row() -> None:
    """By name, so that two runs can be compared."""
    found = rows({"b": PASSED, "a": PASSED}, {"b": PASSED, "c": FAILED})
    assert found == [Row("a", PASSED, NOT_RUN), Row("b", PASSED, PASSED), Row("c", NOT_RUN, FAILED)]
    assert list(table(found))[2:] == [
        "| **differs** | passed 3 s | not run 0 s | a |",
        "| | passed 3 s | passed 3 s | b |",
        "| fails with both | not run 0 s | failed 9 s | c |",
    ]
    assert list(summary([Recorded("s", "2026-01-01", "aaaa", found)]))[2:] == ["| s | 3 | 2 | 1 | 2026-01-01 | aaaa |"]


def test_the_record_keeps_what_was_not_run_again(tmp_path: Path) -> None:
    """And it gives kube-scheduler's results of the tests that ginkgo would choose."""
    path = tmp_path / "record.json"
    old = Recorded("old", "2026-01-01", "aaaa", [Row("[sig-x] old", Result("passed", 3), NOT_RUN)])
    new = Recorded("new", "2026-01-02", "bbbb", rows({"[sig-x] new": FAILED, "[sig-x] new one": FAILED}, {}))
    record([old, Recorded("new", "2026-01-01", "aaaa", [])], path)
    record([new], path)
    assert recorded(path) == [old, new]
    assert of_kube_scheduler("sig-x", "one", path) == {"[sig-x] old": Result("passed", 3), "[sig-x] new": FAILED}
    assert of_kube_scheduler("old", "^$", path) == {"[sig-x] old": Result("passed", 3)}


def test_the_page_shows_the_record() -> None:
    """`make e2e RECORD=1` writes both."""
    assert PAGE.read_text() == page(recorded())
