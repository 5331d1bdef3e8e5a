"""What a configuration says of resources and how they are scored (kube-scheduler `apis/config/types_pluginargs.go`)."""

from msgspec import Struct

SHAPE_SCALE = 10
"""Scores in a utilization shape go from 0 to 10."""


class ResourceWeight(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """A resource and its share in the score."""

    name: str
    weight: int = 1


class ShapePoint(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """Utilization 0..100 and the score 0..10 that it gets."""

    utilization: int = 0
    score: int = 0


class RequestedToCapacityRatio(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """The piecewise linear function of utilization."""

    shape: list[ShapePoint] = []


class ScoringStrategy(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """LeastAllocated, MostAllocated or RequestedToCapacityRatio over weighted resources."""

    type: str = ""
    resources: list[ResourceWeight] = []
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None

    def weights(self) -> list[ResourceWeight]:
        """The resources with defaults: cpu 1 and memory 1; a weight of 0 stands for 1."""
        found = self.resources or [ResourceWeight("cpu"), ResourceWeight("memory")]
        return [ResourceWeight(resource.name, resource.weight or 1) for resource in found]

    def check(self, path: str) -> list[str]:
        """Errors (the part of ValidateNodeResourcesFitArgs that is about scoring)."""
        errors = []
        if self.type not in STRATEGIES:
            supported = ", ".join(f'"{name}"' for name in STRATEGIES)
            errors.append(f'{path}.type: Unsupported value: "{self.type}": supported values: {supported}')
        for i, resource in enumerate(self.resources):
            if not 0 <= resource.weight <= 100:
                errors.append(
                    f"{path}.resources[{i}].weight: Invalid value: {resource.weight}: "
                    f"resource weight of {resource.name} not in valid range (0, 100]"
                )
        ratio, where = self.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
        if self.type == "RequestedToCapacityRatio":
            if ratio is None:
                errors.append(f"{where}: Required value: must be specified when type is RequestedToCapacityRatio")
            else:
                errors.extend(check_shape(ratio.shape, f"{where}.shape"))
        elif ratio is not None:
            errors.append(f"{where}: Forbidden: must be nil when type is not RequestedToCapacityRatio")
        return errors


STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")


def check_shape(shape: list[ShapePoint], path: str) -> list[str]:
    """Errors of a utilization shape (validateFunctionShape)."""
    if not shape:
        return [f"{path}: Required value: at least one point must be specified"]
    errors = []
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            value = shape[i].utilization
            errors.append(f"{path}[{i}].utilization: Invalid value: {value}: values must be sorted in increasing order")
            break
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            errors.append(f"{path}[{i}].utilization: Invalid value: {point.utilization}: not in valid range [0, 100]")
        if not 0 <= point.score <= SHAPE_SCALE:
            errors.append(f"{path}[{i}].score: Invalid value: {point.score}: not in valid range [0, {SHAPE_SCALE}]")
    return errors
