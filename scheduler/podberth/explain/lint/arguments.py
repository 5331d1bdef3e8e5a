"""Finds arguments that nobody reads, plugins that do nothing without them, and weights that have no effect."""

from collections.abc import Iterator, Sequence

from podberth.explain.judging.schema import shown
from podberth.explain.lint.finding import Checked, Finding
from podberth.framework.config import gate_is_on
from podberth.framework.declaration import declaration_of
from podberth.framework.profiles import DEFAULT_MULTI_POINT, field_of
from podberth.model.resources import CORE, is_extended, is_scalar
from podberth.plugins.node_resources import NodeResourcesFitArgs, ResourceWeight
from podberth.plugins.pod_topology_spread import PodTopologySpreadArgs
from podberth.plugins.taint_toleration import COMPARING


def arguments(checked: Checked) -> Iterator[Finding]:
    """Yield pluginConfig entries that have no effect, in whole or in part."""
    for i, plugin in enumerate(checked.config.plugin_config):
        path = f"{checked.path}.pluginConfig[{i}]"
        if plugin.name in checked.registry and not checked.runs(plugin.name):
            yield Finding(
                "args-without-plugin",
                path,
                f"arguments for {plugin.name}, which does not run in this profile",
                "They have no effect. Often the plugin was meant to run, or the entry belongs to another profile.",
                f"Enable {plugin.name} at {checked.path}.plugins.multiPoint, or remove the entry.",
            )
    yield from _fit(checked)
    yield from _balance(checked)
    yield from _affinity(checked)
    yield from _spread(checked)
    yield from _empty(checked)


def _fit(checked: Checked) -> Iterator[Finding]:
    name = "NodeResourcesFit"
    path, args = checked.arguments(name) or ("", None)
    if args is None or not checked.runs(name):
        return
    assert isinstance(args, NodeResourcesFitArgs)
    strategy, where = args.scoring_strategy, f"{path}.scoringStrategy"
    if strategy != NodeResourcesFitArgs().scoring_strategy and not checked.runs(name, "score"):
        yield _no_score(where, name)
    ratio = strategy.requested_to_capacity_ratio
    if ratio is not None and len({point.score for point in ratio.shape}) == 1:
        yield Finding(
            "shape-flat",
            f"{where}.requestedToCapacityRatio.shape",
            "all points of the shape have one score",
            "Every node gets the same from it: the strategy ranks nothing.",
            "Let the score rise with utilization to pack, or fall to spread.",
        )
    yield from _resources(strategy.resources, f"{where}.resources")
    for i, resource in enumerate(args.ignored_resources):
        if not is_extended(resource):
            yield Finding(
                "ignored-resource-counts",
                f"{path}.ignoredResources[{i}]",
                f"{resource} is to be ignored",
                "Only extended resources, which have a domain in their name, can be: this one counts all the same.",
                "Remove it.",
            )


def _balance(checked: Checked) -> Iterator[Finding]:
    path, args = checked.arguments("NodeResourcesBalancedAllocation") or ("", None)
    if args is None:
        return
    yield from _resources(args.resources, f"{path}.resources")
    if len(args.resources) == 1:
        yield Finding(
            "balance-of-one",
            f"{path}.resources",
            f"the use of {args.resources[0].name} alone is to be balanced",
            "One resource is always even with itself: every node gets the same.",
            "Name two resources at least, or disable NodeResourcesBalancedAllocation at score.",
        )


def _resources(resources: Sequence[ResourceWeight], path: str) -> Iterator[Finding]:
    for i, resource in enumerate(resources):
        if resource.name in CORE or is_scalar(resource.name):
            continue
        yield Finding(
            "resource-name-unknown",
            f"{path}[{i}].name",
            f"{shown(resource.name)} is no resource that a pod can ask for",
            "No node has it, so it counts for nothing in the score.",
            "Extended resources have a domain in their name, such as nvidia.com/gpu; the others are cpu, memory, "
            "ephemeral-storage and hugepages-SIZE.",
        )


def _affinity(checked: Checked) -> Iterator[Finding]:
    name = "InterPodAffinity"
    path, args = checked.arguments(name) or ("", None)
    if args is not None and checked.runs(name) and not checked.runs(name, "score"):
        yield _no_score(path, name)


def _spread(checked: Checked) -> Iterator[Finding]:
    name = "PodTopologySpread"
    path, args = checked.arguments(name) or ("", None)
    if args is None or not checked.runs(name):
        return
    assert isinstance(args, PodTopologySpreadArgs)
    for i, constraint in enumerate(args.default_constraints):
        point = "score" if constraint.when_unsatisfiable == "ScheduleAnyway" else "filter"
        if not checked.runs(name, point):
            yield Finding(
                "args-without-effect",
                f"{path}.defaultConstraints[{i}]",
                f"{constraint.when_unsatisfiable} is a matter of {point}, where {name} does not run",
                "The constraint has no effect.",
                f"Enable {name} at {checked.path_of(point)}, or remove the constraint.",
            )


def _empty(checked: Checked) -> Iterator[Finding]:
    """Yield a finding for each plugin that does nothing without arguments."""
    for name, fields in (
        ("ServiceAffinity", "affinityLabels or antiAffinityLabelsPreference"),
        ("ServiceAntiAffinity", "antiAffinityLabelsPreference"),
    ):
        _, args = checked.arguments(name) or ("", checked.registry[name].Args() if name in checked.registry else None)
        if args is not None and checked.runs(name) and args == type(args)():
            yield Finding(
                "plugin-without-args",
                f"{checked.path}.pluginConfig",
                f"{name} runs, and no node label is given for it",
                "It does nothing without.",
                f"Give {fields} in the args of a pluginConfig entry for {name}.",
            )
    if checked.runs("AnnotationAffinity"):
        for name in ("NodeAffinity", "InterPodAffinity"):
            if not checked.runs(name, "filter"):
                yield Finding(
                    "annotation-half-honoured",
                    f"{checked.path}.plugins.filter",
                    f"AnnotationAffinity runs and {name} does not",
                    f"The annotation is read into the pod's affinity; it is {name} that carries it out.",
                    f"Enable {name}.",
                )
    comparing = {name: _compares(checked, name) for name in ("TaintToleration", "PodTopologySpread")}
    if len(set(comparing.values())) > 1 and all(map(checked.runs, comparing)):
        without = next(name for name in comparing if not comparing[name])
        yield Finding(
            "gate-half-on",
            f"{checked.path}.pluginConfig",
            f"{COMPARING} is on in one plugin, and off in {without}",
            "The two plugins count different nodes as tolerated. In kube-scheduler the gate is on in both.",
            f"Switch it on in the args of {without}, too.",
        )


def _compares(checked: Checked, name: str) -> bool:
    _, args = checked.arguments(name) or ("", None)
    return args is not None and gate_is_on(args.feature_gates, COMPARING)


def _no_score(path: str, name: str) -> Finding:
    return Finding(
        "args-without-effect",
        path,
        f"{name} has arguments for scoring, and does not run at score in this profile",
        "The arguments have no effect: nodes are ranked without them.",
        f"Enable {name} at score.",
    )


_USUAL = {ref.name: ref.weight for ref in DEFAULT_MULTI_POINT}


def weights(checked: Checked) -> Iterator[Finding]:
    """Yield findings on weights: where nothing is scored, of 0, and overridden by another one."""
    own = {ref.name: ref.weight for ref in checked.config.plugins.score.enabled}
    for point, path, chosen in checked.sets():
        for i, ref in enumerate(chosen.enabled):
            where = f"{path}.enabled[{i}].weight"
            plugin = checked.registry.get(ref.name)
            as_usual = point == "multi_point" and ref.weight == (_USUAL.get(ref.name) or 0)
            if ref.weight is None or plugin is None or as_usual:
                # kube-scheduler writes every plugin's usual weight into a file, 0 where it has none.
                continue
            scores = "score" in declaration_of(plugin).points
            if ref.weight == 0:
                if scores and (point == "score" or (point == "multi_point" and not own.get(ref.name))):
                    yield _zero(ref.name, where)
            elif not scores:
                yield Finding(
                    "weight-without-score",
                    where,
                    f"{ref.name} has the weight {ref.weight} and does not score nodes",
                    "Weights multiply scores. A plugin that only filters is not made stronger by one.",
                    "Remove the weight.",
                )
            elif point not in ("score", "multi_point"):
                yield Finding(
                    "weight-outside-score",
                    where,
                    f"the weight {ref.weight} of {ref.name} is given at {field_of(point)}",
                    f"Only weights at score and multiPoint count; {_effective(checked, ref.name)}.",
                    f"Move it to {checked.path_of('score')}.enabled.",
                )
            elif point == "multi_point" and own.get(ref.name) not in (None, 0, ref.weight):
                yield Finding(
                    "weight-overridden",
                    where,
                    f"{ref.name} has the weight {ref.weight} here and {own[ref.name]} at score",
                    f"The one at score wins: {_effective(checked, ref.name)}.",
                    "Give it once.",
                )


def _zero(name: str, path: str) -> Finding:
    return Finding(
        "weight-zero",
        path,
        f"{name} has the weight 0",
        "A weight of 0 counts as 1, as in kube-scheduler: the plugin goes on scoring.",
        "To keep it from scoring, name it in plugins.score.disabled.",
    )


def _effective(checked: Checked, name: str) -> str:
    return (
        f"the plugin scores with {checked.profile.weights.get(name, 1)}"
        if checked.runs(name, "score")
        else "the plugin does not run at score in this profile"
    )
