"""Alerts and dashboard: they ask for metrics that there are, and send people to pages that there are."""

from __future__ import annotations

import json
import re

from tests.chart.rendering import CHART, Chart, Object, by_kind

DOCS = CHART.parent / "docs"
NAME = re.compile(r"\b(?:berth|scheduler|leader_election|process)_\w+")
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")
MONITORED: Object = {"metrics": {"prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}}


def _expressions(objects: list[Object]) -> list[str]:
    (rules,) = by_kind(objects, "PrometheusRule").values()
    (board,) = by_kind(objects, "ConfigMap")["berth-dashboard"]["data"].values()
    alerts = [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    return alerts + [target["expr"] for panel in json.loads(board)["panels"] for target in panel["targets"]]


def test_metrics_exist(chart: Chart) -> None:
    """Each metric is in the reference (docs/metrics.md is made from the code) or among the admission server's."""
    known = set(NAME.findall((DOCS / "metrics.md").read_text() + (DOCS / "admission.md").read_text()))
    asked = {SUFFIX.sub("", name) for text in _expressions(chart.objects(MONITORED)) for name in NAME.findall(text)}
    assert len(asked) > 10
    assert asked - known == set()


def test_braces_close(chart: Chart) -> None:
    """Helm's braces and PromQL's did not get in each other's way."""
    for text in _expressions(chart.objects(MONITORED)):
        for opening, closing in ("{}", "()", "[]"):
            assert text.count(opening) == text.count(closing), text
        assert 'namespace="' in text


def test_runbooks_exist(chart: Chart) -> None:
    """Each alert names a heading of a page."""
    (rules,) = by_kind(chart.objects(MONITORED), "PrometheusRule").values()
    for rule in (rule for group in rules["spec"]["groups"] for rule in group["rules"]):
        page, _, anchor = rule["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^#+ (.*)$", (CHART.parent / page).read_text(), re.MULTILINE)
        assert anchor in [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings], rule
