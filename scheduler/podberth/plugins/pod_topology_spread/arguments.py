"""What a configuration says of spreading (kube-scheduler `apis/config/types_pluginargs.go`)."""

from msgspec import Struct

from podberth.framework.config import FeatureGates, gate_errors
from podberth.model import wire
from podberth.plugins.taint_toleration import COMPARING


class PodTopologySpreadArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Constraints for pods that have none of their own: the System's, or a List."""

    default_constraints: list[wire.TopologySpreadConstraint] = []
    defaulting_type: str = "System"
    feature_gates: FeatureGates = None


def errors(args: PodTopologySpreadArgs, path: str) -> list[str]:
    """Errors of the arguments (ValidatePodTopologySpreadArgs)."""
    errors = gate_errors(args.feature_gates, path, COMPARING)
    if args.defaulting_type not in ("System", "List"):
        got = args.defaulting_type
        errors.append(f'{path}.defaultingType: Unsupported value: "{got}": supported values: "System", "List"')
    if args.defaulting_type == "System" and args.default_constraints:
        errors.append(f'{path}.defaultingType: Invalid value: "System": when .defaultConstraints are not empty')
    seen = set()
    for i, constraint in enumerate(args.default_constraints):
        where = f"{path}.defaultConstraints[{i}]"
        if constraint.max_skew <= 0:
            errors.append(f"{where}.maxSkew: Invalid value: {constraint.max_skew}: not in valid range (0, inf)")
        if not constraint.topology_key:
            errors.append(f"{where}.topologyKey: Required value: can not be empty")
        if constraint.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
            errors.append(
                f'{where}.whenUnsatisfiable: Unsupported value: "{constraint.when_unsatisfiable}": '
                'supported values: "DoNotSchedule", "ScheduleAnyway"'
            )
        if constraint.label_selector is not None:
            errors.append(f"{where}.labelSelector: Forbidden: constraint must not define a selector")
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            errors.append(f"{where}: Duplicate value: {key}")
        seen.add(key)
    return errors
