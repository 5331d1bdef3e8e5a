"""What the chart makes: names, switches, Pod Security."""

from __future__ import annotations

import pytest

from podberth.policy.operator.listing import DEFAULT_KINDS, resource
from tests.chart.rendering import Chart, Object, by_kind, containers, keys
from tests.chart.test_values import EVERYTHING

COMPONENTS = ("scheduler", "operator", "admission", "evictor")


def test_two_releases(chart: Chart) -> None:
    """Two releases share no object, neither in one namespace nor under one name in two; the CRD is the cluster's."""
    everything = EVERYTHING | {"crds": {"install": False}}
    made = [
        keys(chart.objects(everything, release, namespace))
        for release, namespace in (("blue", "blue"), ("green", "blue"), ("blue", "green"), ("berth", "berth"))
    ]
    assert len(set.union(*made)) == sum(map(len, made))


def test_releases_share_no_lease_or_webhook(chart: Chart) -> None:
    """What components make by themselves has the release's name too."""
    one, other = (containers(chart.objects({"evictor": {"enabled": True}}, name, "team")) for name in ("blue", "green"))
    options = (
        "--lease=",
        "--secret=",
        "--service=",
        "--configuration=",
        "--owner=",
        "--scheduler-lease=",
        "--profile=",
    )
    for name in ("operator", "admission", "evictor"):
        shared = {arg for arg in one[name]["args"] if arg.startswith(options)} & set(other[name]["args"])
        assert shared == set(), name


@pytest.mark.parametrize("component", COMPONENTS)
def test_components(chart: Chart, component: str) -> None:
    """Each component alone: its own account, Deployment and rights, and nothing of another (`policy` is the CRD's)."""
    values: Object = {name: {"enabled": name == component} for name in COMPONENTS}
    objects = chart.objects(values)
    assert set(containers(objects)) == {component}
    assert list(by_kind(objects, "ServiceAccount")) == [f"berth-{component}"]
    owners = {one["metadata"]["labels"]["app.kubernetes.io/component"] for one in objects}
    assert owners <= {component, f"{component}-audit", "metrics", "policy", "test"}
    assert ("test" in owners) == (component == "scheduler")
    has_crd = bool(by_kind(objects, "CustomResourceDefinition"))
    assert has_crd == (component in ("operator", "admission"))


SWITCHES: list[tuple[str, Object, set[str], set[str]]] = [
    ("crds", {"crds": {"install": False}}, set(), {"CustomResourceDefinition"}),
    (
        "metrics",
        {"metrics": {"enabled": False}},
        set(),
        {"Service berth-scheduler-metrics", "ClusterRole berth-metrics"},
    ),
    ("monitor", {"metrics": {"serviceMonitor": {"enabled": True}}}, {"ServiceMonitor"}, set()),
    ("alerts", {"metrics": {"prometheusRule": {"enabled": True}}}, {"PrometheusRule"}, set()),
    ("dashboard", {"metrics": {"dashboard": {"enabled": True}}}, {"ConfigMap berth-dashboard"}, set()),
    (
        "readers",
        {"metrics": {"readers": [{"name": "p", "namespace": "m"}]}},
        {"ClusterRoleBinding berth-metrics"},
        set(),
    ),
    (
        "network",
        {"networkPolicy": {"enabled": True, "apiServer": ["10.0.0.1/32"]}},
        {"NetworkPolicy berth-admission", "NetworkPolicy berth-scheduler", "NetworkPolicy berth-operator"},
        set(),
    ),
    ("cert-manager", {"admission": {"tls": {"mode": "certManager"}}}, {"Certificate berth-admission", "Issuer"}, set()),
    ("budget", {"scheduler": {"podDisruptionBudget": False}}, set(), {"PodDisruptionBudget berth-scheduler"}),
    ("audit", {"operator": {"audit": []}}, set(), {"ClusterRole berth-operator-audit"}),
    (
        "flow",
        {"flowSchemas": {"enabled": False}},
        set(),
        {"FlowSchema berth-scheduler", "FlowSchema berth-scheduler-lease", "FlowSchema berth-operator-lease"},
    ),
    ("evictor", {"evictor": {"enabled": True}}, {"Deployment berth-evictor", "ClusterRole berth-evictor"}, set()),
]


@pytest.mark.parametrize(
    ("values", "more", "less"), [case[1:] for case in SWITCHES], ids=[case[0] for case in SWITCHES]
)
def test_switches(chart: Chart, default: list[Object], values: Object, more: set[str], less: set[str]) -> None:
    """A switch adds or removes what it says."""

    def named(objects: list[Object]) -> set[str]:
        found = {f"{one['kind']} {one['metadata']['name']}" for one in objects}
        return found | {name.split()[0] for name in found}

    before, after = named(default), named(chart.objects(values))
    assert more <= after - before
    assert less <= before - after


def _rules(objects: list[Object], name: str) -> set[tuple[str, str]]:
    """(resource, verb) that an account has."""
    roles = [one for kind in ("ClusterRole", "Role") for one in by_kind(objects, kind).values()]
    rules = [rule for role in roles if role["metadata"]["name"] == name for rule in role["rules"]]
    return {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}


ALONE: Object = {"scheduler": {"replicas": 1, "config": {"leaderElection": {"leaderElect": False}}}}
NATIVE = {f"{kind}admission{what}" for kind in ("mutating", "validating") for what in ("policies", "policybindings")}
RIGHTS: list[tuple[str, Object, str, set[tuple[str, str]]]] = [
    (
        "admission policies",
        {"policy": {"enforcement": "webhook"}},
        "berth-operator",
        {(one, verb) for one in NATIVE for verb in ("create", "patch", "update")},
    ),
    (
        "webhook configurations",
        {"admission": {"enabled": False}},
        "berth-operator",
        {("mutatingwebhookconfigurations", "get"), ("validatingwebhookconfigurations", "get")},
    ),
    ("preemption", {"scheduler": {"rbac": {"preemption": False}}}, "berth-scheduler", {("pods", "delete")}),
    (
        "volumes",
        {"scheduler": {"rbac": {"volumes": False}}},
        "berth-scheduler",
        {("persistentvolumes", "patch"), ("persistentvolumeclaims", "patch")},
    ),
    (
        "devices",
        {"scheduler": {"rbac": {"devices": False}}},
        "berth-scheduler",
        {
            ("resourceclaims", "patch"),
            ("resourceclaims", "create"),
            ("resourceclaims/status", "patch"),
            ("resourceclaims/binding", "patch"),
            ("resourceslices", "list"),
            ("devicetaintrules", "watch"),
        },
    ),
    (
        "pod groups",
        {"scheduler": {"rbac": {"podGroups": False}}},
        "berth-scheduler",
        {
            ("podgroups", "get"),
            ("podgroups", "list"),
            ("podgroups", "watch"),
            ("podgroups/status", "patch"),
        },
    ),
    ("own certificate", {"admission": {"tls": {"mode": "certManager"}}}, "berth-admission", {("secrets", "get")}),
    (
        "metrics",
        {"metrics": {"enabled": False}},
        "berth-operator",
        {("tokenreviews", "create"), ("subjectaccessreviews", "create")},
    ),
]


@pytest.mark.parametrize(("values", "account", "gone"), [case[1:] for case in RIGHTS], ids=[case[0] for case in RIGHTS])
def test_rights_go(
    chart: Chart, default: list[Object], values: Object, account: str, gone: set[tuple[str, str]]
) -> None:
    """What is switched off leaves no right behind."""
    assert gone <= _rules(default, account)
    assert not gone & _rules(chart.objects(values), account)


def test_who_has_its_port_open_knows_who_asks(chart: Chart) -> None:
    """Scheduler and evictor serve health at the port of metrics, which so is open in any case, for those who may."""
    objects = chart.objects({"evictor": {"enabled": True}, "metrics": {"enabled": False}})
    asks = {("tokenreviews", "create"), ("subjectaccessreviews", "create")}
    for component, container in containers(objects).items():
        is_open = "--secure-port=10259" in container["args"]
        assert is_open == (component in ("scheduler", "evictor"))
        assert (asks <= _rules(objects, f"berth-{component}")) == is_open
        assert (("RoleBinding", "kube-system", f"berth-{component}") in keys(objects)) == is_open


def test_the_evictor_reads_devices_and_changes_none(chart: Chart) -> None:
    """The filters that look for another node go by devices: all four kinds are followed, and nothing is written."""
    rules = _rules(chart.objects({"evictor": {"enabled": True}}), "berth-evictor")
    kinds = ("resourceclaims", "resourceslices", "deviceclasses", "devicetaintrules")
    found = {rule for rule in rules if rule[0].startswith(("resource", "device"))}
    assert found == {(kind, verb) for kind in kinds for verb in ("list", "watch")}


def test_leases_wait_with_leases_only(chart: Chart) -> None:
    """Each component that leads has its Lease apart from all other requests, and the scheduler waits as kube-scheduler.

    The Lease's FlowSchema comes first; both come before `service-accounts` (9000), which takes the rest.
    """
    objects = chart.objects(EVERYTHING)
    flows = by_kind(objects, "FlowSchema")
    levels = {name: one["spec"]["priorityLevelConfiguration"]["name"] for name, one in flows.items()}
    leases = {f"berth-{component}-lease" for component in COMPONENTS}
    assert levels == {**dict.fromkeys(leases, "leader-election"), "berth-scheduler": "workload-high"}
    order = {name: one["spec"]["matchingPrecedence"] for name, one in flows.items()}
    assert max(order[name] for name in leases) < order["berth-scheduler"] < 9000
    for name, one in flows.items():
        (rule,) = one["spec"]["rules"]
        (subject,) = rule["subjects"]
        assert subject["serviceAccount"]["name"] == name.removesuffix("-lease")


def test_who_enforces(chart: Chart, default: list[Object]) -> None:
    """Operator and admission server are told alike; without an operator the server judges all policies."""

    def args(objects: list[Object], component: str) -> list[str]:
        found: list[str] = containers(objects)[component]["args"]
        return found

    told = ["--enforcement=auto", "--release=berth", "--owner=berth-operator", "--webhook=zz-berth-admission"]
    assert [arg for arg in args(default, "operator") if arg in told] == told
    assert {"--enforcement=auto", "--release=berth"} <= set(args(default, "admission"))
    alone = chart.objects({"operator": {"enabled": False}})
    webhook = chart.objects({"policy": {"enforcement": "webhook"}})
    for objects in (alone, webhook):
        assert {"--enforcement=webhook", "--release=berth"} <= set(args(objects, "admission"))
    assert "--enforcement=webhook" in args(webhook, "operator")
    unstamped = chart.objects({"policy": {"stamp": False}})
    for component in ("operator", "admission"):
        assert "--no-stamp" not in args(default, component)
        assert "--no-stamp" in args(unstamped, component)
    green = chart.objects({}, "green", "blue")
    assert "--release=green.blue" in args(green, "operator") and "--release=green.blue" in args(green, "admission")
    named = [
        rule["resourceNames"]
        for role in by_kind(green, "ClusterRole").values()
        for rule in role["rules"]
        if rule.get("resources") == ["mutatingadmissionpolicybindings"]
    ]
    assert named == [["green.blue.metadatapolicies.podberth.dev"]]


def test_rights_that_hang_on_values(chart: Chart, default: list[Object]) -> None:
    """A webhook that gives way to the API server follows its binding, another one reads it now and then; a
    heartbeat's Lease hangs on nothing.

    Leader election may be switched off in the ConfigMap of `manifests/`, where no value says so.
    """

    def rules(objects: list[Object], kind: str, name: str) -> list[Object]:
        found: list[Object] = by_kind(objects, kind)[name]["rules"]
        return found

    def watches(objects: list[Object]) -> list[list[str]]:
        found = rules(objects, "ClusterRole", "berth-admission")
        return [rule["verbs"] for rule in found if "mutatingadmissionpolicybindings" in rule["resources"]]

    assert watches(default) == [["get", "list", "watch"]]
    for values in ({"policy": {"enforcement": "webhook"}}, {"operator": {"enabled": False}}):
        assert watches(chart.objects(values)) == [["get"]]

    def beats(objects: list[Object]) -> list[list[str]]:
        found = rules(objects, "Role", "berth-scheduler")
        return [rule["verbs"] for rule in found if rule.get("resourceNames") == ["berth-heartbeat"]]

    assert beats(default) == beats(chart.objects(ALONE)) == [["get", "update"]]


def test_without_an_election_one_runs_and_nobody_waits_for_a_leader(chart: Chart) -> None:
    """A rollout ends the replica before it starts the next one, and no alert asks who holds the Lease."""
    objects = chart.objects({**ALONE, "metrics": {"prometheusRule": {"enabled": True}}})
    kinds = {name: one["spec"]["strategy"]["type"] for name, one in by_kind(objects, "Deployment").items()}
    assert kinds == {
        "berth-scheduler": "Recreate",
        "berth-operator": "RollingUpdate",
        "berth-admission": "RollingUpdate",
    }
    (rule,) = by_kind(objects, "PrometheusRule").values()
    alerts = {one["alert"] for group in rule["spec"]["groups"] for one in group["rules"]}
    assert "BerthWatchStale" in alerts and "BerthNobodyLeads" not in alerts


def test_what_may_be_listed_is_counted(chart: Chart, default: list[Object]) -> None:
    """Each kind of `operator.audit` is one that the operator audits; those that are owners only, are not."""

    def counted(objects: list[Object]) -> list[str]:
        args = containers(objects)["operator"]["args"]
        return [arg.removeprefix("--audit-kind=") for arg in args if arg.startswith("--audit-kind=")]

    assert counted(default) == list(DEFAULT_KINDS)
    widgets = {"group": "example.com", "version": "v1beta1", "resources": ["widgets"]}
    (name,) = counted(chart.objects({"operator": {"audit": [widgets]}}))
    assert resource(name).path("team") == "/apis/example.com/v1beta1/namespaces/team/widgets"
    assert counted(chart.objects({"operator": {"audit": []}})) == []


def test_volumes(chart: Chart) -> None:
    """A directory that a component may write to, or files that an option names, come beside its own volumes."""
    volume, mount = {"name": "flight", "emptyDir": {}}, {"name": "flight", "mountPath": "/var/lib/berth"}
    more = {"extraVolumes": [volume], "extraVolumeMounts": [mount]}
    objects = chart.objects({**dict.fromkeys(COMPONENTS, more), "evictor": {"enabled": True, **more}})
    for name, one in by_kind(objects, "Deployment").items():
        pod = one["spec"]["template"]["spec"]
        assert pod["volumes"][-1] == volume, name
        assert pod["containers"][0]["volumeMounts"][-1] == mount, name


def test_without_an_admission_server(chart: Chart) -> None:
    """Policies without a webhook: nothing of the server is left, and the operator knows that there is none."""
    objects = chart.objects(
        {"admission": {"enabled": False}, "networkPolicy": {"enabled": True, "apiServer": ["::1/128"]}}
    )
    assert not [one for one in objects if "admission" in one["metadata"]["name"]]
    assert "--webhook=" in containers(objects)["operator"]["args"]
    said = chart.refusal({"admission": {"enabled": False}, "policy": {"enforcement": "webhook"}})
    assert "policy.enforcement: webhook: want auto or native" in said
    assert "policy" in chart.refusal({"policy": {"enforcement": "nativ"}})


def test_no_wildcards(chart: Chart) -> None:
    """No rule has a wildcard, and nobody reads all Secrets, or has more of roles than a look at its own."""
    objects = chart.objects(EVERYTHING)
    rules = [rule for one in objects for rule in one.get("rules", []) if one["kind"] in ("Role", "ClusterRole")]
    assert not [rule for rule in rules if "*" in str(rule)]
    owns = [rule for rule in rules if "rbac.authorization.k8s.io" in rule.get("apiGroups", [])]
    assert sorted(own["resourceNames"] for own in owns) == [["berth-admission"], ["berth-operator"]]
    assert all((own["resources"], own["verbs"]) == (["clusterroles"], ["get"]) for own in owns)
    for one in by_kind(objects, "ClusterRole").values():
        assert not [rule for rule in one["rules"] if "secrets" in rule.get("resources", [])]


def test_checksum(chart: Chart, default: list[Object]) -> None:
    """Another configuration rolls the scheduler, and nothing else does."""

    def checksum(objects: list[Object]) -> str:
        template = by_kind(objects, "Deployment")["berth-scheduler"]["spec"]["template"]
        found: str = template["metadata"]["annotations"]["checksum/config"]
        return found

    changed = chart.objects({"scheduler": {"config": {"podMaxBackoffSeconds": 30}}})
    unchanged = chart.objects({"scheduler": {"replicas": 3}})
    assert checksum(changed) != checksum(default)
    assert checksum(unchanged) == checksum(default)


def test_only_the_api_server_reaches_the_webhook(chart: Chart) -> None:
    """The webhook's port has one source; metrics are closed unless somebody is named."""
    policies = by_kind(
        chart.objects({"networkPolicy": {"enabled": True, "apiServer": ["10.0.0.1/32"]}}), "NetworkPolicy"
    )
    source = [{"ipBlock": {"cidr": "10.0.0.1/32"}}]
    assert policies["berth-admission"]["spec"]["ingress"] == [
        {"from": source, "ports": [{"protocol": "TCP", "port": "https"}]}
    ]
    assert policies["berth-scheduler"]["spec"]["ingress"] == []


def test_image(chart: Chart) -> None:
    """A digest goes behind the tag, and is what counts."""
    digest = "sha256:" + "a" * 64
    made = chart.objects({"image": {"repository": "example/berth", "tag": "1", "digest": digest}})
    assert {one["image"] for one in containers(made).values()} == {f"example/berth:1@{digest}"}
