"""Alerts and dashboard: they ask for metrics that there are, and send people to pages that there are."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from pathlib import Path

import yaml

from tests.chart.rendering import CHART, Chart, Object, by_kind, documents

DOCS = CHART.parent / "docs"
KNOWN = re.compile(r"`((?:berth|scheduler|leader_election|process)_\w+)")
NAMED = re.compile(r"(\w*)[{[]")
SUFFIX = re.compile(r"_(?:bucket|sum|count)$")
MONITORED: Object = {"metrics": {"prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}}
GRAFANAS = {"$namespace": "berth", "$__rate_interval": "5m"}


def _expressions(objects: list[Object]) -> list[str]:
    """Of alerts and panels, with a value for what Grafana fills in."""
    (rules,) = by_kind(objects, "PrometheusRule").values()
    (text,) = by_kind(objects, "ConfigMap")["berth-dashboard"]["data"].values()
    board = json.loads(text)
    found = [rule["expr"] for group in rules["spec"]["groups"] for rule in group["rules"]]
    for target in (target for panel in board["panels"] for target in panel["targets"]):
        expression = target["expr"]
        for name, value in GRAFANAS.items():
            expression = expression.replace(name, value)
        found.append(expression)
    return found


def test_metrics_exist(chart: Chart) -> None:
    """Each metric is in the reference (docs/reference/metrics.md) or among the admission server's."""
    known = set(KNOWN.findall((DOCS / "reference" / "metrics.md").read_text() + (DOCS / "operator.md").read_text()))
    objects = chart.objects(MONITORED)
    named = {name for text in _expressions(objects) for name in NAMED.findall(text)}
    board = by_kind(objects, "ConfigMap")["berth-dashboard"]["data"]
    named |= set(re.findall(r"label_values\((\w+)", str(board)))
    asked = {SUFFIX.sub("", name) for name in named if name}
    assert len(asked) > 10
    assert asked - known == set()


def test_promql(chart: Chart, promtool: Path, tmp_path: Path) -> None:
    """Each expression is PromQL, asks for the release's namespace, and names a metric before each selector."""
    expressions = _expressions(chart.objects(MONITORED))
    rules = [{"record": f"expression:{i}", "expr": expression} for i, expression in enumerate(expressions)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "berth", "rules": rules}]}))
    command: list[str | Path] = [promtool, "check", "rules", "--lint=all", "--lint-fatal", file]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(expressions)} rules found" in done.stdout
    for expression in expressions:
        selectors = re.findall(r"(\w*)(\{[^}]*\})", expression)
        assert selectors, expression
        for name, labels in selectors:
            assert name, expression
            assert 'namespace="berth"' in labels, expression


def test_runbooks_exist(chart: Chart) -> None:
    """Each alert has the address of a heading of a page, as it is in the chart's version, or on a site of one's own."""
    (about,) = documents((CHART / "Chart.yaml").read_text())
    theirs = f"{about['home']}/blob/v{about['version']}/docs/"
    for site in (theirs, "https://docs.example.org/berth/"):
        values = copy.deepcopy(MONITORED)
        values["metrics"]["prometheusRule"]["runbooks"] = "" if site == theirs else site
        (rules,) = by_kind(chart.objects(values), "PrometheusRule").values()
        for rule in (rule for group in rules["spec"]["groups"] for rule in group["rules"]):
            address = rule["annotations"]["runbook_url"]
            assert address.startswith(site)
            page, _, anchor = address.removeprefix(site).partition("#")
            headings = re.findall(r"^#+ (.*)$", (DOCS / page).read_text(), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings], rule
