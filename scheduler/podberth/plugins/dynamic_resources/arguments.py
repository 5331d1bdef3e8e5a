"""The arguments of DynamicResources (ValidateDynamicResourcesArgs)."""

from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from podberth.framework.config import FeatureGates, gate_errors, gate_is_on, parse_duration

_USUAL = 600.0
_MOST_STEPS = 1_000_000
GROUP_CLAIMS = "DRAWorkloadResourceClaims"
"""spec.resourceClaims of PodGroups."""
THOUSANDTHS = "DRAFractionalCapacityRange"
"""Ranges of capacity in thousandths. In kube-scheduler 1.37, it is on with --min-compatibility-version=1.37."""


class DynamicResourcesArgs(Struct, forbid_unknown_fields=True, rename="camel", frozen=True):
    """How long allocation and binding may take.

    `filterTimeout` has no effect: a search ends after so many steps, on all nodes together (`plugin.MOST_STEPS`).
    """

    filter_timeout: str | None = None
    binding_timeout: str | None = None
    further_search_steps: int | None = None
    """Where kube-scheduler's search finds nothing on a node, look further for so many steps; kube-scheduler has none
    of this."""
    feature_gates: FeatureGates = None

    def defaulted(self) -> Self:
        """With kube-scheduler's time-outs where there are none."""
        return replace(
            self, filter_timeout=self.filter_timeout or "10s", binding_timeout=self.binding_timeout or "10m0s"
        )

    @property
    def binding_seconds(self) -> float:
        """Seconds that the devices of a claim may take to get ready for binding."""
        found = None if self.binding_timeout is None else parse_duration(self.binding_timeout)
        return _USUAL if found is None else found

    @property
    def group_claims(self) -> bool:
        """Return whether claims of pod groups are heeded."""
        return gate_is_on(self.feature_gates, GROUP_CLAIMS)

    @property
    def thousandths(self) -> bool:
        """Return whether ranges of capacity are counted in thousandths."""
        return gate_is_on(self.feature_gates, THOUSANDTHS)

    def check(self, path: str) -> list[str]:
        """Error lines."""
        errors = gate_errors(self.feature_gates, path, GROUP_CLAIMS, THOUSANDTHS)
        if self.further_search_steps is not None and not 0 <= self.further_search_steps <= _MOST_STEPS:
            wanted = f"must be between 0 and {_MOST_STEPS:,}"
            errors.append(f"{path}.furtherSearchSteps: Invalid value: {self.further_search_steps}: {wanted}")
        for name, text, least, wanted in (
            ("filterTimeout", self.filter_timeout, 0.0, "must be zero or positive"),
            ("bindingTimeout", self.binding_timeout, 1.0, "must be at least 1 second"),
        ):
            if text is None:
                continue
            found = parse_duration(text)
            if found is None:
                errors.append(f'{path}.{name}: Invalid value: "{text}": want a duration such as 10s or 1m30s')
            elif found < least:
                errors.append(f'{path}.{name}: Invalid value: "{text}": {wanted}')
        return errors
