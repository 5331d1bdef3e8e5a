"""KubeSchedulerConfiguration: strict, with kube-scheduler's defaults, and errors that name field, value and reason."""

from typing import Any

import pytest

from podberth.framework.config import ConfigError, ProfileConfig, decode, default_configuration, parse_duration
from podberth.framework.profiles import build
from podberth.plugins.registry import IN_TREE
from podberth.plugins.topology_placement_generator import TopologyPlacementGenerator
from tests.builders import Object, configuration

A: Object = {"schedulerName": "a"}


def with_plugins(**points: Any) -> Object:
    return configuration(A | {"plugins": points})


REFUSED: list[tuple[Any, str]] = [
    (None, "Invalid value: want a mapping of kind KubeSchedulerConfiguration, got an empty document"),
    ([], "Invalid value: want a mapping of kind KubeSchedulerConfiguration, got a list"),
    ({}, 'apiVersion: Required value: supported values: "kubescheduler.config.k8s.io/v1"'),
    (configuration(kind="Deployment"), 'kind: Unsupported value: "Deployment"'),
    (configuration(nope=1), "nope: Unknown field"),
    (configuration(A | {"nope": 1}), "profiles[0].nope: Unknown field"),
    (with_plugins(filters={}), "profiles[0].plugins.filters: Unknown field"),
    (with_plugins(filter={"enable": []}), "profiles[0].plugins.filter.enable: Unknown field"),
    (
        with_plugins(filter={"enabled": [{"name": "x", "wait": 1}]}),
        "profiles[0].plugins.filter.enabled[0].wait: Unknown field",
    ),
    (with_plugins(filter={"enabled": [{}]}), "profiles[0].plugins.filter.enabled[0].name: Required value"),
    (configuration(leaderElection={"x": 1}), "leaderElection.x: Unknown field"),
    (configuration(extenders=[{"urlPrefix": "x", "nope": 1}]), "extenders[0].nope: Unknown field"),
    (configuration(extenders=[{}]), "extenders[0].urlPrefix: Required value"),
    (configuration(parallelism="many"), 'parallelism: Invalid value: "many": expected a whole number, got text'),
    (configuration(parallelism=1.5), "parallelism: Invalid value: 1.5: expected a whole number, got a number"),
    (configuration(parallelism=0), "parallelism: Invalid value: 0: should be an integer value greater than zero"),
    (configuration(profiles={}), "profiles: Invalid value: {}: expected a list, got a mapping"),
    (
        with_plugins(filter={"enabled": [{"name": "x", "weight": "2"}]}),
        'profiles[0].plugins.filter.enabled[0].weight: Invalid value: "2": expected',
    ),
    (
        configuration(leaderElection={"leaderElect": "yes"}),
        'leaderElection.leaderElect: Invalid value: "yes": expected true or false, got text',
    ),
    (
        configuration(leaderElection={"leaseDuration": "banana"}),
        'leaderElection.leaseDuration: Invalid value: "banana": not a duration such as 15s',
    ),
    (
        configuration(leaderElection={"leaseDuration": "10s"}),
        'leaderElection.leaseDuration: Invalid value: "10s": must be greater than renewDeadline',
    ),
    (
        configuration(leaderElection={"retryPeriod": "0"}),
        'leaderElection.retryPeriod: Invalid value: "0": must be greater than zero',
    ),
    (
        configuration(percentageOfNodesToScore=101),
        "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
    ),
    (
        configuration(A | {"percentageOfNodesToScore": -1}),
        "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
    ),
    (configuration(podInitialBackoffSeconds=0), "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0"),
    (
        configuration(podMaxBackoffSeconds=0),
        "podMaxBackoffSeconds: Invalid value: 0: must be greater than or equal to PodInitialBackoffSeconds",
    ),
    (configuration(clientConnection={"burst": -1}), "clientConnection.burst: Invalid value: -1: must be non-negative"),
    (configuration(A, A), 'profiles[1].schedulerName: Duplicate value: "a"'),
    (configuration(A, {}), "profiles[1].schedulerName: Required value"),
    (configuration({"schedulerName": ""}), "profiles[0].schedulerName: Required value"),
    (
        configuration(A | {"pluginConfig": [{"name": "x"}, {"name": "x"}]}),
        'profiles[0].pluginConfig[1]: Duplicate value: "x"',
    ),
    (
        configuration(A, {"schedulerName": "b", "plugins": {"queueSort": {"disabled": [{"name": "*"}]}}}),
        "profiles[1].plugins.queueSort: Invalid value: must be the same for all profiles",
    ),
    (
        configuration(extenders=[{"urlPrefix": "x", "prioritizeVerb": "p"}]),
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
    ),
    (
        configuration(extenders=[{"urlPrefix": "x", "prioritizeVerb": "p", "weight": 10**18}]),
        "extenders[0].weight: Invalid value: 1000000000000000000: not in valid range [1-92233720368547]",
    ),
    (
        configuration(extenders=[{"urlPrefix": "x", "bindVerb": "b"}] * 2),
        'extenders: Invalid value: "found 2 extenders implementing bind": only one extender can implement bind',
    ),
    (
        configuration(extenders=[{"urlPrefix": "x", "managedResources": [{"name": "a.b/c"}, {"name": "cpu"}]}]),
        'extenders[0].managedResources[1].name: Invalid value: "cpu": is an invalid extended resource name',
    ),
    (
        configuration(extenders=[{"urlPrefix": "x", "managedResources": [{"name": "a.b/c"}]}] * 2),
        'extenders[1].managedResources[0].name: Invalid value: "a.b/c": duplicate extender managed resource name',
    ),
    (
        configuration(extenders=[{"urlPrefix": "x", "httpTimeout": "5"}]),
        'extenders[0].httpTimeout: Invalid value: "5": not a duration such as 5s',
    ),
]


@pytest.mark.parametrize(("document", "error"), REFUSED, ids=[error[:60] for _, error in REFUSED])
def test_refuses(document: Any, error: str) -> None:
    """One line, which begins with the path of the field."""
    with pytest.raises(ConfigError) as caught:
        decode(document)
    assert str(caught.value).startswith(error)
    assert "\n" not in str(caught.value)


def test_all_wrong_values_are_named_at_once() -> None:
    """Nobody likes to mend a file line by line."""
    with pytest.raises(ConfigError) as caught:
        decode(configuration(A, A, parallelism=0))
    assert len(str(caught.value).splitlines()) == 2


def test_a_long_value_is_shortened() -> None:
    """The line stays a line."""
    with pytest.raises(ConfigError) as caught:
        decode(configuration(parallelism="x" * 500))
    assert len(str(caught.value)) < 200


def test_defaults() -> None:
    """What an almost empty file stands for."""
    config = decode(configuration({}))
    assert config == default_configuration()
    assert config.profiles == [ProfileConfig(scheduler_name="berth")]
    assert (config.parallelism, config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds) == (16, 1, 10)
    election = config.leader_election
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == ("15s", "10s", "2s")
    assert (election.resource_lock, election.resource_name) == ("leases", "berth")
    assert (config.client_connection.qps, config.client_connection.burst) == (50.0, 100)


def test_null_is_absent() -> None:
    """YAML files are full of keys without a value."""
    nulls = configuration(A | {"plugins": None, "pluginConfig": [{"name": "x", "args": None}]}, leaderElection=None)
    assert decode(nulls).profiles[0].plugin_config[0].args == {}


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("15s", 15), ("1m30s", 90), ("1.5h", 5400), ("500ms", 0.5), (".5s", 0.5), ("0", 0), ("-2s", -2), ("1s1s", 2),
        ("", None), ("15", None), ("s", None), ("15 s", None), ("1d", None), ("1e3s", None), (".s", None), ("٣s", None),
        ("2562047h", 2562047 * 3600), ("2562048h", None),
    ],
)  # fmt: skip
def test_durations(text: str, length: float | None) -> None:
    """As time.ParseDuration reads them."""
    found = parse_duration(text)
    assert found == length if length is None else found == pytest.approx(length)


NEAR = [
    (configuration(percentageOfNodesToScores=1), "percentageOfNodesToScores", "percentageOfNodesToScore"),
    (configuration(A | {"schedulername": "b"}), "profiles[0].schedulername", "schedulerName"),
    (with_plugins(multipoint={}), "profiles[0].plugins.multipoint", "multiPoint"),
    (with_plugins(score={"enable": []}), "profiles[0].plugins.score.enable", "enabled"),
    (configuration(extenders=[{"urlPrefix": "x", "filterverb": "f"}]), "extenders[0].filterverb", "filterVerb"),
]


@pytest.mark.parametrize(("document", "path", "meant"), NEAR)
def test_an_unknown_field_names_the_right_one(document: Object, path: str, meant: str) -> None:
    """A typo is answered with the field that was meant."""
    with pytest.raises(ConfigError) as refused:
        decode(document)
    assert str(refused.value) == f"{path}: Unknown field (did you mean {meant}?)"


def test_every_unknown_field_is_named() -> None:
    """Not only the first of them."""
    with pytest.raises(ConfigError) as refused:
        decode(configuration(A | {"x": 1}, y=1))
    assert str(refused.value).splitlines() == ["profiles[0].x: Unknown field", "y: Unknown field"]


def test_points_for_groups_of_pods() -> None:
    """kube-scheduler writes them, empty, into every file; a plugin at the last one can't be honoured."""
    assert decode(with_plugins(placementGenerate={}, placementScore={}, podGroupPostFilter={}))
    asked = with_plugins(podGroupPostFilter={"enabled": [{"name": "DefaultPreemption"}]})
    with pytest.raises(ConfigError, match=r"plugins\.podGroupPostFilter\.enabled: Forbidden: the plugins"):
        build(decode(asked), IN_TREE)


def test_placements_are_off_by_default_as_upstream() -> None:
    """The gate TopologyAwareWorkloadScheduling is alpha: the plugins are there, and a profile has to name them."""
    framework = build(decode(configuration(A)), IN_TREE)["a"]
    assert not framework.placements.wanted
    assert [plugin.name for plugin in framework.profile.plugins("placement_score")] == ["NodeResourcesFit"]
    names = [{"name": "TopologyPlacementGenerator"}, {"name": "PodGroupPodsCount", "weight": 3}]
    asked = with_plugins(
        multiPoint={"enabled": names}, placementScore={"enabled": [{"name": "NodeResourcesFit", "weight": 7}]}
    )
    (framework,) = build(decode(asked), IN_TREE).values()
    assert framework.placements.wanted
    weights = framework.profile.placement_weights
    assert (weights["NodeResourcesFit"], weights["PodGroupPodsCount"]) == (7, 3)
    assert framework.profile.weights["NodeResourcesFit"] == 1


def test_two_plugins_that_generate_placements() -> None:
    """As upstream: one at most."""

    class Other(TopologyPlacementGenerator):
        name = "Other"

    names = [{"name": "TopologyPlacementGenerator"}, {"name": "Other"}]
    asked = with_plugins(placementGenerate={"enabled": names})
    with pytest.raises(ConfigError, match=r"plugins\.placementGenerate: Invalid value: at most one plugin"):
        build(decode(asked), {**IN_TREE, "Other": Other})
