"""The alerts in Prometheus' own hands: promtool runs each on series that should fire it, and on others."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.chart.rendering import Chart, Object, by_kind

RULES: Object = {"metrics": {"prometheusRule": {"enabled": True}}}
HERE = 'namespace="berth"'
BUCKETS = ("0.256", "0.512", "1.024", "2.048", "+Inf")


class Case(NamedTuple):
    """Series (name, labels, values a minute from 0 on) and, after so many minutes, the labels of what fires."""

    name: str
    alert: str
    series: list[tuple[str, str, str]]
    minutes: int
    fires: list[dict[str, str]]


def lag(slow_a_minute: int) -> list[tuple[str, str, str]]:
    """Heartbeats of one process, 240 a minute, some of them between one and two seconds late."""
    rates = [240 - slow_a_minute] * 3 + [240] * 2
    name = "berth_event_loop_lag_seconds_bucket"
    return [(name, f'pod="a", le="{le}", {HERE}', f"0+{rate}x30") for le, rate in zip(BUCKETS, rates, strict=True)]


LEADS = "leader_election_master_status"
STALE = "berth_watch_staleness_seconds"
ATTEMPTS = "scheduler_schedule_attempts_total"
BLIND = "berth_scheduling_blind"
CHECKS = "berth_watch_checks_total"
UNANSWERED = "berth_bindings_unanswered_total"
FAILURES = "berth_binding_failures_total"
NOT_ADMITTED = "berth_pods_refused_total"
DROPPED = "berth_statuses_dropped_total"
RELOADED = "berth_config_last_reload_successful"
DIFFERS = "berth_cache_differences"
REFUSED = "berth_port_refused_total"
REVIEWS = "berth_admission_reviews_total"
POLICIES = "berth_admission_policies_staleness_seconds"
FLOOD, FLOODED = f'port="serving", pod="a", {HERE}', {"port": "serving", "pod": "a", "reason": "crowded"}
FULL = {"reason": "OutOfcpu"}
HANDSHAKES = f'port="webhook", reason="tls", pod="a", {HERE}'
NODES = f'pod="a", kind="Node", {HERE}'
OURS, OPERATORS, OTHERS = (
    f'name="berth", pod="a", {HERE}',
    f'name="berth-operator", pod="a", {HERE}',
    'name="berth", pod="a", namespace="other"',
)

CASES = [
    Case("nobody", "BerthNobodyLeads", [(LEADS, OURS, "0x10")], 5, [{}]),
    Case("no metrics at all", "BerthNobodyLeads", [], 5, [{}]),
    Case("a leader elsewhere", "BerthNobodyLeads", [(LEADS, OTHERS, "1x10")], 5, [{}]),
    Case("the operator leads", "BerthNobodyLeads", [(LEADS, OPERATORS, "1x10")], 5, [{}]),
    Case("a leader", "BerthNobodyLeads", [(LEADS, OURS, "1x10"), (LEADS, OURS.replace('"a"', '"b"'), "0x10")], 5, []),
    Case("a takeover", "BerthNobodyLeads", [(LEADS, OURS, "1x3 0 1x10")], 4, []),
    Case("stale", "BerthWatchStale", [(STALE, NODES, "0+60x20")], 9, [{"pod": "a", "kind": "Node"}]),
    Case("quiet", "BerthWatchStale", [(STALE, NODES, "60 0 100 60x20")], 9, []),
    Case("stale elsewhere", "BerthWatchStale", [(STALE, 'pod="a", kind="Node", namespace="other"', "0+60x20")], 9, []),
    Case("blind", "BerthSchedulingBlind", [(BLIND, f'pod="a", {HERE}', "0x3 1x10")], 9, [{"pod": "a"}]),
    Case("a blink", "BerthSchedulingBlind", [(BLIND, f'pod="a", {HERE}', "0x3 1 0x10")], 6, []),
    Case("unchecked", "BerthWatchesUnchecked", [(CHECKS, NODES, "0+3x5 15x30")], 29, [{"pod": "a"}]),
    Case("checked", "BerthWatchesUnchecked", [(CHECKS, NODES, "0+3x35")], 29, []),
    Case("unanswered", "BerthBindingsUnanswered", [(UNANSWERED, f'pod="a", {HERE}', "0+30x20")], 15, [{}]),
    Case("one is lost", "BerthBindingsUnanswered", [(UNANSWERED, f'pod="a", {HERE}', "0 9 9x20")], 15, []),
    Case("taken", "BerthBindingsFail", [(FAILURES, f'reason="taken", {HERE}', "0+30x30")], 20, [{"reason": "taken"}]),
    Case("deleted", "BerthBindingsFail", [(FAILURES, f'reason="gone", {HERE}', "0+30x30")], 20, []),
    Case("no room", "BerthPodsRefused", [(NOT_ADMITTED, f'reason="OutOfcpu", {HERE}', "0+3x50")], 40, [FULL]),
    Case("once", "BerthPodsRefused", [(NOT_ADMITTED, f'reason="OutOfcpu", {HERE}', "0x5 3x50")], 40, []),
    Case("dropped", "BerthStatusesDropped", [(DROPPED, f'pod="a", {HERE}', "0+90x30")], 20, [{}]),
    Case("bound meanwhile", "BerthStatusesDropped", [(DROPPED, f'pod="a", {HERE}', "0+9x30")], 20, []),
    Case("errors", "BerthAttemptsFail", [(ATTEMPTS, f'result="error", {HERE}', "0+30x30")], 20, [{}]),
    Case("a burst", "BerthAttemptsFail", [(ATTEMPTS, f'result="error", {HERE}', "0 100 100x30")], 20, []),
    Case("verdicts", "BerthAttemptsFail", [(ATTEMPTS, f'result="unschedulable", {HERE}', "0+90x30")], 20, []),
    Case("refused", "BerthConfigurationRefused", [(RELOADED, f'pod="a", {HERE}', "1x3 0x10")], 8, [{"pod": "a"}]),
    Case("accepted", "BerthConfigurationRefused", [(RELOADED, f'pod="a", {HERE}', "0x3 1x10")], 8, []),
    Case("differs", "BerthCacheDiffers", [(DIFFERS, f'pod="a", {HERE}', "0x3 2x10")], 8, [{"pod": "a"}]),
    Case("equal", "BerthCacheDiffers", [(DIFFERS, f'pod="a", {HERE}', "0x10")], 8, []),
    Case("stalls", "BerthLoopStalls", lag(slow_a_minute=10), 20, [{"pod": "a"}]),
    Case("a hiccup", "BerthLoopStalls", lag(slow_a_minute=1), 20, []),
    Case("crowded", "BerthPortCrowded", [(REFUSED, f'{FLOOD}, reason="crowded"', "0+600x20")], 15, [FLOODED]),
    Case("scanned", "BerthPortCrowded", [(REFUSED, f'{FLOOD}, reason="malformed"', "0+600x20")], 15, []),
    Case("one too many", "BerthPortCrowded", [(REFUSED, f'{FLOOD}, reason="crowded"', "0+6x20")], 15, []),
    Case("not trusted", "BerthWebhookHandshakesFail", [(REFUSED, HANDSHAKES, "0+60x20")], 19, [{"pod": "a"}]),
    Case("another port's", "BerthWebhookHandshakesFail", [(REFUSED, f'{FLOOD}, reason="tls"', "0+60x20")], 19, []),
    Case("reviews fail", "BerthAdmissionFails", [(REVIEWS, f'outcome="failed", {HERE}', "0+1x20")], 15, [{}]),
    Case("reviews deny", "BerthAdmissionFails", [(REVIEWS, f'outcome="denied", {HERE}', "0+9x20")], 15, []),
    Case("policies stale", "BerthPoliciesStale", [(POLICIES, f'pod="a", {HERE}', "0+60x20")], 9, [{"pod": "a"}]),
    Case("policies known", "BerthPoliciesStale", [(POLICIES, f'pod="a", {HERE}', "60x20")], 9, []),
]  # fmt: skip


@pytest.fixture(scope="module")
def rules(chart: Chart) -> list[Object]:
    """The rules, of all groups."""
    (rule,) = by_kind(chart.objects(RULES), "PrometheusRule").values()
    return [one for group in rule["spec"]["groups"] for one in group["rules"]]


def _unit(case: Case, rules: list[Object]) -> Object:
    """One of promtool's unit tests; it wants whole alerts, so what is not in the case comes from the rule."""
    (rule,) = (one for one in rules if one["alert"] == case.alert)
    return {
        "name": case.name,
        "interval": "1m",
        "input_series": [{"series": f"{name}{{{labels}}}", "values": values} for name, labels, values in case.series],
        "alert_rule_test": [
            {
                "alertname": case.alert,
                "eval_time": f"{case.minutes}m",
                "exp_alerts": [
                    {"exp_labels": rule["labels"] | labels, "exp_annotations": rule["annotations"]}
                    for labels in case.fires
                ],
            }
        ],
    }


def _promtool(command: Path, home: Path, rules: list[Object], units: list[Object]) -> subprocess.CompletedProcess[str]:
    (home / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "berth", "rules": rules}]}))
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": units}
    (home / "tests.yaml").write_text(yaml.safe_dump(tests))
    return subprocess.run([command, "test", "rules", "tests.yaml"], cwd=home, capture_output=True, text=True)


def test_alerts_fire(promtool: Path, rules: list[Object], tmp_path: Path) -> None:
    """Each when it should, and not when it should not."""
    done = _promtool(promtool, tmp_path, rules, [_unit(case, rules) for case in CASES])
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_both(rules: list[Object]) -> None:
    """A case that fires and one that does not."""
    wanted = {(rule["alert"], fires) for rule in rules for fires in (True, False)}
    assert {(case.alert, bool(case.fires)) for case in CASES} == wanted


FIRING = [case for case in CASES if case.fires]


@pytest.mark.parametrize("case", FIRING, ids=[case.name for case in FIRING])
def test_cases_can_fail(promtool: Path, rules: list[Object], tmp_path: Path, case: Case) -> None:
    """With the alert's comparison turned round, the case does."""
    other = [rule | {"expr": _turned(rule["expr"])} for rule in rules]
    assert _promtool(promtool, tmp_path, other, [_unit(case, rules)]).returncode == 1


def _turned(expression: str) -> str:
    for sign, opposite in ((" == 0", " != 0"), (" > ", " <= ")):
        if sign in expression:
            return opposite.join(expression.rsplit(sign, 1))
    raise ValueError(expression)
